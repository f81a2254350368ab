#include "doctor/hosts/hosts_reach.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "doctor/hosts/hosts_frames.h"
#include "doctor/hosts/hosts_patience.h"

enum { EVENTS = 256, FRAME_MAX = 65536, DATAGRAMS = 64 };

enum role { LISTENS, DATAGRAM, ANSWERS, ASKS };

struct line {
    enum role role;
    int fd;
    struct line *before, *next; /* of those that are open */
    unsigned peer, target;      /* ASKS */
    uint64_t end_ns;
    size_t got;
    bool asked;
    struct muster_hosts_packet packet;
};

struct muster_hosts_reach {
    const struct muster_hosts_ear *ear;
    int epoll;
    struct line lines; /* the ring's head */
    unsigned open;     /* that ASK */
    unsigned at_once;
    const struct muster_hosts_member *members;
    unsigned n, self, timeout_ms;
    unsigned peer, target; /* the last that was asked; peer counts from self */
    size_t *first;         /* of each member, where its targets begin in ends */
    char *ends;
    struct muster_hosts_frames *frames;
};

static struct line *add(struct muster_hosts_reach *reach, enum role role, int fd, uint32_t events)
{
    struct line *line = calloc(1, sizeof *line);
    struct epoll_event event = {.events = events, .data = {.ptr = line}};
    if (!line || epoll_ctl(reach->epoll, EPOLL_CTL_ADD, fd, &event)) {
        free(line);
        return NULL;
    }
    line->role = role;
    line->fd = fd;
    line->before = &reach->lines;
    line->next = reach->lines.next;
    line->next->before = line;
    reach->lines.next = line;
    return line;
}

static void drop(struct muster_hosts_reach *reach, struct line *line)
{
    line->before->next = line->next;
    line->next->before = line->before;
    if (line->role == LISTENS || line->role == DATAGRAM)
        epoll_ctl(reach->epoll, EPOLL_CTL_DEL, line->fd, NULL); /* the ear's own */
    else
        close(line->fd);
    reach->open -= line->role == ASKS;
    free(line);
}

static void end(struct muster_hosts_reach *reach, struct line *line, enum muster_hosts_end how)
{
    /* no TIME_WAIT: thousands of them would keep ports from the job that follows */
    const struct linger reset = {1, 0};
    reach->ends[reach->first[line->peer] + line->target] = (char)how;
    setsockopt(line->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    drop(reach, line);
}

static enum muster_hosts_end end_of(int error)
{
    switch (error) {
    case ECONNREFUSED:
        return MUSTER_HOSTS_REFUSED;
    case ETIMEDOUT:
    case EINPROGRESS:
        return MUSTER_HOSTS_SILENT;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
        return MUSTER_HOSTS_NO_ROUTE;
    case ECONNRESET:
        return MUSTER_HOSTS_STRANGER; /* no muster that is asked hangs up */
    default:
        return MUSTER_HOSTS_FAILED;
    }
}

static void ask(struct muster_hosts_reach *reach, unsigned peer, unsigned target)
{
    struct sockaddr_storage to;
    socklen_t size;
    char *how = &reach->ends[reach->first[peer] + target];
    muster_hosts_target(&reach->members[peer], target, &to, &size);
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        *how = MUSTER_HOSTS_FAILED;
        return;
    }
    if (connect(fd, (struct sockaddr *)&to, size) && errno != EINPROGRESS) {
        *how = (char)end_of(errno);
        close(fd);
        return;
    }
    struct line *line = add(reach, ASKS, fd, EPOLLOUT);
    if (!line) {
        *how = MUSTER_HOSTS_FAILED;
        close(fd);
        return;
    }
    line->peer = peer;
    line->target = target;
    bool silent = reach->ends[reach->first[peer]] == MUSTER_HOSTS_SILENT;
    unsigned timeout_ms = reach->timeout_ms / (silent ? MUSTER_HOSTS_IMPATIENCE : 1);
    line->end_ns = muster_now_ns() + timeout_ms * MUSTER_NS_PER_MS;
    reach->open++;
}

/* The next connections: the first target of all, then the second, so that a member that does not
 * answer at all costs less patience with its other targets. */
