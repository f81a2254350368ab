#include "diagnose/diagnose.h"

#include <inttypes.h>

#include "diagnose/divergence/divergence.h"
#include "diagnose/finding_explain.h"
#include "diagnose/hang/hang.h"
#include "diagnose/past/past.h"
#include "diagnose/path/path.h"
#include "diagnose/straggler/straggler.h"
#include "diagnose/transfer/transfer.h"
#include "run/beside_work.h"

/* The ranks that send leave as soon as they have sent, and only the root has all of it. */
static bool has_no_common_end(unsigned func)
{
    return func == MUSTER_FUNC_REDUCE || func == MUSTER_FUNC_GATHER || func == MUSTER_FUNC_SCATTER;
}

void muster_diagnose_unread(const struct muster_view *view, struct muster_finding_lines *to)
{
    uint64_t unread[MUSTER_FUNCS] = {0};
    if (view->left_out)
        muster_finding_line(to,
                            "one stretch of time in %" PRIu64 " is compared: all would be %" PRIu64
                            " operations, which is more than memory is meant for; what was in the "
                            "others alone is not seen",
                            view->every, view->left_out + view->ops);
    for (size_t i = 0; i < view->ops; i++) {
        unsigned func = view->op[i].func;
        if (func < MUSTER_FUNCS && has_no_common_end(func) && muster_view_scored(&view->op[i]))
            unread[func]++;
    }
    for (unsigned func = 0; func < MUSTER_FUNCS; func++)
        if (unread[func])
            muster_finding_line(to,
                                "%" PRIu64 " timed %s operations are not read: their ranks have no "
                                "common end to be late to",
                                unread[func], muster_func_name(func));
}

/* ---- who finds the kinds of base/finding_kinds.h ---- */

struct search {
    const struct muster_view *view;
    uint64_t hang_ns;
    struct ahead *ahead; /* NULL: nothing was looked for before its turn */
};

typedef int finder(const struct search *in, struct muster_findings *findings,
                   struct muster_err *err);

/* What is found where nothing was found before. */
struct answer {
    const struct search *in;
    finder *find;
    struct muster_findings findings;
    struct muster_err err;
    int result;
};

/* Looking for late ranks takes longest, and asks for nothing that is found before. Beside it the
 * others are looked for as if nobody were late. */
struct ahead {
    struct answer stragglers, waits, transfers, divergence;
};

static void answer(void *arg)
{
    struct answer *own = arg;
    own->result = own->find(own->in, &own->findings, &own->err);
}

/* As if it were found now. */
static int take(struct answer *own, struct muster_findings *findings, struct muster_err *err)
{
    if (own->result == 0 && !muster_findings_join(findings, &own->findings))
        own->result = muster_fail_memory(&own->err, "the findings");
    if (own->result != 0)
        *err = own->err;
    return own->result;
}

static int find_hangs(const struct search *in, struct muster_findings *findings,
                      struct muster_err *err)
{
    return muster_hang_find(in->view, in->hang_ns, false, findings)
               ? 0
               : muster_fail_memory(err, "the findings");
}

static int find_late(const struct search *in, struct muster_findings *findings,
                     struct muster_err *err)
{
    return muster_straggler_find(in->view, findings, err);
}

static int find_waits(const struct search *in, struct muster_findings *findings,
                      struct muster_err *err)
{
    return in->hang_ns > 0 ? muster_past_waits(in->view, in->hang_ns, findings, err) : 0;
}

static int find_stragglers(const struct search *in, struct muster_findings *findings,
                           struct muster_err *err)
{
    if ((in->ahead ? take(&in->ahead->stragglers, findings, err) : find_late(in, findings, err)) !=
        0)
        return -1;
    /* A wait for who is late already belongs to that. */
    bool none = in->ahead && in->ahead->waits.result == 0 && in->ahead->waits.findings.n == 0;
    return none ? 0 : find_waits(in, findings, err);
}

static int find_mismatches(const struct search *in, struct muster_findings *findings,
                           struct muster_err *err)
{
    return muster_past_mismatches(in->view, findings, err);
}

static int find_transfers(const struct search *in, struct muster_findings *findings,
                          struct muster_err *err)
{
    bool holds = in->ahead && !muster_findings_any_late(findings);
    return holds ? take(&in->ahead->transfers, findings, err)
                 : muster_diagnose_transfer(in->view, findings, err);
}

