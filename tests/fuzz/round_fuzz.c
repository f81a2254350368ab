/*
 * What a page shows is what is read back from it, and no text of a run becomes markup. The first
 * byte chooses the kind of page; then come strings, each up to a zero byte: the command, a findings
 * file, names in a run of two ranks; the rest are operations as the segment keeps them.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "diagnose/diagnose.h"
#include "emitted/emitted.h"
#include "page/page.h"
#include "report/report_output.h"
#include "run/run_process.h"
#include "segment/image.h"
#include "segment/segment_check.h"
#include "segment/segment_reader.h"
#include "timeline/whole_file.h"
#include "verdict/verdict.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RANKS = 2, OPS = 64 };

struct input {
    const char *at;
    size_t left;
};

static char path[64];

static void require(bool condition)
{
    if (!condition)
        abort();
}

/* The next string; the input has a zero byte behind it. */
static const char *take(struct input *input)
{
    const char *text = input->at;
    size_t n = strlen(text);
    n += n < input->left;
    input->at += n;
    input->left -= n;
    return text;
}

/* ---- the run ---- */

static void put_name(char *to, size_t size, struct input *input)
{
    snprintf(to, size, "%s", take(input));
}

/* Of each rank the same ones, that end a nanosecond later on the second. */
static void put_ops(struct muster_segment *segment, const struct input *input)
{
    size_t n = input->left / sizeof(struct muster_op);
    n = n < OPS ? n : OPS;
    for (size_t i = 0; i < n * RANKS; i++) {
        struct muster_op *op = &segment->ring[i];
        memcpy(op, input->at + i / RANKS * sizeof *op, sizeof *op);
        op->comm = 1 + i % RANKS;
        op->end_ns += i % RANKS;
        muster_check_op(op);
    }
    atomic_store_explicit(&segment->ring_head, n * RANKS, memory_order_relaxed);
}

static void put_comms(struct muster_segment *segment, struct input *input)
{
    for (unsigned rank = 0; rank < RANKS; rank++) {
        struct muster_seg_comm *comm = &segment->comm[rank];
        comm->uid = 1 + rank;
        comm->id = 7;
        comm->rank = (int)rank;
        comm->nranks = RANKS;
        put_name(comm->name, sizeof comm->name, input);
        put_name(comm->gpu_pci, sizeof comm->gpu_pci, input);
        put_name(comm->gpu_uuid, sizeof comm->gpu_uuid, input);
    }
}

/* One process with a GPU for each rank. */
static struct muster_segment *make_segment(struct input *input)
{
    struct muster_seg_identity identity = {.rank = 0,
                                           .world = RANKS,
                                           .pid = 10,
                                           .nccl = 22809,
                                           .armed = 1,
                                           .begin_mono_ns = 1,
                                           .begin_unix_ns = MUSTER_NS_PER_S};
    put_name(identity.host, sizeof identity.host, input);
    put_name(identity.hostname, sizeof identity.hostname, input);
    put_name(identity.slurm_job, sizeof identity.slurm_job, input);
    struct muster_segment *segment = muster_segment_new(&identity);
    require(segment);
    put_comms(segment, input);
    muster_check_tables(segment, NULL);
    return segment;
}

static void make_run(struct input *input, struct muster_run *run)
{
    struct muster_pieces pieces = {.segment = make_segment(input)};
    struct muster_err err;
    muster_run_note(run, "%s", take(input));
    *(const char **)muster_arena_add(&run->memory, &run->source, &run->sources,
                                     sizeof *run->source) = "/runs/fuzz";
    put_ops(pieces.segment, input);
    require(muster_identity_check("fuzz", &pieces.segment->identity, &err) == 0);
    muster_run_add(run, &pieces);
}

/* ---- the page ---- */

static void leave(void)
{
    unlink(path);
}

static void make_path(void)
{
    strcpy(path, "/dev/shm/muster-fuzz-XXXXXX.html");
    int fd = mkstemps(path, sizeof ".html" - 1);
    require(fd >= 0);
    close(fd);
    atexit(leave);
}

