/* What a policy would have done to runs that are made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../report/report_fixture.h"
#include "policy/offline/policy_asked.h"
#include "policy/offline/simulate.h"

enum { RANKS = 2, COMM = 0x77, UID = 1 };

static struct muster_policy *parse(const char *rules)
{
    struct muster_policy *policy = NULL;
    char text[1024];
    snprintf(text, sizeof text, "muster: 1\npolicy:\n%s", rules);
    assert_int_equal(muster_policy_parse(&policy, "p", text, strlen(text), NULL, NULL), 0);
    return policy;
}

static void add_comm(struct muster_run *run, size_t p, uint32_t nranks, uint32_t nnodes)
{
    struct muster_process *process = &run->process[p];
    process->comm = calloc(1, sizeof *process->comm);
    assert_non_null(process->comm);
    process->comms = 1;
    process->comm[0] = (struct muster_log_comm){
        .uid = UID, .id = COMM, .rank = (int32_t)p, .nranks = nranks, .nnodes = nnodes};
}

static struct muster_run *new_run(void)
{
    struct muster_run *run = fixture_run(RANKS);
    for (size_t p = 0; p < RANKS; p++)
        add_comm(run, p, RANKS, 1);
    return run;
}

struct kind {
    unsigned func, algo, proto, channels;
    uint64_t floats;
};

/* `n` operations of every rank, numbered from `first`; rank 1 takes 10 us longer. Each begins
 * `beat_us` after the one before; 0: all at once, so that none follows. */
static void add_beats(struct muster_run *run, struct kind kind, uint64_t first, unsigned n,
                      uint64_t us, uint64_t beat_us)
{
    for (size_t p = 0; p < RANKS; p++)
        for (unsigned i = 0; i < n; i++) {
            struct muster_op op = fixture_op(UID, first + i, us ? (us + 10 * p) * US : 0);
            op.func = (uint8_t)kind.func;
            op.algo = (uint8_t)kind.algo;
            op.proto = (uint8_t)kind.proto;
            op.channels = (uint8_t)kind.channels;
            op.count = kind.floats;
            if (us) {
                op.begin_ns += (first * 1000 + i * beat_us) * US;
                op.end_ns += (first * 1000 + i * beat_us) * US;
            }
            fixture_add_list(run, p, op);
        }
}

static void add(struct muster_run *run, struct kind kind, uint64_t first, unsigned n, uint64_t us)
{
    add_beats(run, kind, first, n, us, 0);
}

static const struct kind ring_ll = {MUSTER_FUNC_ALL_REDUCE, MUSTER_ALGO_RING, MUSTER_PROTO_LL, 8,
                                    16384};
static const struct kind ring_simple = {MUSTER_FUNC_ALL_REDUCE, MUSTER_ALGO_RING,
                                        MUSTER_PROTO_SIMPLE, 8, 16384};

static void add_view(struct muster_simulation *simulation, const struct muster_run *run,
                     bool simulated)
{
    struct muster_view view;
    assert_int_equal(muster_view_of_run_aligned(run, &view, NULL), 0);
    muster_simulation_add(simulation, &view, simulated);
    muster_view_free(&view);
}

static struct muster_simulation simulate(const struct muster_policy *policy,
                                         const struct muster_run *run,
                                         const struct muster_run *other)
{
    struct muster_simulation simulation = {.policy = policy};
    add_view(&simulation, run, true);
    if (other)
        add_view(&simulation, other, false);
    assert_int_equal(muster_simulation_finish(&simulation), 0);
    return simulation;
}

static const struct muster_sim_class *class_with(const struct muster_simulation *simulation,
                                                 unsigned proto)
{
    for (size_t i = 0; i < simulation->classes; i++)
        if (simulation->class[i].ops && simulation->class[i].cell->ran.proto == proto)
            return &simulation->class[i];
    fail_msg("no class with protocol %u", proto);
    return NULL;
}

