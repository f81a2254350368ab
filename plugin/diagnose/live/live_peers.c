#include "diagnose/live/live_peers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"
#include "diagnose/hang/hang.h"
#include "segment/segment_reader.h"
#include "segment/snapshot.h"

/* A heartbeat comes every 100 ms. */
#define FRESH_NS (3 * MUSTER_NS_PER_S)

static bool is_frame(const struct muster_segment *segment)
{
    return segment->magic == MUSTER_SEG_MAGIC && segment->version == MUSTER_SEG_VERSION &&
           segment->size == sizeof *segment &&
           segment->comm_bytes == sizeof(struct muster_seg_comm) &&
           segment->header_bytes == offsetof(struct muster_segment, comm);
}

/* The header and the first entries of the table, until one is free after those that were in use: a
 * new communicator takes the first free one. Returns how many; 0: it is not a segment. */
static unsigned read_entries(int fd, struct muster_live_table *table, unsigned known)
{
    const size_t header = offsetof(struct muster_segment, comm);
    const struct muster_segment *segment = (const void *)table->bytes;
    unsigned upto = known + 2;
    size_t at = 0;
    for (;; upto = 2 * upto) {
        upto = upto < MUSTER_SEG_COMMS ? upto : MUSTER_SEG_COMMS;
        size_t end = header + upto * sizeof(struct muster_seg_comm);
        if (pread(fd, table->bytes + at, end - at, (off_t)at) != (ssize_t)(end - at))
            return 0;
        if (upto == MUSTER_SEG_COMMS || segment->comm[upto - 1].uid == 0)
            return is_frame(segment) ? upto : 0;
        at = end;
    }
}

static bool read_steering(int fd, struct muster_live_steering *steering)
{
    struct muster_seg_policy policy;
    const size_t bytes = offsetof(struct muster_seg_policy, rule);
    if (pread(fd, &policy, bytes, offsetof(struct muster_segment, policy)) != (ssize_t)bytes)
        return false;
    memset(steering, 0, sizeof *steering);
    steering->state = atomic_load_explicit(&policy.state, memory_order_relaxed);
    steering->tuner = policy.tuner_api;
    memcpy(steering->sha256, policy.sha256, sizeof steering->sha256);
    return true;
}

static unsigned read_table(const char *path, struct muster_live_table *table, unsigned known,
                           struct muster_live_steering *steering)
{
    int fd = muster_segment_open(path);
    if (fd < 0)
        return 0;
    unsigned entries = read_entries(fd, table, known);
    if (entries && !read_steering(fd, steering))
        entries = 0;
    close(fd);
    return entries;
}

bool muster_live_table_read(int fd, struct muster_live_table *table, unsigned *entries)
{
    const struct muster_segment *segment = (const void *)table->bytes;
    unsigned read = read_entries(fd, table, *entries);
    for (unsigned i = *entries; i < read; i++)
        *entries = segment->comm[i].uid ? i + 1 : *entries;
    return read > 0;
}

static bool is_fresh(uint64_t heartbeat_ns)
{
    return heartbeat_ns + FRESH_NS > muster_now_ns();
}

bool muster_live_is_awake(const char *path)
{
    uint64_t heartbeat_ns;
    const off_t at = offsetof(struct muster_segment, heartbeat_mono_ns);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0)
        return false;
    bool whole = pread(fd, &heartbeat_ns, sizeof heartbeat_ns, at) == sizeof heartbeat_ns;
    close(fd);
    return whole && is_fresh(heartbeat_ns);
}

