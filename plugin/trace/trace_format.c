#include "trace/trace_format.h"

/* clang-format off */
#define ALWAYS 1, MUSTER_TRACE_API_MAX
#define OP(name, member, type, ...) {name, offsetof(struct muster_event, op.member), type, __VA_ARGS__}
#define IN(name, member, type, ...) {name, offsetof(struct muster_event, member), type, __VA_ARGS__}
#define END {NULL, 0, MUSTER_TRACE_I32, 0, 0}

static const struct muster_trace_field none[] = {END};

static const struct muster_trace_field coll[] = {
    IN("rank", rank, MUSTER_TRACE_I32, ALWAYS),
    OP("comm", comm_hash, MUSTER_TRACE_HASH, 1, 3),
    OP("name", comm_name, MUSTER_TRACE_TEXT, 1, 3),
    OP("seq", seq, MUSTER_TRACE_U64, ALWAYS),
    OP("func", func_text, MUSTER_TRACE_TEXT, ALWAYS),
    OP("count", count, MUSTER_TRACE_U64, ALWAYS),
    OP("dt", dtype_text, MUSTER_TRACE_TEXT, ALWAYS),
    OP("root", root_or_peer, MUSTER_TRACE_I32, ALWAYS),
    OP("traffic", traffic_bytes, MUSTER_TRACE_U64, 1, 2),
    OP("nch", channels, MUSTER_TRACE_U8, ALWAYS),
    OP("nwarps", warps, MUSTER_TRACE_U8, ALWAYS),
    OP("algo", algo_text, MUSTER_TRACE_TEXT, ALWAYS),
    OP("proto", proto_text, MUSTER_TRACE_TEXT, ALWAYS),
    OP("tag", user_tag, MUSTER_TRACE_TAG, 7, MUSTER_TRACE_API_MAX),
    END};

static const struct muster_trace_field p2p[] = {
    IN("rank", rank, MUSTER_TRACE_I32, ALWAYS),
    OP("comm", comm_hash, MUSTER_TRACE_HASH, 1, 3),
    OP("name", comm_name, MUSTER_TRACE_TEXT, 1, 3),
    OP("func", func_text, MUSTER_TRACE_TEXT, ALWAYS),
    OP("count", count, MUSTER_TRACE_U64, ALWAYS),
    OP("dt", dtype_text, MUSTER_TRACE_TEXT, ALWAYS),
    OP("peer", root_or_peer, MUSTER_TRACE_I32, ALWAYS),
    OP("nch", channels, MUSTER_TRACE_U8, 4, MUSTER_TRACE_API_MAX),
    OP("tag", user_tag, MUSTER_TRACE_TAG, 7, MUSTER_TRACE_API_MAX),
    END};

static const struct muster_trace_field proxy_op[] = {
    IN("rank", rank, MUSTER_TRACE_I32, ALWAYS),
    IN("pid", proxy_op.pid, MUSTER_TRACE_I32, ALWAYS),
    IN("ch", proxy_op.channel, MUSTER_TRACE_U8, ALWAYS),
    IN("peer", proxy_op.peer, MUSTER_TRACE_I32, ALWAYS),
    IN("nsteps", proxy_op.steps, MUSTER_TRACE_I32, ALWAYS),
    IN("chunk", proxy_op.chunk, MUSTER_TRACE_I32, ALWAYS),
    IN("send", proxy_op.send, MUSTER_TRACE_I32, ALWAYS),
    END};

static const struct muster_trace_field proxy_step[] = {
    IN("rank", rank, MUSTER_TRACE_I32, ALWAYS),
    IN("step", proxy_step.step, MUSTER_TRACE_I32, ALWAYS),
    END};

static const struct muster_trace_field kernel_ch[] = {
    IN("ch", kernel_ch.channel, MUSTER_TRACE_U8, ALWAYS),
    IN("ptimer", kernel_ch.ptimer, MUSTER_TRACE_U64, 4, MUSTER_TRACE_API_MAX),
    END};

static const struct muster_trace_field kernel_phase[] = {
    IN("ch", kernel_ch.channel, MUSTER_TRACE_U8, ALWAYS),
    IN("phase", kernel_ch.phase, MUSTER_TRACE_U8, ALWAYS),
    IN("ptimer", kernel_ch.ptimer, MUSTER_TRACE_U64, ALWAYS),
    END};

static const struct muster_trace_field net_plugin[] = {
    IN("rank", rank, MUSTER_TRACE_I32, ALWAYS),
    IN("id", net_plugin.id, MUSTER_TRACE_U64, ALWAYS),
    END};

