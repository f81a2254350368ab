#include "agent/agent_sample.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/text.h"
#include "segment/segment_reader.h"

const uint64_t muster_agent_bound_ns[MUSTER_AGENT_BOUNDS] = {
    64ull << 7,  64ull << 9,  64ull << 11, 64ull << 13, 64ull << 15, 64ull << 17,
    64ull << 19, 64ull << 21, 64ull << 23, 64ull << 25, 64ull << 27,
};
enum { FIRST_OCTAVE = 7, BOUND_OCTAVES = 2 };

void muster_agent_name_run(char to[static MUSTER_AGENT_NAME], const char *run_dir)
{
    const char *slash = strrchr(run_dir, '/');
    const char *name = slash ? slash + 1 : run_dir;
    muster_text_copy(to, MUSTER_AGENT_NAME, name[0] ? name : "none");
}

/* ---- totals ---- */

/* Whoever writes a segment can write any number: a sum that wraps would fall. */
static void add(uint64_t *to, uint64_t n)
{
    if (__builtin_add_overflow(*to, n, to))
        *to = UINT64_MAX;
}

/* `to` becomes the larger: a torn read must not let a counter fall. */
static void raise(uint64_t *to, uint64_t now)
{
    if (now > *to)
        *to = now;
}

static void raise_totals(struct muster_agent_totals *to, const struct muster_agent_totals *now)
{
    for (unsigned f = 0; f < MUSTER_FUNCS; f++) {
        raise(&to->func[f].operations, now->func[f].operations);
        raise(&to->func[f].bytes, now->func[f].bytes);
        raise(&to->func[f].timed, now->func[f].timed);
        raise(&to->func[f].timed_ns, now->func[f].timed_ns);
    }
    for (unsigned b = 0; b <= MUSTER_AGENT_BOUNDS; b++)
        raise(&to->bucket[b], now->bucket[b]);
    for (unsigned d = 0; d < MUSTER_DROPS; d++)
        raise(&to->dropped[d], now->dropped[d]);
    raise(&to->lost, now->lost);
    raise(&to->net_bytes, now->net_bytes);
    raise(&to->net_wait_ns, now->net_wait_ns);
}

static void add_totals(struct muster_agent_totals *to, const struct muster_agent_totals *from)
{
    for (unsigned f = 0; f < MUSTER_FUNCS; f++) {
        add(&to->func[f].operations, from->func[f].operations);
        add(&to->func[f].bytes, from->func[f].bytes);
        add(&to->func[f].timed, from->func[f].timed);
        add(&to->func[f].timed_ns, from->func[f].timed_ns);
    }
    for (unsigned b = 0; b <= MUSTER_AGENT_BOUNDS; b++)
        add(&to->bucket[b], from->bucket[b]);
    for (unsigned d = 0; d < MUSTER_DROPS; d++)
        add(&to->dropped[d], from->dropped[d]);
    add(&to->lost, from->lost);
    add(&to->net_bytes, from->net_bytes);
    add(&to->net_wait_ns, from->net_wait_ns);
}

struct muster_agent_func muster_agent_all(const struct muster_agent_totals *totals)
{
    struct muster_agent_func all = {0};
    for (unsigned f = 0; f < MUSTER_FUNCS; f++) {
        add(&all.operations, totals->func[f].operations);
        add(&all.bytes, totals->func[f].bytes);
        add(&all.timed, totals->func[f].timed);
        add(&all.timed_ns, totals->func[f].timed_ns);
    }
    return all;
}

void muster_agent_totals_of(const struct muster_agent_sample *sample, size_t run,
                            struct muster_agent_totals *totals)
{
    *totals = sample->run[run].gone;
    for (size_t i = 0; i < sample->processes; i++)
        if (sample->process[i].run == run)
            add_totals(totals, &sample->process[i].totals);
}

/* ---- one segment ---- */

static unsigned bucket_of(unsigned octave)
{
    unsigned bucket = octave < FIRST_OCTAVE ? 0 : (octave - FIRST_OCTAVE) / BOUND_OCTAVES + 1;
    return bucket < MUSTER_AGENT_BOUNDS ? bucket : MUSTER_AGENT_BOUNDS;
}

