#include "fleet/nats/lease.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"

enum { PAUSE_MS = 50, KEY = MUSTER_FLEET_NAME + 8 };
/* Who holds many jobs leaves a free one to others for a moment. */
#define POLITE_NS      (20 * MUSTER_NS_PER_MS)
#define POLITE_MOST_NS (200 * MUSTER_NS_PER_MS)

struct lease {
    char job[MUSTER_FLEET_NAME];
    uint64_t revision;
    uint64_t changed_ns; /* when another's was seen to change */
    uint64_t renewed_ns; /* begin of the last request that succeeded */
    uint64_t tried_ns;
    bool held, free; /* free: its key is gone */
};

struct muster_leases {
    kvStore *bucket;
    kvWatcher *watcher;
    char worker[MUSTER_FLEET_NAME];
    pthread_t thread;
    pthread_mutex_t lock;
    bool stop;
    struct lease *lease;
    size_t n;
};

static void key_of(char key[KEY], const char *job)
{
    snprintf(key, KEY, "lease.%s", job);
}

/* NULL: no memory. Under the lock. */
static struct lease *lease_of(struct muster_leases *leases, const char *job)
{
    for (size_t i = 0; i < leases->n; i++)
        if (strcmp(leases->lease[i].job, job) == 0)
            return &leases->lease[i];
    if (!muster_grow(&leases->lease, leases->n, sizeof *leases->lease))
        return NULL;
    struct lease *lease = &leases->lease[leases->n++];
    *lease = (struct lease){.free = true};
    memccpy(lease->job, job, '\0', sizeof lease->job - 1);
    return lease;
}

/* ---- what others do ---- */

static void note(struct muster_leases *leases, kvEntry *entry)
{
    const char *key = kvEntry_Key(entry);
    if (!key || strncmp(key, "lease.", 6) != 0)
        return;
    pthread_mutex_lock(&leases->lock);
    struct lease *lease = lease_of(leases, key + 6);
    if (lease && kvEntry_Revision(entry) > lease->revision) {
        lease->revision = kvEntry_Revision(entry);
        lease->changed_ns = muster_now_ns();
        lease->free = kvEntry_Operation(entry) != kvOp_Put;
        lease->held = false; /* somebody else wrote it */
    }
    pthread_mutex_unlock(&leases->lock);
}

static void watch(struct muster_leases *leases)
{
    kvEntry *entry = NULL;
    while (kvWatcher_Next(&entry, leases->watcher, 1) == NATS_OK) {
        if (entry) /* NULL: all that was there before has come */
            note(leases, entry);
        kvEntry_Destroy(entry);
        entry = NULL;
    }
}

/* ---- renewing ---- */

static void renew(struct muster_leases *leases, size_t i)
{
    char key[KEY];
    pthread_mutex_lock(&leases->lock);
    struct lease lease = leases->lease[i];
    uint64_t now = muster_now_ns(), revision = lease.revision;
    leases->lease[i].tried_ns = now;
    pthread_mutex_unlock(&leases->lock);
    key_of(key, lease.job);
    bool done = kvStore_UpdateString(&revision, leases->bucket, key, leases->worker,
                                     lease.revision) == NATS_OK;
    pthread_mutex_lock(&leases->lock);
    struct lease *is = &leases->lease[i];
    if (done && is->held && revision > is->revision) {
        is->revision = revision;
        is->renewed_ns = now;
    }
    pthread_mutex_unlock(&leases->lock);
}

static void *lease_main(void *arg)
{
    struct muster_leases *leases = arg;
    bool stop = false;
    while (!stop) {
        watch(leases);
        pthread_mutex_lock(&leases->lock);
        size_t n = leases->n;
        stop = leases->stop;
        pthread_mutex_unlock(&leases->lock);
        for (size_t i = 0; i < n && !stop; i++) {
            pthread_mutex_lock(&leases->lock);
            const struct lease *lease = &leases->lease[i];
            bool due = lease->held && muster_now_ns() - lease->tried_ns >= MUSTER_LEASE_RENEW_NS;
            pthread_mutex_unlock(&leases->lock);
            if (due)
                renew(leases, i);
        }
        nats_Sleep(PAUSE_MS);
    }
    return NULL;
}

