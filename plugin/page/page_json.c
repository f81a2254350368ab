#include "page/page_json.h"

#include <inttypes.h>
#include <math.h>

#include "base/clock.h"
#include "base/json.h"

enum { SCHEMA = 1, COLUMNS_MOST = 24, US_DECIMALS = 3 };

static double us(uint64_t ns)
{
    return (double)ns / (double)MUSTER_NS_PER_US;
}

static void put_us(struct muster_json *json, const char *key, uint64_t ns)
{
    muster_json_real(json, key, us(ns), US_DECIMALS);
}

/* ---- what indices mean ---- */

static void put_kinds(struct muster_json *json, const struct muster_view *view)
{
    muster_json_array(json, "kinds");
    for (size_t i = 0; i < view->classes; i++) {
        const struct muster_view_class *class = &view->class[i];
        muster_json_array(json, NULL);
        muster_json_str(json, NULL, muster_func_name(class->func));
        muster_json_str(json, NULL, class->algo ? muster_algo_name(class->algo) : "");
        muster_json_str(json, NULL, class->proto ? muster_proto_name(class->proto) : "");
        muster_json_bool(json, NULL, class->graph);
        muster_json_end(json);
    }
    muster_json_end(json);
}

static void put_comms(struct muster_json *json, const struct muster_view *view)
{
    muster_json_array(json, "comms");
    for (size_t i = 0; i < view->comms; i++) {
        const struct muster_view_comm *comm = &view->comm[i];
        char id[17];
        snprintf(id, sizeof id, "%016" PRIx64, comm->id);
        muster_json_object(json, NULL);
        muster_json_str(json, "id", id);
        muster_json_str(json, "name", comm->name);
        muster_json_u64(json, "nranks", comm->nranks);
        muster_json_u64(json, "seen", comm->members);
        muster_json_end(json);
    }
    muster_json_end(json);
}

static uint64_t bytes_of(const struct muster_view *view, const struct muster_view_op *op)
{
    const struct muster_view_class *class = &view->class[op->class];
    return muster_op_size_bytes(class->func, class->dtype, op->count,
                                view->member[op->member].nranks);
}

static const char *source_of(const struct muster_view_op *op)
{
    const char *word = muster_source_name(op->source);
    return word ? word : "none";
}

/* ---- ranks ---- */

static void put_gpus(struct muster_json *json, const struct muster_costs *costs,
                     const struct muster_report *report)
{
    muster_json_array(json, "costs");
    for (size_t g = 0; g < costs->view->gpus; g++) {
        const struct muster_cost_gpu *gpu = &costs->gpu[g];
        muster_json_object(json, NULL);
        muster_json_str(json, "host", report->rank[g].host_text);
        put_us(json, "cost_us", gpu->cost_ns);
        put_us(json, "wait_us", gpu->wait_ns);
        if (gpu->own_ops)
            put_us(json, "own_us", gpu->own_ns);
        else
            muster_json_null(json, "own_us");
        muster_json_u64(json, "own_ops", gpu->own_ops);
        muster_json_u64(json, "last", gpu->last_ops);
        muster_json_u64(json, "ops", gpu->ops);
        muster_json_u64(json, "row", gpu->row);
        muster_json_end(json);
    }
    muster_json_end(json);
}

/* Of each GPU its cells that hold something, eight numbers each: bin, cost, operations to which it
 * came last, and of the one that cost most: cost, kind, communicator, number, bytes. */
static void put_cells(struct muster_json *json, const struct muster_costs *costs)
{
    const struct muster_view *view = costs->view;
    muster_json_array(json, "cells");
    for (size_t g = 0; g < view->gpus; g++) {
        muster_json_array(json, NULL);
        for (uint32_t b = 0; b < costs->bins; b++) {
            const struct muster_cost_cell *cell = &costs->cell[g * costs->bins + b];
            if (!cell->ops || cell->cost_ns < MUSTER_NS_PER_US)
                continue;
            const struct muster_view_op *op = &view->op[cell->worst];
            muster_json_u64(json, NULL, b);
            muster_json_u64(json, NULL, cell->cost_ns / MUSTER_NS_PER_US);
            muster_json_u64(json, NULL, cell->ops);
            muster_json_u64(json, NULL, cell->worst_ns / MUSTER_NS_PER_US);
            muster_json_u64(json, NULL, op->class);
            muster_json_u64(json, NULL, view->member[op->member].comm);
            muster_json_u64(json, NULL, op->number);
            muster_json_u64(json, NULL, bytes_of(view, op));
        }
        muster_json_end(json);
    }
    muster_json_end(json);
}

