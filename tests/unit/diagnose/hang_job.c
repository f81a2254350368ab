#include "hang_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t at_ns(double at_s)
{
    return JOB_BEGIN + (uint64_t)(at_s * 1e9);
}

struct job *job_new(unsigned ranks, unsigned seen_s)
{
    struct job *job = calloc(1, sizeof *job);
    unsigned all[JOB_RANKS];
    job->ranks = ranks;
    for (unsigned r = 0; r < ranks; r++) {
        struct muster_segment *segment = aligned_alloc(64, sizeof *segment);
        memset(segment, 0, sizeof *segment);
        segment->identity = (struct muster_seg_identity){.boot_hash = 7,
                                                         .begin_mono_ns = JOB_BEGIN,
                                                         .begin_unix_ns = 50 * JOB_BEGIN,
                                                         .pid = 1000 + r,
                                                         .rank = (int32_t)r,
                                                         .host = "node0",
                                                         .run_dir = "/run"};
        job->rank[r] = segment;
        job->seen_ns[r] = at_ns(seen_s);
        segment->heartbeat_mono_ns = at_ns(seen_s);
        all[r] = r;
    }
    job_comm(job, JOB_COMM, all, ranks);
    return job;
}

void job_free(struct job *job)
{
    for (unsigned r = 0; r < job->ranks; r++)
        free(job->rank[r]);
    free(job);
}

void job_comm(struct job *job, uint64_t id, const unsigned *rank, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct muster_seg_comm *entry = job->rank[rank[i]]->comm;
        uint32_t uid = 1;
        for (; entry->uid; entry++)
            uid++;
        entry->uid = uid;
        entry->id = id;
        entry->rank = (int32_t)i;
        entry->nranks = n;
        entry->gpu_index = (int32_t)rank[i];
        entry->begin_ns = JOB_BEGIN;
    }
}

struct muster_seg_comm *job_entry(const struct job *job, unsigned rank, uint64_t id)
{
    struct muster_seg_comm *entry = job->rank[rank]->comm;
    while (entry->id != id)
        entry++;
    return entry;
}

void job_call_as(struct job *job, unsigned rank, uint64_t id, double at_s, uint8_t func,
                 uint64_t count, uint8_t dtype, int32_t root)
{
    struct muster_segment *segment = job->rank[rank];
    struct muster_seg_comm *entry = job_entry(job, rank, id);
    uint64_t number = entry->calls;
    entry->call[number % MUSTER_SEG_CALLS] =
        (struct muster_seg_call){count, root, func, dtype, (uint16_t)number};
    entry->calls = number + 1;
    entry->call_hash = entry->call_hash * 31 + count + func + dtype + (uint32_t)root;
    entry->called_ns = at_ns(at_s);
    segment->ring[segment->ring_head % MUSTER_SEG_RING] =
        (struct muster_op){.number = number,
                           .enqueue_ns = at_ns(at_s),
                           .count = count,
                           .comm = entry->uid,
                           .peer = root,
                           .func = func,
                           .dtype = dtype};
    segment->ring_head++;
}

void job_call(struct job *job, unsigned rank, uint64_t id, unsigned n, double at_s)
{
    for (unsigned i = 0; i < n; i++)
        job_call_as(job, rank, id, at_s + i * 0.01, MUSTER_FUNC_ALL_REDUCE, 1 << 18,
                    MUSTER_DTYPE_FLOAT32, 0);
}

static struct muster_seg_slot *free_slot(struct muster_segment *segment)
{
    for (unsigned i = 0; i < MUSTER_SEG_SLOTS; i++) {
        if (segment->slot_state[i] == 0) {
            segment->slot_state[i] = muster_slot_word(1, MUSTER_SLOT_LAUNCHED);
            return &segment->slot[i];
        }
    }
    return NULL;
}

void job_open(struct job *job, unsigned rank, uint64_t id, unsigned started, unsigned ended)
{
    const struct muster_seg_comm *entry = job_entry(job, rank, id);
    struct muster_seg_slot *slot = free_slot(job->rank[rank]);
    uint64_t number = entry->calls - 1;
    const struct muster_seg_call *call = &entry->call[number % MUSTER_SEG_CALLS];
    slot->number = number;
    slot->enqueue_ns = entry->called_ns;
    slot->count = call->count;
    slot->comm = entry->uid;
    slot->peer = call->root;
    slot->func = call->func;
    slot->dtype = call->dtype;
    slot->channels = (uint8_t)started;
    slot->started = started;
    slot->ended = ended;
}

void job_idle(struct job *job, unsigned rank, uint64_t id)
{
    struct muster_seg_comm *entry = job_entry(job, rank, id);
    entry->launches = entry->launches_probed = entry->launches_ended = entry->calls;
}

