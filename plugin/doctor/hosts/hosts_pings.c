#include "doctor/hosts/hosts_pings.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "doctor/hosts/hosts_patience.h"
#include "launch/bounded.h"

enum {
    PORTS = MUSTER_VERBS_PORTS,
    SMALL = 128,
    ASK = 1,
    ANSWER = 2,
    BATCH = 64,
};

static const char magic[8] = "mustrdma";

/* The head of each datagram; between hosts of one kind. */
struct ping {
    char magic[8];
    uint64_t token; /* of whoever sent it */
    uint32_t kind;
    uint32_t from, to_port; /* which member asks, which of the other's ports */
    uint32_t cookie;        /* of the asking one, given back */
    uint32_t bytes;         /* of the asking datagram */
    struct muster_verbs_address back;
};
static_assert(sizeof(struct ping) <= SMALL, "a small datagram holds it");

struct ask {
    struct muster_ibv_ah *way;
    uint64_t due_ns;
    uint16_t bytes; /* on their way; 0: not begun */
    unsigned char tries;
    char end;
};

/* A way back to who asked. */
struct back {
    struct muster_ibv_ah *way;
    struct muster_verbs_address to;
    unsigned port; /* of this host */
};

struct pings {
    struct muster_arena memory;
    struct muster_verbs *verbs;
    int fd;
    uint64_t token; /* of this member */
    unsigned ports;
    struct muster_hosts_pings_plan plan; /* n 0: none yet */
    struct muster_hosts_pings_peer *peer;
    struct ask *ask; /* PORTS of each peer */
    size_t begun, open;
    uint64_t end_ns;
    bool reported;
    struct back *back; /* PORTS of each possible peer */
};