static void put_heat(struct muster_json *json, const struct muster_costs *costs)
{
    const struct muster_view *view = costs->view;
    uint32_t leader = costs->clocks.leader;
    bool dated =
        leader != MUSTER_VIEW_NONE && view->gpu[leader].unix_ns && view->gpu[leader].host_times;
    muster_json_object(json, "heat");
    muster_json_u64(json, "bins", costs->bins);
    put_us(json, "length_us", costs->end_ns - costs->begin_ns);
    muster_json_real(
        json, "begin_unix_s",
        dated ? (double)(costs->begin_ns + (uint64_t)view->gpu[leader].unix_ns) / 1e9 : NAN, 3);
    muster_json_str(json, "source",
                    leader == MUSTER_VIEW_NONE || !view->gpu[leader].ordered
                        ? NULL
                        : source_of(&view->op[view->gpu[leader].order[0]]));
    put_cells(json, costs);
    muster_json_end(json);
}

/* ---- who waited for whom ---- */

/* The ranks that cost most, and all others in one column behind them. */
static void put_matrix(struct muster_json *json, const struct muster_costs *costs)
{
    uint32_t gpus = (uint32_t)costs->view->gpus;
    const uint32_t *order = costs->worst_first;
    uint32_t columns = gpus < COLUMNS_MOST ? gpus : COLUMNS_MOST;
    muster_json_object(json, "matrix");
    muster_json_array(json, "columns");
    for (uint32_t c = 0; c < columns; c++)
        muster_json_u64(json, NULL, order[c]);
    muster_json_end(json);
    muster_json_u64(json, "rows", costs->rows);
    muster_json_array(json, "us");
    for (uint32_t r = 0; r < costs->rows; r++) {
        uint64_t rest = 0;
        muster_json_array(json, NULL);
        for (uint32_t c = 0; c < gpus; c++) {
            uint64_t ns = costs->waited[(size_t)r * gpus + order[c]];
            if (c < columns)
                put_us(json, NULL, ns);
            else
                rest += ns;
        }
        put_us(json, NULL, rest);
        muster_json_end(json);
    }
    muster_json_end(json);
    muster_json_end(json);
}

/* ---- the worst operations ---- */

/* By how much each rank came after the first; null: not seen. */
static void put_arrivals(struct muster_json *json, const struct muster_view *view,
                         const struct muster_cost_strip *strip)
{
    const struct muster_view_comm *comm = &view->comm[strip->comm];
    muster_json_array(json, "gpu");
    for (uint32_t i = 0; i < comm->members; i++)
        muster_json_u64(json, NULL, view->member[comm->first_member + i].gpu);
    muster_json_end(json);
    muster_json_array(json, "late_us");
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_view_op *op =
            strip->op[i] == MUSTER_VIEW_NONE ? NULL : &view->op[strip->op[i]];
        if (op)
            put_us(json, NULL, strip->longest_ns - (op->end_ns - op->begin_ns));
        else
            muster_json_null(json, NULL);
    }
    muster_json_end(json);
}

static void put_strips(struct muster_json *json, const struct muster_costs *costs)
{
    const struct muster_view *view = costs->view;
    muster_json_array(json, "strips");
    for (uint32_t s = 0; s < costs->strips; s++) {
        const struct muster_cost_strip *strip = &costs->strip[s];
        const struct muster_view_op *last = &view->op[strip->last];
        uint32_t gpu = view->member[last->member].gpu;
        uint64_t at =
            last->end_ns + (uint64_t)muster_gpu_clock_offset(&costs->clocks.gpu[gpu], last->end_ns);
        muster_json_object(json, NULL);
        muster_json_u64(json, "comm", strip->comm);
        muster_json_u64(json, "kind", last->class);
        muster_json_u64(json, "number", last->number);
        muster_json_u64(json, "bytes", bytes_of(view, last));
        muster_json_str(json, "source", source_of(last));
        put_us(json, "wait_us", strip->wait_ns);
        put_us(json, "transfer_us", last->end_ns - last->begin_ns);
        put_us(json, "at_us", at > costs->begin_ns ? at - costs->begin_ns : 0);
        muster_json_u64(json, "last", gpu);
        put_arrivals(json, view, strip);
        muster_json_end(json);
    }
    muster_json_end(json);
}