/* Torn entries do no harm: they only show that something moves. */
void muster_live_calls_of(const struct muster_segment *segment, unsigned entries,
                          struct muster_live_peer *peer)
{
    peer->comms = peer->entries = 0;
    peer->gpu_uuid[0] = '\0';
    for (unsigned i = 0; i < entries; i++) {
        struct muster_seg_comm entry, *comm = &entry;
        if (__atomic_load_n(&segment->comm[i].uid, __ATOMIC_RELAXED) == 0)
            continue;
        muster_snapshot(&entry, &segment->comm[i], sizeof entry);
        peer->entries = i + 1;
        if (!peer->gpu_uuid[0] && comm->end_ns == 0)
            muster_text_copy(peer->gpu_uuid, sizeof peer->gpu_uuid, comm->gpu_uuid);
        if (comm->id == 0)
            continue;
        uint64_t facts[] = {comm->uid,    comm->calls,          comm->called_ns,
                            comm->end_ns, comm->launches_ended, comm->launches_probed};
        uint64_t calls[] = {comm->calls, comm->call_hash};
        /* A call that is newer than the last end seen may not have come to its launch. */
        bool idle = comm->launches_ended >= comm->launches && comm->ended_ns >= comm->called_ns &&
                    (comm->launches > 0 || comm->called_ns == 0);
        peer->comm[peer->comms++] = (struct muster_live_calls){
            .id = comm->id,
            .mark = muster_hash(MUSTER_HASH_SEED, facts, sizeof facts),
            .calls = muster_hash(MUSTER_HASH_SEED, calls, sizeof calls),
            .idle = idle,
            .moved_ns = comm->ended_ns > comm->called_ns ? comm->ended_ns : comm->called_ns};
    }
}

struct muster_live_peer *muster_live_peer_at(const struct muster_live_peers *peers,
                                             const char *path)
{
    for (size_t i = 0; i < peers->n; i++)
        if (strcmp(peers->peer[i].path, path) == 0)
            return &peers->peer[i];
    return NULL;
}

static struct muster_live_peer *add_peer(struct muster_live_peers *peers, const char *path)
{
    if (peers->n == MUSTER_LIVE_PROCESSES || strlen(path) >= sizeof peers->peer->path ||
        !muster_grow(&peers->peer, peers->n, sizeof *peers->peer))
        return NULL;
    struct muster_live_peer *peer = &peers->peer[peers->n++];
    memset(peer, 0, sizeof *peer);
    snprintf(peer->path, sizeof peer->path, "%s", path);
    return peer;
}

static void take_header(const struct muster_live_peers *peers, struct muster_live_peer *peer,
                        unsigned entries, const struct muster_seg_identity *who, bool alive)
{
    const struct muster_segment *segment = (const void *)peers->table.bytes;
    peer->identity = *who;
    peer->exit_state = segment->exit_state;
    peer->alive = alive;
    peer->awake = alive && is_fresh(segment->heartbeat_mono_ns);
    peer->seen = true;
    muster_live_calls_of(segment, entries, peer);
    if (peers->saw)
        peers->saw(peers->saw_arg, peer, segment, entries);
}

static void scan_one(struct muster_live_peers *peers, const struct muster_found *found,
                     const struct muster_seg_identity *own)
{
    struct muster_live_peer *peer = muster_live_peer_at(peers, found->path);
    struct muster_live_steering steering;
    unsigned entries = read_table(found->path, &peers->table, peer ? peer->entries : 0, &steering);
    if (entries == 0)
        return;
    const struct muster_segment *segment = (const void *)peers->table.bytes;
    struct muster_seg_identity who = segment->identity;
    if (muster_identity_check(found->path, &who, NULL) != 0 || who.boot_hash != own->boot_hash ||
        strcmp(who.host, own->host) != 0 || strcmp(who.run_dir, own->run_dir) != 0)
        return;
    peer = peer ? peer : add_peer(peers, found->path);
    if (!peer)
        return;
    peer->own = found->own;
    peer->steering = steering;
    take_header(peers, peer, entries, &who, found->alive);
}

void muster_live_peers_take(struct muster_live_peers *peers, const struct muster_found *found,
                            size_t n, const struct muster_seg_identity *own)
{
    for (size_t i = 0; i < peers->n; i++)
        peers->peer[i].seen = false;
    for (size_t i = 0; i < n; i++)
        scan_one(peers, &found[i], own);
    /* One that has gone from here was archived: its process is over. */
    for (size_t i = 0; i < peers->n; i++) {
        peers->peer[i].alive &= peers->peer[i].seen;
        peers->peer[i].awake &= peers->peer[i].seen;
    }
}