static void what_the_rule_keeps_does_not_change(void **state)
{
    struct muster_policy *policy = parse("  - {name: a, prefer: {proto: simple}}\n");
    struct muster_run *run = new_run();
    (void)state;
    add(run, ring_ll, 0, 10, 100);
    add(run, ring_simple, 10, 9, 100);
    struct muster_simulation simulation = simulate(policy, run, NULL);
    assert_int_equal(simulation.asked, 38);
    assert_int_equal(class_with(&simulation, MUSTER_PROTO_SIMPLE)->change, MUSTER_CHANGE_NONE);
    assert_int_equal(class_with(&simulation, MUSTER_PROTO_LL)->change, MUSTER_CHANGE_WOULD);
    assert_int_equal(class_with(&simulation, MUSTER_PROTO_LL)->ops, 20);
    /* nine measurements are too few */
    assert_int_equal(class_with(&simulation, MUSTER_PROTO_LL)->effects, 0);
    muster_simulation_free(&simulation);
    fixture_free(run);
    muster_policy_free(policy);
}

static void the_effect_is_that_of_the_same_size_measured_both_ways(void **state)
{
    struct muster_policy *policy = parse("  - {name: a, prefer: {proto: simple}}\n");
    struct muster_run *run = new_run(), *other = new_run();
    struct kind odd = ring_ll, odd_simple = ring_simple;
    (void)state;
    odd.floats = odd_simple.floats = 17000; /* of the same size class */
    add(run, ring_ll, 0, 10, 100);
    add(run, odd, 10, 10, 100);
    add(other, ring_simple, 0, 10, 40);
    add(other, odd_simple, 10, 9, 900); /* too few */
    struct muster_simulation simulation = simulate(policy, run, other);
    const struct muster_sim_class *class = class_with(&simulation, MUSTER_PROTO_LL);
    assert_int_equal(class->ops, 40);
    assert_int_equal(class->effects, 1);
    assert_int_equal(class->effect[0].by, MUSTER_MEASURE_CLOCK);
    assert_float_equal(class->effect[0].ratio, 0.4, 1e-9); /* of the rank that waited least */
    assert_int_equal(class->effect[0].covered, 20);
    assert_int_equal(class->effect[0].variant.proto, MUSTER_PROTO_SIMPLE);
    assert_int_equal(simulation.asked, 40); /* the other run is only measured */
    muster_simulation_free(&simulation);
    fixture_free(run);
    fixture_free(other);
    muster_policy_free(policy);
}

static void without_all_ranks_nothing_is_measured(void **state)
{
    struct muster_policy *policy = parse("  - {name: a, prefer: {proto: simple}}\n");
    struct muster_run *run = new_run();
    (void)state;
    add(run, ring_ll, 0, 10, 100);
    add(run, ring_simple, 10, 10, 50);
    run->process[1].ops = 20;
    struct muster_simulation simulation = simulate(policy, run, NULL);
    assert_int_equal(class_with(&simulation, MUSTER_PROTO_LL)->effects, 1);
    muster_simulation_free(&simulation);
    run->process[1].ops = 19; /* rank 1 is known for 9 of the second ten */
    simulation = simulate(policy, run, NULL);
    assert_int_equal(class_with(&simulation, MUSTER_PROTO_LL)->effects, 0);
    muster_simulation_free(&simulation);
    fixture_free(run);
    muster_policy_free(policy);
}

static void warm_up_is_not_measured(void **state)
{
    struct muster_policy *policy = parse("  - {name: a, prefer: {proto: simple}}\n");
    struct muster_run *run = new_run();
    (void)state;
    add(run, ring_ll, 0, 10, 100);
    add(run, ring_simple, 10, 10, 50);
    for (size_t p = 0; p < RANKS; p++)
        run->process[p].op[10].flags = MUSTER_OP_UNSCORED;
    struct muster_simulation simulation = simulate(policy, run, NULL);
    assert_int_equal(class_with(&simulation, MUSTER_PROTO_LL)->effects, 0);
    muster_simulation_free(&simulation);
    fixture_free(run);
    muster_policy_free(policy);
}

