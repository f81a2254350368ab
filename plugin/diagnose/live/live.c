#include "diagnose/live/live.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"
#include "diagnose/finding_changes.h"
#include "diagnose/live/live_evidence.h"
#include "diagnose/live/live_motion.h"
#include "diagnose/live/live_peers.h"
#include "diagnose/live/live_policy.h"
#include "diagnose/live/live_slow.h"
#include "segment/snapshot.h"

enum {
    FILE_MAX = 1 << 20,
    LINES_A_MINUTE = 10,
};
#define SCAN_NS MUSTER_NS_PER_S
/* How long a finding stands before the process ends itself, and how sure it has to be. */
#define GRACE_NS    (10 * MUSTER_NS_PER_S)
#define SURE_ENOUGH 0.98 /* more than any finding has that not all ranks are in view for */

struct muster_live {
    struct muster_live_options options;
    uint64_t hang_ns;
    bool may_abort;
    struct muster_live_peers peers;
    struct muster_live_evidence evidence;
    struct muster_live_policies policies;
    struct muster_live_run *run;
    struct muster_live_slow slow;
    bool emitted_gpu;             /* that two ranks use one GPU */
    bool finds_slow;              /* somebody asked for late ranks, slow transfers or paths */
    struct muster_live_peer self; /* as its own memory has it */
    struct muster_live_motions own, all; /* of its own ranks; of the host's, when they were read */
    char leader[MUSTER_SEG_PATH + 300];  /* segment of one that goes before this process and is
                                            awake; "": this one leads */
    uint64_t evaluated_ns;               /* the last time; 0: never */
    uint64_t again_ns;
    struct muster_watch watch,
        paths;            /* paths: what the machine could do, which stands for the run */
    uint64_t abort_at_ns; /* 0: no reason to */
    struct muster_finding last_words;
    uint64_t minute_ns;
    unsigned lines; /* logged in this minute */
    int fd;         /* of the findings file; -1: not opened yet */
    uint64_t written;
};

/* The log's thread may be about to change where the files are. */
static struct muster_seg_identity own_identity(const struct muster_live *live)
{
    struct muster_seg_identity who;
    muster_snapshot(&who, &live->options.file->map->identity, sizeof who);
    return who;
}

/* ---- emitting ---- */

static void open_file(struct muster_live *live)
{
    struct muster_seg_identity who = own_identity(live);
    char path[MUSTER_SEG_PATH + 160];
    snprintf(path, sizeof path, "%s/%s.findings.jsonl", who.run_dir, who.file_stem);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    struct stat file;
    /* What somebody else put there is not written to. */
    if (fd >= 0 && (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || file.st_uid != geteuid() ||
                    file.st_nlink != 1)) {
        close(fd);
        fd = -1;
    }
    live->fd = fd;
}

/* A finding a line; what does not fit the bound is left out. */
static void write_finding(struct muster_live *live, const struct muster_finding *finding)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    struct muster_json json;
    if (!memory)
        return;
    muster_json_begin(&json, memory, false);
    muster_json_object(&json, NULL);
    muster_finding_json(finding, &json);
    muster_json_end(&json);
    bool whole = muster_text_close(memory, &text);
    if (live->fd < 0)
        open_file(live);
    if (whole && live->fd >= 0 && live->written + bytes <= FILE_MAX &&
        write(live->fd, text, bytes) == (ssize_t)bytes)
        live->written += bytes;
    free(text);
}

static void log_finding(struct muster_live *live, const struct muster_finding *finding)
{
    char text[480];
    uint64_t now = muster_now_ns();
    if (now - live->minute_ns > 60 * MUSTER_NS_PER_S) {
        live->minute_ns = now;
        live->lines = 0;
    }
    if (live->lines++ >= LINES_A_MINUTE)
        return;
    struct muster_seg_identity who = own_identity(live);
    bool over = finding->resolved || finding->retracted;
    muster_finding_sentence(finding, text, sizeof text);
    muster_log(MUSTER_LOG_WARN, "%s%s%s", text,
               over ? "" : ". Why, and what to do: muster diagnose ", over ? "" : who.run_dir);
}