int muster_leases_start(kvStore *bucket, const char *worker, struct muster_leases **leases,
                        struct muster_err *err)
{
    struct muster_leases *one = calloc(1, sizeof *one);
    if (!one)
        return muster_fail_memory(err, "leases");
    one->bucket = bucket;
    memccpy(one->worker, worker, '\0', sizeof one->worker - 1);
    pthread_mutex_init(&one->lock, NULL);
    natsStatus s = kvStore_Watch(&one->watcher, bucket, "lease.>", NULL);
    int rc = s == NATS_OK ? pthread_create(&one->thread, NULL, lease_main, one) : -1;
    if (rc == 0) {
        *leases = one;
        return 0;
    }
    kvWatcher_Destroy(one->watcher);
    pthread_mutex_destroy(&one->lock);
    free(one);
    return muster_fail(err, "leases cannot be watched: %s", natsStatus_GetText(s));
}

void muster_leases_stop(struct muster_leases *leases)
{
    if (!leases)
        return;
    pthread_mutex_lock(&leases->lock);
    leases->stop = true;
    pthread_mutex_unlock(&leases->lock);
    pthread_join(leases->thread, NULL);
    for (size_t i = 0; i < leases->n; i++)
        if (leases->lease[i].held)
            muster_leases_give(leases, leases->lease[i].job);
    kvWatcher_Stop(leases->watcher);
    kvWatcher_Destroy(leases->watcher);
    pthread_mutex_destroy(&leases->lock);
    free(leases->lease);
    free(leases);
}

/* ---- taking ---- */

static uint64_t patience(const struct muster_leases *leases)
{
    uint64_t held = 0;
    for (size_t i = 0; i < leases->n; i++)
        held += leases->lease[i].held;
    return held * POLITE_NS < POLITE_MOST_NS ? held * POLITE_NS : POLITE_MOST_NS;
}

bool muster_leases_take(struct muster_leases *leases, const char *job)
{
    char key[KEY];
    pthread_mutex_lock(&leases->lock);
    struct lease *lease = lease_of(leases, job);
    uint64_t now = muster_now_ns(), revision = lease ? lease->revision : 0;
    if (lease && lease->changed_ns == 0)
        lease->changed_ns = now; /* seen for the first time */
    uint64_t over = lease && lease->free ? 0 : MUSTER_LEASE_OVER_NS;
    bool may = lease && !lease->held && now - lease->changed_ns >= over + patience(leases) &&
               now - lease->tried_ns >= MUSTER_LEASE_RENEW_NS / 2;
    bool made = lease && lease->free;
    if (may)
        lease->tried_ns = now;
    pthread_mutex_unlock(&leases->lock);
    if (!may)
        return false;
    key_of(key, job);
    natsStatus s =
        made ? kvStore_CreateString(&revision, leases->bucket, key, leases->worker)
             : kvStore_UpdateString(&revision, leases->bucket, key, leases->worker, revision);
    if (s != NATS_OK)
        return false;
    pthread_mutex_lock(&leases->lock);
    lease = lease_of(leases, job);
    bool mine = lease && revision >= lease->revision;
    if (mine) {
        lease->revision = revision;
        lease->renewed_ns = now;
        lease->held = true;
        lease->free = false;
    }
    pthread_mutex_unlock(&leases->lock);
    return mine;
}

bool muster_leases_has(struct muster_leases *leases, const char *job)
{
    pthread_mutex_lock(&leases->lock);
    struct lease *lease = lease_of(leases, job);
    bool has = lease && lease->held;
    if (has && muster_now_ns() - lease->renewed_ns >= MUSTER_LEASE_OVER_NS) {
        lease->held = has = false;
        lease->changed_ns = muster_now_ns();
    }
    pthread_mutex_unlock(&leases->lock);
    return has;
}

void muster_leases_give(struct muster_leases *leases, const char *job)
{
    char key[KEY];
    pthread_mutex_lock(&leases->lock);
    struct lease *lease = lease_of(leases, job);
    bool held = lease && lease->held;
    if (held)
        lease->held = false;
    pthread_mutex_unlock(&leases->lock);
    key_of(key, job);
    if (held)
        kvStore_Delete(leases->bucket, key);
}
