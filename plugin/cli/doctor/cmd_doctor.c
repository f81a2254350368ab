/* `muster doctor`: what on this host would spoil a job. */
#include "doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allreduce/allreduce.h"
#include "base/host.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/doctor/cmd_doctor.h"
#include "cli/progress.h"
#include "doctor/rules/causes.h"
#include "doctor/rules/checks_print.h"
#include "doctor/rules/doctor_compare.h"
#include "doctor/rules/job_log.h"
#include "topology/sysfs.h"

enum { REPORT_MAX = 16 << 20 };

static const char *const formats[] = {"text", "json", NULL};

static const struct muster_opt options[] = {
    {"format", 'f', MUSTER_OPT_CHOICE, offsetof(struct doctor_options, format), "FORMAT", formats,
     .help = "text or json (text)"},
    {"all", 'a', MUSTER_OPT_FLAG, offsetof(struct doctor_options, all),
     .help = "show what is well and what could not be checked, too"},
    {"active", 0, MUSTER_OPT_FLAG, offsetof(struct doctor_options, active),
     .help = "test the paths between GPUs even if they are in use"},
    {"passive", 'p', MUSTER_OPT_FLAG, offsetof(struct doctor_options, passive),
     .help = "no tests on GPUs"},
    {"nccl", 0, MUSTER_OPT_TEXT, offsetof(struct doctor_options, nccl), "PATH",
     .help = "libnccl.so.2 that the job will load (default: the loader's, else a Python "
             "environment's)"},
    {"only", 0, MUSTER_OPT_TEXT, offsetof(struct doctor_options, only), "CHECKS",
     .help = "only these: ids, or what they have before the dot, separated by commas"},
    {"symptom", 's', MUSTER_OPT_TEXT, offsetof(struct doctor_options, symptom), "WORDS",
     .help =
         "what a job here showed: kinds of findings (hang_stuck, slow_transfer...), init_error or "
         "wrong_result, separated by commas; causes of these come first, and what differs between "
         "hosts that may be one"},
    {"log", 'l', MUSTER_OPT_TEXT, offsetof(struct doctor_options, log), "FILE",
     .help = "what the job printed (NCCL_DEBUG=INFO, an error, dmesg), - for standard input: its "
             "lines say what failed, and what on this host, or between --hosts, fits them comes "
             "first"},
    {"hosts", 0, MUSTER_OPT_FLAG, offsetof(struct doctor_options, hosts),
     .help = "all hosts of a job: those named, or those of the launcher that started this on each"},
    {"quick", 0, MUSTER_OPT_FLAG, offsetof(struct doctor_options, quick),
     .help = "--hosts without bandwidth and loss"},
    {"with", 0, MUSTER_OPT_TEXT, offsetof(struct doctor_options, with), "LAUNCHER",
     .help = "how --hosts starts muster on a host, {} for its name (ssh -o BatchMode=yes {})"},
    {"command", 0, MUSTER_OPT_TEXT, offsetof(struct doctor_options, command), "PATH",
     .help = "muster on these hosts (the path of this one)"},
    {"share", 0, MUSTER_OPT_TEXT, offsetof(struct doctor_options, share), "DIR",
     .help = "where processes of one launcher meet, a folder that all hosts see (.)"},
    {"rendezvous", 0, MUSTER_OPT_TEXT, offsetof(struct doctor_options, rendezvous), "HOST:PORT",
     .help = "or the first process's host and a port of it, to which the others connect "
             "(MASTER_ADDR and the port behind MASTER_PORT, where set)"},
    {"as", 0, MUSTER_OPT_TEXT, offsetof(struct doctor_options, as), "N",
     .help = "this is host N of --hosts, which starts muster so"},
    {.name = NULL},
};

static unsigned count_ranks(const struct muster_survey *survey)
{
    static const char *const names[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"};
    uint64_t n;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text && muster_text_u64(text, &n) && n > 0 && n <= 4096)
            return (unsigned)n;
    }
    return survey->machine->gpus ? (unsigned)survey->machine->gpus : 1;
}

/* This one, or the one that MUSTER_PROCFS is from. */
void muster_doctor_host_read(struct muster_host *host)
{
    char name[64], boot[64];
    const char *given = getenv("NCCL_HOSTID");
    muster_host_read(host, given);
    if (strcmp(muster_procfs_root(), "/proc") == 0 ||
        !muster_sysfs_line(muster_procfs_root(), name, sizeof name, "sys/kernel/hostname"))
        return;
    muster_sysfs_line(muster_procfs_root(), boot, sizeof boot, "sys/kernel/random/boot_id");
    muster_text_copy(host->name, sizeof host->name, name);
    if (!given || !*given)
        snprintf(host->id, sizeof host->id, "%s %s", name, boot);
}

