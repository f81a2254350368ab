#include "doctor/hosts/hosts_measure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "doctor/hosts/hosts_patience.h"

enum {
    WAIT_MS = 6000, /* for a partner who is still in the round before, or has gone */
    RETRY_MS = 50,
    PIECE = 256 << 10,
    PACE_US = 500, /* 2,000 datagrams a second */
    HEAD = 48,     /* IPv6 and UDP, the longer ones */
    FRAME_MAX = 65536,
    WAITING = 64, /* connections of partners who are ahead */
};

/* A connection of a later round, which came early. */
struct early {
    int fd;
    uint64_t token;
    unsigned round;
};

struct rounds {
    const struct muster_hosts_measuring *m;
    struct early early[WAITING];
    unsigned waiting;
    char piece[PIECE];
};

static int wait_for(int fd, short events, uint64_t end_ns)
{
    uint64_t now_ns = muster_now_ns();
    struct pollfd at = {.fd = fd, .events = events};
    if (now_ns >= end_ns)
        return 0;
    return poll(&at, 1, (int)((end_ns - now_ns) / MUSTER_NS_PER_MS) + 1);
}

static bool read_packet(int fd, struct muster_hosts_packet *packet, uint64_t end_ns)
{
    size_t got = 0;
    while (got < sizeof *packet) {
        ssize_t n = recv(fd, (char *)packet + got, sizeof *packet - got, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        got += n > 0 ? (size_t)n : 0;
        if (n < 0 && wait_for(fd, POLLIN, end_ns) <= 0)
            return false;
    }
    return muster_hosts_packet_is(packet, MUSTER_HOSTS_MEET);
}

static bool write_packet(const struct rounds *rounds, int fd, unsigned round)
{
    const struct muster_hosts_packet packet =
        muster_hosts_packet(rounds->m->ear, MUSTER_HOSTS_MEET, round, 0);
    return send(fd, &packet, sizeof packet, MSG_NOSIGNAL) == (ssize_t)sizeof packet;
}

/* A target that worked before; -1. */
static int working_target(const struct muster_hosts_measuring *m, unsigned peer)
{
    size_t first = 0;
    unsigned targets = muster_hosts_targets(&m->members[peer]);
    for (unsigned i = 0; i < peer; i++)
        first += muster_hosts_targets(&m->members[i]);
    for (unsigned t = 0; t < targets; t++)
        if (m->ends[first + t] == MUSTER_HOSTS_REACHED)
            return (int)t;
    return -1;
}

static int call_once(const struct rounds *rounds, unsigned peer, unsigned round, uint64_t end_ns)
{
    struct sockaddr_storage to;
    struct muster_hosts_packet packet;
    socklen_t size, error_size = sizeof(int);
    int error = 0, target = working_target(rounds->m, peer);
    if (target < 0)
        return -1;
    muster_hosts_target(&rounds->m->members[peer], (unsigned)target, &to, &size);
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    bool ok = connect(fd, (struct sockaddr *)&to, size) == 0 || errno == EINPROGRESS;
    if (ok && wait_for(fd, POLLOUT, end_ns) > 0 &&
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size) == 0 && error == 0 &&
        write_packet(rounds, fd, round) && read_packet(fd, &packet, end_ns) &&
        packet.token == rounds->m->members[peer].token && packet.cookie == round)
        return fd;
    close(fd);
    return -1;
}

/* A partner who does not know yet that measuring has begun hangs up. */
static int call(const struct rounds *rounds, unsigned peer, unsigned round, uint64_t end_ns)
{
    const struct timespec pause = {0, (long)(RETRY_MS * MUSTER_NS_PER_MS)};
    int fd = call_once(rounds, peer, round, end_ns);
    while (fd < 0 && muster_now_ns() < end_ns && working_target(rounds->m, peer) >= 0) {
        nanosleep(&pause, NULL);
        fd = call_once(rounds, peer, round, end_ns);
    }
    return fd;
}

