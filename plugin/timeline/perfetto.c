#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/nccl_types.h"
#include "timeline/perfetto_counters.h"
#include "timeline/perfetto_fields.h"
#include "timeline/perfetto_packet.h"
#include "timeline/timeline_internal.h"

enum {
    NAME_TEXT_MAX = 64,
    /* Interned in each sequence, behind the classes' names. */
    NAME_WAITING = 1,
    NAME_TRANSFER = 2,
    NAME_CLASS = 3,
    ANNOTATION_FOR_RANK = 1,
    ANNOTATION_NUMBER = 2,
    ANNOTATION_BYTES = 3,
};
/* Less is not drawn as waiting: the clocks of GPUs do not show it. */
enum { WAIT_LEAST_NS = 5000 };
/* A clock's offset is written anew when it has moved this far. */
enum { OFFSET_STEP_NS = 2000 };

struct writing {
    const struct muster_timeline *timeline;
    struct muster_perfetto_out to;
    bool *named; /* classes whose names the sequence has had */
    /* Of the sequence. */
    uint32_t member;
    uint64_t clock_ns;  /* its GPU's, of the packet before */
    int64_t offset_ns;  /* as last written */
    uint64_t before_ns; /* end of the operation before, by the GPU's clock */
};

static void end_packet(struct writing *writing, size_t place)
{
    muster_perfetto_end(&writing->to, place);
}

static size_t begin_packet(struct writing *writing)
{
    return muster_perfetto_begin(&writing->to, writing->member + 1);
}

static uint64_t member_track(const struct writing *writing, uint32_t member)
{
    return 1 + writing->timeline->view->gpus + member;
}

static uint64_t gpu_track(uint32_t gpu)
{
    return 1 + gpu;
}

/* The clocks of the trace: of the leader's host, and the time of day. */
static void write_wall_clock(struct writing *writing)
{
    uint64_t at = writing->timeline->last_ns;
    uint32_t leader = writing->timeline->clocks.leader;
    uint64_t ahead = (uint64_t)writing->timeline->view->gpu[leader].unix_ns;
    const uint64_t clock[][2] = {{CLOCK_BOOTTIME_ID, at}, {CLOCK_REALTIME_ID, at + ahead}};
    size_t place = begin_packet(writing);
    size_t snapshot = muster_protobuf_open(&writing->to.packet, PACKET_CLOCK_SNAPSHOT);
    for (unsigned i = 0; i < 2; i++) {
        size_t one = muster_protobuf_open(&writing->to.packet, SNAPSHOT_CLOCK);
        muster_protobuf_uint(&writing->to.packet, CLOCK_ID, clock[i][0]);
        muster_protobuf_uint(&writing->to.packet, CLOCK_TIMESTAMP, clock[i][1]);
        muster_protobuf_close(&writing->to.packet, one);
    }
    muster_protobuf_uint(&writing->to.packet, SNAPSHOT_PRIMARY, CLOCK_BOOTTIME_ID);
    muster_protobuf_close(&writing->to.packet, snapshot);
    end_packet(writing, place);
}

/* From here on the sequence's clock is the GPU's, laid on the axis by its present offset. */
static void write_gpu_clock(struct writing *writing, uint64_t gpu_ns, int64_t offset_ns)
{
    muster_perfetto_put_clock(&writing->to, writing->member + 1, gpu_ns,
                              gpu_ns + (uint64_t)offset_ns);
    writing->clock_ns = gpu_ns;
    writing->offset_ns = offset_ns;
}

static void write_track(struct writing *writing, uint64_t uuid, uint64_t parent, const char *name)
{
    size_t place = begin_packet(writing);
    size_t track = muster_protobuf_open(&writing->to.packet, PACKET_TRACK);
    muster_protobuf_uint(&writing->to.packet, TRACK_UUID, uuid);
    muster_protobuf_uint(&writing->to.packet, TRACK_PARENT, parent);
    muster_protobuf_text(&writing->to.packet, TRACK_NAME, name);
    muster_protobuf_close(&writing->to.packet, track);
    end_packet(writing, place);
}