/* One that is known already. False: it is not there any more, or is not what it was. */
static bool scan_known(struct muster_live_peers *peers, struct muster_live_peer *peer)
{
    const struct muster_segment *segment = (const void *)peers->table.bytes;
    struct muster_seg_identity who;
    unsigned entries = read_table(peer->path, &peers->table, peer->entries, &peer->steering);
    if (entries == 0)
        return false;
    who = segment->identity;
    if (muster_identity_check(peer->path, &who, NULL) != 0 || who.pid != peer->identity.pid ||
        strcmp(who.run_dir, peer->identity.run_dir) != 0)
        return false;
    take_header(peers, peer, entries, &who, peer->own || muster_segment_is_alive(peer->path));
    return true;
}

static bool scan_all_known(struct muster_live_peers *peers)
{
    bool same = peers->n > 0;
    for (size_t i = 0; i < peers->n && same; i++)
        same = !peers->peer[i].seen || scan_known(peers, &peers->peer[i]);
    return same;
}

/* Whether segments may have come or gone. The clock of files is coarse: what changed it less than a
 * second before it was gone through may have come afterwards. */
static bool has_changed(struct muster_live_peers *peers, const char *dir)
{
    struct stat file;
    uint64_t before = peers->dir_changed_ns;
    if (stat(dir, &file) != 0)
        return true;
    peers->dir_changed_ns =
        (uint64_t)file.st_mtim.tv_sec * MUSTER_NS_PER_S + (uint64_t)file.st_mtim.tv_nsec;
    return peers->dir_changed_ns != before ||
           peers->dir_changed_ns + MUSTER_NS_PER_S > peers->listed_unix_ns;
}

void muster_live_peers_scan(struct muster_live_peers *peers, const char *dir,
                            const struct muster_seg_identity *own)
{
    struct muster_found *found;
    if (!has_changed(peers, dir) && scan_all_known(peers))
        return;
    peers->listed_unix_ns = muster_unix_ns();
    size_t n = muster_find_segments(dir, &found);
    muster_live_peers_take(peers, found, n, own);
    muster_found_free(found, n);
}

bool muster_live_gone_due(struct muster_live_peers *peers, bool named, uint64_t evaluated_ns,
                          uint64_t again_ns, uint64_t now_ns)
{
    bool again = named && now_ns - evaluated_ns >= again_ns, lives = false, due = false;
    for (size_t i = 0; i < peers->n; i++) {
        struct muster_live_peer *peer = &peers->peer[i];
        lives |= peer->alive;
        peer->gone_ns = peer->alive ? 0 : peer->gone_ns ? peer->gone_ns : now_ns;
        due |= peer->exit_state != MUSTER_EXIT_FINALIZED &&
               muster_hang_gone_due(peer->gone_ns, evaluated_ns, now_ns);
    }
    return again || (lives && due);
}

void muster_live_peers_free(struct muster_live_peers *peers)
{
    free(peers->peer);
}

bool muster_live_share_gpu(const struct muster_live_peers *peers,
                           const struct muster_live_peer *who[2])
{
    for (size_t i = 0; i < peers->n; i++) {
        who[0] = &peers->peer[i];
        for (size_t k = i + 1; k < peers->n && who[0]->alive && who[0]->gpu_uuid[0]; k++) {
            who[1] = &peers->peer[k];
            if (who[1]->alive && strcmp(who[0]->gpu_uuid, who[1]->gpu_uuid) == 0)
                return true;
        }
    }
    return false;
}

bool muster_live_before(const struct muster_live_peer *a, const struct muster_live_peer *b)
{
    if (a->identity.pid != b->identity.pid)
        return a->identity.pid < b->identity.pid;
    return a->identity.start_ticks < b->identity.start_ticks;
}

bool muster_live_holds(const struct muster_live_peer *peer, uint64_t id)
{
    for (unsigned i = 0; i < peer->comms; i++)
        if (peer->comm[i].id == id)
            return true;
    return false;
}
