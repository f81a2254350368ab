/* What hosts found, as checks: hosts.reports, hosts.reach, hosts.ports, hosts.frames here, the
 * others in files of their own. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/hosts/hosts_evaluation.h"

enum { SHOWN = 24 };

/* "10.0.1.0/24" of the first address; "" where there is none. */
static const char *subnet_of(const struct muster_hosts_member *member, struct muster_arena *arena)
{
    const struct muster_interface *at = &member->address[0];
    struct in6_addr net = at->address;
    char text[INET6_ADDRSTRLEN] = "";
    unsigned bytes = at->family == AF_INET6 ? 16 : 4;
    if (!member->addresses)
        return "";
    for (unsigned bit = at->prefix; bit < bytes * 8; bit++)
        net.s6_addr[bit / 8] &= (uint8_t) ~(0x80u >> bit % 8);
    inet_ntop(at->family, &net, text, sizeof text);
    return muster_arena_format(arena, "%s/%u", text, at->prefix);
}

static const char *meaning(char end)
{
    switch (end) {
    case MUSTER_HOSTS_SILENT:
        return "no answer: packets are dropped (firewall, security group) or go elsewhere";
    case MUSTER_HOSTS_REFUSED:
        return "refused: a firewall that rejects, or another host has this address";
    case MUSTER_HOSTS_NO_ROUTE:
        return "no route";
    case MUSTER_HOSTS_STRANGER:
        return "somebody else answers: the address is not that host's alone (docker's bridge, a "
               "duplicate)";
    default:
        return "connections fail on this side";
    }
}

static const char *ends_of(const struct muster_evaluation *evaluation, unsigned from, unsigned to)
{
    const char *ends = evaluation->result->seen[from].ends;
    return ends ? ends + evaluation->first[to] : NULL;
}

/* Folds what is marked in evaluation->bad into evidence; returns the pairs. */
size_t muster_evaluation_fold(struct muster_evaluation *evaluation, struct muster_check *check,
                              const char *(*why)(const struct muster_evaluation *, unsigned from,
                                                 unsigned to))
{
    const struct muster_fold_input input = {evaluation->n, evaluation->name, evaluation->subnet,
                                            evaluation->bad};
    const struct muster_fold *fold;
    size_t pairs = 0, n = muster_hosts_fold(&input, evaluation->arena, &fold);
    for (size_t i = 0; i < n; i++) {
        pairs += fold[i].pairs;
        if (i < SHOWN)
            muster_check_evidence(check, "%s (%zu pair%s): %s", fold[i].text, fold[i].pairs,
                                  fold[i].pairs == 1 ? "" : "s",
                                  why(evaluation, fold[i].from, fold[i].to));
        else
            check->left_out++;
    }
    if (n && !check->found[0])
        muster_check_found(check, "%s", fold[0].text);
    return pairs;
}

void muster_evaluation_forget(struct muster_evaluation *evaluation)
{
    memset(evaluation->bad, MUSTER_FOLD_UNKNOWN, (size_t)evaluation->n * evaluation->n);
}

char muster_evaluation_pair(char end)
{
    enum muster_fold_pair pair = end == MUSTER_HOSTS_REACHED    ? MUSTER_FOLD_GOOD
                                 : end == MUSTER_HOSTS_UNTESTED ? MUSTER_FOLD_UNKNOWN
                                                                : MUSTER_FOLD_BAD;
    return (char)pair;
}

/* ---- reports ---- */

/* Ranks beside the first one of a host, which listens for them all. */
static unsigned count_beside(const struct muster_hosts_result *result)
{
    unsigned n = 0;
    for (unsigned i = 0; i < result->here; i++) {
        const struct muster_hosts_member *own = &result->seen[i].member;
        bool beside = false;
        for (unsigned j = 0; j < result->here && !own->addresses && !beside; j++)
            beside =
                result->seen[j].member.addresses && strcmp(result->seen[j].member.id, own->id) == 0;
        n += beside;
    }
    return n;
}

static void evaluate_reports(struct muster_evaluation *evaluation)
{
    const struct muster_hosts_result *result = evaluation->result;
    struct muster_check *check = muster_check_begin(evaluation->checks, "hosts.reports", "F36");
    unsigned missing = result->n - result->here;
    muster_check_expected(check, "a report of every host");
    if (missing)
        muster_check_found(check, "%u of %u hosts did not report", missing, result->n);
    else if (count_beside(result))
        muster_check_found(check, "%u hosts, %u processes", result->n - count_beside(result),
                           result->n);
    else
        muster_check_found(check, "%u hosts", result->n);
    for (unsigned i = result->here; i < result->n; i++) {
        const struct muster_hosts_seen *seen = &result->seen[i];
        muster_check_evidence(check, "%s: %s", seen->member.name, seen->missing);
    }
    for (unsigned i = 0; i < result->here; i++)
        if (result->seen[i].missing)
            muster_check_evidence(check, "%s: ended early: %s", result->seen[i].member.name,
                                  result->seen[i].missing);
    if (missing) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_advice(check,
                            "start muster there by hand as --hosts does (--with, --command); "
                            "a host that cannot be logged in to cannot join the job either");
    }
}

