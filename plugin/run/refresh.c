#include "run/refresh.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/pages.h"
#include "run/trim.h"
#include "segment/segment_reader.h"

enum { OPS_MOST = 4096, OPS_LEAST = 256 }; /* of one process: bench/live_cost, bench/follow_cost */

size_t muster_window_share(size_t all, size_t processes)
{
    size_t share = all / (processes ? processes : 1);
    return share < OPS_LEAST ? OPS_LEAST : share > OPS_MOST ? OPS_MOST : share;
}

struct muster_segment *muster_segment_blank(void)
{
    /* malloc aligns to 16, the layout to 64. */
    struct muster_segment *segment = aligned_alloc(64, sizeof(*segment));
    if (segment)
        muster_pages_clear(segment, sizeof(*segment));
    return segment;
}

/* ---- operations ---- */

static void show_window(struct muster_process *process)
{
    process->op = process->refreshed->window.op;
    process->ops = process->retired = process->refreshed->window.n;
}

/* The window begins where its middle was: so do the totals that belong to it. */
static void move_nets(struct muster_refreshed *refreshed)
{
    for (unsigned i = 0; refreshed->net && i < MUSTER_SEG_NETS; i++) {
        refreshed->net[i][0] = refreshed->net[i][1];
        refreshed->net[i][1] = refreshed->net[i][2];
    }
}

static bool take(struct muster_refreshed *refreshed, const struct muster_op *op, size_t n,
                 size_t most)
{
    bool halved = false;
    bool whole = muster_window_take(&refreshed->window, op, n, most, &halved);
    if (halved)
        move_nets(refreshed);
    refreshed->halved |= halved;
    return whole;
}

struct taking {
    struct muster_refreshed *refreshed;
    size_t most, left; /* retired ones that are still to come */
    bool whole;
};

static bool take_ops(void *to, const struct muster_op *op, size_t n)
{
    struct taking *taking = to;
    size_t retired = n < taking->left ? n : taking->left;
    taking->whole = take(taking->refreshed, op, retired, taking->most);
    taking->left -= retired;
    return taking->whole;
}

bool muster_process_begin_refresh(struct muster_process *process, size_t most, size_t latest)
{
    struct taking taking = {.refreshed = calloc(1, sizeof(*taking.refreshed)),
                            .most = most,
                            .left = process->log_ops + process->retired,
                            .whole = true};
    struct muster_err err;
    if (!process->segment)
        process->segment = muster_segment_blank();
    if (taking.refreshed)
        taking.refreshed->window.latest = latest;
    if (!taking.refreshed || !process->segment ||
        muster_process_read_ops(process, take_ops, &taking, &err) != 0 || !taking.whole) {
        muster_refreshed_free(taking.refreshed);
        return false;
    }
    free(process->op);
    free(process->log);
    process->log = NULL;
    process->log_ops = 0;
    process->refreshed = taking.refreshed;
    show_window(process);
    return true;
}

uint64_t muster_process_whole_from_ns(const struct muster_process *process)
{
    const struct muster_refreshed *refreshed = process->refreshed;
    if (!refreshed || process->retired == 0)
        return 0;
    if (refreshed->window.latest == 0)
        return UINT64_MAX;
    bool whole = refreshed->window.thinned == 0 && !refreshed->halved;
    return whole ? 0 : process->op[refreshed->window.thinned].enqueue_ns;
}

uint64_t muster_process_take_ring(struct muster_process *process, const char *path, size_t most,
                                  struct muster_op *scratch)
{
    uint64_t before = process->read_to;
    size_t n = muster_segment_read_ring(path, &process->read_to, scratch);
    uint64_t passed = process->read_to - before;
    take(process->refreshed, scratch, n, most);
    process->refreshed->missed += passed > n ? passed - n : 0;
    show_window(process);
    return passed;
}

static bool take_logged(void *to, const struct muster_op *op, size_t n)
{
    struct taking *taking = to;
    taking->whole &= take(taking->refreshed, op, n, taking->most);
    return true;
}

int muster_process_take_log(struct muster_process *process, const char *path, size_t most,
                            struct muster_err *err)
{
    struct muster_refreshed *refreshed = process->refreshed;
    struct taking taking = {.refreshed = refreshed, .most = most, .whole = true};
    if (!refreshed->tail)
        refreshed->tail = calloc(1, sizeof(*refreshed->tail));
    if (!refreshed->tail)
        return muster_fail_memory(err, path);
    int rc = muster_log_tail_read(refreshed->tail, path, take_logged, &taking, err);
    show_window(process);
    return taking.whole ? rc : muster_fail_memory(err, path);
}

/* ---- tables ---- */

