/* What the two halves of the made-up driver share. */
#ifndef MUSTER_TESTS_UNIT_ALLREDUCE_FAKE_GPU_H
#define MUSTER_TESTS_UNIT_ALLREDUCE_FAKE_GPU_H

#include <stdbool.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

extern bool fake_stuck;          /* work was launched that never ends */
int fake_current(void);          /* device of the current context */
int fake_owner(uint64_t memory); /* device that allocated it; -1 */

#endif
