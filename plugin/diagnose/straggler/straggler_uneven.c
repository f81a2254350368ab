#include "diagnose/straggler/straggler_nobody.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/nccl_types.h"
#include "base/text.h"
#include "diagnose/confidence.h"

#define WORTH 0.05 /* of the time: of 8 layers a stage one more is an eighth of its work */
/* What evenly cut stages would have saved, over what is said: bench/verdicts, seeds 700 to 739. Low
 * where each GPU has several stages, and waits for others anyway. */
#define COST_LOW  0.4
#define COST_HIGH 1.1
enum { STAGES_SHOWN = 8 };

/* The stage that does most, over all pipelines: ranks of one program. */
struct longest_stage {
    uint32_t program, comm, gpu; /* comm, gpu: of the first pipeline */
    bool *gpus;                  /* of each GPU: it is of the stage */
    size_t pipelines;
    double gains; /* sum: by how much it works longer than the mean of its pipeline's stages */
    bool differs; /* from pipeline to pipeline */
};

/* What a rank does with the next one. */
enum { SENDS = 1, RECEIVES = 2, BOTH = SENDS | RECEIVES };

/* Communicators of ranks that do not all do the same, and send to the next one what they receive
 * another from. */
static uint8_t *find_pipelines(const struct muster_graph *graph)
{
    const struct muster_view *view = graph->view;
    uint8_t *with_next = muster_arena_array(graph->memory, view->comms + 1, sizeof *with_next);
    for (size_t o = 0; o < view->ops && with_next; o++) {
        const struct muster_view_op *op = &view->op[o];
        const struct muster_view_member *own = &view->member[op->member];
        if (muster_func_is_p2p(op->func) && op->peer == own->rank + 1)
            with_next[own->comm] |= op->func == MUSTER_FUNC_SEND ? SENDS : RECEIVES;
    }
    for (size_t c = 0; c < view->comms && with_next; c++)
        if (!graph->stages[c] || view->comm[c].members != view->comm[c].nranks)
            with_next[c] = 0;
    return with_next;
}

static uint32_t gpu_at(const struct muster_view *view, const struct muster_view_comm *comm,
                       uint32_t i)
{
    return view->member[comm->first_member + i].gpu;
}

/* The GPU of a pipeline that works most; view->gpus: that is not known of all of them. */
static uint32_t hardest_of(const struct muster_graph *graph, const struct muster_view_comm *comm)
{
    uint32_t most = gpu_at(graph->view, comm, 0);
    for (uint32_t i = 0; i < comm->members; i++) {
        uint32_t gpu = gpu_at(graph->view, comm, i);
        if (graph->worked[gpu] == MUSTER_NOT_ALL_TIMED)
            return (uint32_t)graph->view->gpus;
        most = graph->worked[gpu] > graph->worked[most] ? gpu : most;
    }
    return most;
}

static double mean_of(const struct muster_graph *graph, const struct muster_view_comm *comm)
{
    double sum = 0;
    for (uint32_t i = 0; i < comm->members; i++)
        sum += graph->worked[gpu_at(graph->view, comm, i)];
    return sum / comm->members;
}

/* Notes the GPUs of a pipeline that are of the stage: of its program, and as the two ends may have
 * one, those that work more than the mean. Returns by how much the one of them that works least
 * works longer than that; what half of a pipeline's GPUs do is usual, so that of two stages nothing
 * is told. */
static double take_pipeline(const struct muster_graph *graph, const struct muster_view_comm *comm,
                            struct longest_stage *longest)
{
    double mean = mean_of(graph, comm), least = 1;
    uint32_t same = 0;
    for (uint32_t i = 0; i < comm->members; i++) {
        uint32_t gpu = gpu_at(graph->view, comm, i);
        double worked = graph->worked[gpu];
        bool is = graph->program[gpu] == longest->program && worked > mean;
        longest->gpus[gpu] |= is;
        same += is;
        least = is && worked < least ? worked : least;
    }
    return 2 * same < comm->members ? least - mean : 0;
}

static struct longest_stage find_longest(const struct muster_graph *graph)
{
    const struct muster_view *view = graph->view;
    const uint8_t *with_next = find_pipelines(graph);
    struct longest_stage longest = {
        .gpus = muster_arena_array(graph->memory, view->gpus + 1, sizeof *longest.gpus)};
    for (uint32_t c = 0; c < view->comms && !graph->memory->failed; c++) {
        bool is = with_next[c] == BOTH;
        uint32_t gpu = is ? hardest_of(graph, &view->comm[c]) : (uint32_t)view->gpus;
        if (gpu == view->gpus)
            continue;
        if (longest.pipelines++ == 0) {
            longest.program = graph->program[gpu];
            longest.comm = c;
            longest.gpu = gpu;
        }
        longest.differs |= graph->program[gpu] != longest.program;
        longest.gains += take_pipeline(graph, &view->comm[c], &longest);
    }
    return longest;
}

