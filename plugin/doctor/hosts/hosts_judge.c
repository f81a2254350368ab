/* What hosts found, as checks: hosts.reports, hosts.reach, hosts.ports, hosts.frames,
 * hosts.bandwidth, hosts.loss. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/hosts/hosts.h"
#include "doctor/hosts/hosts_fold.h"

enum { SHOWN = 24, JUMBO = 9000 };

struct judging {
    struct muster_hosts_result *result;
    struct muster_checks *checks;
    struct muster_arena *arena;
    unsigned n; /* hosts with a report and a network */
    const char **name, **subnet;
    size_t *first; /* of each host, where its targets begin in everybody's ends */
    char *bad;     /* n x n, for folding */
};

static const struct muster_hosts_member *member_of(const struct judging *judging, unsigned i)
{
    return &judging->result->seen[i].member;
}

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

static const char *ends_of(const struct judging *judging, unsigned from, unsigned to)
{
    const char *ends = judging->result->seen[from].ends;
    return ends ? ends + judging->first[to] : NULL;
}

/* Folds what is marked in judging->bad into evidence; returns the pairs. */
static size_t put_folds(struct judging *judging, struct muster_check *check,
                        const char *(*why)(const struct judging *, unsigned from, unsigned to))
{
    const struct muster_fold_input input = {judging->n, judging->name, judging->subnet,
                                            judging->bad};
    const struct muster_fold *fold;
    size_t pairs = 0, n = muster_hosts_fold(&input, judging->arena, &fold);
    for (size_t i = 0; i < n; i++) {
        pairs += fold[i].pairs;
        if (i < SHOWN)
            muster_check_evidence(check, "%s (%zu pair%s): %s", fold[i].text, fold[i].pairs,
                                  fold[i].pairs == 1 ? "" : "s",
                                  why(judging, fold[i].from, fold[i].to));
        else
            check->left_out++;
    }
    if (n && !check->found[0])
        muster_check_found(check, "%s", fold[0].text);
    return pairs;
}

static void forget_pairs(struct judging *judging)
{
    memset(judging->bad, MUSTER_FOLD_UNKNOWN, (size_t)judging->n * judging->n);
}

static char as_pair(char end)
{
    enum muster_fold_pair pair = end == MUSTER_HOSTS_REACHED    ? MUSTER_FOLD_GOOD
                                 : end == MUSTER_HOSTS_UNTESTED ? MUSTER_FOLD_UNKNOWN
                                                                : MUSTER_FOLD_BAD;
    return (char)pair;
}

static char *bad_at(struct judging *judging, unsigned from, unsigned to)
{
    return &judging->bad[(size_t)from * judging->n + to];
}

/* ---- reports ---- */

