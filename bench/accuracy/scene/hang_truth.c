/* What is true of a case that was played, and what of it is left for somebody to see. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "diagnose/hang/hang.h"
#include "hang_scene_job.h"

static bool hidden(const struct hang_case *hang, unsigned rank)
{
    unsigned left = hang->hidden;
    if (hang->culprit_hidden && left && hang->n_culprits) {
        if (rank == hang->culprit[0])
            return true;
        left--;
    }
    for (unsigned r = hang->ranks; r-- > 0 && left;) {
        if (!hang_is_culprit(hang, r)) {
            if (r == rank)
                return true;
            left--;
        }
    }
    return false;
}

/* Whether a rank that is seen, and is no culprit, waits for something that never ends. */
static bool anybody_waits(const struct hang_job *job)
{
    for (unsigned r = 0; r < job->hang->ranks; r++) {
        const struct hang_rank *rank = &job->rank[r];
        bool culprit = job->hang->fault != HANG_STUCK && hang_is_culprit(job->hang, r);
        if (hidden(job->hang, r) || culprit)
            continue;
        for (unsigned i = 0; i < rank->made; i++)
            if (rank->call[i].meet->end_ns == HANG_NEVER)
                return true;
    }
    return false;
}

static const struct hang_call *call_of(const struct hang_job *job, unsigned r, unsigned stream,
                                       uint64_t number)
{
    const struct hang_rank *rank = &job->rank[r];
    for (unsigned i = 0; i < rank->made; i++)
        if (rank->call[i].stream == stream && rank->call[i].number == number)
            return &rank->call[i];
    return NULL;
}

/* Marks the smaller side of those that made call `number`; at a tie both. False: all agree. */
static bool mark_minority(const struct hang_job *job, struct hang_members members, unsigned stream,
                          uint64_t number, struct hang_truth *truth)
{
    bool like[HANG_RANKS_MAX] = {false};
    bool unlike[HANG_RANKS_MAX] = {false};
    unsigned n = 0, m = 0;
    const struct hang_call *first = NULL;
    for (unsigned i = 0; i < members.n; i++) {
        unsigned r = members.first + i * members.stride;
        const struct hang_call *call =
            hidden(job->hang, r) ? NULL : call_of(job, r, stream, number);
        if (!call)
            continue;
        first = first ? first : call;
        bool same = hang_same_content(call, first);
        like[r] = same;
        unlike[r] = !same;
        n += same;
        m += !same;
    }
    for (unsigned r = 0; r < job->hang->ranks && m; r++)
        truth->culprit[r] = (n <= m && like[r]) || (m <= n && unlike[r]);
    return m > 0;
}

/* Where calls are in another order: the first place that differs; if none does, whoever called
 * less. */
static void report_difference(const struct hang_job *job, struct hang_truth *truth)
{
    const struct hang_case *hang = job->hang;
    unsigned stream = hang->position[hang->place % hang->positions].stream;
    struct hang_members members = hang_members_of(hang, stream, hang->culprit[0]);
    truth->kind = truth->or_kind = MUSTER_FINDING_HANG_MISMATCH;
    for (uint64_t k = 0; k < job->numbers; k++)
        if (mark_minority(job, members, stream, k, truth))
            return;
    /* The calls agree, one by one. If the others came to their end, the one waits for them;
     * otherwise it called into one communicator what belonged after a call into another. */
    bool over = true;
    for (unsigned r = 0; r < hang->ranks; r++) {
        const struct hang_rank *rank = &job->rank[r];
        over &=
            hang_is_culprit(hang, r) || (rank->made == rank->calls && rank->ended == rank->made);
    }
    truth->kind = MUSTER_FINDING_HANG_ABSENT;
    truth->or_kind = MUSTER_FINDING_HANG_ORDER;
    for (unsigned i = 0; i < members.n; i++) {
        unsigned r = members.first + i * members.stride;
        bool culprit = hang_is_culprit(hang, r) != (over && hang->fault == HANG_EXTRA);
        /* Of two ranks nobody can tell which one it is. */
        truth->spare[r] = !culprit && members.n == 2;
        truth->culprit[r] = (culprit || truth->spare[r]) && !hidden(hang, r);
    }
}