/* Connections that wait at the ear, into `early`. */
static void accept_all(struct rounds *rounds, uint64_t end_ns)
{
    struct muster_hosts_packet packet;
    for (unsigned i = 0; i < MUSTER_HOSTS_PORTS; i++) {
        int fd = rounds->m->ear->tcp[i] < 0
                     ? -1
                     : accept4(rounds->m->ear->tcp[i], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            continue;
        if (rounds->waiting < WAITING && read_packet(fd, &packet, end_ns))
            rounds->early[rounds->waiting++] = (struct early){fd, packet.token, packet.cookie};
        else
            close(fd);
    }
}

static int take_early(struct rounds *rounds, uint64_t token, unsigned round)
{
    for (unsigned i = 0; i < rounds->waiting; i++) {
        struct early early = rounds->early[i];
        if (early.token != token || early.round != round)
            continue;
        rounds->early[i] = rounds->early[--rounds->waiting];
        if (write_packet(rounds, early.fd, round))
            return early.fd;
        close(early.fd);
        return -1;
    }
    return -1;
}

static int answer(struct rounds *rounds, unsigned peer, unsigned round, uint64_t end_ns)
{
    for (;;) {
        struct pollfd at[MUSTER_HOSTS_PORTS];
        int fd = take_early(rounds, rounds->m->members[peer].token, round);
        uint64_t now_ns = muster_now_ns();
        if (fd >= 0 || now_ns >= end_ns)
            return fd;
        for (unsigned i = 0; i < MUSTER_HOSTS_PORTS; i++)
            at[i] = (struct pollfd){.fd = rounds->m->ear->tcp[i], .events = POLLIN};
        if (poll(at, MUSTER_HOSTS_PORTS, (int)((end_ns - now_ns) / MUSTER_NS_PER_MS) + 1) > 0)
            accept_all(rounds, end_ns);
    }
}

/* ---- bandwidth ---- */

static void send_for(struct rounds *rounds, int fd, struct muster_hosts_flow *flow)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    uint64_t end_ns = muster_now_ns() + rounds->m->ms * MUSTER_NS_PER_MS / 2;
    while (muster_now_ns() < end_ns) {
        ssize_t n = send(fd, rounds->piece, sizeof rounds->piece, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            break;
        if (n < 0)
            wait_for(fd, POLLOUT, end_ns);
    }
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) {
        flow->retransmitted = info.tcpi_total_retrans;
        flow->sent = info.tcpi_segs_out;
    }
    shutdown(fd, SHUT_WR);
}

static void receive_all(struct rounds *rounds, int fd, struct muster_hosts_flow *flow)
{
    uint64_t begin_ns = 0, last_ns = 0, bytes = 0;
    uint64_t end_ns = muster_now_ns() + (WAIT_MS + rounds->m->ms) * MUSTER_NS_PER_MS;
    for (;;) {
        ssize_t n = recv(fd, rounds->piece, sizeof rounds->piece, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            break;
        if (n < 0 && wait_for(fd, POLLIN, end_ns) <= 0)
            break;
        if (n > 0) {
            last_ns = muster_now_ns();
            bytes += begin_ns ? (uint64_t)n : 0; /* what came while the clock stood still */
            begin_ns = begin_ns ? begin_ns : last_ns;
        }
    }
    /* what is still in flight when the sender stops comes late on a bad link: time counts on */
    uint64_t least_ns = rounds->m->ms * MUSTER_NS_PER_MS / 4;
    uint64_t took_ns = last_ns - begin_ns > least_ns ? last_ns - begin_ns : least_ns;
    flow->gbps = begin_ns ? (double)bytes * 8 / (double)took_ns : 0;
}

/* Datagrams begin when the last byte has come: they must not queue behind it. */
static void await_acknowledged(int fd)
{
    const struct timespec pause = {0, (long)MUSTER_NS_PER_MS};
    uint64_t end_ns = muster_now_ns() + WAIT_MS * MUSTER_NS_PER_MS;
    int waiting = 0;
    while (ioctl(fd, SIOCOUTQ, &waiting) == 0 && waiting > 0 && muster_now_ns() < end_ns)
        nanosleep(&pause, NULL);
}

/* ---- loss ---- */

struct paced {
    uint64_t came, last; /* last: its place, + 1 */
    uint32_t dropped_before, dropped;
    bool any;
};

/* Datagrams that this host itself dropped for want of room, counted by the kernel. */
static void note_dropped(struct msghdr *message, struct paced *paced)
{
    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at))
        if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SO_RXQ_OVFL)
            memcpy(&paced->dropped, CMSG_DATA(at), sizeof paced->dropped);
    if (!paced->any)
        paced->dropped_before = paced->dropped;
    paced->any = true;
}

