/* Which names are read at all. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/nccl_types.h"
#include "base/text.h"
#include "doctor/env/env_rules.h"
#include "doctor/env/env_table.h"

enum { NAMES_MAX = 512 };

void muster_env_remark(struct muster_env_remarks *remarks, enum muster_env_rule rule, bool grave,
                       const struct muster_env_variable *of, const char *fmt, ...)
{
    va_list args;
    if (remarks->n == MUSTER_ENV_REMARKS) {
        remarks->dropped++;
        return;
    }
    struct muster_env_remark *remark = &remarks->at[remarks->n++];
    *remark = (struct muster_env_remark){.rule = rule, .grave = grave, .name = of->name};
    int n = snprintf(remark->text, sizeof remark->text, "%.64s=%.40s: ", of->name, of->value);
    va_start(args, fmt);
    vsnprintf(remark->text + n, sizeof remark->text - (size_t)n, fmt, args);
    va_end(args);
}

const struct muster_env_variable *muster_env_find(const struct muster_env_input *input,
                                                  const char *name)
{
    for (size_t i = 0; i < input->n; i++)
        if (strcmp(input->at[i].name, name) == 0)
            return &input->at[i];
    return NULL;
}

long long muster_env_number(const struct muster_env_input *input, const char *name,
                            long long otherwise)
{
    const struct muster_env_variable *variable = muster_env_find(input, name);
    if (!variable || !*variable->value)
        return otherwise;
    errno = 0;
    long long value = strtoll(variable->value, NULL, 0);
    return errno ? otherwise : value;
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static const struct muster_env_known *known_nccl(const char *name)
{
    for (size_t i = 0; i < muster_env_nccl_n; i++)
        if (strcmp(muster_env_nccl[i].name, name) == 0)
            return &muster_env_nccl[i];
    return NULL;
}

static const struct muster_env_torch *known_torch(const char *name)
{
    for (size_t i = 0; i < muster_env_pytorch_n; i++)
        if (strcmp(muster_env_pytorch[i].name, name) == 0)
            return &muster_env_pytorch[i];
    return NULL;
}

static const struct muster_env_torch *torch_of_legacy(const char *name)
{
    for (size_t i = 0; i < muster_env_pytorch_n; i++)
        if (*muster_env_pytorch[i].legacy && strcmp(muster_env_pytorch[i].legacy, name) == 0)
            return &muster_env_pytorch[i];
    return NULL;
}

static const struct muster_env_removed *removed(const char *name)
{
    for (size_t i = 0; i < muster_env_gone_n; i++)
        if (strcmp(muster_env_gone[i].name, name) == 0)
            return &muster_env_gone[i];
    return NULL;
}

/* Read by build scripts, images, tests or plugins, not by NCCL itself: no remark. */
static bool belongs_to_others(const char *name)
{
    static const char *const prefixes[] = {
        "NCCL_OFI_",     "NCCL_FASTSOCKET_", "NCCL_INSPECTOR_",
        "NCCL_PROFILE_", "NCCL_TESTS_",      "NCCL_GPUDIRECTTCPX_",
        "NCCL_UCX_",     "NCCL_TELEMETRY_",  "NCCL_SHARP_"};
    static const char *const names[] = {
        "NCCL_VERSION", "NCCL_HOME",         "NCCL_ROOT",    "NCCL_ROOT_DIR", "NCCL_DIR",
        "NCCL_LIB_DIR", "NCCL_INCLUDE_DIR",  "NCCL_LIBRARY", "NCCL_PATH",     "NCCL_LIBRARIES",
        "NCCL_LIBS",    "NCCL_INCLUDE_PATH", "NCCL_LIB_PATH"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (starts(name, prefixes[i]))
            return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static int compare_strings(const void *a, const void *b)
{
    return strcmp(a, *(const char *const *)b);
}

static bool in_library(const struct muster_env_input *input, const char *name)
{
    return input->strings &&
           bsearch(name, input->strings, input->strings_n, sizeof *input->strings, compare_strings);
}

/* Behind a prefix that both have: it makes every name alike, and a typo is few letters of the rest.
 */
static size_t shared_prefix(const char *name)
{
    return starts(name, "NCCL_") ? strlen("NCCL_") : 0;
}

static const char *nearest(const char *name)
{
    const char *names[NAMES_MAX];
    char upper[96];
    size_t n = 0, i;
    for (i = 0; name[i] && i + 1 < sizeof upper; i++)
        upper[i] = (char)toupper((unsigned char)name[i]);
    upper[i] = '\0';
    size_t skip = shared_prefix(upper);
    for (i = 0; i < muster_env_nccl_n && n < NAMES_MAX; i++)
        names[n++] = muster_env_nccl[i].name + skip;
    for (i = 0; i < muster_env_pytorch_n && n < NAMES_MAX && !skip; i++)
        names[n++] = muster_env_pytorch[i].name;
    const char *near = muster_text_nearest(upper + skip, names, n);
    if (near && (skip || starts(upper, "TORCH_NCCL_")) && strlen(near) > strlen(upper + skip) + 3)
        return NULL;
    return near ? near - skip : NULL;
}

static bool never_read(const char *name)
{
    static const char *const names[] = {
        "NCCL_TIMEOUT",        "TORCH_NCCL_TIMEOUT", "TORCH_DISTRIBUTED_TIMEOUT",
        "NCCL_ABORT_ON_ERROR", "NCCL_BLOCKING",      "NCCL_COMM_TIMEOUT"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void evaluate_unread(const struct muster_env_variable *variable,
                            struct muster_env_remarks *remarks)
{
    const char *name = variable->name;
    if (strstr(name, "TIMEOUT") && !strstr(name, "IB"))
        muster_env_remark(remarks, MUSTER_ENV_UNREAD, false, variable,
                          "neither NCCL nor PyTorch reads it; a timeout is given where the process "
                          "group is made (timeout=)");
    else
        muster_env_remark(remarks, MUSTER_ENV_UNREAD, false, variable,
                          "neither NCCL nor PyTorch reads it");
}

static void evaluate_legacy(const struct muster_env_input *input,
                            const struct muster_env_variable *variable,
                            const struct muster_env_torch *torch,
                            struct muster_env_remarks *remarks)
{
    const struct muster_env_variable *now = muster_env_find(input, torch->name);
    if (now)
        muster_env_remark(remarks, MUSTER_ENV_LEGACY, strcmp(now->value, variable->value) != 0,
                          variable, "shadowed by %s=%.40s", torch->name, now->value);
    else if (starts(torch->name, "TORCH_FR_"))
        return; /* PyTorch before 2.9 knows only the other name */
    else if (strcmp(torch->name, "TORCH_NCCL_ASYNC_ERROR_HANDLING") == 0)
        muster_env_remark(remarks, MUSTER_ENV_LEGACY, false, variable,
                          "old spelling of %s, which torchrun sets to 1 itself: then this one does "
                          "not count",
                          torch->name);
    else
        muster_env_remark(remarks, MUSTER_ENV_LEGACY, false, variable,
                          "old spelling of %s (PyTorch 2.2 and later)", torch->name);
}

static void evaluate_removed(const struct muster_env_input *input,
                             const struct muster_env_variable *variable,
                             const struct muster_env_removed *gone,
                             struct muster_env_remarks *remarks)
{
    char version[24];
    if (gone->last && input->nccl && input->nccl <= gone->last)
        return;
    muster_nccl_version_text(version, sizeof version, (uint32_t)gone->last);
    if (gone->last)
        muster_env_remark(remarks, MUSTER_ENV_REMOVED, false, variable,
                          "not read since NCCL %s%s%s", version, *gone->instead ? "; use " : "",
                          gone->instead);
    else
        muster_env_remark(remarks, MUSTER_ENV_REMOVED, false, variable,
                          "no NCCL of the last years reads it%s%s", *gone->instead ? "; use " : "",
                          gone->instead);
}

static void evaluate_known(const struct muster_env_input *input,
                           const struct muster_env_variable *variable,
                           const struct muster_env_known *known, struct muster_env_remarks *remarks)
{
    bool read = input->strings ? in_library(input, variable->name)
                               : input->nccl == 0 || input->nccl >= known->since;
    char version[24];
    if (read)
        return;
    muster_nccl_version_text(version, sizeof version, (uint32_t)known->since);
    muster_env_remark(remarks, MUSTER_ENV_UNREAD, false, variable,
                      "not read by the NCCL here; it came with %s", version);
}

/* The name with NCCL_ in the place of its first word, where NCCL reads that; NULL. */
static const char *with_right_prefix(const char *name)
{
    static const char *const prefix[] = {"NCCL_A"}; /* long enough for two edits */
    const char *rest = strchr(name, '_');
    char word[8], right[96];
    size_t n = rest ? (size_t)(rest - name) : 0;
    bool others = n == 4 && starts(name + 1, "CCL"); /* RCCL, HCCL, OCCL, UCCL */
    if (n < 2 || n > 6 || others || !strchr(rest + 1, '_') ||
        snprintf(right, sizeof right, "NCCL%s", rest) >= (int)sizeof right)
        return NULL;
    snprintf(word, sizeof word, "%.*s_A", (int)n, name);
    const struct muster_env_known *known = known_nccl(right);
    return known && !starts(name, "NCCL_") && muster_text_nearest(word, prefix, 1) ? known->name
                                                                                   : NULL;
}

bool muster_env_prefix_typo(const char *name)
{
    return with_right_prefix(name) != NULL;
}

/* Names that somebody may have meant for NCCL. */
static bool looks_like_ours(const char *name)
{
    static const char *const prefixes[] = {"NCCL",   "NCLL_", "NCC_",       "NCL_",     "NNCL_",
                                           "NCCCL_", "CNCL_", "TORCH_NCCL", "TORCH_FR_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncasecmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/* CUDA's own names are many; only near misses of those that matter here are reported. */
static void evaluate_cuda(const struct muster_env_variable *variable,
                          struct muster_env_remarks *remarks)
{
    static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING",
                                        "CUDA_DEVICE_ORDER", "CUDA_DEVICE_MAX_CONNECTIONS",
                                        "CUDA_MODULE_LOADING"};
    enum { TYPO = 3 };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], variable->name) == 0)
            return;
    const char *near = muster_text_nearest(variable->name, names, sizeof names / sizeof *names);
    if (near && labs((long)strlen(near) - (long)strlen(variable->name)) < TYPO)
        muster_env_remark(remarks, MUSTER_ENV_MISSPELT, false, variable, "did you mean %s?", near);
}

static void evaluate_name(const struct muster_env_input *input,
                          const struct muster_env_variable *variable,
                          struct muster_env_remarks *remarks)
{
    const char *name = variable->name, *near = with_right_prefix(name);
    const struct muster_env_known *known = known_nccl(name);
    const struct muster_env_removed *gone = removed(name);
    const struct muster_env_torch *torch = torch_of_legacy(name);
    if (starts(name, "CUDA_"))
        evaluate_cuda(variable, remarks);
    if (torch)
        evaluate_legacy(input, variable, torch, remarks);
    if (near) {
        muster_env_remark(remarks, MUSTER_ENV_MISSPELT, false, variable,
                          "read by nobody; did you mean %s?", near);
        return;
    }
    if (torch || known_torch(name) || !looks_like_ours(name) || belongs_to_others(name))
        return;
    if (known)
        evaluate_known(input, variable, known, remarks);
    else if (in_library(input, name))
        return;
    else if (gone)
        evaluate_removed(input, variable, gone, remarks);
    else if (!never_read(name) && (near = nearest(name)))
        muster_env_remark(remarks, MUSTER_ENV_MISSPELT, false, variable,
                          "read by nobody; did you mean %s?", near);
    else
        evaluate_unread(variable, remarks);
}

void muster_env_evaluate(const struct muster_env_input *input, struct muster_env_remarks *remarks)
{
    memset(remarks, 0, sizeof *remarks);
    for (size_t i = 0; i < input->n; i++)
        evaluate_name(input, &input->at[i], remarks);
    muster_env_evaluate_values(input, remarks);
    muster_env_evaluate_together(input, remarks);
}