static void report_order(const struct hang_case *hang, struct hang_truth *truth)
{
    unsigned n = 0, m = 0;
    for (unsigned r = 0; r < hang->ranks; r++) {
        n += !hidden(hang, r) && hang_is_culprit(hang, r);
        m += !hidden(hang, r) && !hang_is_culprit(hang, r);
    }
    truth->kind = MUSTER_FINDING_HANG_ORDER;
    truth->found = n && m;
    for (unsigned r = 0; r < hang->ranks; r++) {
        bool culprit = hang_is_culprit(hang, r);
        truth->culprit[r] = !hidden(hang, r) && ((culprit && n <= m) || (!culprit && m <= n));
    }
}

/* Whether a rank that is seen waits in an operation that this one belongs to. */
static bool is_waited_for(const struct hang_job *job, unsigned rank)
{
    for (unsigned r = 0; r < job->hang->ranks; r++) {
        const struct hang_rank *other = &job->rank[r];
        for (unsigned i = 0; i < other->made && !hidden(job->hang, r); i++) {
            const struct hang_call *call = &other->call[i];
            struct hang_members members = hang_members_of(job->hang, call->stream, r);
            bool part = hang_is_p2p(call->stream)
                            ? (unsigned)call->root == rank
                            : (rank - members.first) % members.stride == 0 &&
                                  (rank - members.first) / members.stride < members.n;
            if (part && call->meet->end_ns == HANG_NEVER && !hang_is_culprit(job->hang, r))
                return true;
        }
    }
    return false;
}

static void report_missing(const struct hang_job *job, struct hang_truth *truth)
{
    const struct hang_case *hang = job->hang;
    bool any = false;
    truth->kind = hang->fault == HANG_DEAD ? MUSTER_FINDING_HANG_DEAD : MUSTER_FINDING_HANG_ABSENT;
    for (unsigned g = 0; g < hang->n_culprits; g++) {
        unsigned rank = hang->culprit[g];
        truth->culprit[rank] = !hidden(hang, rank);
        truth->spare[rank] = hang->n_culprits > 1 && !is_waited_for(job, rank);
        any |= truth->culprit[rank];
    }
    truth->found = any;
}

/* Whether who was killed has been outlived by the others for long enough: then it may be named
 * before anybody waits for it. */
static bool outlives(const struct hang_job *job)
{
    const struct hang_case *hang = job->hang;
    bool outlived = hang->fault == HANG_DEAD && !hang->all_go;
    for (unsigned g = 0; g < hang->n_culprits; g++)
        outlived &= job->rank[hang->culprit[g]].gone_ns + MUSTER_HANG_GONE_S * 1e9 <= job->look_ns;
    return outlived;
}

void hang_emit(const struct hang_job *job, struct hang_truth *truth)
{
    const struct hang_case *hang = job->hang;
    memset(truth, 0, sizeof *truth);
    bool waits = anybody_waits(job);
    truth->found = waits;
    truth->named = true;
    switch (hang->fault) {
    case HANG_ABSENT:
    case HANG_DEAD:
        report_missing(job, truth);
        break;
    case HANG_DIFFERENT:
    case HANG_EXTRA:
    case HANG_SKIPPED:
        report_difference(job, truth);
        truth->found = true;
        return;
    case HANG_ORDER:
        report_order(hang, truth);
        break;
    case HANG_STUCK:
    case HANG_GPU_BUSY:
        truth->kind = MUSTER_FINDING_HANG_STUCK;
        truth->named = false;
        break;
    default:
        truth->found = false;
    }
    truth->or_kind = truth->kind;
    truth->or_none = !waits && outlives(job);
    truth->found &= waits || truth->or_none;
}

/* ---- what is left of it ---- */

struct show {
    const struct hang_job *job;
    const struct hang_rank *rank;
    struct muster_segment *segment;
    double at_ns;   /* nothing later is in it */
    double zero_ns; /* of the host's clock */
    double probed_ns;
    unsigned slots;
    unsigned channels;
    bool network;
};

static uint64_t stamp(const struct show *show, double ns)
{
    return (uint64_t)(show->zero_ns + ns);
}

static struct muster_seg_comm *entry_of(const struct show *show, unsigned stream)
{
    unsigned comm = hang_is_p2p(stream) ? HANG_CHAIN : stream;
    for (unsigned i = 0; i < MUSTER_SEG_COMMS; i++) {
        struct muster_seg_comm *entry = &show->segment->comm[i];
        if (entry->uid && entry->timing == comm)
            return entry;
    }
    return NULL;
}

