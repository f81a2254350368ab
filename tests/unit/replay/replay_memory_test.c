/* Every allocation fails by itself of a recording that is read and planned. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "failing_memory.h"
#include "replay/replay_plan.h"

/* One rank, one communicator, one all-reduce. */
static const char recording[] =
    "{\"op\":\"meta\",\"format\":1,\"api\":5,\"nccl\":22809,\"rank\":0,\"nranks\":2,"
    "\"host\":\"node0\",\"local_rank\":0,\"gpu\":\"NVIDIA H200\"}\n"
    "{\"t\":1,\"tid\":1,\"op\":\"init\",\"ctx\":1,\"comm\":\"0f603734786571cf\",\"name\":\"\","
    "\"nNodes\":1,\"nranks\":2,\"rank\":0}\n"
    "{\"t\":2,\"tid\":1,\"op\":\"start\",\"ctx\":1,\"h\":1,\"type\":256,\"parent\":0,\"graph\":0,"
    "\"depth\":1}\n"
    "{\"t\":4,\"tid\":1,\"op\":\"stop\",\"h\":1,\"type\":256}\n";

static int read_and_plan(struct muster_err *err)
{
    struct muster_trace trace = {0};
    struct muster_plan plan = {0};
    bool cut;
    int result = muster_trace_parse("it", recording, sizeof recording - 1, &trace, &cut, err);
    if (result == 0)
        result = muster_plan_make(&plan, &trace, err);
    if (result == 0) {
        assert_int_equal(trace.calls, 3);
        assert_int_equal(plan.events, 1);
    }
    muster_plan_free(&plan);
    muster_trace_free(&trace);
    return result;
}

static void a_recording_is_planned_whole_or_fails(void **state)
{
    bool failed = true;
    long n = 0;
    (void)state;
    for (; failed; n++) {
        struct muster_err err = {""};
        long before = failing_memory_live();
        failing_memory_once(n);
        int result = read_and_plan(&err);
        failed = failing_memory_end();
        assert_int_equal(result, failed ? -1 : 0);
        assert_int_equal(strstr(err.text, "out of memory") != NULL, failed);
        assert_int_equal(failing_memory_live(), before);
    }
    assert_true(n > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_recording_is_planned_whole_or_fails)};
    json_set_alloc_funcs(failing_memory_spare, free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
