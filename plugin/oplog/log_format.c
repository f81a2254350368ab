#include "oplog/log_format.h"

#include <string.h>

#include "oplog/crc32c.h"

void muster_log_put_bytes(struct muster_log_sink *sink, const void *data, size_t bytes)
{
    if (sink->bad || (size_t)(sink->end - sink->at) < bytes) {
        sink->bad = true;
        return;
    }
    memcpy(sink->at, data, bytes);
    sink->at += bytes;
}

void muster_log_put_u(struct muster_log_sink *sink, uint64_t value)
{
    uint8_t byte[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        byte[n++] = (uint8_t)(value | 0x80);
    byte[n++] = (uint8_t)value;
    muster_log_put_bytes(sink, byte, n);
}

void muster_log_put_i(struct muster_log_sink *sink, int64_t value)
{
    muster_log_put_u(sink, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

void muster_log_get_bytes(struct muster_log_source *source, void *data, size_t bytes)
{
    if (source->bad || (size_t)(source->end - source->at) < bytes) {
        source->bad = true;
        memset(data, 0, bytes);
        return;
    }
    memcpy(data, source->at, bytes);
    source->at += bytes;
}

uint64_t muster_log_get_u(struct muster_log_source *source)
{
    const uint8_t *at = source->at, *end = source->end;
    uint64_t value = 0;
    if (source->bad)
        return 0;
    if (end - at > 10)
        end = at + 10;
    for (unsigned shift = 0; at < end; shift += 7) {
        uint64_t byte = *at++;
        value |= (byte & 0x7f) << shift;
        if (byte < 0x80) {
            source->at = at;
            return value;
        }
    }
    source->bad = true;
    return 0;
}

int64_t muster_log_get_i(struct muster_log_source *source)
{
    uint64_t value = muster_log_get_u(source);
    return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

uint64_t muster_log_get_max(struct muster_log_source *source, uint64_t max)
{
    uint64_t value = muster_log_get_u(source);
    if (value <= max)
        return value;
    source->bad = true;
    return 0;
}

uint32_t muster_log_header_crc(const struct muster_log_header *header)
{
    size_t skip = offsetof(struct muster_log_header, bytes);
    return muster_crc32c(0, (const char *)header + skip, sizeof(*header) - skip);
}

uint32_t muster_log_frame_crc(const void *frame, uint32_t length)
{
    size_t skip = offsetof(struct muster_log_frame, length);
    return muster_crc32c(0, (const char *)frame + skip,
                         sizeof(struct muster_log_frame) - skip + length);
}
