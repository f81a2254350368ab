/* Three production jobs with known causes (README.md): who is named, by the begins and durations of
 * what the ranks told each other alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nccl_types.h"
#include "diagnose/straggler/straggler.h"
#include "replay/xz.h"

enum {
    RANKS_MAX = 128,
    STEPS_MAX = 64,
    STAGES_MAX = 4,
    KINDS = 7,
    CULPRIT_MAX = 2,
    PAUSE_US = 50000
};

static const struct known {
    const char *name;
    unsigned stages, replicas;
    int culprit[CULPRIT_MAX];
    unsigned n;
} jobs[] = {
    {"AR", 4, 4, {0}, 1},
    {"ST", 4, 2, {6, 7}, 2},
    {"SE", 2, 32, {0}, 0},
};

enum among { REPLICAS, STAGES, ENDS };

static const struct kind {
    const char *word;
    enum among among;
    enum muster_func func;
    int to; /* stage of the peer, from this one */
} kinds[KINDS] = {
    {"ag", REPLICAS, MUSTER_FUNC_ALL_GATHER, 0}, {"rs", REPLICAS, MUSTER_FUNC_REDUCE_SCATTER, 0},
    {"ea", ENDS, MUSTER_FUNC_ALL_REDUCE, 0},     {"fs", STAGES, MUSTER_FUNC_SEND, 1},
    {"fr", STAGES, MUSTER_FUNC_RECV, -1},        {"bs", STAGES, MUSTER_FUNC_SEND, -1},
    {"br", STAGES, MUSTER_FUNC_RECV, 1},
};

/* One rank while it is read. */
struct reader {
    const struct known *job;
    struct muster_view view;
    unsigned rank, stage;
    uint32_t member[3];
    uint64_t collectives[3];
    uint64_t passed[2][STAGES_MAX]; /* received from, sent to */
    unsigned step;
    long length_us[STEPS_MAX];
    long base_us[STEPS_MAX]; /* of step n, the same for all ranks */
};

static void begin_rank(struct reader *reader, unsigned rank, unsigned stage, unsigned replica)
{
    const struct known *job = reader->job;
    struct muster_view *view = &reader->view;
    uint32_t gpu = muster_view_add_gpu(view, &(struct muster_view_gpu){.rank = (int32_t)rank,
                                                                       .gpu_index = 0,
                                                                       .host = "host",
                                                                       .process = rank,
                                                                       .timing = MUSTER_TIMING_FULL,
                                                                       .called = true});
    reader->rank = rank;
    reader->stage = stage;
    reader->step = 0;
    memset(reader->collectives, 0, sizeof reader->collectives);
    memset(reader->passed, 0, sizeof reader->passed);
    reader->member[REPLICAS] =
        muster_view_add_member(view, gpu, 100 + stage, (int32_t)replica, job->replicas, 2, "");
    reader->member[STAGES] =
        muster_view_add_member(view, gpu, 1000 + replica, (int32_t)stage, job->stages, 2, "");
    if (stage == 0 || stage + 1 == job->stages)
        reader->member[ENDS] =
            muster_view_add_member(view, gpu, 2000 + replica, stage > 0, 2, 2, "");
}

static void add_op(struct reader *reader, const char *word, long begin_us, long duration_us)
{
    const struct kind *kind = kinds;
    while (strcmp(kind->word, word) != 0)
        kind++;
    bool pair = kind->among == STAGES;
    unsigned peer = (unsigned)((int)reader->stage + kind->to);
    uint64_t *number = pair ? &reader->passed[kind->func == MUSTER_FUNC_SEND][peer]
                            : &reader->collectives[kind->among];
    /* Every GPU has its own clock. */
    uint64_t zero_ns = 1000000000000ull + reader->rank * 123456789ull;
    uint64_t begin_ns = zero_ns + (uint64_t)(reader->base_us[reader->step - 1] + begin_us) * 1000;
    struct muster_op op = {.number = (*number)++,
                           .enqueue_ns = begin_ns,
                           .begin_ns = begin_ns,
                           .end_ns = begin_ns + (uint64_t)duration_us * 1000,
                           .count = pair ? 1 << 20 : 1 << 24,
                           .peer = pair ? (int32_t)peer : -1,
                           .func = (uint8_t)kind->func,
                           .dtype = MUSTER_DTYPE_BFLOAT16,
                           .algo = MUSTER_ALGO_RING,
                           .proto = MUSTER_PROTO_SIMPLE,
                           .channels = 8,
                           .source = MUSTER_SOURCE_GPU,
                           .flags = MUSTER_OP_IN_WINDOW};
    op.flags |= op.number < MUSTER_WARM_UP ? MUSTER_OP_UNSCORED : 0;
    muster_view_add_op(&reader->view, reader->member[kind->among], &op);
}

