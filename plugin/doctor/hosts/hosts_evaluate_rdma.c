/* hosts.rdma: whether datagrams pass between the RDMA ports of all hosts. */
#include <string.h>

#include "doctor/hosts/hosts_evaluation.h"

enum { LEAST_MTU = 256 };

/* What fails alike at several ports: reported once. */
struct failing {
    const char *text, *why;
    size_t pairs;
    unsigned ports; /* bit i: port i of the hosts that are not reached */
    unsigned to;    /* one of these hosts */
};

struct failing_list {
    struct failing *at;
    size_t n;
};

static const char *meaning(char end)
{
    switch (end) {
    case MUSTER_HOSTS_SILENT:
        return "no answer: packets are lost (VLAN, P_Key, GID or route, a switch, its PFC)";
    case MUSTER_HOSTS_SMALLER:
        return "small packets pass, full ones are lost: a smaller MTU on the way";
    case MUSTER_HOSTS_NO_ROUTE:
        return "no way there: no route, or the neighbour does not answer (GID, subnet)";
    case MUSTER_HOSTS_STRANGER:
        return "another host answers: two have one LID or GID";
    default:
        return "sending fails on this side, or its driver hangs";
    }
}

static char end_at(const struct muster_evaluation *evaluation, unsigned from, unsigned to,
                   unsigned port)
{
    const char *ends = evaluation->result->seen[from].rdma_ends;
    if (!ends || from == to || port >= muster_evaluation_member(evaluation, to)->rdmas)
        return MUSTER_HOSTS_UNTESTED;
    return ends[evaluation->first_rdma[to] + port];
}

static void add_failing(struct muster_evaluation *evaluation, struct failing_list *list,
                        const struct muster_fold *fold, unsigned port)
{
    const char *why = meaning(end_at(evaluation, fold->from, fold->to, port));
    size_t i = 0;
    while (i < list->n &&
           (strcmp(list->at[i].text, fold->text) != 0 || strcmp(list->at[i].why, why) != 0))
        i++;
    if (i == list->n)
        *(struct failing *)muster_arena_add(evaluation->arena, &list->at, &list->n,
                                            sizeof *list->at) =
            (struct failing){.text = fold->text, .why = why, .to = fold->to};
    if (i == list->n) /* no memory */
        return;
    list->at[i].ports |= 1u << port;
    list->at[i].pairs += fold->pairs;
}

/* One port of every host after another; returns how many directed pairs of ports were tried. */
static size_t find_failing(struct muster_evaluation *evaluation, struct failing_list *list)
{
    const struct muster_fold_input input = {evaluation->n, evaluation->name, evaluation->subnet,
                                            evaluation->bad};
    size_t tried = 0;
    for (unsigned port = 0; port < MUSTER_VERBS_PORTS; port++) {
        const struct muster_fold *fold;
        bool any = false;
        for (unsigned i = 0; i < evaluation->n; i++)
            for (unsigned j = 0; j < evaluation->n; j++) {
                char end = end_at(evaluation, i, j, port);
                char pair = muster_evaluation_pair(end);
                tried += end != MUSTER_HOSTS_UNTESTED;
                *muster_evaluation_bad(evaluation, i, j) = pair;
                any |= pair == MUSTER_FOLD_BAD;
            }
        size_t n = any ? muster_hosts_fold(&input, evaluation->arena, &fold) : 0;
        for (size_t i = 0; i < n; i++)
            add_failing(evaluation, list, &fold[i], port);
    }
    return tried;
}

/* "mlx5_0, mlx5_3": ports by their devices on a host that is not reached. */
static const char *name_ports(const struct muster_evaluation *evaluation,
                              const struct failing *failing)
{
    const struct muster_hosts_member *member = muster_evaluation_member(evaluation, failing->to);
    const char *names = "";
    if (failing->ports == (1u << member->rdmas) - 1 && member->rdmas > 1)
        return "all ports";
    for (unsigned i = 0; i < member->rdmas; i++)
        if (failing->ports & 1u << i)
            names = muster_arena_format(evaluation->arena, "%s%s%s", names, *names ? ", " : "",
                                        member->rdma[i].device);
    return names;
}

