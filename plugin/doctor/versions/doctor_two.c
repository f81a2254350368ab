/* Two NCCLs in one process: communicators of one are handed to the other, which does not know them.
 * Seen in processes that run, else by the names under which programs open it. */
#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/nccl_types.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/rules/proc_text.h"
#include "topology/sysfs.h"

enum {
    LOOK_NS = 300 * 1000 * 1000, /* in maps of all processes of a large host */
    MAPPED_MAX = 4,
};

struct mapped {
    char path[MAPPED_MAX][256];
    int version[MAPPED_MAX];
    int n;
};

static const char *name_version(const struct muster_doctor *doctor, int version)
{
    char text[32] = "of unknown version";
    if (version)
        muster_nccl_version_text(text, sizeof text, (uint32_t)version);
    return muster_arena_text(doctor->memory, text);
}

/* A process' files are those of its own container. */
static int version_of(const struct muster_doctor *doctor, const char *pid, const char *path)
{
    char file[PATH_MAX];
    int cuda;
    snprintf(file, sizeof file, "%s/%.20s/root%s", doctor->procfs, pid, path);
    return muster_nccl_version_in(file, &cuda);
}

static void read_mapped(const struct muster_doctor *doctor, const char *pid, struct mapped *mapped)
{
    char file[PATH_MAX], line[1024], path[256];
    mapped->n = 0;
    snprintf(file, sizeof file, "%s/%.20s/maps", doctor->procfs, pid);
    FILE *maps = fopen(file, "re");
    while (maps && fgets(line, sizeof line, maps)) {
        int known = 0;
        if (!muster_proc_mapped(line, "libnccl.so", path, sizeof path))
            continue;
        while (known < mapped->n && strcmp(mapped->path[known], path) != 0)
            known++;
        if (known == mapped->n && known < MAPPED_MAX)
            muster_text_copy_path(mapped->path[mapped->n++], sizeof mapped->path[0], path);
    }
    if (maps)
        fclose(maps);
    for (int i = 0; i < mapped->n && mapped->n > 1; i++)
        mapped->version[i] = version_of(doctor, pid, mapped->path[i]);
}

static void report_process(const struct muster_doctor *doctor, struct muster_check *check,
                           const char *pid, const struct mapped *mapped)
{
    char name[32] = "";
    bool differs = false;
    muster_sysfs_line(doctor->procfs, name, sizeof name, "%.20s/comm", pid);
    for (int i = 0; i < mapped->n; i++) {
        differs |= mapped->version[i] != mapped->version[0];
        muster_check_evidence(check, "process %s (%s) has NCCL %s: %s", pid, name,
                              name_version(doctor, mapped->version[i]), mapped->path[i]);
    }
    if (!differs)
        return;
    muster_check_worse(check, MUSTER_CHECK_WARNING);
    muster_check_found(check, "a process has two NCCLs of different versions loaded");
    muster_check_advice(
        check, "one NCCL for all of the program: its folder first in LD_LIBRARY_PATH, with "
               "libnccl.so and libnccl.so.2 both leading to it; remove the other package "
               "(conda's nccl beside pip's nvidia-nccl), or LD_PRELOAD the right one. "
               "LD_DEBUG=libs shows which comes first");
}

static void look_at_processes(const struct muster_doctor *doctor, struct muster_check *check)
{
    struct mapped mapped;
    uint64_t end = muster_now_ns() + LOOK_NS;
    DIR *dir = opendir(doctor->procfs);
    for (struct dirent *entry; dir && (entry = readdir(dir)) && check->status == MUSTER_CHECK_OK &&
                               muster_now_ns() < end;) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        read_mapped(doctor, entry->d_name, &mapped);
        if (mapped.n > 1)
            report_process(doctor, check, entry->d_name, &mapped);
    }
    if (dir)
        closedir(dir);
}

