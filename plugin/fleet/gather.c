#include "fleet/gather.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "fleet/fleet_name.h"
#include "fleet/publisher.h"

/* So long it is sent that a process is over: longer than anybody waits before he names it. */
#define GONE_NS (60 * MUSTER_NS_PER_S)

struct muster_gather {
    struct muster_seg_identity who;
    uint32_t uid;
    uint64_t instance, sequence, described_ns;
    uint64_t findings,
        findings_ns; /* a hash of those that were sent last, and when; 0: none were */
    char name[MUSTER_FLEET_NAME];
    struct muster_publisher **publisher;
    size_t publishers;
    size_t first; /* whose turn it is where not all fit one message */
    struct muster_publisher_parts *parts;
};

struct muster_publisher_parts *muster_gather_parts_new(void)
{
    size_t bytes = (sizeof(struct muster_publisher_parts) + 63) / 64 * 64;
    struct muster_publisher_parts *parts = aligned_alloc(64, bytes);
    if (parts)
        memset(parts, 0, bytes);
    return parts;
}

struct muster_gather *muster_gather_new(const struct muster_seg_identity *who, uint32_t uid,
                                        uint64_t instance, struct muster_publisher_parts *parts)
{
    struct muster_gather *gather = calloc(1, sizeof *gather);
    if (!gather)
        return NULL;
    gather->who = *who;
    gather->parts = parts;
    gather->uid = uid;
    gather->instance = instance;
    muster_fleet_name(gather->name, uid, who->run_dir);
    return gather;
}

void muster_gather_free(struct muster_gather *gather)
{
    for (size_t i = 0; gather && i < gather->publishers; i++)
        muster_publisher_free(gather->publisher[i]);
    if (gather)
        free(gather->publisher);
    free(gather);
}

bool muster_gather_is(const struct muster_gather *gather, const struct muster_seg_identity *who,
                      uint32_t uid)
{
    return gather->uid == uid && gather->who.boot_hash == who->boot_hash &&
           strcmp(gather->who.run_dir, who->run_dir) == 0 &&
           strcmp(gather->who.host, who->host) == 0;
}

const char *muster_gather_run_dir(const struct muster_gather *gather)
{
    return gather->who.run_dir;
}

uint32_t muster_gather_uid(const struct muster_gather *gather)
{
    return gather->uid;
}

const char *muster_gather_name(const struct muster_gather *gather)
{
    return gather->name;
}

static struct muster_publisher *publisher_at(const struct muster_gather *gather, const char *path)
{
    for (size_t i = 0; i < gather->publishers; i++)
        if (strcmp(gather->publisher[i]->path, path) == 0)
            return gather->publisher[i];
    return NULL;
}

bool muster_gather_has(const struct muster_gather *gather, const char *path, uint32_t uid)
{
    const struct muster_publisher *publisher =
        gather->uid == uid ? publisher_at(gather, path) : NULL;
    return publisher && publisher->seen && muster_gather_is(gather, &publisher->identity, uid);
}

static struct muster_publisher *add_publisher(struct muster_gather *gather, const char *path)
{
    if (gather->publishers == MUSTER_WIRE_PROCESSES ||
        !muster_grow(&gather->publisher, gather->publishers, sizeof(struct muster_publisher *)))
        return NULL;
    struct muster_publisher *publisher = calloc(1, sizeof *publisher);
    if (publisher) {
        publisher->fd = -1;
        publisher->path = strdup(path);
    }
    if (!publisher || !publisher->path) {
        free(publisher);
        return NULL;
    }
    gather->publisher[gather->publishers++] = publisher;
    return publisher;
}

static void drop_gone(struct muster_gather *gather, uint64_t now_ns)
{
    size_t kept = 0;
    for (size_t i = 0; i < gather->publishers; i++) {
        struct muster_publisher *publisher = gather->publisher[i];
        publisher->alive &= publisher->seen;
        publisher->gone_ns = publisher->alive     ? 0
                             : publisher->gone_ns ? publisher->gone_ns
                                                  : now_ns;
        if (publisher->gone_ns && now_ns - publisher->gone_ns >= GONE_NS)
            muster_publisher_free(publisher);
        else
            gather->publisher[kept++] = publisher;
    }
    gather->publishers = kept;
}

