#include "chaos.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "fault_folder.h"
#include "fault_hostile.h"
#include "run/run.h"
#include "segment/reap.h"

enum { FILE_LIMIT = 1200 << 10, NAMES = 512, EXIT_LIMIT_S = 2 };

struct scene {
    uint64_t seed, random;
    char run[128], moved[144], tmp[128], next[128], shm[128];
    bool full_disk, full_shm;
    bool mounted_disk, mounted_shm;
    unsigned jobs;
    struct chaos_job *job; /* shared memory */
    struct chaos_tally *tally;
    bool well;
};

static unsigned below(struct scene *scene, unsigned n)
{
    return (unsigned)(hostile_random(&scene->random) % n);
}

/* ---- places ---- */

static bool mount_small(const char *dir, unsigned kib)
{
    char options[64];
    snprintf(options, sizeof(options), "size=%uk,mode=0700", kib);
    return mount("none", dir, "tmpfs", MS_NOSUID | MS_NODEV, options) == 0;
}

static void enlarge(const char *dir)
{
    if (mount("none", dir, "tmpfs", MS_REMOUNT, "size=64m") != 0)
        perror(dir);
}

static void make_places(struct scene *scene, const char *base)
{
    static const unsigned disk_kib[] = {64, 400, 1200, 3000};
    static const unsigned shm_kib[] = {256, 4096, 9216, 12288};
    snprintf(scene->run, sizeof(scene->run), "%s/run", base);
    snprintf(scene->next, sizeof(scene->next), "%s/next", base);
    snprintf(scene->tmp, sizeof(scene->tmp), "%s/tmp", base);
    snprintf(scene->moved, sizeof(scene->moved), "%s/tmp/run", base);
    snprintf(scene->shm, sizeof(scene->shm), "/dev/shm/%s", strrchr(base, '/') + 1);
    mkdir(scene->run, 0700);
    mkdir(scene->tmp, 0700);
    mkdir(scene->shm, 0700);
    scene->full_disk = below(scene, 5) == 0;
    scene->full_shm = below(scene, 5) == 0;
    if (scene->full_disk)
        scene->mounted_disk = mount_small(scene->run, disk_kib[below(scene, 4)]);
    if (scene->full_shm)
        scene->mounted_shm = mount_small(scene->shm, shm_kib[below(scene, 4)]);
    scene->full_shm = scene->mounted_shm;
    scene->tally->full_disks += scene->full_disk;
    scene->tally->full_shms += scene->full_shm;
}

static void remove_tree(const char *path)
{
    folder_empty(path);
    rmdir(path);
}

static void remove_places(struct scene *scene)
{
    if (scene->mounted_disk)
        umount2(scene->run, MNT_DETACH);
    if (scene->mounted_shm)
        umount2(scene->shm, MNT_DETACH);
    remove_tree(scene->run);
    remove_tree(scene->next);
    remove_tree(scene->tmp);
    remove_tree(scene->shm);
}

static void plant_corrupt(struct scene *scene)
{
    struct muster_segment *image = aligned_alloc(64, (sizeof(*image) + 63) / 64 * 64);
    char stem[32];
    unsigned n = image && below(scene, 4) == 0 ? 1 + below(scene, 3) : 0;
    /* A full tmpfs has no room for them. */
    for (unsigned i = 0; i < n && !scene->full_shm; i++) {
        snprintf(stem, sizeof(stem), "corrupt-%u", i);
        hostile_image(image, scene->run, stem);
        size_t bytes = hostile_damage(image, &scene->random);
        hostile_plant(scene->shm, (1u << 30) + i, image, bytes);
        scene->tally->corrupt_segments++;
    }
    free(image);
}

/* ---- jobs ---- */

static void set_environment(const struct scene *scene, const char *run, const char *timing)
{
    unsetenv("RANK");
    unsetenv("MUSTER_CONFIG");
    unsetenv("MUSTER_TRACE");
    setenv("MUSTER_DIR", run, 1);
    setenv("TMPDIR", scene->tmp, 1);
    setenv("MUSTER_SEGMENT_DIR", scene->shm, 1);
    setenv("MUSTER_TIMING", timing, 1);
    setenv("MUSTER_LOG_LEVEL", "error", 1); /* full disks are what it would tell */
}