static const struct muster_live_peer *own_peer(const struct muster_live *live)
{
    for (size_t i = 0; i < live->peers.n; i++)
        if (live->peers.peer[i].own)
            return &live->peers.peer[i];
    return NULL;
}

static bool leads(const struct muster_live *live)
{
    return own_peer(live) && !live->leader[0];
}

/* Whoever finds one that goes before it follows that one until it is not awake any more. So exactly
 * the first of those that are awake leads. */
static void choose_leader(struct muster_live *live)
{
    const struct muster_live_peer *own = own_peer(live), *first = own;
    for (size_t i = 0; own && i < live->peers.n; i++) {
        const struct muster_live_peer *peer = &live->peers.peer[i];
        if (peer->awake && !peer->own && muster_live_before(peer, first))
            first = peer;
    }
    muster_text_copy(live->leader, sizeof live->leader, first == own ? "" : first->path);
}

static size_t alive(const struct muster_live *live)
{
    size_t n = 0;
    for (size_t i = 0; i < live->peers.n; i++)
        n += live->peers.peer[i].alive;
    return n;
}

static void emit(void *arg, const struct muster_finding *finding)
{
    struct muster_live *live = arg;
    struct muster_finding full = *finding;
    const struct muster_actions *on = &live->options.settings->on[finding->kind];
    if (!full.resolved && !full.retracted &&
        muster_finding_rows[full.kind].scope != MUSTER_SCOPE_CHOICE)
        muster_live_evidence_add(&live->evidence, &live->peers, muster_now_ns(), &full);
    if (on->log)
        log_finding(live, &full);
    write_finding(live, &full);
}

/* ---- ending the process ---- */

static const struct muster_finding *reason_to_abort(const struct muster_live *live,
                                                    const struct muster_findings *now)
{
    const struct muster_live_peer *own = own_peer(live);
    for (size_t i = 0; i < now->n && own; i++) {
        const struct muster_finding *finding = &now->finding[i];
        if (live->options.settings->on[finding->kind].abort && !finding->resolved &&
            finding->confidence >= SURE_ENOUGH && muster_live_holds(own, finding->comm))
            return finding;
    }
    return NULL;
}

/* Each process for itself, whoever leads. Another reason has a grace time of its own. */
static void weigh_abort(struct muster_live *live, const struct muster_findings *now,
                        uint64_t now_ns)
{
    const struct muster_finding *reason = reason_to_abort(live, now);
    if (reason && (live->abort_at_ns == 0 || !muster_watch_same(&live->last_words, reason)))
        live->abort_at_ns = now_ns + GRACE_NS;
    if (reason)
        live->last_words = *reason;
    else
        live->abort_at_ns = 0;
}

/* After an evaluation of this moment. */
static void abort_if_due(const struct muster_live *live, uint64_t now_ns)
{
    char text[480];
    if (live->abort_at_ns == 0 || now_ns < live->abort_at_ns)
        return;
    muster_finding_sentence(&live->last_words, text, sizeof text);
    muster_log(MUSTER_LOG_ERROR, "aborting, as configured: %s", text);
    abort();
}

/* ---- looking ---- */

/* Whether there is something to evaluate: nothing has moved for the threshold, something moves
 * again that was found to hang, or a process went a moment ago or is emitted as gone. */
static bool worth_evaluating(struct muster_live *live, uint64_t now_ns)
{
    bool moved =
        muster_live_motions_take(&live->all, live->peers.peer, live->peers.n, &live->own, now_ns);
    bool due = muster_live_motions_due(&live->all, live->hang_ns, live->evaluated_ns,
                                       live->again_ns, now_ns);
    due |= muster_live_gone_due(&live->peers, muster_watch_gone(&live->watch) > 0,
                                live->evaluated_ns, live->again_ns, now_ns);
    /* A reason to abort is looked at again whenever something moves, and once more at its end. */
    bool doubted = live->abort_at_ns != 0 && (moved || now_ns >= live->abort_at_ns);
    return (due && (live->may_abort || leads(live))) || doubted ||
           (moved && muster_watch_hanging(&live->watch) > 0);
}

