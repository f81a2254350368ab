#include "agent/finding_metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool stands_already(const struct muster_finding_metrics *metrics,
                           const struct muster_finding_series *one)
{
    for (size_t i = 0; i < metrics->n; i++) {
        const struct muster_finding_series *other = &metrics->series[i];
        if (other->kind == one->kind && other->rank == one->rank && other->comm == one->comm &&
            other->uid == one->uid && strcmp(other->run, one->run) == 0)
            return true;
    }
    return false;
}

void muster_finding_metrics_add(struct muster_finding_metrics *to, size_t most, const char *run,
                                uint32_t uid, const struct muster_finding *finding)
{
    unsigned ranks = finding->ranks ? finding->ranks : 1;
    for (unsigned i = 0; i < ranks; i++) {
        struct muster_finding_series one = {.uid = uid,
                                            .kind = finding->kind,
                                            .rank = finding->ranks ? finding->rank[i] : -1,
                                            .comm = finding->comm,
                                            .cost_s = i == 0 ? finding->cost_s : 0};
        snprintf(one.run, sizeof one.run, "%s", run);
        if (stands_already(to, &one))
            continue;
        if (to->n == most)
            to->omitted++;
        else
            to->series[to->n++] = one;
    }
}

static void print_one(const struct muster_finding_series *one, bool cost,
                      struct muster_exposition *to)
{
    const struct muster_finding_row *row = &muster_finding_rows[one->kind];
    char uid[16], rank[16] = "", comm[24] = "";
    snprintf(uid, sizeof uid, "%" PRIu32, one->uid);
    if (one->rank >= 0)
        snprintf(rank, sizeof rank, "%" PRId32, one->rank);
    if (one->comm)
        snprintf(comm, sizeof comm, "%016" PRIx64, one->comm);
    const struct muster_label label[] = {
        {"run", one->run},
        {"uid", uid},
        {"finding", row->name},
        {"severity", row->scope == MUSTER_SCOPE_HANG ? "critical" : "warning"},
        {"rank", rank},
        {"comm", comm},
        {NULL, NULL}};
    if (cost)
        muster_exposition_real(to, "", label, one->cost_s);
    else
        muster_exposition_count(to, "", label, 1);
}

void muster_finding_metrics_print(const struct muster_finding_metrics *metrics,
                                  const struct muster_family *ever, bool zeros,
                                  struct muster_exposition *to)
{
    static const struct muster_family active = {
        "muster_finding_active", MUSTER_FAMILY_GAUGE,
        "1 while a finding holds; a series for each guilty rank"};
    static const struct muster_family cost = {
        "muster_finding_cost_seconds", MUSTER_FAMILY_GAUGE,
        "What a finding cost those who waited, in the window that is judged"};
    muster_exposition_family(to, &active);
    for (size_t i = 0; i < metrics->n; i++)
        print_one(&metrics->series[i], false, to);
    muster_exposition_family(to, &cost);
    for (size_t i = 0; i < metrics->n; i++)
        if (zeros || metrics->series[i].cost_s > 0)
            print_one(&metrics->series[i], true, to);
    muster_exposition_family(to, ever);
    for (unsigned k = 0; k < MUSTER_FINDING_KINDS; k++) {
        const struct muster_label label[] = {{"finding", muster_finding_rows[k].name},
                                             {NULL, NULL}};
        if (zeros || metrics->ever[k])
            muster_exposition_count(to, "", label, metrics->ever[k]);
    }
}