static void receive_paced(const struct muster_hosts_measuring *m, unsigned peer, unsigned round,
                          struct paced *paced)
{
    static union {
        struct muster_hosts_packet packet;
        char bytes[FRAME_MAX];
    } in;
    for (;;) {
        _Alignas(struct cmsghdr) char control[64];
        struct iovec part = {in.bytes, sizeof in.bytes};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = sizeof control};
        ssize_t n = recvmsg(m->ear->udp, &message, MSG_DONTWAIT);
        if (n < 0)
            return;
        if (n < (ssize_t)sizeof in.packet ||
            !muster_hosts_packet_is(&in.packet, MUSTER_HOSTS_PACED) ||
            in.packet.token != m->members[peer].token || in.packet.cookie != round)
            continue;
        note_dropped(&message, paced);
        paced->came++;
        if (in.packet.number + 1ull > paced->last)
            paced->last = in.packet.number + 1ull;
    }
}

static void exchange_paced(const struct muster_hosts_measuring *m, unsigned peer, unsigned round,
                           struct muster_hosts_flow *flow)
{
    struct sockaddr_storage to;
    struct paced paced = {0};
    socklen_t size;
    uint32_t number = 0, all = m->ms * 1000 / PACE_US;
    muster_hosts_target(&m->members[peer], 0, &to, &size);
    ((struct sockaddr_in *)(void *)&to)->sin_port = htons(m->members[peer].frames); /* as IPv6's */
    uint64_t begin_ns = muster_now_ns(),
             end_ns = begin_ns + (m->ms + MUSTER_HOSTS_TAIL_MS) * MUSTER_NS_PER_MS;
    size_t bytes = m->frame_bytes[peer] > 2 * HEAD ? m->frame_bytes[peer] - HEAD : 0;
    for (uint64_t now_ns = begin_ns; now_ns < end_ns; now_ns = muster_now_ns()) {
        uint64_t due = (now_ns - begin_ns) / (PACE_US * MUSTER_NS_PER_US);
        for (; bytes && number < all && number <= due; number++) {
            const struct muster_hosts_packet packet =
                muster_hosts_packet(m->ear, MUSTER_HOSTS_PACED, round, number);
            muster_hosts_datagram(m->ear, &packet, bytes, &to, size);
        }
        wait_for(m->ear->udp, POLLIN, now_ns + MUSTER_NS_PER_MS);
        receive_paced(m, peer, round, &paced);
    }
    uint64_t missing = paced.last - (paced.came < paced.last ? paced.came : paced.last);
    flow->expected = paced.last;
    flow->dropped = paced.dropped - paced.dropped_before;
    flow->lost = missing > flow->dropped ? missing - flow->dropped : 0;
}

/* ---- a round ---- */

static void measure_with(struct rounds *rounds, unsigned peer, unsigned round,
                         struct muster_hosts_flow *flow)
{
    bool calls = rounds->m->self < peer;
    uint64_t end_ns = muster_now_ns() + WAIT_MS * MUSTER_NS_PER_MS;
    int fd = calls ? call(rounds, peer, round, end_ns) : answer(rounds, peer, round, end_ns);
    *flow = (struct muster_hosts_flow){.peer = peer, .gbps = -1};
    if (fd < 0)
        return;
    if (calls)
        send_for(rounds, fd, flow);
    receive_all(rounds, fd, flow);
    if (!calls)
        send_for(rounds, fd, flow);
    await_acknowledged(fd);
    close(fd);
    exchange_paced(rounds->m, peer, round, flow);
}

void muster_hosts_measure(const struct muster_hosts_measuring *measuring,
                          const struct muster_hosts_message *rounds, struct muster_arena *arena,
                          struct muster_hosts_message *measured)
{
    struct rounds *state = muster_arena_array(arena, 1, sizeof *state);
    struct muster_hosts_flow *flow = muster_arena_array(arena, rounds->rounds + 1ul, sizeof *flow);
    measured->flow = flow;
    measured->flows = 0;
    if (!state || !flow || rounds->n != measuring->n)
        return;
    state->m = measuring;
    for (unsigned round = 0; round < rounds->rounds; round++) {
        int peer = rounds->partner[round * rounds->n + measuring->self];
        if (peer >= 0 && (unsigned)peer != measuring->self)
            measure_with(state, (unsigned)peer, round, &flow[measured->flows++]);
    }
    for (unsigned i = 0; i < state->waiting; i++)
        close(state->early[i].fd);
}