/* ---- reach ---- */

/* How a pair ended: reached if any target was; the first failure where none was. */
static char end_of_pair(const struct muster_evaluation *evaluation, unsigned from, unsigned to)
{
    const char *ends = ends_of(evaluation, from, to);
    unsigned targets = muster_hosts_targets(muster_evaluation_member(evaluation, to));
    char failed = MUSTER_HOSTS_UNTESTED;
    for (unsigned t = 0; ends && from != to && t < targets; t++) {
        if (ends[t] == MUSTER_HOSTS_REACHED)
            return MUSTER_HOSTS_REACHED;
        if (failed == MUSTER_HOSTS_UNTESTED)
            failed = ends[t];
    }
    return failed;
}

static const char *why_unreached(const struct muster_evaluation *evaluation, unsigned from,
                                 unsigned to)
{
    return meaning(end_of_pair(evaluation, from, to));
}

static void evaluate_reach(struct muster_evaluation *evaluation)
{
    size_t tested = 0, bad;
    struct muster_check *check =
        muster_check_begin(evaluation->checks, "hosts.reach", "F20,F23,F24,F25");
    muster_check_expected(check, "TCP connections between all pairs, both ways, on the interfaces "
                                 "that NCCL takes");
    for (unsigned i = 0; i < evaluation->n; i++)
        for (unsigned j = 0; j < evaluation->n; j++) {
            char end = end_of_pair(evaluation, i, j);
            tested += end != MUSTER_HOSTS_UNTESTED;
            *muster_evaluation_bad(evaluation, i, j) = muster_evaluation_pair(end);
        }
    bad = muster_evaluation_fold(evaluation, check, why_unreached);
    if (bad) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_advice(check, "see net.interface of these hosts: NCCL_SOCKET_IFNAME must name "
                                   "what the others reach; open TCP between all hosts of the job");
    } else if (tested == 0) {
        muster_check_unchecked(check, "no two hosts have an interface that NCCL takes");
    } else {
        muster_check_found(check, "%zu pairs", tested);
    }
}

/* ---- ports and further addresses ---- */

/* How a pair that is reached at all ends at target t. */
static char end_at(const struct muster_evaluation *evaluation, unsigned from, unsigned to,
                   unsigned t)
{
    if (t >= muster_hosts_targets(muster_evaluation_member(evaluation, to)) ||
        end_of_pair(evaluation, from, to) != MUSTER_HOSTS_REACHED)
        return MUSTER_HOSTS_UNTESTED;
    return ends_of(evaluation, from, to)[t];
}

/* What fails at some targets: the same words for each are reported once. */
struct closed {
    const char *text, *why;
    unsigned targets; /* bits */
    size_t pairs;
    unsigned to; /* a host whose ports these are */
};

struct closed_list {
    struct closed *at;
    size_t n;
};

static void add_closed(struct muster_evaluation *evaluation, struct closed_list *list,
                       const struct muster_fold *fold, unsigned t)
{
    const char *ends = ends_of(evaluation, fold->from, fold->to);
    size_t i = 0;
    while (i < list->n && strcmp(list->at[i].text, fold->text) != 0)
        i++;
    if (i == list->n)
        *(struct closed *)muster_arena_add(evaluation->arena, &list->at, &list->n,
                                           sizeof *list->at) =
            (struct closed){.text = fold->text, .why = meaning(ends[t]), .to = fold->to};
    if (i == list->n) /* no memory */
        return;
    list->at[i].targets |= 1u << t;
    list->at[i].pairs = fold->pairs > list->at[i].pairs ? fold->pairs : list->at[i].pairs;
}

