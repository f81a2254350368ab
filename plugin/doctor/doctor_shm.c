/* Room in /dev/shm, who may write there, and who took it. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/rules/proc_text.h"

enum {
    SHM_PER_RANK_MIB = 64, /* segments of 9.6 and 33 MB were seen; 64 MiB fail with two ranks */
    FILES_MAX = 256,
    PROCESSES_MAX = 16384,
    YOUNG_S = 60, /* a job that starts makes its segments before others map them */
    SHOWN = 8,
};

struct file {
    char name[128];
    uint64_t bytes;
    uid_t owner;
    bool used, young;
};

struct files {
    struct file at[FILES_MAX];
    int n;
    int hidden; /* processes whose maps may not be read */
};

static int larger(const void *a, const void *b)
{
    const struct file *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : strcmp(x->name, y->name);
}

static void list_files(const struct muster_doctor *doctor, struct files *files)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/shm", doctor->devfs);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir)) && files->n < FILES_MAX;) {
        struct file *file = &files->at[files->n];
        struct stat status;
        if (strlen(entry->d_name) >= sizeof file->name ||
            fstatat(dirfd(dir), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) ||
            !S_ISREG(status.st_mode))
            continue;
        *file = (struct file){.bytes = (uint64_t)status.st_blocks * 512,
                              .owner = status.st_uid,
                              .young = time(NULL) - status.st_mtime < YOUNG_S};
        muster_text_copy_path(file->name, sizeof file->name, entry->d_name);
        files->n++;
    }
    if (dir)
        closedir(dir);
    qsort(files->at, (size_t)files->n, sizeof *files->at, larger);
}

static void mark_line(struct files *files, const char *line)
{
    const char *name = strstr(line, "/dev/shm/");
    if (!name)
        return;
    name += strlen("/dev/shm/");
    size_t n = strcspn(name, "\n");
    for (int i = 0; i < files->n; i++)
        files->at[i].used |= strncmp(files->at[i].name, name, n) == 0 && !files->at[i].name[n];
}

/* Whatever a process that can be seen maps is in use. */
static void mark_used(const struct muster_doctor *doctor, struct files *files)
{
    char path[PATH_MAX], line[1024];
    int seen = 0;
    DIR *dir = opendir(doctor->procfs);
    for (struct dirent *entry; dir && (entry = readdir(dir)) && seen < PROCESSES_MAX;) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        snprintf(path, sizeof path, "%s/%.20s/maps", doctor->procfs, entry->d_name);
        FILE *maps = fopen(path, "re");
        seen++;
        files->hidden += !maps && errno == EACCES;
        while (maps && fgets(line, sizeof line, maps))
            mark_line(files, line);
        if (maps)
            fclose(maps);
    }
    if (dir)
        closedir(dir);
}

static bool is_of_nccl(const struct file *file)
{
    return strncmp(file->name, "nccl-", 5) == 0;
}

/* Nobody maps it, and no process of its owner could hide. */
static bool is_stale(const struct files *files, const struct file *file)
{
    return !file->used && !file->young && (files->hidden == 0 || file->owner == geteuid());
}

/* "df -B1 /dev/shm" of a recorded host is in shm.df. */
static bool read_room(const struct muster_doctor *doctor, uint64_t *size, uint64_t *left)
{
    char path[PATH_MAX], line[256];
    struct statvfs shm;
    unsigned long long all, used, free_bytes;
    bool found = false;
    snprintf(path, sizeof path, "%s/shm.df", doctor->devfs);
    FILE *recorded = strcmp(doctor->devfs, "/dev") == 0 ? NULL : fopen(path, "re");
    if (recorded) {
        while (!found && fgets(line, sizeof line, recorded))
            found = sscanf(line, "%*s %llu %llu %llu", &all, &used, &free_bytes) == 3;
        fclose(recorded);
        *size = found ? all : 0;
        *left = found ? free_bytes : 0;
        return found;
    }
    snprintf(path, sizeof path, "%s/shm", doctor->devfs);
    if (statvfs(path, &shm))
        return false;
    *left = (uint64_t)shm.f_bavail * shm.f_frsize;
    *size = (uint64_t)shm.f_blocks * shm.f_frsize;
    return true;
}

/* Others may not write: a job need not run as its owner, nor as who examines this host. */
static bool check_mode(const struct muster_doctor *doctor, struct muster_check *check)
{
    char path[PATH_MAX];
    struct stat status;
    snprintf(path, sizeof path, "%s/shm", doctor->devfs);
    if (stat(path, &status) || !S_ISDIR(status.st_mode) || status.st_mode & S_IWOTH)
        return false;
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_found(check, "/dev/shm that users other than its owner may not write");
    muster_check_evidence(check, "mode %o, of user %u", (unsigned)status.st_mode & 07777u,
                          (unsigned)status.st_uid);
    muster_check_advice(check, "chmod 1777 /dev/shm, and mode=1777 where it is mounted");
    return true;
}

