/* Two things of versions that do not go together, each of which is fine with others. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "doctor/doctor.h"
#include "topology/sysfs.h"

struct release {
    unsigned major, minor;
};

static bool is_before(struct release a, unsigned major, unsigned minor)
{
    return a.major < major || (a.major == major && a.minor < minor);
}

/* What stands behind a word: "hpcx-v2.17.1" is 2.17 behind "hpcx-v". */
static bool read_release(const char *text, const char *word, struct release *release)
{
    const char *at = text ? strstr(text, word) : NULL;
    return at && sscanf(at + strlen(word), "%4u.%4u", &release->major, &release->minor) == 2;
}

/* aws-ofi-nccl#584: libfabric of installers before 1.29 asks of memory what NCCL's cuMem memory
 * does not know. */
static void check_efa(const struct muster_doctor *doctor, struct muster_check *check, char *text)
{
    enum { WITH_CUMEM = 21900 };
    char path[PATH_MAX];
    struct release installer;
    const char *sync = muster_env("FI_EFA_SET_CUDA_SYNC_MEMOPS");
    snprintf(path, sizeof path, "%s/opt/amazon/efa_installed_packages", doctor->root);
    if (muster_doctor_entries(doctor->sysfs, "class/infiniband") == 0 ||
        !muster_doctor_read_file(path, text) ||
        !read_release(text, "EFA installer version: ", &installer))
        return;
    muster_check_evidence(check, "EFA installer %u.%u", installer.major, installer.minor);
    if (!is_before(installer, 1, 29) || muster_doctor_version(doctor) < WITH_CUMEM ||
        (sync && strcmp(sync, "0") == 0))
        return;
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_found(
        check, "libfabric of EFA installer %u.%u does not know the memory of NCCL 2.19 and later",
        installer.major, installer.minor);
    muster_check_advice(check,
                        "EFA installer 1.29 or later, FI_EFA_SET_CUDA_SYNC_MEMOPS=0, or NCCL 2.18 "
                        "(aws-ofi-nccl#584)");
}

/* nccl-tests#200: HPC-X 2.15 and later are built for MLNX_OFED 23, and hung on 5.8, where 2.14 did
 * not. */
static void check_hpcx(const struct muster_doctor *doctor, struct muster_check *check)
{
    char text[64];
    struct release hpcx, ofed;
    const char *paths[] = {muster_env("HPCX_HOME"), muster_env("HPCX_DIR"),
                           muster_env("LD_LIBRARY_PATH")};
    bool known = false;
    for (size_t i = 0; i < sizeof paths / sizeof *paths && !known; i++)
        known = read_release(paths[i], "hpcx-v", &hpcx);
    if (!known ||
        !muster_sysfs_line(doctor->sysfs, text, sizeof text, "module/mlx5_core/version") ||
        sscanf(text, "%4u.%4u", &ofed.major, &ofed.minor) != 2)
        return;
    muster_check_evidence(check, "HPC-X %u.%u, OFED %s", hpcx.major, hpcx.minor, text);
    if (is_before(hpcx, 2, 15) || !is_before(ofed, 23, 0) || is_before(ofed, 4, 0))
        return;
    muster_check_worse(check, MUSTER_CHECK_WARNING);
    muster_check_found(check, "HPC-X %u.%u is built for a newer MLNX_OFED than %s", hpcx.major,
                       hpcx.minor, text);
    muster_check_advice(check, "the HPC-X of that OFED (2.14 for 5.8), or a newer OFED; "
                               "NCCL_NET_PLUGIN=none leaves HPC-X's plugin out");
}

/* cluster-toolkit#4725: Google's gIB plugin is built for NCCL 2.23 and later; images bring older
 * ones. */
static void check_gib(const struct muster_doctor *doctor, struct muster_check *check)
{
    enum { FIRST_WITH_GIB = 22300 };
    int version = muster_doctor_version(doctor);
    const char *paths = muster_env("LD_LIBRARY_PATH");
    if (!paths || !strstr(paths, "/gib/lib") || !version || version >= FIRST_WITH_GIB)
        return;
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_found(check,
                       "the gIB plugin in LD_LIBRARY_PATH needs NCCL 2.23, and this is "
                       "2.%d.%d",
                       version / 100 % 100, version % 100);
    muster_check_advice(check, "the libnccl.so of gIB's own folder before the image's, or a newer "
                               "image (cluster-toolkit#4725)");
}

static bool is_there(const struct muster_doctor *doctor, const char *folder)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s/libfabric.so.1", doctor->root, folder);
    return access(path, F_OK) == 0;
}

/* aws-ofi-nccl#241: that plugin was built with EFA's libfabric, and the system's was older. */
static void suspect_second_libfabric(const struct muster_doctor *doctor, struct muster_check *check)
{
    static const char *const systems[] = {"usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu",
                                          "usr/lib64"};
    const char *own = is_there(doctor, "opt/amazon/efa/lib")     ? "/opt/amazon/efa/lib"
                      : is_there(doctor, "opt/amazon/efa/lib64") ? "/opt/amazon/efa/lib64"
                                                                 : NULL;
    if (!own || muster_doctor_entries(doctor->sysfs, "class/infiniband") == 0)
        return;
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        if (!is_there(doctor, systems[i]))
            continue;
        muster_check_suspect(check,
                             "there is a second libfabric in /%s beside EFA's: the network plugin "
                             "may load it, and it may be older than what the plugin needs",
                             systems[i]);
        muster_check_advice(check,
                            "%s first in LD_LIBRARY_PATH, or take the system's libfabric away; "
                            "fi_info --version tells them apart (aws-ofi-nccl#241)",
                            own);
        check->suspect_of = "init_error hang_stuck slow_transfer";
        check->suspect_weight = 3; /* before bugs of NCCL of many versions */
        return;
    }
}

void muster_doctor_pairs(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "version.pairs", "F34,F63");
    char *text = muster_doctor_room(doctor);
    muster_check_expected(check, "versions that go together");
    muster_check_found(check, "nothing known");
    if (!text)
        return;
    check_efa(doctor, check, text);
    check_hpcx(doctor, check);
    check_gib(doctor, check);
    suspect_second_libfabric(doctor, check);
}
