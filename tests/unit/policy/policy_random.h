/* Reproducible chance, and policies made of it. */
#ifndef MUSTER_TESTS_UNIT_POLICY_POLICY_RANDOM_H
#define MUSTER_TESTS_UNIT_POLICY_POLICY_RANDOM_H

#include <stddef.h>
#include <stdint.h>

uint32_t random_next(uint32_t *seed);
uint32_t random_below(uint32_t *seed, uint32_t n);
/* A number of any magnitude. */
uint64_t random_size(uint32_t *seed);
/* A valid document with `rules` rules of all kinds; free it. */
char *random_document(uint32_t *seed, unsigned rules);

#endif
