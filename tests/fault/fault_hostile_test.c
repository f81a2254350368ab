/* What others may put into the segment directory: their files, links, and segments made to harm. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "fault_folder.h"
#include "fault_hostile.h"
#include "report/report.h"
#include "report/report_output.h"
#include "run/run.h"
#include "segment/identity.h"
#include "segment/reap.h"
#include "standin.h"

#include <cmocka.h>

enum { STRANGER = 12345, SEEDS = 600, DEADLINE_S = 120 };

struct place {
    char shm[64], run[64];
    struct standin_ledger *ledger;
    _Atomic uint64_t *seed; /* of a child, for the message of its death */
};

static int setup(void **state)
{
    static struct place place;

    strcpy(place.shm, "/dev/shm/muster-hostile-XXXXXX");
    strcpy(place.run, "/tmp/muster-hostile-XXXXXX");
    place.ledger = mmap(NULL, sizeof(*place.ledger) + 64, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!mkdtemp(place.shm) || !mkdtemp(place.run) || (void *)place.ledger == MAP_FAILED)
        return -1;
    pthread_mutex_init(&place.ledger->lock, NULL);
    place.seed = (_Atomic uint64_t *)&place.ledger->note[15];
    *state = &place;
    return 0;
}

static int teardown(void **state)
{
    struct place *place = *state;

    folder_empty(place->shm);
    folder_empty(place->run);
    rmdir(place->shm);
    rmdir(place->run);
    munmap(place->ledger, sizeof(*place->ledger) + 64);
    return 0;
}

static struct muster_segment *new_image(void)
{
    struct muster_segment *image = aligned_alloc(64, (sizeof(*image) + 63) / 64 * 64);
    assert_non_null(image);
    return image;
}

/* --- in a process of its own ----------------------------------------------------------------- */

typedef void child_fn(const struct place *place);

static void die_properly(void)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

    for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
        signal(fatal[i], SIG_DFL);
    alarm(DEADLINE_S);
}

static int status_of(const struct place *place, child_fn *child)
{
    int status;

    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        die_properly();
        setenv("MUSTER_SEGMENT_DIR", place->shm, 1);
        setenv("MUSTER_DIR", place->run, 1);
        child(place);
        exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void in_child(const struct place *place, child_fn *child)
{
    int status = status_of(place, child);
    if (status)
        fail_msg("the child left with %#x at seed %llu", status,
                 (unsigned long long)atomic_load(place->seed));
}

/* Everything a person can ask for, thrown away. */
static void report_on(const struct muster_run_query *query)
{
    struct muster_run run;
    struct muster_view view = {0};
    struct muster_report report;
    struct muster_err err;

    if (muster_run_load(query, &run, &err) != 0)
        return;
    if (muster_view_of_run_aligned(&run, &view, &err) == 0 &&
        muster_report_build(&view, MUSTER_BY_OP, &report, &err) == 0) {
        FILE *out = fopen("/dev/null", "we");
        const struct muster_report_show show = {.rows = MUSTER_ROWS_BOTH};
        muster_report_json(&report, NULL, NULL, out);
        muster_report_csv(&report, &show, out);
        muster_report_text(&report, &show, out);
        fclose(out);
        muster_report_free(&report);
    }
    muster_view_free(&view);
    muster_run_free(&run);
}

static void command_reports(const struct place *place)
{
    (void)place;
    int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(quiet, STDOUT_FILENO);
    dup2(quiet, STDERR_FILENO);
    execl(MUSTER_TEST_COMMAND, "muster", "report", "--live", NULL);
    _exit(94);
}

/* Right, or status 2 because nothing can be read. */
static void expect_command_survives(const struct place *place)
{
    int status = status_of(place, command_reports);
    assert_true(WIFEXITED(status));
    assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2);
}

/* --- hostile segments ------------------------------------------------------------------------ */

