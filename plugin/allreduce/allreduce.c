/* The parent of the built-in all-reduce job: starts the ranks, passes the id on, collects. */
#include "allreduce/allreduce.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "allreduce/allreduce_wire.h"
#include "allreduce/turns.h"
#include "base/clock.h"
#include "base/text.h"
#include "launch/bounded.h"
#include "launch/child.h"

enum { SELF_MAX = 4, POLL_MS = 1000, TURN_POLL_MS = 1 };

struct child {
    pid_t pid; /* 0: none, or reaped */
    int fd;    /* -1: closed */
    bool done;
};

struct job {
    const struct muster_allreduce_plan *plan;
    struct child child[MUSTER_ALLREDUCE_GPUS];
    struct muster_allreduce_result *result;
    struct muster_turns turns;
    int asked, over; /* ranks that want the next turn, and that ended this one */
    uint64_t end_ns; /* deadline */
};

struct rank_start {
    int rank, ranks;
    bool hosts;
    int fd;
};

static int settle_on_host(int rank)
{
    char host[24];
    snprintf(host, sizeof host, "host%d", rank);
    return setenv("NCCL_HOSTID", host, 1) || setenv("NCCL_NET", "Socket", 1) ||
           setenv("NCCL_SOCKET_IFNAME", "lo", 1);
}

static int prepare_rank(void *arg, struct muster_err *err)
{
    const struct rank_start *start = arg;
    char rank[16], ranks[16];
    snprintf(rank, sizeof rank, "%d", start->rank);
    snprintf(ranks, sizeof ranks, "%d", start->ranks);
    if (start->hosts && settle_on_host(start->rank))
        return muster_fail(err, "%s", strerror(errno));
    if (setenv("RANK", rank, 1) || setenv("LOCAL_RANK", rank, 1) ||
        setenv("WORLD_SIZE", ranks, 1) || fcntl(start->fd, F_SETFD, 0))
        return muster_fail(err, "%s", strerror(errno));
    return 0;
}

static int spawn_rank(const struct job *job, int rank, const char *const *self, int fd, pid_t *pid,
                      struct muster_err *err)
{
    struct rank_start start = {rank, job->plan->gpus, job->plan->hosts != 0, fd};
    char number[16];
    const char *argv[SELF_MAX + 4] = {"muster"};
    int n = 1;
    while (*self && n <= SELF_MAX)
        argv[n++] = *self++;
    argv[n++] = MUSTER_ALLREDUCE_RANK;
    argv[n++] = number;
    snprintf(number, sizeof number, "%d", fd);
    const struct muster_child child = {.argv = argv,
                                       .program = "/proc/self/exe",
                                       .prepare = prepare_rank,
                                       .arg = &start,
                                       .orphaned = SIGKILL};
    struct muster_err why;
    if (muster_child_start(&child, pid, &why) == 0)
        return 0;
    *pid = 0;
    return muster_fail(err, "cannot start rank %d: %.400s", rank, why.text);
}

static int start_rank(struct job *job, int rank, const char *const *self, struct muster_err *err)
{
    struct child *child = &job->child[rank];
    struct muster_wire plan = {.kind = MUSTER_WIRE_PLAN, .index = (uint32_t)rank};
    int pair[2];
    plan.plan = *job->plan;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return muster_fail(err, "cannot make a socket pair: %s", strerror(errno));
    int rc = spawn_rank(job, rank, self, pair[1], &child->pid, err);
    close(pair[1]);
    child->fd = pair[0];
    if (rc == 0 && muster_wire_send(child->fd, &plan))
        return muster_fail(err, "cannot talk to rank %d: %s", rank, strerror(errno));
    return rc;
}

static void close_child(struct child *child)
{
    if (child->fd >= 0)
        close(child->fd);
    child->fd = -1;
}

/* Reaps a rank that closed its socket, which it does by ending. Success only after DONE. */
static int reap(struct child *child, int rank, struct muster_err *err)
{
    const char *when = child->done ? "after" : "before";
    int status = 0;
    muster_child_reap(child->pid, &status);
    child->pid = 0;
    if (WIFSIGNALED(status))
        return muster_fail(err, "rank %d was killed by signal %d (%s) %s it was done", rank,
                           WTERMSIG(status), strsignal(WTERMSIG(status)), when);
    if (WEXITSTATUS(status) || !child->done)
        return muster_fail(err, "rank %d exited with status %d %s it was done", rank,
                           WEXITSTATUS(status), when);
    return 0;
}

