/* Members behind pipes: the leader's children, or the process that started this one. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/text.h"
#include "doctor/hosts/hosts_channel.h"
#include "doctor/hosts/hosts_lines.h"
#include "launch/child.h"

enum { WORDS = 64, SEND_MS = 10000, PIECE = 64 << 10, CLOSE_MS = 2000 };

/* A started process, or the one that started this. */
struct peer {
    pid_t pid;        /* 0: none, or ended */
    int in, out, err; /* its standard input, output, error; -1: closed */
    struct muster_hosts_stream stream, errors;
    char lost[320];
};

struct pipes {
    struct muster_arena memory; /* of all of it, but what streams grow */
    struct peer *peer;
    unsigned peers, members, own; /* own: this member's number */
    bool leads;
    struct muster_hosts_text *text; /* of each member, the message that is coming */
    struct pollfd *poll;
    unsigned next; /* peer to be looked at first: none has to wait for the others */
};

static void shut(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void pipes_close(void *self)
{
    struct pipes *pipes = self;
    for (unsigned i = 0; i < pipes->peers; i++)
        shut(&pipes->peer[i].in); /* they end by themselves */
    for (unsigned i = 0; i < pipes->peers; i++) {
        struct peer *peer = &pipes->peer[i];
        if (peer->pid && !muster_child_wait(peer->pid, CLOSE_MS, NULL))
            muster_child_kill(peer->pid, NULL);
        shut(&peer->out);
        shut(&peer->err);
        muster_hosts_stream_free(&peer->stream);
        muster_hosts_stream_free(&peer->errors);
    }
    for (unsigned i = 0; i < pipes->members; i++)
        free(pipes->text[i].bytes);
    struct muster_arena memory = pipes->memory;
    muster_arena_free(&memory);
}

static void lose(struct peer *peer, const char *why)
{
    const char *text = peer->errors.other[0] ? peer->errors.other : peer->stream.other;
    shut(&peer->in);
    shut(&peer->out);
    if (!peer->lost[0])
        snprintf(peer->lost, sizeof peer->lost, "%s%s%s", text, *text ? "; " : "", why);
}

static int send_to(struct peer *peer, const char *bytes, size_t n)
{
    uint64_t end_ns = muster_now_ns() + SEND_MS * MUSTER_NS_PER_MS;
    while (n > 0) {
        ssize_t wrote = write(peer->in, bytes, n);
        if (wrote > 0) {
            bytes += wrote;
            n -= (size_t)wrote;
            continue;
        }
        struct pollfd poll_in = {.fd = peer->in, .events = POLLOUT};
        if ((wrote < 0 && errno != EAGAIN && errno != EINTR) || muster_now_ns() > end_ns)
            return -1;
        poll(&poll_in, 1, 100);
    }
    return 0;
}

static int pipes_send(void *self, const char *text, struct muster_err *err)
{
    struct pipes *pipes = self;
    size_t size;
    char *lines = muster_hosts_lines(pipes->own, text, &size);
    int rc = lines ? 0 : muster_fail_memory(err, "a message");
    for (unsigned i = 0; lines && i < pipes->peers; i++) {
        struct peer *peer = &pipes->peer[i];
        if (peer->in < 0 || send_to(peer, lines, size) == 0)
            continue;
        lose(peer, "it takes no more input");
        if (!pipes->leads)
            rc = muster_fail(err, "the leader has gone");
    }
    free(lines);
    return rc;
}

/* What a stream has; false: its end. */
static bool drain(int fd, struct muster_hosts_stream *stream)
{
    static char bytes[PIECE];
    ssize_t n = read(fd, bytes, sizeof bytes);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    return n > 0 && muster_hosts_stream_add(stream, bytes, (size_t)n);
}

static void drain_peer(struct peer *peer, short out, short err)
{
    /* errors first: they have why the output ended */
    if (err && peer->err >= 0) {
        bool more = drain(peer->err, &peer->errors);
        muster_hosts_stream_take(&peer->errors, NULL, 0);
        if (!more)
            shut(&peer->err);
    }
    if (out && peer->out >= 0 && !drain(peer->out, &peer->stream))
        lose(peer, "it ended");
}

/* Waits for bytes of any peer. False: nobody is left. */
static bool wait_for_bytes(struct pipes *pipes, unsigned wait_ms)
{
    bool any = false;
    for (unsigned i = 0; i < pipes->peers; i++) {
        struct peer *peer = &pipes->peer[i];
        pipes->poll[2 * i] = (struct pollfd){.fd = peer->out, .events = POLLIN};
        pipes->poll[2 * i + 1] = (struct pollfd){.fd = peer->err, .events = POLLIN};
        any |= peer->out >= 0;
    }
    if (!any || poll(pipes->poll, 2ul * pipes->peers, (int)wait_ms) <= 0)
        return any;
    for (unsigned i = 0; i < pipes->peers; i++)
        drain_peer(&pipes->peer[i], pipes->poll[2 * i].revents, pipes->poll[2 * i + 1].revents);
    return true;
}

/* A complete message of those whose bytes are here; -1. */
static int take_message(struct pipes *pipes)
{
    for (unsigned i = 0; i < pipes->peers; i++) {
        unsigned at = (pipes->next + i) % pipes->peers;
        int member = muster_hosts_stream_take(&pipes->peer[at].stream, pipes->text, pipes->members);
        if (member >= 0) {
            pipes->next = at + 1;
            return member;
        }
    }
    return -1;
}

static int pipes_take(void *self, unsigned wait_ms, unsigned *from, const char **text, size_t *size,
                      struct muster_err *err)
{
    struct pipes *pipes = self;
    int member = take_message(pipes);
    bool any = true;
    if (member < 0) {
        any = wait_for_bytes(pipes, wait_ms);
        member = take_message(pipes);
    }
    if (member < 0)
        return any ? 0 : muster_fail(err, "nobody is left to listen to");
    *from = (unsigned)member;
    *text = pipes->text[member].bytes;
    *size = pipes->text[member].n;
    return 1;
}

static const char *pipes_lost(void *self, unsigned member)
{
    struct pipes *pipes = self;
    struct peer *peer = &pipes->peer[pipes->peers == 1 ? 0 : member];
    return peer->lost[0] ? peer->lost : NULL;
}

static struct pipes *pipes_new(unsigned peers, unsigned members,
                               struct muster_hosts_channel *channel, struct muster_err *err)
{
    struct muster_arena memory = {0};
    struct pipes *pipes = muster_arena_array(&memory, 1, sizeof *pipes);
    struct peer *peer = muster_arena_array(&memory, peers, sizeof *peer);
    struct pollfd *poll = muster_arena_array(&memory, 2ul * peers, sizeof *poll);
    struct muster_hosts_text *text = muster_arena_array(&memory, members, sizeof *text);
    if (muster_arena_check(&memory, err, "the hosts")) {
        muster_arena_free(&memory);
        return NULL;
    }
    *pipes = (struct pipes){memory, .members = members, .peer = peer, .poll = poll, .text = text};
    *channel =
        (struct muster_hosts_channel){pipes, pipes_send, pipes_take, pipes_lost, pipes_close};
    return pipes;
}

/* ---- the leader's ---- */

/* The words of the launcher for a host, then the command and the member's number. */
static int write_command(const char *launcher, const char *const *command, const char *host,
                         const char *member, struct muster_arena *arena, const char **word)
{
    unsigned n = 0;
    for (size_t length; *(launcher += strspn(launcher, " ")); launcher += length) {
        length = strcspn(launcher, " ");
        const char *mark = memmem(launcher, length, "{}", 2);
        if (n + 1 >= WORDS)
            return -1;
        word[n++] = mark
                        ? muster_arena_format(arena, "%.*s%s%.*s", (int)(mark - launcher), launcher,
                                              host, (int)(launcher + length - mark - 2), mark + 2)
                        : muster_arena_format(arena, "%.*s", (int)length, launcher);
    }
    for (; *command && n + 2 < WORDS; command++)
        word[n++] = *command;
    word[n++] = member;
    word[n] = NULL;
    return 0;
}

static int start_peer(struct peer *peer, const char *const *argv, struct muster_err *err)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, errors[2] = {-1, -1}, rc = -1;
    *peer = (struct peer){.in = -1, .out = -1, .err = -1};
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(errors, O_CLOEXEC)) {
        muster_fail(err, "cannot make a pipe: %s; a higher limit of open files (ulimit -n) helps",
                    strerror(errno));
    } else {
        const int files[3] = {in[0], out[1], errors[1]};
        const struct muster_child child = {.argv = argv,
                                           .files = files,
                                           .default_signals = true,
                                           .group = true,
                                           .orphaned = SIGTERM};
        rc = muster_child_start(&child, &peer->pid, err) ? -1 : 0;
    }
    shut(&in[0]);
    shut(&out[1]);
    shut(&errors[1]);
    if (rc) {
        shut(&in[1]);
        shut(&out[0]);
        shut(&errors[0]);
        peer->pid = 0;
        return rc;
    }
    peer->in = in[1];
    peer->out = out[0];
    peer->err = errors[0];
    fcntl(peer->in, F_SETFL, O_NONBLOCK);
    fcntl(peer->out, F_SETFL, O_NONBLOCK);
    fcntl(peer->err, F_SETFL, O_NONBLOCK);
    return 0;
}

