/*
 * Recorded jobs as text (runs/README.md, "The text"), which no change of the log's format touches.
 *
 * usage: log_text dump RUN DIR   the processes of a run directory, as DIR/rank<n>.txt
 *        log_text make TEXT DIR  the log of such a text, in DIR
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "oplog/log_file.h"
#include "oplog/log_image.h"
#include "run/run.h"
#include "segment/image.h"
#include "segment/totals.h"

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    return 1;
}

/* ---- dump ---- */

static void dump_identity(FILE *out, const struct muster_seg_identity *who)
{
    fprintf(out,
            "identity %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRId32
            " %" PRId32 " %" PRId32 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %u %u %u %u\n",
            who->boot_hash, who->start_ticks, who->begin_mono_ns, who->begin_unix_ns, who->pid,
            who->rank, who->local_rank, who->world, who->nccl, who->api, who->timing,
            who->rank_source, who->mark, who->armed, who->log_enabled);
    fprintf(out, "host %s\nhostname %s\ngpu %s\nrun %s\nstem %s\n", who->host, who->hostname,
            who->gpu_name, who->run_dir, who->file_stem);
}

static void dump_segment(FILE *out, struct muster_segment *segment)
{
    fprintf(out, "seen %" PRIu64 " %" PRIu64 " %u\n", atomic_load(&segment->heartbeat_mono_ns),
            atomic_load(&segment->heartbeat_unix_ns), atomic_load(&segment->exit_state));
    for (unsigned i = 0; i < MUSTER_SEG_COMMS; i++) {
        struct muster_seg_comm *comm = &segment->comm[i];
        if (comm->uid == 0)
            continue;
        fprintf(out,
                "comm %" PRIu32 " %" PRIu64 " %" PRId32 " %" PRIu32 " %" PRIu32 " %" PRIu64
                " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
                " %" PRIu64 " %s\n",
                comm->uid, comm->id, comm->rank, comm->nranks, comm->nnodes, comm->begin_ns,
                comm->end_ns, atomic_load(&comm->captured), atomic_load(&comm->calls),
                atomic_load(&comm->call_hash), atomic_load(&comm->called_ns),
                atomic_load(&comm->launches), atomic_load(&comm->launches_probed),
                atomic_load(&comm->launches_ended), comm->name);
    }
}

static void dump_ops(FILE *out, const struct muster_process *process)
{
    struct muster_op last = {0};
    for (size_t i = 0; i < process->ops; i++) {
        const struct muster_op *op = &process->op[i];
        fprintf(out,
                "op %" PRIu32 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64
                " %" PRId32 " %u %u %u %u %u %u %u\n",
                op->comm, (int64_t)(op->number - last.number),
                (int64_t)(op->enqueue_ns - last.enqueue_ns),
                op->source ? (int64_t)(op->begin_ns - last.begin_ns) : 0,
                (int64_t)(op->end_ns - op->begin_ns), op->count, op->peer, op->func, op->dtype,
                op->algo, op->proto, op->channels, op->source, op->flags);
        last.number = op->number;
        last.enqueue_ns = op->enqueue_ns;
        if (op->source)
            last.begin_ns = op->begin_ns;
    }
}

static int dump(const char *dir, const char *to)
{
    const char *names[] = {dir};
    struct muster_run_query query = {.run = names, .runs = 1};
    struct muster_run run;
    struct muster_err err;
    if (muster_run_load(&query, &run, &err) != 0)
        return fail(dir, err.text);
    int rc = 0;
    for (size_t i = 0; i < run.processes && rc == 0; i++) {
        const struct muster_process *process = &run.process[i];
        char path[MUSTER_SEG_PATH];
        snprintf(path, sizeof(path), "%s/rank%" PRId32 ".txt", to, process->identity.rank);
        FILE *out = fopen(path, "w");
        if (!out || process->ops_missing)
            rc = fail(path, out ? "operations are missing" : "cannot be written");
        if (rc == 0) {
            dump_identity(out, &process->identity);
            dump_segment(out, process->segment);
            dump_ops(out, process);
        }
        if (out && fclose(out) != 0)
            rc = fail(path, "cannot be written");
    }
    muster_run_free(&run);
    return rc;
}

/* ---- make ---- */