void muster_doctor_print(const struct muster_checks *checks, const struct muster_causes *causes,
                         bool all, const char *more)
{
    struct muster_terminal_page page;
    muster_terminal_page_begin(&page);
    muster_checks_text(checks, causes, all, page.out);
    fputs(more, page.out);
    muster_terminal_page_end(&page);
}

static int print(const struct doctor_options *given, const char *symptoms,
                 struct muster_checks *checks, FILE *out, struct muster_err *err)
{
    struct muster_host host;
    struct muster_hosts_place place;
    struct muster_causes causes;
    if (given->only && muster_checks_keep(checks, given->only, err))
        return -1;
    if (muster_causes_find(checks, symptoms, &causes, err))
        return -1;
    muster_doctor_host_read(&host);
    muster_hosts_place_read(&place);
    if (given->format == MUSTER_DOCTOR_JSON)
        muster_checks_json(
            checks, &causes,
            &(struct muster_checks_place){host.name, host.id, place.rank, place.local_rank}, out);
    else
        muster_doctor_print(checks, &causes, given->all, "");
    return muster_checks_exit(checks);
}

/* Whether a test on GPUs is among what was asked for. */
static bool wants_tests(const struct doctor_options *given)
{
    return !given->only || strstr(given->only, "p2p") || strstr(given->only, "allreduce");
}

/* What the job printed, into `doctor`, and the symptoms that it proves, where none is given. */
static int take_log(const struct doctor_options *given, struct muster_arena *memory,
                    struct muster_doctor *doctor, struct muster_err *err)
{
    enum { WORDS = 256 };
    struct muster_job_log *log = muster_arena_array(memory, 1, sizeof *log);
    char *words = muster_arena_array(memory, WORDS, 1);
    if (muster_arena_check(memory, err, "the log") || !log || !words ||
        muster_doctor_log_read(given->log, log, err))
        return -1;
    doctor->log = log;
    doctor->log_name = strcmp(given->log, "-") == 0 ? "standard input" : given->log;
    if (!given->symptom)
        muster_job_log_symptoms(log, words, WORDS);
    if (*words)
        doctor->symptoms = words;
    return 0;
}

static int examine(const struct doctor_options *given, struct muster_doctor *doctor,
                   struct muster_arena *memory, FILE *out, struct muster_err *err)
{
    struct muster_survey *survey = muster_arena_array(memory, 1, sizeof *survey);
    if (muster_arena_check(memory, err, "the survey") || !survey ||
        (given->log && take_log(given, memory, doctor, err)) || muster_survey_live(survey, err))
        return -1;
    doctor->survey = survey;
    doctor->local_ranks = count_ranks(survey);
    struct muster_progress *progress = muster_progress_begin("doctor", "looking at this host", 0);
    int status = muster_doctor_examine(doctor, err);
    muster_progress_end(progress);
    if (status == 0)
        status = print(given, doctor->symptoms, doctor->checks, out, err);
    muster_checks_free(doctor->checks);
    muster_survey_free(survey);
    return status;
}

int muster_doctor_report(const struct doctor_options *given, FILE *out, struct muster_err *err)
{
    struct muster_arena memory = {0};
    struct muster_checks *checks = muster_arena_array(&memory, 1, sizeof *checks);
    struct muster_doctor *doctor = muster_arena_array(&memory, 1, sizeof *doctor);
    int status = muster_arena_check(&memory, err, "the checks");
    if (status == 0 && checks && doctor) {
        *doctor = (struct muster_doctor){
            .checks = checks,
            .sysfs = muster_sysfs_root(),
            .procfs = muster_procfs_root(),
            .devfs = muster_devfs_root(),
            .root = muster_file_root(),
            .nccl = given->nccl,
            .symptoms = given->symptom,
            .activity = given->passive || !wants_tests(given) ? MUSTER_DOCTOR_PASSIVE
                        : given->active                       ? MUSTER_DOCTOR_ACTIVE
                                                              : MUSTER_DOCTOR_AUTO,
        };
        status = examine(given, doctor, &memory, out, err);
    }
    muster_arena_free(&memory);
    return status;
}