static void add_entries(struct show *show, unsigned r)
{
    const struct hang_case *hang = show->job->hang;
    bool used[HANG_COMMS + 1] = {false};
    uint32_t n = 0;
    for (unsigned p = 0; p < hang->positions; p++) {
        unsigned stream = hang->position[p].stream;
        used[hang_is_p2p(stream) ? HANG_CHAIN : stream] = true;
    }
    for (unsigned comm = 0; comm <= HANG_COMMS; comm++) {
        struct hang_members members = hang_members_of(hang, comm, r);
        if (!used[comm])
            continue;
        struct muster_seg_comm *entry = &show->segment->comm[n++];
        entry->uid = n;
        entry->id = (hang->seed << 20 | (uint64_t)comm << 12 | (members.first + 1)) * 2654435761u;
        entry->rank = (int32_t)((r - members.first) / members.stride);
        entry->nranks = members.n;
        entry->nnodes = hang->hosts;
        entry->gpu_index = (int32_t)r % 8;
        entry->begin_ns = stamp(show, 1e8);
        entry->timing = comm;
    }
}

/* Kernel events: always, never, or for the first 64 of a communicator. */
static bool by_kernels(const struct show *show, const struct hang_call *call)
{
    enum hang_proof proof = show->job->hang->proof;
    return proof == HANG_BY_KERNELS || (proof == HANG_BY_BLOCKS && call->number < 64);
}

static bool by_marks(const struct show *show)
{
    enum hang_proof proof = show->job->hang->proof;
    return proof == HANG_BY_MARKS || proof == HANG_BY_BLOCKS;
}

static void put_ring(struct show *show, const struct hang_call *call, uint32_t uid, bool timed)
{
    struct muster_segment *segment = show->segment;
    uint64_t head = segment->ring_head;
    segment->ring[head % MUSTER_SEG_RING] = (struct muster_op){
        .number = call->number,
        .enqueue_ns = stamp(show, call->call_ns),
        .begin_ns = timed ? (uint64_t)call->begin_ns : 0,
        .end_ns = timed ? (uint64_t)call->meet->end_ns : 0,
        .count = call->count,
        .comm = uid,
        .peer = call->root,
        .func = call->func,
        .dtype = call->dtype,
        .channels = HANG_CHANNELS,
        .source = timed ? MUSTER_SOURCE_GPU : MUSTER_SOURCE_NONE,
    };
    segment->ring_head = head + 1;
}

static void put_slot(struct show *show, const struct hang_call *call, uint32_t uid, bool launched)
{
    struct muster_seg_slot *slot = &show->segment->slot[show->slots];
    bool begun = call->begin_ns <= show->at_ns;
    show->segment->slot_state[show->slots++] =
        muster_slot_word(1, launched ? MUSTER_SLOT_LAUNCHED : MUSTER_SLOT_CALLED);
    slot->number = call->number;
    slot->enqueue_ns = stamp(show, call->call_ns);
    slot->count = call->count;
    slot->comm = uid;
    slot->peer = call->root;
    slot->func = call->func;
    slot->dtype = call->dtype;
    slot->p2p = hang_is_p2p(call->stream);
    slot->channels = HANG_CHANNELS;
    slot->flags = by_kernels(show, call) ? MUSTER_OP_IN_WINDOW : 0;
    if (launched && begun && by_kernels(show, call)) {
        slot->started = HANG_CHANNELS;
        slot->ended = (uint32_t)(call->number % HANG_CHANNELS) / 2;
    }
    if (launched && begun && show->network) {
        slot->proxy_started = 4;
        slot->proxy_ended = 1;
    }
}

static void count_call(struct muster_seg_comm *entry, const struct hang_call *call)
{
    entry->call[call->number % MUSTER_SEG_CALLS] = (struct muster_seg_call){
        call->count, call->root, call->func, call->dtype, (uint16_t)call->number};
    entry->calls = call->number + 1;
    entry->call_hash = (entry->call_hash ^ (call->count << 20 ^ (uint64_t)call->func << 12 ^
                                            (uint64_t)call->dtype << 6 ^ (uint32_t)call->root)) *
                       0x100000001b3ull;
}

