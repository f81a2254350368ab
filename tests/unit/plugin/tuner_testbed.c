#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner_testbed.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/scratch.h"

enum { ENTRY_BYTES = 40 };

void tuner_require(bool condition, const char *what, int line)
{
    if (condition)
        return;
    fprintf(stderr, "line %d: not so: %s\n", line, what);
    exit(EXIT_FAILURE);
}

void tuner_in_child(void (*check)(void), char *logged, size_t size)
{
    int output = memfd_create("said", 0), status = -1;
    assert_true(output >= 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(output, STDERR_FILENO);
        check();
        exit(EXIT_SUCCESS);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    ssize_t n = pread(output, logged, size - 1, 0);
    close(output);
    logged[n > 0 ? n : 0] = '\0';
    if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS)
        fail_msg("the process ended with status %#x: %s", (unsigned)status, logged);
}

const void *tuner_symbol(const char *name)
{
    void *library = dlopen(TUNER_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fprintf(stderr, "%s\n", dlerror());
    REQUIRE(library);
    const void *symbol = dlsym(library, name);
    REQUIRE(symbol);
    return symbol;
}

static const void *table(unsigned api)
{
    char name[ENTRY_BYTES];
    snprintf(name, sizeof(name), "ncclTunerPlugin_v%u", api);
    return tuner_symbol(name);
}

void *tuner_open(unsigned api, size_t ranks, size_t nodes, int nvlink_domains)
{
    void *context = NULL;
    struct nccl_nvl_domains nvl = {nvlink_domains, 1, 8};
    if (api < 5) {
        const struct nccl_tuner_v3 *old = table(api);
        REQUIRE(old->init(ranks, nodes, NULL, &context) == 0);
    } else {
        const struct nccl_tuner_v5 *new = table(api);
        REQUIRE(new->init(&context, 0x1234, ranks, nodes, NULL, &nvl, NULL) == 0);
    }
    REQUIRE(context);
    return context;
}

int tuner_ask(unsigned api, void *context, struct ask *a)
{
    if (api == 2) {
        const struct nccl_tuner_v2 *t = table(api);
        return t->get_coll_info(context, a->func, a->bytes, 1, 1, a->pipe_ops, &a->algo, &a->proto,
                                &a->channels);
    }
    if (api == 3) {
        const struct nccl_tuner_v3 *t = table(api);
        return t->get_coll_info(context, a->func, a->bytes, a->pipe_ops, a->cost, a->algos,
                                a->protos, &a->channels);
    }
    const struct nccl_tuner_v4 *t = table(api);
    return t->get_coll_info(context, a->func, a->bytes, a->pipe_ops, a->cost, a->algos, a->protos,
                            a->registered, &a->channels);
}

int tuner_close(unsigned api, void *context)
{
    const struct nccl_tuner_v3 *t = table(api);
    return t->destroy(context);
}

char tuner_dir[4096];

int tuner_fresh(void **state)
{
    (void)state;
    struct muster_err err;
    clearenv();
    return muster_scratch_make(tuner_dir, sizeof(tuner_dir), "/tmp", &err);
}

int tuner_clean(void **state)
{
    (void)state;
    muster_scratch_remove(tuner_dir);
    return 0;
}
