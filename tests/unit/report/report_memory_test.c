/* Every allocation of the report fails, and of what is made of it: rows by rule, a page, a
 * timeline. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "diagnose/diagnose.h"
#include "failing_memory.h"
#include "page/page.h"
#include "policy/offline/report_rules.h"
#include "report_fixture.h"
#include "timeline/timeline.h"

enum { RANKS = 2, OPS = 1500 };

static struct muster_run *sample(void)
{
    struct muster_run *run = fixture_run(RANKS);
    for (size_t p = 0; p < RANKS; p++) {
        struct muster_segment *segment = run->process[p].segment;
        fixture_comm(run, p, 1, 0xabc, (int32_t)p, RANKS);
        for (uint64_t i = 0; i < OPS; i++) {
            struct muster_op op = fixture_op(1, i, (100 + p) * US);
            op.flags |= (uint16_t)(i % 2 << 8); /* of the segment's first tag */
            fixture_add(run, p, op);
        }
        segment->net[0].comm = 1;
        segment->tag[0] = (struct muster_seg_tag){.tag = 7, .count = OPS / 2};
        segment->drops[MUSTER_DROP_CHANNEL] = 1;
        segment->policy.state = MUSTER_POLICY_ACTIVE;
        segment->policy.rules = 1;
    }
    return run;
}

/* What is made of the run, each with a report of its own. */
struct made {
    struct muster_run *run;
    struct muster_view view;
    struct muster_findings findings;
    const char *path;
};
typedef int make_fn(struct made *of, struct muster_report *report, struct muster_err *err);

static int no_more(struct made *of, struct muster_report *report, struct muster_err *err)
{
    (void)of, (void)report, (void)err;
    return 0;
}

static int rules(struct made *of, struct muster_report *report, struct muster_err *err)
{
    return muster_report_rules_add(&of->view, report, err);
}

static int page(struct made *of, struct muster_report *report, struct muster_err *err)
{
    const struct muster_page_request request = {.path = of->path};
    struct muster_page_made made;
    return muster_page_write(&of->view, report, &of->findings, &request, &made, err);
}

static int timeline(struct made *of, struct muster_report *report, struct muster_err *err)
{
    const struct muster_timeline_request request = {.path = of->path, .whole = true};
    struct muster_timeline_count count;
    (void)report;
    return muster_timeline_write(&of->view, &of->findings, &request, &count, err);
}

static int make_report(struct made *of, enum muster_report_by by, make_fn *more,
                       struct muster_err *err)
{
    struct muster_report report;
    if (muster_report_build(&of->view, by, &report, err))
        return -1;
    int result = more(of, &report, err);
    muster_report_free(&report);
    return result;
}

/* One after the other fails, until none does; a file is there only then. */
static void every_allocation(struct made *of, enum muster_report_by by, make_fn *more, bool writes)
{
    size_t n = 0;
    for (bool failed = true; failed; n++) {
        struct muster_err err = {""};
        long before = failing_memory_live();
        failing_memory_once((long)n);
        int result = make_report(of, by, more, &err);
        failed = failing_memory_end();
        /* a timeline that cannot be deflated is written as it is */
        assert_true(result == (failed ? -1 : 0) || (failed && more == timeline));
        assert_int_equal(strstr(err.text, "out of memory") != NULL, result != 0);
        assert_int_equal(access(of->path, F_OK) == 0, writes && result == 0);
        unlink(of->path);
        if (!writes) /* else there are streams of libc's, which allocate behind our back */
            assert_int_equal(failing_memory_live(), before);
    }
    assert_true(n > 5);
}

static void no_failed_allocation_goes_unnoticed(void **state)
{
    char dir[] = "/tmp/muster-memory-XXXXXX", path[64];
    struct muster_err err;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/made", dir);
    struct made of = {.run = sample(), .path = path};
    (void)state;
    assert_int_equal(muster_view_of_run(of.run, &of.view, &err), 0);
    every_allocation(&of, MUSTER_BY_OP, no_more, false);
    every_allocation(&of, MUSTER_BY_RANK_SIZE, rules, false);
    every_allocation(&of, MUSTER_BY_OP, page, true);
    every_allocation(&of, MUSTER_BY_OP, timeline, true);
    muster_view_free(&of.view);
    fixture_free(of.run);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_failed_allocation_goes_unnoticed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
