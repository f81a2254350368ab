/* Driver, CUDA and NCCL: what is there, what would be loaded, what is known to be bad. */
#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/nccl_types.h"
#include "doctor/rdma/doctor_ports.h"
#include "doctor/rules/known_bad.h"
#include "launch/bounded.h"
#include "launch/library_trust.h"
#include "topology/sysfs.h"

static void print_version(int code, char *text, size_t size)
{
    if (code == MUSTER_NCCL_1)
        snprintf(text, size, "1");
    else if (code)
        muster_nccl_version_text(text, size, (uint32_t)code);
    else
        snprintf(text, size, "unknown version");
}

/* Of release 2.19, of whatever patch. */
static int release(int version)
{
    return version / 100;
}

/* Whether a folder of LD_LIBRARY_PATH holds it: the system's own stands behind a framework's. */
static bool is_put_first(const char *library)
{
    char paths[4096], real[PATH_MAX], *rest;
    snprintf(paths, sizeof paths, "%s", getenv("LD_LIBRARY_PATH") ? getenv("LD_LIBRARY_PATH") : "");
    for (char *folder = strtok_r(paths, ":", &rest); folder; folder = strtok_r(NULL, ":", &rest)) {
        size_t n = realpath(folder, real) ? strlen(real) : 0;
        if (n && strncmp(library, real, n) == 0 && library[n] == '/')
            return true;
    }
    return false;
}

/* A library in LD_PRELOAD, and mostly one in LD_LIBRARY_PATH, comes before the framework's own,
 * which was linked to what a newer one has ("undefined symbol: ncclCommRegister"). */
static void evaluate_older(const struct muster_doctor *doctor, struct muster_check *check)
{
    const struct muster_nccl_library *loaded = &doctor->library[doctor->loaded];
    const char *preload = getenv("LD_PRELOAD");
    char old[32], newer[32];
    bool preloaded = preload && strstr(preload, "libnccl");
    if (!preloaded && !is_put_first(loaded->path))
        return;
    for (int i = 0; i < doctor->libraries; i++) {
        const struct muster_nccl_library *other = &doctor->library[i];
        if (!loaded->version || release(other->version) <= release(loaded->version) ||
            !strstr(other->path, "/nvidia/nccl/"))
            continue;
        print_version(loaded->version, old, sizeof old);
        print_version(other->version, newer, sizeof newer);
        muster_check_worse(check, preloaded ? MUSTER_CHECK_PROBLEM : MUSTER_CHECK_WARNING);
        muster_check_found(check, "NCCL %s is loaded, before the framework's own %s", old, newer);
        muster_check_advice(check,
                            "take %.150s out of LD_LIBRARY_PATH or LD_PRELOAD, or put the "
                            "framework's folder first",
                            loaded->path);
        return;
    }
}

/* Wheels of NCCL for several CUDA write the same file: the last one to be installed is what is
 * there. */
static void evaluate_wheels(const struct muster_doctor *doctor, struct muster_check *check)
{
    for (int i = 0; i < doctor->libraries && check->status == MUSTER_CHECK_OK; i++) {
        char pattern[PATH_MAX];
        const char *path = doctor->library[i].path, *at = strstr(path, "/nvidia/nccl/lib/");
        glob_t found;
        snprintf(pattern, sizeof pattern, "%.*s/nvidia_nccl_cu*.dist-info",
                 at ? (int)(at - path) : 0, path);
        if (!at || glob(pattern, 0, NULL, &found) != 0)
            continue;
        if (found.gl_pathc > 1) {
            muster_check_worse(check, MUSTER_CHECK_WARNING);
            muster_check_found(check, "%zu packages of NCCL, for several CUDA, own one library",
                               found.gl_pathc);
            for (size_t j = 0; j < found.gl_pathc; j++)
                muster_check_evidence(check, "%s", strrchr(found.gl_pathv[j], '/') + 1);
            muster_check_advice(
                check, "uninstall all of them, and install the one of the framework's CUDA "
                       "(\"undefined symbol: nccl...\")");
        }
        globfree(&found);
    }
}

/* No framework of today uses it, and nothing mends it. */
static void evaluate_first(const struct muster_doctor *doctor, struct muster_check *check)
{
    if (muster_doctor_version(doctor) >= MUSTER_NCCL_2)
        return;
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_evidence(check, "it knows one host only, and no GPU after Pascal");
    muster_check_advice(check, "upgrade to NCCL 2, and build the program with it");
}

