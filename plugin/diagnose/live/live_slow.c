#include "diagnose/live/live_slow.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "diagnose/diagnose.h"
#include "diagnose/live/op_window.h"
#include "segment/segment_reader.h"
#include "base/array.h"

enum {
    OPS_ALL = 16384, /* in all windows together */
    OPS_MOST = 4096, /* of one process */
    OPS_LEAST = 256,
    NEW_LEAST = 16,    /* operations timed since the last time, a process */
    TAKE_SHARE = 500,  /* one part in so many of a processor's time is for taking, */
    JUDGE_SHARE = 250, /* and one in so many for judging */
};
#define PAUSE_LEAST_NS (100 * MUSTER_NS_PER_MS)
#define PAUSE_MOST_NS  MUSTER_NS_PER_S

struct of_peer {
    struct muster_window window;
    uint64_t next; /* ordinal in its ring */
    bool halved;   /* the window is younger than the process */
    struct muster_segment *tables;
    /* Network totals when the window began, in its middle, and when they were read last. */
    struct muster_seg_net (*net)[3];
};

struct muster_live_slow {
    struct of_peer *of; /* of peer i */
    size_t n;
    uint64_t taken_ns, judged_ns, rest_ns;
    uint64_t timed; /* when it was judged last */
    uint64_t since_unix_ns;
    struct muster_op ring[MUSTER_SEG_RING];
};

struct muster_live_slow *muster_live_slow_new(void)
{
    return calloc(1, sizeof(struct muster_live_slow));
}