static json_t *parse(char *text, size_t n)
{
    json_error_t wrong;
    json_t *json = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &wrong);
    if (!json)
        fprintf(stderr, "%d: %s: %s\n", wrong.position, wrong.text, text);
    require(json);
    free(text);
    return json;
}

/* Elements beside the breaks between the lines of the verdict. */
static long count_elements(const char *page, size_t n)
{
    long elements = 0;
    for (const char *at = page; (at = memchr(at, '<', n - (size_t)(at - page))); at++)
        elements += strncmp(at, "<br>", 4) != 0;
    return elements;
}

/* The page is that of `expected`, of no other kind, and has the elements of the shell alone. */
static void check_page(json_t *expected, enum muster_page_kind kind)
{
    static long elements[2];
    struct muster_err err;
    const char *at;
    size_t n, length;
    char *page = muster_whole_read(path, 1 << 24, &n, &err);
    require(page && muster_page_find(path, 1 - kind, page, n, &at, &length, &err) != 0);
    require(muster_page_find(path, kind, page, n, &at, &length, &err) == 0);
    json_t *got = parse(strndup(at, length), length);
    require(json_equal(expected, got));
    long seen = count_elements(page, n);
    require(elements[kind] == 0 || elements[kind] == seen);
    elements[kind] = seen;
    json_decref(expected);
    json_decref(got);
    free(page);
}

static void report(const struct muster_view *view, const struct muster_findings *findings,
                   const char *command)
{
    const struct muster_page_request request = {.path = path, .command = command};
    struct muster_page_made made;
    struct muster_report report;
    struct muster_err err;
    char *text = NULL;
    size_t n;
    require(muster_report_build(view, MUSTER_BY_OP, &report, &err) == 0);
    muster_verdict_mark(view, findings, &report);
    FILE *out = open_memstream(&text, &n);
    require(out && muster_page_write(view, &report, findings, &request, &made, &err) == 0);
    muster_report_json(&report, NULL, NULL, out);
    fclose(out);
    require(made.left_out == 0);
    check_page(parse(text, n), MUSTER_PAGE_REPORT);
    muster_report_free(&report);
}

static void compare(const struct muster_view *view, const struct muster_findings *findings,
                    const char *command)
{
    const struct muster_page_request request = {.path = path, .command = command};
    const struct muster_findings none = {0};
    struct muster_compare_side a, b;
    struct muster_compared compared;
    struct muster_err err;
    char *text = NULL;
    size_t n;
    uint64_t bytes;
    require(muster_compare_side_read(view, &none, &a, &err) == 0);
    require(muster_compare_side_read(view, findings, &b, &err) == 0);
    if (muster_compare_runs(&a, &b, &compared, &err) == 0) {
        FILE *out = open_memstream(&text, &n);
        require(out && muster_page_compare_write(&compared, 0.1, &request, &bytes, &err) == 0);
        muster_compare_json(&compared, 0.1, out);
        fclose(out);
        check_page(parse(text, n), MUSTER_PAGE_COMPARE);
    }
    muster_compare_free(&compared);
}

static void fuzz(struct input *input, bool two)
{
    struct muster_findings emitted = {0}, findings = {0};
    struct muster_run run = {0};
    struct muster_view view;
    struct muster_err err;
    const char *command = take(input), *lines = take(input);
    make_run(input, &run);
    muster_emitted_parse("fuzz", lines, strlen(lines), &emitted, &err);
    require(muster_emitted_merge(&emitted, &findings, &err) == 0);
    require(muster_view_of_run(&run, &view, &err) == 0);
    (two ? compare : report)(&view, &findings, command);
    muster_view_free(&view);
    muster_run_free(&run);
    muster_findings_free(&emitted);
    muster_findings_free(&findings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (!path[0])
        make_path();
    char *text = malloc(size);
    require(text);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    struct input input = {text, size - 1};
    fuzz(&input, data[0] % 2);
    free(text);
    return 0;
}
