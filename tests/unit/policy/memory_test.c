#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "policy/policy.h"

/* Every allocation of the policy and of what it is read with comes through here (--wrap). */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *memory);

static long left = -1; /* allocations until one fails, and all later ones; negative: none does */
static bool refused;
static long live;

static bool refuse(void)
{
    if (left < 0)
        return false;
    if (left > 0) {
        left--;
        return false;
    }
    refused = true;
    errno = ENOMEM;
    return true;
}

static void *counted(void *memory)
{
    live += memory != NULL;
    return memory;
}

void *__wrap_malloc(size_t size)
{
    return refuse() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return refuse() ? NULL : counted(__real_calloc(n, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    if (refuse())
        return NULL;
    void *memory = __real_realloc(old, size);
    live += !old && memory;
    return memory;
}

char *__wrap_strdup(const char *text)
{
    return refuse() ? NULL : counted(__real_strdup(text));
}

void __wrap_free(void *memory)
{
    live -= memory != NULL;
    __real_free(memory);
}

static const char document[] =
    "muster: 1\npolicy:\n"
    "- {name: a, match: {bytes: [1..5, 7..9], ranks: 2, pipe_ops: 2}, prefer: {algo: ring}}\n"
    "- {name: b, match: {bytes_per_rank: \">=9\"}, channels: 3}\n";

static void count_error(void *to, const struct muster_policy_message *message)
{
    unsigned *errors = to;
    *errors += !message->warning && strstr(message->text, "out of memory");
}

static void a_policy_that_finds_no_memory_says_so(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        struct muster_policy *policy = NULL;
        unsigned errors = 0;
        long before = live;
        left = n;
        refused = false;
        int rc =
            muster_policy_parse(&policy, "p", document, strlen(document), count_error, &errors);
        left = -1;
        assert_int_equal(rc, refused ? -1 : 0);
        assert_int_equal(errors > 0, refused);
        muster_policy_free(policy);
        assert_int_equal(live, before);
        if (!refused)
            return;
    }
}

static void a_table_that_finds_no_memory_leaves_none_behind(void **state)
{
    (void)state;
    struct muster_policy *policy = NULL;
    struct muster_query comm = {.ranks = 2, .nodes = 1};
    assert_int_equal(muster_policy_parse(&policy, "p", document, strlen(document), NULL, NULL), 0);
    for (long n = 0;; n++) {
        struct muster_frozen *frozen = NULL;
        long before = live;
        left = n;
        refused = false;
        int rc = muster_policy_freeze(&frozen, policy, &comm);
        left = -1;
        assert_int_equal(rc, refused ? -1 : 0);
        muster_frozen_free(frozen);
        assert_int_equal(live, before);
        if (!refused)
            break;
    }
    muster_policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_policy_that_finds_no_memory_says_so),
        cmocka_unit_test(a_table_that_finds_no_memory_leaves_none_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