static int add_file(struct muster_comparison *comparison, const char *path, struct muster_err *err)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = -1;
    char *text = NULL;
    if (fd < 0 || fstat(fd, &status)) {
        muster_fail(err, "%s: %s", path, strerror(errno));
    } else if (!S_ISREG(status.st_mode) || status.st_size > REPORT_MAX) {
        muster_fail(err, "%s: not a regular file of at most 16 MiB", path);
    } else if (!(text = malloc((size_t)status.st_size + 1))) {
        muster_fail_memory(err, path);
    } else {
        ssize_t n = read(fd, text, (size_t)status.st_size);
        rc = n < 0 ? muster_fail(err, "%s: %s", path, strerror(errno))
                   : muster_comparison_add(comparison, path, text, (size_t)n, err);
    }
    free(text);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int compare(char *const *files, int n, const struct doctor_options *given,
                   struct muster_err *err)
{
    struct muster_comparison *comparison = muster_comparison_new(err);
    int rc = comparison ? 0 : -1;
    if (rc == 0)
        muster_comparison_explain(comparison, given->symptom);
    for (int i = 0; i < n && rc == 0; i++)
        rc = add_file(comparison, files[i], err);
    if (rc == 0 && given->format == MUSTER_DOCTOR_JSON) {
        rc = muster_comparison_print(comparison, true, stdout, err);
    } else if (rc == 0) {
        struct muster_terminal_page page;
        muster_terminal_page_begin(&page);
        rc = muster_comparison_print(comparison, false, page.out, err);
        muster_terminal_page_end(&page);
    }
    muster_comparison_free(comparison);
    return rc;
}

static int run(const struct muster_cmd *self, int argc, char **argv)
{
    struct doctor_options given = {0};
    struct muster_err err;
    int status, rc;
    if (muster_allreduce_is_rank(argc, argv))
        return muster_allreduce_rank(argv[argc - 1]);
    int at = muster_opt_parse(self, argc, argv, &given, &status);
    if (at < 0)
        return status;
    if (muster_symptoms_check(given.symptom, &err))
        return muster_opt_wrong(self, "%s", err.text);
    if (given.log && !given.hosts && (given.as || at < argc))
        return muster_opt_wrong(self, "--log is for this host or --hosts, not for compare");
    if (given.active && given.passive)
        return muster_opt_wrong(self, "--active and --passive exclude each other");
    if (given.hosts || given.as)
        return muster_doctor_hosts(self, &given, argv + at, argc - at);
    if (at < argc && strcmp(argv[at], "compare") != 0)
        return muster_opt_wrong(self, "unexpected \"%s\"", argv[at]);
    if (at < argc && argc - at < 3)
        return muster_opt_wrong(self, "compare needs two or more reports");
    rc = at < argc ? compare(argv + at + 1, argc - at - 1, &given, &err)
                   : muster_doctor_report(&given, stdout, &err);
    if (rc < 0) {
        fprintf(stderr, "muster doctor: %s\n", err.text);
        return MUSTER_STATUS_USAGE;
    }
    return rc ? MUSTER_STATUS_FINDING : MUSTER_STATUS_OK;
}

const struct muster_cmd muster_cmd_doctor = {
    .name = "doctor",
    .summary = "look for what on this host would spoil a job, before it runs",
    .usage = "[options] [compare REPORT REPORT... | --hosts [HOST...]]",
    .about =
        "Run it where the job runs: in its container, with its environment. Needs no privileges.\n"
        "Every check is bounded in time; tests on GPUs run in processes of their own that are\n"
        "killed when they hang. `compare` takes the JSON of several hosts and shows what\n"
        "differs, worst first. Exit status: 1 with a problem (compare: a difference that\n"
        "matters), 0 with warnings only. --hosts takes the reports of all hosts, compares them, "
        "and\n"
        "tests connections between all pairs, the size of frames, bandwidth and loss. Under srun,\n"
        "mpirun or torchrun it is started once a host; in an allocation of Slurm, or with names "
        "of\n"
        "hosts, it starts itself there. docs/doctor.md lists the checks. MUSTER_SYSFS and\n"
        "MUSTER_PROCFS stand for /sys and /proc.\n",
    .examples = "  muster doctor\n"
                "Two hosts compared:\n"
                "  muster doctor --format json > a.json\n"
                "  muster doctor compare a.json b.json\n"
                "All hosts, and the network between them, by ssh, by srun, and pods:\n"
                "  muster doctor --hosts node[01-16]\n"
                "  srun --ntasks-per-node=1 muster doctor --hosts\n"
                "  muster doctor --hosts --with 'kubectl exec -i {} --' worker-0 worker-1\n"
                "What may explain an error, or a finding:\n"
                "  muster doctor --log job.log\n"
                "  dmesg | muster doctor --log -\n"
                "  muster doctor --symptom slow_transfer\n"
                "  muster doctor --symptom hang_stuck compare a.json b.json\n",
    .options = options,
    .run = run,
};
