#include "timeline/perfetto_packet.h"

#include <stdlib.h>

#include "timeline/perfetto_deflate.h"
#include "timeline/perfetto_fields.h"

/* A deflated batch should be below 512 KB (TracePacket.compressed_packets); half or double of this
 * changes a trace's size by less than 1 %. */
enum { BATCH_BYTES = 256 << 10 };

/* As one packet that holds them all where that is smaller. */
static void write_batch(struct muster_perfetto_out *to)
{
    struct muster_protobuf outer = {0};
    size_t packed_bytes, place;
    unsigned char *packed =
        muster_perfetto_deflate(to->packet.bytes, to->packet.used, &packed_bytes);
    if (packed) {
        place = muster_protobuf_open(&outer, TRACE_PACKET);
        muster_protobuf_bytes(&outer, PACKET_COMPRESSED, packed, packed_bytes);
        muster_protobuf_close(&outer, place);
    }
    const struct muster_protobuf *shorter = packed && !outer.failed ? &outer : &to->packet;
    if (shorter->used)
        fwrite(shorter->bytes, 1, shorter->used, to->out);
    muster_protobuf_clear(&to->packet);
    muster_protobuf_free(&outer);
    free(packed);
}

size_t muster_perfetto_begin(struct muster_perfetto_out *to, uint32_t sequence)
{
    size_t place = muster_protobuf_open(&to->packet, TRACE_PACKET);
    muster_protobuf_uint(&to->packet, PACKET_SEQUENCE, sequence);
    return place;
}

void muster_perfetto_end(struct muster_perfetto_out *to, size_t place)
{
    muster_protobuf_close(&to->packet, place);
    if (!to->packet.failed && to->packet.used >= BATCH_BYTES)
        write_batch(to);
}

bool muster_perfetto_finish(struct muster_perfetto_out *to)
{
    bool good = !to->packet.failed;
    if (good)
        write_batch(to);
    muster_protobuf_free(&to->packet);
    return good;
}

void muster_perfetto_put_clock(struct muster_perfetto_out *to, uint32_t sequence, uint64_t own_ns,
                               uint64_t axis_ns)
{
    size_t place = muster_perfetto_begin(to, sequence);
    size_t snapshot = muster_protobuf_open(&to->packet, PACKET_CLOCK_SNAPSHOT);
    size_t one = muster_protobuf_open(&to->packet, SNAPSHOT_CLOCK);
    muster_protobuf_uint(&to->packet, CLOCK_ID, CLOCK_SEQUENCE_ID);
    muster_protobuf_uint(&to->packet, CLOCK_TIMESTAMP, own_ns);
    muster_protobuf_uint(&to->packet, CLOCK_INCREMENTAL, 1);
    muster_protobuf_close(&to->packet, one);
    one = muster_protobuf_open(&to->packet, SNAPSHOT_CLOCK);
    muster_protobuf_uint(&to->packet, CLOCK_ID, CLOCK_BOOTTIME_ID);
    muster_protobuf_uint(&to->packet, CLOCK_TIMESTAMP, axis_ns);
    muster_protobuf_close(&to->packet, one);
    muster_protobuf_close(&to->packet, snapshot);
    muster_perfetto_end(to, place);
}
