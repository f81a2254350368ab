#include "report/columns.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "report/report.h"

#define COLUMN(row, field, kind)                                                                   \
    .type = MUSTER_CELL_##kind, .offset = offsetof(struct muster_report_##row, field)

enum {
    OP = 1 << MUSTER_BY_OP,
    COMM = 1 << MUSTER_BY_COMM,
    SIZE = 1 << MUSTER_BY_SIZE,
    RANK_SIZE = 1 << MUSTER_BY_RANK_SIZE,
    MERGE = MUSTER_COLUMN_MERGE,
    QUIET = MUSTER_COLUMN_QUIET,
    SUMS = MUSTER_COLUMN_SUMS,
    TWINS = MUSTER_COLUMN_TWINS,
    BESIDE = MUSTER_COLUMN_BESIDE,
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
    {NULL, COLUMN(rank, gpu_uuid_text, STR), .head = "gpu uuid", .spare = 8},
    {"slurm.job", COLUMN(rank, slurm_job, STR), .head = "slurm job", .flags = MERGE, .spare = 9},
    {"slurm.step", COLUMN(rank, slurm_step, STR), .head = "step", .flags = MERGE, .spare = 9},
    {"nccl", COLUMN(rank, nccl, STR), .head = "nccl", .flags = MERGE, .spare = 9},
    {"recorded_by", COLUMN(rank, recorded_by, STR)},
    {"ops", COLUMN(rank, ops, U64), .head = "ops", .spare = 5},
    {"graph_ops", COLUMN(rank, graph_ops, U64), .head = "graph ops", .flags = QUIET},
    {"captured", COLUMN(rank, captured, U64)},
    {"api_only", COLUMN(rank, api_only, U64)},
    {"bytes", COLUMN(rank, bytes, BYTES), .head = "bytes", .spare = 7},
    {"in_nccl_us", COLUMN(rank, busy_us, REAL), 0, "in NCCL", "ms", 1e-3, 1, 0, 6},
    {"in_nccl_run_us", COLUMN(rank, busy_run_us, REAL), 0, "~ run", "ms", 1e-3, 1, BESIDE, 8},
    {"waited_us", COLUMN(rank, wait_us, REAL), 0, "waited", "ms", 1e-3, 1},
    {"waited_run_us", COLUMN(rank, wait_run_us, REAL), 0, "~ run", "ms", 1e-3, 1, BESIDE, 5},
    {"made_wait_us", COLUMN(rank, late_us, REAL), 0, "made others", "wait, ms", 1e-3, 1},
    {"made_wait_run_us", COLUMN(rank, late_run_us, REAL), 0, "~ run", "ms", 1e-3, 1, BESIDE, 4},
    {"p50_us", COLUMN(rank, p50_us, REAL), 0, "p50", "us", 1, 1, 0, 8},
    {"p99_us", COLUMN(rank, p99_us, REAL), 0, "p99", "us", 1, 1, 0, 8},
    {"timing.source", COLUMN(rank, source, STR), .head = "times", .flags = MERGE, .spare = 9},
    {"timing.timed_ops", COLUMN(rank, timed_ops, U64)},
    {"timing.to_itself_ops", COLUMN(rank, to_itself, U64)},
    {"timing.share", COLUMN(rank, share, REAL), 0, "timed", "%", 100, 1, MERGE, 9},
    {"timing.joint_ops", COLUMN(rank, joint_ops, U64), .head = "compared", .flags = QUIET | MERGE,
     .spare = 9},
    {"timing.cost_s", COLUMN(rank, cost_s, REAL)},
    {"timing.cost_share", COLUMN(rank, cost_share, REAL), 0, "timing", "cost %", 100, 2, MERGE, 9},
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
    {"drops.no_event", COLUMN(rank, drops[MUSTER_DROP_NO_EVENT], U64)},
    {"drops.time_ring", COLUMN(rank, drops[MUSTER_DROP_TIME_RING], U64)},
    {"lost_log", COLUMN(rank, lost_log, U64), .head = "lost log", .flags = QUIET},
    {"replay", COLUMN(rank, replay, STR)},
    {"exit", COLUMN(rank, exit, STR), .head = "exit", .flags = MERGE, .spare = 3},
    {"verdict", COLUMN(rank, verdict, STR), .head = "verdict"},
};
_Static_assert(MUSTER_DROPS == 12, "every reason has its column");

