/* The other entries of the tables: communicators, states, stops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fake_plugin.h"
#include "nccl/profiler_abi.h"

enum { APIS = 7 };

typedef int (*init_v1)(void **, int *);
typedef int (*init_v4)(void **, int *, const char *, uint64_t, int, int, int, void *);
typedef int (*init_v5)(void **, uint64_t, int *, const char *, int, int, int, void *);

static char handle;

/* `result` is volatile so that the call is no tail call and returns into this function. */
__attribute__((noinline)) static int init(unsigned api, void **context, int *mask)
{
    fake_entry entry = fake_table(api)[1];
    volatile int result;
    if (api <= 3)
        result = ((init_v1)entry)(context, mask);
    else if (api == 4)
        result = ((init_v4)entry)(context, mask, "world", 0xabcd, 2, 16, 11, NULL);
    else
        result = ((init_v5)entry)(context, 0xabcd, mask, "world", 2, 16, 11, NULL);
    return result;
}

static void init_tells_what_its_version_knows(void **state)
{
    (void)state;
    for (unsigned api = 1; api <= APIS; api++) {
        void *context = NULL;
        int mask = 0;
        memset(&fake, 0, sizeof(fake));
        assert_int_equal(init(api, &context, &mask), 0);
        assert_int_equal(fake.inits, 1);
        assert_ptr_equal(context, &fake_context);
        assert_int_equal(mask, 0x5a);
        assert_int_equal(fake.init.api, api);
        assert_int_equal(fake.init.rank, api <= 3 ? -1 : 11);
        assert_int_equal(fake.init.nranks, api <= 3 ? 0 : 16);
        assert_int_equal(fake.init.nnodes, api <= 3 ? 0 : 2);
        assert_int_equal(fake.init.comm_hash, api <= 3 ? 0 : 0xabcd);
        if (api <= 3)
            assert_null(fake.init.name);
        else
            assert_string_equal(fake.init.name, "world");
    }
}

/* The caller must be an address in NCCL, here in init() above, not one in the plugin. */
static void init_names_its_caller(void **state)
{
    (void)state;
    for (unsigned api = 1; api <= APIS; api++) {
        void *context = NULL;
        int mask = 0;
        init(api, &context, &mask);
        uintptr_t from = (uintptr_t)init, at = (uintptr_t)fake.caller;
        assert_true(at > from && at < from + 8192); /* instrumented code is long */
    }
}

/* One libnccl is unloaded, another mapped in its place: the same address, another word. It makes a
 * communicator before it sends an event. */
static void words_of_another_nccl_in_its_place_are_its_own(void **state)
{
    (void)state;
    for (unsigned api = 4; api <= APIS; api++) {
        char place[32] = "AllReduce";
        struct nccl_descr_v4 old = {.type = 1 << MUSTER_EVENT_COLL, .coll.what.func = place};
        struct nccl_descr_v7 new = {.type = 1 << MUSTER_EVENT_COLL, .coll.v5.v4.what.func = place};
        void *descriptor = api == 4 ? (void *)&old : (void *)&new, *context, *event;
        fake_start start = (fake_start)fake_table(api)[2];
        int mask = 0;
        init(api, &context, &mask);
        start(context, &event, descriptor);
        assert_int_equal(fake.event.op.func, MUSTER_FUNC_ALL_REDUCE);
        strcpy(place, "Broadcast");
        init(api, &context, &mask);
        start(context, &event, descriptor);
        assert_int_equal(fake.event.op.func, MUSTER_FUNC_BROADCAST);
    }
}

struct state_case {
    unsigned state;
    unsigned first_api, last_api;
    bool trans, appended, ptimer;
};

static const struct state_case state_cases[] = {
    {0, 1, 3, true, false, false},   {7, 1, 3, true, false, false},
    {2, 4, 7, false, false, false},  {8, 1, 3, false, false, false},
    {12, 1, 3, false, false, false}, {8, 4, 7, true, false, false},
    {9, 4, 7, true, false, false},   {12, 4, 7, true, false, false},
    {20, 4, 7, true, false, false},  {13, 1, 7, false, true, false},
    {18, 1, 7, false, true, false},  {19, 4, 7, false, false, false},
    {22, 4, 7, false, false, true},  {23, 5, 7, false, false, false},
    {31, 7, 7, false, false, true},  {99, 1, 7, false, false, false},
};

static void record(unsigned api, unsigned state, void *args)
{
    memset(&fake, 0, sizeof(fake));
    memset(&fake.args, 0xa5, sizeof(fake.args));
    assert_int_equal(((fake_record)fake_table(api)[4])(&handle, (int)state, args), 0);
    assert_int_equal(fake.states, 1);
    assert_int_equal(fake.state, state);
    assert_ptr_equal(fake.handle, &handle);
}

static void a_state_carries_what_its_version_gives_it(void **state)
{
    (void)state;
    uint64_t value = UINT64_C(9) << 32 | 1234;
    for (size_t i = 0; i < sizeof(state_cases) / sizeof(state_cases[0]); i++) {
        const struct state_case *c = &state_cases[i];
        for (unsigned api = c->first_api; api <= c->last_api; api++) {
            size_t bytes = api < 4 ? 16 : 8;
            unsigned char *args = fake_guarded(bytes);
            memcpy(args, &value, sizeof(value));
            record(api, c->state, args);
            fake_unguard(args, bytes);
            assert_int_equal(fake.args.given, c->trans || c->appended || c->ptimer);
            assert_true(fake.args.trans_bytes == (c->trans ? value : 0));
            assert_int_equal(fake.args.appended, c->appended ? 1234 : 0);
            assert_true(fake.args.ptimer == (c->ptimer ? value : 0));
        }
    }
}

static void a_state_without_args_says_so(void **state)
{
    (void)state;
    for (unsigned api = 1; api <= APIS; api++) {
        for (unsigned s = 0; s < 40; s++) {
            record(api, s, NULL);
            assert_false(fake.args.given);
            assert_true(fake.args.ptimer == 0 && fake.args.trans_bytes == 0);
        }
    }
}

static void stop_and_finalize_pass_through_null_included(void **state)
{
    (void)state;
    for (unsigned api = 1; api <= APIS; api++) {
        fake_stop stop = (fake_stop)fake_table(api)[3];
        fake_stop finalize = (fake_stop)fake_table(api)[5];
        memset(&fake, 0, sizeof(fake));
        assert_int_equal(stop(&handle), 0);
        assert_ptr_equal(fake.handle, &handle);
        assert_int_equal(stop(NULL), 0);
        assert_int_equal(fake.stops, 2);
        assert_null(fake.handle);
        assert_int_equal(finalize(&fake_context), 0);
        assert_ptr_equal(fake.context, &fake_context);
        assert_int_equal(finalize(NULL), 0);
        assert_int_equal(fake.finis, 2);
    }
}

static void every_table_names_the_plugin(void **state)
{
    (void)state;
    for (unsigned api = 1; api <= APIS; api++)
        assert_string_equal((const char *)(uintptr_t)fake_table(api)[0], "muster");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_tells_what_its_version_knows),
        cmocka_unit_test(init_names_its_caller),
        cmocka_unit_test(words_of_another_nccl_in_its_place_are_its_own),
        cmocka_unit_test(a_state_carries_what_its_version_gives_it),
        cmocka_unit_test(a_state_without_args_says_so),
        cmocka_unit_test(stop_and_finalize_pass_through_null_included),
        cmocka_unit_test(every_table_names_the_plugin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
