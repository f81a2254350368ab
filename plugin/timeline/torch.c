#include "timeline/torch.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/sort.h"
#include "base/text.h"

enum { SHIFT_MOST = 2 }; /* torch counts from 1, and may count what NCCL does not get */

/* One of NCCL's kernels as torch shows it. */
struct seen {
    const char *group; /* the JSON's */
    int64_t sequence;
    int64_t elements, ranks; /* -1: not known */
    int64_t at_ns;
};

struct laying {
    struct muster_arena memory;
    const struct muster_timeline *timeline;
    struct seen *seen;
    size_t n;
    int64_t *sample; /* at most one for each that was seen */
    size_t samples;
};

static int64_t whole_number(const json_t *in, const char *key)
{
    const json_t *value = json_object_get(in, key);
    uint64_t number;
    if (json_is_integer(value))
        return json_integer_value(value);
    if (json_is_string(value) && muster_text_u64(json_string_value(value), &number) &&
        number <= INT64_MAX)
        return (int64_t)number;
    return -1;
}

/* Microseconds with decimals, to the nanosecond. */
static bool time_of(const json_t *event, int64_t *ns)
{
    const json_t *at = json_object_get(event, "ts");
    if (json_is_integer(at) && llabs(json_integer_value(at)) < INT64_MAX / 1000)
        *ns = json_integer_value(at) * 1000;
    else if (json_is_real(at) && json_real_value(at) > 0 && json_real_value(at) < 9e15)
        *ns = (int64_t)(json_real_value(at) * 1e3);
    else
        return false;
    return true;
}

/* Kernels only: what the CPU called is no operation's begin. */
static void add_event(struct laying *laying, const json_t *event)
{
    const char *category = json_string_value(json_object_get(event, "cat"));
    const json_t *args = json_object_get(event, "args");
    struct seen seen = {.group =
                            json_string_value(json_object_get(args, "Process Group Description"))};
    if (!category || strcmp(category, "kernel") != 0 || !seen.group)
        return;
    seen.sequence = whole_number(args, "Seq");
    seen.elements = whole_number(args, "In msg nelems");
    seen.ranks = whole_number(args, "Group size");
    if (seen.sequence < 0 || !time_of(event, &seen.at_ns))
        return;
    struct seen *kept = muster_arena_add(&laying->memory, &laying->seen, &laying->n, sizeof seen);
    *kept = seen;
}

/* Whether a member may be that rank's part of the group. A communicator's name is its description,
 * "desc" or "desc:more"; where it has none the size must do. */
static bool may_be(const struct muster_view *view, const struct muster_view_member *member,
                   int64_t rank, const struct seen *seen)
{
    const char *name = view->comm[member->comm].name;
    size_t letters = strlen(seen->group);
    if (view->gpu[member->gpu].rank != rank)
        return false;
    if (name[0])
        return letters && strncmp(name, seen->group, letters) == 0 &&
               (name[letters] == 0 || name[letters] == ':');
    return seen->ranks < 0 || member->nranks == seen->ranks;
}

/* What the begins differ by if the member is the group and torch counts `shift` more than we do. */
static void sample(struct laying *laying, const struct muster_view_member *member,
                   const char *group, int64_t shift)
{
    const struct muster_view *view = laying->timeline->view;
    laying->samples = 0;
    for (size_t i = 0; i < laying->n; i++) {
        const struct seen *seen = &laying->seen[i];
        const struct muster_view_op *op =
            strcmp(seen->group, group) == 0
                ? muster_view_collective(view, member, seen->sequence - shift)
                : NULL;
        if (!op || !op->end_ns || (seen->elements >= 0 && (uint64_t)seen->elements != op->count))
            continue;
        laying->sample[laying->samples++] =
            (int64_t)muster_timeline_at(laying->timeline, member->gpu, op->begin_ns) - seen->at_ns;
    }
}

/* Keeps the offset if the differences stray less than those kept before. */
static void keep_best(struct laying *laying, struct muster_timeline_beside *beside)
{
    size_t n = laying->samples;
    if (n < MUSTER_TORCH_LEAST)
        return;
    muster_sort_i64(laying->sample, n);
    int64_t offset = laying->sample[n / 2];
    for (size_t i = 0; i < n; i++)
        laying->sample[i] = llabs(laying->sample[i] - offset);
    muster_sort_i64(laying->sample, n);
    uint64_t residual = (uint64_t)laying->sample[n / 2];
    if (beside->matched && residual >= beside->residual_ns)
        return;
    beside->matched = n;
    beside->offset_ns = offset;
    beside->residual_ns = residual;
}

static bool is_first_of_group(const struct laying *laying, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (strcmp(laying->seen[j].group, laying->seen[i].group) == 0)
            return false;
    return true;
}

/* Each group with each member that may be it, in each way of counting. */
static void find_offset(struct laying *laying, struct muster_timeline_beside *beside)
{
    const struct muster_view *view = laying->timeline->view;
    laying->sample = muster_arena_array(&laying->memory, laying->n + 1, sizeof *laying->sample);
    for (size_t i = 0; laying->sample && i < laying->n; i++) {
        if (!is_first_of_group(laying, i))
            continue;
        for (size_t m = 0; m < view->members; m++) {
            if (!may_be(view, &view->member[m], beside->rank, &laying->seen[i]))
                continue;
            for (int64_t shift = -SHIFT_MOST; shift <= SHIFT_MOST; shift++) {
                sample(laying, &view->member[m], laying->seen[i].group, shift);
                keep_best(laying, beside);
            }
        }
    }
}

int muster_torch_lay(const struct muster_timeline *timeline, const char *name, const char *json,
                     size_t bytes, struct muster_timeline_beside *beside, struct muster_err *err)
{
    struct laying laying = {.timeline = timeline};
    json_error_t wrong;
    json_t *trace = json_loadb(json, bytes, 0, &wrong);
    if (!trace)
        return muster_fail(err, "%s:%d:%d: %s; expected a trace of torch.profiler as JSON%s", name,
                           wrong.line, wrong.column, wrong.text,
                           bytes > 1 && json[0] == '\x1f' ? ", not gzipped: gunzip it first" : "");
    const json_t *events = json_object_get(trace, "traceEvents");
    size_t at;
    const json_t *event;
    beside->rank = whole_number(json_object_get(trace, "distributedInfo"), "rank");
    beside->matched = 0;
    json_array_foreach(events, at, event)
    {
        add_event(&laying, event);
    }
    beside->operations = laying.n;
    find_offset(&laying, beside);
    int result = muster_arena_check(&laying.memory, err, name);
    muster_arena_free(&laying.memory);
    if (!json_is_array(events))
        result = muster_fail(
            err, "%s: no \"traceEvents\" in it: expected a trace of torch.profiler", name);
    json_decref(trace);
    return result;
}
