#include "agent/agent_metrics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/nccl_types.h"

#define COUNTER(name, help)                                                                        \
    {                                                                                              \
        name, MUSTER_FAMILY_COUNTER, help                                                          \
    }
#define GAUGE(name, help)                                                                          \
    {                                                                                              \
        name, MUSTER_FAMILY_GAUGE, help                                                            \
    }
#define INFO(name, help)                                                                           \
    {                                                                                              \
        name, MUSTER_FAMILY_INFO, help                                                             \
    }

enum { LABEL_TEXT = 24 };

struct print {
    struct muster_exposition to;
    const struct muster_agent_sample *sample;
    const struct muster_agent_news *news;
    uint64_t took_ns;
};

/* Texts of the labels that a run's or a rank's series have. */
struct words {
    char uid[LABEL_TEXT], rank[LABEL_TEXT];
};

static void put_number(char text[static LABEL_TEXT], uint64_t value)
{
    snprintf(text, LABEL_TEXT, "%" PRIu64, value);
}

static void put_signed(char text[static LABEL_TEXT], int64_t value)
{
    if (value < 0)
        text[0] = 0;
    else
        put_number(text, (uint64_t)value);
}

static void name_rank(const struct muster_agent_process *process, struct words *words)
{
    put_number(words->uid, process->uid);
    if (process->identity.rank >= 0)
        put_signed(words->rank, process->identity.rank);
    else
        snprintf(words->rank, sizeof words->rank, "pid%u", process->identity.pid);
}

static const struct muster_agent_known *known_of(const struct print *print,
                                                 const struct muster_agent_process *process)
{
    static const struct muster_agent_known nothing;
    for (size_t i = 0; i < print->news->knowns; i++) {
        const struct muster_agent_known *known = &print->news->known[i];
        if (known->pid == process->identity.pid &&
            known->start_ticks == process->identity.start_ticks)
            return known;
    }
    return &nothing;
}

/* ---- ranks ---- */

/* Its value; false: the rank has none. */
typedef bool take_value(const struct print *print, const struct muster_agent_process *process,
                        uint64_t *value);

static bool take_operations(const struct print *print, const struct muster_agent_process *process,
                            uint64_t *value)
{
    (void)print;
    *value = muster_agent_all(&process->totals).operations;
    return true;
}

static bool take_bytes(const struct print *print, const struct muster_agent_process *process,
                       uint64_t *value)
{
    (void)print;
    *value = muster_agent_all(&process->totals).bytes;
    return true;
}

static bool take_timed(const struct print *print, const struct muster_agent_process *process,
                       uint64_t *value)
{
    (void)print;
    *value = muster_agent_all(&process->totals).timed;
    return true;
}

static bool take_timed_ns(const struct print *print, const struct muster_agent_process *process,
                          uint64_t *value)
{
    (void)print;
    *value = muster_agent_all(&process->totals).timed_ns;
    return true;
}

static bool take_inflight(const struct print *print, const struct muster_agent_process *process,
                          uint64_t *value)
{
    (void)print;
    *value = process->inflight;
    return true;
}

static bool take_progress(const struct print *print, const struct muster_agent_process *process,
                          uint64_t *value)
{
    (void)print;
    *value = process->progress_unix_ns;
    return *value != 0;
}

static bool take_dropped(const struct print *print, const struct muster_agent_process *process,
                         uint64_t *value)
{
    (void)print;
    *value = process->totals.lost;
    for (unsigned d = 0; d < MUSTER_DROPS; d++)
        *value += process->totals.dropped[d];
    return true;
}

static bool take_compared(const struct print *print, const struct muster_agent_process *process,
                          uint64_t *value)
{
    *value = known_of(print, process)->compared.operations;
    return true;
}

static bool take_wait(const struct print *print, const struct muster_agent_process *process,
                      uint64_t *value)
{
    *value = known_of(print, process)->compared.wait_ns;
    return true;
}

static bool take_late(const struct print *print, const struct muster_agent_process *process,
                      uint64_t *value)
{
    *value = known_of(print, process)->compared.late_ns;
    return true;
}

static bool take_overhead(const struct print *print, const struct muster_agent_process *process,
                          uint64_t *value)
{
    *value = known_of(print, process)->proc.cpu_ns;
    return known_of(print, process)->proc.tids > 0;
}

static bool take_network_bytes(const struct print *print,
                               const struct muster_agent_process *process, uint64_t *value)
{
    (void)print;
    *value = process->totals.net_bytes;
    return process->network;
}