/* A rank is a thread of its host, so that ranks stand in order. */
static void write_gpu_track(struct writing *writing, uint32_t gpu)
{
    const struct muster_view_gpu *of = &writing->timeline->view->gpu[gpu];
    uint64_t host = writing->timeline->host[gpu];
    struct muster_protobuf *packet = &writing->to.packet;
    char name[NAME_TEXT_MAX], device[24] = "";
    if (of->gpu_index >= 0)
        snprintf(device, sizeof(device), " (GPU %" PRId32 ")", of->gpu_index);
    if (of->rank >= 0)
        snprintf(name, sizeof(name), "rank %" PRId32 "%s", of->rank, device);
    else
        snprintf(name, sizeof(name), "a rank not known%s", device);
    size_t place = begin_packet(writing);
    size_t track = muster_protobuf_open(packet, PACKET_TRACK);
    muster_protobuf_uint(packet, TRACK_UUID, gpu_track(gpu));
    size_t process = muster_protobuf_open(packet, TRACK_PROCESS);
    muster_protobuf_uint(packet, PROCESS_PID, host);
    muster_protobuf_text(packet, PROCESS_NAME, of->host);
    muster_protobuf_close(packet, process);
    size_t thread = muster_protobuf_open(packet, TRACK_THREAD);
    muster_protobuf_uint(packet, THREAD_PID, host);
    muster_protobuf_uint(packet, THREAD_TID, 1 + (of->rank >= 0 ? (uint64_t)of->rank : gpu));
    muster_protobuf_text(packet, THREAD_NAME, name);
    muster_protobuf_close(packet, thread);
    muster_protobuf_close(packet, track);
    end_packet(writing, place);
}

static void annotate_uint(struct muster_protobuf *packet, unsigned name, uint64_t value)
{
    size_t place = muster_protobuf_open(packet, EVENT_ANNOTATION);
    muster_protobuf_uint(packet, ANNOTATION_NAME_IID, name);
    muster_protobuf_uint(packet, ANNOTATION_UINT, value);
    muster_protobuf_close(packet, place);
}

static void annotate_text(struct muster_protobuf *packet, const char *name, const char *value)
{
    size_t place = muster_protobuf_open(packet, EVENT_ANNOTATION);
    muster_protobuf_text(packet, ANNOTATION_NAME, name);
    muster_protobuf_text(packet, ANNOTATION_TEXT, value);
    muster_protobuf_close(packet, place);
}

static void intern(struct muster_protobuf *packet, unsigned list, unsigned iid, const char *text)
{
    size_t place = muster_protobuf_open(packet, list);
    muster_protobuf_uint(packet, NAME_IID, iid);
    muster_protobuf_text(packet, NAME_TEXT, text);
    muster_protobuf_close(packet, place);
}

/* "AllReduce ring ll128": what the operations of a class have in common. */
static void name_class(const struct muster_view_class *class, char *to, size_t size)
{
    bool chosen = class->algo || class->proto;
    snprintf(to, size, "%s%s%s%s%s", muster_func_name(class->func), chosen ? " " : "",
             chosen ? muster_algo_name(class->algo) : "", chosen ? " " : "",
             chosen ? muster_proto_name(class->proto) : "");
}

static uint64_t bytes_of(const struct muster_view *view, const struct muster_view_op *op)
{
    const struct muster_view_class *class = &view->class[op->class];
    return muster_op_size_bytes(class->func, class->dtype, op->count,
                                view->member[op->member].nranks);
}

