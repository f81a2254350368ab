#include "doctor/hosts/hosts_frames.h"

#include "base/clock.h"
#include "doctor/hosts/hosts_patience.h"

enum {
    HEAD_4 = 28, /* IP and UDP */
    HEAD_6 = 48,
    SMALL = 128,
};

/* Jumbo frames, InfiniBand's 4 KiB, Ethernet, and what tunnels leave of that; 1280 is IPv6's least.
 */
static const unsigned usual[] = {9000, 8900, 4200, 1500, 1450, 1400, 1280};

struct ask {
    uint64_t due_ns; /* of the next try; 0: never begun */
    unsigned full, bytes, passed;
    unsigned char tries;
    bool small_passed, over;
};

struct muster_hosts_frames {
    const struct muster_hosts_ear *ear;
    const struct muster_hosts_member *members;
    unsigned n, self, begun, open;
    struct ask *ask;
    char *ends;
    unsigned *bytes;
};

struct muster_hosts_frames *muster_hosts_frames_new(const struct muster_hosts_ear *ear,
                                                    const struct muster_hosts_member *members,
                                                    unsigned n, unsigned self,
                                                    struct muster_arena *memory)
{
    struct muster_hosts_frames *frames = muster_arena_array(memory, 1, sizeof *frames);
    struct ask *ask = muster_arena_array(memory, n, sizeof *ask);
    char *ends = muster_arena_array(memory, n + 1ul, 1);
    unsigned *bytes = muster_arena_array(memory, n, sizeof *bytes);
    if (memory->failed)
        return NULL;
    *frames = (struct muster_hosts_frames){.ear = ear,
                                           .members = members,
                                           .n = n,
                                           .self = self,
                                           .ask = ask,
                                           .ends = ends,
                                           .bytes = bytes};
    for (unsigned i = 0; i < n; i++) {
        unsigned own = members[self].address[0].mtu, other = members[i].address[0].mtu;
        bool asked = i != self && ear->udp >= 0 && members[i].frames && members[i].addresses &&
                     members[self].addresses;
        unsigned least = own && other ? (own < other ? own : other) : own + other;
        frames->ends[i] = MUSTER_HOSTS_UNTESTED;
        frames->ask[i].full = least ? least : 1500;
        frames->ask[i].over = !asked;
    }
    return frames;
}

static void send_ask(struct muster_hosts_frames *frames, unsigned i, uint64_t now_ns)
{
    struct ask *ask = &frames->ask[i];
    struct sockaddr_storage to;
    socklen_t size;
    muster_hosts_target(&frames->members[i], 0, &to, &size);
    unsigned head = to.ss_family == AF_INET6 ? HEAD_6 : HEAD_4;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)&to;
    struct sockaddr_in *four = (struct sockaddr_in *)(void *)&to;
    uint16_t port = (uint16_t)(frames->members[i].frames << 8 | frames->members[i].frames >> 8);
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
        port = frames->members[i].frames;
    if (to.ss_family == AF_INET6)
        six->sin6_port = port;
    else
        four->sin_port = port;
    const struct muster_hosts_packet packet =
        muster_hosts_packet(frames->ear, MUSTER_HOSTS_ASK, i, ask->bytes);
    /* what this host cannot send counts as lost: the next size follows */
    muster_hosts_datagram(frames->ear, &packet, ask->bytes - head, &to, size);
    ask->tries++;
    ask->due_ns = now_ns + MUSTER_HOSTS_TRY_MS * MUSTER_NS_PER_MS;
}

static void end_ask(struct muster_hosts_frames *frames, unsigned i)
{
    struct ask *ask = &frames->ask[i];
    frames->bytes[i] = ask->passed;
    enum muster_hosts_end end = ask->passed >= ask->full ? MUSTER_HOSTS_REACHED
                                : ask->small_passed      ? MUSTER_HOSTS_SMALLER
                                                         : MUSTER_HOSTS_SILENT;
    frames->ends[i] = (char)end;
    ask->over = true;
    frames->open--;
}

/* After a size was lost: whether anything passes, then the usual sizes from above. 0: none is left.
 */
static unsigned next_size(const struct ask *ask)
{
    if (ask->bytes == SMALL && !ask->small_passed)
        return 0;
    if (!ask->small_passed)
        return SMALL;
    unsigned below = ask->bytes == SMALL ? ask->full : ask->bytes;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (usual[i] < below)
            return usual[i];
    return 0;
}

bool muster_hosts_frames_step(struct muster_hosts_frames *frames, uint64_t now_ns)
{
    bool waiting = false;
    for (unsigned k = 1; k < frames->n; k++) {
        unsigned i = (frames->self + k) % frames->n; /* not all at the same one */
        struct ask *ask = &frames->ask[i];
        if (ask->over)
            continue;
        waiting = true;
        if (!ask->bytes) {
            if (frames->open == MUSTER_HOSTS_DATAGRAMS)
                break;
            frames->open++;
            ask->bytes = ask->full;
            send_ask(frames, i, now_ns);
        } else if (now_ns >= ask->due_ns && ask->tries < MUSTER_HOSTS_TRIES) {
            send_ask(frames, i, now_ns);
        } else if (now_ns >= ask->due_ns) {
            ask->bytes = next_size(ask);
            ask->tries = 0;
            if (ask->bytes)
                send_ask(frames, i, now_ns);
            else
                end_ask(frames, i);
        }
    }
    return !waiting;
}

void muster_hosts_frames_answer(struct muster_hosts_frames *frames,
                                const struct muster_hosts_packet *packet)
{
    unsigned i = packet->cookie;
    if (i >= frames->n || frames->ask[i].over || packet->token != frames->members[i].token)
        return;
    struct ask *ask = &frames->ask[i];
    if (packet->number == SMALL && ask->full > SMALL) {
        ask->small_passed = true;
        if (ask->bytes == SMALL) {
            ask->bytes = next_size(ask);
            ask->tries = 0;
            ask->due_ns = 0;
        }
        if (!ask->bytes)
            end_ask(frames, i);
        return;
    }
    if (packet->number > ask->full)
        return;
    ask->passed = packet->number > ask->passed ? packet->number : ask->passed;
    ask->small_passed = true;
    end_ask(frames, i);
}

void muster_hosts_frames_result(const struct muster_hosts_frames *frames,
                                struct muster_hosts_message *message)
{
    message->frame_ends = frames->ends;
    message->frame_bytes = frames->bytes;
}