static void ask_more(struct muster_hosts_reach *reach)
{
    while (reach->n && reach->target < MUSTER_HOSTS_TARGETS && reach->open < reach->at_once) {
        if (++reach->peer >= reach->n) {
            reach->peer = 0;
            reach->target++;
            continue;
        }
        unsigned peer = (reach->self + reach->peer) % reach->n;
        unsigned port = reach->target < MUSTER_HOSTS_PORTS ? reach->target : 0;
        if (reach->target < muster_hosts_targets(&reach->members[peer]) &&
            reach->members[peer].port[port] && reach->members[reach->self].addresses)
            ask(reach, peer, reach->target);
    }
}

static void go_on_asking(struct muster_hosts_reach *reach, struct line *line)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (!line->asked) {
        const struct muster_hosts_packet packet =
            muster_hosts_packet(reach->ear, MUSTER_HOSTS_ASK, line->peer, 0);
        struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = line}};
        if (getsockopt(line->fd, SOL_SOCKET, SO_ERROR, &error, &size) || error)
            end(reach, line, end_of(error));
        else if (send(line->fd, &packet, sizeof packet, MSG_NOSIGNAL) != (ssize_t)sizeof packet ||
                 epoll_ctl(reach->epoll, EPOLL_CTL_MOD, line->fd, &event))
            end(reach, line, MUSTER_HOSTS_FAILED);
        else
            line->asked = true;
        return;
    }
    ssize_t n =
        recv(line->fd, (char *)&line->packet + line->got, sizeof line->packet - line->got, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        end(reach, line, n ? end_of(errno) : MUSTER_HOSTS_STRANGER);
        return;
    }
    line->got += (size_t)n;
    if (line->got == sizeof line->packet)
        end(reach, line,
            muster_hosts_packet_is(&line->packet, MUSTER_HOSTS_ANSWER) &&
                    line->packet.token == reach->members[line->peer].token
                ? MUSTER_HOSTS_REACHED
                : MUSTER_HOSTS_STRANGER);
}

static void go_on_answering(struct muster_hosts_reach *reach, struct line *line)
{
    char rest[64];
    bool whole = line->got == sizeof line->packet;
    ssize_t n = whole ? recv(line->fd, rest, sizeof rest, 0)
                      : recv(line->fd, (char *)&line->packet + line->got,
                             sizeof line->packet - line->got, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        drop(reach, line);
        return;
    }
    line->got += whole ? 0 : (size_t)n;
    if (whole || line->got < sizeof line->packet)
        return;
    const struct muster_hosts_packet answer =
        muster_hosts_packet(reach->ear, MUSTER_HOSTS_ANSWER, line->packet.cookie, 0);
    if (!muster_hosts_packet_is(&line->packet, MUSTER_HOSTS_ASK) ||
        send(line->fd, &answer, sizeof answer, MSG_NOSIGNAL) != (ssize_t)sizeof answer)
        drop(reach, line);
}

static void go_on_with_datagrams(struct muster_hosts_reach *reach)
{
    static union {
        struct muster_hosts_packet packet;
        char bytes[FRAME_MAX];
    } in;
    for (int i = 0; i < DATAGRAMS; i++) {
        struct sockaddr_storage from;
        socklen_t size = sizeof from;
        ssize_t n = recvfrom(reach->ear->udp, in.bytes, sizeof in.bytes, MSG_DONTWAIT,
                             (struct sockaddr *)&from, &size);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < (ssize_t)sizeof in.packet)
            continue;
        if (muster_hosts_packet_is(&in.packet, MUSTER_HOSTS_ASK)) {
            const struct muster_hosts_packet answer = muster_hosts_packet(
                reach->ear, MUSTER_HOSTS_ANSWER, in.packet.cookie, in.packet.number);
            muster_hosts_datagram(reach->ear, &answer, sizeof answer, &from, size);
        } else if (muster_hosts_packet_is(&in.packet, MUSTER_HOSTS_ANSWER) && reach->frames) {
            muster_hosts_frames_answer(reach->frames, &in.packet);
        }
    }
}