/* "ports 46884 to 60999, ": the quarters that failed, as one range of a host's. */
static const char *name_ports(const struct muster_evaluation *evaluation,
                              const struct closed *closed)
{
    const struct muster_hosts_member *member = muster_evaluation_member(evaluation, closed->to);
    unsigned ports = closed->targets & ((1u << MUSTER_HOSTS_PORTS) - 1);
    unsigned quarter = (member->high - member->low + 1) / MUSTER_HOSTS_PORTS;
    if (!ports)
        return muster_arena_format(
            evaluation->arena, "interface %s",
            member->address[__builtin_ctz(closed->targets >> MUSTER_HOSTS_PORTS) + 1].name);
    unsigned first = (unsigned)__builtin_ctz(ports), last = 31u - (unsigned)__builtin_clz(ports);
    return muster_arena_format(
        evaluation->arena, "ports %u to %u", member->low + first * quarter,
        last == MUSTER_HOSTS_PORTS - 1 ? member->high : member->low + (last + 1) * quarter - 1);
}

static int most_closed(const void *a, const void *b)
{
    const struct closed *x = a, *y = b;
    unsigned of_x = (unsigned)__builtin_popcount(x->targets),
             of_y = (unsigned)__builtin_popcount(y->targets);
    return x->pairs * of_x != y->pairs * of_y ? (x->pairs * of_x < y->pairs * of_y ? 1 : -1)
                                              : strcmp(x->text, y->text);
}

static void find_closed(struct muster_evaluation *evaluation, struct closed_list *list)
{
    const struct muster_fold_input input = {evaluation->n, evaluation->name, evaluation->subnet,
                                            evaluation->bad};
    for (unsigned t = 0; t < MUSTER_HOSTS_TARGETS; t++) {
        const struct muster_fold *fold;
        bool any = false;
        for (unsigned i = 0; i < evaluation->n; i++)
            for (unsigned j = 0; j < evaluation->n; j++) {
                char pair = muster_evaluation_pair(end_at(evaluation, i, j, t));
                *muster_evaluation_bad(evaluation, i, j) = pair;
                any |= pair == MUSTER_FOLD_BAD;
            }
        size_t n = any ? muster_hosts_fold(&input, evaluation->arena, &fold) : 0;
        for (size_t i = 0; i < n && i < SHOWN; i++)
            add_closed(evaluation, list, &fold[i], t);
    }
    if (list->n)
        qsort(list->at, list->n, sizeof *list->at, most_closed);
}

static bool any_reached(const struct muster_evaluation *evaluation)
{
    for (unsigned i = 0; i < evaluation->n; i++)
        for (unsigned j = 0; j < evaluation->n; j++)
            if (end_of_pair(evaluation, i, j) == MUSTER_HOSTS_REACHED)
                return true;
    return false;
}

static void evaluate_ports(struct muster_evaluation *evaluation)
{
    struct closed_list list = {0};
    struct muster_check *check = muster_check_begin(evaluation->checks, "hosts.ports", "F23,F25");
    muster_check_expected(check, "every port of net.ports' range open between all hosts, on every "
                                 "interface that NCCL takes (a port of each quarter is tried)");
    find_closed(evaluation, &list);
    for (size_t i = 0; i < list.n; i++)
        muster_check_evidence(check, "%s, %s: %s", name_ports(evaluation, &list.at[i]),
                              list.at[i].text, list.at[i].why);
    if (list.n) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check, "%s, %s", name_ports(evaluation, &list.at[0]), list.at[0].text);
        muster_check_advice(check, "NCCL listens on any port of the range: open all of it between "
                                   "these hosts (or narrow net.ipv4.ip_local_port_range to what is "
                                   "open); name the interfaces that work in NCCL_SOCKET_IFNAME");
    } else if (any_reached(evaluation)) {
        muster_check_found(check, "open");
    } else {
        muster_check_unchecked(check, "no host reaches another one");
    }
}

/* ---- frames ---- */

static char frame_end(const struct muster_evaluation *evaluation, unsigned from, unsigned to)
{
    const char *ends = evaluation->result->seen[from].frame_ends;
    if (!ends)
        return MUSTER_HOSTS_UNTESTED;
    return ends[to];
}

static unsigned frame_wanted(const struct muster_evaluation *evaluation, unsigned from, unsigned to)
{
    unsigned a = muster_evaluation_member(evaluation, from)->address[0].mtu,
             b = muster_evaluation_member(evaluation, to)->address[0].mtu;
    return a && b ? (a < b ? a : b) : a + b;
}

static const char *why_frames(const struct muster_evaluation *evaluation, unsigned from,
                              unsigned to)
{
    unsigned passed = evaluation->result->seen[from].frame_bytes[to];
    return muster_arena_format(evaluation->arena,
                               passed ? "frames of %u bytes are lost, %u pass"
                                      : "frames of %u bytes are lost, small ones pass",
                               frame_wanted(evaluation, from, to), passed);
}

