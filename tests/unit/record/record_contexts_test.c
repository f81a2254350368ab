/* Places for the CUDA contexts of a process that makes and ends more of them than there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "record/event_reader.h"
#include "record/launches.h"

static unsigned long long current; /* id of this thread's context */

static int get_current(void **context)
{
    *context = &current;
    return 0;
}
static int get_id(void *context, unsigned long long *id)
{
    (void)context;
    *id = current;
    return 0;
}
static int create(void **event, unsigned flags)
{
    (void)flags;
    *event = &current;
    return 0;
}

static struct muster_launches launches;

static void begin(void)
{
    muster_launches_init(&launches);
    launches.cuda = (struct muster_cuda){
        .ctx_get_current = get_current, .ctx_get_id = get_id, .event_create = create};
    launches.possible = true;
    launches.stalled = true; /* no thread: nobody waits for it */
}

/* A job that resets its device for each of many models. */
static void a_context_whose_communicators_are_gone_makes_room(void **state)
{
    (void)state;
    begin();
    for (current = 1; current <= 3 * MUSTER_GPU_CONTEXTS; current++) {
        struct muster_gpu_context *first = muster_launches_context(&launches, false);
        assert_non_null(first);
        assert_ptr_equal(muster_launches_context(&launches, false), first);
        muster_completion_leave(&launches, first);
        muster_completion_leave(&launches, first);
    }
    for (unsigned i = 0; i < MUSTER_GPU_CONTEXTS; i++, current++)
        assert_non_null(muster_launches_context(&launches, false));
    assert_null(muster_launches_context(&launches, false)); /* all are in use */
    for (unsigned i = 0; i < MUSTER_GPU_CONTEXTS; i++)
        free(launches.gpu[i].launch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_context_whose_communicators_are_gone_makes_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
