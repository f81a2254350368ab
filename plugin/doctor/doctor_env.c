/* The environment that NCCL will see: variables and the files that add to them. */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/rules/conf_file.h"
#include "doctor/rules/job_log.h"

extern char **environ;

enum { VARIABLES_MAX = 512 };

struct environment {
    struct muster_env_variable at[VARIABLES_MAX];
    size_t n;
    struct muster_doctor_set set[2 * MUSTER_CONF_LINES]; /* of two files */
    int sets;
    struct muster_arena *memory;
};

static bool is_ours(const char *name)
{
    static const char *const prefixes[] = {
        "NCCL",          "TORCH_", "CUDA_", "NCLL",    "NCL_", "NCC_",
        "NNCL",          "CNCL",   "nccl",  "ENABLE_", "Nccl", "PYTORCH_CUDA_ALLOC",
        "PYTORCH_ALLOC", "FI_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static void add(struct environment *environment, const char *text)
{
    const char *equals = strchr(text, '=');
    char name[96];
    snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - text) : 0, text);
    if (!equals || environment->n == VARIABLES_MAX ||
        !(is_ours(text) || muster_env_prefix_typo(name)))
        return;
    environment->at[environment->n++] = (struct muster_env_variable){
        muster_arena_format(environment->memory, "%.*s", (int)(equals - text), text),
        muster_arena_text(environment->memory, equals + 1)};
}

/* NULL: not set. */
static const char *value_of(const struct environment *environment, const char *name)
{
    for (size_t i = 0; i < environment->n; i++)
        if (strcmp(environment->at[i].name, name) == 0)
            return environment->at[i].value;
    return NULL;
}

static void read_conf(struct environment *environment, struct muster_check *check, const char *path)
{
    struct muster_conf *conf = muster_arena_array(environment->memory, 1, sizeof *conf);
    char line[512];
    if (conf && muster_conf_load(conf, path)) {
        for (int i = 0; i < conf->n; i++) {
            bool set = value_of(environment, conf->at[i].name) != NULL;
            muster_check_evidence(check, "%s:%u sets %s=%s%s", path, conf->at[i].line,
                                  conf->at[i].name, conf->at[i].value,
                                  set ? ", but it is set already: without effect" : "");
            if (set)
                continue;
            snprintf(line, sizeof line, "%s=%s", conf->at[i].name, conf->at[i].value);
            add(environment, line);
            environment->set[environment->sets++] = (struct muster_doctor_set){
                conf->at[i].name, conf->at[i].value,
                muster_arena_format(environment->memory, "%s:%u", path, conf->at[i].line)};
        }
    }
}

/* A <cpu> without its architecture: NCCL fails where none of the job's GPUs is below it (nccl#1726,
 * nccl#379). */
static bool lacks_architecture(const char *file, char *text)
{
    bool lacks = false;
    if (!muster_doctor_read_file(file, text))
        return false;
    for (const char *at = strstr(text, "<cpu"); at; at = strstr(at + 1, "<cpu")) {
        const char *end = strchr(at, '>'), *arch = strstr(at, "arch=");
        lacks |= end && (!arch || arch > end);
    }
    return lacks;
}

static void suspect_topology(struct muster_check *check, const char *file)
{
    muster_check_suspect(check,
                         "%.160s: <cpu> without arch and vendor, which NCCL asks for (\"internal "
                         "error\") where a job has some of the GPUs",
                         file);
    muster_check_advice(
        check, "add them, unset NCCL_TOPO_FILE, or aws-ofi-nccl 1.11 and later, which writes "
               "its own");
}

