#include "launch/connect.h"

#include <errno.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

int muster_connect_any(const struct addrinfo *list, unsigned patience_s)
{
    const struct timeval patience = {.tv_sec = (time_t)patience_s};
    int why = 0;
    for (const struct addrinfo *at = list; at; at = at->ai_next) {
        int fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); /* of connect, too */
        if (connect(fd, at->ai_addr, at->ai_addrlen) == 0)
            return fd;
        why = errno;
        close(fd);
    }
    errno = why;
    return -1;
}