static void report_failing(struct muster_evaluation *evaluation, struct muster_check *check,
                           const struct failing_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        muster_check_evidence(check, "%s, %s (%zu pair%s of ports): %s",
                              name_ports(evaluation, &list->at[i]), list->at[i].text,
                              list->at[i].pairs, list->at[i].pairs == 1 ? "" : "s",
                              list->at[i].why);
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_found(check, "%s, %s", name_ports(evaluation, &list->at[0]), list->at[0].text);
    muster_check_advice(check, "RDMA fails there although TCP may not: look at ib.ports, ib.gid, "
                               "ib.pfc and ib.frames of these hosts, the switch's VLAN, MTU and "
                               "PFC, the P_Key; ib_send_bw between two of them shows the same");
}

/* A connection takes the smaller MTU of its ends, but only where each knows the other's. */
static void compare_mtus(const struct muster_evaluation *evaluation, struct muster_check *check)
{
    unsigned low = 0, high = 0, of_low = 0;
    for (unsigned i = 0; i < evaluation->n; i++)
        for (unsigned p = 0; p < muster_evaluation_member(evaluation, i)->rdmas; p++) {
            unsigned mtu = muster_evaluation_member(evaluation, i)->rdma[p].mtu;
            if (mtu < LEAST_MTU)
                continue;
            of_low = !low || mtu < low ? i : of_low;
            low = !low || mtu < low ? mtu : low;
            high = mtu > high ? mtu : high;
        }
    if (low == high)
        return;
    muster_check_worse(check, MUSTER_CHECK_WARNING);
    muster_check_evidence(check, "RDMA MTUs from %u (host %s) to %u", low, evaluation->name[of_low],
                          high);
    if (check->status == MUSTER_CHECK_WARNING) {
        muster_check_found(check, "RDMA ports of different MTUs");
        muster_check_advice(check, "one MTU on all hosts and switches (ib.frames shows that of "
                                   "RoCE's interfaces): the smaller one slows its pairs down");
    }
}

/* Hosts that have no port where others have some. */
static unsigned report_without(const struct muster_evaluation *evaluation,
                               struct muster_check *check)
{
    unsigned without = 0, with = 0;
    for (unsigned i = 0; i < evaluation->n; i++)
        with += muster_evaluation_member(evaluation, i)->rdmas > 0;
    for (unsigned i = 0; i < evaluation->n && with; i++) {
        const struct muster_hosts_member *member = muster_evaluation_member(evaluation, i);
        if (member->rdmas || !member->addresses)
            continue;
        without++;
        muster_check_evidence(check, "host %s has no port: %s", member->name, member->no_rdma);
    }
    return without;
}

/* Why no host has a port. */
static const char *why_none(const struct muster_evaluation *evaluation)
{
    for (unsigned i = 0; i < evaluation->n; i++)
        if (muster_evaluation_member(evaluation, i)->no_rdma[0])
            return muster_evaluation_member(evaluation, i)->no_rdma;
    return "no RDMA device";
}

void muster_hosts_evaluate_rdma(struct muster_evaluation *evaluation)
{
    struct failing_list list = {0};
    struct muster_check *check =
        muster_check_begin(evaluation->checks, "hosts.rdma", "F57,F59,F60,F63");
    muster_check_expected(check, "full packets pass from RDMA ports to those of all other hosts, "
                                 "both ways, of one MTU");
    size_t tried = find_failing(evaluation, &list);
    unsigned without = report_without(evaluation, check);
    if (tried == 0 && !without) {
        muster_check_unchecked(check, "%s", why_none(evaluation));
        return;
    }
    if (list.n)
        report_failing(evaluation, check, &list);
    else if (!without)
        muster_check_found(check, "%zu pairs of ports", tried);
    if (without) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        if (!list.n) {
            muster_check_found(check, "%u host%s without the RDMA that others have", without,
                               without == 1 ? "" : "s");
            muster_check_advice(check, "see ib.devices, ib.libraries, ib.ports and limit.memlock "
                                       "there: NCCL uses RDMA only where both ends have it, and "
                                       "hosts that choose differently hang");
        }
    }
    compare_mtus(evaluation, check);
}
