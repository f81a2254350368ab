/* Members that connect to the leader: what the leader sends is kept, and each connection goes on
 * where it is, so that whoever comes late hears all of it. */
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/text.h"
#include "doctor/hosts/hosts_channel.h"
#include "doctor/hosts/hosts_lines.h"
#include "launch/connect.h"

enum {
    MESSAGES = 8,   /* messages of a leader: it has four to send */
    STRANGERS = 64, /* connections that have not sent who they are */
    JOIN_LINE = 160,
    HELLO_MS = 10000,
    JOIN_MS = 120000,
    RETRY_MS = 500,
    FLUSH_MS = 2000,
    SILENT_MS = 60000, /* a host that is gone without a word */
    WAITING = 1024,
};

/* One connection. */
struct line {
    int fd;          /* -1: none */
    int member;      /* -1: not known yet */
    uint64_t end_ns; /* until when it has to send that */
    char first[JOIN_LINE];
    size_t got; /* of `first` */
    struct muster_hosts_stream stream;
    struct muster_hosts_text text;
    unsigned at; /* message that it is being sent */
    size_t sent; /* bytes of that */
};

struct meet {
    struct muster_arena memory; /* of all of it, but what streams grow and what is sent */
    unsigned members;
    char key[96];
    int listener;
    struct line *line; /* members, then strangers; a member's own: one */
    unsigned lines;
    struct pollfd *poll; /* of each line, and the listener */
    struct {
        char *bytes;
        size_t n;
    } message[MESSAGES];
    unsigned messages;
};

/* ---- words ---- */

int muster_hosts_meet_place(const char *at, char *host, uint16_t *port, struct muster_err *err)
{
    const char *colon = strrchr(at, ':');
    uint64_t number;
    size_t n = colon ? (size_t)(colon - at) : 0, skip = at[0] == '[' && n > 1 && colon[-1] == ']';
    if (n <= 2 * skip || n >= 256 || !muster_text_u64(colon + 1, &number) || number == 0 ||
        number > UINT16_MAX)
        return muster_fail(err,
                           "--rendezvous \"%.200s\": expected HOST:PORT, a port of the first "
                           "process's host",
                           at);
    memcpy(host, at + skip, n - 2 * skip);
    host[n - 2 * skip] = '\0';
    *port = (uint16_t)number;
    return 0;
}

void muster_hosts_meet_line(const char *key, unsigned member, char *line)
{
    snprintf(line, JOIN_LINE, "@muster-join %u %.95s\n", member, key);
}

bool muster_hosts_meet_read(const char *line, const char *key, unsigned members, unsigned *member)
{
    char wanted[JOIN_LINE];
    unsigned number;
    if (sscanf(line, "@muster-join %u ", &number) != 1 || number >= members)
        return false;
    muster_hosts_meet_line(key, number, wanted);
    wanted[strcspn(wanted, "\n")] = '\0';
    *member = number;
    return strcmp(line, wanted) == 0;
}

/* ---- both ends ---- */

static void forget(struct line *line)
{
    if (line->fd >= 0)
        close(line->fd);
    muster_hosts_stream_free(&line->stream);
    free(line->text.bytes);
    *line = (struct line){.fd = -1, .member = -1};
}

static void meet_close(void *self)
{
    struct meet *meet = self;
    for (unsigned i = 0; i < meet->lines; i++)
        forget(&meet->line[i]);
    for (unsigned i = 0; i < meet->messages; i++)
        free(meet->message[i].bytes);
    if (meet->listener >= 0)
        close(meet->listener);
    struct muster_arena memory = meet->memory;
    muster_arena_free(&memory);
}

/* A peer that has gone without a word is noticed within a minute. */
static void watch(int fd)
{
    unsigned silent_ms = SILENT_MS;
    int on = 1, seconds = 10, times = 5;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent_ms, sizeof silent_ms);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* What came on a connection into its stream. false: it has ended. */
