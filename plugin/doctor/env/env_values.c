/* What NCCL makes of a value. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/nccl_types.h"
#include "base/pcie.h"
#include "base/text.h"
#include "doctor/env/env_rules.h"
#include "doctor/env/env_table.h"

static const struct muster_env_known *int_variable(const char *name)
{
    for (size_t i = 0; i < muster_env_nccl_n; i++)
        if (strcmp(muster_env_nccl[i].name, name) == 0 && muster_env_nccl[i].kind == MUSTER_ENV_INT)
            return &muster_env_nccl[i];
    return NULL;
}

static bool means_yes(const char *value)
{
    return strcasecmp(value, "true") == 0 || strcasecmp(value, "yes") == 0 ||
           strcasecmp(value, "on") == 0 || strcasecmp(value, "enable") == 0 ||
           strcasecmp(value, "enabled") == 0 || strcasecmp(value, "y") == 0 ||
           strcasecmp(value, "t") == 0;
}

static void evaluate_number(const struct muster_env_variable *variable,
                            struct muster_env_remarks *remarks)
{
    char *end;
    errno = 0;
    long long value = strtoll(variable->value, &end, 0);
    if (!*variable->value)
        return;
    if (errno)
        muster_env_remark(remarks, MUSTER_ENV_NUMBER, false, variable,
                          "out of range, so NCCL takes its default");
    else if (end == variable->value)
        muster_env_remark(remarks, MUSTER_ENV_NUMBER, means_yes(variable->value), variable,
                          "no number, so NCCL reads 0%s",
                          means_yes(variable->value) ? ": the opposite of what was meant; write 1"
                                                     : "");
    else if (*end && !isspace((unsigned char)*end))
        muster_env_remark(remarks, MUSTER_ENV_NUMBER, false, variable,
                          "NCCL reads %lld and ignores \"%.20s\"", value, end);
}

static bool one_of(const char *word, size_t n, const char *const *words, bool any_case)
{
    for (; *words; words++)
        if (strlen(*words) == n &&
            (any_case ? strncasecmp(word, *words, n) : strncmp(word, *words, n)) == 0)
            return true;
    return false;
}

static void evaluate_level(const struct muster_env_variable *variable,
                           struct muster_env_remarks *remarks)
{
    if (muster_path_level(variable->value) != MUSTER_PATH_UNKNOWN ||
        isdigit((unsigned char)*variable->value))
        return;
    muster_env_remark(
        remarks, MUSTER_ENV_VALUE, false, variable,
        "unknown level, silently ignored; LOC, NVL, PIX, PXB, PHB or SYS, in capitals");
}

struct choice {
    const char *name;
    bool any_case;
    const char *words[16];
};

static const struct choice choices[] = {
    {"NCCL_SOCKET_FAMILY", false, {"AF_INET", "AF_INET6"}},
    {"NCCL_IB_ADDR_FAMILY", false, {"AF_INET", "AF_INET6"}},
    {"NCCL_CHECK_MODE", false, {"DEFAULT", "DEBUG_LOCAL", "DEBUG_GLOBAL"}},
    {"NCCL_LAUNCH_MODE", false, {"GROUP", "PARALLEL"}},
    {"NCCL_DEBUG", true, {"VERSION", "WARN", "INFO", "ABORT", "TRACE", "NONE"}},
    {"TORCH_DISTRIBUTED_DEBUG", true, {"OFF", "INFO", "DETAIL"}},
    {"CUDA_DEVICE_ORDER", false, {"FASTEST_FIRST", "PCI_BUS_ID"}},
};

static void evaluate_choice(const struct muster_env_variable *variable,
                            struct muster_env_remarks *remarks)
{
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        char known[128];
        struct muster_text text = muster_text_begin(known, sizeof known);
        if (strcmp(variable->name, choices[i].name) != 0 || !*variable->value ||
            one_of(variable->value, strlen(variable->value), choices[i].words, choices[i].any_case))
            continue;
        for (int j = 0; choices[i].words[j]; j++)
            muster_text_add(&text, "%s%s", j ? ", " : "", choices[i].words[j]);
        muster_env_remark(remarks, MUSTER_ENV_VALUE, false, variable,
                          "not one of %s, silently ignored", known);
    }
}

#define ALGO(kind, name, nccl, number, env) env,
#define PROTO(kind, name, nccl, number)     nccl,

/* COLLNET is of before there were two kinds of it. */
static const char *const algorithms[] = {MUSTER_ALGO_LIST(ALGO) "COLLNET", NULL};
static const char *const protocols[] = {MUSTER_PROTO_LIST(PROTO) NULL};

/* "ring,tree", "^nvls", "allreduce:tree;allgather:ring" */
static bool unknown_token(const char *value, const char *const *words, char *token, size_t size)
{
    while (*value) {
        size_t n = strcspn(value, ",;:^");
        bool function = value[n] == ':';
        if (n && !function && !one_of(value, n, words, true)) {
            snprintf(token, size, "%.*s", (int)n, value);
            return true;
        }
        value += n + (value[n] != '\0');
    }
    return false;
}