static void add_row(const struct muster_seg_row *row, struct muster_agent_totals *totals)
{
    struct muster_agent_func *func = &totals->func[row->func];
    add(&func->operations, row->count);
    add(&func->bytes, row->bytes);
    /* Durations on the GPU's clock alone: others hold what the host and the network add. */
    if (!row->timed && !row->event_timed)
        return;
    add(&func->timed_ns, row->sum_ns);
    for (unsigned octave = 0; octave < MUSTER_HIST_OCTAVES; octave++) {
        uint64_t n = 0;
        for (unsigned i = 0; i < MUSTER_HIST_SUB; i++)
            n += row->hist.n[octave * MUSTER_HIST_SUB + i];
        add(&totals->bucket[bucket_of(octave)], n);
        add(&func->timed, n);
    }
}

static void read_totals(const struct muster_segment *segment, struct muster_agent_process *process)
{
    struct muster_agent_totals totals = {0};
    for (unsigned i = 0; i < MUSTER_SEG_ROWS; i++)
        if (segment->row[i].comm != 0)
            add_row(&segment->row[i], &totals);
    for (unsigned i = 0; i < MUSTER_SEG_NETS; i++) {
        const struct muster_seg_net *net = &segment->net[i];
        if (net->comm == 0)
            continue;
        process->network = true;
        add(&totals.net_bytes, net->send ? net->bytes : 0);
        add(&totals.net_wait_ns, net->net_wait_ns);
    }
    for (unsigned d = 0; d < MUSTER_DROPS; d++)
        totals.dropped[d] = atomic_load_explicit(&segment->drops[d], memory_order_relaxed);
    totals.lost = atomic_load_explicit(&segment->lost_log, memory_order_relaxed);
    raise_totals(&process->totals, &totals);
}

static uint64_t to_unix(const struct muster_segment *segment, uint64_t mono_ns)
{
    uint64_t mono = atomic_load_explicit(&segment->heartbeat_mono_ns, memory_order_relaxed);
    uint64_t unix_ns = atomic_load_explicit(&segment->heartbeat_unix_ns, memory_order_relaxed);
    if (mono == 0) { /* it has not beaten yet */
        mono = segment->identity.begin_mono_ns;
        unix_ns = segment->identity.begin_unix_ns;
    }
    return mono_ns ? unix_ns + (mono_ns - mono) : 0;
}

/* When an operation was last called, or last seen to end. */
static uint64_t progress(const struct muster_segment *segment)
{
    uint64_t newest = 0;
    for (unsigned i = 0; i < MUSTER_SEG_COMMS; i++) {
        const struct muster_seg_comm *comm = &segment->comm[i];
        if (comm->uid == 0)
            continue;
        raise(&newest, comm->begin_ns);
        raise(&newest, atomic_load_explicit(&comm->called_ns, memory_order_relaxed));
        raise(&newest, atomic_load_explicit(&comm->ended_ns, memory_order_relaxed));
    }
    return to_unix(segment, newest);
}

static uint64_t read_inflight(int fd)
{
    uint32_t word[MUSTER_SEG_SLOTS];
    uint64_t n = 0;
    if (pread(fd, word, sizeof word, offsetof(struct muster_segment, slot_state)) !=
        (ssize_t)sizeof word)
        return 0;
    for (unsigned i = 0; i < MUSTER_SEG_SLOTS; i++) {
        unsigned state = word[i] & 0xff;
        n += state >= MUSTER_SLOT_CALLED && state <= MUSTER_SLOT_DONE;
    }
    return n;
}

static void describe(const struct muster_segment *segment, struct muster_agent_process *process)
{
    process->identity = segment->identity;
    process->gpu_index = -1;
    process->largest = 0;
    for (unsigned i = 0; i < MUSTER_SEG_COMMS; i++) {
        const struct muster_seg_comm *comm = &segment->comm[i];
        if (comm->uid == 0 || (int32_t)comm->nranks < process->largest)
            continue;
        process->largest = (int32_t)comm->nranks;
        process->gpu_index = comm->gpu_index;
        memcpy(process->gpu_uuid, comm->gpu_uuid, sizeof process->gpu_uuid);
        memcpy(process->gpu_pci, comm->gpu_pci, sizeof process->gpu_pci);
    }
}

