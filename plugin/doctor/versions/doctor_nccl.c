/* Which NCCL libraries there are, and which one a process here would load. */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allreduce/gpu_api.h"
#include "base/nccl_types.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/rules/gpu_code.h"
#include "launch/bounded.h"
#include "launch/library_trust.h"
#include "launch/nccl_files.h"

enum { LOAD_MS = 15000, LIBRARY_MAX = 1 << 30, STRINGS_MAX = 4096, NAME_MAX_LENGTH = 96 };

struct mapped {
    const char *at;
    size_t n;
};

static bool map_file(const char *path, struct mapped *file)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool ok = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
              status.st_size <= LIBRARY_MAX;
    if (ok) {
        void *at = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        ok = at != MAP_FAILED;
        *file = (struct mapped){at, (size_t)status.st_size};
    }
    if (fd >= 0)
        close(fd);
    return ok;
}

int muster_nccl_version_in(const char *path, int *cuda)
{
    static const char mark[] = "NCCL version ";
    struct mapped file;
    int code = 0;
    *cuda = 0;
    if (!map_file(path, &file))
        return 0;
    for (const char *at = file.at; code == 0;) {
        size_t left = file.n - (size_t)(at - file.at);
        const char *found = memmem(at, left, mark, sizeof mark - 1);
        char text[32] = "";
        unsigned major, minor, patch, cuda_major, cuda_minor;
        if (!found)
            break;
        at = found + sizeof mark - 1;
        left = file.n - (size_t)(at - file.at);
        memcpy(text, at, left < sizeof text - 1 ? left : sizeof text - 1);
        text[strspn(text, "0123456789.+cuda")] = '\0'; /* else a number may have a sign */
        int fields = sscanf(text, "%3u.%3u.%3u+cuda%3u.%3u", &major, &minor, &patch, &cuda_major,
                            &cuda_minor);
        if (fields >= 3)
            code = (int)(major * 10000 + minor * 100 + patch);
        if (fields == 5)
            *cuda = (int)(cuda_major * 1000 + cuda_minor * 10);
    }
    munmap((void *)(uintptr_t)file.at, file.n);
    return code;
}

bool muster_nccl_gpu_code(const char *path, struct muster_gpu_code *code)
{
    struct mapped file;
    *code = (struct muster_gpu_code){.n = 0};
    if (!map_file(path, &file))
        return false;
    muster_gpu_code_read(file.at, file.n, code);
    munmap((void *)(uintptr_t)file.at, file.n);
    return code->n || code->ptx;
}

