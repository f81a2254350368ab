/* A member: looks at this host, connects to all others, measures with some. */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "doctor/hosts/hosts.h"
#include "doctor/hosts/hosts_conf.h"
#include "doctor/hosts/hosts_measure.h"
#include "doctor/hosts/hosts_rdma.h"
#include "doctor/hosts/hosts_reach.h"

enum { IDLE_MS = 200, BUSY_MS = 20, IDLE_MAX = 600 * 1000 / IDLE_MS };

struct member {
    const struct muster_hosts_self *self;
    struct muster_hosts_member own;
    struct muster_hosts_ear ear;
    struct muster_hosts_reach *reach; /* NULL: before and after */
    struct muster_hosts_rdma *rdma;   /* likewise, and without RDMA */
    bool listens, reached, ended;
    struct muster_arena memory; /* of what stays until the end */
    struct muster_arena plan;   /* the others, and what was found of them */
    struct muster_hosts_message others;
    unsigned at;                       /* this one's place among them */
    struct muster_hosts_message found; /* by reach */
};

static unsigned mtu_of(const char *name)
{
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%.15s", name);
    bool ok = fd >= 0 && ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0;
    if (fd >= 0)
        close(fd);
    return ok ? (unsigned)request.ifr_mtu : 0;
}

/* The addresses that NCCL will take here. */
static void choose(struct muster_hosts_member *own, struct muster_arena *memory)
{
    struct muster_choice choice;
    struct muster_interfaces *interfaces = muster_arena_array(memory, 1, sizeof *interfaces);
    if (interfaces && muster_interfaces_read(interfaces) == 0) {
        muster_interfaces_choose(interfaces, getenv("NCCL_SOCKET_IFNAME"),
                                 getenv("NCCL_SOCKET_FAMILY"), NULL, 0, &choice);
        for (int i = 0; i < choice.n && own->addresses < MUSTER_HOSTS_ADDRESSES; i++) {
            struct muster_interface *to = &own->address[own->addresses++];
            *to = interfaces->at[choice.at[i]];
            to->mtu = mtu_of(to->name);
        }
    }
}

static void read_range(unsigned *low, unsigned *high)
{
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    char text[64] = "", *end;
    if (file && fgets(text, sizeof text, file)) {
        *low = (unsigned)strtoul(text, &end, 10);
        *high = (unsigned)strtoul(end, NULL, 10);
    }
    if (file)
        fclose(file);
}

static int send_message(struct member *member, const struct muster_hosts_message *message,
                        struct muster_err *err)
{
    struct muster_arena arena = {0};
    const struct muster_hosts_channel *channel = &member->self->channel;
    const char *text = muster_hosts_write(message, &arena);
    int rc = muster_arena_check(&arena, err, "a message");
    if (rc == 0)
        rc = channel->send(channel->self, text, err);
    muster_arena_free(&arena);
    return rc;
}

/* Only one process a host has a network to test. */
static void open_network(struct member *member, struct muster_err *err)
{
    struct muster_hosts_member *own = &member->own;
    struct muster_err none;
    unsigned low = 0, high = 0;
    read_range(&low, &high);
    if (muster_hosts_ear_open(&member->ear, own, low, high, err))
        return;
    member->listens = true;
    choose(own, &member->memory);
    member->reach = muster_hosts_reach_new(&member->ear, err);
    member->rdma = muster_hosts_rdma_new(member->self->sysfs, own->token, &member->memory, &none);
    if (member->rdma)
        muster_hosts_rdma_hello(member->rdma, own);
    else
        snprintf(own->no_rdma, sizeof own->no_rdma, "%.159s", none.text);
}

/* Looks at this host and sends its first message. */
static int begin(struct member *member, const struct muster_hosts_message *message,
                 struct muster_err *err)
{
    struct muster_hosts_place place;
    for (size_t i = 0; i < message->variables; i++)
        if (member->self->launched || strcmp(message->name[i], "MUSTER_HOSTS") == 0)
            setenv(message->name[i], message->value[i], 0);
    muster_hosts_place_read(&place);
    struct muster_hosts_member *own = &member->own;
    *own = (struct muster_hosts_member){.rank = place.rank};
    snprintf(own->name, sizeof own->name, "%s", member->self->name);
    snprintf(own->id, sizeof own->id, "%s", member->self->id);
    char *report = member->self->examine(member->self->arg, message->active, err);
    if (!report)
        return -1;
    if (!member->listens && place.local_rank <= 0) {
        muster_hosts_conf();
        open_network(member, err);
    }
    const struct muster_hosts_message hello = {
        .kind = MUSTER_HOSTS_HELLO, .member = *own, .report = report};
    int rc = send_message(member, &hello, err);
    free(report);
    return rc;
}

