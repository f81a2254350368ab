/* SHA-256 (RFC 6234) of a text in memory. */
#ifndef MUSTER_POLICY_SHA256_H
#define MUSTER_POLICY_SHA256_H

#include <stddef.h>
#include <stdint.h>

void muster_sha256(uint8_t digest[32], const void *data, size_t bytes);

#endif
