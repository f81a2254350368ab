#include "doctor/hosts/hosts_ear.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum { TRIES = 64, WAITING = 4096, BUFFER = 8 << 20, FRAME_MAX = 65536 };

const char muster_hosts_magic[8] = "mustrhst";

/* Both families where this host has both. */
static int open_socket(int type, bool *six)
{
    int off = 0, on = 1, fd = socket(AF_INET6, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *six = fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0;
    if (fd >= 0 && !*six)
        close(fd);
    if (!*six)
        fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && (type & SOCK_STREAM))
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return fd;
}

static bool bind_port(int fd, bool six, uint16_t port)
{
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    return six ? bind(fd, (struct sockaddr *)&any6, sizeof any6) == 0
               : bind(fd, (struct sockaddr *)&any4, sizeof any4) == 0;
}

/* The first free port from `port` on. */
static int listen_near(unsigned port, unsigned high, uint16_t *got)
{
    bool six;
    int fd = open_socket(SOCK_STREAM, &six);
    for (unsigned try = 0; fd >= 0 && try < TRIES && port + try <= high; try++) {
        if (bind_port(fd, six, (uint16_t)(port + try)) && listen(fd, WAITING) == 0) {
            *got = (uint16_t)(port + try);
            return fd;
        }
        if (errno != EADDRINUSE && errno != EACCES)
            break;
    }
    if (fd >= 0)
        close(fd);
    *got = 0;
    return -1;
}

static int open_udp(uint16_t *port)
{
    bool six;
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    /* PROBE: full frames whatever the kernel believes of the way */
    int fd = open_socket(SOCK_DGRAM, &six), probe = IP_PMTUDISC_PROBE, room = BUFFER, on = 1;
    if (fd < 0)
        return -1;
    memset(&at, 0, sizeof at);
    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe);
    if (six)
        setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe, sizeof probe);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof on);
    if (!bind_port(fd, six, 0) || getsockname(fd, (struct sockaddr *)&at, &size)) {
        close(fd);
        return -1;
    }
    *port = ntohs(six ? ((struct sockaddr_in6 *)(void *)&at)->sin6_port
                      : ((struct sockaddr_in *)(void *)&at)->sin_port);
    return fd;
}

int muster_hosts_ear_open(struct muster_hosts_ear *ear, struct muster_hosts_member *member,
                          unsigned low, unsigned high, struct muster_err *err)
{
    bool any = false;
    if (low >= high || high > 65535) {
        low = 32768;
        high = 60999;
    }
    unsigned quarter = (high - low + 1) / MUSTER_HOSTS_PORTS;
    for (unsigned i = 0; i < MUSTER_HOSTS_PORTS; i++) {
        ear->tcp[i] = listen_near(low + i * quarter + quarter / 2, high, &member->port[i]);
        any |= ear->tcp[i] >= 0;
    }
    ear->udp = open_udp(&member->frames);
    if (getrandom(&ear->token, sizeof ear->token, 0) != (ssize_t)sizeof ear->token)
        ear->token = muster_unix_ns() ^ (uint64_t)getpid() << 40;
    ear->token &= (1ull << 62) - 1;
    member->token = ear->token;
    member->low = low;
    member->high = high;
    if (any)
        return 0;
    int why = errno;
    muster_hosts_ear_close(ear);
    return muster_fail(err, "cannot listen on ports %u to %u: %s", low, high, strerror(why));
}

void muster_hosts_ear_close(struct muster_hosts_ear *ear)
{
    for (unsigned i = 0; i < MUSTER_HOSTS_PORTS; i++)
        if (ear->tcp[i] >= 0)
            close(ear->tcp[i]);
    if (ear->udp >= 0)
        close(ear->udp);
}

struct muster_hosts_packet muster_hosts_packet(const struct muster_hosts_ear *ear, uint32_t kind,
                                               uint32_t cookie, uint32_t number)
{
    struct muster_hosts_packet packet = {
        .token = ear->token, .kind = kind, .cookie = cookie, .number = number};
    memcpy(packet.magic, muster_hosts_magic, sizeof packet.magic);
    return packet;
}

bool muster_hosts_packet_is(const struct muster_hosts_packet *packet, uint32_t kind)
{
    return packet->kind == kind &&
           memcmp(packet->magic, muster_hosts_magic, sizeof packet->magic) == 0;
}

bool muster_hosts_datagram(const struct muster_hosts_ear *ear,
                           const struct muster_hosts_packet *packet, size_t size,
                           const struct sockaddr_storage *to, socklen_t to_size)
{
    static char bytes[FRAME_MAX];
    struct sockaddr_in6 mapped;
    const struct sockaddr *at = (const struct sockaddr *)to;
    struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
    socklen_t own_size = sizeof own;
    if (size > sizeof bytes || size < sizeof *packet || ear->udp < 0)
        return false;
    /* a socket of both families takes IPv4 addresses as IPv6's */
    if (to->ss_family == AF_INET &&
        getsockname(ear->udp, (struct sockaddr *)&own, &own_size) == 0 &&
        own.ss_family == AF_INET6) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)to;
        mapped = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = four->sin_port};
        mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
        memcpy(&mapped.sin6_addr.s6_addr[12], &four->sin_addr, sizeof four->sin_addr);
        at = (const struct sockaddr *)&mapped;
        to_size = sizeof mapped;
    }
    memcpy(bytes, packet, sizeof *packet);
    return sendto(ear->udp, bytes, size, MSG_DONTWAIT, at, to_size) == (ssize_t)size;
}