/* Where nothing else is known: most threads about such versions end with an upgrade. */
static void suspect_age(const struct muster_doctor *doctor, struct muster_check *check,
                        const char *text)
{
    enum { OLD = 20900 }; /* of spring 2021 */
    int version = muster_doctor_version(doctor);
    if (version < MUSTER_NCCL_2 || version >= OLD || check->suspect[0])
        return;
    muster_check_suspect(check,
                         "NCCL %s is older than 2.9 of 2021: what fails with it is mostly "
                         "mended since",
                         text);
    muster_check_advice(check, "try a newer NCCL, or the framework that brings one");
    check->suspect_of = "init_error hang_stuck hang_dead wrong_result slow_transfer";
    check->suspect_weight = 0;
}

static void check_loaded(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "version.nccl", "F34");
    char text[32];
    int seen = 0;
    muster_check_expected(check, "the same version on every rank");
    for (int i = 0; i < doctor->libraries; i++) {
        print_version(doctor->library[i].version, text, sizeof text);
        muster_check_evidence(check, "%s at %s%s", text, doctor->library[i].path,
                              i == doctor->loaded ? " (what is loaded here)" : "");
        for (int j = 0; j < i; j++)
            seen += doctor->library[j].version != doctor->library[i].version;
    }
    if (doctor->loaded < 0) {
        muster_check_unchecked(check, "%.300s", doctor->not_loaded);
    } else {
        print_version(muster_doctor_version(doctor), text, sizeof text);
        muster_check_found(check, "NCCL %s", text);
    }
    const char *preload = getenv("LD_PRELOAD"), *image = getenv("NCCL_VERSION");
    if (preload && strstr(preload, "nccl"))
        muster_check_evidence(check, "LD_PRELOAD=%.200s", preload);
    if (image && doctor->loaded >= 0 && strncmp(image, text, strlen(text)) != 0)
        muster_check_evidence(check,
                              "NCCL_VERSION=%.40s is what the image was built with, not what "
                              "is loaded",
                              image);
    if (doctor->loaded >= 0)
        evaluate_older(doctor, check);
    evaluate_wheels(doctor, check);
    muster_doctor_vllm(doctor, check);
    if (muster_doctor_version(doctor))
        evaluate_first(doctor, check);
    if (check->status == MUSTER_CHECK_OK)
        muster_doctor_preload(doctor, check);
    if (check->status == MUSTER_CHECK_OK && doctor->loaded >= 0)
        suspect_age(doctor, check, text);
    if (seen && doctor->loaded >= 0 && check->status == MUSTER_CHECK_OK) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check, "several versions are installed: see that every rank loads the "
                                   "same. Frameworks may bring another; --nccl PATH judges that");
    }
}

static void check_driver(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "version.driver", "F35,F44");
    const struct muster_nvml *nvml = doctor->survey->nvml;
    char kernel[128];
    muster_check_expected(check, "a driver not on the list of bad ones, of its library's version");
    if (!nvml) {
        muster_check_unchecked(check, "%s", doctor->no_driver);
        return;
    }
    muster_check_found(check, "driver %s, CUDA %d.%d", nvml->driver, nvml->cuda / 1000,
                       nvml->cuda % 1000 / 10);
    for (int i = 0; i < nvml->gpus; i++) {
        const struct muster_bad_driver *bad = muster_known_bad_driver(
            nvml->driver, nvml->gpu[i].name, nvml->gpu[i].link[0].state == MUSTER_NVLINK_ACTIVE);
        if (bad) {
            muster_check_worse(check, MUSTER_CHECK_PROBLEM);
            muster_check_advice(check, "%s; until then NCCL_P2P_DISABLE=1", bad->advice);
            check->explains = bad->explains;
        }
    }
    if (muster_sysfs_line(doctor->sysfs, kernel, sizeof kernel, "module/nvidia/version") &&
        nvml->driver[0] && strcmp(kernel, nvml->driver) != 0) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_evidence(check, "kernel module %s, library %s", kernel, nvml->driver);
        muster_check_advice(check, "reload the module or reboot: it is of another version than the "
                                   "library");
        check->explains = NULL;
    }
}

/* The job started, and hung then. */
static bool hangs_alone(const struct muster_doctor *doctor)
{
    return doctor->symptoms && strstr(doctor->symptoms, "hang_stuck") &&
           !strstr(doctor->symptoms, "init_error");
}