static void read_hostile(const struct place *place)
{
    struct muster_segment *image = new_image();
    const char *run = place->run;
    const struct muster_run_query live = {.live = true, .segment_dir = place->shm};
    const struct muster_run_query dead = {.run = &run, .runs = 1, .segment_dir = place->shm};

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint64_t random = seed;
        atomic_store(place->seed, seed);
        alarm(DEADLINE_S); /* of each, not of all: a busy machine takes its time */
        hostile_image(image, place->run, "hostile-1");
        size_t bytes = hostile_damage(image, &random);
        hostile_plant(place->shm, 1u << 30, image, bytes);
        report_on(&live);
        /* By turns as the command puts it away, and as the next job does. */
        if (seed % 2)
            muster_reap(place->shm);
        report_on(&dead);
        folder_empty(place->shm);
        folder_empty(place->run);
    }
    free(image);
}

static void no_damage_harms_a_reader_or_reaper(void **state)
{
    in_child(*state, read_hostile);
}

static void the_command_survives_hostile_segments(void **state)
{
    const struct place *place = *state;
    struct muster_segment *image = new_image();
    uint64_t random = 77;

    for (unsigned round = 0; round < 8; round++) {
        for (unsigned i = 0; i < 6; i++) {
            hostile_image(image, place->run, "hostile-1");
            size_t bytes = hostile_damage(image, &random);
            hostile_plant(place->shm, (1u << 30) + i, image, bytes);
        }
        expect_command_survives(place);
    }
    free(image);
}

/* --- a segment that never stands still ------------------------------------------------------- */

struct restless {
    int fd;
    struct muster_segment *map;
    _Atomic bool stop;
};

static void *change_for_ever(void *memory)
{
    struct restless *restless = memory;
    uint64_t random = 1;
    size_t body = offsetof(struct muster_segment, heartbeat_mono_ns);

    while (!atomic_load(&restless->stop)) {
        struct muster_segment *map = restless->map;
        size_t at = body + hostile_random(&random) % (sizeof(*map) - body - 4096);
        uint64_t noise[512];
        for (unsigned i = 0; i < 512; i++)
            noise[i] = hostile_random(&random);
        /* By write, so that a file that was cut in between costs nothing here. */
        if (pwrite(restless->fd, noise, sizeof(noise), (off_t)at) < 0)
            break;
        if (hostile_random(&random) % 64 == 0 &&
            (ftruncate(restless->fd, 0) != 0 ||
             pwrite(restless->fd, map, sizeof(*map), 0) != (ssize_t)sizeof(*map)))
            break;
    }
    return NULL;
}

static void a_segment_that_never_stands_still_is_given_up(void **state)
{
    const struct place *place = *state;
    struct restless restless = {.map = new_image()};
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[160];
    pthread_t thread;

    hostile_image(restless.map, place->run, "hostile-1");
    hostile_plant(place->shm, 1u << 30, restless.map, sizeof(*restless.map));
    snprintf(path, sizeof(path), "%s/muster-%u-1-%u-1.seg", place->shm, (unsigned)geteuid(),
             1u << 30);
    restless.fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(restless.fd >= 0);
    strcpy(strrchr(path, '.'), ".lock");
    int lock_fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(fcntl(lock_fd, F_SETLK, &lock), 0); /* alive */
    assert_int_equal(pthread_create(&thread, NULL, change_for_ever, &restless), 0);
    for (unsigned i = 0; i < 20; i++)
        expect_command_survives(place);
    atomic_store(&restless.stop, true);
    pthread_join(thread, NULL);
    close(lock_fd);
    close(restless.fd);
    free(restless.map);
}

/* --- where a dead segment wants to go -------------------------------------------------------- */

static void reap_to(const struct place *place, const char *run_dir, const char *stem)
{
    struct muster_segment *image = new_image();

    hostile_image(image, run_dir, stem);
    hostile_plant(place->shm, 1u << 30, image, sizeof(*image));
    free(image);
    muster_reap(place->shm);
}