static bool is_name(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

size_t muster_nccl_strings(struct muster_arena *arena, const char *path,
                           const char *const **strings)
{
    static const char mark[] = "NCCL_";
    struct mapped file;
    size_t n = 0;
    if (!map_file(path, &file))
        return 0;
    const char **found = muster_arena_array(arena, STRINGS_MAX, sizeof *found);
    for (const char *at = file.at, *end = file.at + file.n; found && n < STRINGS_MAX;) {
        const char *hit = memmem(at, (size_t)(end - at), mark, sizeof mark - 1);
        const char *stop = hit;
        if (!hit)
            break;
        while (stop < end && is_name(*stop) && stop - hit < NAME_MAX_LENGTH)
            stop++;
        /* a C string of its own: between two zero bytes */
        if ((hit == file.at || hit[-1] == '\0') && stop < end && *stop == '\0')
            found[n++] = muster_arena_text(arena, hit);
        at = stop;
    }
    munmap((void *)(uintptr_t)file.at, file.n);
    if (found)
        qsort(found, n, sizeof *found, compare_strings);
    *strings = found;
    return n;
}

/* NCCL 1 has no version. */
static bool is_first_nccl(const char *path)
{
    void *library = path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
    return library && dlsym(library, "ncclCommInitRank") && !dlsym(library, "ncclGetVersion");
}

static int load_work(void *arg, int fd, struct muster_err *err)
{
    const struct muster_doctor *doctor = arg;
    struct muster_nccl_library library = {.version = 0};
    struct muster_nccl nccl;
    struct link_map *map = NULL;
    if (is_first_nccl(doctor->nccl)) {
        library.version = MUSTER_NCCL_1;
        muster_text_copy_path(library.path, sizeof library.path, doctor->nccl);
        return muster_bounded_write(fd, &library, sizeof library, err);
    }
    if (muster_nccl_open(&nccl, doctor->nccl, err) ||
        muster_nccl_check(&nccl, nccl.version(&library.version), "ncclGetVersion", err))
        return -1;
    if (dlinfo(nccl.library, RTLD_DI_LINKMAP, &map) == 0 && map)
        muster_text_copy_path(library.path, sizeof library.path, map->l_name);
    return muster_bounded_write(fd, &library, sizeof library, err);
}

static int add_library(struct muster_doctor *doctor, const char *path)
{
    char real[PATH_MAX];
    if (!realpath(path, real) || strlen(real) >= sizeof doctor->library[0].path)
        return -1;
    for (int i = 0; i < doctor->libraries; i++)
        if (strcmp(doctor->library[i].path, real) == 0)
            return i;
    if (doctor->libraries == MUSTER_DOCTOR_LIBRARIES)
        return -1;
    muster_text_copy_path(doctor->library[doctor->libraries].path, sizeof doctor->library[0].path,
                          real);
    struct muster_nccl_library *added = &doctor->library[doctor->libraries];
    added->version = muster_nccl_version_in(real, &added->cuda);
    return doctor->libraries++;
}

/* What this machine has is no part of a recorded host. */
static bool is_of_this_machine(const struct muster_doctor *doctor, const char *path)
{
    return doctor->root[0] && (strncmp(path, "/usr/", 5) == 0 || strncmp(path, "/opt/", 5) == 0);
}

static void take_file(void *arg, const char *path)
{
    struct muster_doctor *doctor = arg;
    if (!is_of_this_machine(doctor, path))
        add_library(doctor, path);
}

static void find_all(struct muster_doctor *doctor)
{
    muster_nccl_files(take_file, doctor);
}

static void take_answer(struct muster_doctor *doctor, const char *bytes, size_t n)
{
    struct muster_nccl_library library;
    if (n != sizeof library)
        return;
    memcpy(&library, bytes, n);
    library.path[sizeof library.path - 1] = '\0';
    doctor->loaded = add_library(doctor, library.path);
    if (doctor->loaded >= 0)
        doctor->library[doctor->loaded].version =
            (int)muster_nccl_version_code((uint32_t)library.version);
}

static bool load(struct muster_doctor *doctor)
{
    struct muster_err err;
    char *bytes;
    size_t n;
    if (muster_bounded("NCCL", load_work, doctor, LOAD_MS, &bytes, &n, &err) != 0) {
        muster_text_copy(doctor->not_loaded, sizeof doctor->not_loaded, err.text);
        return false;
    }
    take_answer(doctor, bytes, n);
    free(bytes);
    return true;
}

static bool load_file(struct muster_doctor *doctor, const char *file)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", file);
    doctor->nccl = path;
    bool loaded = load(doctor);
    doctor->nccl = NULL;
    return loaded;
}

/* What a job would load, without loading what is not root's: its version stands in the file. */
static void load_as_root(struct muster_doctor *doctor)
{
    char file[PATH_MAX];
    struct muster_err err;
    bool may = muster_library_may_load("libnccl.so.2", file, sizeof file);
    if (!may)
        doctor->loaded = add_library(doctor, file);
    bool loaded = may && load_file(doctor, "libnccl.so.2");
    find_all(doctor);
    /* In a Python environment. */
    if (may && !loaded && doctor->libraries > 0 &&
        (muster_library_ask(doctor->library[0].path, &err) ||
         !load_file(doctor, doctor->library[0].path)))
        doctor->loaded = 0;
}

void muster_doctor_nccl(struct muster_doctor *doctor)
{
    doctor->loaded = -1;
    if (geteuid() == 0 && !doctor->nccl) {
        load_as_root(doctor);
        return;
    }
    load(doctor);
    find_all(doctor);
}
