/* Ranks that decide differently: policies, and operations. */
#include "diagnose/divergence/divergence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/nccl_types.h"

enum { RANKS = 4 };
#define TESTBED 0x77ull

struct job {
    struct muster_view view;
    struct muster_seg_policy policy[RANKS];
    uint32_t gpu[RANKS], member[RANKS];
    struct muster_findings findings;
};

static struct job *job;

static void set_policy(unsigned rank, enum muster_policy_state state, unsigned char hash)
{
    atomic_store(&job->policy[rank].state, (uint32_t)state);
    job->policy[rank].tuner_api = 5;
    memset(job->policy[rank].sha256, hash, sizeof(job->policy[rank].sha256));
}

static int begin(void **state)
{
    (void)state;
    job = calloc(1, sizeof(*job));
    return job ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    muster_view_free(&job->view);
    muster_findings_free(&job->findings);
    free(job);
    return 0;
}

/* All ranks steer by one policy and have called something, unless told otherwise before. */
static void make_ranks(const bool *called)
{
    for (unsigned r = 0; r < RANKS; r++) {
        job->gpu[r] = muster_view_add_gpu(
            &job->view, &(struct muster_view_gpu){.rank = (int32_t)(10 + r),
                                                  .gpu_index = (int32_t)r,
                                                  .host = r < 2 ? "one" : "two",
                                                  .process = r,
                                                  .policy = &job->policy[r],
                                                  .called = !called || called[r]});
        job->member[r] = muster_view_add_member(&job->view, job->gpu[r], TESTBED, (int32_t)r, RANKS,
                                                2, "testbed");
    }
}

static void all_steer(void)
{
    for (unsigned r = 0; r < RANKS; r++)
        set_policy(r, MUSTER_POLICY_ACTIVE, 1);
}

static struct muster_op op_at(uint64_t number)
{
    return (struct muster_op){.number = number,
                              .enqueue_ns = (number + 1) * 1000,
                              .count = 1024,
                              .peer = -1,
                              .func = MUSTER_FUNC_ALL_REDUCE,
                              .dtype = MUSTER_DTYPE_FLOAT32,
                              .algo = MUSTER_ALGO_RING,
                              .proto = MUSTER_PROTO_SIMPLE,
                              .channels = 8};
}

static const struct muster_finding *only_finding(bool waited)
{
    struct muster_err err = {""};
    assert_int_equal(muster_view_finish(&job->view, &err), 0);
    assert_int_equal(muster_diagnose_divergence(&job->view, waited, &job->findings, &err), 0);
    if (job->findings.n == 0)
        return NULL;
    assert_int_equal(job->findings.n, 1);
    assert_int_equal(job->findings.finding[0].kind, MUSTER_FINDING_POLICY_DIVERGENCE);
    assert_int_equal(job->findings.finding[0].comm, TESTBED);
    assert_true(job->findings.finding[0].advice[0]);
    return &job->findings.finding[0];
}

static bool describes(const struct muster_finding_lines *lines, const char *text)
{
    for (unsigned i = 0; i < lines->n; i++)
        if (strstr(lines->line[i], text))
            return true;
    return false;
}

static void one_policy_is_no_divergence(void **state)
{
    (void)state;
    all_steer();
    make_ranks(NULL);
    assert_null(only_finding(true));
}

static void tuners_that_are_all_off_are_alike(void **state)
{
    (void)state;
    set_policy(0, MUSTER_POLICY_INVALID, 0);
    set_policy(1, MUSTER_POLICY_REFUSED, 3);
    set_policy(2, MUSTER_POLICY_NONE, 0);
    make_ranks(NULL);
    assert_null(only_finding(true));
}

static void the_rank_with_another_policy_is_named(void **state)
{
    (void)state;
    all_steer();
    set_policy(2, MUSTER_POLICY_ACTIVE, 2);
    make_ranks(NULL);
    const struct muster_finding *finding = only_finding(false);
    assert_non_null(finding);
    assert_int_equal(finding->ranks, 1);
    assert_int_equal(finding->rank[0], 12);
    assert_string_equal(finding->host, "two");
    assert_int_equal(finding->gpu, 2);
    assert_true(finding->confidence > 0.5);
    assert_true(describes(&finding->evidence, "ranks 10, 11, 13: policy 01010101"));
    assert_true(describes(&finding->evidence, "rank 12: policy 02020202"));
    assert_non_null(strstr(finding->advice, "muster run --policy"));
}