/* Files that the plugin for EFA hands to NCCL. */
static void evaluate_plugins_topology(const struct muster_doctor *doctor,
                                      struct muster_check *check, char *text)
{
    static const char *const folders[] = {"usr/local", "usr", "opt/amazon/efa",
                                          "opt/amazon/ofi-nccl", "opt/aws-ofi-nccl"};
    char pattern[PATH_MAX];
    glob_t found;
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !check->suspect[0]; i++) {
        snprintf(pattern, sizeof pattern, "%s/%s/share/aws-ofi-nccl/xml/*.xml", doctor->root,
                 folders[i]);
        if (glob(pattern, 0, NULL, &found) != 0)
            continue;
        for (size_t j = 0; j < found.gl_pathc && !check->suspect[0]; j++)
            if (lacks_architecture(found.gl_pathv[j], text))
                suspect_topology(check, found.gl_pathv[j]);
        globfree(&found);
    }
}

/* A description of another machine in place of what NCCL would see. */
static void evaluate_topology_file(const struct muster_doctor *doctor,
                                   const struct environment *environment,
                                   struct muster_check *check)
{
    const char *file = value_of(environment, "NCCL_TOPO_FILE");
    char *text = muster_doctor_room(doctor);
    if (!text)
        return;
    if (!file && muster_doctor_entries(doctor->sysfs, "module/efa"))
        evaluate_plugins_topology(doctor, check, text);
    if (!file)
        return;
    if (access(file, R_OK)) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_evidence(check, "NCCL_TOPO_FILE=%.200s: %s", file, strerror(errno));
        muster_check_advice(check,
                            "unset NCCL_TOPO_FILE, or give every host and container that file");
        return;
    }
    if (lacks_architecture(file, text)) {
        suspect_topology(check, file);
        return;
    }
    muster_check_suspect(check, "NCCL_TOPO_FILE=%.120s takes the place of what NCCL would see",
                         file);
    muster_check_advice(check,
                        "is it of this type of machine? Unset it, and see whether the job works");
}

const char *muster_doctor_variable(const struct muster_doctor *doctor, const char *name,
                                   const char **from)
{
    const char *value = getenv(name);
    if (from)
        *from = "";
    for (int i = 0; i < doctor->sets && !value; i++)
        if (strcmp(doctor->set[i].name, name) == 0) {
            value = doctor->set[i].value;
            if (from)
                *from = doctor->set[i].from;
        }
    return value;
}

static void read_files(struct muster_doctor *doctor, struct environment *environment)
{
    char path[MUSTER_CONF_FILES][MUSTER_CONF_PATH];
    const char *given = muster_env("NCCL_CONF_FILE");
    struct muster_check *check = muster_check_begin(doctor->checks, "env.files", "F37");
    int files = muster_conf_paths(doctor->root, path);
    if (given && access(given, R_OK)) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_evidence(check, "NCCL_CONF_FILE=%s: %s", given, strerror(errno));
    }
    for (int i = 0; i < files; i++)
        read_conf(environment, check, path[i]);
    evaluate_topology_file(doctor, environment, check);
    if (access("/var/run/nvidia-topologyd/virtualTopology.xml", R_OK) == 0)
        muster_check_evidence(check, "/var/run/nvidia-topologyd/virtualTopology.xml replaces the "
                                     "PCI topology");
    muster_check_found(check,
                       check->evidences ? "files set or change what NCCL does (%d lines)"
                                        : "no file sets variables for NCCL",
                       check->evidences);
    muster_check_expected(check, "the same on every host");
}

/* What the job had, by its log, where this environment has no such variable. */
static void add_logged(const struct muster_doctor *doctor, struct environment *environment)
{
    char line[160];
    for (int i = 0; doctor->log && i < doctor->log->sets; i++) {
        snprintf(line, sizeof line, "%s=%s", doctor->log->set[i].name, doctor->log->set[i].value);
        if (!value_of(environment, doctor->log->set[i].name))
            add(environment, line);
    }
}