static void judge_reports(struct judging *judging)
{
    const struct muster_hosts_result *result = judging->result;
    struct muster_check *check = muster_check_begin(judging->checks, "hosts.reports", "F36");
    unsigned missing = result->n - result->here;
    muster_check_expected(check, "a report of every host");
    if (missing)
        muster_check_found(check, "%u of %u hosts did not report", missing, result->n);
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
static char end_of_pair(const struct judging *judging, unsigned from, unsigned to)
{
    const char *ends = ends_of(judging, from, to);
    unsigned targets = muster_hosts_targets(member_of(judging, to));
    char failed = MUSTER_HOSTS_UNTESTED;
    for (unsigned t = 0; ends && from != to && t < targets; t++) {
        if (ends[t] == MUSTER_HOSTS_REACHED)
            return MUSTER_HOSTS_REACHED;
        if (failed == MUSTER_HOSTS_UNTESTED)
            failed = ends[t];
    }
    return failed;
}

static const char *why_unreached(const struct judging *judging, unsigned from, unsigned to)
{
    return meaning(end_of_pair(judging, from, to));
}

static void judge_reach(struct judging *judging)
{
    size_t tested = 0, bad;
    struct muster_check *check =
        muster_check_begin(judging->checks, "hosts.reach", "F20,F23,F24,F25");
    muster_check_expected(check, "TCP connections between all pairs, both ways, on the interfaces "
                                 "that NCCL takes");
    for (unsigned i = 0; i < judging->n; i++)
        for (unsigned j = 0; j < judging->n; j++) {
            char end = end_of_pair(judging, i, j);
            tested += end != MUSTER_HOSTS_UNTESTED;
            *bad_at(judging, i, j) = as_pair(end);
        }
    bad = put_folds(judging, check, why_unreached);
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
static char end_at(const struct judging *judging, unsigned from, unsigned to, unsigned t)
{
    if (t >= muster_hosts_targets(member_of(judging, to)) ||
        end_of_pair(judging, from, to) != MUSTER_HOSTS_REACHED)
        return MUSTER_HOSTS_UNTESTED;
    return ends_of(judging, from, to)[t];
}

/* What fails at some targets: the same words for each are told once. */
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

static void add_closed(struct judging *judging, struct closed_list *list,
                       const struct muster_fold *fold, unsigned t)
{
    const char *ends = ends_of(judging, fold->from, fold->to);
    size_t i = 0;
    while (i < list->n && strcmp(list->at[i].text, fold->text) != 0)
        i++;
    if (i == list->n)
        *(struct closed *)muster_arena_add(judging->arena, &list->at, &list->n, sizeof *list->at) =
            (struct closed){.text = fold->text, .why = meaning(ends[t]), .to = fold->to};
    if (i == list->n) /* no memory */
        return;
    list->at[i].targets |= 1u << t;
    list->at[i].pairs = fold->pairs > list->at[i].pairs ? fold->pairs : list->at[i].pairs;
}

/* "ports 46884 to 60999, ": the quarters that failed, as one range of a host's. */
static const char *name_ports(const struct judging *judging, const struct closed *closed)
{
    const struct muster_hosts_member *member = member_of(judging, closed->to);
    unsigned ports = closed->targets & ((1u << MUSTER_HOSTS_PORTS) - 1);
    unsigned quarter = (member->high - member->low + 1) / MUSTER_HOSTS_PORTS;
    if (!ports)
        return muster_arena_format(
            judging->arena, "interface %s",
            member->address[__builtin_ctz(closed->targets >> MUSTER_HOSTS_PORTS) + 1].name);
    unsigned first = (unsigned)__builtin_ctz(ports), last = 31u - (unsigned)__builtin_clz(ports);
    return muster_arena_format(
        judging->arena, "ports %u to %u", member->low + first * quarter,
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

static void find_closed(struct judging *judging, struct closed_list *list)
{
    const struct muster_fold_input input = {judging->n, judging->name, judging->subnet,
                                            judging->bad};
    for (unsigned t = 0; t < MUSTER_HOSTS_TARGETS; t++) {
        const struct muster_fold *fold;
        bool any = false;
        for (unsigned i = 0; i < judging->n; i++)
            for (unsigned j = 0; j < judging->n; j++) {
                char pair = as_pair(end_at(judging, i, j, t));
                *bad_at(judging, i, j) = pair;
                any |= pair == MUSTER_FOLD_BAD;
            }
        size_t n = any ? muster_hosts_fold(&input, judging->arena, &fold) : 0;
        for (size_t i = 0; i < n && i < SHOWN; i++)
            add_closed(judging, list, &fold[i], t);
    }
    if (list->n)
        qsort(list->at, list->n, sizeof *list->at, most_closed);
}

static bool any_reached(const struct judging *judging)
{
    for (unsigned i = 0; i < judging->n; i++)
        for (unsigned j = 0; j < judging->n; j++)
            if (end_of_pair(judging, i, j) == MUSTER_HOSTS_REACHED)
                return true;
    return false;
}

static void judge_ports(struct judging *judging)
{
    struct closed_list list = {0};
    struct muster_check *check = muster_check_begin(judging->checks, "hosts.ports", "F23,F25");
    muster_check_expected(check, "every port of net.ports' range open between all hosts, on every "
                                 "interface that NCCL takes (a port of each quarter is tried)");
    find_closed(judging, &list);
    for (size_t i = 0; i < list.n; i++)
        muster_check_evidence(check, "%s, %s: %s", name_ports(judging, &list.at[i]),
                              list.at[i].text, list.at[i].why);
    if (list.n) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check, "%s, %s", name_ports(judging, &list.at[0]), list.at[0].text);
        muster_check_advice(check, "NCCL listens on any port of the range: open all of it between "
                                   "these hosts (or narrow net.ipv4.ip_local_port_range to what is "
                                   "open); name the interfaces that work in NCCL_SOCKET_IFNAME");
    } else if (any_reached(judging)) {
        muster_check_found(check, "open");
    } else {
        muster_check_unchecked(check, "no host reaches another one");
    }
}

/* ---- frames ---- */

static char frame_end(const struct judging *judging, unsigned from, unsigned to)
{
    const char *ends = judging->result->seen[from].frame_ends;
    if (!ends)
        return MUSTER_HOSTS_UNTESTED;
    return ends[to];
}

static unsigned frame_wanted(const struct judging *judging, unsigned from, unsigned to)
{
    unsigned a = member_of(judging, from)->address[0].mtu,
             b = member_of(judging, to)->address[0].mtu;
    return a && b ? (a < b ? a : b) : a + b;
}

static const char *why_frames(const struct judging *judging, unsigned from, unsigned to)
{
    unsigned passed = judging->result->seen[from].frame_bytes[to];
    return muster_arena_format(judging->arena,
                               passed ? "frames of %u bytes are lost, %u pass"
                                      : "frames of %u bytes are lost, small ones pass",
                               frame_wanted(judging, from, to), passed);
}

static void judge_frames(struct judging *judging)
{
    size_t tested = 0, silent = 0;
    unsigned low = 0, high = 0;
    struct muster_check *check = muster_check_begin(judging->checks, "hosts.frames", "F26");
    muster_check_expected(check, "full frames of the smaller MTU of both ends pass both ways");
    for (unsigned i = 0; i < judging->n; i++) {
        unsigned mtu = member_of(judging, i)->address[0].mtu;
        low = mtu && (!low || mtu < low) ? mtu : low;
        high = mtu > high ? mtu : high;
        for (unsigned j = 0; j < judging->n; j++) {
            char end = frame_end(judging, i, j);
            tested += end == MUSTER_HOSTS_REACHED || end == MUSTER_HOSTS_SMALLER;
            silent += end == MUSTER_HOSTS_SILENT;
            if (end == MUSTER_HOSTS_SILENT) /* says nothing about their size */
                end = MUSTER_HOSTS_UNTESTED;
            *bad_at(judging, i, j) = as_pair(end);
        }
    }
    if (put_folds(judging, check, why_frames)) {
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

/* ---- bandwidth ---- */

static const char *why_unmeasured(const struct judging *judging)
{
    return judging->result->quick ? "--quick" : "no pair could be measured";
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, size_t n)
{
    if (n == 0)
        return -1;
    qsort(values, n, sizeof *values, by_size);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Median of what was measured at host i, both ways; of all hosts for i = n. */
static double median_of(const struct judging *judging, unsigned i, double *room)
{
    size_t n = 0;
    for (unsigned at = 0; at < judging->n; at++) {
        const struct muster_hosts_seen *seen = &judging->result->seen[at];
        for (size_t k = 0; k < seen->flows; k++)
            if (seen->flow[k].gbps >= 0 && (i == judging->n || at == i || seen->flow[k].peer == i))
                room[n++] = seen->flow[k].gbps;
    }
    return median(room, n);
}

/* Below this part of the job's median a host or a pair is told. As p2p.bandwidth's 70 %: the hosts
 * of a job are alike, and one second of TCP in a quiet network varies by a tenth; at a half a host
 * with one of two bonded links just escaped, at 0.9 a busy one would be told. */
static const double slow_part = 0.7;

/* A pair has one measurement each way, and any busy processor shows in that: below half, and only
 * where there are enough others to tell. */
static const double slow_pair_part = 0.5;
enum { ENOUGH = 8 };

static void tell_slow_pairs(struct judging *judging, struct muster_check *check, const double *of,
                            double all)
{
    for (unsigned i = 0; i < judging->n; i++) {
        const struct muster_hosts_seen *seen = &judging->result->seen[i];
        for (size_t k = 0; k < seen->flows; k++) {
            unsigned peer = seen->flow[k].peer;
            if (seen->flow[k].gbps < 0 || seen->flow[k].gbps >= slow_pair_part * all ||
                peer >= judging->n || of[i] < slow_part * all || of[peer] < slow_part * all)
                continue;
            muster_check_worse(check, MUSTER_CHECK_WARNING);
            muster_check_evidence(check, "from %s to %s: %.2f Gb/s", judging->name[peer],
                                  judging->name[i], seen->flow[k].gbps);
            if (!check->found[0])
                muster_check_found(check, "from %s to %s less than %.0f %% of the job's median",
                                   judging->name[peer], judging->name[i], slow_pair_part * 100);
        }
    }
}

static void judge_bandwidth(struct judging *judging)
{
    size_t n = 0;
    struct muster_check *check =
        muster_check_begin(judging->checks, "hosts.bandwidth", "F33,F58,F60");
    for (unsigned i = 0; i < judging->n; i++)
        n += judging->result->seen[i].flows;
    double *room = muster_arena_array(judging->arena, n + 1, sizeof *room);
    double *of = muster_arena_array(judging->arena, judging->n + 1ul, sizeof *of);
    double all = room && of ? median_of(judging, judging->n, room) : -1;
    if (!room || !of || all < 0) {
        muster_check_unchecked(check, "%s", why_unmeasured(judging));
        return;
    }
    muster_check_expected(check, "one TCP connection carries at least %.0f %% of the job's median",
                          slow_part * 100);
    muster_check_evidence(check, "median %.2f Gb/s, %zu measurements", all, n);
    for (unsigned i = 0; i < judging->n; i++) {
        of[i] = median_of(judging, i, room);
        if (judging->n < 3 || of[i] < 0 || of[i] >= slow_part * all)
            continue;
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_evidence(check, "host %s: %.2f Gb/s", judging->name[i], of[i]);
        if (!check->found[0])
            muster_check_found(check, "host %s carries less than %.0f %% of the job's median",
                               judging->name[i], slow_part * 100);
    }
    if (n >= ENOUGH)
        tell_slow_pairs(judging, check, of, all);
    if (check->status >= MUSTER_CHECK_WARNING)
        muster_check_advice(check, "compare its link's rate (ethtool), its CPU's load and "
                                   "hosts.loss with a host that is not slow");
    if (!check->found[0])
        muster_check_found(check, "even");
}

/* ---- loss ---- */

/* 4 of 2,000 datagrams: one that is lost by chance is not told, and 0.2 % already costs TCP and
 * RoCE most of their speed. At 1 % it is a problem. */
enum { LOST_LEAST = 4, PROBLEM_PART = 100 };
static const double loss_part = 0.002;

static bool is_lossy(const struct muster_hosts_flow *flow)
{
    return flow->lost >= LOST_LEAST && (double)flow->lost >= loss_part * (double)flow->expected;
}

static const char *why_loss(const struct judging *judging, unsigned from, unsigned to)
{
    const struct muster_hosts_seen *seen = &judging->result->seen[to];
    for (size_t k = 0; k < seen->flows; k++)
        if (seen->flow[k].peer == from)
            return muster_arena_format(
                judging->arena, "%.1f %% of %llu datagrams lost",
                100.0 * (double)seen->flow[k].lost /
                    (double)(seen->flow[k].expected ? seen->flow[k].expected : 1),
                (unsigned long long)seen->flow[k].expected);
    return "";
}

/* Hosts most of whose measurements are lossy; only these pairs are known, so that the folding of
 * all pairs does not serve. */
static void tell_lossy_hosts(struct judging *judging, struct muster_check *check)
{
    for (unsigned i = 0; i < judging->n; i++) {
        unsigned measured = 0, lossy = 0;
        for (unsigned at = 0; at < judging->n; at++) {
            const struct muster_hosts_seen *seen = &judging->result->seen[at];
            for (size_t k = 0; k < seen->flows; k++) {
                bool mine = at == i || seen->flow[k].peer == i;
                measured += mine && seen->flow[k].expected > 0;
                lossy += mine && is_lossy(&seen->flow[k]);
            }
        }
        if (measured < 6 || lossy * 2 < measured)
            continue;
        muster_check_evidence(check, "host %s loses in %u of %u measurements", judging->name[i],
                              lossy, measured);
        muster_check_found(check, "host %s loses packets", judging->name[i]);
        for (unsigned j = 0; j < judging->n; j++)
            *bad_at(judging, i, j) = *bad_at(judging, j, i) = MUSTER_FOLD_UNKNOWN;
    }
}

static void judge_loss(struct judging *judging)
{
    size_t measured = 0;
    struct muster_check *check = muster_check_begin(judging->checks, "hosts.loss", "F58,F60");
    muster_check_expected(check, "fewer than 0.2 %% of full frames lost at 2,000 a second");
    forget_pairs(judging); /* most never meet */
    for (unsigned i = 0; i < judging->n; i++) {
        const struct muster_hosts_seen *seen = &judging->result->seen[i];
        for (size_t k = 0; k < seen->flows; k++) {
            const struct muster_hosts_flow *flow = &seen->flow[k];
            measured += flow->expected > 0;
            if (flow->peer >= judging->n || flow->expected == 0)
                continue;
            *bad_at(judging, flow->peer, i) = MUSTER_FOLD_GOOD;
            if (!is_lossy(flow))
                continue;
            *bad_at(judging, flow->peer, i) = MUSTER_FOLD_BAD;
            muster_check_worse(check, flow->lost * PROBLEM_PART >= flow->expected
                                          ? MUSTER_CHECK_PROBLEM
                                          : MUSTER_CHECK_WARNING);
        }
    }
    if (check->status >= MUSTER_CHECK_WARNING) {
        tell_lossy_hosts(judging, check);
        put_folds(judging, check, why_loss);
        muster_check_advice(check,
                            "look at the cables, transceivers and port counters (ethtool -S, "
                            "the switch) of these hosts");
    } else if (measured == 0) {
        muster_check_unchecked(check, "%s", why_unmeasured(judging));
    } else {
        muster_check_found(check, "none in %zu measurements", measured);
    }
}

/* Answers about another number of hosts or targets count as none. */
static void drop_misfits(const struct judging *judging, struct muster_hosts_seen *seen)
{
    if (seen->ends && strlen(seen->ends) != judging->first[judging->n])
        seen->ends = NULL;
    if (seen->frame_ends && strlen(seen->frame_ends) != judging->n)
        seen->frame_ends = NULL;
}

static void prepare(struct judging *judging)
{
    unsigned n = judging->n;
    judging->name = muster_arena_array(judging->arena, n + 1ul, sizeof *judging->name);
    judging->subnet = muster_arena_array(judging->arena, n + 1ul, sizeof *judging->subnet);
    judging->first = muster_arena_array(judging->arena, n + 1ul, sizeof *judging->first);
    judging->bad = muster_arena_array(judging->arena, (size_t)n * n + 1, 1);
    if (judging->arena->failed)
        return;
    for (unsigned i = 0; i < n; i++) {
        const struct muster_hosts_member *member = member_of(judging, i);
        judging->name[i] = member->name;
        judging->subnet[i] = subnet_of(member, judging->arena);
        judging->first[i + 1] = judging->first[i] + muster_hosts_targets(member);
    }
    for (unsigned i = 0; i < n; i++)
        drop_misfits(judging, &judging->result->seen[i]);
}

int muster_hosts_judge(struct muster_hosts_result *result, struct muster_checks *checks,
                       struct muster_err *err)
{
    struct judging judging = {
        .result = result, .checks = checks, .arena = &result->arena, .n = result->here};
    prepare(&judging);
    if (muster_arena_check(judging.arena, err, "the pairs"))
        return -1;
    judge_reports(&judging);
    judge_reach(&judging);
    judge_ports(&judging);
    judge_frames(&judging);
    judge_bandwidth(&judging);
    judge_loss(&judging);
    muster_checks_end(checks);
    return muster_arena_check(judging.arena, err, "the pairs");
}