/* Entries that belong to nobody: the next segment is read into the same memory. */
static void forget(struct muster_segment *segment)
{
    for (unsigned t = 0; t < MUSTER_SEG_TABLES; t++) {
        const struct muster_seg_table *table = &muster_seg_table[t];
        for (size_t i = 0; i < table->entries; i++) {
            char *entry = (char *)segment + table->offset + i * table->bytes;
            memset(entry + sizeof(uint32_t), 0, sizeof(uint32_t));
        }
    }
}

/* ---- communicators ---- */

static struct muster_agent_comm *comm_of(struct muster_agent_run *run,
                                         const struct muster_seg_comm *comm)
{
    unsigned least = 0;
    for (unsigned i = 0; i < run->comms; i++) {
        if (run->comm[i].id == comm->id)
            return &run->comm[i];
        least = run->comm[i].nranks < run->comm[least].nranks ? i : least;
    }
    if (run->comms < MUSTER_AGENT_COMMS)
        least = run->comms++;
    else if (run->comm[least].nranks >= comm->nranks)
        return NULL;
    run->comm[least] =
        (struct muster_agent_comm){.id = comm->id, .nranks = comm->nranks, .nnodes = comm->nnodes};
    memcpy(run->comm[least].name, comm->name, sizeof run->comm[least].name);
    return &run->comm[least];
}

static void add_comms(const struct muster_segment *segment, struct muster_agent_run *run)
{
    for (unsigned i = 0; i < MUSTER_SEG_COMMS; i++) {
        const struct muster_seg_comm *from = &segment->comm[i];
        if (from->uid == 0 || from->id == 0 || from->end_ns != 0)
            continue;
        struct muster_agent_comm *comm = comm_of(run, from);
        if (!comm)
            continue;
        comm->seen++;
        raise(&comm->calls, atomic_load_explicit(&from->calls, memory_order_relaxed));
    }
}

/* ---- all ---- */

/* SIZE_MAX: no memory. */
static size_t run_of(struct muster_agent_sample *sample, const struct muster_seg_identity *who,
                     uint32_t uid)
{
    char name[MUSTER_AGENT_NAME];
    muster_agent_name_run(name, who->run_dir);
    for (size_t i = 0; i < sample->runs; i++)
        if (sample->run[i].uid == uid && strcmp(sample->run[i].name, name) == 0)
            return i;
    if (!muster_grow(&sample->run, sample->runs, sizeof *sample->run))
        return SIZE_MAX;
    struct muster_agent_run *run = &sample->run[sample->runs];
    memset(run, 0, sizeof *run);
    run->uid = uid;
    memcpy(run->name, name, sizeof run->name);
    return sample->runs++;
}

static struct muster_agent_process *process_of(struct muster_agent_sample *sample,
                                               const struct muster_found *found, bool *whole)
{
    for (size_t i = 0; i < sample->processes; i++)
        if (strcmp(sample->process[i].path, found->path) == 0)
            return &sample->process[i];
    if (sample->processes == MUSTER_AGENT_PROCESSES ||
        strlen(found->path) >= sizeof sample->process->path) {
        sample->omitted++;
        return NULL;
    }
    if (!muster_grow(&sample->process, sample->processes, sizeof *sample->process)) {
        *whole = false;
        return NULL;
    }
    struct muster_agent_process *process = &sample->process[sample->processes++];
    memset(process, 0, sizeof *process);
    snprintf(process->path, sizeof process->path, "%s", found->path);
    process->run = SIZE_MAX;
    return process;
}

static void take_one(struct muster_agent_sample *sample, const struct muster_found *found,
                     bool *whole)
{
    int fd = open(found->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0 || muster_segment_read_tables(found->path, sample->scratch, NULL) != 0) {
        sample->unreadable += fd >= 0 || access(found->path, F_OK) == 0;
        if (fd >= 0)
            close(fd);
        return;
    }
    struct muster_agent_process *process = process_of(sample, found, whole);
    size_t run = process ? run_of(sample, &sample->scratch->identity, found->uid) : SIZE_MAX;
    if (process && run != SIZE_MAX) {
        describe(sample->scratch, process);
        read_totals(sample->scratch, process);
        process->progress_unix_ns = progress(sample->scratch);
        process->inflight = read_inflight(fd);
        process->uid = found->uid;
        process->run = run;
        process->seen = true;
        add_comms(sample->scratch, &sample->run[run]);
    }
    *whole = *whole && (!process || run != SIZE_MAX);
    close(fd);
    forget(sample->scratch);
}

