/* CRC-32C (Castagnoli), as in RFC 3720 appendix B.4: "123456789" gives 0xe3069283. */
#ifndef MUSTER_OPLOG_CRC32C_H
#define MUSTER_OPLOG_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continues `crc`; start with 0. */
uint32_t muster_crc32c(uint32_t crc, const void *data, size_t bytes);
/* The same where the processor has no instruction for it; for tests. */
uint32_t muster_crc32c_by_table(uint32_t crc, const void *data, size_t bytes);

#endif
