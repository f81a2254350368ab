#include "replay/replay_rank.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "replay/replay_driver.h"
#include "replay/replay_play.h"
#include "trace/trace.h"

/* The NCCL that this process stands for. A plugin asks for it with dlsym, as in a real job. */
static int nccl_version;
/* What the plugin writes its mask into until the very end of the process. */
static int event_mask;

/* When the call that is played now came; 0: it comes now. */
static uint64_t replay_ns;

__attribute__((visibility("default"))) int ncclGetVersion(int *version);
/* muster's own plugin asks for it, on the thread that plays. */
__attribute__((visibility("default"))) uint64_t muster_replay_now_ns(void);

int ncclGetVersion(int *version)
{
    *version = nccl_version;
    return 0;
}

uint64_t muster_replay_now_ns(void)
{
    return replay_ns;
}

struct rank {
    struct muster_trace trace;
    struct muster_driver driver;
    struct muster_play play;
    bool truncated;
};

static void set_number(const char *name, int32_t number, int32_t min)
{
    char text[16];
    snprintf(text, sizeof text, "%" PRId32, number);
    if (number >= min)
        setenv(name, text, 1);
    else
        unsetenv(name);
}

static void set_environment(const struct muster_trace_meta *meta, char **argv)
{
    const char *speed = argv[MUSTER_REPLAY_SPEED];
    set_number("RANK", meta->rank, 0);
    set_number("LOCAL_RANK", meta->local_rank, 0);
    set_number("WORLD_SIZE", meta->nranks, 1);
    if (meta->host[0])
        setenv("NCCL_HOSTID", meta->host, 1);
    setenv("MUSTER_DIR", argv[MUSTER_REPLAY_OUT], 1);
    setenv("MUSTER_REPLAY", strcmp(speed, "0") == 0 ? "max" : speed, 1);
}

static int map_progress(struct muster_play *play, const char *path, struct muster_err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *play->progress)) {
        muster_fail(err, "%s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    void *map = mmap(NULL, sizeof *play->progress, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return muster_fail(err, "%s: %s", path, strerror(errno));
    play->progress = map;
    return 0;
}

static int prepare(struct rank *rank, int argc, char **argv, struct muster_err *err)
{
    struct muster_play *play = &rank->play;
    play->speed = strtoull(argv[MUSTER_REPLAY_SPEED], NULL, 10);
    play->hold_ns = strtoull(argv[MUSTER_REPLAY_HOLD], NULL, 10) * MUSTER_NS_PER_S;
    play->mask = &event_mask;
    play->replay_ns = &replay_ns;
    if (muster_trace_read(argv[MUSTER_REPLAY_FILE], &rank->trace, &rank->truncated, err))
        return -1;
    set_environment(&rank->trace.meta, argv);
    nccl_version = (int)rank->trace.meta.nccl;
    if (argc > MUSTER_REPLAY_PROGRESS && map_progress(play, argv[MUSTER_REPLAY_PROGRESS], err))
        return -1;
    return muster_driver_open(&rank->driver, argv[MUSTER_REPLAY_PLUGIN], rank->trace.meta.api, 0,
                              err);
}

static uint64_t first_ns(const struct muster_trace *trace)
{
    return trace->calls ? trace->call[0].t_ns : 0;
}

/* Reports that the rank is ready, or why not, and waits for the others. False: do not play. */
static bool meet(struct rank *rank, char **argv, int failed, const struct muster_err *err)
{
    int hello_fd = atoi(argv[MUSTER_REPLAY_HELLO]), go_fd = atoi(argv[MUSTER_REPLAY_GO]);
    struct muster_replay_hello hello = {0};
    struct muster_replay_go go = {.epoch_ns = first_ns(&rank->trace), .start_ns = muster_now_ns()};
    if (failed)
        memcpy(hello.error, err->text, sizeof hello.error);
    hello.first_ns = go.epoch_ns;
    hello.last_ns = rank->trace.calls ? rank->trace.call[rank->trace.calls - 1].t_ns : 0;
    hello.killed = rank->trace.meta.killed;
    hello.truncated = rank->truncated;
    if (hello_fd < 0) {
        if (failed)
            fprintf(stderr, "muster replay: %s\n", err->text);
    } else if (write(hello_fd, &hello, sizeof hello) != sizeof hello ||
               (!failed && read(go_fd, &go, sizeof go) != sizeof go)) {
        return false;
    }
    rank->play.epoch_ns = go.epoch_ns;
    rank->play.start_ns = go.start_ns;
    return !failed;
}

int muster_replay_rank(int argc, char **argv)
{
    struct rank *rank = calloc(1, sizeof *rank);
    struct muster_err err = {{0}};
    if (!rank || argc < MUSTER_REPLAY_PROGRESS || argc > MUSTER_REPLAY_ARGS) {
        free(rank);
        fputs("muster replay: " MUSTER_REPLAY_RANK_WORD " is for muster itself\n", stderr);
        return MUSTER_REPLAY_RANK_NEVER;
    }
    int failed = prepare(rank, argc, argv, &err);
    int status = MUSTER_REPLAY_RANK_NEVER;
    if (meet(rank, argv, failed, &err)) {
        status = MUSTER_REPLAY_RANK_PLAYED;
        if (muster_trace_play(&rank->trace, &rank->driver, &rank->play, &err)) {
            fprintf(stderr, "muster replay: %s: %s\n", argv[MUSTER_REPLAY_FILE], err.text);
            status = MUSTER_REPLAY_RANK_FAILED;
        }
        if (rank->trace.meta.killed)
            raise(SIGKILL);
    }
    muster_trace_free(&rank->trace);
    free(rank);
    return status;
}
