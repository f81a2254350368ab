/* The tuner tables of the built plugin, called as NCCL of each version would. */
#ifndef MUSTER_TESTS_UNIT_PLUGIN_TUNER_TESTBED_H
#define MUSTER_TESTS_UNIT_PLUGIN_TUNER_TESTBED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nccl/tuner_abi.h"

enum { TUNER_OLDEST = 2, TUNER_NEWEST = 7 };

struct ask {
    int func; /* ncclFunc_t */
    size_t bytes;
    int pipe_ops;
    float *cost;
    int algos, protos;
    int registered;
    int channels;    /* in and out */
    int algo, proto; /* of v2; in and out */
};

/* In a process of its own: a policy is read once. The environment is that of the caller; what the
 * process says goes into `said`. Fails the test if `check` does. */
void tuner_in_child(void (*check)(void), char *logged, size_t size);
/* Ends the child with a failure. */
void tuner_require(bool condition, const char *what, int line);
#define REQUIRE(condition) tuner_require(condition, #condition, __LINE__)

/* In the child. */
const void *tuner_symbol(const char *name);
void *tuner_open(unsigned api, size_t ranks, size_t nodes, int nvlink_domains);
int tuner_ask(unsigned api, void *context, struct ask *ask);
int tuner_close(unsigned api, void *context);

/* For each test an empty environment and a folder of its own. tests/abi/RULES is held against tests
 * whose macro begins as cmocka's. */
extern char tuner_dir[4096];
int tuner_fresh(void **state);
int tuner_clean(void **state);
#define cmocka_unit_test_fresh(name) cmocka_unit_test_setup_teardown(name, tuner_fresh, tuner_clean)

#endif