static void start_job(struct scene *scene, struct chaos_job *job, const char *run)
{
    static const char *const timings[] = {"auto", "light", "channels"};
    const char *timing = timings[below(scene, 3)];
    job->seed = hostile_random(&scene->random);
    job->kill = !job->plain && below(scene, 3) == 0;
    job->kill_us = below(scene, 15000);
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0) {
        job->pid = pid; /* the memory is the child's, too */
        return;
    }
    set_environment(scene, run, timing);
    if (scene->full_disk && !scene->mounted_disk) {
        struct rlimit limit = {FILE_LIMIT, FILE_LIMIT};
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    chaos_job_main(job);
}

static void kill_later(const struct chaos_job *job)
{
    if (!job->kill || job->pid <= 0)
        return;
    nanosleep(&(struct timespec){.tv_nsec = (long)job->kill_us * 1000}, NULL);
    kill(job->pid, SIGKILL);
}

/* `job`: NULL if it is about none. */
__attribute__((format(printf, 4, 5))) static void
complain(struct scene *scene, unsigned *count, const struct chaos_job *job, const char *fmt, ...)
{
    va_list args;
    printf("seed %llu%s%s: ", (unsigned long long)scene->seed,
           scene->full_disk ? ", disk full" : "", scene->full_shm ? ", shm full" : "");
    if (job)
        printf("job of v%u%s: ", job->api, job->kill ? ", killed" : "");
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    (*count)++;
    scene->well = false;
}

static void end_job(struct scene *scene, struct chaos_job *job)
{
    waitpid(job->pid, &job->status, 0);
    job->cut = job->leaves_ns && muster_now_ns() - job->leaves_ns >= EXIT_LIMIT_S * MUSTER_NS_PER_S;
    bool killed = job->kill && WIFSIGNALED(job->status) && WTERMSIG(job->status) == SIGKILL;
    if (job->status != 0 && !killed)
        complain(scene, &scene->tally->harmed, job, "left with %#x", (unsigned)job->status);
    job->kill = killed;
    scene->tally->jobs++;
    scene->tally->killed += killed;
    scene->tally->forks += atomic_load(&job->forks);
    scene->tally->reloads += atomic_load(&job->reloads);
    scene->tally->communicators += atomic_load(&job->communicators);
    scene->tally->operations += atomic_load(&job->done);
}

static void run_jobs(struct scene *scene)
{
    scene->jobs = below(scene, 3) == 0 ? 2 : 1;
    scene->tally->pairs += scene->jobs == 2;
    for (unsigned i = 0; i < scene->jobs; i++)
        start_job(scene, &scene->job[i], scene->run);
    for (unsigned i = 0; i < scene->jobs; i++)
        kill_later(&scene->job[i]);
    for (unsigned i = 0; i < scene->jobs; i++)
        end_job(scene, &scene->job[i]);
}

/* ---- what was reported ---- */

static const struct muster_process *find_process(const struct muster_run *run, pid_t pid)
{
    for (size_t i = 0; i < run->processes; i++)
        if (run->process[i].identity.pid == (uint32_t)pid)
            return &run->process[i];
    return NULL;
}

static void check_job(struct scene *scene, const struct muster_run *run,
                      const struct chaos_job *job)
{
    const struct muster_process *process = find_process(run, job->pid);
    uint64_t begun = atomic_load(&job->begun), done = atomic_load(&job->done);
    uint64_t got = 0, dropped = 0;
    for (unsigned i = 0; process && i < MUSTER_SEG_ROWS; i++)
        if (process->segment->row[i].comm)
            got += process->segment->row[i].count;
    if (process)
        dropped = atomic_load(&process->segment->drops[MUSTER_DROP_NO_SLOT]) +
                  atomic_load(&process->segment->drops[MUSTER_DROP_NO_COMM]);
    scene->tally->dropped += dropped;
    if (got > begun)
        complain(scene, &scene->tally->wrong, job, "%llu operations reported, %llu issued",
                 (unsigned long long)got, (unsigned long long)begun);
    /* Memory of its own dies with a process that is killed or takes too long to write it, and has
     * no way out to a full disk. */
    bool may_be_lost = scene->full_shm && (job->kill || job->cut || scene->full_disk);
    if (may_be_lost)
        return;
    if (got + dropped < done)
        complain(scene, &scene->tally->wrong, job, "%llu operations reported of %llu, %llu dropped",
                 (unsigned long long)got, (unsigned long long)done, (unsigned long long)dropped);
    else
        scene->tally->exact++;
    if (process && job->kill && process->state == MUSTER_PROCESS_RUNNING)
        complain(scene, &scene->tally->wrong, job, "killed, and reported alive");
}