void job_p2p(struct job *job, unsigned rank, uint64_t id, bool send, int32_t peer, uint64_t n,
             double at_s, bool open)
{
    struct muster_segment *segment = job->rank[rank];
    struct muster_seg_comm *entry = job_entry(job, rank, id);
    uint8_t func = send ? MUSTER_FUNC_SEND : MUSTER_FUNC_RECV;
    entry->called_ns = at_ns(at_s);
    if (open) {
        struct muster_seg_slot *slot = free_slot(segment);
        slot->number = n;
        slot->enqueue_ns = at_ns(at_s);
        slot->count = 1024;
        slot->comm = entry->uid;
        slot->peer = peer;
        slot->func = func;
        slot->p2p = 1;
        slot->started = 1;
        return;
    }
    segment->ring[segment->ring_head % MUSTER_SEG_RING] =
        (struct muster_op){.number = n,
                           .enqueue_ns = at_ns(at_s),
                           .count = 1024,
                           .comm = entry->uid,
                           .peer = peer,
                           .func = func,
                           .dtype = MUSTER_DTYPE_FLOAT32};
    segment->ring_head++;
}

void job_gone(struct job *job, unsigned rank, double at_s, enum muster_process_state how)
{
    job->state[rank] = how;
    job->seen_ns[rank] = at_ns(at_s);
    job->rank[rank]->heartbeat_mono_ns = at_ns(at_s);
}

/* `process`: room for all ranks. */
static struct muster_run run_of(const struct job *job, struct muster_process *process)
{
    struct muster_run run = {.process = process};
    for (unsigned r = 0; r < job->ranks; r++) {
        uint64_t head = job->rank[r]->ring_head;
        if (!job->hidden[r])
            process[run.processes++] = (struct muster_process){
                .segment = job->rank[r],
                .identity = job->rank[r]->identity,
                .state = job->state[r],
                .op = job->rank[r]->ring,
                .ops = head < MUSTER_SEG_RING ? (size_t)head : (size_t)MUSTER_SEG_RING,
                .seen_ns = job->seen_ns[r],
            };
    }
    return run;
}

void job_with_view(const struct job *job, void (*take)(void *arg, const struct muster_view *view),
                   void *arg)
{
    struct muster_process process[JOB_RANKS] = {{.state = MUSTER_PROCESS_RUNNING}};
    struct muster_run run = run_of(job, process);
    struct muster_view view;
    assert_int_equal(muster_view_of_run(&run, &view, NULL), 0);
    take(arg, &view);
    muster_view_free(&view);
}

static void take_whereabouts(void *arg, const struct muster_view *view)
{
    struct muster_err err;
    assert_int_equal(muster_whereabouts_of(view, arg, &err), 0);
}

struct muster_whereabouts job_whereabouts(const struct job *job)
{
    struct muster_whereabouts all;
    job_with_view(job, take_whereabouts, &all);
    return all;
}

static void take_findings(void *arg, const struct muster_view *view)
{
    assert_true(muster_hang_find(view, 10ull * SECOND, false, arg));
}

static void take_first(void *arg, const struct muster_view *view)
{
    assert_true(muster_hang_find(view, 10ull * SECOND, true, arg));
}

struct muster_findings job_findings(const struct job *job)
{
    struct muster_findings findings = {0};
    job_with_view(job, take_findings, &findings);
    return findings;
}

struct muster_findings job_first(const struct job *job)
{
    struct muster_findings findings = {0};
    job_with_view(job, take_first, &findings);
    return findings;
}

void job_expect(const struct job *job, enum muster_finding_kind kind, int32_t rank)
{
    struct muster_findings findings = job_findings(job);
    char text[512];
    for (size_t i = 0; i < findings.n && findings.n != 1; i++) {
        muster_finding_sentence(&findings.finding[i], text, sizeof text);
        print_message("found %s\n", text);
    }
    assert_int_equal(findings.n, 1);
    const struct muster_finding *finding = &findings.finding[0];
    muster_finding_sentence(finding, text, sizeof text);
    if (finding->kind != kind || (rank >= 0 && finding->rank[0] != rank))
        print_message("found %s\n", text);
    assert_int_equal(finding->kind, kind);
    if (rank >= 0) {
        assert_int_equal(finding->ranks, 1);
        assert_int_equal(finding->rank[0], rank);
    } else {
        assert_int_equal(finding->ranks, 0);
    }
    for (unsigned i = 0; i < finding->victims; i++)
        assert_int_not_equal(finding->victim[i], rank);
    muster_findings_free(&findings);
}

void job_expect_none(const struct job *job)
{
    struct muster_findings findings = job_findings(job);
    char text[512];
    for (size_t i = 0; i < findings.n; i++) {
        muster_finding_sentence(&findings.finding[i], text, sizeof text);
        print_message("found %s\n", text);
    }
    assert_int_equal(findings.n, 0);
    muster_findings_free(&findings);
}
