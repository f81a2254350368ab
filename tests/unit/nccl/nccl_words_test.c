#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "nccl/nccl_names.h"

static const unsigned values[MUSTER_NAMES_KINDS] = {
    [MUSTER_NAMES_FUNC] = MUSTER_FUNCS,
    [MUSTER_NAMES_DTYPE] = MUSTER_DTYPES,
    [MUSTER_NAMES_ALGO] = MUSTER_ALGO_CE, /* no word of NCCL's */
    [MUSTER_NAMES_PROTO] = MUSTER_PROTOS,
};

static void every_value_has_a_word_and_comes_back(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < MUSTER_NAMES_KINDS; kind++) {
        for (unsigned value = 1; value < values[kind]; value++) {
            const char *text = muster_names_text(kind, value);
            assert_non_null(text);
            assert_int_equal(muster_names_match(kind, text), value);
            assert_int_equal(muster_names_value(kind, text), value);
            assert_int_equal(muster_names_value(kind, text), value); /* from its address */
            unsigned number = muster_names_number(kind, value);
            assert_int_not_equal(number, MUSTER_NCCL_NO_NUMBER);
            assert_int_equal(muster_names_of_number(kind, number), value);
        }
        assert_null(muster_names_text(kind, 0));
        assert_null(muster_names_text(kind, 200));
    }
}

static void the_spellings_are_nccls(void **state)
{
    (void)state;
    assert_string_equal(muster_names_text(MUSTER_NAMES_FUNC, MUSTER_FUNC_ALL_TO_ALL), "AlltoAll");
    assert_string_equal(muster_names_text(MUSTER_NAMES_DTYPE, MUSTER_DTYPE_FLOAT8E5M2),
                        "ncclFloat8e5m2");
    assert_string_equal(muster_names_text(MUSTER_NAMES_DTYPE, MUSTER_DTYPE_UINT8), "Unknown");
    assert_int_equal(muster_names_value(MUSTER_NAMES_DTYPE, "ncclUint8"), MUSTER_DTYPE_UINT8);
    assert_string_equal(muster_names_text(MUSTER_NAMES_ALGO, MUSTER_ALGO_RING), "RING");
    assert_string_equal(muster_names_text(MUSTER_NAMES_PROTO, MUSTER_PROTO_LL128), "LL128");
}

static void the_numbers_are_nccls(void **state)
{
    (void)state;
    assert_int_equal(muster_names_of_number(MUSTER_NAMES_FUNC, 0), MUSTER_FUNC_BROADCAST);
    assert_int_equal(muster_names_of_number(MUSTER_NAMES_FUNC, 4), MUSTER_FUNC_ALL_REDUCE);
    assert_int_equal(muster_names_of_number(MUSTER_NAMES_FUNC, 5), MUSTER_FUNC_UNKNOWN);
    assert_int_equal(muster_names_of_number(MUSTER_NAMES_FUNC, 7), MUSTER_FUNC_RECV);
    assert_int_equal(muster_names_of_number(MUSTER_NAMES_DTYPE, 6), MUSTER_DTYPE_FLOAT16);
    assert_int_equal(muster_names_of_number(MUSTER_NAMES_DTYPE, 9), MUSTER_DTYPE_BFLOAT16);
    assert_int_equal(muster_names_of_number(MUSTER_NAMES_ALGO, 0), MUSTER_ALGO_TREE);
    assert_int_equal(muster_names_of_number(MUSTER_NAMES_PROTO, 2), MUSTER_PROTO_SIMPLE);
    for (unsigned kind = 0; kind < MUSTER_NAMES_KINDS; kind++) {
        assert_int_equal(muster_names_of_number(kind, 255), 0);
        assert_int_equal(muster_names_number(kind, 0), MUSTER_NCCL_NO_NUMBER);
    }
}

/* A row or column of NCCL's cost table is the value less one: policies count on it. */
static void rows_and_columns_of_the_cost_table_are_in_order(void **state)
{
    (void)state;
    for (unsigned row = 0; row < MUSTER_ALGO_PAT; row++)
        assert_int_equal(muster_names_of_number(MUSTER_NAMES_ALGO, row), row + 1);
    for (unsigned column = 0; column < MUSTER_PROTO_SIMPLE; column++)
        assert_int_equal(muster_names_of_number(MUSTER_NAMES_PROTO, column), column + 1);
}

