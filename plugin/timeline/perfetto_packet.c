#include "timeline/perfetto_packet.h"

#include "timeline/perfetto_fields.h"

size_t muster_perfetto_begin(struct muster_perfetto_out *to, uint32_t sequence)
{
    size_t place = muster_protobuf_open(&to->packet, TRACE_PACKET);
    muster_protobuf_uint(&to->packet, PACKET_SEQUENCE, sequence);
    return place;
}

void muster_perfetto_end(struct muster_perfetto_out *to, size_t place)
{
    muster_protobuf_close(&to->packet, place);
    if (!to->packet.failed)
        fwrite(to->packet.bytes, 1, to->packet.used, to->out);
    muster_protobuf_clear(&to->packet);
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