static void a_rank_that_refused_its_policy_is_named(void **state)
{
    (void)state;
    all_steer();
    set_policy(1, MUSTER_POLICY_REFUSED, 0);
    make_ranks(NULL);
    const struct muster_finding *finding = only_finding(false);
    assert_non_null(finding);
    assert_int_equal(finding->rank[0], 11);
    assert_true(describes(&finding->evidence, "rank 11: tuner off, its policy is refused"));
}

static void at_a_tie_all_are_named_without_confidence(void **state)
{
    (void)state;
    all_steer();
    set_policy(0, MUSTER_POLICY_ACTIVE, 9);
    set_policy(3, MUSTER_POLICY_ACTIVE, 9);
    make_ranks(NULL);
    const struct muster_finding *finding = only_finding(false);
    assert_non_null(finding);
    assert_int_equal(finding->ranks, RANKS);
    assert_true(finding->confidence <= 0.5);
}

static void a_tuner_that_may_be_on_its_way_is_waited_for(void **state)
{
    (void)state;
    bool called[RANKS] = {true, true, true, false};
    all_steer();
    job->policy[3] = (struct muster_seg_policy){.rules = 0};
    make_ranks(called);
    assert_null(only_finding(false));
    struct muster_err err;
    assert_int_equal(muster_diagnose_divergence(&job->view, true, &job->findings, &err), 0);
    assert_int_equal(job->findings.n, 1);
    assert_int_equal(job->findings.finding[0].rank[0], 13);
    assert_true(describes(&job->findings.finding[0].evidence, "rank 13: no tuner loaded"));
}

static void a_rank_whose_policy_is_not_known_is_left_out(void **state)
{
    (void)state;
    all_steer();
    make_ranks(NULL);
    job->view.gpu[3].policy = NULL;
    assert_null(only_finding(true));
}

static void smaller_communicators_of_the_same_ranks_say_nothing_more(void **state)
{
    (void)state;
    all_steer();
    set_policy(3, MUSTER_POLICY_ACTIVE, 2);
    make_ranks(NULL);
    for (unsigned r = 2; r < RANKS; r++)
        muster_view_add_member(&job->view, job->gpu[r], 0x99, (int32_t)r - 2, 2, 1, "pair");
    const struct muster_finding *finding = only_finding(false);
    assert_non_null(finding);
    assert_int_equal(finding->ranks, 1);
}

static void add_op(unsigned rank, const struct muster_op *op)
{
    muster_view_add_op(&job->view, job->member[rank], op);
}

static void operations_alike_are_no_divergence(void **state)
{
    (void)state;
    make_ranks(NULL);
    for (uint64_t n = 0; n < 50; n++) {
        struct muster_op op = op_at(n);
        op.channels = (uint8_t)(1 + n % 16);
        for (unsigned r = 0; r < RANKS; r++)
            add_op(r, &op);
    }
    assert_null(only_finding(true));
}

static void check_operation(void (*change)(struct muster_op *op), const char *described)
{
    make_ranks(NULL);
    for (uint64_t n = 0; n < 20; n++) {
        struct muster_op op = op_at(n);
        for (unsigned r = 0; r < RANKS; r++) {
            struct muster_op own = op;
            if (r == 1 && n >= 7 && n < 10)
                change(&own);
            add_op(r, &own);
        }
    }
    const struct muster_finding *finding = only_finding(true);
    assert_non_null(finding);
    assert_int_equal(finding->ranks, 1);
    assert_int_equal(finding->rank[0], 11);
    assert_true(finding->has_op);
    assert_int_equal(finding->op.index, 7);
    assert_int_equal(finding->op.bytes, 4096);
    assert_true(describes(&finding->evidence, "ring/simple on 8 channels on ranks 10, 12, 13"));
    assert_true(describes(&finding->evidence, described));
    assert_true(describes(&finding->evidence, "3 of 20 operations compared differ"));
}

static void other_algo(struct muster_op *op)
{
    op->algo = MUSTER_ALGO_TREE;
}

/* Operation n on the ranks from `first` on, with another algorithm on rank 3. */
static void add_with_3_apart(uint64_t n, unsigned first)
{
    for (unsigned r = first; r < RANKS; r++) {
        struct muster_op op = op_at(n);
        if (r == 3)
            other_algo(&op);
        add_op(r, &op);
    }
}