/* ---- what links allow ---- */

static void put_limit(struct muster_json *json, const char *what, double gbs)
{
    muster_json_object(json, NULL);
    muster_json_str(json, "what", what);
    muster_json_real(json, "gbs", gbs, 3);
    muster_json_end(json);
}

/* Of the first GPU that has it: a job's GPUs are alike, or a finding names which is not. */
static void put_limits(struct muster_json *json, const struct muster_view *view)
{
    bool nvlink = false, net = false;
    muster_json_array(json, "limits");
    for (size_t g = 0; g < view->gpus; g++) {
        const struct muster_view_gpu *gpu = &view->gpu[g];
        if (gpu->fact && gpu->fact->nvlinks && gpu->fact->nvlink_mbs && !nvlink) {
            put_limit(json, "NVLinks of a GPU",
                      (double)gpu->fact->nvlink_mbs * gpu->fact->nvlinks / 1e3);
            nvlink = true;
        }
        if (gpu->facts && gpu->facts->head.nic_mbps && !net) {
            put_limit(json, "one network interface", (double)gpu->facts->head.nic_mbps / 8e3);
            net = true;
        }
    }
    muster_json_end(json);
}

/* ---- findings ---- */

void muster_page_json_finding(const struct muster_finding *finding, struct muster_json *json)
{
    char sentence[1024], cost[MUSTER_FINDING_LINE], causes[MUSTER_FINDING_LINE];
    struct muster_finding_lines when;
    muster_finding_sentence(finding, sentence, sizeof sentence);
    muster_finding_cost(finding, cost, sizeof cost);
    muster_finding_causes(finding, causes, sizeof causes);
    muster_finding_when(finding, &when);
    muster_json_object(json, NULL);
    muster_json_str(json, "text", sentence);
    muster_json_str(json, "cost", cost);
    muster_json_str(json, "causes", causes);
    muster_json_array(json, "when");
    for (unsigned i = 0; i < when.n; i++)
        muster_json_str(json, NULL, when.line[i]);
    muster_json_end(json);
    muster_json_object(json, "finding");
    muster_finding_json(finding, json);
    muster_json_end(json);
    muster_json_end(json);
}

static void put_findings(struct muster_json *json, const struct muster_findings *findings)
{
    muster_json_array(json, "findings");
    for (size_t i = 0; i < findings->n; i++)
        muster_page_json_finding(&findings->finding[i], json);
    muster_json_end(json);
    muster_json_array(json, "not_observable");
    for (unsigned i = 0; i < findings->not_observable.n; i++)
        muster_json_str(json, NULL, findings->not_observable.line[i]);
    muster_json_end(json);
}

void muster_page_json(const struct muster_page_content *content, FILE *out)
{
    const struct muster_view *view = content->view;
    struct muster_json json;
    uint64_t missing = 0;
    for (size_t g = 0; g < view->gpus; g++)
        missing += view->gpu[g].missing;
    muster_json_begin(&json, out, false);
    muster_json_object(&json, NULL);
    muster_json_u64(&json, "version", SCHEMA);
    muster_json_str(&json, "muster", MUSTER_VERSION);
    muster_json_str(&json, "command", content->request->command);
    muster_json_u64(&json, "made_unix_s", content->request->made_unix_s);
    muster_json_str(&json, "state", muster_verdict_name(content->verdict->state));
    muster_json_array(&json, "verdict");
    for (unsigned i = 0; i < content->verdict->lines; i++)
        muster_json_str(&json, NULL, content->verdict->line[i]);
    muster_json_end(&json);
    put_findings(&json, content->findings);
    muster_json_u64(&json, "joint_ops", content->costs->joint);
    put_us(&json, "wait_us", content->costs->wait_ns);
    muster_json_u64(&json, "missing_ops", missing);
    put_kinds(&json, view);
    put_comms(&json, view);
    put_gpus(&json, content->costs, content->report);
    put_heat(&json, content->costs);
    put_matrix(&json, content->costs);
    put_strips(&json, content->costs);
    put_limits(&json, view);
    muster_json_end(&json);
}
