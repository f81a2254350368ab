/* "64KiB..1GiB", ">=2", "<=32KiB", "8": a range of whole numbers from text, and back. */
#ifndef MUSTER_POLICY_RANGE_H
#define MUSTER_POLICY_RANGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "policy/policy.h"

/* `sizes`: units are allowed. The error names what was found and expected, not where. */
int muster_range_parse(struct muster_policy_range *range, const char *text, bool sizes,
                       struct muster_err *err);

/* Sorts `n` ranges and joins those that touch; returns how many are left. */
unsigned muster_ranges_join(struct muster_policy_range *range, unsigned n);

/* What both lists have in common; `to` has room for na + nb. Both sorted and disjoint. */
unsigned muster_ranges_intersect(struct muster_policy_range *to,
                                 const struct muster_policy_range *a, unsigned na,
                                 const struct muster_policy_range *b, unsigned nb);

/* "64 KiB", exactly: the largest unit that divides it. */
void muster_range_print_number(char *to, size_t size, uint64_t value, bool sizes);
/* "64 KiB..1 GiB", ">= 2", "<= 32 KiB", "8", "any". */
void muster_range_print(char *to, size_t size, const struct muster_policy_range *range, bool sizes);

#endif