static int send_from(struct job *job, int rank, const struct muster_wire *message,
                     struct muster_err *err)
{
    for (; rank < job->plan->gpus; rank++)
        if (job->child[rank].fd >= 0 && muster_wire_send(job->child[rank].fd, message))
            return muster_fail(err, "cannot talk to rank %d: %s", rank, strerror(errno));
    return 0;
}

/* A turn is asked for, and over, when all ranks agree; one may ask while another's is not over. */
static int count_asked(struct job *job, struct muster_err *err)
{
    if (++job->asked < job->plan->gpus)
        return 0;
    job->asked = 0;
    return muster_turns_ask(&job->turns, err);
}

static void count_over(struct job *job)
{
    if (++job->over < job->plan->gpus)
        return;
    job->over = 0;
    muster_turns_end(&job->turns, muster_now_ns());
}

static int hand_out_turn(struct job *job, struct muster_err *err)
{
    const struct muster_wire message = {.kind = MUSTER_WIRE_TURN};
    if (!job->turns.waiting || job->turns.held || !muster_turns_begin(&job->turns, muster_now_ns()))
        return 0;
    return send_from(job, 0, &message, err);
}

static void add_times(struct job *job, const struct muster_wire *message)
{
    for (uint32_t round = 0; round < job->plan->rounds; round++)
        job->result[message->index].us[round] += message->us[round] / job->plan->gpus;
}

static int take_message(struct job *job, int rank, struct muster_err *err)
{
    struct child *child = &job->child[rank];
    struct muster_wire message;
    int got = muster_wire_receive(child->fd, &message);
    if (got != 1) {
        close_child(child);
        return reap(child, rank, err);
    }
    switch (message.kind) {
    case MUSTER_WIRE_ID:
        return send_from(job, 1, &message, err);
    case MUSTER_WIRE_TURN:
        return count_asked(job, err);
    case MUSTER_WIRE_OVER:
        count_over(job);
        return 0;
    case MUSTER_WIRE_TIMES:
        if (message.index < job->plan->sizes)
            add_times(job, &message);
        return 0;
    case MUSTER_WIRE_FAILED:
        return muster_fail(err, "rank %d: %.400s", rank, message.failed.text);
    case MUSTER_WIRE_DONE:
        child->done = true;
        return 0;
    default:
        return muster_fail(err, "rank %d sent something that is no message", rank);
    }
}

static int ranks_running(const struct job *job)
{
    int n = 0;
    for (int rank = 0; rank < job->plan->gpus; rank++)
        n += job->child[rank].fd >= 0;
    return n;
}

static int wait_for_message(const struct job *job, struct pollfd *ready, struct muster_err *err)
{
    uint64_t now = muster_now_ns();
    if (now >= job->end_ns)
        return muster_fail(err, "the job did not end in time: %d of %d ranks were still running",
                           ranks_running(job), job->plan->gpus);
    for (int rank = 0; rank < job->plan->gpus; rank++)
        ready[rank] = (struct pollfd){.fd = job->child[rank].fd, .events = POLLIN};
    const uint64_t left_ms = (job->end_ns - now) / MUSTER_NS_PER_MS + 1;
    const int wait_ms = job->turns.waiting && !job->turns.held ? TURN_POLL_MS
                        : left_ms < POLL_MS                    ? (int)left_ms
                                                               : POLL_MS;
    if (poll(ready, (nfds_t)job->plan->gpus, wait_ms) < 0 && errno != EINTR)
        return muster_fail(err, "poll: %s", strerror(errno));
    return 0;
}

/* Until every rank has closed its socket, which it does by exiting. */
static int collect(struct job *job, struct muster_err *err)
{
    struct pollfd ready[MUSTER_ALLREDUCE_GPUS] = {0};
    while (ranks_running(job)) {
        if (hand_out_turn(job, err) || wait_for_message(job, ready, err))
            return -1;
        for (int rank = 0; rank < job->plan->gpus; rank++)
            if (ready[rank].fd >= 0 && ready[rank].revents && take_message(job, rank, err))
                return -1;
    }
    return 0;
}