static void put_shares(const struct muster_graph *graph, const struct muster_view_comm *comm,
                       struct muster_finding_lines *to)
{
    char line[MUSTER_FINDING_LINE];
    struct muster_text text = muster_text_begin(line, sizeof line);
    uint32_t shown = comm->members < STAGES_SHOWN ? comm->members : STAGES_SHOWN;
    for (uint32_t i = 0; i < shown; i++) {
        uint32_t gpu = gpu_at(graph->view, comm, i);
        muster_text_add(&text, "%s%.0f %% (rank %" PRId32 ")", i ? ", " : "",
                        100 * graph->worked[gpu], graph->view->gpu[gpu].rank);
    }
    muster_finding_line(to, "of their time the GPUs of its pipeline work by themselves: %s%s", line,
                        shown < comm->members ? ", ..." : "");
}

/* What looks the same: a GPU, or a host, that is slow as a whole. */
static void put_alike(const struct muster_graph *graph, const bool *of_stage, uint32_t first,
                      struct muster_finding *finding)
{
    const uint32_t *host = graph->host;
    bool here = true, elsewhere = false;
    for (size_t g = 0; g < graph->view->gpus; g++) {
        here &= !of_stage[g] || host[g] == host[first];
        elsewhere |= host[g] != host[first];
    }
    if (finding->ranks == 1)
        muster_finding_line(&finding->not_observable,
                            "rank %" PRId32
                            " alone is this stage: a slow GPU or process looks the same",
                            finding->rank[0]);
    else if (here && elsewhere)
        muster_finding_line(&finding->not_observable,
                            "all of this stage is on host %s: a slow host looks the same",
                            finding->host);
}

static void put_ranks(const struct muster_graph *graph, const bool *of_stage,
                      struct muster_finding *finding)
{
    for (size_t g = 0; g < graph->view->gpus; g++)
        if (of_stage[g] && finding->ranks < MUSTER_FINDING_RANKS)
            finding->rank[finding->ranks++] = graph->view->gpu[g].rank;
}

static void describe(const struct muster_graph *graph, const struct longest_stage *longest,
                     const struct muster_view_span *span, struct muster_finding *finding)
{
    const struct muster_view_comm *comm = &graph->view->comm[longest->comm];
    const struct muster_view_gpu *gpu = &graph->view->gpu[longest->gpu];
    double s = (double)MUSTER_NS_PER_S;
    finding->kind = MUSTER_FINDING_UNEVEN_STAGES;
    finding->comm = comm->id;
    finding->gpu = gpu->gpu_index;
    muster_text_copy(finding->host, sizeof finding->host, gpu->host);
    put_ranks(graph, longest->gpus, finding);
    finding->cost_share = longest->gains / (double)longest->pipelines;
    finding->cost_s = finding->cost_share * (double)span[longest->gpu].covered_ns / s;
    finding->cost_low_s = COST_LOW * finding->cost_s;
    finding->cost_high_s = COST_HIGH * finding->cost_s;
    finding->cost_run_s = finding->cost_share * (double)span[longest->gpu].length_ns / s;
    finding->confidence = muster_confidence_uneven();
    put_shares(graph, comm, &finding->evidence);
    put_alike(graph, longest->gpus, longest->gpu, finding);
    muster_text_copy(
        finding->advice, sizeof finding->advice,
        finding->ranks == 1
            ? "look at its GPU's clocks (nvidia-smi -q -d CLOCK,POWER,TEMPERATURE) and "
              "at its process; if these are like the others', give its stage fewer "
              "layers: the last one also computes the loss, the first the embedding"
            : "give this stage fewer layers, and the others more: the last one also "
              "computes the loss, the first the embedding; not a rank is at fault");
}

void muster_straggler_uneven(const struct muster_graph *graph, const struct muster_view_span *span,
                             struct muster_findings *findings)
{
    if (!graph->worked || graph->view->window)
        return;
    struct longest_stage longest = find_longest(graph);
    if (graph->memory->failed || !longest.pipelines || longest.differs ||
        longest.gains < WORTH * (double)longest.pipelines)
        return;
    struct muster_finding *finding = muster_findings_add(findings);
    graph->memory->failed |= !finding;
    if (finding)
        describe(graph, &longest, span, finding);
}
