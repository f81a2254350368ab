#include "doctor/survey.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/text.h"
#include "launch/bounded.h"
#include "launch/library_trust.h"
#include "topology/hwloc/hwloc.h"
#include "topology/sysfs.h"

enum { HWLOC_MS = 5000, NVML_MS = 8000 };

const char *muster_sysfs_root(void)
{
    const char *root = muster_env("MUSTER_SYSFS");
    return root ? root : "/sys";
}

const char *muster_procfs_root(void)
{
    const char *root = muster_env("MUSTER_PROCFS");
    return root ? root : "/proc";
}

const char *muster_devfs_root(void)
{
    const char *root = muster_env("MUSTER_DEVFS");
    return root ? root : "/dev";
}

const char *muster_file_root(void)
{
    const char *root = muster_env("MUSTER_ROOT");
    return root ? root : "";
}

static int hwloc_work(void *arg, int fd, struct muster_err *err)
{
    char *xml;
    size_t n;
    (void)arg;
    if (muster_hwloc_live(&xml, &n, err))
        return -1;
    int rc = muster_bounded_write(fd, xml, n, err);
    free(xml);
    return rc;
}

static int nvml_work(void *arg, int fd, struct muster_err *err)
{
    struct muster_nvml *nvml = arg;
    return muster_nvml_read(nvml, err) ? -1 : muster_bounded_write(fd, nvml, sizeof *nvml, err);
}

static int renew(struct muster_machine **machine, struct muster_err *err)
{
    muster_machine_free(*machine);
    *machine = NULL;
    return muster_machine_new(machine, err);
}

/* 1: hwloc is no use here, err has why. */
static int by_hwloc(struct muster_machine *machine, struct muster_err *err)
{
    char *xml;
    size_t n;
    if (muster_library_ask(MUSTER_HWLOC_LIBRARY, err) ||
        muster_bounded("hwloc", hwloc_work, NULL, HWLOC_MS, &xml, &n, err))
        return 1;
    int rc = muster_hwloc_read(machine, "hwloc", xml, n, err) ? 1 : 0;
    free(xml);
    if (rc == 0 && machine->nodes == 0) {
        muster_fail(err, "hwloc shows no PCI devices");
        rc = 1;
    }
    return rc;
}

static int find_tree(struct muster_survey *survey, struct muster_err *err)
{
    struct muster_err why;
    bool foreign = strcmp(muster_sysfs_root(), "/sys") != 0;
    if (renew(&survey->machine, err))
        return -1;
    if (!foreign && by_hwloc(survey->machine, &why) == 0)
        return 0;
    if (renew(&survey->machine, err))
        return -1;
    if (!foreign)
        muster_machine_note(survey->machine, "%.120s; the PCI tree is from /sys", why.text);
    if (muster_sysfs_read(survey->machine, muster_sysfs_root(), &why))
        muster_machine_note(survey->machine, "no PCI tree: %.120s", why.text);
    return 0;
}

/* The driver was in the child, too, and may have written anywhere. */
static bool is_sound(struct muster_nvml *nvml)
{
    if (nvml->gpus < 0 || nvml->gpus > MUSTER_MACHINE_GPUS)
        return false;
    muster_text_clean(nvml->driver, sizeof nvml->driver);
    for (int i = 0; i < nvml->gpus; i++) {
        muster_text_clean(nvml->gpu[i].name, sizeof nvml->gpu[i].name);
        muster_text_clean(nvml->gpu[i].uuid, sizeof nvml->gpu[i].uuid);
        for (int j = 0; j < nvml->gpus; j++)
            if (nvml->p2p[i][j] > MUSTER_P2P_OTHER)
                nvml->p2p[i][j] = MUSTER_P2P_OTHER;
    }
    return true;
}

static void ask_nvml(struct muster_survey *survey)
{
    char *bytes;
    size_t n;
    struct muster_nvml *blank = calloc(1, sizeof *blank);
    if (blank &&
        muster_bounded("NVML", nvml_work, blank, NVML_MS, &bytes, &n, &survey->no_nvml) == 0) {
        if (n == sizeof *survey->nvml && is_sound((struct muster_nvml *)(void *)bytes)) {
            survey->nvml = (struct muster_nvml *)(void *)bytes;
        } else {
            muster_fail(&survey->no_nvml, "NVML gave an answer that makes no sense");
            free(bytes);
        }
    }
    free(blank);
}

static void add_nvml(struct muster_survey *survey)
{
    survey->refused = muster_library_ask(MUSTER_NVML_LIBRARY, &survey->no_nvml) != 0;
    if (!survey->refused)
        ask_nvml(survey);
    if (survey->nvml)
        muster_nvml_annotate(survey->machine, survey->nvml);
    else
        muster_machine_note(survey->machine, "%.140s", survey->no_nvml.text);
}

/* By the first CPU's flags: clouds write what they like into the BIOS's names. Of the same machine
 * as the PCI tree. */
static bool runs_in_hypervisor(void)
{
    char path[PATH_MAX], line[8192];
    bool foreign = strcmp(muster_sysfs_root(), "/sys") != 0, found = false;
    if (foreign != (strcmp(muster_procfs_root(), "/proc") != 0))
        return false;
    snprintf(path, sizeof path, "%s/cpuinfo", muster_procfs_root());
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "flags", strlen("flags")) == 0) {
            found = strstr(line, " hypervisor") != NULL;
            break;
        }
    if (file)
        fclose(file);
    return found;
}

int muster_survey_live(struct muster_survey *survey, struct muster_err *err)
{
    memset(survey, 0, sizeof *survey);
    if (find_tree(survey, err)) {
        muster_survey_free(survey);
        return -1;
    }
    muster_sysfs_annotate(survey->machine, muster_sysfs_root());
    survey->machine->virtual_machine |= runs_in_hypervisor();
    add_nvml(survey);
    return 0;
}

int muster_survey_xml(struct muster_survey *survey, const char *path, struct muster_err *err)
{
    memset(survey, 0, sizeof *survey);
    if (muster_machine_new(&survey->machine, err))
        return -1;
    if (muster_hwloc_read_file(survey->machine, path, err)) {
        muster_survey_free(survey);
        return -1;
    }
    for (int i = 0; i < survey->machine->gpus; i++)
        if (survey->machine->gpu[i].nvlinks < 0)
            muster_machine_note(survey->machine, "no NVLink bandwidths in this file");
    muster_machine_note(survey->machine,
                        "an XML file tells what links do, not what they could: no degraded links");
    return 0;
}

void muster_survey_free(struct muster_survey *survey)
{
    muster_machine_free(survey->machine);
    free(survey->nvml);
    survey->machine = NULL;
    survey->nvml = NULL;
}

int muster_survey_cpus(uint64_t numa)
{
    char list[1024], *at = list;
    cpu_set_t allowed;
    int n = 0;
    if (numa == 0 || (numa & (numa - 1)) || sched_getaffinity(0, sizeof allowed, &allowed) ||
        !muster_sysfs_line(muster_sysfs_root(), list, sizeof list,
                           "devices/system/node/node%d/cpulist", __builtin_ctzll(numa)))
        return -1;
    while (*at) {
        char *end;
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (end == at)
            break;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            n += CPU_ISSET(cpu, &allowed) != 0;
        at = *end == ',' ? end + 1 : end;
    }
    return n;
}