static bool same_net(const struct muster_seg_net *a, const struct muster_seg_net *b)
{
    return a->comm == b->comm && a->peer == b->peer && a->send == b->send;
}

static uint64_t less(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

/* What the totals grew by since the window began. */
static bool window_nets(struct muster_refreshed *refreshed, struct muster_seg_net *net)
{
    unsigned used = 0;
    for (unsigned i = 0; i < MUSTER_SEG_NETS; i++)
        used += net[i].comm != 0;
    if (used && !refreshed->net &&
        !(refreshed->net = calloc(MUSTER_SEG_NETS, sizeof(*refreshed->net))))
        return false;
    for (unsigned i = 0; refreshed->net && i < MUSTER_SEG_NETS; i++) {
        const struct muster_seg_net *began = &refreshed->net[i][0];
        refreshed->net[i][2] = net[i];
        if (!same_net(began, &net[i]))
            continue;
        net[i].count = less(net[i].count, began->count);
        net[i].bytes = less(net[i].bytes, began->bytes);
        net[i].steps = less(net[i].steps, began->steps);
        net[i].gpu_wait_ns = less(net[i].gpu_wait_ns, began->gpu_wait_ns);
        net[i].credit_wait_ns = less(net[i].credit_wait_ns, began->credit_wait_ns);
        net[i].net_wait_ns = less(net[i].net_wait_ns, began->net_wait_ns);
        net[i].flush_ns = less(net[i].flush_ns, began->flush_ns);
    }
    return true;
}

bool muster_process_read_tables(struct muster_process *process, const char *path, bool rows)
{
    struct muster_segment *segment = process->segment;
    int rc = rows ? muster_segment_read_tables(path, segment, NULL)
                  : muster_segment_read_all_but_rows(path, segment, NULL);
    if (rc != 0)
        return false;
    process->identity = segment->identity;
    return window_nets(process->refreshed, segment->net);
}

/* ---- as it stands ---- */

/* The ring comes first: what retires before slots are read is in neither, never in both. */
static struct muster_segment *read_living(struct muster_process *process, const char *path,
                                          struct muster_op *scratch, size_t *ops)
{
    uint64_t next = 0;
    if (!process->segment)
        process->segment = muster_segment_blank();
    *ops = process->segment ? muster_segment_read_ring(path, &next, scratch) : 0;
    if (!process->segment || muster_segment_read_all_but_rows(path, process->segment, NULL) != 0 ||
        muster_segment_read_flight(path, process->segment, NULL) != 0)
        return NULL;
    memcpy(process->segment->ring, scratch, *ops * sizeof(*scratch));
    return process->segment;
}

static struct muster_segment *read_over(const char *path, size_t *ops)
{
    struct muster_segment *segment = NULL;
    if (muster_segment_read(path, &segment, NULL) != 0)
        return NULL;
    uint64_t head = atomic_load_explicit(&segment->ring_head, memory_order_relaxed);
    *ops = head < MUSTER_SEG_RING ? (size_t)head : MUSTER_SEG_RING;
    return segment;
}

bool muster_process_show_standing(struct muster_process *process, const char *path, bool alive,
                                  struct muster_op *scratch, struct muster_process *to)
{
    size_t ops = 0;
    struct muster_segment *segment =
        alive ? read_living(process, path, scratch, &ops) : read_over(path, &ops);
    if (!segment)
        return false;
    *to = (struct muster_process){
        .segment = segment,
        .identity = segment->identity,
        .state = muster_process_state_of(
            alive, atomic_load_explicit(&segment->exit_state, memory_order_relaxed)),
        .op = segment->ring,
        .ops = ops,
        .seen_ns = alive ? muster_now_ns() : 0};
    return true;
}

void muster_process_end_standing(struct muster_process *shown)
{
    if (shown->state == MUSTER_PROCESS_RUNNING)
        muster_run_trim(shown->segment);
    else
        free(shown->segment);
}

/* ---- all ---- */

uint64_t muster_run_since_unix_ns(const struct muster_run *run)
{
    uint64_t since = 0;
    for (size_t i = 0; i < run->processes; i++) {
        const struct muster_process *process = &run->process[i];
        const struct muster_seg_identity *who = &process->identity;
        if (!process->refreshed || !process->refreshed->halved || process->retired == 0)
            continue;
        uint64_t first = process->op[0].enqueue_ns + who->begin_unix_ns - who->begin_mono_ns;
        since = first > since ? first : since;
    }
    return since;
}

void muster_refreshed_free(struct muster_refreshed *refreshed)
{
    if (!refreshed)
        return;
    muster_window_free(&refreshed->window);
    if (refreshed->tail)
        muster_log_tail_free(refreshed->tail);
    free(refreshed->tail);
    free(refreshed->net);
    free(refreshed);
}