static void a_dead_segment_is_written_only_to_directories_of_its_user(void **state)
{
    const struct place *place = *state;
    char foreign[96], missing[96], link[96], escape[96];

    if (geteuid() != 0)
        skip();
    snprintf(foreign, sizeof(foreign), "%s/foreign", place->run);
    snprintf(missing, sizeof(missing), "%s/missing", place->run);
    snprintf(link, sizeof(link), "%s/link", place->run);
    snprintf(escape, sizeof(escape), "%s/own", place->run);
    assert_int_equal(mkdir(foreign, 0777), 0);
    assert_int_equal(chown(foreign, STRANGER, STRANGER), 0);
    assert_int_equal(symlink(foreign, link), 0);
    assert_int_equal(mkdir(escape, 0700), 0);

    reap_to(place, foreign, "x");
    reap_to(place, link, "x");
    assert_int_equal(folder_count(foreign, false, NULL, 0), 0);
    reap_to(place, missing, "x");
    assert_int_not_equal(access(missing, F_OK), 0);
    reap_to(place, escape, "../x");
    reap_to(place, escape, "a/b");
    reap_to(place, escape, ".hidden");
    reap_to(place, escape, "");
    reap_to(place, "own", "x");
    assert_int_equal(folder_count(escape, false, NULL, 0), 0);
    assert_int_equal(folder_count(place->run, false, NULL, 0), 3);
    assert_int_equal(folder_count(place->shm, false, NULL, 0), 2); /* it stays until it is old */

    /* Of other pids than this process's: its log says that it is the same directory. */
    char log[128];
    snprintf(log, sizeof(log), "%s/x.log", escape);
    int fd = open(log, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    reap_to(place, escape, "x");
    assert_int_equal(folder_count(escape, false, NULL, 0), 2);
    assert_int_equal(folder_count(place->shm, false, NULL, 0), 0);
    folder_empty(escape);
}

/* --- other users' files and links ------------------------------------------------------------ */

static void a_job(const struct place *place)
{
    static struct standin nccl;

    standin_open(&nccl, 5, place->ledger);
    struct standin_comm *comm = standin_comm_init(
        &nccl, &(struct standin_comm_config){.hash = 0xf00d, .rank = 1, .nranks = 2});
    standin_call_times(comm, &(struct standin_op){.func = "AllReduce", .count = 9}, 40);
    standin_comm_destroy(comm);
    standin_close(&nccl);
}

/* Name, inode, size, owner and times of everything in the directory. */
static uint64_t fingerprint(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    uint64_t sum = 0;

    while (dir && (entry = readdir(dir))) {
        struct stat st;
        uint64_t one = 0;
        if (entry->d_name[0] == '.' ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        one = (uint64_t)st.st_ino * 31 + (uint64_t)st.st_size * 17 + st.st_uid * 13u +
              (uint64_t)st.st_mtim.tv_nsec * 7 + (uint64_t)st.st_mtim.tv_sec * 3 + st.st_mode;
        for (const char *at = entry->d_name; *at; at++)
            one = one * 131 + (unsigned char)*at;
        sum += one;
    }
    if (dir)
        closedir(dir);
    return sum;
}

static void plant_others_files(const struct place *place)
{
    struct muster_segment *image = new_image();
    char from[200], path[160];

    hostile_image(image, place->run, "stolen");
    hostile_plant(place->shm, 7, image, sizeof(*image));
    snprintf(path, sizeof(path), "%s/muster-%u-1-7-1", place->shm, (unsigned)geteuid());
    snprintf(from, sizeof(from), "%s.seg", path);
    assert_int_equal(chown(from, STRANGER, STRANGER), 0);
    snprintf(from, sizeof(from), "%s.lock", path);
    assert_int_equal(chown(from, STRANGER, STRANGER), 0);
    /* Links to a segment of this user elsewhere, a folder and a pipe of a segment's name. */
    hostile_plant(place->run, 8, image, sizeof(*image));
    snprintf(from, sizeof(from), "%s/muster-%u-1-8-1.seg", place->run, (unsigned)geteuid());
    snprintf(path, sizeof(path), "%s/muster-%u-1-8-1.seg", place->shm, (unsigned)geteuid());
    assert_int_equal(symlink(from, path), 0);
    snprintf(path, sizeof(path), "%s/muster-%u-1-9-1.seg", place->shm, (unsigned)geteuid());
    assert_int_equal(symlink(from, path), 0);
    assert_int_equal(lchown(path, STRANGER, STRANGER), 0);
    snprintf(path, sizeof(path), "%s/muster-%u-1-10-1.seg", place->shm, (unsigned)geteuid());
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/muster-%u-1-11-1.seg", place->shm, (unsigned)geteuid());
    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(path, sizeof(path), "%s/muster-%u-1-12-1.lock", place->shm, (unsigned)geteuid());
    assert_int_equal(symlink(from, path), 0);
    free(image);
}

static void other_users_files_and_links_are_refused(void **state)
{
    const struct place *place = *state;
    const struct muster_run_query live = {.live = true, .segment_dir = place->shm};
    struct muster_run run;
    struct muster_err err;

    if (geteuid() != 0)
        skip();
    plant_others_files(place);
    uint64_t before = fingerprint(place->shm);
    assert_int_equal(muster_run_load(&live, &run, &err), -1);
    in_child(place, a_job);
    muster_reap(place->shm);
    expect_command_survives(place);
    assert_int_equal(standin_ledger_count(place->ledger), 40);
    /* Of the job nothing is left here, of theirs nothing was touched. */
    assert_int_equal(fingerprint(place->shm), before);
    char stolen[96];
    snprintf(stolen, sizeof(stolen), "%s/stolen.seg", place->run);
    assert_int_not_equal(access(stolen, F_OK), 0);
}

/* A child knows beforehand what its segment will be called; so does whoever wants to harm it. */
static void a_job_with_its_name_taken(const struct place *place)
{
    char path[200], target[96];
    struct muster_seg_identity identity;
    struct stat ns;

    snprintf(target, sizeof(target), "%s/target", place->run);
    int fd = open(target, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "precious", 8) != 8 || stat("/proc/self/ns/pid", &ns) != 0)
        _exit(93);
    muster_identity_read(&identity);
    snprintf(path, sizeof(path), "%s/muster-%u-%llu-%u-%llu.%s", place->shm, identity.uid,
             (unsigned long long)ns.st_ino, identity.pid, (unsigned long long)identity.start_ticks,
             place->ledger->note[0] ? "seg" : "lock");
    if (symlink(target, path) != 0 || lchown(path, STRANGER, STRANGER) != 0)
        _exit(93);
    a_job(place);
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_size != 8 || lstat(path, &st) != 0 || !S_ISLNK(st.st_mode))
        _exit(92);
    unlink(path);
    unlink(target);
}