static void end_ranks(struct job *job, bool kill_them)
{
    for (int rank = 0; rank < job->plan->gpus; rank++) {
        struct child *child = &job->child[rank];
        close_child(child);
        if (child->pid > 0 && kill_them)
            kill(child->pid, SIGKILL);
        if (child->pid > 0)
            muster_child_reap(child->pid, NULL);
        child->pid = 0;
    }
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *value, uint32_t n)
{
    double sorted[MUSTER_ALLREDUCE_ROUNDS];
    memcpy(sorted, value, n * sizeof *value);
    qsort(sorted, n, sizeof *sorted, compare_doubles);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static int check_plan(const struct muster_allreduce_plan *plan, struct muster_err *err)
{
    if (plan->gpus < 1 || plan->gpus > MUSTER_ALLREDUCE_GPUS)
        return muster_fail(err, "%d GPUs: from 1 to %d are possible", plan->gpus,
                           MUSTER_ALLREDUCE_GPUS);
    if (plan->sizes < 1 || plan->sizes > MUSTER_ALLREDUCE_SIZES)
        return muster_fail(err, "%u sizes: from 1 to %d are possible", plan->sizes,
                           MUSTER_ALLREDUCE_SIZES);
    if (plan->rounds < 1 || plan->rounds > MUSTER_ALLREDUCE_ROUNDS)
        return muster_fail(err, "%u rounds: from 1 to %d are possible", plan->rounds,
                           MUSTER_ALLREDUCE_ROUNDS);
    if (plan->mode != MUSTER_ALLREDUCE_STEP && plan->iters < 1)
        return muster_fail(err, "0 iterations: at least 1 is needed");
    if (plan->mode == MUSTER_ALLREDUCE_STEP && plan->jobs)
        return muster_fail(err, "jobs whose rounds are steps take no turns");
    return 0;
}

int muster_allreduce_run(const struct muster_allreduce_plan *plan, const char *const *self,
                         unsigned deadline_s, struct muster_allreduce_result *result,
                         struct muster_err *err)
{
    struct job job = {.plan = plan, .result = result};
    int rc = check_plan(plan, err);
    if (rc)
        return rc;
    if (muster_turns_open(&job.turns, plan->turns, plan->jobs, err))
        return -1;
    job.end_ns = muster_now_ns() + deadline_s * MUSTER_NS_PER_S;
    memset(result, 0, plan->sizes * sizeof *result);
    for (int rank = 0; rank < plan->gpus; rank++)
        job.child[rank].fd = -1;
    for (int rank = 0; rank < plan->gpus && rc == 0; rank++)
        rc = start_rank(&job, rank, self, err);
    if (rc == 0)
        rc = collect(&job, err);
    end_ranks(&job, rc != 0);
    muster_turns_close(&job.turns);
    for (uint32_t i = 0; i < plan->sizes && rc == 0; i++) {
        result[i].bytes = plan->bytes[i];
        result[i].median_us = median(result[i].us, plan->rounds);
    }
    return rc;
}

static int look_up(const char *nccl_path, struct muster_allreduce_probe *probe,
                   struct muster_err *err)
{
    struct muster_cuda cuda;
    struct muster_nccl nccl;
    int device = 0;
    if (muster_cuda_open(&cuda, err) ||
        muster_cuda_check(&cuda, cuda.device_count(&probe->gpus), "cuDeviceGetCount", err))
        return -1;
    if (probe->gpus > 0 && (cuda.device_get(&device, 0) ||
                            cuda.device_name(probe->gpu, (int)sizeof probe->gpu, device)))
        probe->gpu[0] = '\0';
    if (muster_nccl_open(&nccl, nccl_path, err))
        return -1;
    return muster_nccl_check(&nccl, nccl.version(&probe->nccl), "ncclGetVersion", err);
}

static int probe_work(void *arg, int fd, struct muster_err *err)
{
    struct muster_allreduce_probe probe = {0};
    if (look_up(arg, &probe, err))
        return -1;
    return muster_bounded_write(fd, &probe, sizeof probe, err);
}

int muster_allreduce_probe(const char *nccl, unsigned deadline_s,
                           struct muster_allreduce_probe *probe, struct muster_err *err)
{
    char *bytes = NULL;
    size_t n;
    if (muster_bounded("the CUDA driver or NCCL", probe_work, (void *)(uintptr_t)nccl,
                       deadline_s * 1000, &bytes, &n, err))
        return -1;
    int rc = n == sizeof *probe ? 0 : muster_fail(err, "the CUDA driver or NCCL gave no answer");
    if (rc == 0) {
        memcpy(probe, bytes, n);
        muster_text_clean(probe->gpu, sizeof probe->gpu);
    }
    free(bytes);
    return rc;
}