static void evaluate_frames(struct muster_evaluation *evaluation)
{
    size_t tested = 0, silent = 0;
    unsigned low = 0, high = 0;
    struct muster_check *check = muster_check_begin(evaluation->checks, "hosts.frames", "F26");
    muster_check_expected(check, "full frames of the smaller MTU of both ends pass both ways");
    for (unsigned i = 0; i < evaluation->n; i++) {
        unsigned mtu = muster_evaluation_member(evaluation, i)->address[0].mtu;
        low = mtu && (!low || mtu < low) ? mtu : low;
        high = mtu > high ? mtu : high;
        for (unsigned j = 0; j < evaluation->n; j++) {
            char end = frame_end(evaluation, i, j);
            tested += end == MUSTER_HOSTS_REACHED || end == MUSTER_HOSTS_SMALLER;
            silent += end == MUSTER_HOSTS_SILENT;
            if (end == MUSTER_HOSTS_SILENT) /* nothing follows about their size */
                end = MUSTER_HOSTS_UNTESTED;
            *muster_evaluation_bad(evaluation, i, j) = muster_evaluation_pair(end);
        }
    }
    if (muster_evaluation_fold(evaluation, check, why_frames)) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_advice(check, "large transfers stall where small ones pass: give switches and "
                                   "tunnels on the way at least the hosts' MTU, or lower theirs");
    } else if (tested == 0) {
        muster_check_unchecked(check, silent ? "no datagrams (UDP) pass between these hosts"
                                             : "no host reaches another one");
    } else {
        muster_check_found(check, "%zu pairs", tested);
    }
    if (low != high) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_evidence(check, "MTUs from %u to %u: see net.mtu", low, high);
        if (check->status == MUSTER_CHECK_WARNING)
            muster_check_advice(check, "RDMA and tunnels want the same MTU on every host");
    }
}

/* Answers about another number of hosts or targets count as none. */
static void drop_misfits(const struct muster_evaluation *evaluation, struct muster_hosts_seen *seen)
{
    if (seen->ends && strlen(seen->ends) != evaluation->first[evaluation->n])
        seen->ends = NULL;
    if (seen->frame_ends && strlen(seen->frame_ends) != evaluation->n)
        seen->frame_ends = NULL;
    if (seen->rdma_ends && strlen(seen->rdma_ends) != evaluation->first_rdma[evaluation->n])
        seen->rdma_ends = NULL;
}

static void prepare(struct muster_evaluation *evaluation)
{
    unsigned n = evaluation->n;
    evaluation->name = muster_arena_array(evaluation->arena, n + 1ul, sizeof *evaluation->name);
    evaluation->subnet = muster_arena_array(evaluation->arena, n + 1ul, sizeof *evaluation->subnet);
    evaluation->first = muster_arena_array(evaluation->arena, n + 1ul, sizeof *evaluation->first);
    evaluation->first_rdma =
        muster_arena_array(evaluation->arena, n + 1ul, sizeof *evaluation->first_rdma);
    evaluation->bad = muster_arena_array(evaluation->arena, (size_t)n * n + 1, 1);
    if (evaluation->arena->failed)
        return;
    for (unsigned i = 0; i < n; i++) {
        const struct muster_hosts_member *member = muster_evaluation_member(evaluation, i);
        evaluation->name[i] = member->name;
        evaluation->subnet[i] = subnet_of(member, evaluation->arena);
        evaluation->first[i + 1] = evaluation->first[i] + muster_hosts_targets(member);
        evaluation->first_rdma[i + 1] = evaluation->first_rdma[i] + member->rdmas;
    }
    for (unsigned i = 0; i < n; i++)
        drop_misfits(evaluation, &evaluation->result->seen[i]);
}

int muster_hosts_evaluate(struct muster_hosts_result *result, struct muster_checks *checks,
                          struct muster_err *err)
{
    struct muster_evaluation evaluation = {
        .result = result, .checks = checks, .arena = &result->arena, .n = result->here};
    prepare(&evaluation);
    if (muster_arena_check(evaluation.arena, err, "the pairs"))
        return -1;
    evaluate_reports(&evaluation);
    evaluate_reach(&evaluation);
    evaluate_ports(&evaluation);
    evaluate_frames(&evaluation);
    muster_hosts_evaluate_rdma(&evaluation);
    muster_hosts_evaluate_bandwidth(&evaluation);
    muster_hosts_evaluate_loss(&evaluation);
    muster_checks_end(checks);
    evaluation.arena->failed |= checks->memory.failed;
    return muster_arena_check(evaluation.arena, err, "the pairs");
}