static bool read_whole(int fd, void *to, size_t n)
{
    char *at = to;
    while (n) {
        ssize_t got = read(fd, at, n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        n -= (size_t)got;
    }
    return true;
}

/* ---- asking ---- */

static size_t full_size(const struct pings *pings, size_t at)
{
    const struct muster_verbs_address *to = &pings->peer[at / PORTS].port[at % PORTS];
    unsigned own = muster_verbs_address(pings->verbs, at % PORTS % pings->ports)->mtu;
    unsigned least = own < to->mtu ? own : to->mtu;
    return least > SMALL && least <= MUSTER_VERBS_BYTES ? least : SMALL;
}

static void end_ask(struct pings *pings, size_t at, char end)
{
    pings->ask[at].end = end;
    pings->open--;
}

static void send_ask(struct pings *pings, size_t at, uint64_t now_ns)
{
    static unsigned char bytes[MUSTER_VERBS_BYTES];
    struct ask *ask = &pings->ask[at];
    const struct muster_verbs_address *to = &pings->peer[at / PORTS].port[at % PORTS];
    unsigned port = (unsigned)(at % PORTS) % pings->ports;
    if (!ask->way && !(ask->way = muster_verbs_way(pings->verbs, port, to))) {
        end_ask(pings, at, MUSTER_HOSTS_NO_ROUTE);
        return;
    }
    struct ping ping = {.token = pings->token,
                        .kind = ASK,
                        .from = pings->plan.self,
                        .to_port = (uint32_t)(at % PORTS),
                        .cookie = (uint32_t)at,
                        .bytes = ask->bytes,
                        .back = *muster_verbs_address(pings->verbs, port)};
    memcpy(ping.magic, magic, sizeof magic);
    memcpy(bytes, &ping, sizeof ping);
    ask->due_ns = now_ns + MUSTER_HOSTS_TRY_MS * MUSTER_NS_PER_MS;
    if (muster_verbs_send(pings->verbs, port, ask->way, to->queue, bytes, ask->bytes))
        ask->tries++;
    else if (errno != EAGAIN)
        end_ask(pings, at, MUSTER_HOSTS_FAILED);
    else
        ask->due_ns = now_ns + MUSTER_NS_PER_MS; /* no place free: again at once */
}

static void begin_ask(struct pings *pings, size_t at, uint64_t now_ns)
{
    const struct muster_hosts_pings_peer *peer = &pings->peer[at / PORTS];
    struct ask *ask = &pings->ask[at];
    unsigned port = (unsigned)(at % PORTS);
    if (at / PORTS == pings->plan.self || port >= peer->ports ||
        peer->port[port].ethernet !=
            muster_verbs_address(pings->verbs, port % pings->ports)->ethernet)
        return;
    ask->bytes = (uint16_t)full_size(pings, at);
    pings->open++;
    send_ask(pings, at, now_ns);
}

static void go_on_asking(struct pings *pings, size_t at, uint64_t now_ns)
{
    struct ask *ask = &pings->ask[at];
    if (!ask->bytes || ask->end != MUSTER_HOSTS_UNTESTED || now_ns < ask->due_ns)
        return;
    if (ask->tries < MUSTER_HOSTS_TRIES) {
        send_ask(pings, at, now_ns);
    } else if (ask->bytes > SMALL) {
        ask->bytes = SMALL;
        ask->tries = 0;
        send_ask(pings, at, now_ns);
    } else {
        end_ask(pings, at, MUSTER_HOSTS_SILENT);
    }
}

/* True: nothing is left to wait for. */
static bool step(struct pings *pings, uint64_t now_ns)
{
    size_t all = (size_t)pings->plan.n * PORTS;
    for (; pings->begun < all && pings->open < MUSTER_HOSTS_DATAGRAMS && now_ns < pings->end_ns;
         now_ns = muster_now_ns(), pings->begun++)
        begin_ask(pings, (pings->begun + (size_t)pings->plan.self * PORTS) % all, now_ns);
    for (size_t i = 0; pings->open && i < all; i++)
        go_on_asking(pings, i, now_ns);
    return now_ns >= pings->end_ns || (pings->begun == all && pings->open == 0);
}

/* ---- what comes ---- */

static void take_answer(struct pings *pings, const struct ping *ping)
{
    size_t at = ping->cookie;
    if (at >= (size_t)pings->plan.n * PORTS || !pings->ask[at].bytes ||
        pings->ask[at].end != MUSTER_HOSTS_UNTESTED)
        return;
    if (ping->token != pings->peer[at / PORTS].token)
        end_ask(pings, at, MUSTER_HOSTS_STRANGER);
    else if (ping->bytes >= full_size(pings, at))
        end_ask(pings, at, MUSTER_HOSTS_REACHED);
    else
        end_ask(pings, at, MUSTER_HOSTS_SMALLER);
}

/* Who asks is answered at once, also before this member knows of the others. */
static void answer(struct pings *pings, unsigned port, const struct ping *ping)
{
    struct back *back = &pings->back[(size_t)ping->from * PORTS + ping->to_port];
    unsigned char bytes[SMALL] = {0};
    if (!back->way) {
        *back = (struct back){.to = ping->back, .port = port};
        back->way = muster_verbs_way(pings->verbs, port, &ping->back);
    }
    if (!back->way || back->port != port || back->to.queue != ping->back.queue ||
        memcmp(back->to.gid, ping->back.gid, sizeof back->to.gid) != 0)
        return;
    struct ping reply = *ping;
    reply.kind = ANSWER;
    reply.token = pings->token;
    memcpy(bytes, &reply, sizeof reply);
    muster_verbs_send(pings->verbs, port, back->way, ping->back.queue, bytes, sizeof bytes);
}

static void take(struct pings *pings, unsigned port, const unsigned char *bytes, size_t n)
{
    struct ping ping;
    if (n < sizeof ping)
        return;
    memcpy(&ping, bytes, sizeof ping);
    if (memcmp(ping.magic, magic, sizeof magic) != 0 || ping.from >= MUSTER_HOSTS_MAX ||
        ping.to_port >= PORTS)
        return;
    if (ping.kind == ASK)
        answer(pings, port, &ping);
    else if (ping.kind == ANSWER)
        take_answer(pings, &ping);
}

static bool take_all(struct pings *pings)
{
    static unsigned char bytes[MUSTER_VERBS_BYTES];
    bool any = false;
    for (unsigned port = 0; port < pings->ports; port++)
        for (int i = 0; i < BATCH; i++) {
            int n = muster_verbs_take(pings->verbs, port, bytes);
            if (n <= 0)
                break;
            any = true;
            take(pings, port, bytes, (size_t)n);
        }
    return any;
}

/* ---- the other end ---- */

/* false: it is closed, or sends nonsense. */
static bool take_plan(struct pings *pings)
{
    if (pings->plan.n || !read_whole(pings->fd, &pings->plan, sizeof pings->plan) ||
        pings->plan.n > MUSTER_HOSTS_MAX || pings->plan.self >= pings->plan.n)
        return false;
    struct muster_arena *memory = &pings->memory;
    pings->peer = muster_arena_array(memory, pings->plan.n, sizeof *pings->peer);
    pings->ask = muster_arena_array(memory, (size_t)pings->plan.n * PORTS, sizeof *pings->ask);
    if (memory->failed || !read_whole(pings->fd, pings->peer, pings->plan.n * sizeof *pings->peer))
        return false;
    for (size_t i = 0; i < (size_t)pings->plan.n * PORTS; i++)
        pings->ask[i].end = MUSTER_HOSTS_UNTESTED;
    pings->end_ns = muster_now_ns() + MUSTER_HOSTS_RDMA_MS * MUSTER_NS_PER_MS;
    return true;
}

static bool report_ends(struct pings *pings)
{
    struct muster_err err;
    char ends[PORTS];
    pings->reported = true;
    for (unsigned i = 0; i < pings->plan.n; i++) {
        unsigned ports = pings->peer[i].ports < PORTS ? pings->peer[i].ports : PORTS;
        for (unsigned j = 0; j < ports; j++)
            ends[j] = pings->ask[i * PORTS + j].end;
        if (muster_bounded_write(pings->fd, ends, ports, &err))
            return false;
    }
    return true;
}

static void serve(struct pings *pings)
{
    struct pollfd heard = {.fd = pings->fd, .events = POLLIN};
    for (;;) {
        bool busy = take_all(pings);
        if (poll(&heard, 1, busy ? 0 : 1) > 0 && !take_plan(pings))
            return;
        if (pings->plan.n && !pings->reported && step(pings, muster_now_ns()) &&
            !report_ends(pings))
            return;
    }
}

int muster_hosts_pings_run(const char *sysfs, uint64_t token, int fd)
{
    struct pings pings = {.fd = fd, .token = token};
    struct muster_hosts_pings_hello hello = {.ports = 0};
    struct muster_err err;
    pings.verbs = muster_verbs_open(sysfs, &hello.why);
    if (pings.verbs && !muster_verbs_ports(pings.verbs))
        muster_fail(&hello.why, "no port is active that NCCL takes");
    pings.ports = pings.verbs ? muster_verbs_ports(pings.verbs) : 0;
    for (hello.ports = 0; hello.ports < pings.ports; hello.ports++)
        hello.port[hello.ports] = *muster_verbs_address(pings.verbs, hello.ports);
    pings.back =
        muster_arena_array(&pings.memory, (size_t)MUSTER_HOSTS_MAX * PORTS, sizeof *pings.back);
    if (muster_bounded_write(fd, &hello, sizeof hello, &err) == 0 && pings.ports && pings.back)
        serve(&pings);
    muster_arena_free(&pings.memory);
    return 0;
}
