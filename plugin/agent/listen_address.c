#include "agent/listen_address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"

enum { BACKLOG = 16, HOST_BYTES = 64, PORT_BYTES = 8 };

struct parts {
    char host[HOST_BYTES]; /* "": all addresses */
    char port[PORT_BYTES];
};

static int wrong(const char *where, struct muster_err *err)
{
    return muster_fail(err,
                       "\"%.100s\" is no place to listen; expected ADDR:PORT with an address in "
                       "numbers, as 127.0.0.1:9417 or [::1]:9417, or :PORT for all",
                       where);
}

static int split(const char *where, struct parts *parts, struct muster_err *err)
{
    const char *colon = strrchr(where, ':');
    uint64_t port;
    if (!colon || !muster_text_u64(colon + 1, &port) || port > UINT16_MAX)
        return wrong(where, err);
    const char *host = where;
    size_t n = (size_t)(colon - where);
    if (n >= 2 && host[0] == '[' && host[n - 1] == ']') {
        host++;
        n -= 2;
    } else if (memchr(host, ':', n))
        return wrong(where, err);
    if (n >= sizeof parts->host)
        return wrong(where, err);
    snprintf(parts->host, sizeof parts->host, "%.*s", (int)n, host);
    snprintf(parts->port, sizeof parts->port, "%u", (unsigned)port);
    return 0;
}

static int listen_on(const struct addrinfo *address)
{
    int one = 1, none = 0;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (address->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &none, sizeof none);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static void name_of(int fd, char *name, size_t size)
{
    struct sockaddr_storage own = {0};
    socklen_t bytes = sizeof own;
    char host[HOST_BYTES] = "?", port[PORT_BYTES] = "?";
    if (getsockname(fd, (struct sockaddr *)&own, &bytes) == 0)
        getnameinfo((struct sockaddr *)&own, bytes, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(name, size, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

int muster_listen_open(const char *where, char *name, size_t size, struct muster_err *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    struct parts parts;
    if (split(where, &parts, err) != 0)
        return -1;
    if (getaddrinfo(parts.host[0] ? parts.host : NULL, parts.port, &hints, &list) != 0)
        return wrong(where, err);
    int fd = -1;
    for (const struct addrinfo *one = list; one && fd < 0; one = one->ai_next)
        fd = listen_on(one);
    int error = errno;
    freeaddrinfo(list);
    if (fd < 0)
        return muster_fail(err, "cannot listen on %.100s: %s; %s", where, strerror(error),
                           error == EADDRINUSE
                               ? "does another one serve there already? Else another port: "
                                 "--listen ADDR:PORT"
                               : "give one of this host's addresses: --listen ADDR:PORT, or :PORT "
                                 "for all");
    name_of(fd, name, size);
    return fd;
}