/* What every sequence begins with: its clock, its track, the names that it always needs. */
static void begin_sequence(struct writing *writing)
{
    struct muster_protobuf *packet = &writing->to.packet;
    size_t place = begin_packet(writing);
    muster_protobuf_uint(packet, PACKET_SEQUENCE_FLAGS, SEQUENCE_CLEARED);
    size_t defaults = muster_protobuf_open(packet, PACKET_DEFAULTS);
    size_t event = muster_protobuf_open(packet, DEFAULTS_EVENT);
    muster_protobuf_uint(packet, EVENT_TRACK, member_track(writing, writing->member));
    muster_protobuf_close(packet, event);
    muster_protobuf_uint(packet, DEFAULTS_CLOCK, CLOCK_SEQUENCE_ID);
    muster_protobuf_close(packet, defaults);
    size_t interned = muster_protobuf_open(packet, PACKET_INTERNED);
    intern(packet, INTERNED_EVENT_NAME, NAME_WAITING, "waiting");
    intern(packet, INTERNED_EVENT_NAME, NAME_TRANSFER, "transfer");
    intern(packet, INTERNED_ANNOTATION_NAME, ANNOTATION_FOR_RANK, "for rank");
    intern(packet, INTERNED_ANNOTATION_NAME, ANNOTATION_NUMBER, "operation");
    intern(packet, INTERNED_ANNOTATION_NAME, ANNOTATION_BYTES, "bytes");
    muster_protobuf_close(packet, interned);
    end_packet(writing, place);
    memset(writing->named, 0, writing->timeline->view->classes * sizeof(*writing->named));
    writing->before_ns = 0;
}

/* Opens a packet with an event at this reading of the GPU's clock; *event is its place. An end
 * names nothing that was interned: it goes without the flag, which every operation would pay two
 * bytes for up to three times. */
static size_t begin_event(struct writing *writing, uint64_t gpu_ns, unsigned type, size_t *event)
{
    struct muster_protobuf *packet = &writing->to.packet;
    size_t place = begin_packet(writing);
    muster_protobuf_uint(packet, PACKET_TIMESTAMP, gpu_ns - writing->clock_ns);
    if (type != EVENT_SLICE_END)
        muster_protobuf_uint(packet, PACKET_SEQUENCE_FLAGS, SEQUENCE_NEEDED);
    *event = muster_protobuf_open(packet, PACKET_EVENT);
    muster_protobuf_uint(packet, EVENT_TYPE, type);
    writing->clock_ns = gpu_ns;
    return place;
}

static void end_event(struct writing *writing, size_t place, size_t event)
{
    muster_protobuf_close(&writing->to.packet, event);
    end_packet(writing, place);
}

static void write_end(struct writing *writing, uint64_t gpu_ns)
{
    size_t event, place = begin_event(writing, gpu_ns, EVENT_SLICE_END, &event);
    end_event(writing, place, event);
}

static void write_begin(struct writing *writing, uint64_t gpu_ns, const struct muster_view_op *op,
                        bool arrow)
{
    struct muster_protobuf *packet = &writing->to.packet;
    const struct muster_timeline *timeline = writing->timeline;
    uint32_t flow = timeline->wait[op - timeline->view->op].flow;
    size_t event, place = begin_event(writing, gpu_ns, EVENT_SLICE_BEGIN, &event);
    muster_protobuf_uint(packet, EVENT_NAME_IID, NAME_CLASS + op->class);
    annotate_uint(packet, ANNOTATION_NUMBER, op->number);
    annotate_uint(packet, ANNOTATION_BYTES, bytes_of(timeline->view, op));
    if (flow && arrow)
        muster_protobuf_fixed64(packet, EVENT_FLOW, flow);
    muster_protobuf_close(packet, event);
    if (!writing->named[op->class]) {
        char name[NAME_TEXT_MAX];
        name_class(&timeline->view->class[op->class], name, sizeof(name));
        size_t interned = muster_protobuf_open(packet, PACKET_INTERNED);
        intern(packet, INTERNED_EVENT_NAME, NAME_CLASS + op->class, name);
        muster_protobuf_close(packet, interned);
        writing->named[op->class] = true;
    }
    end_packet(writing, place);
}