/* ---- What an effect rests on ---- */

static const struct kind tree_ll = {MUSTER_FUNC_ALL_REDUCE, MUSTER_ALGO_TREE, MUSTER_PROTO_LL, 8,
                                    16384};

/* Of a job of ring/simple, 100 us each and 120 us from one to the next, under a policy for trees.
 */
static struct muster_sim_effect of_a_tree(uint64_t us, uint64_t beat_us)
{
    struct muster_policy *policy = parse("  - {name: a, prefer: {algo: tree}}\n");
    struct muster_run *run = new_run(), *other = new_run();
    add_beats(run, ring_simple, 0, 12, 100, 120);
    add_beats(other, tree_ll, 0, 12, us, beat_us);
    struct muster_simulation simulation = simulate(policy, run, other);
    const struct muster_sim_class *class = class_with(&simulation, MUSTER_PROTO_SIMPLE);
    assert_int_equal(class->effects, 1);
    assert_int_equal(class->effect[0].covered, 24);
    struct muster_sim_effect effect = class->effect[0];
    muster_simulation_free(&simulation);
    fixture_free(run);
    fixture_free(other);
    muster_policy_free(policy);
    return effect;
}

/* The ranks of a tree end one after the other: each shows a short time by its clock. */
static void what_only_seems_quicker_is_told_as_slow_as_it_is(void **state)
{
    (void)state;
    struct muster_sim_effect effect = of_a_tree(40, 180);
    assert_int_equal(effect.by, MUSTER_MEASURE_BEAT);
    assert_float_equal(effect.ratio, 1.5, 1e-9);
    assert_float_equal(effect.clock_ratio, 0.4, 1e-9);
}

static void a_clock_alone_says_nothing_of_a_tree(void **state)
{
    (void)state;
    struct muster_sim_effect effect = of_a_tree(40, 0);
    assert_int_equal(effect.by, MUSTER_MEASURE_NONE);
    assert_float_equal(effect.ratio, 0, 1e-9);
    assert_float_equal(effect.clock_ratio, 0.4, 1e-9);
}

/* Nine beats are too few, ten clocks are not. */
static void few_beats_are_not_known(void **state)
{
    struct muster_policy *policy = parse("  - {name: a, prefer: {proto: simple}}\n");
    struct muster_run *run = new_run();
    (void)state;
    add_beats(run, ring_ll, 0, 10, 100, 300);
    add_beats(run, ring_simple, 20, 10, 50, 60);
    struct muster_simulation simulation = simulate(policy, run, NULL);
    const struct muster_sim_class *class = class_with(&simulation, MUSTER_PROTO_LL);
    assert_int_equal(class->effects, 1);
    assert_int_equal(class->effect[0].by, MUSTER_MEASURE_CLOCK);
    assert_float_equal(class->effect[0].ratio, 0.5, 1e-9);
    muster_simulation_free(&simulation);
    fixture_free(run);
    muster_policy_free(policy);
}

/* The best covered first, but a guess never before what is known. */
static void what_is_known_comes_first(void **state)
{
    struct muster_policy *policy = parse("  - {name: a, avoid: {proto: ll128}}\n");
    struct muster_run *run = new_run(), *trees = new_run();
    struct kind ll128 = ring_simple, odd = ring_simple, odd_tree = tree_ll;
    (void)state;
    ll128.proto = odd.proto = MUSTER_PROTO_LL128;
    odd.floats = odd_tree.floats = 17000; /* of the same size class */
    add(run, ll128, 0, 12, 100);
    add(run, odd, 20, 12, 100);
    add(run, ring_simple, 40, 12, 110);
    add(trees, tree_ll, 0, 12, 10);
    add(trees, odd_tree, 20, 12, 10);
    struct muster_simulation simulation = simulate(policy, run, trees);
    const struct muster_sim_class *class = class_with(&simulation, MUSTER_PROTO_LL128);
    assert_int_equal(class->effects, 2);
    assert_int_equal(class->effect[0].by, MUSTER_MEASURE_CLOCK);
    assert_float_equal(class->effect[0].ratio, 1.1, 1e-9);
    assert_int_equal(class->effect[0].covered, 24);
    assert_int_equal(class->effect[1].by, MUSTER_MEASURE_NONE);
    assert_int_equal(class->effect[1].covered, 48);
    muster_simulation_free(&simulation);
    fixture_free(run);
    fixture_free(trees);
    muster_policy_free(policy);
}