static const struct muster_trace_field group_api[] = {
    IN("graph", group_api.graph, MUSTER_TRACE_BOOL, ALWAYS),
    IN("depth", group_api.depth, MUSTER_TRACE_I32, ALWAYS),
    END};

static const struct muster_trace_field coll_api[] = {
    OP("func", func_text, MUSTER_TRACE_TEXT, ALWAYS),
    OP("count", count, MUSTER_TRACE_U64, ALWAYS),
    OP("dt", dtype_text, MUSTER_TRACE_TEXT, ALWAYS),
    OP("root", root_or_peer, MUSTER_TRACE_I32, ALWAYS),
    OP("stream", stream, MUSTER_TRACE_POINTER, ALWAYS),
    OP("graph", graph, MUSTER_TRACE_BOOL, ALWAYS),
    OP("tag", user_tag, MUSTER_TRACE_TAG, 7, MUSTER_TRACE_API_MAX),
    END};

static const struct muster_trace_field p2p_api[] = {
    OP("func", func_text, MUSTER_TRACE_TEXT, ALWAYS),
    OP("count", count, MUSTER_TRACE_U64, ALWAYS),
    OP("dt", dtype_text, MUSTER_TRACE_TEXT, ALWAYS),
    OP("stream", stream, MUSTER_TRACE_POINTER, ALWAYS),
    OP("graph", graph, MUSTER_TRACE_BOOL, ALWAYS),
    OP("tag", user_tag, MUSTER_TRACE_TAG, 7, MUSTER_TRACE_API_MAX),
    END};

static const struct muster_trace_field kernel_launch[] = {
    IN("stream", kernel_launch.stream, MUSTER_TRACE_POINTER, ALWAYS),
    END};

static const struct muster_trace_field ce_coll[] = {
    IN("rank", rank, MUSTER_TRACE_I32, ALWAYS),
    OP("seq", seq, MUSTER_TRACE_U64, ALWAYS),
    OP("func", func_text, MUSTER_TRACE_TEXT, ALWAYS),
    OP("count", count, MUSTER_TRACE_U64, ALWAYS),
    OP("dt", dtype_text, MUSTER_TRACE_TEXT, ALWAYS),
    OP("root", root_or_peer, MUSTER_TRACE_I32, ALWAYS),
    OP("stream", stream, MUSTER_TRACE_POINTER, ALWAYS),
    OP("tag", user_tag, MUSTER_TRACE_TAG, 7, MUSTER_TRACE_API_MAX),
    END};

static const struct muster_trace_field ce[] = {
    IN("rank", rank, MUSTER_TRACE_I32, ALWAYS),
    IN("n", ce.n, MUSTER_TRACE_I32, ALWAYS),
    IN("bytes", ce.bytes, MUSTER_TRACE_U64, ALWAYS),
    END};

static const struct muster_trace_field *const fields[MUSTER_EVENT_KINDS] = {
    [MUSTER_EVENT_GROUP] = none,
    [MUSTER_EVENT_COLL] = coll,
    [MUSTER_EVENT_P2P] = p2p,
    [MUSTER_EVENT_PROXY_OP] = proxy_op,
    [MUSTER_EVENT_PROXY_STEP] = proxy_step,
    [MUSTER_EVENT_PROXY_CTRL] = none,
    [MUSTER_EVENT_KERNEL_CH] = kernel_ch,
    [MUSTER_EVENT_NET_PLUGIN] = net_plugin,
    [MUSTER_EVENT_GROUP_API] = group_api,
    [MUSTER_EVENT_COLL_API] = coll_api,
    [MUSTER_EVENT_P2P_API] = p2p_api,
    [MUSTER_EVENT_KERNEL_LAUNCH] = kernel_launch,
    [MUSTER_EVENT_CE_COLL] = ce_coll,
    [MUSTER_EVENT_CE_SYNC] = ce,
    [MUSTER_EVENT_CE_BATCH] = ce,
    [MUSTER_EVENT_KERNEL_PHASE] = kernel_phase,
};
/* clang-format on */

const struct muster_trace_field *muster_trace_fields(unsigned kind)
{
    return kind < MUSTER_EVENT_KINDS ? fields[kind] : none;
}

unsigned muster_trace_kinds(unsigned api)
{
    return api > 0 && api <= MUSTER_TRACE_API_MAX ? (1u << muster_event_kinds(api)) - 1 : 0;
}
