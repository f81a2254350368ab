#include "ras/ras_ask.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "launch/bounded.h"
#include "launch/connect.h"

/* NCCL gives other processes five seconds and five more before it answers without them. */
enum { DEADLINE_MS = 20000, QUIET_S = 15, LINE = 256, MOST = 32 << 20 };

static int split(const char *where, char host[LINE], const char **port, struct muster_err *err)
{
    const char *colon = strrchr(where, ':');
    size_t n = colon ? (size_t)(colon - where) : 0;
    bool brackets = n > 2 && where[0] == '[' && where[n - 1] == ']';
    if (n == 0 || n >= LINE || colon[1] == '\0')
        return muster_fail(
            err, "--ras %.100s: expected HOST:PORT, as in NCCL_RAS_ADDR (localhost:28028)", where);
    snprintf(host, LINE, "%.*s", (int)(brackets ? n - 2 : n), where + brackets);
    *port = colon + 1;
    return 0;
}

static int connect_to(const char *where, struct muster_err *err)
{
    const struct timeval quiet = {.tv_sec = QUIET_S};
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char host[LINE];
    const char *port;
    if (split(where, host, &port, err) != 0)
        return -1;
    int rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0)
        return muster_fail(err, "%s: %s", where, gai_strerror(rc));
    int fd = muster_connect_any(found, 0), why = errno;
    freeaddrinfo(found);
    if (fd < 0)
        return muster_fail(
            err,
            "NCCL's RAS does not answer at %s: %s. It listens on each host of a job with NCCL "
            "2.24 or newer, unless NCCL_RAS_ENABLE=0 is set, for the job's user",
            where, strerror(why));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &quiet, sizeof quiet);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &quiet, sizeof quiet);
    return fd;
}

static int send_line(int fd, const char *line)
{
    size_t n = strlen(line);
    return send(fd, line, n, MSG_NOSIGNAL) == (ssize_t)n ? 0 : -1;
}

static int read_line(int fd, char line[LINE])
{
    for (size_t n = 0; n + 1 < LINE; n++) {
        if (read(fd, &line[n], 1) != 1)
            return -1;
        if (line[n] == '\n') {
            line[n] = '\0';
            return 0;
        }
    }
    return -1;
}

static int talk(int fd, int to, const char *where, struct muster_err *err)
{
    char line[LINE], bytes[1 << 14];
    size_t all = 0;
    ssize_t n;
    if (send_line(fd, "CLIENT PROTOCOL 2\n") != 0 || read_line(fd, line) != 0 ||
        strncasecmp(line, "SERVER PROTOCOL ", 16) != 0)
        return muster_fail(err, "whoever listens at %s is not NCCL's RAS", where);
    if (send_line(fd, "SET FORMAT json\n") != 0 || read_line(fd, line) != 0 ||
        strcasecmp(line, "OK") != 0)
        return muster_fail(
            err, "NCCL's RAS at %s answers in text alone: JSON came with NCCL 2.28.7", where);
    if (send_line(fd, "VERBOSE STATUS\n") != 0)
        return muster_fail(err, "NCCL's RAS at %s ended in the middle", where);
    while ((n = read(fd, bytes, sizeof bytes)) > 0) {
        all += (size_t)n;
        if (all > MOST)
            return muster_fail(err, "NCCL's RAS at %s says more than %d MiB", where, MOST >> 20);
        if (muster_bounded_write(to, bytes, (size_t)n, err) != 0)
            return -1;
    }
    return all ? 0 : muster_fail(err, "NCCL's RAS at %s said nothing for %d s", where, QUIET_S);
}

static int ask(void *arg, int to, struct muster_err *err)
{
    const char *where = arg;
    int fd = connect_to(where, err);
    if (fd < 0)
        return -1;
    int rc = talk(fd, to, where, err);
    close(fd);
    return rc;
}

int muster_ras_ask(const char *where, struct muster_ras_report *report, struct muster_err *err)
{
    char *text = NULL;
    size_t n = 0;
    *report = (struct muster_ras_report){0};
    if (muster_bounded("NCCL's RAS", ask, (void *)(uintptr_t)where, DEADLINE_MS, &text, &n, err) !=
        0)
        return -1;
    int rc = muster_ras_read(where, text, n, report, err);
    free(text);
    return rc;
}