size_t muster_gather_look(struct muster_gather *gather, const struct muster_found *found, size_t n,
                          uint64_t now_ns)
{
    for (size_t i = 0; i < gather->publishers; i++) {
        gather->publisher[i]->seen = false;
        muster_publisher_let_go(gather->publisher[i]);
    }
    for (size_t i = 0; i < n; i++) {
        struct muster_publisher *publisher = publisher_at(gather, found[i].path);
        if (!publisher)
            publisher = add_publisher(gather, found[i].path);
        if (!publisher)
            continue;
        publisher->seen = true;
        publisher->alive = found[i].alive;
    }
    drop_gone(gather, now_ns);
    return gather->publishers;
}

static void take_at(struct muster_gather *gather, size_t turn, uint64_t now_ns)
{
    struct muster_publisher *publisher = gather->publisher[turn % gather->publishers];
    if (publisher->alive)
        muster_publisher_take(publisher, gather->parts, now_ns);
}

void muster_gather_take(struct muster_gather *gather, uint64_t now_ns)
{
    for (size_t i = 0; i < gather->publishers; i++)
        take_at(gather, i, now_ns);
}

static void describe(struct muster_gather *gather, uint64_t now_ns,
                     struct muster_wire_message *message)
{
    if (gather->described_ns && now_ns - gather->described_ns < MUSTER_PUBLISH_AGAIN_NS)
        return;
    gather->described_ns = now_ns;
    message->described = true;
    message->boot_hash = gather->who.boot_hash;
    message->uid = gather->uid;
    memcpy(message->host, gather->who.host, sizeof message->host);
    memcpy(message->hostname, gather->who.hostname, sizeof message->hostname);
    memcpy(message->run_dir, gather->who.run_dir, sizeof message->run_dir);
}

static void write_process(const struct muster_wire_message *message,
                          const struct muster_wire_process *process,
                          struct muster_publisher *publisher, struct muster_wire_out *body)
{
    size_t before = body->used;
    size_t ops = muster_wire_write_process(message, process, body);
    muster_publisher_charge(publisher, ops, body->used - before - ops);
}

/* Who is late, and by how much to about a half. */
static uint64_t hash_findings(const struct muster_finding *finding, size_t n)
{
    uint64_t hash = MUSTER_HASH_SEED;
    for (size_t i = 0; i < n; i++) {
        int cost = ilogb(fmax(finding[i].cost_s * finding[i].cost_s, 1e-6)); /* by half an octave */
        uint64_t facts[] = {finding[i].comm, (uint64_t)finding[i].rank[0], finding[i].ranks,
                            (uint64_t)cost};
        hash = muster_hash(hash, facts, sizeof facts);
    }
    return hash | 1;
}

static void find(struct muster_gather *gather, uint64_t now_ns, struct muster_finding *finding,
                 size_t n, struct muster_wire_message *message)
{
    uint64_t hash = n ? hash_findings(finding, n) : 0;
    bool again = n > 0 && now_ns - gather->findings_ns >= MUSTER_PUBLISH_AGAIN_NS;
    if (hash == gather->findings && !again)
        return;
    gather->findings = hash;
    gather->findings_ns = now_ns;
    message->finds = true;
    message->finding = finding;
    message->findings = n < MUSTER_WIRE_FINDINGS ? n : MUSTER_WIRE_FINDINGS;
}

void muster_gather_publish(struct muster_gather *gather, uint64_t now_ns, uint64_t unix_ns,
                           struct muster_finding *finding, size_t findings,
                           struct muster_wire_out *out)
{
    struct muster_wire_message message = {.instance = gather->instance,
                                          .sequence = gather->sequence++,
                                          .mono_ns = now_ns,
                                          .unix_ns = unix_ns};
    size_t begin = out->used;
    describe(gather, now_ns, &message);
    find(gather, now_ns, finding, findings, &message);
    struct muster_wire_out body = {0};
    size_t asked = 0;
    while (asked < gather->publishers && body.used < MUSTER_WIRE_MOST / 2) {
        struct muster_wire_process process;
        size_t i = (gather->first + asked++) % gather->publishers;
        if (!muster_publisher_publish(gather->publisher[i], gather->parts, now_ns, &process))
            continue;
        write_process(&message, &process, gather->publisher[i], &body);
        message.processes++;
    }
    for (size_t i = asked; i < gather->publishers; i++)
        take_at(gather, gather->first + i, now_ns);
    muster_wire_write_findings(&message, &body);
    gather->first = asked < gather->publishers ? gather->first + asked : 0;
    muster_wire_write_head(&message, out);
    muster_wire_put_bytes(out, body.byte, body.used);
    out->failed |= body.failed;
    free(body.byte);
    if (out->failed)
        out->used = begin;
}
