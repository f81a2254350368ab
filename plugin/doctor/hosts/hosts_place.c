#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "doctor/hosts/hosts.h"

enum { NAME = 256, LONG_NAME = 2 * NAME };

/* The first of these variables that holds a number. */
static long number_of(const char *const *names)
{
    uint64_t n;
    for (; *names; names++) {
        const char *text = getenv(*names);
        if (text && muster_text_u64(text, &n) && n <= 1 << 24)
            return (long)n;
    }
    return -1;
}

void muster_hosts_place_read(struct muster_hosts_place *place)
{
    /* a launcher's own variables before RANK, which jobs set by hand */
    static const char *const ranks[] = {
        "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
        "RANK",         "JOB_COMPLETION_INDEX", NULL};
    static const char *const locals[] = {"SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK",
                                         "MPI_LOCALRANKID", "LOCAL_RANK", NULL};
    static const char *const worlds[] = {"SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                         "WORLD_SIZE", NULL};
    static const char *const jobs[] = {"SLURM_JOB_ID",
                                       "SLURM_STEP_ID",
                                       "PMIX_NAMESPACE",
                                       "OMPI_MCA_ess_base_jobid",
                                       "TORCHELASTIC_RUN_ID",
                                       "TORCHELASTIC_RESTART_COUNT",
                                       "JOB_NAME",
                                       NULL};
    /* torchrun's workers inherit the numbers of the task that started torchrun */
    static const char *const torch_rank[] = {"RANK", NULL},
                             *const torch_local[] = {"LOCAL_RANK", NULL},
                             *const torch_world[] = {"WORLD_SIZE", NULL};
    bool torch = getenv("TORCHELASTIC_RUN_ID") != NULL;
    long world = number_of(torch ? torch_world : worlds);
    *place = (struct muster_hosts_place){.rank = (int)number_of(torch ? torch_rank : ranks),
                                         .local_rank = (int)number_of(torch ? torch_local : locals),
                                         .world = world > 0 ? (unsigned)world : 0};
    struct muster_text job = muster_text_begin(place->job, sizeof place->job);
    for (size_t i = 0; jobs[i]; i++) {
        const char *text = getenv(jobs[i]);
        if (text && *text)
            muster_text_add(&job, "%s%s", job.used ? "." : "", text);
    }
    if (!job.used)
        muster_text_copy(place->job, sizeof place->job, "job");
    for (char *at = place->job; *at; at++)
        if (!isalnum((unsigned char)*at) && *at != '.' && *at != '-')
            *at = '_';
}

/* ---- lists of names ---- */

struct names {
    const char **at;
    size_t n;
};

static int add_name(struct names *names, struct muster_arena *arena, const char *name,
                    struct muster_err *err)
{
    if (names->n == MUSTER_HOSTS_MAX)
        return muster_fail(err, "more than %d hosts", MUSTER_HOSTS_MAX);
    const char **added = muster_arena_add(arena, &names->at, &names->n, sizeof *added);
    *added = muster_arena_text(arena, name);
    return 0;
}

/* One number or range of a bracket; width keeps leading zeros. Returns what stands behind it, NULL:
 * no range. */
static const char *add_range(struct names *names, struct muster_arena *arena, const char *head,
                             const char *at, const char *tail, struct muster_err *err)
{
    char *end, name[LONG_NAME];
    unsigned long first = strtoul(at, &end, 10), last = first;
    int width = (int)(end - at);
    if (end == at)
        return NULL;
    if (*end == '-') {
        at = end + 1;
        last = strtoul(at, &end, 10);
        if (end == at)
            return NULL;
    }
    if (last < first || last - first >= MUSTER_HOSTS_MAX)
        return NULL;
    for (unsigned long i = first; i <= last; i++) {
        snprintf(name, sizeof name, "%s%0*lu%s", head, width, i, tail);
        if (add_name(names, arena, name, err))
            return NULL;
    }
    return end;
}

/* A word with at most one bracket. */
static int add_word(struct names *names, struct muster_arena *arena, const char *word,
                    size_t length, struct muster_err *err)
{
    char copy[NAME];
    if (length == 0)
        return 0;
    if (length >= sizeof copy)
        return muster_fail(err, "%.40s...: too long a name", word);
    memcpy(copy, word, length);
    copy[length] = '\0';
    if (copy[0] == '-')
        return muster_fail(err, "\"%s\" is no name of a host", copy);
    char *open = strchr(copy, '['), *close = open ? strchr(open, ']') : NULL;
    if (!open)
        return add_name(names, arena, copy, err);
    if (!close)
        return muster_fail(err, "%s: no ] behind the [", copy);
    *open = *close = '\0';
    for (const char *at = open + 1;; at++) {
        muster_fail(err, "%s[%s]%s: expected numbers and ranges as in node[01-04,7]", copy,
                    open + 1, close + 1);
        at = add_range(names, arena, copy, at, close + 1, err);
        if (!at || (*at && *at != ','))
            return -1;
        if (!*at)
            return 0;
    }
}

size_t muster_hosts_names(const char *list, struct muster_arena *arena, const char *const **names,
                          struct muster_err *err)
{
    struct names all = {0};
    *names = NULL;
    while (*list) {
        size_t length = 0;
        bool inside = false;
        for (; list[length] && (inside || !strchr(", \t\n", list[length])); length++)
            inside = list[length] == '[' || (inside && list[length] != ']');
        if (add_word(&all, arena, list, length, err))
            return SIZE_MAX;
        list += length + (list[length] != '\0');
    }
    *names = all.at;
    return muster_arena_check(arena, err, "the hosts") ? SIZE_MAX : all.n;
}
