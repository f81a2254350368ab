#include "timeline/perfetto_counters.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/nccl_types.h"
#include "timeline/perfetto_fields.h"

enum {
    BINS_WANTED = 100,  /* of what is shown */
    BINS_MOST = 100000, /* of everything between, which may be days */
    OPS_PER_BIN = 4,    /* fewer would show single operations, which slices do */
    WIDTH_LEAST_NS = 100000,
};

enum counter { WAITING, BANDWIDTH, TIMED, COUNTERS };

static const struct {
    const char *name, *unit;
} counters[COUNTERS] = {
    [WAITING] = {"waiting", "%"},
    [BANDWIDTH] = {"bus bandwidth", "GB/s"},
    [TIMED] = {"operations timed", "%"},
};

struct bin {
    double wait_ns, bus_bytes;
    uint64_t timed, untimed;
};

struct counting {
    const struct muster_timeline *timeline;
    const struct muster_perfetto_free *first;
    struct muster_perfetto_out *to;
    struct bin *bin; /* of one GPU at a time */
    size_t bins;
    uint64_t begin_ns, end_ns, width_ns; /* on the axis */
    uint32_t gpu;
    uint64_t clock_ns;        /* of the packet before */
    double emitted[COUNTERS]; /* NAN: nothing yet */
};

/* ---- bins ---- */

static uint64_t on_axis(const struct counting *counting, uint32_t gpu, uint64_t gpu_ns)
{
    return muster_timeline_at(counting->timeline, gpu, gpu_ns);
}

static bool is_shown(const struct counting *counting, uint32_t gpu, const struct muster_view_op *op)
{
    return op->end_ns > op->begin_ns &&
           counting->timeline->clocks.gpu[gpu].method != MUSTER_CLOCK_UNKNOWN &&
           muster_timeline_shows(counting->timeline, on_axis(counting, gpu, op->begin_ns));
}

/* Everything that is shown, how long that is, and how many operations a rank has in it at most. */
static void find_width(struct counting *counting)
{
    const struct muster_view *view = counting->timeline->view;
    const uint64_t window = (MUSTER_TIMELINE_BEFORE_S + MUSTER_TIMELINE_AFTER_S) * MUSTER_NS_PER_S;
    uint64_t most = 0, windows = counting->timeline->findings->n;
    counting->begin_ns = UINT64_MAX;
    for (uint32_t g = 0; g < view->gpus; g++) {
        uint64_t ops = 0;
        for (uint32_t i = 0; i < view->gpu[g].ordered; i++) {
            const struct muster_view_op *op = &view->op[view->gpu[g].order[i]];
            if (!is_shown(counting, g, op))
                continue;
            uint64_t begin = on_axis(counting, g, op->begin_ns);
            uint64_t end = on_axis(counting, g, op->end_ns);
            counting->begin_ns = begin < counting->begin_ns ? begin : counting->begin_ns;
            counting->end_ns = end > counting->end_ns ? end : counting->end_ns;
            ops++;
        }
        most = ops > most ? ops : most;
    }
    if (counting->begin_ns >= counting->end_ns)
        return;
    uint64_t all = counting->end_ns - counting->begin_ns, shown = all;
    windows = windows ? windows : 1;
    if (!counting->timeline->whole && all / windows > window)
        shown = windows * window;
    uint64_t wanted = most / OPS_PER_BIN < BINS_WANTED ? most / OPS_PER_BIN + 1 : BINS_WANTED;
    uint64_t width = shown / wanted > WIDTH_LEAST_NS ? shown / wanted : WIDTH_LEAST_NS;
    counting->width_ns = width > all / BINS_MOST ? width : all / BINS_MOST + 1;
    counting->bins = (size_t)(all / counting->width_ns + 1);
}

static struct bin *bin_at(const struct counting *counting, uint64_t at_ns)
{
    uint64_t passed = at_ns > counting->begin_ns ? at_ns - counting->begin_ns : 0;
    size_t i = (size_t)(passed / counting->width_ns);
    return &counting->bin[i < counting->bins ? i : counting->bins - 1];
}

/* Over a span of the axis, each bin its part: time of waiting, and bytes that moved evenly. */
static void spread(const struct counting *counting, uint64_t from, uint64_t to, bool waited,
                   double bus_bytes)
{
    for (uint64_t at = from; at < to;) {
        uint64_t passed = at > counting->begin_ns ? at - counting->begin_ns : 0;
        uint64_t edge = counting->begin_ns + (passed / counting->width_ns + 1) * counting->width_ns;
        uint64_t until = edge < to ? edge : to;
        struct bin *bin = bin_at(counting, at);
        bin->wait_ns += waited ? (double)(until - at) : 0;
        bin->bus_bytes += bus_bytes * (double)(until - at) / (double)(to - from);
        at = until;
    }
}

static void add_op(const struct counting *counting, const struct muster_view_op *op)
{
    const struct muster_timeline *timeline = counting->timeline;
    const struct muster_view *view = timeline->view;
    const struct muster_view_class *class = &view->class[op->class];
    uint64_t wait = timeline->wait[op - view->op].wait_ns;
    uint64_t begin = on_axis(counting, counting->gpu, op->begin_ns);
    uint64_t end = on_axis(counting, counting->gpu, op->end_ns);
    uint32_t nranks = view->member[op->member].nranks;
    double bytes = (double)muster_op_size_bytes(class->func, class->dtype, op->count, nranks) *
                   muster_busbw_factor(class->func, nranks);
    wait = begin + wait < end ? wait : 0;
    spread(counting, begin, begin + wait, true, 0);
    spread(counting, begin + wait, end, false, isfinite(bytes) ? bytes : 0);
}