static void check_report(struct scene *scene)
{
    const char *const runs[] = {scene->run, scene->moved};
    struct muster_run_query query = {.run = runs, .runs = 2, .segment_dir = scene->shm};
    struct muster_run run = {0};
    struct muster_err err;
    if (muster_run_load(&query, &run, &err) != 0)
        memset(&run, 0, sizeof(run));
    for (unsigned i = 0; i < scene->jobs; i++)
        check_job(scene, &run, &scene->job[i]);
    for (size_t i = 0; !scene->well && i < run.notes; i++)
        printf("  note: %s\n", run.note[i]);
    muster_run_free(&run);
}

/* ---- what is left ---- */

/* Why a segment of this process is still there; false: it is not. */
static bool stays(const char *dir, pid_t pid, struct muster_err *why)
{
    struct muster_found *found;
    char part[32];
    bool there = false;
    snprintf(part, sizeof(part), "-%d-", (int)pid);
    size_t n = muster_find_segments(dir, &found);
    for (size_t i = 0; i < n; i++)
        if (strstr(found[i].path, part)) {
            there = true;
            if (muster_reap_one(found[i].path, why) >= 0)
                muster_fail(why, "nobody tried");
        }
    muster_found_free(found, n);
    return there;
}

/* Once there is room again the next job puts the dead ones' segments away. */
static void check_leftovers(struct scene *scene)
{
    struct chaos_job *next = &scene->job[CHAOS_JOBS];
    struct muster_err why;
    bool may_leave_part = false;
    /* Who ends while it copies out memory of its own leaves what it has written so far. */
    for (unsigned i = 0; i < scene->jobs; i++)
        may_leave_part |= scene->full_shm && (scene->job[i].kill || scene->job[i].cut);
    if (scene->mounted_disk)
        enlarge(scene->run);
    if (scene->mounted_shm)
        enlarge(scene->shm);
    scene->full_disk = scene->full_shm = false;
    next->plain = true;
    start_job(scene, next, scene->next);
    end_job(scene, next);
    for (unsigned i = 0; i < scene->jobs; i++)
        if (stays(scene->shm, scene->job[i].pid, &why))
            complain(scene, &scene->tally->left, &scene->job[i], "its segment stays: %s", why.text);
    folder_make_old(scene->shm);
    muster_reap(scene->shm);
    char names[NAMES] = "";
    unsigned left = folder_count(scene->shm, false, names, sizeof(names));
    unsigned hidden = folder_count(scene->run, true, names, sizeof(names)) +
                      folder_count(scene->moved, true, names, sizeof(names));
    if (left || (hidden && !may_leave_part))
        complain(
            scene, &scene->tally->left, NULL,
            "%u files in the segment directory and %u in the run directory are left for good:%s",
            left, hidden, names);
}

bool chaos_run(const char *base, uint64_t seed, struct chaos_tally *tally)
{
    struct scene scene = {.seed = seed, .random = seed, .tally = tally, .well = true};
    size_t bytes = (CHAOS_JOBS + 1) * sizeof(*scene.job);
    scene.job = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if ((void *)scene.job == MAP_FAILED)
        abort();
    tally->runs++;
    make_places(&scene, base);
    plant_corrupt(&scene);
    run_jobs(&scene);
    check_report(&scene);
    check_leftovers(&scene);
    remove_places(&scene);
    munmap(scene.job, bytes);
    return scene.well;
}