static bool take_network_wait(const struct print *print, const struct muster_agent_process *process,
                              uint64_t *value)
{
    (void)print;
    *value = process->totals.net_wait_ns;
    return process->network;
}

static const struct {
    struct muster_family family;
    take_value *take;
    bool seconds; /* the value is ns */
} rank_families[] = {
    {COUNTER("muster_operations_total", "Operations of a rank that are over, of all kinds"),
     take_operations, false},
    {COUNTER("muster_bytes_total", "Bytes of these operations, by nccl-tests' sizes"), take_bytes,
     false},
    {COUNTER("muster_timed_operations_total", "Operations that have times of the GPU's clock"),
     take_timed, false},
    {COUNTER("muster_operation_seconds_total",
             "What the timed operations took on the GPU, waiting for other ranks included"),
     take_timed_ns, true},
    {GAUGE("muster_inflight_operations", "Operations that were called and are not over"),
     take_inflight, false},
    {GAUGE("muster_last_progress_timestamp_seconds",
           "When an operation was last called, or last seen to be over, since 1970"),
     take_progress, true},
    {COUNTER("muster_compared_operations_total",
             "Operations that were compared with the other ranks of this host"),
     take_compared, false},
    {COUNTER("muster_wait_seconds_total",
             "What a rank waited for others of this host in the compared operations"),
     take_wait, true},
    {COUNTER("muster_lateness_seconds_total",
             "How much later than the first of this host a rank came to the compared operations"),
     take_late, true},
    {COUNTER("muster_network_sent_bytes_total", "Bytes that NCCL's proxy sent over the network"),
     take_network_bytes, false},
    {COUNTER("muster_network_wait_seconds_total",
             "What NCCL's proxy waited for the network, all of its steps together"),
     take_network_wait, true},
    {COUNTER("muster_records_dropped_total", "What could not be recorded, for all reasons"),
     take_dropped, false},
    {COUNTER("muster_overhead_seconds_total", "Processor time of muster's own threads in the job"),
     take_overhead, true},
};

static void print_ranks(struct print *print)
{
    for (size_t f = 0; f < sizeof rank_families / sizeof *rank_families; f++) {
        muster_exposition_family(&print->to, &rank_families[f].family);
        for (size_t i = 0; i < print->sample->processes; i++) {
            const struct muster_agent_process *process = &print->sample->process[i];
            struct words words;
            uint64_t value;
            if (process->twin || !rank_families[f].take(print, process, &value))
                continue;
            name_rank(process, &words);
            const struct muster_label label[] = {{"run", print->sample->run[process->run].name},
                                                 {"uid", words.uid},
                                                 {"rank", words.rank},
                                                 {NULL, NULL}};
            if (rank_families[f].seconds)
                muster_exposition_seconds(&print->to, "", label, value);
            else
                muster_exposition_count(&print->to, "", label, value);
        }
    }
}

static void put_version(char text[static LABEL_TEXT], uint32_t nccl)
{
    text[0] = 0;
    if (nccl)
        muster_nccl_version_text(text, LABEL_TEXT, nccl);
}

static void print_rank_info(struct print *print)
{
    static const struct muster_family family = INFO("muster_rank_info", "Who a rank is");
    muster_exposition_family(&print->to, &family);
    for (size_t i = 0; i < print->sample->processes; i++) {
        const struct muster_agent_process *process = &print->sample->process[i];
        const struct muster_seg_identity *who = &process->identity;
        const struct muster_agent_proc *proc = &known_of(print, process)->proc;
        char pid[LABEL_TEXT], local[LABEL_TEXT], gpu[LABEL_TEXT], nccl[LABEL_TEXT];
        struct words words;
        if (process->twin)
            continue;
        name_rank(process, &words);
        put_number(pid, who->pid);
        put_signed(local, who->local_rank);
        put_signed(gpu, process->gpu_index);
        put_version(nccl, who->nccl);
        const struct muster_label label[] = {{"run", print->sample->run[process->run].name},
                                             {"uid", words.uid},
                                             {"rank", words.rank},
                                             {"host", who->hostname},
                                             {"local_rank", local},
                                             {"pid", pid},
                                             {"gpu", gpu},
                                             {"gpu_uuid", process->gpu_uuid},
                                             {"pci_bus_id", process->gpu_pci},
                                             {"nccl", nccl},
                                             {"job_id", proc->job_id},
                                             {"step_id", proc->step_id},
                                             {"pod", proc->pod},
                                             {"namespace", proc->namespace},
                                             {"pod_uid", proc->pod_uid},
                                             {NULL, NULL}};
        muster_exposition_count(&print->to, "", label, 1);
    }
}

