#include "fleet/gather.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "fleet/fleet_name.h"
#include "fleet/teller.h"

/* So long it is told that a process is over: longer than anybody waits before he names it. */
#define GONE_NS (60 * MUSTER_NS_PER_S)

struct muster_gather {
    struct muster_seg_identity who;
    uint32_t uid;
    uint64_t instance, sequence, described_ns;
    char name[MUSTER_FLEET_NAME];
    struct muster_teller **teller;
    size_t tellers;
    size_t first; /* whose turn it is where not all fit one message */
    struct muster_telling telling;
};

struct muster_gather *muster_gather_new(const struct muster_seg_identity *who, uint32_t uid,
                                        uint64_t instance)
{
    size_t bytes = (sizeof(struct muster_gather) + 63) / 64 * 64;
    struct muster_gather *gather = aligned_alloc(64, bytes);
    if (!gather)
        return NULL;
    memset(gather, 0, bytes);
    gather->who = *who;
    gather->uid = uid;
    gather->instance = instance;
    muster_fleet_name(gather->name, uid, who->run_dir);
    return gather;
}

void muster_gather_free(struct muster_gather *gather)
{
    for (size_t i = 0; gather && i < gather->tellers; i++)
        muster_teller_free(gather->teller[i]);
    if (gather)
        free(gather->teller);
    free(gather);
}

bool muster_gather_is(const struct muster_gather *gather, const struct muster_seg_identity *who,
                      uint32_t uid)
{
    return gather->uid == uid && gather->who.boot_hash == who->boot_hash &&
           strcmp(gather->who.run_dir, who->run_dir) == 0 &&
           strcmp(gather->who.host, who->host) == 0;
}

const char *muster_gather_name(const struct muster_gather *gather)
{
    return gather->name;
}

static struct muster_teller *teller_of(struct muster_gather *gather, const char *path)
{
    for (size_t i = 0; i < gather->tellers; i++)
        if (strcmp(gather->teller[i]->path, path) == 0)
            return gather->teller[i];
    if (gather->tellers == MUSTER_WIRE_PROCESSES ||
        !muster_grow(&gather->teller, gather->tellers, sizeof(struct muster_teller *)))
        return NULL;
    struct muster_teller *teller = calloc(1, sizeof *teller);
    if (teller)
        teller->path = strdup(path);
    if (!teller || !teller->path) {
        free(teller);
        return NULL;
    }
    gather->teller[gather->tellers++] = teller;
    return teller;
}

static void drop_gone(struct muster_gather *gather, uint64_t now_ns)
{
    size_t kept = 0;
    for (size_t i = 0; i < gather->tellers; i++) {
        struct muster_teller *teller = gather->teller[i];
        teller->alive &= teller->seen;
        teller->gone_ns = teller->alive ? 0 : teller->gone_ns ? teller->gone_ns : now_ns;
        if (teller->gone_ns && now_ns - teller->gone_ns >= GONE_NS)
            muster_teller_free(teller);
        else
            gather->teller[kept++] = teller;
    }
    gather->tellers = kept;
}

size_t muster_gather_look(struct muster_gather *gather, const struct muster_found *found, size_t n,
                          uint64_t now_ns)
{
    for (size_t i = 0; i < gather->tellers; i++)
        gather->teller[i]->seen = false;
    for (size_t i = 0; i < n; i++) {
        struct muster_teller *teller = teller_of(gather, found[i].path);
        if (!teller)
            continue;
        teller->seen = true;
        teller->alive = found[i].alive;
    }
    drop_gone(gather, now_ns);
    return gather->tellers;
}

void muster_gather_take(struct muster_gather *gather)
{
    for (size_t i = 0; i < gather->tellers; i++)
        if (gather->teller[i]->alive)
            muster_teller_take(gather->teller[i], &gather->telling);
}

static void describe(struct muster_gather *gather, uint64_t now_ns,
                     struct muster_wire_message *message)
{
    if (gather->described_ns && now_ns - gather->described_ns < MUSTER_TELL_AGAIN_NS)
        return;
    gather->described_ns = now_ns;
    message->described = true;
    message->boot_hash = gather->who.boot_hash;
    message->uid = gather->uid;
    memcpy(message->host, gather->who.host, sizeof message->host);
    memcpy(message->hostname, gather->who.hostname, sizeof message->hostname);
    memcpy(message->run_dir, gather->who.run_dir, sizeof message->run_dir);
}

void muster_gather_tell(struct muster_gather *gather, uint64_t now_ns, uint64_t unix_ns,
                        struct muster_wire_out *out)
{
    struct muster_wire_message message = {.instance = gather->instance,
                                          .sequence = gather->sequence++,
                                          .mono_ns = now_ns,
                                          .unix_ns = unix_ns};
    size_t begin = out->used;
    describe(gather, now_ns, &message);
    struct muster_wire_out body = {0};
    size_t asked = 0;
    while (asked < gather->tellers && body.used < MUSTER_WIRE_MOST / 2) {
        struct muster_wire_process process;
        size_t i = (gather->first + asked++) % gather->tellers;
        if (!muster_teller_tell(gather->teller[i], &gather->telling, now_ns, &process))
            continue;
        muster_wire_write_process(&message, &process, &body);
        message.processes++;
    }
    gather->first = asked < gather->tellers ? gather->first + asked : 0;
    muster_wire_write_head(&message, out);
    muster_wire_put_bytes(out, body.byte, body.used);
    out->failed |= body.failed;
    free(body.byte);
    if (out->failed)
        out->used = begin;
}
