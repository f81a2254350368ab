/* Segments that nobody's muster wrote. */
#ifndef MUSTER_TESTS_FAULT_FAULT_HOSTILE_H
#define MUSTER_TESTS_FAULT_FAULT_HOSTILE_H

#include <stddef.h>
#include <stdint.h>

#include "segment/layout.h"

/* The next number of a seeded series. */
uint64_t hostile_random(uint64_t *state);

/* A plausible segment of a process that is gone. */
void hostile_image(struct muster_segment *image, const char *run_dir, const char *stem);

/* Damages it in one of several ways: noise, extreme numbers, texts without an end, strides, or a
 * cut. Returns how many bytes of it to write. */
size_t hostile_damage(struct muster_segment *image, uint64_t *random);

/* Writes it as a segment of this user, as of process `pid`. With the lock file of a dead process.
 */
void hostile_plant(const char *dir, unsigned pid, const void *image, size_t bytes);

#endif