/* Enough for the ranks of few GPUs as such, not for what else a job puts there. */
static void suspect_default(const struct muster_doctor *doctor, struct muster_check *check,
                            uint64_t size)
{
    enum { DOCKERS_MIB = 64 }; /* docker's and Kubernetes' own, where nobody chose */
    if (size > (uint64_t)DOCKERS_MIB << 20 || !muster_doctor_container(doctor) ||
        (doctor->local_ranks < 2 && !muster_doctor_several_hosts()))
        return;
    muster_check_suspect(check,
                         "/dev/shm of %u MiB, as a container has where nobody chose it: enough for "
                         "a rank or two, not with data loaders or Ray beside them",
                         (unsigned)(size >> 20));
    muster_check_advice(check, "docker, podman: --ipc=host, or --shm-size=1g; Kubernetes: an "
                               "emptyDir with medium Memory at /dev/shm");
    check->suspect_of = "init_error hang_dead";
    check->suspect_weight = 5; /* before bugs of NCCL that few jobs meet */
}

/* Returns whether there is too little. */
static bool check_room(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "limit.shm", "F27");
    char have[32], want[32];
    uint64_t needed = (uint64_t)doctor->local_ranks * SHM_PER_RANK_MIB << 20, size, left;
    if (!read_room(doctor, &size, &left)) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check, "/dev/shm: %s", strerror(errno));
        muster_check_advice(check,
                            "mount a tmpfs at /dev/shm: NCCL's ranks of one host meet there");
        return true;
    }
    muster_text_bytes(have, sizeof have, size);
    muster_text_bytes(want, sizeof want, needed);
    muster_check_found(check, "/dev/shm of %s", have);
    muster_check_expected(check, "%s free for %u rank%s", want, doctor->local_ranks,
                          doctor->local_ranks == 1 ? "" : "s");
    muster_text_bytes(have, sizeof have, left);
    muster_check_evidence(check, "%s free", have);
    bool is_closed = check_mode(doctor, check);
    if (is_closed)
        return left < needed;
    if (left >= needed) {
        suspect_default(doctor, check, size);
        return false;
    }
    muster_check_worse(check, left < 64u << 20 ? MUSTER_CHECK_PROBLEM : MUSTER_CHECK_WARNING);
    muster_check_advice(
        check, size < needed ? "docker, podman: --shm-size=1g; Kubernetes: an emptyDir with medium "
                               "Memory at /dev/shm; enroot, apptainer: it is the host's own"
                             : "it is full, not small: limit.shm_stale names what fills it");
    return true;
}

/* The command that removes them, as far as it fits. */
static void advise_removal(struct muster_check *check, const struct files *files, bool others)
{
    char command[256];
    struct muster_text text = muster_text_begin(command, sizeof command);
    muster_text_add(&text, "rm --");
    for (int i = 0; i < files->n; i++) {
        const struct file *file = &files->at[i];
        if (!is_stale(files, file) || (!others && !is_of_nccl(file)) ||
            text.used + strlen(file->name) + sizeof " /dev/shm/" > sizeof command)
            continue;
        muster_text_add(&text, " /dev/shm/%s", file->name);
    }
    muster_check_advice(check, "if no job of yours runs: %s", command);
}

static void check_stale(struct muster_doctor *doctor, bool is_short)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "limit.shm_stale", "F27");
    struct files *files = muster_arena_array(doctor->memory, 1, sizeof *files);
    char text[32];
    uint64_t bytes = 0;
    int stale = 0;
    muster_check_expected(check, "no file of a dead job");
    if (!files)
        return;
    list_files(doctor, files);
    mark_used(doctor, files);
    for (int i = 0; i < files->n; i++) {
        const struct file *file = &files->at[i];
        if (!is_stale(files, file) || !(is_short || is_of_nccl(file)))
            continue;
        bytes += file->bytes;
        muster_text_bytes(text, sizeof text, file->bytes);
        if (stale++ < SHOWN)
            muster_check_evidence(check, "/dev/shm/%s of %s: no process maps it", file->name, text);
    }
    muster_text_bytes(text, sizeof text, bytes);
    muster_check_found(check, stale ? "%d files of dead jobs in /dev/shm, %s" : "none", stale,
                       text);
    if (stale) {
        muster_check_worse(check, is_short ? MUSTER_CHECK_PROBLEM : MUSTER_CHECK_WARNING);
        advise_removal(check, files, is_short);
    }
}

void muster_doctor_shm(struct muster_doctor *doctor)
{
    bool is_short = check_room(doctor);
    check_stale(doctor, is_short);
}