/* ---- runs ---- */

static void print_counts(struct print *print)
{
    static const struct muster_family observed =
        GAUGE("muster_ranks_observed", "Ranks of a run that live on this host and are recorded");
    static const struct muster_family expected =
        GAUGE("muster_ranks_expected", "Ranks of the whole run, all hosts together");
    for (int which = 0; which < 2; which++) {
        muster_exposition_family(&print->to, which ? &expected : &observed);
        for (size_t r = 0; r < print->sample->runs; r++) {
            const struct muster_agent_run *run = &print->sample->run[r];
            char uid[LABEL_TEXT];
            put_number(uid, run->uid);
            const struct muster_label label[] = {{"run", run->name}, {"uid", uid}, {NULL, NULL}};
            if (!which)
                muster_exposition_count(&print->to, "", label, run->alive);
            else if (run->expected > 0)
                muster_exposition_count(&print->to, "", label, (uint64_t)run->expected);
        }
    }
}

static void print_comms(struct print *print)
{
    static const struct muster_family info =
        INFO("muster_comm_info", "A communicator; the 8 largest of each run");
    static const struct muster_family calls =
        COUNTER("muster_comm_calls_total",
                "Collectives called on it, by the rank of this host that is farthest");
    for (int which = 0; which < 2; which++) {
        muster_exposition_family(&print->to, which ? &calls : &info);
        for (size_t r = 0; r < print->sample->runs; r++) {
            const struct muster_agent_run *run = &print->sample->run[r];
            for (unsigned c = 0; c < run->comms; c++) {
                const struct muster_agent_comm *comm = &run->comm[c];
                char uid[LABEL_TEXT], id[LABEL_TEXT], nranks[LABEL_TEXT], nnodes[LABEL_TEXT];
                put_number(uid, run->uid);
                snprintf(id, sizeof id, "%016" PRIx64, comm->id);
                put_number(nranks, comm->nranks);
                put_number(nnodes, comm->nnodes);
                struct muster_label label[] = {
                    {"run", run->name}, {"uid", uid},       {"comm", id}, {"comm_name", comm->name},
                    {"nranks", nranks}, {"nnodes", nnodes}, {NULL, NULL}};
                if (which)
                    label[3].name = NULL;
                muster_exposition_count(&print->to, "", label, which ? comm->calls : 1);
            }
        }
    }
}

static void print_functions(struct print *print, const struct muster_agent_totals *totals)
{
    static const struct muster_family families[] = {
        COUNTER("muster_function_operations_total", "Operations by what they do"),
        COUNTER("muster_function_bytes_total", "Their bytes, by nccl-tests' sizes"),
        COUNTER("muster_function_seconds_total", "What the timed ones of them took on the GPU"),
    };
    for (unsigned f = 0; f < 3; f++) {
        muster_exposition_family(&print->to, &families[f]);
        for (size_t r = 0; r < print->sample->runs; r++) {
            for (unsigned kind = 0; kind < MUSTER_FUNCS; kind++) {
                const struct muster_agent_func *func = &totals[r].func[kind];
                char uid[LABEL_TEXT];
                put_number(uid, print->sample->run[r].uid);
                const struct muster_label label[] = {{"run", print->sample->run[r].name},
                                                     {"uid", uid},
                                                     {"function", muster_func_name(kind)},
                                                     {NULL, NULL}};
                if (func->operations == 0)
                    continue;
                if (f == 2)
                    muster_exposition_seconds(&print->to, "", label, func->timed_ns);
                else
                    muster_exposition_count(&print->to, "", label,
                                            f ? func->bytes : func->operations);
            }
        }
    }
}

static void print_buckets(struct print *print, const struct muster_agent_run *run,
                          const struct muster_agent_totals *totals)
{
    char uid[LABEL_TEXT], bound[LABEL_TEXT];
    uint64_t below = 0;
    put_number(uid, run->uid);
    struct muster_label label[] = {{"run", run->name}, {"uid", uid}, {"le", bound}, {NULL, NULL}};
    for (unsigned b = 0; b <= MUSTER_AGENT_BOUNDS; b++) {
        below += totals->bucket[b];
        snprintf(bound, sizeof bound, "+Inf");
        if (b < MUSTER_AGENT_BOUNDS)
            snprintf(bound, sizeof bound, "%.10g",
                     (double)muster_agent_bound_ns[b] / (double)MUSTER_NS_PER_S);
        muster_exposition_count(&print->to, "_bucket", label, below);
    }
    label[2].name = NULL;
    muster_exposition_seconds(&print->to, "_sum", label, muster_agent_all(totals).timed_ns);
    muster_exposition_count(&print->to, "_count", label, below);
}