static void accept_all(struct muster_hosts_reach *reach, const struct line *line)
{
    int fd;
    while ((fd = accept4(line->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
        if (!add(reach, ANSWERS, fd, EPOLLIN))
            close(fd);
}

static void end_the_late(struct muster_hosts_reach *reach)
{
    uint64_t now_ns = muster_now_ns();
    for (struct line *line = reach->lines.next, *next; line != &reach->lines; line = next) {
        next = line->next;
        if (line->role == ASKS && now_ns >= line->end_ns)
            end(reach, line, MUSTER_HOSTS_SILENT);
    }
}

bool muster_hosts_reach_step(struct muster_hosts_reach *reach, unsigned wait_ms)
{
    struct epoll_event event[EVENTS];
    ask_more(reach);
    bool over = !reach->frames || muster_hosts_frames_step(reach->frames, muster_now_ns());
    int n = epoll_wait(reach->epoll, event, EVENTS, (int)wait_ms);
    for (int i = 0; i < n; i++) {
        struct line *line = event[i].data.ptr;
        switch (line->role) {
        case LISTENS:
            accept_all(reach, line);
            break;
        case DATAGRAM:
            go_on_with_datagrams(reach);
            break;
        case ANSWERS:
            go_on_answering(reach, line);
            break;
        case ASKS:
            go_on_asking(reach, line);
            break;
        }
    }
    end_the_late(reach);
    return over && reach->target >= MUSTER_HOSTS_TARGETS && reach->open == 0;
}

/* Each of a thousand others may hold one of this process's files. */
static unsigned allow_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return MUSTER_HOSTS_CONNECTS / 4;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur / 4 < MUSTER_HOSTS_CONNECTS ? (unsigned)(limit.rlim_cur / 4)
                                                      : MUSTER_HOSTS_CONNECTS;
}

struct muster_hosts_reach *muster_hosts_reach_new(const struct muster_hosts_ear *ear,
                                                  struct muster_err *err)
{
    struct muster_hosts_reach *reach = calloc(1, sizeof *reach);
    if (!reach || (reach->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0) {
        free(reach);
        muster_fail(err, "cannot wait for connections: %s", strerror(errno));
        return NULL;
    }
    reach->ear = ear;
    reach->lines.next = reach->lines.before = &reach->lines;
    reach->at_once = allow_files();
    bool ok = true;
    for (unsigned i = 0; i < MUSTER_HOSTS_PORTS; i++)
        ok &= ear->tcp[i] < 0 || add(reach, LISTENS, ear->tcp[i], EPOLLIN);
    ok &= ear->udp < 0 || add(reach, DATAGRAM, ear->udp, EPOLLIN);
    if (!ok) {
        muster_fail(err, "cannot wait for connections: %s", strerror(errno));
        muster_hosts_reach_free(reach);
        return NULL;
    }
    return reach;
}

void muster_hosts_reach_begin(struct muster_hosts_reach *reach,
                              const struct muster_hosts_member *members, unsigned n, unsigned self,
                              unsigned timeout_ms, struct muster_arena *memory)
{
    size_t all = 0;
    reach->members = members;
    reach->self = self;
    reach->timeout_ms = timeout_ms;
    reach->first = muster_arena_array(memory, n + 1ul, sizeof *reach->first);
    for (unsigned i = 0; reach->first && i < n; i++) {
        reach->first[i] = all;
        all += muster_hosts_targets(&members[i]);
    }
    reach->ends = muster_arena_array(memory, all + 1, 1);
    reach->frames = muster_hosts_frames_new(reach->ear, members, n, self, memory);
    if (memory->failed)
        return;
    memset(reach->ends, MUSTER_HOSTS_UNTESTED, all);
    reach->n = n;
}

void muster_hosts_reach_result(const struct muster_hosts_reach *reach,
                               struct muster_hosts_message *message)
{
    message->ends = reach->ends;
    message->n = reach->n;
    muster_hosts_frames_result(reach->frames, message);
}

void muster_hosts_reach_free(struct muster_hosts_reach *reach)
{
    if (!reach)
        return;
    while (reach->lines.next != &reach->lines)
        drop(reach, reach->lines.next); /* NOLINT(clang-analyzer-unix.Malloc): next is another */
    close(reach->epoll);
    free(reach);
}