static void a_link_in_place_of_a_segment_or_lock_costs_the_live_view_only(void **state)
{
    struct place *place = *state;
    const char *runs = place->run;
    const struct muster_run_query query = {.run = &runs, .runs = 1, .segment_dir = place->shm};
    struct muster_run run;
    struct muster_err err;

    if (geteuid() != 0)
        skip();
    for (place->ledger->note[0] = 0; place->ledger->note[0] < 2; place->ledger->note[0]++) {
        in_child(place, a_job_with_its_name_taken);
        assert_int_equal(folder_count(place->shm, false, NULL, 0), 0);
        assert_int_equal(muster_run_load(&query, &run, &err), 0);
        assert_int_equal(run.processes, 1);
        assert_int_equal(run.process[0].state, MUSTER_PROCESS_FINALIZED);
        muster_run_free(&run);
        folder_empty(place->run);
    }
    assert_int_equal(standin_ledger_count(place->ledger), 80);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_damage_harms_a_reader_or_reaper),
        TEST(the_command_survives_hostile_segments),
        TEST(a_segment_that_never_stands_still_is_given_up),
        TEST(a_dead_segment_is_written_only_to_directories_of_its_user),
        TEST(other_users_files_and_links_are_refused),
        TEST(a_link_in_place_of_a_segment_or_lock_costs_the_live_view_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
