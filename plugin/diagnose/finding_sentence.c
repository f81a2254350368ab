/* Findings as people read them. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "diagnose/finding.h"

/* "rank 1", "ranks 0, 2, 3", "no rank". */
static void put_ranks(struct muster_text *text, const int32_t *rank, unsigned n)
{
    enum { SHOWN = 8 };
    muster_text_add(text, n == 0 ? "no rank" : n == 1 ? "rank" : "ranks");
    for (unsigned i = 0; i < n && i < SHOWN; i++)
        muster_text_add(text, "%s%" PRId32, i ? ", " : " ", rank[i]);
    if (n > SHOWN)
        muster_text_add(text, " and %u more", n - SHOWN);
}

static void put_culprits(struct muster_text *text, const struct muster_finding *finding)
{
    put_ranks(text, finding->rank, finding->ranks);
    if (!finding->host[0] || finding->ranks != 1)
        return;
    muster_text_add(text, " (host %s", finding->host);
    if (finding->gpu >= 0)
        muster_text_add(text, ", GPU %" PRId32, finding->gpu);
    muster_text_add(text, ")");
}

/* "communicator 00c0ffee00c0ffee", behind it the name that the job gave it. */
static void put_comm(struct muster_text *text, const struct muster_finding *finding)
{
    muster_text_add(text, "communicator %016" PRIx64, finding->comm);
    if (finding->comm_name[0])
        muster_text_add(text, " \"%s\"", finding->comm_name);
}

static void put_op(struct muster_text *text, const struct muster_finding *finding)
{
    char size[32];
    if (!finding->has_op) {
        muster_text_add(text, "an operation (");
        put_comm(text, finding);
        muster_text_add(text, ")");
        return;
    }
    muster_text_bytes(size, sizeof size, finding->op.bytes);
    muster_text_add(text, "%s #%" PRIu64 " (%s, ", muster_func_name(finding->op.func),
                    finding->op.index, size);
    put_comm(text, finding);
    muster_text_add(text, ")");
}

static void put_victims(struct muster_text *text, const struct muster_finding *finding)
{
    if (finding->victims == 0)
        return;
    muster_text_add(text, "; ");
    put_ranks(text, finding->victim, finding->victims);
    muster_text_add(text, finding->victims == 1 ? " has" : " have");
    muster_text_add(text, " been waiting in it for %.0f s", finding->cost_s / finding->victims);
}

static void put_cost(struct muster_text *text, const struct muster_finding *finding)
{
    const char *of =
        finding->by_calls ? "by when hosts called" : "in the operations that were timed";
    if (finding->cost_share > 0)
        muster_text_add(text, "; %s the job lost %.2g %% of its time to that (%.3g s)", of,
                        100 * finding->cost_share, finding->cost_s);
    else
        muster_text_add(text, "; %s the job lost %.3g s to that", of, finding->cost_s);
}

static void put_absent(struct muster_text *text, const struct muster_finding *finding)
{
    put_culprits(text, finding);
    muster_text_add(text, " never entered ");
    put_op(text, finding);
    put_victims(text, finding);
}

const char *muster_finding_went_words(const struct muster_finding *finding)
{
    static const char *const words[] = {
        [MUSTER_WENT_KILLED] = "killed or crashed",
        [MUSTER_WENT_LEFT] = "left without finalizing",
        [MUSTER_WENT_UNKNOWN] = "killed, crashed or left by _exit()",
    };
    return words[finding->went];
}

static void put_dead(struct muster_text *text, const struct muster_finding *finding)
{
    put_culprits(text, finding);
    muster_text_add(text, " %s gone (%s) ", finding->ranks > 1 ? "are" : "is",
                    muster_finding_went_words(finding));
    if (muster_finding_hangs_not_yet(finding)) {
        muster_text_add(text, "while the others live on; whoever calls ");
        put_comm(text, finding);
        muster_text_add(text, finding->ranks > 1 ? " next waits for them" : " next waits for it");
        return;
    }
    muster_text_add(text, finding->entered ? "inside " : "and never entered ");
    put_op(text, finding);
    put_victims(text, finding);
}

static void put_mismatch(struct muster_text *text, const struct muster_finding *finding)
{
    put_culprits(text, finding);
    /* At a tie there are two sides: one rank is named where it alone called anything. */
    bool alone = finding->ranks == 1 && finding->confidence <= 0.5;
    muster_text_add(text, alone ? " waits alone in " : " called something else in place of ");
    put_op(text, finding);
    if (alone)
        muster_text_add(text, ", which no other rank called");
    put_victims(text, finding);
}

static void put_calls(struct muster_text *text, const struct muster_finding *finding)
{
    put_culprits(text, finding);
    muster_text_add(text, finding->confidence <= 0.5 ? " called different things in place of "
                                                     : " called something else in place of ");
    put_op(text, finding);
    muster_text_add(text, "; no rank hung in it");
    for (unsigned i = 0; i < finding->evidence.n && i < 2; i++)
        muster_text_add(text, "%s%s", i ? "; " : ": ", finding->evidence.line[i]);
}

static void put_stuck(struct muster_text *text, const struct muster_finding *finding)
{
    muster_text_add(text, "all ranks entered ");
    put_op(text, finding);
    muster_text_add(text, " and none ends it");
    put_victims(text, finding);
}

static void put_order(struct muster_text *text, const struct muster_finding *finding)
{
    put_culprits(text, finding);
    muster_text_add(text,
                    " started communicators %016" PRIx64 " and %016" PRIx64
                    " in the opposite order to the others",
                    finding->comms[0], finding->comms[1]);
    put_victims(text, finding);
}

