/* Which known bugs of the network plugin for EFA and libfabric a job here can meet. */
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor/doctor.h"
#include "doctor/rules/job_log.h"
#include "doctor/rules/known_plugin.h"

enum { PLUGIN_MAX = 256 << 20, MANY_RANKS = 1000 };

/* The plugin logs its version at its start; the words are in its file. */
static int version_in(const char *path)
{
    struct stat status;
    int version = 0, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
        status.st_size <= PLUGIN_MAX) {
        size_t size = (size_t)status.st_size;
        void *at = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (at != MAP_FAILED) {
            version = muster_known_plugin_version(at, size);
            munmap(at, size);
        }
    }
    if (fd >= 0)
        close(fd);
    return version;
}

static int version_among(const char *pattern, char *file, size_t size)
{
    glob_t found;
    int version = 0;
    if (glob(pattern, 0, NULL, &found) != 0)
        return 0;
    for (size_t i = 0; i < found.gl_pathc && !version; i++) {
        version = version_in(found.gl_pathv[i]);
        snprintf(file, size, "%s", found.gl_pathv[i]);
    }
    globfree(&found);
    return version;
}

/* In the order in which NCCL would come upon it: the loader's folders, then the installers' own. */
static int version_of_files(const struct muster_doctor *doctor, char *file, size_t size)
{
    static const char *const folders[] = {"opt/amazon/ofi-nccl/lib*",
                                          "opt/amazon/ofi-nccl/lib/*-linux-gnu",
                                          "opt/amazon/aws-ofi-nccl/lib", "opt/aws-ofi-nccl/lib"};
    const char *given = getenv("LD_LIBRARY_PATH");
    char paths[4096], pattern[PATH_MAX], *rest;
    int version = 0;
    snprintf(paths, sizeof paths, "%s", given ? given : "");
    for (char *folder = strtok_r(paths, ":", &rest); folder && !version;
         folder = strtok_r(NULL, ":", &rest)) {
        snprintf(pattern, sizeof pattern, "%s/libnccl-net*.so", folder);
        version = version_among(pattern, file, size);
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !version; i++) {
        snprintf(pattern, sizeof pattern, "%s/%s/libnccl-net*.so", doctor->root, folders[i]);
        version = version_among(pattern, file, size);
    }
    return version;
}

static unsigned what_it_has(const struct muster_doctor *doctor)
{
    const char *refused = muster_doctor_setting(doctor, "OFI_NCCL_DISABLE_DMABUF");
    bool chosen =
        muster_doctor_setting(doctor, "NCCL_ALGO") || muster_doctor_setting(doctor, "NCCL_PROTO");
    unsigned has = chosen ? MUSTER_PLUGIN_ALGO_SET : 0u;
    has |= refused && strcmp(refused, "1") == 0 ? 0u : MUSTER_PLUGIN_DMABUF;
    return has | (muster_doctor_world() > MANY_RANKS ? MUSTER_PLUGIN_OVER_1000 : 0u);
}

static void name(const struct muster_doctor *doctor, struct muster_check *check, int version,
                 unsigned has)
{
    int nccl = muster_doctor_version(doctor);
    char text[24];
    snprintf(text, sizeof text, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    for (size_t i = 0; i < muster_known_plugin_n; i++)
        if (muster_known_plugin_holds(&muster_known_plugin[i], version, nccl, has))
            muster_check_evidence(check, "%s%s: %s",
                                  muster_known_plugin[i].sure ? "" : "depends on the program: ",
                                  muster_known_plugin[i].what, muster_known_plugin[i].fix);
    const struct muster_known_plugin *bug =
        muster_known_plugin_pick(version, nccl, has, NULL, true);
    if (bug) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check, "aws-ofi-nccl %s %s", text, bug->what);
        check->explains = bug->shows;
    } else if ((bug = muster_known_plugin_pick(version, nccl, has, doctor->symptoms, false))) {
        muster_check_suspect(check, "aws-ofi-nccl %s %.120s, with some programs", text, bug->what);
        check->suspect_of = bug->shows;
        check->suspect_weight = 2;
    }
    if (bug)
        muster_check_advice(check, "%s", bug->fix);
}

void muster_doctor_known_plugin(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "version.plugin", "F63");
    char file[PATH_MAX] = "";
    int version = doctor->log && doctor->log->plugin ? doctor->log->plugin
                                                     : version_of_files(doctor, file, sizeof file);
    muster_check_expected(check, "no aws-ofi-nccl with a known bug that a job here meets");
    if (!version) {
        muster_check_found(check, "no aws-ofi-nccl is seen");
        return;
    }
    muster_check_found(check, "aws-ofi-nccl %d.%d.%d", version / 10000, version / 100 % 100,
                       version % 100);
    muster_check_evidence(check, "as %s says", *file ? file : doctor->log_name);
    name(doctor, check, version, what_it_has(doctor));
}