static void other_proto(struct muster_op *op)
{
    op->proto = MUSTER_PROTO_LL128;
}

static void other_channels(struct muster_op *op)
{
    op->channels = 4;
}

static void another_algorithm_is_found(void **state)
{
    (void)state;
    check_operation(other_algo, "tree/simple on 8 channels on rank 11");
}

static void another_protocol_is_found(void **state)
{
    (void)state;
    check_operation(other_proto, "ring/ll128 on 8 channels on rank 11");
}

static void another_number_of_channels_is_found(void **state)
{
    (void)state;
    check_operation(other_channels, "ring/simple on 4 channels on rank 11");
}

/* What NCCL tells of a part of the ranks, or may do differently, is nobody's policy. */
static void what_cannot_be_compared_is_not(void **state)
{
    (void)state;
    make_ranks(NULL);
    for (uint64_t n = 0; n < 40; n++) {
        for (unsigned r = 0; r < RANKS; r++) {
            struct muster_op op = op_at(n);
            if (n % 8 == 0 && r == 0)
                continue; /* not recorded there */
            if (n % 8 == 1 && r == 1)
                op.algo = op.proto = 0;
            if (n % 8 == 2)
                op.flags = MUSTER_OP_GRAPH, op.channels = (uint8_t)r;
            if (n % 8 == 3 && r == 2)
                op.flags = MUSTER_OP_API_ONLY, op.channels = 0;
            if (n % 8 == 4 && r == 3)
                op.channels = 0;
            if (n % 8 == 5 && r == 3)
                op.algo = MUSTER_ALGO_CE;
            add_op(r, &op);
            op = op_at(n);
            op.func = MUSTER_FUNC_SEND;
            op.peer = (int32_t)((r + 1) % RANKS);
            op.channels = (uint8_t)(1 + r);
            add_op(r, &op);
        }
    }
    assert_null(only_finding(true));
}

static void ranks_that_called_different_things_are_not_compared(void **state)
{
    (void)state;
    make_ranks(NULL);
    for (uint64_t n = 0; n < 20; n++) {
        for (unsigned r = 0; r < RANKS; r++) {
            struct muster_op op = op_at(n);
            op.count = r == 3 && n >= 5 ? 77 : 1024;
            op.algo = r == 3 && n >= 5 ? MUSTER_ALGO_TREE : MUSTER_ALGO_RING;
            add_op(r, &op);
        }
    }
    assert_null(only_finding(true));
    assert_true(describes(&job->findings.not_observable, "called different things as #5"));
}

/* Rank 13 skips #5: its later calls stand beside others. All choose by what they call, which looks
 * alike up to #11. */
static void a_skipped_call_is_no_divergence(void **state)
{
    (void)state;
    make_ranks(NULL);
    for (uint64_t n = 0; n < 20; n++) {
        for (unsigned r = 0; r < RANKS; r++) {
            uint64_t call = n + (r == 3 && n >= 5);
            struct muster_op op = op_at(n);
            op.count = call >= 12 ? 77 : 1024;
            op.channels = call % 3 ? 8 : 4;
            add_op(r, &op);
        }
    }
    assert_null(only_finding(true));
    assert_true(describes(&job->findings.not_observable, "called different things as #11"));
    assert_true(
        describes(&job->findings.not_observable, "the 4 before it that differ may do so by that"));
}

/* Different choices, all else alike until long after. */
static void what_differed_before_is_found_all_the_same(void **state)
{
    (void)state;
    make_ranks(NULL);
    for (uint64_t n = 0; n < 20; n++) {
        for (unsigned r = 0; r < RANKS; r++) {
            struct muster_op op = op_at(n);
            op.count = n % 2 ? 77 : r == 3 && n == 16 ? 5 : 1024;
            if (r == 3 && n == 4)
                other_algo(&op);
            add_op(r, &op);
        }
    }
    const struct muster_finding *finding = only_finding(true);
    assert_non_null(finding);
    assert_int_equal(finding->rank[0], 13);
    assert_int_equal(finding->op.index, 4);
    assert_true(describes(&finding->evidence, "1 of 16 operations compared differ"));
}

