/*
 * Numbers of the fields of a Perfetto trace that muster writes: facts of perfetto.dev's published
 * message formats (TracePacket, TrackDescriptor, TrackEvent, ClockSnapshot, InternedData).
 * tests/cli/perfetto.proto has the same for protoc, which decodes what the tests write.
 */
#ifndef MUSTER_TIMELINE_PERFETTO_FIELDS_H
#define MUSTER_TIMELINE_PERFETTO_FIELDS_H

enum muster_perfetto_field {
    TRACE_PACKET = 1,

    PACKET_CLOCK_SNAPSHOT = 6,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_COMPRESSED = 50, /* packets, deflated */
    PACKET_CLOCK = 58,
    PACKET_DEFAULTS = 59,
    PACKET_TRACK = 60,

    DEFAULTS_EVENT = 11,
    DEFAULTS_CLOCK = 58,

    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_THREAD = 4,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8,
    COUNTER_UNIT_NAME = 6,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    THREAD_PID = 1,
    THREAD_TID = 2,
    THREAD_NAME = 5,

    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK = 11,
    EVENT_NAME = 23,
    EVENT_COUNTER_VALUE = 44,
    EVENT_FLOW = 47,

    ANNOTATION_NAME_IID = 1,
    ANNOTATION_UINT = 3,
    ANNOTATION_DOUBLE = 5,
    ANNOTATION_TEXT = 6,
    ANNOTATION_NAME = 10,

    INTERNED_EVENT_NAME = 2,
    INTERNED_ANNOTATION_NAME = 3,
    NAME_IID = 1,
    NAME_TEXT = 2,

    SNAPSHOT_CLOCK = 1,
    SNAPSHOT_PRIMARY = 2,
    CLOCK_ID = 1,
    CLOCK_TIMESTAMP = 2,
    CLOCK_INCREMENTAL = 3,
};

enum { EVENT_SLICE_BEGIN = 1, EVENT_SLICE_END = 2, EVENT_INSTANT = 3, EVENT_COUNTER = 4 };
enum { SEQUENCE_CLEARED = 1, SEQUENCE_NEEDED = 2 };

/* Clocks: the trace's own, the wall's, and the sequence's own first one. */
enum { CLOCK_REALTIME_ID = 1, CLOCK_BOOTTIME_ID = 6, CLOCK_SEQUENCE_ID = 64 };

#endif