/* A word of the list, not behind a ^. */
static bool wants(const char *value, const char *word)
{
    if (strchr(value, '^'))
        return false;
    while (*value) {
        size_t n = strcspn(value, ",;:");
        if (strlen(word) == n && strncasecmp(value, word, n) == 0)
            return true;
        value += n + (value[n] != '\0');
    }
    return false;
}

static void evaluate_algo(const struct muster_env_input *input,
                          const struct muster_env_variable *variable,
                          struct muster_env_remarks *remarks)
{
    enum { STRICT = 22400 };
    char token[24];
    bool strict = input->nccl == 0 || input->nccl >= STRICT;
    if (unknown_token(variable->value, algorithms, token, sizeof token))
        muster_env_remark(remarks, MUSTER_ENV_VALUE, strict, variable,
                          "\"%s\" is no algorithm: an error since 2.24, ignored before", token);
    else if (strict && *variable->value && !strchr(variable->value, '^') &&
             !strchr(variable->value, ':') && !wants(variable->value, "ring"))
        muster_env_remark(remarks, MUSTER_ENV_VALUE, true, variable,
                          "without ring, since 2.24 collectives that only ring can do fail (\"no "
                          "algorithm/protocol available\"); add ring");
}

static void evaluate_proto(const struct muster_env_input *input,
                           const struct muster_env_variable *variable,
                           struct muster_env_remarks *remarks)
{
    enum { STRICT = 22400 };
    char token[24];
    if (unknown_token(variable->value, protocols, token, sizeof token))
        muster_env_remark(remarks, MUSTER_ENV_VALUE, input->nccl == 0 || input->nccl >= STRICT,
                          variable, "\"%s\" is no protocol: an error since 2.24, ignored before",
                          token);
    if (wants(variable->value, "LL128"))
        muster_env_remark(
            remarks, MUSTER_ENV_UNSAFE, true, variable,
            "forced LL128 gives wrong results where the hardware does not support it; "
            "NCCL chooses it by itself where it does");
}

static void evaluate_subsystems(const struct muster_env_variable *variable,
                                struct muster_env_remarks *remarks)
{
    static const char *const words[] = {
        "INIT",  "COLL", "P2P",       "SHM", "NET",     "GRAPH", "TUNING",  "ENV", "ALLOC", "CALL",
        "PROXY", "NVLS", "BOOTSTRAP", "REG", "PROFILE", "RAS",   "DESTROY", "ALL", NULL};
    char token[24];
    if (unknown_token(variable->value, words, token, sizeof token))
        muster_env_remark(remarks, MUSTER_ENV_VALUE, false, variable,
                          "\"%s\" is no subsystem of NCCL's log", token);
}

static void evaluate_devices(const struct muster_env_variable *variable,
                             struct muster_env_remarks *remarks)
{
    const char *value = variable->value;
    if (!*value || strcmp(value, "-1") == 0 || strcasecmp(value, "none") == 0 ||
        strcasecmp(value, "NoDevFiles") == 0) {
        muster_env_remark(remarks, MUSTER_ENV_VALUE, true, variable, "hides every GPU");
        return;
    }
    for (const char *a = value; *a; a += strcspn(a, ",") + (a[strcspn(a, ",")] != '\0'))
        for (const char *b = value; b < a; b += strcspn(b, ",") + 1) {
            size_t n = strcspn(a, ",");
            if (n == strcspn(b, ",") && memcmp(a, b, n) == 0) {
                muster_env_remark(remarks, MUSTER_ENV_VALUE, true, variable,
                                  "names GPU %.*s twice: CUDA then shows fewer", (int)n, a);
                return;
            }
        }
}

void muster_env_evaluate_values(const struct muster_env_input *input,
                                struct muster_env_remarks *remarks)
{
    for (size_t i = 0; i < input->n; i++) {
        const struct muster_env_variable *variable = &input->at[i];
        const char *name = variable->name;
        if (int_variable(name))
            evaluate_number(variable, remarks);
        evaluate_choice(variable, remarks);
        if (strcmp(name, "NCCL_P2P_LEVEL") == 0 || strcmp(name, "NCCL_NET_GDR_LEVEL") == 0 ||
            strcmp(name, "NCCL_NET_MERGE_LEVEL") == 0)
            evaluate_level(variable, remarks);
        else if (strcmp(name, "NCCL_ALGO") == 0)
            evaluate_algo(input, variable, remarks);
        else if (strcmp(name, "NCCL_PROTO") == 0)
            evaluate_proto(input, variable, remarks);
        else if (strcmp(name, "NCCL_DEBUG_SUBSYS") == 0)
            evaluate_subsystems(variable, remarks);
        else if (strcmp(name, "CUDA_VISIBLE_DEVICES") == 0)
            evaluate_devices(variable, remarks);
        else if ((strcmp(name, "NCCL_SOCKET_IFNAME") == 0 || strcmp(name, "NCCL_COMM_ID") == 0) &&
                 strlen(variable->value) == 1)
            muster_env_remark(remarks, MUSTER_ENV_VALUE, false, variable,
                              "one character alone is ignored");
    }
}