/* The first that differs is known of two ranks only. */
static void the_operation_that_most_ranks_show_is_told(void **state)
{
    (void)state;
    make_ranks(NULL);
    for (uint64_t n = 0; n < 4; n++)
        add_with_3_apart(n, n == 0 ? 2 : 0);
    const struct muster_finding *finding = only_finding(true);
    assert_non_null(finding);
    assert_int_equal(finding->ranks, 1);
    assert_int_equal(finding->rank[0], 13);
    assert_int_equal(finding->op.index, 1);
}

/* Three of this communicator have what is the minority's in the job. */
static void most_ranks_of_the_job_count(void **state)
{
    enum { OTHERS = 4 };
    (void)state;
    for (unsigned r = 0; r < RANKS; r++)
        set_policy(r, MUSTER_POLICY_ACTIVE, r == 3 ? 1 : 2);
    make_ranks(NULL);
    uint32_t last = job->gpu[3];
    for (unsigned i = 0; i < OTHERS; i++) {
        uint32_t gpu =
            muster_view_add_gpu(&job->view, &(struct muster_view_gpu){.rank = (int32_t)(20 + i),
                                                                      .gpu_index = (int32_t)i,
                                                                      .host = "three",
                                                                      .process = RANKS + i,
                                                                      .policy = &job->policy[3],
                                                                      .called = true});
        muster_view_add_member(&job->view, last, 0x900 + i, 0, 2, 2, "pair");
        muster_view_add_member(&job->view, gpu, 0x900 + i, 1, 2, 2, "pair");
        last = gpu;
    }
    const struct muster_finding *finding = only_finding(true);
    assert_non_null(finding);
    assert_int_equal(finding->ranks, 3);
    assert_int_equal(finding->rank[0], 10);
    assert_int_equal(finding->rank[2], 12);
    assert_true(finding->confidence > 0.95);
}

static void ranks_out_of_sight_may_be_of_the_minority(void **state)
{
    (void)state;
    all_steer();
    set_policy(2, MUSTER_POLICY_ACTIVE, 2);
    make_ranks(NULL);
    for (unsigned r = 0; r < RANKS; r++)
        muster_view_add_member(&job->view, job->gpu[r], 0x5, (int32_t)r, RANKS + 2, 2, "wide");
    struct muster_err err = {""};
    assert_int_equal(muster_view_finish(&job->view, &err), 0);
    assert_int_equal(muster_diagnose_divergence(&job->view, true, &job->findings, &err), 0);
    assert_int_equal(job->findings.n, 1);
    const struct muster_finding *finding = &job->findings.finding[0];
    assert_int_equal(finding->rank[0], 12);
    assert_true(finding->confidence > 0.5 && finding->confidence < 0.9);
    assert_true(describes(&finding->not_observable, "could make these the most"));
}

static void a_policy_and_its_effect_are_one_finding(void **state)
{
    (void)state;
    all_steer();
    set_policy(3, MUSTER_POLICY_ACTIVE, 2);
    make_ranks(NULL);
    for (uint64_t n = 0; n < 10; n++)
        add_with_3_apart(n, 0);
    const struct muster_finding *finding = only_finding(true);
    assert_non_null(finding);
    assert_int_equal(finding->rank[0], 13);
    assert_true(finding->has_op);
    assert_true(describes(&finding->evidence, "rank 13: policy 02020202"));
    assert_true(describes(&finding->evidence, "10 of 10 operations compared differ"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_policy_is_no_divergence),
        TEST(tuners_that_are_all_off_are_alike),
        TEST(the_rank_with_another_policy_is_named),
        TEST(a_rank_that_refused_its_policy_is_named),
        TEST(at_a_tie_all_are_named_without_confidence),
        TEST(a_tuner_that_may_be_on_its_way_is_waited_for),
        TEST(a_rank_whose_policy_is_not_known_is_left_out),
        TEST(smaller_communicators_of_the_same_ranks_say_nothing_more),
        TEST(operations_alike_are_no_divergence),
        TEST(another_algorithm_is_found),
        TEST(another_protocol_is_found),
        TEST(another_number_of_channels_is_found),
        TEST(what_cannot_be_compared_is_not),
        TEST(ranks_that_called_different_things_are_not_compared),
        TEST(a_skipped_call_is_no_divergence),
        TEST(what_differed_before_is_found_all_the_same),
        TEST(the_operation_that_most_ranks_show_is_told),
        TEST(most_ranks_of_the_job_count),
        TEST(ranks_out_of_sight_may_be_of_the_minority),
        TEST(a_policy_and_its_effect_are_one_finding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
