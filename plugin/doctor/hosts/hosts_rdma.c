#include "doctor/hosts/hosts_rdma.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "doctor/hosts/hosts_pings.h"
#include "launch/child.h"
#include "launch/library_trust.h"

enum {
    OPEN_MS = 8000,
    SEND_S = 5,
    ALL_MS = 25000 /* the child's own 15 s, and what a driver adds */
};

struct muster_hosts_rdma {
    struct muster_arena *memory;
    const char *sysfs;
    uint64_t token;
    int fd, childs; /* both ends; the child's is closed here once it runs */
    pid_t pid;
    bool asked, over;
    uint64_t end_ns;
    size_t wanted, got;
    char *ends;
};

static int work(void *arg)
{
    const struct muster_hosts_rdma *rdma = arg;
    close(rdma->fd);
    return muster_hosts_pings_run(rdma->sysfs, rdma->token, rdma->childs);
}

/* Why NCCL would not use RDMA here; false: it would. */
static bool is_not_wanted(const char *sysfs, struct muster_err *err)
{
    const char *off = muster_env("NCCL_IB_DISABLE"), *net = muster_env("NCCL_NET");
    char pattern[PATH_MAX];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/class/infiniband/*", sysfs);
    bool none = glob(pattern, 0, NULL, &found) != 0;
    if (none)
        muster_fail(err, "no RDMA device");
    else if (off && strtol(off, NULL, 0) != 0)
        muster_fail(err, "NCCL_IB_DISABLE=%.20s", off);
    else if (net && strcasecmp(net, "Socket") == 0)
        muster_fail(err, "NCCL_NET=%.20s", net);
    else if (muster_library_ask("libibverbs.so.1", err) == 0)
        return globfree(&found), false;
    if (!none)
        globfree(&found);
    return true;
}

static int start(struct muster_hosts_rdma *rdma, struct muster_err *err)
{
    int end[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const struct timeval patience = {SEND_S, 0};
    if (null < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, end)) {
        if (null >= 0)
            close(null);
        return muster_fail(err, "no way to a child process: %s", strerror(errno));
    }
    rdma->fd = end[0];
    rdma->childs = end[1];
    setsockopt(rdma->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    const struct muster_child child = {.work = work,
                                       .arg = rdma,
                                       .files = (const int[]){null, null, null},
                                       .group = true,
                                       .orphaned = SIGKILL};
    fflush(NULL);
    int why = muster_child_start(&child, &rdma->pid, err);
    close(null);
    close(rdma->childs);
    if (why)
        close(rdma->fd);
    return why ? -1 : 0;
}

struct muster_hosts_rdma *muster_hosts_rdma_new(const char *sysfs, uint64_t token,
                                                struct muster_arena *memory, struct muster_err *err)
{
    if (is_not_wanted(sysfs, err))
        return NULL;
    struct muster_hosts_rdma *rdma = muster_arena_array(memory, 1, sizeof *rdma);
    if (muster_arena_check(memory, err, "RDMA ports"))
        return NULL;
    *rdma = (struct muster_hosts_rdma){.memory = memory, .sysfs = sysfs, .token = token};
    return start(rdma, err) == 0 ? rdma : NULL;
}

/* What came until `n` bytes were there or the time was over. */
static size_t read_for(int fd, void *to, size_t n, unsigned patience_ms)
{
    uint64_t end_ns = muster_now_ns() + patience_ms * MUSTER_NS_PER_MS;
    struct pollfd heard = {.fd = fd, .events = POLLIN};
    size_t got = 0;
    while (got < n) {
        uint64_t now_ns = muster_now_ns();
        if (now_ns >= end_ns)
            break;
        if (poll(&heard, 1, (int)((end_ns - now_ns) / MUSTER_NS_PER_MS + 1)) <= 0)
            continue;
        ssize_t part = read(fd, (char *)to + got, n - got);
        if (part <= 0 && !(part < 0 && errno == EINTR))
            return SIZE_MAX;
        got += part > 0 ? (size_t)part : 0;
    }
    return got;
}

void muster_hosts_rdma_hello(struct muster_hosts_rdma *rdma, struct muster_hosts_member *member)
{
    struct muster_hosts_pings_hello hello;
    size_t got = read_for(rdma->fd, &hello, sizeof hello, OPEN_MS);
    if (got != sizeof hello) {
        snprintf(member->no_rdma, sizeof member->no_rdma, "%s",
                 got == SIZE_MAX ? "libibverbs or its driver crashed"
                                 : "RDMA ports were not open after 8 s: the driver hangs");
        rdma->over = true;
        return;
    }
    member->rdmas = hello.ports;
    memcpy(member->rdma, hello.port, sizeof member->rdma);
    if (!hello.ports)
        snprintf(member->no_rdma, sizeof member->no_rdma, "%.*s", (int)sizeof member->no_rdma - 1,
                 hello.why.text);
    rdma->over = hello.ports == 0;
}

static bool send_all(int fd, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n) {
        ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
        if (sent <= 0 && !(sent < 0 && errno == EINTR))
            return false;
        at += sent > 0 ? sent : 0;
        n -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

void muster_hosts_rdma_begin(struct muster_hosts_rdma *rdma,
                             const struct muster_hosts_member *members, unsigned n, unsigned self)
{
    const struct muster_hosts_pings_plan plan = {n, self};
    struct muster_hosts_pings_peer *peer = muster_arena_array(rdma->memory, n, sizeof *peer);
    for (unsigned i = 0; peer && i < n; i++) {
        peer[i].token = members[i].token;
        peer[i].ports = members[i].rdmas;
        memcpy(peer[i].port, members[i].rdma, sizeof peer[i].port);
        rdma->wanted += members[i].rdmas;
    }
    rdma->ends = muster_arena_array(rdma->memory, rdma->wanted + 1, 1);
    rdma->asked = !rdma->over && peer && rdma->ends && send_all(rdma->fd, &plan, sizeof plan) &&
                  send_all(rdma->fd, peer, n * sizeof *peer);
    rdma->over = !rdma->asked;
    rdma->end_ns = muster_now_ns() + ALL_MS * MUSTER_NS_PER_MS;
}

bool muster_hosts_rdma_step(struct muster_hosts_rdma *rdma)
{
    if (rdma->over)
        return true;
    ssize_t got = recv(rdma->fd, rdma->ends + rdma->got, rdma->wanted - rdma->got, MSG_DONTWAIT);
    rdma->got += got > 0 ? (size_t)got : 0;
    bool gone = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
    rdma->over = rdma->got == rdma->wanted || gone || muster_now_ns() >= rdma->end_ns;
    if (rdma->over && rdma->got < rdma->wanted) /* hangs or crashed: none of it is known */
        memset(rdma->ends + rdma->got, MUSTER_HOSTS_FAILED, rdma->wanted - rdma->got);
    return rdma->over;
}

const char *muster_hosts_rdma_ends(const struct muster_hosts_rdma *rdma)
{
    return rdma->asked ? rdma->ends : "";
}

void muster_hosts_rdma_end(struct muster_hosts_rdma *rdma)
{
    if (!rdma)
        return;
    close(rdma->fd);
    muster_child_kill(rdma->pid, NULL);
}