/* Inside the operation: waiting for a rank, then the transfer that all have alike. */
static void write_wait(struct writing *writing, uint64_t begin_ns, uint64_t end_ns,
                       const struct muster_timeline_wait *wait)
{
    struct muster_protobuf *packet = &writing->to.packet;
    int32_t rank = writing->timeline->view->gpu[wait->late].rank;
    size_t event, place = begin_event(writing, begin_ns, EVENT_SLICE_BEGIN, &event);
    muster_protobuf_uint(packet, EVENT_NAME_IID, NAME_WAITING);
    if (rank >= 0)
        annotate_uint(packet, ANNOTATION_FOR_RANK, (uint64_t)rank);
    end_event(writing, place, event);
    write_end(writing, begin_ns + wait->wait_ns);
    place = begin_event(writing, begin_ns + wait->wait_ns, EVENT_SLICE_BEGIN, &event);
    muster_protobuf_uint(packet, EVENT_NAME_IID, NAME_TRANSFER);
    if (wait->flow)
        muster_protobuf_fixed64(packet, EVENT_FLOW, wait->flow);
    end_event(writing, place, event);
    write_end(writing, end_ns);
}

/* Writes the clock's offset where it moved, in a pause that is long enough for the step. */
static void follow_clock(struct writing *writing, const struct muster_gpu_clock *clock,
                         uint64_t begin_ns)
{
    int64_t offset = muster_gpu_clock_offset(clock, begin_ns);
    int64_t step = offset - writing->offset_ns;
    if (llabs(step) < OFFSET_STEP_NS)
        return;
    if (step < 0 && begin_ns - writing->before_ns <= (uint64_t)-step)
        return;
    write_gpu_clock(writing, begin_ns, offset);
}

static void write_op(struct writing *writing, const struct muster_gpu_clock *clock, uint32_t at)
{
    const struct muster_timeline *timeline = writing->timeline;
    const struct muster_view_op *op = &timeline->view->op[at];
    const struct muster_timeline_wait *wait = &timeline->wait[at];
    /* Operations of one communicator follow each other; where they overlap, as those of one group
     * do, the later one is drawn from the end of the earlier one on. */
    uint64_t begin = op->begin_ns > writing->before_ns ? op->begin_ns : writing->before_ns;
    bool waited = wait->wait_ns >= WAIT_LEAST_NS && begin + wait->wait_ns < op->end_ns;
    if (begin >= op->end_ns)
        return;
    follow_clock(writing, clock, begin);
    write_begin(writing, begin, op, !waited);
    if (waited)
        write_wait(writing, begin, op->end_ns, wait);
    write_end(writing, op->end_ns);
    writing->before_ns = op->end_ns;
}

static void name_member(const struct muster_view *view, const struct muster_view_member *member,
                        char *to, size_t size)
{
    const struct muster_view_comm *comm = &view->comm[member->comm];
    snprintf(to, size, "%s%s%016" PRIx64 ", %" PRIu32 " ranks", comm->name,
             comm->name[0] ? " " : "", comm->id, comm->nranks);
}

/* How the GPU's clock was laid, where the rank begins. */
static void write_method(struct writing *writing, const struct muster_gpu_clock *clock,
                         uint64_t gpu_ns)
{
    char text[NAME_TEXT_MAX];
    if (clock->method == MUSTER_CLOCK_ENDS)
        snprintf(text, sizeof(text), "by common ends, within %.1f us",
                 (double)clock->residual_ns / (double)MUSTER_NS_PER_US);
    else
        snprintf(text, sizeof(text), "by its own calls");
    size_t event, place = begin_event(writing, gpu_ns, EVENT_INSTANT, &event);
    muster_protobuf_text(&writing->to.packet, EVENT_NAME, "clock");
    annotate_text(&writing->to.packet, "laid on the axis", text);
    end_event(writing, place, event);
}

