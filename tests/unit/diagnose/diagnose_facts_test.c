/* What is told of a finding beside its sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "diagnose/finding.h"

#define SINCE 1795328165911833099ull /* 2026-11-22 06:16:05.911 */

static struct muster_finding late(void)
{
    return (struct muster_finding){.kind = MUSTER_FINDING_LATE_RANK,
                                   .rank = {2},
                                   .ranks = 1,
                                   .since_unix_ns = SINCE,
                                   .cost_s = 0.1,
                                   .cost_run_s = 0.1,
                                   .cost_low_s = 0.074,
                                   .cost_high_s = 0.135};
}

static void add(struct muster_finding *finding, int32_t rank, enum muster_finding_cause cause,
                double from_s, double to_s)
{
    finding->stretch[finding->stretches++] = (struct muster_finding_stretch){
        rank, cause, SINCE + (uint64_t)(from_s * (double)MUSTER_NS_PER_S),
        SINCE + (uint64_t)(to_s * (double)MUSTER_NS_PER_S)};
}

static void cost_is(const struct muster_finding *finding, const char *expected)
{
    char text[MUSTER_FINDING_LINE];
    muster_finding_cost(finding, text, sizeof text);
    assert_string_equal(text, expected);
}

static void causes_are(const struct muster_finding *finding, const char *expected)
{
    char text[MUSTER_FINDING_LINE];
    muster_finding_causes(finding, text, sizeof text);
    assert_string_equal(text, expected);
}

static void the_cost_has_an_interval_and_gpu_time(void **state)
{
    (void)state;
    struct muster_finding finding = late();
    cost_is(&finding, "between 0.074 and 0.135 s in four of five such findings");
    finding.gpu_hours = 0.0002;
    cost_is(&finding, "between 0.074 and 0.135 s in four of five such findings; 0.72 GPU-seconds");
    finding.cost_run_s = 3210.4;
    finding.gpu_hours = 57.07;
    cost_is(&finding, "between 0.074 and 0.135 s in four of five such findings; about 3210 s over "
                      "the run, what was not timed included, or 57.1 GPU-hours");
    finding.retracted = true;
    cost_is(&finding, "");
}

static void the_cost_of_a_transfer_is_a_model_s(void **state)
{
    (void)state;
    struct muster_finding finding = late();
    finding.kind = MUSTER_FINDING_SLOW_TRANSFER;
    cost_is(&finding, "between 0.074 and 0.135 s, by a model of the link");
    finding.cost_low_s = 0;
    cost_is(&finding, "at most 0.135 s, by a model of the link");
    finding.cost_high_s = 0;
    cost_is(&finding, "");
}

static void one_culprit_has_a_time_from_and_to(void **state)
{
    (void)state;
    struct muster_finding_lines when;
    struct muster_finding finding = late();
    muster_finding_when(&finding, &when);
    assert_int_equal(when.n, 1);
    assert_string_equal(when.line[0], "since 2026-11-22 06:16:05 UTC");
    add(&finding, 2, MUSTER_CAUSE_GPU, 0, 100);
    muster_finding_when(&finding, &when);
    assert_int_equal(when.n, 1);
    assert_string_equal(when.line[0], "2026-11-22 06:16:05 to 06:17:45 UTC");
    finding.since_unix_ns = 0;
    muster_finding_when(&finding, &when);
    assert_int_equal(when.n, 0);
}

static void culprits_by_turns_are_a_list_over_time(void **state)
{
    (void)state;
    struct muster_finding_lines when;
    struct muster_finding finding = late();
    add(&finding, 2, MUSTER_CAUSE_GPU, 0, 100);
    add(&finding, 0, MUSTER_CAUSE_GPU, 101, 86500);
    muster_finding_when(&finding, &when);
    assert_int_equal(when.n, 2);
    assert_string_equal(when.line[0], "rank 2, 2026-11-22 06:16:05 to 06:17:45 UTC");
    assert_string_equal(when.line[1], "rank 0, 2026-11-22 06:17:46 to 2026-11-23 06:17:45 UTC");
    /* So soon after one another that seconds would not tell who came first. */
    finding.stretches = 0;
    add(&finding, 2, MUSTER_CAUSE_GPU, 0, 0.25);
    add(&finding, 0, MUSTER_CAUSE_GPU, 0.25, 0.75);
    muster_finding_when(&finding, &when);
    assert_string_equal(when.line[0], "rank 2, 2026-11-22 06:16:05.911 to 06:16:06.161 UTC");
    assert_string_equal(when.line[1], "rank 0, 2026-11-22 06:16:06.161 to 06:16:06.661 UTC");
}

static void causes_are_told_apart_only_where_they_differ(void **state)
{
    (void)state;
    struct muster_finding finding = late();
    causes_are(&finding, "");
    add(&finding, 2, MUSTER_CAUSE_GPU, 0, 1);
    add(&finding, 5, MUSTER_CAUSE_GPU, 1, 2);
    causes_are(&finding, "");
    add(&finding, 7, MUSTER_CAUSE_UNKNOWN, 2, 3);
    causes_are(&finding, "rank 2: the GPU; rank 5: the GPU; rank 7: not known");
}

static void causes_without_room_are_counted(void **state)
{
    (void)state;
    struct muster_finding finding = late();
    for (int32_t i = 0; i < MUSTER_FINDING_STRETCHES; i++)
        add(&finding, 1000 + i, i ? MUSTER_CAUSE_UNKNOWN : MUSTER_CAUSE_HOST, i, i + 1);
    causes_are(&finding, "rank 1000: the host; rank 1001: not known; rank 1002: not known; "
                         "rank 1003: not known; rank 1004: not known; rank 1005: not known; "
                         "rank 1006: not known; rank 1007: not known; rank 1008: not known; "
                         "rank 1009: not known; and 6 more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cost_has_an_interval_and_gpu_time),
        cmocka_unit_test(the_cost_of_a_transfer_is_a_model_s),
        cmocka_unit_test(one_culprit_has_a_time_from_and_to),
        cmocka_unit_test(culprits_by_turns_are_a_list_over_time),
        cmocka_unit_test(causes_are_told_apart_only_where_they_differ),
        cmocka_unit_test(causes_without_room_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
