#include "base/sort.h"
#include "diagnose/transfer/transfer_internal.h"
#include "view/aligned.h"

static void add(struct muster_arena *memory, struct muster_transfers *to,
                const struct muster_view_op *op, uint64_t ns, uint64_t load)
{
    uint32_t place = (uint32_t)to->n;
    struct muster_transfer *own = muster_arena_add(memory, &to->at, &to->n, sizeof *own);
    *own = (struct muster_transfer){
        .ns = ns, .count = op->count, .load = load, .class = op->class, .place = place, .op = op};
}

/* Those that are alike, and where the next one goes. */
struct group {
    uint64_t count, load;
    uint32_t class;
    size_t n; /* 0: free */
};

struct groups {
    struct group *at; /* open addressing */
    size_t slots, used;
};

static struct group *find_group(const struct groups *groups, uint32_t class, uint64_t count,
                                uint64_t load)
{
    uint64_t x = (count * 0x9e3779b97f4a7c15ull) ^ (class * 0xbf58476d1ce4e5b9ull) ^ load;
    size_t i = (size_t)(x >> 32) & (groups->slots - 1);
    while (groups->at[i].n && (groups->at[i].class != class || groups->at[i].count != count ||
                               groups->at[i].load != load))
        i = (i + 1) & (groups->slots - 1);
    groups->at[i].class = class;
    groups->at[i].count = count;
    groups->at[i].load = load;
    return &groups->at[i];
}

static struct group *group_of(const struct groups *groups, const struct muster_transfer *own)
{
    return find_group(groups, own->class, own->count, own->load);
}

static bool grow_groups(struct groups *groups, struct muster_arena *memory)
{
    struct groups more = {.slots = groups->slots ? 2 * groups->slots : 64, .used = groups->used};
    more.at = muster_arena_array(memory, more.slots, sizeof *more.at);
    for (size_t i = 0; more.at && i < groups->slots; i++)
        if (groups->at[i].n)
            *find_group(&more, groups->at[i].class, groups->at[i].count, groups->at[i].load) =
                groups->at[i];
    if (more.at)
        *groups = more;
    return more.at;
}

static void count_groups(const struct muster_transfers *transfers, struct muster_arena *memory,
                         struct groups *groups)
{
    for (size_t i = 0; i < transfers->n; i++) {
        if (2 * groups->used >= groups->slots && !grow_groups(groups, memory))
            return;
        struct group *group = group_of(groups, &transfers->at[i]);
        groups->used += group->n == 0;
        group->n++;
    }
}

/* Puts those of one class, count and load side by side, in order. */
static void sort(struct muster_transfers *transfers, struct muster_arena *memory)
{
    struct groups groups = {0};
    struct muster_transfer *sorted = muster_arena_array(memory, transfers->n + 1, sizeof *sorted);
    size_t first = 1; /* where the group begins, plus 1: 0 stands for free */
    count_groups(transfers, memory, &groups);
    if (memory->failed || !sorted || !groups.at)
        return;
    for (size_t i = 0; i < groups.slots; i++) {
        size_t n = groups.at[i].n;
        groups.at[i].n = n ? first : 0;
        first += n;
    }
    for (size_t i = 0; i < transfers->n; i++) {
        const struct muster_transfer *own = &transfers->at[i];
        sorted[group_of(&groups, own)->n++ - 1] = *own;
    }
    transfers->at = sorted;
}

void muster_transfers_of_comm(const struct muster_view *view, uint32_t comm,
                              struct muster_arena *memory, struct muster_transfers *to)
{
    const struct muster_joint_rule rule = {.least = view->comm[comm].members};
    struct muster_joint joint;
    muster_joint_begin(&joint, view, comm, &rule, memory);
    while (muster_joint_next(&joint))
        if (muster_joint_ends_together(joint.any->func))
            add(memory, to, joint.any, muster_joint_span(&joint).shortest_ns, 0);
    sort(to, memory);
}

void muster_transfers_of_pair(const struct muster_view *view,
                              const struct muster_launches *launches, uint32_t from, uint32_t to,
                              struct muster_arena *memory, struct muster_transfers *transfers)
{
    struct muster_sends pair = muster_sends_of(view, from, to);
    while (muster_sends_next(&pair)) {
        if (!muster_view_scored(pair.send) || !muster_view_scored(pair.receive))
            continue;
        const struct muster_launch *sent = muster_launch_of(view, launches, pair.send);
        const struct muster_launch *received = muster_launch_of(view, launches, pair.receive);
        if (sent && received) {
            bool shorter = sent->least_ns < received->least_ns;
            add(memory, transfers, pair.send, shorter ? sent->least_ns : received->least_ns,
                sent->load);
        }
    }
    sort(transfers, memory);
}

size_t muster_transfers_group(const struct muster_transfers *transfers, size_t from)
{
    const struct muster_transfer *first = &transfers->at[from];
    size_t end = from;
    while (end < transfers->n && transfers->at[end].class == first->class &&
           transfers->at[end].count == first->count && transfers->at[end].load == first->load)
        end++;
    return end;
}

size_t muster_transfers_sample(const struct muster_transfer *at, size_t n, uint64_t *sample)
{
    size_t step = n / MUSTER_TRANSFERS_LOOK + 1, kept = 0;
    for (size_t i = 0; i < n; i += step)
        sample[kept++] = at[i].ns;
    muster_sort_u64(sample, kept);
    return kept;
}

uint64_t muster_sample_quantile(const uint64_t *sample, size_t n, double q)
{
    return n ? sample[(size_t)(q * (double)(n - 1))] : 0;
}

uint64_t muster_transfers_median(const struct muster_transfer *at, size_t n, uint64_t *scratch)
{
    return muster_sample_quantile(scratch, muster_transfers_sample(at, n, scratch), 0.5);
}