static void check_cuda(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "version.cuda", "F35");
    const struct muster_nvml *nvml = doctor->survey->nvml;
    const char *compat = getenv("LD_LIBRARY_PATH");
    muster_check_expected(check, "a driver that is not older than the CUDA runtime");
    if (!nvml || doctor->loaded < 0) {
        muster_check_unchecked(check, "no driver or no NCCL");
        return;
    }
    int built = doctor->library[doctor->loaded].cuda;
    const char *gap = muster_known_cuda_gap(nvml->cuda, built);
    muster_check_found(check, "%s", gap ? gap : "no gap seen");
    if (built)
        muster_check_evidence(check, "NCCL for CUDA %d.%d, a driver for %d.%d", built / 1000,
                              built % 1000 / 10, nvml->cuda / 1000, nvml->cuda % 1000 / 10);
    if (gap) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_advice(check, "a newer driver, or NCCL for CUDA %d.%d", nvml->cuda / 1000,
                            nvml->cuda % 1000 / 10);
    } else if (muster_known_cuda_minor_gap(nvml->cuda, built)) {
        muster_check_suspect(check, "NCCL was built for CUDA %d.%d, the driver gives %d.%d",
                             built / 1000, built % 1000 / 10, nvml->cuda / 1000,
                             nvml->cuda % 1000 / 10);
        check->suspect_of = hangs_alone(doctor) ? "hang_stuck" : "init_error";
        check->suspect_weight = hangs_alone(doctor) ? 0 : 4; /* behind all that hangs more often */
        muster_check_advice(check, "mostly this works: try a newer driver, or NCCL for CUDA %d.%d",
                            nvml->cuda / 1000, nvml->cuda % 1000 / 10);
    }
    if (compat && strstr(compat, "/compat"))
        muster_check_evidence(check, "forward compatibility is in LD_LIBRARY_PATH: then "
                                     "NCCL_CUMEM_HOST_ENABLE=0");
}

static int load_plugin(void *arg, int fd, struct muster_err *err)
{
    void *library = dlopen(arg, RTLD_NOW | RTLD_LOCAL);
    return library ? muster_bounded_write(fd, "ok", 2, err) : muster_fail(err, "%s", dlerror());
}

/* NCCL loads libnccl-net.so from anywhere unasked, and it need not heed NCCL's own variables. Its
 * being there means little, and nothing where the network needs one. */
static void suspect_net_library(const struct muster_doctor *doctor, struct muster_check *check)
{
    char paths[4096], path[PATH_MAX], magic[4] = "", *rest;
    snprintf(paths, sizeof paths, "%s", getenv("LD_LIBRARY_PATH") ? getenv("LD_LIBRARY_PATH") : "");
    for (char *folder = strtok_r(paths, ":", &rest); folder; folder = strtok_r(NULL, ":", &rest)) {
        snprintf(path, sizeof path, "%s/libnccl-net.so", folder);
        FILE *file = fopen(path, "re");
        bool library = file && fread(magic, 1, sizeof magic, file) == sizeof magic &&
                       memcmp(magic, "\177ELF", sizeof magic) == 0;
        if (file)
            fclose(file);
        if (!library)
            continue;
        muster_check_evidence(check, "%s is loaded unasked", path);
        if (muster_doctor_needs_net_plugin(doctor))
            return;
        check->suspect_of = muster_doctor_several_hosts()
                                ? "hang_stuck init_error slow_transfer path_missing"
                                : "hang_stuck";
        check->suspect_weight = 2;
        muster_check_suspect(check,
                             "NCCL takes the network plugin %.120s: hosts without it, or with "
                             "another one, cannot talk to this one",
                             path);
        muster_check_advice(
            check, "NCCL_NET_PLUGIN=none on all hosts shows whether it is that; of HPC-X's "
                   "plugin NCCL_IBEXT_DISABLE=1 does what NCCL_IB_DISABLE does of NCCL's");
        return;
    }
}

static void check_net_plugin(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "net.plugin", "F63");
    const char *given = muster_env("NCCL_NET_PLUGIN");
    char name[512];
    struct muster_err err;
    size_t n;
    muster_check_expected(check, "what NCCL_NET_PLUGIN names can be loaded");
    if (!given)
        suspect_net_library(doctor, check);
    if (!given || strcmp(given, "none") != 0)
        muster_doctor_profile(doctor, check);
    if (!given || strcmp(given, "none") == 0) {
        muster_check_found(check, "NCCL_NET_PLUGIN names none");
        return;
    }
    bool path = strchr(given, '/') || strstr(given, ".so");
    snprintf(name, sizeof name, path ? "%s" : "libnccl-net-%s.so", given);
    if (muster_library_ask(name, &err)) {
        muster_check_unchecked(check, "%s", err.text);
        return;
    }
    if (muster_bounded("the network plugin", load_plugin, name, 10000, NULL, &n, &err) == 0) {
        muster_check_found(check, "%s loads", name);
        return;
    }
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_found(check, "%.100s does not load", name);
    muster_check_evidence(check, "%s", err.text);
    muster_check_advice(check, "NCCL falls back to its own IB or TCP without an error: install it; "
                               "NCCL_NET makes the failure loud");
}

void muster_doctor_versions(struct muster_doctor *doctor)
{
    check_loaded(doctor);
    muster_doctor_known_nccl(doctor);
    check_driver(doctor);
    check_cuda(doctor);
    check_net_plugin(doctor);
}