static void words_of_one_kind_are_not_words_of_another(void **state)
{
    (void)state;
    static const char unknown[] = "Unknown"; /* one literal for all, as linkers merge them */
    assert_int_equal(muster_names_value(MUSTER_NAMES_DTYPE, unknown), MUSTER_DTYPE_UINT8);
    assert_int_equal(muster_names_value(MUSTER_NAMES_FUNC, unknown), 0);
    assert_int_equal(muster_names_value(MUSTER_NAMES_ALGO, unknown), 0);
    assert_int_equal(muster_names_value(MUSTER_NAMES_DTYPE, NULL), 0);
    assert_int_equal(muster_names_value(MUSTER_NAMES_ALGO, "NVLS_TREES"), 0);
    assert_int_equal(muster_names_value(MUSTER_NAMES_ALGO, "NVL"), 0);
}

/* What happens when NCCL is unloaded and another comes to lie in its place. */
static void another_word_at_the_same_address_is_seen_after_forget(void **state)
{
    (void)state;
    char place[32] = "ncclFloat16";
    assert_int_equal(muster_names_value(MUSTER_NAMES_DTYPE, place), MUSTER_DTYPE_FLOAT16);
    strcpy(place, "ncclFloat64");
    muster_names_forget();
    assert_int_equal(muster_names_value(MUSTER_NAMES_DTYPE, place), MUSTER_DTYPE_FLOAT64);
}

/* 2.31's symmetric kernels send one in every event: it is compared with all others once. */
static void an_unknown_word_is_remembered_until_forget(void **state)
{
    (void)state;
    char place[32] = "PutSignal";
    assert_int_equal(muster_names_value(MUSTER_NAMES_FUNC, place), 0);
    strcpy(place, "Gather");
    assert_int_equal(muster_names_value(MUSTER_NAMES_FUNC, place), 0);
    muster_names_forget();
    assert_int_equal(muster_names_value(MUSTER_NAMES_FUNC, place), MUSTER_FUNC_GATHER);
}

static void more_literals_than_places_are_all_right(void **state)
{
    (void)state;
    static char place[3000][16];
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 3000; i++) {
            unsigned value = 1 + i % (MUSTER_FUNCS - 1);
            if (round == 0)
                strcpy(place[i], muster_names_text(MUSTER_NAMES_FUNC, value));
            assert_int_equal(muster_names_value(MUSTER_NAMES_FUNC, place[i]), value);
        }
    }
}

static void *look_up(void *arg)
{
    char(*place)[16] = arg;
    unsigned wrong = 0;
    for (unsigned i = 0; i < 20000; i++) {
        unsigned value = 1 + i % (MUSTER_FUNCS - 1);
        wrong += muster_names_value(MUSTER_NAMES_FUNC, place[i % 300]) != value;
        if (i % 1000 == 0)
            muster_names_forget();
    }
    return wrong ? place : NULL;
}

static void threads_that_learn_and_forget_at_once_are_right(void **state)
{
    (void)state;
    static char place[300][16];
    pthread_t thread[4];
    for (unsigned i = 0; i < 300; i++)
        strcpy(place[i], muster_names_text(MUSTER_NAMES_FUNC, 1 + i % (MUSTER_FUNCS - 1)));
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, look_up, place), 0);
    for (unsigned i = 0; i < 4; i++) {
        void *wrong = NULL;
        pthread_join(thread[i], &wrong);
        assert_null(wrong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_has_a_word_and_comes_back),
        cmocka_unit_test(the_spellings_are_nccls),
        cmocka_unit_test(the_numbers_are_nccls),
        cmocka_unit_test(rows_and_columns_of_the_cost_table_are_in_order),
        cmocka_unit_test(words_of_one_kind_are_not_words_of_another),
        cmocka_unit_test(another_word_at_the_same_address_is_seen_after_forget),
        cmocka_unit_test(an_unknown_word_is_remembered_until_forget),
        cmocka_unit_test(more_literals_than_places_are_all_right),
        cmocka_unit_test(threads_that_learn_and_forget_at_once_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