static void write_member(struct writing *writing, uint32_t m)
{
    const struct muster_timeline *timeline = writing->timeline;
    const struct muster_view *view = timeline->view;
    const struct muster_view_member *member = &view->member[m];
    const struct muster_gpu_clock *clock = &timeline->clocks.gpu[member->gpu];
    uint32_t begin = m ? timeline->member_end[m - 1] : 0, end = timeline->member_end[m];
    bool begun = false;
    char name[MUSTER_SEG_NAME + NAME_TEXT_MAX];
    writing->member = m;
    for (uint32_t i = begin; i < end; i++) {
        const struct muster_view_op *op = &view->op[timeline->of_member[i]];
        if (!muster_timeline_shows(timeline,
                                   muster_timeline_at(timeline, member->gpu, op->begin_ns))) {
            timeline->count->outside++;
            continue;
        }
        if (!begun) {
            name_member(view, member, name, sizeof(name));
            write_track(writing, member_track(writing, m), gpu_track(member->gpu), name);
            begin_sequence(writing);
            write_gpu_clock(writing, op->begin_ns, muster_gpu_clock_offset(clock, op->begin_ns));
            write_method(writing, clock, op->begin_ns);
            begun = true;
        }
        write_op(writing, clock, timeline->of_member[i]);
        timeline->count->drawn++;
    }
}

static uint32_t gpu_of_rank(const struct muster_view *view, int32_t rank)
{
    for (uint32_t i = 0; i < view->gpus; i++)
        if (view->gpu[i].rank == rank)
            return i;
    return MUSTER_VIEW_NONE;
}

/* On the track of the rank that the finding names first. */
static void write_finding(struct writing *writing, const struct muster_finding *finding)
{
    const struct muster_timeline *timeline = writing->timeline;
    struct muster_protobuf *packet = &writing->to.packet;
    uint32_t gpu =
        finding->ranks ? gpu_of_rank(timeline->view, finding->rank[0]) : MUSTER_VIEW_NONE;
    char sentence[1024];
    if (gpu == MUSTER_VIEW_NONE || !finding->since_unix_ns)
        return;
    muster_finding_sentence(finding, sentence, sizeof(sentence));
    size_t place = begin_packet(writing);
    muster_protobuf_uint(packet, PACKET_TIMESTAMP,
                         muster_timeline_of_unix(timeline, finding->since_unix_ns));
    muster_protobuf_uint(packet, PACKET_CLOCK, CLOCK_BOOTTIME_ID);
    size_t event = muster_protobuf_open(packet, PACKET_EVENT);
    muster_protobuf_uint(packet, EVENT_TYPE, EVENT_INSTANT);
    muster_protobuf_uint(packet, EVENT_TRACK, gpu_track(gpu));
    muster_protobuf_text(packet, EVENT_NAME, muster_finding_name(finding->kind));
    annotate_text(packet, "finding", sentence);
    annotate_text(packet, "next", finding->advice);
    end_event(writing, place, event);
}

bool muster_perfetto_write(const struct muster_timeline *timeline, FILE *out)
{
    const struct muster_view *view = timeline->view;
    struct writing writing = {
        .timeline = timeline, .to = {.out = out}, .member = (uint32_t)view->members};
    struct muster_perfetto_out *to = &writing.to;
    writing.named = muster_arena_array(&to->memory, view->classes + 1, sizeof(*writing.named));
    if (!writing.named)
        return false;
    if (timeline->clocks.leader != MUSTER_VIEW_NONE)
        write_wall_clock(&writing);
    for (uint32_t i = 0; i < view->gpus; i++)
        write_gpu_track(&writing, i);
    for (size_t i = 0; i < timeline->findings->n; i++)
        write_finding(&writing, &timeline->findings->finding[i]);
    for (uint32_t m = 0; m < view->members; m++)
        write_member(&writing, m);
    const struct muster_perfetto_free first = {
        .sequence = (uint32_t)view->members + 2,
        .track = member_track(&writing, (uint32_t)view->members),
        .gpu_track = gpu_track(0),
    };
    muster_perfetto_put_counters(timeline, &first, to);
    bool good = muster_perfetto_finish(to) && !to->memory.failed;
    muster_arena_free(&to->memory);
    return good;
}