int muster_hosts_start(const char *launcher, const char *const *command, const char *const *host,
                       unsigned n, struct muster_hosts_channel *channel, struct muster_err *err)
{
    bool each = strstr(launcher, "{}") != NULL;
    struct muster_arena arena = {0};
    struct pipes *pipes = pipes_new(each ? n : 1, n, channel, err);
    int rc = pipes ? 0 : -1;
    if (pipes)
        pipes->leads = true;
    for (unsigned i = 0; rc == 0 && i < (each ? n : 1); i++) {
        const char *argv[WORDS];
        const char *number = each ? muster_arena_format(&arena, "%u", i) : "launcher";
        if (write_command(launcher, command, each ? host[i] : "", number, &arena, argv))
            rc = muster_fail(err, "a launcher of more than %d words", WORDS);
        else if (muster_arena_check(&arena, err, "a command") == 0)
            rc = start_peer(&pipes->peer[i], argv, err);
        else
            rc = -1;
        pipes->peers += rc == 0;
    }
    muster_arena_free(&arena);
    if (rc && pipes)
        pipes_close(pipes);
    return rc;
}

/* ---- a member's ---- */

int muster_hosts_started(unsigned member, struct muster_hosts_channel *channel,
                         struct muster_err *err)
{
    int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (out < 0 || in < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return muster_fail(err, "no standard input or output: %s", strerror(errno));
    /* text[0] holds what the leader sends, which is always number 0 */
    struct pipes *pipes = pipes_new(1, 1, channel, err);
    if (!pipes)
        return -1;
    pipes->own = member;
    pipes->peers = 1;
    pipes->peer[0] = (struct peer){.in = out, .out = in, .err = -1};
    fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK);
    return 0;
}