static void put_divergence(struct muster_text *text, const struct muster_finding *finding)
{
    put_culprits(text, finding);
    bool tie = finding->confidence <= 0.5;
    if (finding->has_op) {
        muster_text_add(text, tie ? " chose differently in "
                                  : " chose otherwise than the other ranks in ");
        put_op(text, finding);
    } else {
        muster_text_add(
            text,
            tie ? " have different policies in communicator %016" PRIx64
            : finding->ranks == 1
                ? " does not have the policy most ranks have in communicator %016" PRIx64
                : " do not have the policy most ranks have in communicator %016" PRIx64,
            finding->comm);
    }
    for (unsigned i = 0; i < finding->evidence.n && i < 2; i++)
        muster_text_add(text, "%s%s", i ? "; " : ": ", finding->evidence.line[i]);
}

static void put_path(struct muster_text *text, const struct muster_finding *finding)
{
    put_ranks(text, finding->rank, finding->ranks);
    if (finding->host[0])
        muster_text_add(text, " (host %s)", finding->host);
    muster_text_add(text, finding->kind == MUSTER_FINDING_PATH_MISSING
                              ? " do not use the best path between them"
                              : " have a path between them that is slower than it can be");
    for (unsigned i = 0; i < finding->evidence.n && i < 2; i++)
        muster_text_add(text, "%s%s", i ? "; " : ": ", finding->evidence.line[i]);
}

static void put_price(struct muster_text *text, const struct muster_finding *finding)
{
    put_cost(text, finding);
    if (finding->evidence.n > 0)
        muster_text_add(text, ": %s", finding->evidence.line[0]);
}

/* A single long wait: it is known from calls, whether timed or not. */
static void put_once(struct muster_text *text, const struct muster_finding *finding)
{
    put_culprits(text, finding);
    muster_text_add(text, " came %.3g s late to ", finding->cost_s);
    put_op(text, finding);
    muster_text_add(text, ", once");
    if (finding->victims > 0) {
        muster_text_add(text, "; ");
        put_ranks(text, finding->victim, finding->victims);
        muster_text_add(text, " waited for it");
    }
}

static void put_late(struct muster_text *text, const struct muster_finding *finding)
{
    if (finding->mode == MUSTER_MODE_ONCE) {
        put_once(text, finding);
        return;
    }
    put_culprits(text, finding);
    muster_text_add(text, finding->ranks > 1 ? " come late to " : " comes late to ");
    put_op(text, finding);
    if (finding->mode == MUSTER_MODE_MOVES)
        muster_text_add(text, ", one after the other");
    if (finding->every_steps)
        muster_text_add(text, ", each %" PRIu32 "%s step", finding->every_steps,
                        muster_text_ordinal(finding->every_steps));
    if (finding->cause != MUSTER_CAUSE_UNKNOWN)
        muster_text_add(text, ", cause %s", muster_finding_cause_name(finding->cause));
    put_price(text, finding);
}

static void put_host(struct muster_text *text, const struct muster_finding *finding)
{
    muster_text_add(text, "host %s comes late to ", finding->host);
    put_op(text, finding);
    muster_text_add(text, " as a whole (");
    put_ranks(text, finding->rank, finding->ranks);
    muster_text_add(text, ")");
    if (finding->cause != MUSTER_CAUSE_UNKNOWN)
        muster_text_add(text, ", cause %s", muster_finding_cause_name(finding->cause));
    put_price(text, finding);
}

static void put_alike(struct muster_text *text, const struct muster_finding *finding)
{
    muster_text_add(text, "every rank waits alike %s, nobody for another", finding->where);
    put_price(text, finding);
}

static void put_uneven(struct muster_text *text, const struct muster_finding *finding)
{
    muster_text_add(text, "the pipeline's stages are uneven: ");
    put_ranks(text, finding->rank, finding->ranks);
    muster_text_add(text, finding->ranks > 1 ? " work longer than the others"
                                             : " works longer than the others");
    put_price(text, finding);
}

/* A host that both ends are on is named once, behind them. */
static void put_transfer_ends(struct muster_text *text, const struct muster_finding *finding)
{
    bool apart = finding->to_host[0] && strcmp(finding->host, finding->to_host) != 0;
    muster_text_add(text, "the transfer from rank %" PRId32, finding->rank[0]);
    if (apart)
        muster_text_add(text, " (host %s)", finding->host);
    muster_text_add(text, " to rank %" PRId32, finding->rank[1]);
    if (finding->to_host[0])
        muster_text_add(text, " (host %s)", finding->to_host);
    muster_text_add(text, " is slow in ");
}

static void put_transfer(struct muster_text *text, const struct muster_finding *finding)
{
    if (finding->ranks >= 2)
        put_transfer_ends(text, finding);
    else
        muster_text_add(text, "transfers are slow in ");
    put_op(text, finding);
    put_price(text, finding);
}

void muster_finding_sentence(const struct muster_finding *finding, char *to, size_t size)
{
#define SENTENCE(kind, name, scope, shown, abort, text, find) put_##text,
    static void (*const sentence[])(struct muster_text *, const struct muster_finding *) = {
        MUSTER_FINDING_LIST(SENTENCE)};
#undef SENTENCE
    struct muster_text text = muster_text_begin(to, size);
    muster_text_add(&text, "%s%s: ", muster_finding_name(finding->kind),
                    finding->retracted  ? " (retracted)"
                    : finding->resolved ? " (resolved)"
                                        : "");
    if (finding->kind < MUSTER_FINDING_KINDS)
        sentence[finding->kind](&text, finding);
    if (finding->retracted)
        muster_text_add(&text,
                        muster_finding_is_hang(finding)
                            ? "; that was wrong: another reason was found since"
                            : "; that does not hold: what was recorded since does not bear it out");
}
