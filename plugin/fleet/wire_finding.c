#include "fleet/wire_finding.h"

#include <math.h>

enum {
    HAS_OP = 1 << 0,
    BY_CALLS = 1 << 1,
    AGAINST_ONE = 1 << 2,
};

/* Millionths: what is beyond them, or no number, is 0. */
#define MILLION 1e6

static void put_share(struct muster_wire_out *out, double value)
{
    bool fits = isfinite(value) && value > 0 && value < (double)INT64_MAX / MILLION;
    muster_wire_put(out, fits ? (uint64_t)(value * MILLION) : 0);
}

static double get_share(struct muster_wire_in *in)
{
    return (double)muster_wire_get(in, INT64_MAX) / MILLION;
}

static void put_lines(struct muster_wire_out *out, const struct muster_finding_lines *lines)
{
    muster_wire_put(out, lines->n);
    for (unsigned i = 0; i < lines->n; i++)
        muster_wire_put_text(out, lines->line[i]);
}

static void get_lines(struct muster_wire_in *in, struct muster_finding_lines *lines)
{
    lines->n = (unsigned)muster_wire_get_count(in, MUSTER_FINDING_LINES, 1);
    for (unsigned i = 0; i < lines->n && !in->wrong; i++)
        muster_wire_get_text(in, lines->line[i], sizeof lines->line[i]);
}

static void put_ranks(struct muster_wire_out *out, const int32_t *rank, unsigned n)
{
    muster_wire_put(out, n);
    for (unsigned i = 0; i < n; i++)
        muster_wire_put_signed(out, rank[i]);
}

static unsigned get_ranks(struct muster_wire_in *in, int32_t *rank)
{
    unsigned n = (unsigned)muster_wire_get_count(in, MUSTER_FINDING_RANKS, 1);
    for (unsigned i = 0; i < n; i++)
        rank[i] = (int32_t)muster_wire_get_signed(in, INT32_MIN, INT32_MAX);
    return n;
}

static void put_op(struct muster_wire_out *out, const struct muster_finding *finding)
{
    muster_wire_put_byte(out, finding->op.func);
    muster_wire_put_byte(out, finding->op.dtype);
    muster_wire_put(out, finding->op.index);
    muster_wire_put(out, finding->op.bytes);
    muster_wire_put_signed(out, finding->op.root);
}

static void get_op(struct muster_wire_in *in, struct muster_finding *finding)
{
    finding->op.func = muster_kind_or_unknown((uint8_t)muster_wire_get_byte(in), MUSTER_FUNCS);
    finding->op.dtype = muster_kind_or_unknown((uint8_t)muster_wire_get_byte(in), MUSTER_DTYPES);
    finding->op.index = muster_wire_get(in, INT64_MAX);
    finding->op.bytes = muster_wire_get(in, INT64_MAX);
    finding->op.root = (int32_t)muster_wire_get_signed(in, INT32_MIN, INT32_MAX);
}

void muster_wire_put_finding(struct muster_wire_out *out, const struct muster_finding *finding)
{
    muster_wire_put_byte(out, finding->kind);
    muster_wire_put_byte(out, (finding->has_op ? HAS_OP : 0u) | (finding->by_calls ? BY_CALLS : 0) |
                                  (finding->against_one ? AGAINST_ONE : 0));
    muster_wire_put_byte(out, finding->mode);
    muster_wire_put_byte(out, finding->cause);
    muster_wire_put_fixed(out, finding->comm);
    muster_wire_put_signed(out, finding->gpu);
    put_op(out, finding);
    muster_wire_put(out, finding->since_unix_ns);
    put_share(out, finding->cost_s);
    put_share(out, finding->cost_share);
    put_share(out, finding->cost_low_s);
    put_share(out, finding->cost_high_s);
    put_share(out, finding->confidence);
    put_share(out, finding->step_s);
    put_ranks(out, finding->rank, finding->ranks);
    put_ranks(out, finding->victim, finding->victims);
    muster_wire_put_text(out, finding->where);
    put_lines(out, &finding->evidence);
    put_lines(out, &finding->not_observable);
    muster_wire_put_text(out, finding->advice);
}

void muster_wire_get_finding(struct muster_wire_in *in, struct muster_finding *finding)
{
    finding->kind = (enum muster_finding_kind)muster_wire_get_byte(in);
    unsigned flags = muster_wire_get_byte(in);
    finding->has_op = flags & HAS_OP;
    finding->by_calls = flags & BY_CALLS;
    finding->against_one = flags & AGAINST_ONE;
    finding->mode = (enum muster_finding_mode)muster_wire_get_byte(in);
    finding->cause = (enum muster_finding_cause)muster_wire_get_byte(in);
    if (finding->kind != MUSTER_FINDING_LATE_RANK || finding->mode > MUSTER_MODE_MOVES ||
        finding->cause > MUSTER_CAUSE_HOST)
        muster_wire_wrong(in, "a finding that no agent makes");
    finding->comm = muster_wire_get_fixed(in);
    finding->gpu = (int32_t)muster_wire_get_signed(in, INT32_MIN, INT32_MAX);
    get_op(in, finding);
    finding->since_unix_ns = muster_wire_get(in, INT64_MAX);
    finding->cost_s = get_share(in);
    finding->cost_share = get_share(in);
    finding->cost_low_s = get_share(in);
    finding->cost_high_s = get_share(in);
    finding->confidence = get_share(in);
    finding->step_s = get_share(in);
    finding->ranks = get_ranks(in, finding->rank);
    finding->victims = get_ranks(in, finding->victim);
    muster_wire_get_text(in, finding->where, sizeof finding->where);
    get_lines(in, &finding->evidence);
    get_lines(in, &finding->not_observable);
    muster_wire_get_text(in, finding->advice, sizeof finding->advice);
    if (finding->ranks == 0 || finding->cost_share > 1 || finding->confidence > 1)
        muster_wire_wrong(in, "a finding of nobody, or of more than everything");
}