struct make {
    struct muster_segment *segment;
    struct muster_row_index rows;
    struct muster_log_file file;
    struct muster_log_encoder encoder;
    struct muster_log_image image;
    struct muster_op last;
    uint64_t ops;
    bool open;
};

static bool read_identity(const char *line, struct muster_seg_identity *who)
{
    unsigned source, mark, armed, enabled;
    int n = sscanf(line,
                   "identity %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu32 " %" SCNd32
                   " %" SCNd32 " %" SCNd32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %u %u %u %u",
                   &who->boot_hash, &who->start_ticks, &who->begin_mono_ns, &who->begin_unix_ns,
                   &who->pid, &who->rank, &who->local_rank, &who->world, &who->nccl, &who->api,
                   &who->timing, &source, &mark, &armed, &enabled);
    who->rank_source = (uint8_t)source;
    who->mark = (uint8_t)mark;
    who->armed = (uint8_t)armed;
    who->log_enabled = (uint8_t)enabled;
    return n == 15;
}

static bool read_comm(const char *line, struct muster_segment *segment)
{
    unsigned i = 0;
    while (i < MUSTER_SEG_COMMS - 1 && segment->comm[i].uid)
        i++;
    struct muster_seg_comm *comm = &segment->comm[i];
    uint64_t count[7];
    int n = sscanf(line,
                   "comm %" SCNu32 " %" SCNu64 " %" SCNd32 " %" SCNu32 " %" SCNu32 " %" SCNu64
                   " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                   " %" SCNu64 " %" SCNu64 " %63s",
                   &comm->uid, &comm->id, &comm->rank, &comm->nranks, &comm->nnodes,
                   &comm->begin_ns, &comm->end_ns, &count[0], &count[1], &count[2], &count[3],
                   &count[4], &count[5], &count[6], comm->name);
    comm->gpu_index = -1;
    atomic_store(&comm->captured, count[0]);
    atomic_store(&comm->calls, count[1]);
    atomic_store(&comm->call_hash, count[2]);
    atomic_store(&comm->called_ns, count[3]);
    atomic_store(&comm->launches, count[4]);
    atomic_store(&comm->launches_probed, count[5]);
    atomic_store(&comm->launches_ended, count[6]);
    return n >= 14;
}

static bool flush(struct make *make)
{
    size_t bytes = muster_log_encode_end(&make->encoder, make->file.sequence, make->file.begun);
    if (muster_log_file_append(&make->file, make->encoder.buffer, bytes, make->encoder.ops) != 0)
        return false;
    if (muster_log_file_room(&make->file) < MUSTER_LOG_FRAME_BYTES)
        muster_log_file_next(&make->file);
    muster_log_encode_begin(&make->encoder, MUSTER_LOG_FRAME_BYTES);
    return true;
}

static bool read_op(struct make *make, const char *line)
{
    struct muster_op op = {0};
    int64_t number, enqueue, begin, duration;
    unsigned kind[7];
    int n = sscanf(line,
                   "op %" SCNu32 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNu64
                   " %" SCNd32 " %u %u %u %u %u %u %u",
                   &op.comm, &number, &enqueue, &begin, &duration, &op.count, &op.peer, &kind[0],
                   &kind[1], &kind[2], &kind[3], &kind[4], &kind[5], &kind[6]);
    if (n != 14)
        return false;
    op.func = (uint8_t)kind[0];
    op.dtype = (uint8_t)kind[1];
    op.algo = (uint8_t)kind[2];
    op.proto = (uint8_t)kind[3];
    op.channels = (uint8_t)kind[4];
    op.source = (uint8_t)kind[5];
    op.flags = (uint16_t)kind[6];
    op.number = make->last.number += (uint64_t)number;
    op.enqueue_ns = make->last.enqueue_ns += (uint64_t)enqueue;
    if (op.source != MUSTER_SOURCE_NONE) {
        op.begin_ns = make->last.begin_ns += (uint64_t)begin;
        op.end_ns = op.begin_ns + (uint64_t)duration;
    }
    unsigned entry = 0;
    while (entry < MUSTER_SEG_COMMS && make->segment->comm[entry].uid != op.comm)
        entry++;
    struct muster_seg_comm *comm = &make->segment->comm[entry];
    struct muster_log_comm def;
    bool known = muster_log_image_comm(&make->image, op.comm, &def);
    comm->retired++;
    muster_rows_add(make->segment, &make->rows, &op,
                    muster_op_size_bytes(op.func, op.dtype, op.count, comm->nranks));
    while (!muster_log_encode_op(&make->encoder, known ? &def : NULL, &op, make->ops))
        if (!flush(make))
            return false;
    make->ops++;
    return true;
}