static void print_histograms(struct print *print, const struct muster_agent_totals *totals)
{
    static const struct muster_family family = {
        "muster_operation_duration_seconds", MUSTER_FAMILY_HISTOGRAM,
        "What timed operations took on the GPU, all ranks of a run on this host together"};
    muster_exposition_family(&print->to, &family);
    for (size_t r = 0; r < print->sample->runs; r++)
        print_buckets(print, &print->sample->run[r], &totals[r]);
}

static void print_runs(struct print *print)
{
    struct muster_agent_totals *totals = calloc(print->sample->runs + 1, sizeof *totals);
    for (size_t r = 0; totals && r < print->sample->runs; r++)
        muster_agent_totals_of(print->sample, r, &totals[r]);
    print_counts(print);
    print_comms(print);
    if (totals) {
        print_functions(print, totals);
        print_histograms(print, totals);
    }
    free(totals);
}

/* ---- findings ---- */

static bool lives(const struct muster_agent_sample *sample, const struct muster_finding_series *one)
{
    for (size_t r = 0; r < sample->runs; r++)
        if (sample->run[r].uid == one->uid && strcmp(sample->run[r].name, one->run) == 0)
            return true;
    return false;
}

static void print_findings(struct print *print)
{
    static const struct muster_family ever =
        COUNTER("muster_findings_total", "Findings since the agent began");
    struct muster_finding_metrics living = print->news->findings;
    living.n = 0;
    for (size_t i = 0; i < print->news->findings.n; i++)
        if (lives(print->sample, &print->news->findings.series[i]))
            living.series[living.n++] = print->news->findings.series[i];
    muster_finding_metrics_print(&living, &ever, false, &print->to);
}

/* ---- the agent itself ---- */

static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%llu %llu", &pages, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t cpu_ns(void)
{
    return muster_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static void print_one(struct print *print, const struct muster_family *family, uint64_t value,
                      bool seconds)
{
    muster_exposition_family(&print->to, family);
    if (seconds)
        muster_exposition_seconds(&print->to, "", NULL, value);
    else
        muster_exposition_count(&print->to, "", NULL, value);
}

static void print_self(struct print *print)
{
    static const struct muster_family info = INFO("muster_agent_info", "The agent of this host");
    static const struct muster_family one[] = {
        GAUGE("muster_agent_scrape_duration_seconds", "What reading the segments took this time"),
        GAUGE("muster_agent_last_look_timestamp_seconds", "When jobs were last judged, since 1970"),
        GAUGE("muster_agent_segments_unreadable",
              "Segments that are damaged, of another version, or not to be read"),
        GAUGE("muster_agent_ranks_omitted",
              "Ranks that had no place, or the run and rank of a newer one"),
        GAUGE("muster_agent_findings_omitted", "Findings beyond the 64 that are told at once"),
        COUNTER("process_cpu_seconds_total", "Processor time of the agent"),
        GAUGE("process_resident_memory_bytes", "Memory of the agent"),
    };
    const struct muster_label version[] = {{"version", MUSTER_VERSION}, {NULL, NULL}};
    uint64_t omitted = print->sample->omitted;
    for (size_t i = 0; i < print->sample->processes; i++)
        omitted += print->sample->process[i].twin;
    muster_exposition_family(&print->to, &info);
    muster_exposition_count(&print->to, "", version, 1);
    print_one(print, &one[0], print->took_ns, true);
    print_one(print, &one[1], print->news->looked_unix_ns, true);
    print_one(print, &one[2], print->sample->unreadable, false);
    print_one(print, &one[3], omitted, false);
    print_one(print, &one[4], print->news->findings.omitted, false);
    print_one(print, &one[5], cpu_ns(), true);
    print_one(print, &one[6], resident_bytes(), false);
}

size_t muster_agent_metrics(const struct muster_agent_options *options,
                            const struct muster_agent_sample *sample,
                            const struct muster_agent_news *news, uint64_t took_ns,
                            bool open_metrics, FILE *out)
{
    struct print print = {.sample = sample, .news = news, .took_ns = took_ns};
    muster_exposition_begin(&print.to, out, open_metrics);
    print_rank_info(&print);
    print_ranks(&print);
    print_runs(&print);
    print_findings(&print);
    print_self(&print);
    if (options && options->more)
        options->more(options->more_arg, &print.to);
    muster_exposition_end(&print.to);
    return print.to.series;
}