static void channels_change_or_may_change(void **state)
{
    struct muster_policy *policy = parse("  - {name: a, channels: 4}\n");
    struct muster_run *run = new_run();
    struct kind few = ring_simple, right = ring_simple;
    (void)state;
    few.channels = 2;
    few.proto = MUSTER_PROTO_LL128;
    right.channels = 4;
    add(run, ring_ll, 0, 10, 100);
    add(run, few, 10, 10, 100);
    add(run, right, 20, 10, 100);
    struct muster_simulation simulation = simulate(policy, run, NULL);
    assert_int_equal(class_with(&simulation, MUSTER_PROTO_LL)->change, MUSTER_CHANGE_WOULD);
    assert_int_equal(class_with(&simulation, MUSTER_PROTO_LL128)->change, MUSTER_CHANGE_MAY);
    assert_int_equal(class_with(&simulation, MUSTER_PROTO_SIMPLE)->change, MUSTER_CHANGE_NONE);
    muster_simulation_free(&simulation);
    fixture_free(run);
    muster_policy_free(policy);
}

static void leave_changes_nothing_and_what_was_not_shown_is_unknown(void **state)
{
    struct muster_policy *policy =
        parse("  - {name: a, match: {ranks: 2, bytes: 65536}, leave: true}\n"
              "  - {name: b, avoid: {proto: ll}}\n");
    struct muster_run *run = new_run();
    struct kind hidden = {MUSTER_FUNC_ALL_REDUCE, 0, 0, 0, 1024};
    (void)state;
    add(run, ring_ll, 0, 10, 100);
    add(run, hidden, 10, 10, 0);
    struct muster_simulation simulation = simulate(policy, run, NULL);
    assert_int_equal(class_with(&simulation, MUSTER_PROTO_LL)->change, MUSTER_CHANGE_NONE);
    assert_int_equal(class_with(&simulation, 0)->change, MUSTER_CHANGE_UNKNOWN);
    muster_simulation_free(&simulation);
    fixture_free(run);
    muster_policy_free(policy);
}

static void rules_cut_a_size_class(void **state)
{
    struct muster_policy *policy =
        parse("  - {name: a, match: {bytes: \">=66000\"}, avoid: {proto: ll}}\n");
    struct muster_run *run = new_run();
    struct kind odd = ring_ll;
    (void)state;
    odd.floats = 17000; /* 68,000 bytes; the other 65,536 */
    add(run, ring_ll, 0, 10, 100);
    add(run, odd, 10, 5, 100);
    struct muster_simulation simulation = simulate(policy, run, NULL);
    assert_int_equal(simulation.classes, 2);
    assert_int_equal(simulation.class[0].cell->rule, MUSTER_POLICY_NO_RULE);
    assert_int_equal(simulation.class[0].ops, 20);
    assert_int_equal(simulation.class[1].cell->rule, 0);
    assert_int_equal(simulation.class[1].ops, 10);
    assert_int_equal(simulation.class[1].cell->size, 65536);
    muster_simulation_free(&simulation);
    fixture_free(run);
    muster_policy_free(policy);
}

/* ---- What NCCL asks ---- */

static enum muster_asked ask(struct muster_process *process, struct muster_op op,
                             struct muster_log_comm comm, struct muster_query *query)
{
    return muster_policy_asked(process, &op, &comm, 0, query);
}