static bool read_line(struct make *make, char *line)
{
    struct muster_segment *segment = make->segment;
    struct muster_seg_identity *who = &segment->identity;
    uint64_t mono, unix_ns;
    unsigned exit_state;
    line[strcspn(line, "\n")] = 0;
    if (strncmp(line, "op ", 3) == 0)
        return read_op(make, line);
    if (strncmp(line, "comm ", 5) == 0)
        return read_comm(line, segment);
    if (strncmp(line, "identity ", 9) == 0)
        return read_identity(line, who);
    if (sscanf(line, "seen %" SCNu64 " %" SCNu64 " %u", &mono, &unix_ns, &exit_state) == 3) {
        atomic_store(&segment->heartbeat_mono_ns, mono);
        atomic_store(&segment->heartbeat_unix_ns, unix_ns);
        atomic_store(&segment->exit_state, exit_state);
        return true;
    }
    const struct {
        const char *name;
        char *to;
        size_t size;
    } text[] = {{"host ", who->host, sizeof(who->host)},
                {"hostname ", who->hostname, sizeof(who->hostname)},
                {"gpu ", who->gpu_name, sizeof(who->gpu_name)},
                {"run ", who->run_dir, sizeof(who->run_dir)},
                {"stem ", who->file_stem, sizeof(who->file_stem)}};
    for (size_t i = 0; i < sizeof(text) / sizeof(*text); i++)
        if (strncmp(line, text[i].name, strlen(text[i].name)) == 0) {
            muster_text_copy(text[i].to, text[i].size, line + strlen(text[i].name));
            return true;
        }
    return false;
}

/* The names come before the operations. */
static bool open_file(struct make *make, const char *dir, struct muster_err *err)
{
    struct muster_seg_identity *who = &make->segment->identity;
    char stem[sizeof(who->file_stem)];
    memcpy(stem, who->file_stem, sizeof(stem));
    make->open = muster_log_file_create(&make->file, dir, stem, sizeof(stem), 1 << 30, err) == 0;
    return make->open && muster_log_file_identity(&make->file, who) == 0;
}

static int read_all(struct make *make, FILE *in, const char *path, const char *dir)
{
    char line[2048];
    struct muster_err err = {.text = "cannot be written"};
    for (unsigned number = 1; fgets(line, sizeof(line), in); number++) {
        char where[16];
        snprintf(where, sizeof(where), "line %u", number);
        if (strncmp(line, "op ", 3) == 0 && !make->open && !open_file(make, dir, &err))
            return fail(dir, err.text);
        if (!read_line(make, line))
            return fail(path, where);
    }
    atomic_store(&make->segment->ring_head, make->ops);
    while (make->open && !muster_log_image_write(&make->image, &make->encoder, true))
        if (!flush(make))
            return fail(dir, err.text);
    return make->open && flush(make) ? 0 : fail(path, "no operations, or no room for them");
}

static int make(const char *path, const char *dir)
{
    struct muster_seg_identity nobody = {.rank = -1};
    struct make *make = calloc(1, sizeof(*make));
    FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
    int rc = 1;
    if (make && in && (make->segment = muster_segment_new(&nobody)) &&
        muster_log_image_open(&make->image, make->segment)) {
        muster_log_encode_begin(&make->encoder, MUSTER_LOG_FRAME_BYTES);
        rc = read_all(make, in, path, dir);
        muster_log_image_close(&make->image);
    } else {
        fail(path, "cannot be read");
    }
    if (make && make->open)
        muster_log_file_close(&make->file);
    if (in && in != stdin)
        fclose(in);
    free(make ? make->segment : NULL);
    free(make);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "dump") == 0)
        return dump(argv[2], argv[3]);
    if (argc == 4 && strcmp(argv[1], "make") == 0)
        return make(argv[2], argv[3]);
    return fail("usage", "log_text dump RUN DIR | log_text make TEXT DIR");
}