static const struct muster_column op_columns[] = {
    {"comm", COLUMN(op, comm, ID), .by = OP | COMM, .head = "comm", .spare = 5},
    {"comm_name", COLUMN(op, comm_name, STR), .by = OP | COMM, .head = "name", .spare = 4},
    {"nranks", COLUMN(op, nranks, KNOWN), .head = "ranks", .spare = 6},
    {"nnodes", COLUMN(op, nnodes, KNOWN), .by = OP | COMM},
    {"ranks_seen", COLUMN(op, ranks_seen, KNOWN), .by = OP | COMM},
    {"rank", COLUMN(op, rank, I64), .by = OP | RANK_SIZE, .head = "rank"},
    {"host", COLUMN(op, host, STR), .by = RANK_SIZE, .head = "host", .flags = MERGE},
    {"func", COLUMN(op, func, STR), .by = OP | SIZE | RANK_SIZE, .head = "function"},
    {"peer", COLUMN(op, peer, I64), .by = OP, .head = "peer"},
    {"size", COLUMN(op, size, BYTES), .by = OP | SIZE | RANK_SIZE, .head = "size >="},
    {"algo", COLUMN(op, algo, STR), .by = OP, .head = "algo", .spare = 2},
    {"proto", COLUMN(op, proto, STR), .by = OP, .head = "proto", .spare = 3},
    {"channels", COLUMN(op, channels, U64), .by = OP, .head = "ch", .flags = QUIET, .spare = 9},
    {"count", COLUMN(op, count, U64), .head = "count", .spare = 2},
    {"graph_ops", COLUMN(op, graph_ops, U64), .head = "graph", .unit = "ops", .flags = QUIET},
    {"api_only", COLUMN(op, api_only, U64)},
    {"bytes", COLUMN(op, bytes, BYTES), .head = "bytes", .flags = SUMS},
    {"source", COLUMN(op, source, STR)},
    {"timed_ops", COLUMN(op, timed_ops, U64)},
    {"total_us", COLUMN(op, total_us, REAL), 0, "total", "ms", 1e-3, 1},
    {"p50_us", COLUMN(op, p50_us, REAL), 0, "p50", "us", 1, 1},
    {"p99_us", COLUMN(op, p99_us, REAL), 0, "p99", "us", 1, 1, 0, 4},
    {"algbw_gbs", COLUMN(op, algbw_gbs, REAL), OP | SIZE | RANK_SIZE, "algbw", "GB/s", 1, 2, 0, 7},
    {"busbw_gbs", COLUMN(op, busbw_gbs, REAL), OP | SIZE | RANK_SIZE, "busbw", "GB/s", 1, 2, 0, 0},
    {"transfer_p50_us", COLUMN(op, transfer_p50_us, REAL), 0, "transfer", "p50 us", 1, 1, 0, 8},
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

static const struct muster_column tag_columns[] = {
    {"tag", COLUMN(tag, tag, KNOWN), .head = "tag"},
    {"processes", COLUMN(tag, processes, U64), .head = "processes", .flags = MERGE},
    {"count", COLUMN(tag, count, U64), .head = "count"},
    {"bytes", COLUMN(tag, bytes, BYTES), .head = "bytes"},
    {"timed_ops", COLUMN(tag, timed_ops, U64), .head = "timed", .flags = QUIET},
    {"total_us", COLUMN(tag, total_us, REAL), 0, "total", "ms", 1e-3, 1},
    {"p50_us", COLUMN(tag, p50_us, REAL), 0, "p50", "us", 1, 1},
    {"p99_us", COLUMN(tag, p99_us, REAL), 0, "p99", "us", 1, 1},
};

#define TABLE(row, columns_)                                                                       \
    {                                                                                              \
        .column = (columns_), .columns = sizeof(columns_) / sizeof *(columns_),                    \
        .row_bytes = sizeof(struct muster_report_##row)                                            \
    }

const struct muster_table muster_rank_table = TABLE(rank, rank_columns);
const struct muster_table muster_op_table = TABLE(op, op_columns);
const struct muster_table muster_net_table = TABLE(net, net_columns);
const struct muster_table muster_rule_table = TABLE(rule, rule_columns);
const struct muster_table muster_tag_table = TABLE(tag, tag_columns);

/* Small letters and digits alone, without the unit. */
static void fold(char *to, size_t size, const char *from)
{
    size_t n = 0;
    for (; *from && n + 1 < size; from++)
        if (isalnum((unsigned char)*from))
            to[n++] = (char)tolower((unsigned char)*from);
        else if (strcmp(from, "_us") == 0 || strcmp(from, "_gbs") == 0)
            break;
    to[n] = '\0';
}

static bool is_meant(const char *name, const char *word, bool whole)
{
    char one[64], other[64];
    if (!name)
        return false;
    fold(one, sizeof one, name);
    fold(other, sizeof other, word);
    return strcmp(one, other) == 0 ||
           (!whole && strlen(other) >= 3 &&
            (strncmp(one, other, strlen(other)) == 0 || strncmp(one, other, strlen(one)) == 0));
}

const struct muster_column *muster_column_find(const struct muster_table *table, unsigned by,
                                               const char *word)
{
    for (int whole = 1; whole >= 0; whole--) {
        for (size_t c = 0; c < table->columns; c++) {
            const struct muster_column *column = &table->column[c];
            bool has = !column->by || !by || (column->by & by);
            if (has && (is_meant(column->head, word, whole) || is_meant(column->name, word, whole)))
                return column;
        }
    }
    return NULL;
}

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