/* What dlopen("libnccl.so") gets by LD_LIBRARY_PATH, else as distributions install it. */
static bool find_plain(const struct muster_doctor *doctor, char *real)
{
    static const char *const folders[] = {"usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu",
                                          "usr/lib64", "usr/lib"};
    char paths[4096], file[PATH_MAX], *rest;
    snprintf(paths, sizeof paths, "%s", getenv("LD_LIBRARY_PATH") ? getenv("LD_LIBRARY_PATH") : "");
    for (char *folder = strtok_r(paths, ":", &rest); folder; folder = strtok_r(NULL, ":", &rest)) {
        snprintf(file, sizeof file, "%s/libnccl.so", folder);
        if (realpath(file, real))
            return true;
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(file, sizeof file, "%s/%s/libnccl.so", doctor->root, folders[i]);
        if (realpath(file, real))
            return true;
    }
    return false;
}

/* Programs that open "libnccl.so" beside a library that links libnccl.so.2. */
static void suspect_names(const struct muster_doctor *doctor, struct muster_check *check)
{
    const struct muster_nccl_library *loaded =
        doctor->loaded >= 0 ? &doctor->library[doctor->loaded] : NULL;
    char real[PATH_MAX];
    int cuda;
    if (!loaded || !loaded->version || !find_plain(doctor, real) || strcmp(real, loaded->path) == 0)
        return;
    int plain = muster_nccl_version_in(real, &cuda);
    if (!plain || plain == loaded->version)
        return;
    muster_check_evidence(check, "libnccl.so.2: NCCL %s, %s", name_version(doctor, loaded->version),
                          loaded->path);
    muster_check_evidence(check, "libnccl.so: NCCL %s, %.300s", name_version(doctor, plain), real);
    muster_check_suspect(check,
                         "libnccl.so.2 is NCCL %s, and libnccl.so another one, %s: a program that "
                         "opens both has two",
                         name_version(doctor, loaded->version), name_version(doctor, plain));
    muster_check_advice(check,
                        "ln -s libnccl.so.2 libnccl.so in the folder of %.200s: then both names "
                        "lead to it",
                        loaded->path);
}

/* ".../lib/python3.12/site-packages/nvidia/nccl/lib/X" of pip beside ".../lib/Y" of conda. */
static bool is_beside(const char *pip, const char *conda)
{
    const char *python = strstr(pip, "/lib/python3"), *name = strrchr(conda, '/');
    size_t n = python ? (size_t)(python - pip) + strlen("/lib") : 0;
    return n && strstr(pip, "/nvidia/nccl/lib/") && name && (size_t)(name - conda) == n &&
           strncmp(pip, conda, n) == 0;
}

static void suspect_packages(const struct muster_doctor *doctor, struct muster_check *check,
                             const struct muster_nccl_library *pip,
                             const struct muster_nccl_library *conda)
{
    if (check->suspect[0] || !pip->version || !conda->version || pip->version == conda->version ||
        !is_beside(pip->path, conda->path))
        return;
    muster_check_evidence(check, "pip's: NCCL %s, %s", name_version(doctor, pip->version),
                          pip->path);
    muster_check_evidence(check, "conda's: NCCL %s, %s", name_version(doctor, conda->version),
                          conda->path);
    muster_check_suspect(check,
                         "an environment has NCCL %s of pip and %s of conda: its programs may load "
                         "both",
                         name_version(doctor, pip->version), name_version(doctor, conda->version));
    muster_check_advice(check, "keep the one that the framework was installed with: conda remove "
                               "nccl, or pip uninstall nvidia-nccl-cu12");
}

void muster_doctor_two(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "version.nccl_two", "F34");
    muster_check_expected(check, "one NCCL in a process");
    muster_check_found(check, "no process with two");
    look_at_processes(doctor, check);
    if (check->status != MUSTER_CHECK_OK)
        return;
    suspect_names(doctor, check);
    for (int i = 0; i < doctor->libraries; i++)
        for (int j = 0; j < doctor->libraries; j++)
            suspect_packages(doctor, check, &doctor->library[i], &doctor->library[j]);
}