/* Those that ended leave; what they counted stays with their run. */
static void drop_gone(struct muster_agent_sample *sample)
{
    size_t kept = 0;
    for (size_t i = 0; i < sample->processes; i++) {
        struct muster_agent_process *process = &sample->process[i];
        if (!process->seen) {
            if (process->run != SIZE_MAX)
                add_totals(&sample->run[process->run].gone, &process->totals);
            continue;
        }
        if (kept != i)
            sample->process[kept] = *process;
        kept++;
    }
    sample->processes = kept;
}

static void drop_runs(struct muster_agent_sample *sample)
{
    size_t kept = 0;
    for (size_t r = 0; r < sample->runs; r++) {
        if (sample->run[r].alive == 0)
            continue;
        for (size_t i = 0; i < sample->processes; i++)
            if (sample->process[i].run == r)
                sample->process[i].run = kept;
        if (kept != r)
            sample->run[kept] = sample->run[r];
        kept++;
    }
    sample->runs = kept;
}

/* For people: Prometheus does not mind. */
static int by_run_and_rank(const void *a, const void *b)
{
    const struct muster_agent_process *one = a, *two = b;
    if (one->run != two->run)
        return one->run < two->run ? -1 : 1;
    if (one->identity.rank != two->identity.rank)
        return one->identity.rank < two->identity.rank ? -1 : 1;
    return (one->identity.pid > two->identity.pid) - (one->identity.pid < two->identity.pid);
}

/* Two series of one name and labels would cost the whole scrape. */
static void find_twins(struct muster_agent_sample *sample)
{
    for (size_t i = 0; i < sample->processes; i++) {
        struct muster_agent_process *one = &sample->process[i];
        one->twin = false;
        for (size_t k = 0; k < sample->processes && !one->twin; k++) {
            const struct muster_agent_process *other = &sample->process[k];
            bool same = k != i && one->run == other->run && one->identity.rank >= 0 &&
                        one->identity.rank == other->identity.rank;
            uint64_t mine = one->identity.begin_unix_ns, its = other->identity.begin_unix_ns;
            one->twin = same && (its > mine || (its == mine && k > i));
        }
    }
}

static void count_ranks(struct muster_agent_sample *sample)
{
    for (size_t i = 0; i < sample->processes; i++) {
        const struct muster_agent_process *process = &sample->process[i];
        struct muster_agent_run *run = &sample->run[process->run];
        int32_t world = process->identity.world;
        int32_t expected = world > process->largest ? world : process->largest;
        run->alive++;
        run->expected = expected > run->expected ? expected : run->expected;
    }
}

bool muster_agent_sample_take(struct muster_agent_sample *sample, const struct muster_found *found,
                              size_t n)
{
    bool whole = true;
    if (!sample->scratch) {
        sample->scratch = aligned_alloc(64, sizeof *sample->scratch);
        if (!sample->scratch)
            return false;
        memset(sample->scratch, 0, sizeof *sample->scratch);
    }
    sample->unreadable = sample->omitted = 0;
    for (size_t i = 0; i < sample->processes; i++)
        sample->process[i].seen = false;
    for (size_t r = 0; r < sample->runs; r++) {
        sample->run[r].alive = sample->run[r].comms = 0;
        sample->run[r].expected = -1;
    }
    for (size_t i = 0; i < n; i++)
        if (found[i].alive)
            take_one(sample, &found[i], &whole);
    drop_gone(sample);
    count_ranks(sample);
    drop_runs(sample);
    if (sample->processes > 0)
        qsort(sample->process, sample->processes, sizeof *sample->process, by_run_and_rank);
    find_twins(sample);
    return whole;
}

void muster_agent_sample_free(struct muster_agent_sample *sample)
{
    free(sample->process);
    free(sample->run);
    free(sample->scratch);
}