/* How long the steps are: until the last of all ranks has ended. */
static void note_length(struct reader *reader, const char *line)
{
    long begin, duration, *length_us = &reader->length_us[reader->step];
    char word[3];
    if (strncmp(line, "rank", 4) == 0)
        reader->step = 0;
    else if (strncmp(line, "step", 4) == 0)
        reader->step++;
    else if (sscanf(line, "%2s %ld %ld", word, &begin, &duration) == 3)
        *length_us = begin + duration > *length_us ? begin + duration : *length_us;
}

static void add_line(struct reader *reader, const char *line)
{
    unsigned rank, stage, replica;
    long begin, duration;
    char word[3];
    if (sscanf(line, "rank %u %u %u", &rank, &stage, &replica) == 3)
        begin_rank(reader, rank, stage, replica);
    else if (strncmp(line, "step", 4) == 0)
        reader->step++;
    else if (sscanf(line, "%2s %ld %ld", word, &begin, &duration) == 3)
        add_op(reader, word, begin, duration);
}

static void each_line(struct reader *reader, const char *text, size_t bytes,
                      void (*line_do)(struct reader *reader, const char *line))
{
    char line[64];
    for (size_t at = 0, n; at < bytes; at += n + 1) {
        const char *end = memchr(text + at, '\n', bytes - at);
        n = end ? (size_t)(end - text) - at : bytes - at;
        snprintf(line, sizeof line, "%.*s", (int)n, text + at);
        line_do(reader, line);
    }
}

static void read_all(struct reader *reader, const char *text, size_t bytes)
{
    each_line(reader, text, bytes, note_length);
    for (unsigned i = 1; i < STEPS_MAX; i++)
        reader->base_us[i] = reader->base_us[i - 1] + reader->length_us[i] + PAUSE_US;
    each_line(reader, text, bytes, add_line);
}

static bool is_culprit(const struct known *job, int rank)
{
    for (unsigned i = 0; i < job->n; i++)
        if (job->culprit[i] == rank)
            return true;
    return false;
}

/* Whether the culprits are named, and nobody else. */
static bool evaluate(const struct known *job, const struct muster_findings *findings)
{
    bool named[RANKS_MAX] = {false}, right = true;
    unsigned n = 0;
    char text[1024];
    for (size_t f = 0; f < findings->n; f++) {
        const struct muster_finding *finding = &findings->finding[f];
        muster_finding_sentence(finding, text, sizeof text);
        printf("  %s\n", text);
        for (unsigned i = 0; i < finding->ranks; i++) {
            n += !named[finding->rank[i]];
            named[finding->rank[i]] = true;
            right = right && is_culprit(job, finding->rank[i]);
        }
    }
    return right && n == job->n;
}

static bool one(const struct known *job, const char *folder)
{
    struct reader *reader = calloc(1, sizeof *reader);
    struct muster_findings findings = {0};
    struct muster_err err = {""};
    char path[4096], *text;
    size_t bytes;
    bool cut;
    snprintf(path, sizeof path, "%s/%s.txt.xz", folder, job->name);
    if (!reader || muster_xz_load(path, &text, &bytes, &cut, &err) != 0) {
        printf("%s: %s\n", path, err.text);
        exit(2);
    }
    reader->job = job;
    read_all(reader, text, bytes);
    if (muster_view_finish(&reader->view, &err) != 0 ||
        muster_straggler_find(&reader->view, &findings, &err) != 0) {
        printf("%s: %s\n", path, err.text);
        exit(2);
    }
    bool right = evaluate(job, &findings);
    printf("%s: %s\n", job->name, right ? "right" : "WRONG");
    muster_findings_free(&findings);
    muster_view_free(&reader->view);
    free(reader);
    free(text);
    return right;
}

/* bytedance_test FOLDER [NAME...]: all three without a name. */
int main(int argc, char **argv)
{
    unsigned wrong = 0;
    for (size_t i = 0; argc > 1 && i < sizeof jobs / sizeof *jobs; i++) {
        bool wanted = argc == 2;
        for (int a = 2; a < argc; a++)
            wanted |= strcmp(argv[a], jobs[i].name) == 0;
        wrong += wanted && !one(&jobs[i], argv[1]);
    }
    return argc < 2 ? 2 : wrong > 0;
}
