#include "export/columns.h"

#include <math.h>
#include <string.h>

#include "export/report.h"

#define COLUMN(row, field, kind)                                                                   \
    .type = MUSTER_CELL_##kind, .offset = offsetof(struct muster_report_##row, field)

enum {
    OP = 1 << MUSTER_BY_OP,
    COMM = 1 << MUSTER_BY_COMM,
    SIZE = 1 << MUSTER_BY_SIZE,
    MERGE = MUSTER_COLUMN_MERGE,
    QUIET = MUSTER_COLUMN_QUIET,
    SUMS = MUSTER_COLUMN_SUMS,
    TWINS = MUSTER_COLUMN_TWINS,
};

static const struct muster_column rank_columns[] = {
    {"rank", COLUMN(rank, rank, I64), .head = "rank"},
    {"rank_source", COLUMN(rank, rank_source, STR)},
    {"host", COLUMN(rank, host, STR)},
    {NULL, COLUMN(rank, host_text, STR), .head = "host", .flags = MERGE},
    {"pid", COLUMN(rank, pid, U64), .head = "pid", .flags = TWINS},
    {"local_rank", COLUMN(rank, local_rank, I64)},
    {"gpu.index", COLUMN(rank, gpu_index, I64), .head = "gpu"},
    {"gpu.pci", COLUMN(rank, gpu_pci, STR)},
    {"gpu.uuid", COLUMN(rank, gpu_uuid, STR)},
    {"nccl", COLUMN(rank, nccl, STR), .head = "nccl", .flags = MERGE},
    {"ops", COLUMN(rank, ops, U64), .head = "ops"},
    {"graph_ops", COLUMN(rank, graph_ops, U64), .head = "graph ops", .flags = QUIET},
    {"captured", COLUMN(rank, captured, U64)},
    {"api_only", COLUMN(rank, api_only, U64)},
    {"bytes", COLUMN(rank, bytes, BYTES), .head = "bytes"},
    {"busy_us", COLUMN(rank, busy_us, REAL), 0, "busy", "ms", 1e-3, 1},
    {"wait_us", COLUMN(rank, wait_us, REAL), 0, "wait", "ms", 1e-3, 1},
    {"late_us", COLUMN(rank, late_us, REAL), 0, "late", "ms", 1e-3, 1},
    {"p50_us", COLUMN(rank, p50_us, REAL), 0, "p50", "us", 1, 1},
    {"p99_us", COLUMN(rank, p99_us, REAL), 0, "p99", "us", 1, 1},
    {"timing.source", COLUMN(rank, source, STR), .head = "times", .flags = MERGE},
    {"timing.timed_ops", COLUMN(rank, timed_ops, U64)},
    {"timing.share", COLUMN(rank, share, REAL), 0, "timed", "%", 100, 1, MERGE},
    {"timing.joint_ops", COLUMN(rank, joint_ops, U64), .head = "compared", .flags = QUIET | MERGE},
    {"drops.total", COLUMN(rank, drops_total, U64), .head = "drops", .flags = QUIET},
    {"drops.no_slot", COLUMN(rank, drops[MUSTER_DROP_NO_SLOT], U64)},
    {"drops.no_comm", COLUMN(rank, drops[MUSTER_DROP_NO_COMM], U64)},
    {"drops.stale_handle", COLUMN(rank, drops[MUSTER_DROP_STALE], U64)},
    {"drops.foreign_handle", COLUMN(rank, drops[MUSTER_DROP_FOREIGN], U64)},
    {"drops.time_order", COLUMN(rank, drops[MUSTER_DROP_TIME_ORDER], U64)},
    {"drops.time_too_long", COLUMN(rank, drops[MUSTER_DROP_TIME_LONG], U64)},
    {"drops.time_backwards", COLUMN(rank, drops[MUSTER_DROP_TIME_BACK], U64)},
    {"drops.channel", COLUMN(rank, drops[MUSTER_DROP_CHANNEL], U64)},
    {"drops.no_proxy_slot", COLUMN(rank, drops[MUSTER_DROP_NO_PROXY_SLOT], U64)},
    {"drops.incomplete", COLUMN(rank, drops[MUSTER_DROP_INCOMPLETE], U64)},
    {"lost_log", COLUMN(rank, lost_log, U64), .head = "lost log", .flags = QUIET},
    {"replay", COLUMN(rank, replay, STR)},
    {"exit", COLUMN(rank, exit, STR), .head = "exit"},
};
_Static_assert(MUSTER_DROPS == 10, "every reason has its column");