static void bytes_are_those_of_the_whole_operation(void **state)
{
    struct muster_process process = {.identity = {.nccl = 22809, .api = 5}};
    struct muster_log_comm comm = {.nranks = 4, .nnodes = 2};
    struct muster_op op = fixture_op(UID, 0, 0);
    struct muster_query query;
    (void)state;
    op.count = 1000;
    assert_int_equal(ask(&process, op, comm, &query), MUSTER_ASKED);
    assert_int_equal(query.bytes, 4000);
    assert_int_equal(query.ranks, 4);
    assert_int_equal(query.nodes, 2);
    op.func = MUSTER_FUNC_ALL_GATHER;
    assert_int_equal(ask(&process, op, comm, &query), MUSTER_ASKED);
    assert_int_equal(query.bytes, 16000);
    op.func = MUSTER_FUNC_BROADCAST;
    assert_int_equal(ask(&process, op, comm, &query), MUSTER_ASKED);
    assert_int_equal(query.func, MUSTER_FUNC_BROADCAST);
    assert_int_equal(query.bytes, 4000);
}

static void a_broadcast_is_asked_about_as_a_gather_from_2_29_on(void **state)
{
    struct muster_process process = {.identity = {.nccl = 22902, .api = 6}};
    struct muster_log_comm comm = {.nranks = 4, .nnodes = 1};
    struct muster_op op = fixture_op(UID, 0, 0);
    struct muster_query query;
    (void)state;
    op.func = MUSTER_FUNC_BROADCAST;
    op.count = 1000;
    assert_int_equal(ask(&process, op, comm, &query), MUSTER_ASKED);
    assert_int_equal(query.func, MUSTER_FUNC_ALL_GATHER);
    assert_int_equal(query.bytes, 16000);
}

static void no_tuner_is_asked_about_the_rest(void **state)
{
    struct muster_process process = {.identity = {.nccl = 22809, .api = 5}};
    struct muster_log_comm comm = {.nranks = 4, .nnodes = 1};
    struct muster_op op = fixture_op(UID, 0, 0);
    struct muster_query query;
    (void)state;
    op.func = MUSTER_FUNC_SEND;
    assert_int_equal(ask(&process, op, comm, &query), MUSTER_ASKED_NEVER);
    op.func = MUSTER_FUNC_ALL_REDUCE;
    op.algo = MUSTER_ALGO_CE;
    assert_int_equal(ask(&process, op, comm, &query), MUSTER_ASKED_NEVER);
    op.algo = MUSTER_ALGO_RING;
    comm.nranks = 1;
    assert_int_equal(ask(&process, op, comm, &query), MUSTER_ASKED_NEVER);
    comm.nranks = 0;
    assert_int_equal(ask(&process, op, comm, &query), MUSTER_ASKED_UNKNOWN);
    assert_int_equal(muster_policy_asked(&process, &op, NULL, 0, &query), MUSTER_ASKED_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_rule_keeps_does_not_change),
        cmocka_unit_test(the_effect_is_that_of_the_same_size_measured_both_ways),
        cmocka_unit_test(without_all_ranks_nothing_is_measured),
        cmocka_unit_test(warm_up_is_not_measured),
        cmocka_unit_test(what_only_seems_quicker_is_told_as_slow_as_it_is),
        cmocka_unit_test(a_clock_alone_says_nothing_of_a_tree),
        cmocka_unit_test(few_beats_are_not_known),
        cmocka_unit_test(what_is_known_comes_first),
        cmocka_unit_test(channels_change_or_may_change),
        cmocka_unit_test(leave_changes_nothing_and_what_was_not_shown_is_unknown),
        cmocka_unit_test(rules_cut_a_size_class),
        cmocka_unit_test(bytes_are_those_of_the_whole_operation),
        cmocka_unit_test(a_broadcast_is_asked_about_as_a_gather_from_2_29_on),
        cmocka_unit_test(no_tuner_is_asked_about_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