/* Zero, and in memory only where something is read into it: a tenth, as a rule. */
static struct muster_segment *new_tables(void)
{
    void *tables = mmap(NULL, sizeof(struct muster_segment), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return tables == MAP_FAILED ? NULL : tables;
}

static void forget(struct of_peer *of)
{
    uint64_t timed = of->window.timed;
    muster_window_free(&of->window);
    of->window.timed = timed; /* goes on growing, over all processes */
    if (of->tables)
        munmap(of->tables, sizeof *of->tables);
    free(of->net);
    of->tables = NULL;
    of->net = NULL;
}

void muster_live_slow_free(struct muster_live_slow *slow)
{
    for (size_t i = 0; slow && i < slow->n; i++)
        forget(&slow->of[i]);
    if (slow)
        free(slow->of);
    free(slow);
}

static uint64_t cpu_ns(void)
{
    return muster_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static uint64_t within(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* ---- taking ---- */

static bool make_room(struct muster_live_slow *slow, size_t n)
{
    while (slow->n < n) {
        if (!muster_grow(&slow->of, slow->n, sizeof *slow->of))
            return false;
        memset(&slow->of[slow->n++], 0, sizeof *slow->of);
    }
    return true;
}

/* The window begins where its middle was: so do the totals that belong to it. */
static void move_nets(struct of_peer *of)
{
    for (unsigned i = 0; of->net && i < MUSTER_SEG_NETS; i++) {
        of->net[i][0] = of->net[i][1];
        of->net[i][1] = of->net[i][2];
    }
}

/* How many operations it went on by. */
static uint64_t take_one(struct muster_live_slow *slow, struct of_peer *of, const char *path,
                         size_t most)
{
    bool halved = false;
    uint64_t before = of->next;
    size_t n = muster_segment_read_ring(path, &of->next, slow->ring);
    muster_window_take(&of->window, slow->ring, n, most, &halved);
    if (halved)
        move_nets(of);
    of->halved |= halved;
    return of->next - before;
}

uint64_t muster_live_slow_take(struct muster_live_slow *slow, const struct muster_live_peers *peers)
{
    uint64_t now = muster_now_ns(), cost = cpu_ns(), went = 0;
    uint64_t passed = slow->taken_ns ? now - slow->taken_ns : PAUSE_MOST_NS;
    size_t most = within(OPS_ALL / (peers->n ? peers->n : 1), OPS_LEAST, OPS_MOST);
    if (!make_room(slow, peers->n))
        return PAUSE_MOST_NS;
    for (size_t i = 0; i < peers->n; i++) {
        if (!peers->peer[i].alive) {
            forget(&slow->of[i]);
            continue;
        }
        uint64_t one = take_one(slow, &slow->of[i], peers->peer[i].path, most);
        went = one > went ? one : went;
    }
    slow->taken_ns = now;
    /* Two thirds of a ring, at the pace of the quickest. */
    uint64_t pause = went ? passed * (MUSTER_SEG_RING * 2 / 3) / went : PAUSE_MOST_NS;
    uint64_t least = within(TAKE_SHARE * (cpu_ns() - cost), PAUSE_LEAST_NS, PAUSE_MOST_NS);
    return within(pause, least, PAUSE_MOST_NS);
}

/* ---- judging ---- */

static uint64_t timed_ever(const struct muster_live_slow *slow, size_t *processes)
{
    uint64_t sum = 0;
    *processes = 0;
    for (size_t i = 0; i < slow->n; i++) {
        sum += slow->of[i].window.timed;
        *processes += slow->of[i].window.timed > 0;
    }
    return sum;
}

bool muster_live_slow_due(const struct muster_live_slow *slow, uint64_t now_ns, bool waiting)
{
    size_t processes;
    uint64_t sum = timed_ever(slow, &processes);
    bool rested = now_ns - slow->judged_ns >= slow->rest_ns;
    return processes >= 2 && (waiting || (rested && sum - slow->timed >= NEW_LEAST * processes));
}

static bool same_net(const struct muster_seg_net *a, const struct muster_seg_net *b)
{
    return a->comm == b->comm && a->peer == b->peer && a->send == b->send;
}

static uint64_t less(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

/* What the totals grew by since the window began. */
static bool window_nets(struct of_peer *of)
{
    struct muster_seg_net *net = of->tables->net;
    unsigned used = 0;
    for (unsigned i = 0; i < MUSTER_SEG_NETS; i++)
        used += net[i].comm != 0;
    if (used && !of->net && !(of->net = calloc(MUSTER_SEG_NETS, sizeof *of->net)))
        return false;
    for (unsigned i = 0; of->net && i < MUSTER_SEG_NETS; i++) {
        const struct muster_seg_net *began = &of->net[i][0];
        of->net[i][2] = net[i];
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

static bool read_tables(struct of_peer *of, const char *path)
{
    if (!of->tables)
        of->tables = new_tables();
    return of->tables && muster_segment_read_tables(path, of->tables, NULL) == 0 && window_nets(of);
}

/* The run as far as it is in the windows. */
static size_t fill(struct muster_live_slow *slow, const struct muster_live_peers *peers,
                   struct muster_process *process)
{
    size_t n = 0;
    slow->since_unix_ns = 0;
    for (size_t i = 0; i < slow->n && i < peers->n; i++) {
        struct of_peer *of = &slow->of[i];
        if (of->window.n == 0 || !read_tables(of, peers->peer[i].path))
            continue;
        const struct muster_seg_identity *who = &of->tables->identity;
        uint64_t first = of->window.op[0].enqueue_ns + who->begin_unix_ns - who->begin_mono_ns;
        if (of->halved && first > slow->since_unix_ns)
            slow->since_unix_ns = first;
        process[n++] = (struct muster_process){.state = MUSTER_PROCESS_RUNNING,
                                               .segment = of->tables,
                                               .identity = of->tables->identity,
                                               .op = of->window.op,
                                               .ops = of->window.n};
    }
    return n;
}

uint64_t muster_live_slow_since_unix_ns(const struct muster_live_slow *slow)
{
    return slow->since_unix_ns;
}

bool muster_live_slow_judge_and_look(struct muster_live_slow *slow,
                                     const struct muster_live_peers *peers, uint64_t now_ns,
                                     struct muster_findings *findings, muster_live_slow_look *look,
                                     void *arg)
{
    uint64_t cost = cpu_ns();
    size_t processes;
    struct muster_run run = {.process = calloc(slow->n + 1, sizeof *run.process)};
    slow->timed = timed_ever(slow, &processes);
    slow->judged_ns = now_ns;
    if (run.process)
        run.processes = fill(slow, peers, run.process);
    struct muster_view view;
    bool whole = run.process && muster_view_of_run(&run, &view, NULL) == 0;
    if (whole) {
        whole = muster_diagnose_slow(&view, findings, NULL) == 0;
        if (look)
            look(arg, &view);
        muster_view_free(&view);
    }
    free(run.process);
    for (size_t i = 0; i < findings->n; i++)
        muster_finding_say(&findings->finding[i].not_observable,
                           "judged while the job runs, by the latest operations of the ranks of "
                           "this host; what it cost counts in them alone");
    slow->rest_ns = JUDGE_SHARE * (cpu_ns() - cost);
    return whole;
}

bool muster_live_slow_judge(struct muster_live_slow *slow, const struct muster_live_peers *peers,
                            uint64_t now_ns, struct muster_findings *findings)
{
    return muster_live_slow_judge_and_look(slow, peers, now_ns, findings, NULL, NULL);
}
