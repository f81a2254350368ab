/*
 * A host of hostile files: /sys and /proc as the input says, read by topology and by the doctor's
 * checks of memory, limits, the kernel log, RDMA and PCI, and shown by topo. The input is lines:
 *   PATH=CONTENT   a file ("\n" in CONTENT is a line break, "\xNN" a byte)
 *   PATH>TARGET    a symbolic link
 * below a scratch folder; paths that leave it are left out.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/topo/topo_out.h"
#include "doctor/rdma/doctor_ports.h"
#include "doctor/rules/checks_print.h"
#include "topology/faults.h"
#include "topology/paths.h"
#include "topology/sysfs.h"

enum { FILES_MAX = 400 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char root[64];

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    (void)type;
    if (where->level > 0)
        remove(path);
    return 0;
}

static void clear(void)
{
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void leave(void)
{
    clear();
    rmdir(root);
}

static bool stays_inside(const char *path)
{
    if (*path == '/' || *path == '\0' || strlen(path) > 512)
        return false;
    for (const char *part = path; *part; part += strcspn(part, "/") + (strchr(part, '/') != NULL)) {
        size_t n = strcspn(part, "/");
        if (n == 0 || n > 64 || (part[0] == '.' && n <= 2))
            return false;
    }
    return true;
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (; (text = strstr(text, word)); text += strlen(word))
        n++;
    return n;
}

static void make_folders(char *path)
{
    for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

static void put_file(const char *path, char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    size_t n = 0;
    if (fd < 0)
        return;
    for (const char *at = text; *at; n++) {
        unsigned byte;
        if (at[0] == '\\' && at[1] == 'n') {
            text[n] = '\n';
            at += 2;
        } else if (at[0] == '\\' && at[1] == 'x' && isxdigit((unsigned char)at[2]) &&
                   isxdigit((unsigned char)at[3]) && sscanf(at + 2, "%2x", &byte) == 1) {
            text[n] = (char)byte;
            at += 4;
        } else {
            text[n] = *at++;
        }
    }
    (void)!write(fd, text, n);
    close(fd);
}

static void build(char *text)
{
    int files = 0;
    for (char *rest, *line = strtok_r(text, "\n", &rest); line && files < FILES_MAX;
         line = strtok_r(NULL, "\n", &rest), files++) {
        char path[640], *mark = line + strcspn(line, "=>"), kind = *mark;
        if (kind == '\0')
            continue;
        *mark = '\0';
        if (!stays_inside(line))
            continue;
        snprintf(path, sizeof path, "%s/%s", root, line);
        make_folders(path);
        if (kind == '=')
            put_file(path, mark + 1);
        else if (count(mark + 1, "..") <= count(line, "/") && mark[1] != '/')
            (void)!symlink(mark + 1, path);
    }
}

/* Without muster_doctor_ports, which loads libraries. */
static void fuzz_ports(struct muster_doctor *doctor)
{
    struct muster_doctor_port port[MUSTER_DOCTOR_PORTS];
    int n = muster_doctor_list_ports(doctor, port);
    muster_doctor_roce(doctor, port, n);
    muster_doctor_loss(doctor, port, n);
    muster_doctor_netns(doctor, port, n);
}

static void look(const struct muster_survey *survey, const char *sysfs, const char *procfs)
{
    static struct muster_checks checks;
    static struct muster_faults faults;
    struct muster_visible visible;
    struct muster_arena arena = {0};
    struct muster_doctor doctor = {.memory = &arena,
                                   .checks = &checks,
                                   .survey = survey,
                                   .sysfs = sysfs,
                                   .procfs = procfs,
                                   .devfs = sysfs,
                                   .root = sysfs,
                                   .local_ranks = 1,
                                   .loaded = -1};
    struct muster_causes causes;
    struct muster_err err;
    FILE *out = fopen("/dev/null", "w");
    muster_doctor_environment(&doctor);
    muster_doctor_network(&doctor);
    muster_doctor_mesh(&doctor);
    muster_doctor_driver(&doctor);
    muster_doctor_firewall(&doctor);
    muster_doctor_kernel(&doctor);
    muster_doctor_ranks(&doctor);
    muster_doctor_hca(&doctor);
    muster_doctor_shm(&doctor);
    muster_doctor_limits(&doctor);
    muster_doctor_host(&doctor);
    muster_doctor_kernel_log(&doctor);
    muster_doctor_gpus(&doctor);
    muster_doctor_rdma(&doctor);
    fuzz_ports(&doctor);
    muster_doctor_threads(&doctor);
    muster_doctor_service(&doctor);
    muster_doctor_sharing(&doctor);
    muster_doctor_pcie(&doctor);
    muster_doctor_fabric(&doctor);
    muster_doctor_two(&doctor);
    muster_doctor_runtime(&doctor);
    muster_checks_end(&checks);
    muster_faults_find(survey->machine, &faults);
    muster_visible_gpus(survey->machine, "0,1", NULL, &visible);
    if (out && muster_causes_find(&checks, "hang_stuck,hang_dead", &causes, &err) == 0) {
        muster_checks_text(&checks, &causes, true, out);
        const struct muster_checks_place place = {"fuzz", "fuzz", 3, -1};
        muster_checks_json(&checks, &causes, &place, out);
        muster_topo_text(survey->machine, &faults, &visible, out);
        muster_topo_json(survey->machine, &faults, &visible, out);
    }
    if (out)
        fclose(out);
    muster_arena_free(&arena);
    muster_checks_free(&checks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct muster_survey survey = {0};
    struct muster_err err = {""};
    char sysfs[80], procfs[80], *text = strndup((const char *)data, size);
    if (!root[0]) {
        snprintf(root, sizeof root, "/dev/shm/muster-fuzz-XXXXXX");
        if (!mkdtemp(root))
            abort();
        atexit(leave);
    }
    snprintf(sysfs, sizeof sysfs, "%s/sys", root);
    snprintf(procfs, sizeof procfs, "%s/proc", root);
    setenv("MUSTER_SYSFS", sysfs, 1);
    setenv("MUSTER_PROCFS", procfs, 1);
    if (!text || muster_machine_new(&survey.machine, &err)) {
        free(text);
        return 0;
    }
    build(text);
    if (muster_sysfs_read(survey.machine, sysfs, &err) &&
        strncmp(err.text, sysfs, strlen(sysfs)) != 0 && !strstr(err.text, "PCI devices"))
        abort();
    muster_sysfs_annotate(survey.machine, sysfs);
    look(&survey, sysfs, procfs);
    muster_machine_free(survey.machine);
    free(text);
    clear();
    return 0;
}