/* Who follows reads nobody's segment, unless it may have to end itself and its own ranks wait. */
static bool has_to_look(struct muster_live *live, uint64_t now_ns)
{
    muster_live_calls_of(live->options.file->map, MUSTER_SEG_COMMS, &live->self);
    muster_live_motions_take(&live->own, &live->self, 1, NULL, now_ns);
    if (!live->leader[0] || !muster_live_is_awake(live->leader))
        return true;
    return live->may_abort && (live->abort_at_ns != 0 ||
                               muster_live_motions_due(&live->own, live->hang_ns,
                                                       live->evaluated_ns, live->again_ns, now_ns));
}

/* What the leader emits is not for others to emit; should this process take over, it is new here.
 */
static void keep_led(const struct muster_live *live, struct muster_findings *now)
{
    now->n = leads(live) ? now->n : 0;
}

/* Returns when to come again. */
static uint64_t take_slow(struct muster_live *live)
{
    if (!live->finds_slow || !leads(live))
        return SCAN_NS;
    return muster_live_run_take(live->run, &live->peers);
}

static void find_slow(struct muster_live *live, uint64_t now_ns)
{
    struct muster_findings now = {0};
    bool waiting = muster_watch_suspects(&live->watch);
    take_slow(live);
    if (!live->finds_slow || !muster_live_slow_due(&live->slow, live->run, now_ns, waiting))
        return;
    if (muster_live_slow_evaluate(&live->slow, live->run, &live->peers, now_ns, &now, NULL, NULL)) {
        muster_watch_window(&live->watch, live->slow.windows.since_unix_ns);
        muster_watch_slow(&live->watch, &now, false, emit, live);
        muster_watch_update(&live->paths, &now, emit, live);
    }
    muster_findings_free(&now);
}

static void find_divergence(struct muster_live *live, bool hanging)
{
    struct muster_findings now = {0};
    if (muster_live_policies_scan(&live->policies, live->run, &live->peers, hanging, &now))
        muster_watch_update(&live->policies.watch, &now, emit, live);
    muster_findings_free(&now);
}

static void evaluate_hangs(struct muster_live *live, uint64_t now_ns)
{
    struct muster_findings now = {0};
    uint64_t cost_ns = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    bool fresh =
        muster_live_motions_due(&live->all, live->hang_ns, live->evaluated_ns, UINT64_MAX, now_ns);
    live->evaluated_ns = now_ns;
    if (muster_live_run_hangs(live->run, &live->peers, live->hang_ns, false, &now)) {
        cost_ns = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cost_ns;
        live->again_ns = muster_live_again_ns(live->again_ns, now.n > 0, fresh, cost_ns);
        weigh_abort(live, &now, now_ns);
        abort_if_due(live, now_ns);
        keep_led(live, &now);
        muster_watch_update(&live->watch, &now, emit, live);
    }
    muster_findings_free(&now);
}

/* Once: it stays so while they live. NCCL refuses two ranks of one communicator on a GPU, but not
 * of two. */
static void emit_shared_gpu(struct muster_live *live)
{
    const struct muster_live_peer *who[2];
    if (live->emitted_gpu || !muster_live_share_gpu(&live->peers, who))
        return;
    live->emitted_gpu = true;
    muster_log(
        MUSTER_LOG_WARN,
        "ranks %d and %d of this host use one GPU, %s (processes %u and %u): each waits while the "
        "other's kernels run. Give each its own, by torch.cuda.set_device(LOCAL_RANK) or "
        "CUDA_VISIBLE_DEVICES; parts of one GPU by MIG are meant to be so (gpu.shared)",
        who[0]->identity.rank, who[1]->identity.rank, who[0]->gpu_uuid, who[0]->identity.pid,
        who[1]->identity.pid);
}