static const struct muster_column op_columns[] = {
    {"comm", COLUMN(op, comm, ID), .by = OP | COMM, .head = "comm"},
    {"comm_name", COLUMN(op, comm_name, STR), .by = OP | COMM, .head = "name"},
    {"nranks", COLUMN(op, nranks, KNOWN), .head = "ranks"},
    {"nnodes", COLUMN(op, nnodes, KNOWN), .by = OP | COMM},
    {"ranks_seen", COLUMN(op, ranks_seen, KNOWN), .by = OP | COMM},
    {"func", COLUMN(op, func, STR), .by = OP | SIZE, .head = "function"},
    {"rank", COLUMN(op, rank, I64), .by = OP, .head = "rank"},
    {"peer", COLUMN(op, peer, I64), .by = OP, .head = "peer"},
    {"size", COLUMN(op, size, BYTES), .by = OP | SIZE, .head = "size >="},
    {"algo", COLUMN(op, algo, STR), .by = OP, .head = "algo"},
    {"proto", COLUMN(op, proto, STR), .by = OP, .head = "proto"},
    {"channels", COLUMN(op, channels, U64), .by = OP, .head = "ch", .flags = QUIET},
    {"count", COLUMN(op, count, U64), .head = "count"},
    {"graph_ops", COLUMN(op, graph_ops, U64), .head = "graph", .unit = "ops", .flags = QUIET},
    {"api_only", COLUMN(op, api_only, U64)},
    {"bytes", COLUMN(op, bytes, BYTES), .head = "bytes", .flags = SUMS},
    {"source", COLUMN(op, source, STR)},
    {"timed_ops", COLUMN(op, timed_ops, U64)},
    {"total_us", COLUMN(op, total_us, REAL), 0, "total", "ms", 1e-3, 1},
    {"p50_us", COLUMN(op, p50_us, REAL), 0, "p50", "us", 1, 1},
    {"p99_us", COLUMN(op, p99_us, REAL), 0, "p99", "us", 1, 1},
    {"algbw_gbs", COLUMN(op, algbw_gbs, REAL), OP | SIZE, "algbw", "GB/s", 1, 2},
    {"busbw_gbs", COLUMN(op, busbw_gbs, REAL), OP | SIZE, "busbw", "GB/s", 1, 2},
    {"transfer_p50_us", COLUMN(op, transfer_p50_us, REAL), 0, "transfer", "p50 us", 1, 1},
};

static const struct muster_column net_columns[] = {
    {"comm", COLUMN(net, comm, ID), .head = "comm"},
    {"comm_name", COLUMN(net, comm_name, STR), .head = "name"},
    {"rank", COLUMN(net, rank, I64), .head = "rank"},
    {"peer", COLUMN(net, peer, I64), .head = "peer"},
    {"send", COLUMN(net, send, BOOL), .head = "send"},
    {"count", COLUMN(net, count, U64), .head = "count"},
    {"bytes", COLUMN(net, bytes, BYTES), .head = "bytes"},
    {"gpu_wait_us", COLUMN(net, gpu_wait_us, REAL), 0, "gpu wait", "ms", 1e-3, 1},
    {"credit_wait_us", COLUMN(net, credit_wait_us, REAL), 0, "credit wait", "ms", 1e-3, 1},
    {"net_wait_us", COLUMN(net, net_wait_us, REAL), 0, "net wait", "ms", 1e-3, 1},
    {"flush_us", COLUMN(net, flush_us, REAL), 0, "flush", "ms", 1e-3, 1},
};

static const struct muster_column rule_columns[] = {
    {"sha256", COLUMN(rule, sha256, STR)},
    {"state", COLUMN(rule, state, STR), .head = "policy", .flags = MERGE},
    {"processes", COLUMN(rule, processes, U64), .head = "processes", .flags = MERGE},
    {"rule", COLUMN(rule, rule, STR), .head = "rule"},
    {"line", COLUMN(rule, line, I64), .head = "line"},
    {"hits", COLUMN(rule, hits, I64), .head = "hits"},
    {"not_offered", COLUMN(rule, not_offered, I64), .head = "not offered", .flags = QUIET},
    {"algo", COLUMN(rule, algo, STR), .head = "ran: algo"},
    {"proto", COLUMN(rule, proto, STR), .head = "proto"},
    {"channels", COLUMN(rule, channels, KNOWN), .head = "ch"},
    {"count", COLUMN(rule, count, I64), .head = "count"},
};

#define TABLE(row, columns_)                                                                       \
    {                                                                                              \
        .column = columns_, .columns = sizeof columns_ / sizeof *columns_,                         \
        .row_bytes = sizeof(struct muster_report_##row)                                            \
    }

const struct muster_table muster_rank_table = TABLE(rank, rank_columns);
const struct muster_table muster_op_table = TABLE(op, op_columns);
const struct muster_table muster_net_table = TABLE(net, net_columns);
const struct muster_table muster_rule_table = TABLE(rule, rule_columns);

struct muster_cell muster_cell(const struct muster_column *column, const void *row)
{
    const char *at = (const char *)row + column->offset;
    struct muster_cell cell = {.type = column->type};
    switch (column->type) {
    case MUSTER_CELL_STR:
        memcpy(&cell.str, at, sizeof cell.str);
        cell.absent = !cell.str;
        break;
    case MUSTER_CELL_ID:
    case MUSTER_CELL_KNOWN:
        memcpy(&cell.u64, at, sizeof cell.u64);
        cell.absent = !cell.u64;
        break;
    case MUSTER_CELL_U64:
    case MUSTER_CELL_BYTES:
        memcpy(&cell.u64, at, sizeof cell.u64);
        break;
    case MUSTER_CELL_I64:
        memcpy(&cell.i64, at, sizeof cell.i64);
        cell.absent = cell.i64 < 0;
        break;
    case MUSTER_CELL_REAL:
        memcpy(&cell.real, at, sizeof cell.real);
        cell.absent = !isfinite(cell.real);
        break;
    case MUSTER_CELL_BOOL:
        memcpy(&cell.flag, at, sizeof cell.flag);
        break;
    }
    return cell;
}