static int compare_variables(const void *a, const void *b)
{
    const struct muster_env_variable *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static void list_all(struct muster_doctor *doctor, struct environment *environment)
{
    int n = 0;
    struct muster_check *check = muster_check_begin(doctor->checks, "env.set", "F37");
    qsort(environment->at, environment->n, sizeof *environment->at, compare_variables);
    for (size_t i = 0; i < environment->n; i++)
        if (strcmp(environment->at[i].name, "NCCL_HOSTID") != 0 && /* that has to differ */
            (!strncmp(environment->at[i].name, "NCCL", 4) ||
             !strncmp(environment->at[i].name, "TORCH_NCCL", 10))) {
            muster_check_evidence(check, "%s=%s", environment->at[i].name,
                                  environment->at[i].value);
            n++;
        }
    muster_check_found(check, "%d variables for NCCL", n);
}

static const struct {
    const char *id, *class_id, *expected, *advice;
} rules[MUSTER_ENV_RULES] = {
    {"env.unread", "F18,F38", "variables that somebody reads",
     "remove them, or do what they meant "
     "where it is read"},
    {"env.misspelt", "F38", "names as NCCL and PyTorch spell them", "correct the names"},
    {"env.removed", "F38", "variables that this NCCL reads", "remove or replace them"},
    {"env.legacy", "F38", "the current spelling, once", "use the TORCH_NCCL_ names"},
    {"env.number", "F38", "numbers: NCCL reads text as 0", "write 1 or 0"},
    {"env.value", "F38,F40", "values that NCCL knows", "correct the values"},
    {"env.contradiction", "F39,F42", "no two variables that exclude each other",
     "remove the one that does not count"},
    {"env.costly", "F39", "no leftovers of old advice", "remove them unless measured to help here"},
    {"env.unsafe", "F41,F71", "nothing that can give wrong data or hang", "remove them"},
};

static void add_remarks(struct muster_doctor *doctor, const struct muster_env_remarks *remarks)
{
    for (int rule = 0; rule < MUSTER_ENV_RULES; rule++) {
        char names[256];
        struct muster_text text = muster_text_begin(names, sizeof names);
        struct muster_check *check =
            muster_check_begin(doctor->checks, rules[rule].id, rules[rule].class_id);
        for (int i = 0; i < remarks->n; i++) {
            const struct muster_env_remark *remark = &remarks->at[i];
            if ((int)remark->rule != rule)
                continue;
            muster_check_worse(check, remark->grave ? MUSTER_CHECK_PROBLEM : MUSTER_CHECK_WARNING);
            muster_check_evidence(check, "%s", remark->text);
            muster_text_add(&text, "%s%s", text.used ? ", " : "", remark->name);
        }
        muster_check_found(check, "%s", *names ? names : "none");
        muster_check_expected(check, "%s", rules[rule].expected);
        if (*names)
            muster_check_advice(check, "%s", rules[rule].advice);
    }
}

/* Variables that are fine for most jobs, and were the cause where one hung or did not start. */
static void suspect_variables(struct muster_check *check, const struct muster_env_input *input)
{
    static const struct {
        const char *name, *value, *text, *advice;
    } suspects[] = {
        {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True",
         "memory that grows in place, which NCCL of that time cannot register or share",
         "without expandable_segments, or NCCL_GRAPH_REGISTER=0"},
        {"PYTORCH_ALLOC_CONF", "expandable_segments:True",
         "memory that grows in place, which NCCL of that time cannot register or share",
         "without expandable_segments, or NCCL_GRAPH_REGISTER=0"},
        {"NCCL_P2P_LEVEL", "SYS", "P2P between sockets, whether or not this machine carries it",
         "unset it"},
        {"NCCL_P2P_LEVEL", "5", "P2P between sockets, whether or not this machine carries it",
         "unset it"},
        {"NCCL_NET_GDR_LEVEL", "SYS",
         "NICs reach GPUs across sockets, whether or not this machine "
         "carries it",
         "unset it"},
        {"NCCL_CROSS_NIC", "1",
         "connections between NICs of different rails, which some networks do "
         "not join",
         "NCCL_CROSS_NIC=0"},
        {"NCCL_NVLS_ENABLE", "1", "NVLink SHARP even where it fails, in place of a way round",
         "unset it"},
        {"TORCH_NCCL_USE_COMM_NONBLOCKING", "1",
         "communicators that are set up behind the program's "
         "back",
         "unset it"},
        {"CUDA_LAUNCH_BLOCKING", "1",
         "each kernel is waited for, and ranks that start two operations in another order wait for "
         "ever",
         "unset it"},
        {"NCCL_NCHANNELS_PER_NET_PEER", "",
         "more or fewer channels for each peer, with which alltoall hung (nccl#1835)",
         "unset it, or NCCL_PXN_DISABLE=1"},
        {"NCCL_MAX_P2P_NCHANNELS", "",
         "a limit of channels of send and receive, with which NCCL crashed and hung", "unset it"},
        {"NCCL_MIN_P2P_NCHANNELS", "",
         "more channels of send and receive than NCCL takes by itself", "unset it"},
        {"NCCL_IB_USE_INLINE", "1",
         "small messages inside work requests, which froze on some cards", "unset it"},
        {"NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS", "1",
         "receives that are posted ahead, which froze on some cards", "unset it"},
        {"FI_PROVIDER", "tcp", "libfabric is kept off the fabric", "unset it, or efa"},
        {"FI_PROVIDER", "sockets", "libfabric is kept off the fabric", "unset it, or efa"},
        {"FI_EFA_USE_DEVICE_RDMA", "1", "RDMA that not every EFA device has", "unset it"},
        {"CUDA_MODULE_LOADING", "LAZY",
         "kernels that are loaded while others run and wait for them", "CUDA_MODULE_LOADING=EAGER"},
    };
    for (size_t i = 0; i < sizeof suspects / sizeof *suspects && !check->suspect[0]; i++) {
        const struct muster_env_variable *of = muster_env_find(input, suspects[i].name);
        if (!of || !strstr(of->value, suspects[i].value) ||
            (*suspects[i].value && strlen(suspects[i].value) < 5 &&
             strcmp(of->value, suspects[i].value) != 0))
            continue;
        muster_check_suspect(check, "%s=%.60s: %s", of->name, of->value, suspects[i].text);
        muster_check_advice(check, "%s, and see whether the job works", suspects[i].advice);
    }
}

static bool has_entries(const char *root, const char *below)
{
    char path[PATH_MAX];
    bool found = false;
    snprintf(path, sizeof path, "%s/%s", root, below);
    DIR *dir = opendir(path);
    if (!dir)
        return false;
    for (struct dirent *entry; (entry = readdir(dir));)
        found |= entry->d_name[0] != '.';
    closedir(dir);
    return found;
}

void muster_doctor_environment(struct muster_doctor *doctor)
{
    struct environment *environment = muster_arena_array(doctor->memory, 1, sizeof *environment);
    struct muster_env_remarks *remarks = muster_arena_array(doctor->memory, 1, sizeof *remarks);
    const char *const *strings = NULL;
    size_t strings_n = 0;
    if (!environment || !remarks)
        return;
    environment->memory = doctor->memory;
    for (char **variable = environ; *variable; variable++)
        add(environment, *variable);
    read_files(doctor, environment);
    doctor->set = environment->set;
    doctor->sets = environment->sets;
    add_logged(doctor, environment);
    list_all(doctor, environment);
    if (doctor->loaded >= 0)
        strings_n =
            muster_nccl_strings(doctor->memory, doctor->library[doctor->loaded].path, &strings);
    const struct muster_env_input input = {
        .at = environment->at,
        .n = environment->n,
        .nccl = muster_doctor_version(doctor),
        /* a library that hides its strings is no authority */
        .strings = strings_n > 50 ? strings : NULL,
        .strings_n = strings_n,
        .infiniband = has_entries(doctor->sysfs, "class/infiniband"),
        .one_rank_a_host = muster_doctor_several_hosts() && doctor->local_ranks == 1,
        .nvlink = doctor->survey->machine->gpus > 0 && doctor->survey->machine->gpu[0].nvlinks > 0,
    };
    muster_env_evaluate(&input, remarks);
    add_remarks(doctor, remarks);
    suspect_variables(muster_checks_find(doctor->checks, "env.unsafe"), &input);
}