static void show_call(struct show *show, const struct hang_call *call)
{
    struct muster_seg_comm *entry = entry_of(show, call->stream);
    bool launched = call->launch_ns <= show->at_ns;
    bool ended = call->meet->end_ns <= show->at_ns;
    if (!launched && hang_is_p2p(call->stream))
        return; /* NCCL connects two ranks before it shows their first exchange */
    entry->called_ns = stamp(show, call->call_ns);
    if (!hang_is_p2p(call->stream))
        count_call(entry, call);
    if (launched && !call->grouped) {
        entry->launches = entry->launches + 1;
        bool turn = call->call_ns >= show->probed_ns + 50e3;
        if (by_marks(show) && !by_kernels(show, call) && turn) {
            show->probed_ns = call->call_ns;
            entry->launches_probed = entry->launches;
            entry->launches_ended = ended ? entry->launches : entry->launches_ended;
        }
    }
    bool kept = !ended && (by_kernels(show, call) || (show->network && launched));
    if (!launched || kept) {
        if (show->slots < MUSTER_SEG_SLOTS)
            put_slot(show, call, entry->uid, launched);
    } else {
        put_ring(show, call, entry->uid, ended && by_kernels(show, call));
    }
}

static void introduce(struct show *show, unsigned r, unsigned host)
{
    const struct hang_case *hang = show->job->hang;
    struct muster_seg_identity *who = &show->segment->identity;
    struct draw draw = {.state = hang->seed * 977 + host};
    show->zero_ns = 1e13 * (1 + draw_unit(&draw));
    double unix_ns = 1.7e18 + 4e7 * draw_unit(&draw);
    who->boot_hash = hang->seed * 64 + host + 1;
    who->begin_mono_ns = stamp(show, 0);
    who->begin_unix_ns = (uint64_t)unix_ns;
    who->pid = 1000 + r;
    who->rank = (int32_t)r;
    snprintf(who->host, sizeof who->host, "node%u", host);
    strcpy(who->run_dir, "/run");
}

/* What the recorder proves: a marked launch that ended proves all before it, which the loop above
 * takes in order. What is left open at the end of a finalized communicator is nothing. */
static void leave(const struct show *show, double gone_ns, bool finalized)
{
    for (unsigned i = 0; i < MUSTER_SEG_COMMS && finalized; i++)
        if (show->segment->comm[i].uid)
            show->segment->comm[i].end_ns = stamp(show, gone_ns - 1e6);
}

bool hang_show(const struct hang_job *job, unsigned r, struct hang_sight *sight)
{
    const struct hang_case *hang = job->hang;
    const struct hang_rank *rank = &job->rank[r];
    if (hidden(hang, r))
        return false;
    unsigned host = r / ((hang->ranks + hang->hosts - 1) / hang->hosts);
    /* Mapped, so that of a thousand segments only what is written takes memory. */
    struct muster_segment *segment =
        mmap(NULL, sizeof *segment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct show show = {.job = job, .rank = rank, .segment = segment, .probed_ns = -1e9};
    if (segment == MAP_FAILED)
        exit(2);
    introduce(&show, r, host);
    bool gone = rank->gone_ns <= job->look_ns;
    bool finished = hang->fault == HANG_FINISHED;
    bool frozen = hang->stopped && hang->fault == HANG_ABSENT && hang_is_culprit(hang, r);
    sight->from_log = host > 0;
    show.network = hang->hosts > 1 && r % (hang->ranks / hang->hosts) == 0;
    show.at_ns = gone ? rank->gone_ns : job->look_ns;
    double beat_ns = frozen ? rank->now_ns + 1e6 : show.at_ns - 50e6;
    if (sight->from_log && !gone) {
        show.at_ns -= 1e9 * (double)(r % 10) / 10;
        beat_ns = show.at_ns;
    }
    add_entries(&show, r);
    for (unsigned i = 0; i < rank->made && rank->call[i].call_ns <= show.at_ns; i++)
        show_call(&show, &rank->call[i]);
    segment->heartbeat_mono_ns = stamp(&show, beat_ns > 0 ? beat_ns : 0);
    sight->state = !gone                      ? MUSTER_PROCESS_RUNNING
                   : finished && !hang->exits ? MUSTER_PROCESS_FINALIZED
                   : hang->exits              ? MUSTER_PROCESS_EXITED
                                              : MUSTER_PROCESS_KILLED;
    leave(&show, rank->gone_ns, gone && finished && !hang->exits);
    for (unsigned i = 0; i < MUSTER_SEG_COMMS; i++)
        segment->comm[i].timing = 0;
    sight->seen_ns = gone || sight->from_log ? 0 : stamp(&show, job->look_ns);
    sight->segment = segment;
    return true;
}

void hang_hide(struct hang_sight *sight)
{
    if (sight->segment) {
        munmap(sight->segment, sizeof *sight->segment);
        sight->segment = NULL;
    }
}