static int find_paths(const struct search *in, struct muster_findings *findings,
                      struct muster_err *err)
{
    if (muster_path_cite(in->view, findings, err) != 0)
        return -1;
    return muster_diagnose_path(in->view, findings, err);
}

static int find_divergence(const struct search *in, struct muster_findings *findings,
                           struct muster_err *err)
{
    return in->ahead ? take(&in->ahead->divergence, findings, err)
                     : muster_diagnose_divergence(in->view, false, findings, err);
}

/* Of the kinds [from, end) those of `scopes`: 1 << enum muster_finding_scope. */
static int find_kinds(const struct search *in, unsigned from, unsigned end, unsigned scopes,
                      struct muster_findings *findings, struct muster_err *err)
{
#define FINDER(kind, name, scope, shown, abort, text, find) find_##find,
    static finder *const finders[] = {MUSTER_FINDING_LIST(FINDER)};
#undef FINDER
    for (unsigned kind = from; kind < end; kind++) {
        bool wanted = scopes >> muster_finding_rows[kind].scope & 1;
        bool over = kind > 0 && finders[kind] == finders[kind - 1];
        if (wanted && !over && finders[kind](in, findings, err) != 0)
            return -1;
    }
    return 0;
}

static int find_all(const struct search *in, unsigned scopes, struct muster_findings *findings,
                    struct muster_err *err)
{
    if (find_kinds(in, 0, MUSTER_FINDING_KINDS, scopes, findings, err) != 0)
        return -1;
    muster_diagnose_unread(in->view, &findings->not_observable);
    return 0;
}

/* All kinds, on two processors. */
static int find_beside(const struct search *in, const struct muster_meanwhile *meanwhile,
                       struct muster_findings *findings, struct muster_err *err)
{
    struct ahead ahead = {.stragglers = {.in = in, .find = find_late},
                          .waits = {.in = in, .find = find_waits},
                          .transfers = {.in = in, .find = find_transfers},
                          .divergence = {.in = in, .find = find_divergence}};
    const struct search then = {in->view, in->hang_ns, &ahead};
    struct muster_beside late;
    muster_beside_begin(&late, answer, &ahead.stragglers);
    int result = find_kinds(in, 0, MUSTER_FINDING_LATE_RANK, ~0u, findings, err);
    answer(&ahead.waits);
    answer(&ahead.transfers);
    answer(&ahead.divergence);
    if (meanwhile)
        meanwhile->work(meanwhile->arg);
    muster_beside_end(&late);
    if (result == 0)
        result =
            find_kinds(&then, MUSTER_FINDING_LATE_RANK, MUSTER_FINDING_KINDS, ~0u, findings, err);
    if (result == 0)
        muster_diagnose_unread(in->view, &findings->not_observable);
    muster_findings_free(&ahead.stragglers.findings);
    muster_findings_free(&ahead.waits.findings);
    muster_findings_free(&ahead.transfers.findings);
    muster_findings_free(&ahead.divergence.findings);
    return result;
}

int muster_diagnose_slow(const struct muster_view *view, struct muster_findings *findings,
                         struct muster_err *err)
{
    const struct search in = {.view = view};
    int rc = find_all(&in, 1u << MUSTER_SCOPE_SLOW | 1u << MUSTER_SCOPE_PATH, findings, err);
    muster_findings_name(findings, view);
    return rc;
}

void muster_windows_take(struct muster_windows *windows, uint64_t since_unix_ns,
                         struct muster_view *view)
{
    windows->evaluated += windows->evaluated == 0 || windows->since_unix_ns != since_unix_ns;
    windows->since_unix_ns = since_unix_ns;
    view->window = windows->evaluated;
}

int muster_diagnose_view_meanwhile(const struct muster_view *view, uint64_t hang_ns,
                                   const struct muster_meanwhile *meanwhile,
                                   struct muster_findings *findings, struct muster_err *err)
{
    const struct search in = {.view = view, .hang_ns = hang_ns};
    bool beside = muster_beside_is_permitted();
    int rc =
        beside ? find_beside(&in, meanwhile, findings, err) : find_all(&in, ~0u, findings, err);
    if (meanwhile && !beside)
        meanwhile->work(meanwhile->arg);
    muster_findings_name(findings, view);
    muster_findings_explain(findings);
    return rc;
}

int muster_diagnose_view(const struct muster_view *view, uint64_t hang_ns,
                         struct muster_findings *findings, struct muster_err *err)
{
    return muster_diagnose_view_meanwhile(view, hang_ns, NULL, findings, err);
}