static int plan(struct member *member, const char *text, size_t size, struct muster_err *err)
{
    if (member->others.members)
        return muster_fail(err, "told twice whom to connect to: versions of muster differ?");
    if (muster_hosts_read(text, size, &member->plan, &member->others, err))
        return -1;
    const struct muster_hosts_message *others = &member->others;
    for (member->at = 0; member->at < others->n; member->at++)
        if (others->members[member->at].token == member->own.token)
            break;
    if (member->at == others->n || !member->reach)
        return 0; /* not asked: too late, or without a network of its own */
    if (member->rdma)
        muster_hosts_rdma_begin(member->rdma, others->members, others->n, member->at);
    muster_hosts_reach_begin(member->reach, others->members, others->n, member->at,
                             others->timeout_ms, &member->plan);
    return muster_arena_check(&member->plan, err, "the connections");
}

/* All connections have ended: reports it, and answers others until the leader goes on. */
static int send_reached(struct member *member, struct muster_err *err)
{
    struct muster_hosts_message *found = &member->found;
    *found = (struct muster_hosts_message){.kind = MUSTER_HOSTS_REACHED_ALL};
    muster_hosts_reach_result(member->reach, found);
    found->rdma_ends = member->rdma ? muster_hosts_rdma_ends(member->rdma) : "";
    member->reached = true;
    return send_message(member, found, err);
}

static int measure(struct member *member, const struct muster_hosts_message *rounds,
                   struct muster_err *err)
{
    struct muster_arena arena = {0};
    struct muster_hosts_message measured = {.kind = MUSTER_HOSTS_MEASURED};
    muster_hosts_reach_free(member->reach);
    member->reach = NULL;
    muster_hosts_rdma_end(member->rdma);
    member->rdma = NULL;
    if (!member->reached)
        return 0;
    const struct muster_hosts_measuring measuring = {
        .ear = &member->ear,
        .members = member->others.members,
        .n = member->others.n,
        .self = member->at,
        .ends = member->found.ends,
        .frame_bytes = member->found.frame_bytes,
        .ms = rounds->ms,
    };
    muster_hosts_measure(&measuring, rounds, &arena, &measured);
    int rc = muster_arena_check(&arena, err, "what was measured");
    if (rc == 0)
        rc = send_message(member, &measured, err);
    muster_arena_free(&arena);
    return rc;
}

static int obey(struct member *member, const char *text, size_t size, struct muster_err *err)
{
    struct muster_arena arena = {0};
    struct muster_hosts_message message;
    int rc = muster_hosts_read(text, size, &arena, &message, err);
    if (rc == 0 && message.kind == MUSTER_HOSTS_BEGIN)
        rc = begin(member, &message, err);
    else if (rc == 0 && message.kind == MUSTER_HOSTS_REACH)
        rc = plan(member, text, size, err);
    else if (rc == 0 && message.kind == MUSTER_HOSTS_MEASURE)
        rc = measure(member, &message, err);
    else if (rc == 0)
        member->ended = message.kind == MUSTER_HOSTS_END;
    muster_arena_free(&arena);
    return rc;
}

static int serve(struct member *member, struct muster_err *err)
{
    const struct muster_hosts_channel *channel = &member->self->channel;
    int rc = 0;
    for (unsigned idle = 0; rc == 0 && !member->ended && idle < IDLE_MAX; idle++) {
        const char *text;
        size_t size;
        unsigned from;
        bool busy = member->reach != NULL;
        int took = channel->take(channel->self, busy ? 0 : IDLE_MS, &from, &text, &size, err);
        if (took < 0)
            break; /* the leader has gone: so does this */
        if (took > 0) {
            rc = obey(member, text, size, err);
            idle = 0;
        }
        if (rc == 0 && member->reach && muster_hosts_reach_step(member->reach, BUSY_MS) &&
            member->others.n && member->at < member->others.n && !member->reached &&
            (!member->rdma || muster_hosts_rdma_step(member->rdma)))
            rc = send_reached(member, err);
    }
    return rc;
}

int muster_hosts_member_run(const struct muster_hosts_self *self, struct muster_err *err)
{
    struct member member = {.self = self};
    int rc = serve(&member, err);
    if (rc) {
        struct muster_err lost;
        const struct muster_hosts_message failure = {.kind = MUSTER_HOSTS_FAILURE,
                                                     .why = err->text};
        send_message(&member, &failure, &lost);
    }
    muster_hosts_reach_free(member.reach);
    muster_hosts_rdma_end(member.rdma);
    if (member.listens)
        muster_hosts_ear_close(&member.ear);
    muster_arena_free(&member.plan);
    muster_arena_free(&member.memory);
    return rc;
}