void muster_live_scan(struct muster_live *live, uint64_t now_ns)
{
    if (!has_to_look(live, now_ns))
        return;
    struct muster_seg_identity who = own_identity(live);
    muster_live_peers_scan(&live->peers, live->options.settings->segment_dir, &who);
    muster_watch_alive(&live->watch, alive(live));
    choose_leader(live);
    if (!own_peer(live))
        return;
    if (worth_evaluating(live, now_ns))
        evaluate_hangs(live, now_ns);
    if (!leads(live))
        return;
    emit_shared_gpu(live);
    muster_live_evidence_sample(&live->evidence, &live->peers, now_ns);
    find_divergence(live, live->evaluated_ns == now_ns);
    find_slow(live, now_ns);
}

static bool is_reported(const struct muster_actions *on)
{
    return on->log || on->report || on->args > 0;
}

struct muster_live *muster_live_new(const struct muster_live_options *options)
{
    struct muster_live *live = aligned_alloc(64, (sizeof *live + 63) / 64 * 64);
    if (!live)
        return NULL;
    memset(live, 0, sizeof *live);
    live->run = muster_live_run_new();
    if (!live->run) {
        free(live);
        return NULL;
    }
    live->options = *options;
    live->hang_ns = options->settings->hang_seconds * MUSTER_NS_PER_S;
    live->again_ns = MUSTER_LIVE_AGAIN_NS;
    live->fd = -1;
    const struct muster_actions *on = options->settings->on;
    for (unsigned i = 0; i < MUSTER_FINDING_KINDS; i++) {
        enum muster_finding_scope scope = muster_finding_rows[i].scope;
        live->may_abort |= on[i].abort;
        live->finds_slow |=
            is_reported(&on[i]) && (scope == MUSTER_SCOPE_SLOW || scope == MUSTER_SCOPE_PATH);
    }
    return live;
}

void muster_live_free(struct muster_live *live)
{
    if (live->fd >= 0)
        close(live->fd);
    muster_watch_free(&live->watch);
    muster_watch_free(&live->paths);
    muster_live_policies_free(&live->policies);
    muster_live_evidence_free(&live->evidence);
    muster_live_run_free(live->run);
    muster_live_motions_free(&live->own);
    muster_live_motions_free(&live->all);
    muster_live_peers_free(&live->peers);
    free(live);
}

static void *live_main(void *arg)
{
    struct muster_live *live = arg;
    uint64_t look_ns = 0;
    while (!atomic_load_explicit(live->options.closed, memory_order_relaxed)) {
        uint64_t now = muster_now_ns();
        if (now >= look_ns) {
            muster_live_scan(live, now);
            look_ns = now + (live->policies.pending ? SCAN_NS / 2 : SCAN_NS);
        }
        uint64_t pause = take_slow(live), left = look_ns - now;
        pause = pause < left ? pause : left;
        nanosleep(&(struct timespec){.tv_nsec = (long)(pause < SCAN_NS ? pause : SCAN_NS - 1)},
                  NULL);
    }
    muster_live_free(live);
    return NULL;
}

/* With `on:` empty for every kind nobody would hear of anything. */
static bool any_reported(const struct muster_settings *settings)
{
    for (unsigned i = 0; i < MUSTER_FINDING_KINDS; i++)
        if (is_reported(&settings->on[i]) || settings->on[i].abort)
            return true;
    return false;
}

int muster_live_start(const struct muster_live_options *options, struct muster_err *err)
{
    if (!options->file->shared || !any_reported(options->settings))
        return 0;
    struct muster_live *live = muster_live_new(options);
    int rc = live ? muster_thread_start("muster-diag", live_main, live) : ENOMEM;
    if (rc == 0)
        return 0;
    if (live)
        muster_live_free(live);
    return muster_fail(err, "no diagnosis thread: %s", strerror(rc));
}