static bool hear(struct line *line)
{
    char bytes[16384];
    ssize_t n = recv(line->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    return n > 0 && muster_hosts_stream_add(&line->stream, bytes, (size_t)n);
}

/* A message that is there whole. */
static bool take_whole(struct line *line, const char **text, size_t *size)
{
    if (muster_hosts_stream_take(&line->stream, &line->text, 1) < 0)
        return false;
    *text = line->text.bytes;
    *size = line->text.n;
    return true;
}

/* ---- the leader ---- */

static bool has_unsent(const struct meet *meet, const struct line *line)
{
    return line->fd >= 0 && line->member >= 0 && line->at < meet->messages;
}

static void send_some(struct meet *meet, struct line *line)
{
    while (has_unsent(meet, line)) {
        ssize_t n = send(line->fd, meet->message[line->at].bytes + line->sent,
                         meet->message[line->at].n - line->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0)
            return; /* no room now; what has ended is seen where it is read */
        line->sent += (size_t)n;
        if (line->sent == meet->message[line->at].n) {
            line->at++;
            line->sent = 0;
        }
    }
}

static void take_in(struct meet *meet)
{
    for (;;) {
        int fd = accept4(meet->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        unsigned at = meet->members;
        if (fd < 0)
            return;
        while (at < meet->lines && meet->line[at].fd >= 0)
            at++;
        if (at == meet->lines) {
            close(fd);
            return;
        }
        watch(fd);
        meet->line[at] = (struct line){
            .fd = fd, .member = -1, .end_ns = muster_now_ns() + HELLO_MS * MUSTER_NS_PER_MS};
    }
}

/* A stranger's first line, a byte at a time, so that what follows stays for its stream. */
static void learn(struct meet *meet, struct line *stranger)
{
    unsigned member;
    char byte;
    ssize_t n;
    while ((n = recv(stranger->fd, &byte, 1, MSG_DONTWAIT)) == 1) {
        if (byte != '\n' && stranger->got < JOIN_LINE - 1) {
            stranger->first[stranger->got++] = byte;
            continue;
        }
        stranger->first[stranger->got] = '\0';
        if (byte == '\n' &&
            muster_hosts_meet_read(stranger->first, meet->key, meet->members, &member) &&
            meet->line[member].fd < 0 && !meet->line[member].end_ns) {
            meet->line[member] =
                (struct line){.fd = stranger->fd, .member = (int)member, .end_ns = UINT64_MAX};
            stranger->fd = -1;
            send_some(meet, &meet->line[member]);
        }
        forget(stranger);
        return;
    }
    if (n == 0 || errno != EAGAIN || muster_now_ns() > stranger->end_ns)
        forget(stranger);
}

/* A member whose connection has ended stays known as such. */
static void lose(struct line *line)
{
    forget(line);
    line->end_ns = UINT64_MAX;
}

static void wait_for_any(struct meet *meet, int wait_ms)
{
    nfds_t n = 0;
    meet->poll[n++] = (struct pollfd){.fd = meet->listener, .events = POLLIN};
    for (unsigned i = 0; i < meet->lines; i++)
        meet->poll[n++] = (struct pollfd){
            .fd = meet->line[i].fd,
            .events = (short)(POLLIN | (has_unsent(meet, &meet->line[i]) ? POLLOUT : 0))};
    if (poll(meet->poll, n, wait_ms) <= 0)
        for (nfds_t i = 0; i < n; i++)
            meet->poll[i].revents = 0;
}

static void serve(struct meet *meet, int wait_ms)
{
    wait_for_any(meet, wait_ms);
    for (unsigned i = 0; i < meet->lines; i++) {
        struct line *line = &meet->line[i];
        if (line->fd < 0)
            continue;
        if (i >= meet->members) {
            learn(meet, line);
            continue;
        }
        send_some(meet, line);
        if (meet->poll[i + 1].revents & (POLLIN | POLLHUP | POLLERR) && !hear(line))
            lose(line);
    }
    if (meet->poll[0].revents)
        take_in(meet);
}

static int lead_take(void *self, unsigned wait_ms, unsigned *from, const char **text, size_t *size,
                     struct muster_err *err)
{
    struct meet *meet = self;
    uint64_t end_ns = muster_now_ns() + wait_ms * MUSTER_NS_PER_MS;
    (void)err;
    for (;;) {
        for (unsigned i = 0; i < meet->members; i++)
            if (meet->line[i].fd >= 0 && take_whole(&meet->line[i], text, size)) {
                *from = i;
                return 1;
            }
        uint64_t now_ns = muster_now_ns();
        if (now_ns >= end_ns)
            return 0;
        serve(meet, (int)((end_ns - now_ns) / MUSTER_NS_PER_MS) + 1);
    }
}

static int lead_send(void *self, const char *text, struct muster_err *err)
{
    struct meet *meet = self;
    if (meet->messages == MESSAGES)
        return muster_fail(err, "more to say than there is room for");
    meet->message[meet->messages].bytes =
        muster_hosts_lines(0, text, &meet->message[meet->messages].n);
    if (!meet->message[meet->messages].bytes)
        return muster_fail_memory(err, "a message");
    meet->messages++;
    for (unsigned i = 0; i < meet->members; i++)
        send_some(meet, &meet->line[i]);
    return 0;
}

static const char *lead_lost(void *self, unsigned member)
{
    const struct meet *meet = self;
    return meet->line[member].fd < 0 && meet->line[member].end_ns
               ? "its connection to the first process ended"
               : NULL;
}

/* What was sent last reaches those who still listen. */
static void lead_close(void *self)
{
    struct meet *meet = self;
    uint64_t end_ns = muster_now_ns() + FLUSH_MS * MUSTER_NS_PER_MS;
    bool open = true;
    while (open && muster_now_ns() < end_ns) {
        open = false;
        for (unsigned i = 0; i < meet->members; i++)
            open |= has_unsent(meet, &meet->line[i]);
        if (open)
            serve(meet, 50);
    }
    meet_close(meet);
}

static int listen_at(uint16_t port, struct muster_err *err)
{
    const struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    const struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    int off = 0, on = 1, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool six = fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0;
    if (fd >= 0 && !six)
        close(fd);
    if (!six)
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return muster_fail(err, "no socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if ((six ? bind(fd, (const struct sockaddr *)&any6, sizeof any6)
             : bind(fd, (const struct sockaddr *)&any4, sizeof any4)) == 0 &&
        listen(fd, WAITING) == 0)
        return fd;
    muster_fail(err,
                "cannot listen on port %u: %s; --rendezvous HOST:PORT names another one, "
                "--share DIR a folder instead",
                port, strerror(errno));
    close(fd);
    return -1;
}

static struct meet *meet_new(const char *key, unsigned members, unsigned lines,
                             struct muster_err *err)
{
    struct muster_arena memory = {0};
    struct meet *meet = muster_arena_array(&memory, 1, sizeof *meet);
    struct line *line = muster_arena_array(&memory, lines, sizeof *line);
    struct pollfd *poll = muster_arena_array(&memory, lines + 1ul, sizeof *poll);
    if (muster_arena_check(&memory, err, "the connections")) {
        muster_arena_free(&memory);
        return NULL;
    }
    *meet = (struct meet){memory,         .members = members, .lines = lines,
                          .listener = -1, .line = line,       .poll = poll};
    muster_text_copy(meet->key, sizeof meet->key, key);
    for (unsigned i = 0; i < lines; i++)
        meet->line[i] = (struct line){.fd = -1, .member = -1};
    return meet;
}

int muster_hosts_meet_lead(const char *at, const char *key, unsigned n,
                           struct muster_hosts_channel *channel, struct muster_err *err)
{
    char host[256];
    uint16_t port;
    struct rlimit files;
    if (muster_hosts_meet_place(at, host, &port, err))
        return -1;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    struct meet *meet = meet_new(key, n, n + STRANGERS, err);
    if (!meet || (meet->listener = listen_at(port, err)) < 0) {
        if (meet)
            meet_close(meet);
        return -1;
    }
    *channel = (struct muster_hosts_channel){meet, lead_send, lead_take, lead_lost, lead_close};
    return 0;
}

/* ---- a member ---- */

static int join_take(void *self, unsigned wait_ms, unsigned *from, const char **text, size_t *size,
                     struct muster_err *err)
{
    struct meet *meet = self;
    uint64_t end_ns = muster_now_ns() + wait_ms * MUSTER_NS_PER_MS;
    struct pollfd heard = {.fd = meet->line->fd, .events = POLLIN};
    *from = 0;
    for (;;) {
        if (take_whole(meet->line, text, size))
            return 1;
        uint64_t now_ns = muster_now_ns();
        int left_ms = now_ns < end_ns ? (int)((end_ns - now_ns) / MUSTER_NS_PER_MS) + 1 : 0;
        int n = poll(&heard, 1, left_ms);
        if (n > 0 && !hear(meet->line))
            return muster_fail(err, "the leader has gone");
        if (n == 0 && left_ms == 0)
            return 0;
    }
}

static int join_send(void *self, const char *text, struct muster_err *err)
{
    struct meet *meet = self;
    size_t n, at = 0;
    char *bytes = muster_hosts_lines(0, text, &n);
    if (!bytes)
        return muster_fail_memory(err, "a message");
    while (at < n) {
        ssize_t sent = send(meet->line->fd, bytes + at, n - at, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0) {
            muster_fail(err, "the leader does not listen: %s", strerror(errno));
            break;
        }
        at += (size_t)sent;
    }
    free(bytes);
    return at < n ? -1 : 0;
}

static int connect_to(const char *host, uint16_t port, struct muster_err *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const struct timespec pause = {0, (long)(RETRY_MS * MUSTER_NS_PER_MS)};
    uint64_t end_ns = muster_now_ns() + JOIN_MS * MUSTER_NS_PER_MS;
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    for (;;) {
        struct addrinfo *list = NULL;
        int rc = getaddrinfo(host, service, &hints, &list),
            fd = rc ? -1 : muster_connect_any(list, SILENT_MS / 1000);
        const char *why = rc ? gai_strerror(rc) : strerror(errno);
        if (!rc)
            freeaddrinfo(list);
        if (fd >= 0)
            return fd;
        if (muster_now_ns() >= end_ns)
            return muster_fail(err,
                               "no first process answers at %s port %u: %s; is that its "
                               "host (MASTER_ADDR, --rendezvous), and its port open?",
                               host, port, why);
        nanosleep(&pause, NULL);
    }
}

int muster_hosts_meet_join(const char *at, const char *key, unsigned member,
                           struct muster_hosts_channel *channel, struct muster_err *err)
{
    char host[256], first[JOIN_LINE];
    uint16_t port;
    if (muster_hosts_meet_place(at, host, &port, err))
        return -1;
    struct meet *meet = meet_new(key, 1, 1, err);
    if (!meet)
        return -1;
    meet->line->fd = connect_to(host, port, err);
    muster_hosts_meet_line(meet->key, member, first);
    if (meet->line->fd < 0) {
        meet_close(meet);
        return -1;
    }
    watch(meet->line->fd);
    if (send(meet->line->fd, first, strlen(first), MSG_NOSIGNAL) != (ssize_t)strlen(first)) {
        meet_close(meet);
        return muster_fail(err, "the leader at %s does not listen", at);
    }
    *channel = (struct muster_hosts_channel){meet, join_send, join_take, NULL, meet_close};
    return 0;
}