/* Operations stand by number: those without times count where the next with times begins, the last
 * ones where the last with times does. */
static void add_member(const struct counting *counting, const struct muster_view_member *member)
{
    const struct muster_view_op *op = &counting->timeline->view->op[member->first_op];
    struct bin *last = NULL;
    uint64_t untimed = 0;
    for (uint32_t i = 0; i < member->ops; i++) {
        if (op[i].end_ns == 0) {
            untimed++;
            continue;
        }
        if (is_shown(counting, member->gpu, &op[i])) {
            last = bin_at(counting, on_axis(counting, member->gpu, op[i].begin_ns));
            last->timed++;
            last->untimed += untimed;
            add_op(counting, &op[i]);
        }
        untimed = 0;
    }
    if (last)
        last->untimed += untimed;
}

/* ---- packets ---- */

static uint64_t track_of(const struct counting *counting, unsigned counter)
{
    return counting->first->track + (uint64_t)counting->gpu * COUNTERS + counter;
}

static void put_track(const struct counting *counting, unsigned counter)
{
    struct muster_protobuf *packet = &counting->to->packet;
    size_t place = muster_perfetto_begin(counting->to, counting->first->sequence + counting->gpu);
    size_t track = muster_protobuf_open(packet, PACKET_TRACK);
    muster_protobuf_uint(packet, TRACK_UUID, track_of(counting, counter));
    muster_protobuf_uint(packet, TRACK_PARENT, counting->first->gpu_track + counting->gpu);
    muster_protobuf_text(packet, TRACK_NAME, counters[counter].name);
    size_t of = muster_protobuf_open(packet, TRACK_COUNTER);
    muster_protobuf_text(packet, COUNTER_UNIT_NAME, counters[counter].unit);
    muster_protobuf_close(packet, of);
    muster_protobuf_close(packet, track);
    muster_perfetto_end(counting->to, place);
}

static void begin_gpu(struct counting *counting)
{
    struct muster_protobuf *packet = &counting->to->packet;
    uint32_t sequence = counting->first->sequence + counting->gpu;
    for (unsigned c = 0; c < COUNTERS; c++) {
        put_track(counting, c);
        counting->emitted[c] = NAN;
    }
    size_t place = muster_perfetto_begin(counting->to, sequence);
    muster_protobuf_uint(packet, PACKET_SEQUENCE_FLAGS, SEQUENCE_CLEARED);
    size_t defaults = muster_protobuf_open(packet, PACKET_DEFAULTS);
    muster_protobuf_uint(packet, DEFAULTS_CLOCK, CLOCK_SEQUENCE_ID);
    muster_protobuf_close(packet, defaults);
    muster_perfetto_end(counting->to, place);
    muster_perfetto_put_clock(counting->to, sequence, counting->begin_ns, counting->begin_ns);
    counting->clock_ns = counting->begin_ns;
}

/* A counter keeps its value until it is written anew. */
static void put_value(struct counting *counting, unsigned counter, uint64_t at_ns, double value)
{
    struct muster_protobuf *packet = &counting->to->packet;
    if (counting->emitted[counter] == value)
        return;
    counting->emitted[counter] = value;
    size_t place = muster_perfetto_begin(counting->to, counting->first->sequence + counting->gpu);
    muster_protobuf_uint(packet, PACKET_TIMESTAMP, at_ns - counting->clock_ns);
    muster_protobuf_uint(packet, PACKET_SEQUENCE_FLAGS, SEQUENCE_NEEDED);
    size_t event = muster_protobuf_open(packet, PACKET_EVENT);
    muster_protobuf_uint(packet, EVENT_TYPE, EVENT_COUNTER);
    muster_protobuf_uint(packet, EVENT_TRACK, track_of(counting, counter));
    muster_protobuf_double(packet, EVENT_COUNTER_VALUE, value);
    muster_protobuf_close(packet, event);
    muster_perfetto_end(counting->to, place);
    counting->clock_ns = at_ns;
}

static void put_gpu(struct counting *counting)
{
    double width = (double)counting->width_ns;
    begin_gpu(counting);
    for (size_t b = 0; b < counting->bins; b++) {
        const struct bin *bin = &counting->bin[b];
        uint64_t at = counting->begin_ns + b * counting->width_ns;
        put_value(counting, WAITING, at, 100 * bin->wait_ns / width);
        put_value(counting, BANDWIDTH, at, bin->bus_bytes / width);
        if (bin->timed)
            put_value(counting, TIMED, at,
                      100 * (double)bin->timed / (double)(bin->timed + bin->untimed));
    }
    put_value(counting, WAITING, counting->end_ns, 0);
    put_value(counting, BANDWIDTH, counting->end_ns, 0);
}

void muster_perfetto_put_counters(const struct muster_timeline *timeline,
                                  const struct muster_perfetto_free *first,
                                  struct muster_perfetto_out *to)
{
    const struct muster_view *view = timeline->view;
    struct counting counting = {.timeline = timeline, .first = first, .to = to};
    find_width(&counting);
    counting.bin = muster_arena_array(&to->memory, counting.bins, sizeof(*counting.bin));
    if (!counting.bins || !counting.bin)
        return;
    for (; counting.gpu < view->gpus; counting.gpu++) {
        if (!view->gpu[counting.gpu].ordered)
            continue;
        memset(counting.bin, 0, counting.bins * sizeof(*counting.bin));
        for (uint32_t m = 0; m < view->members; m++)
            if (view->member[m].gpu == counting.gpu)
                add_member(&counting, &view->member[m]);
        put_gpu(&counting);
    }
}
