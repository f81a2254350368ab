#include "fleet_host.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fleet/gather.h"
#include "segment/image.h"

struct fleet_host {
    char dir[64];
    struct muster_found *found;
    struct muster_segment **segment;
    size_t *taken; /* operations, of each rank */
    struct fleet_rank *const *rank;
    unsigned ranks, most;
    struct muster_publisher_parts *parts;
    struct muster_gather *gather;
};

static void *must(void *memory)
{
    if (memory)
        return memory;
    fprintf(stderr, "fleet_agents: out of memory, or /dev/shm is full\n");
    exit(2);
}

static struct muster_segment *map(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct muster_segment)) != 0)
        must(NULL);
    void *at = mmap(NULL, sizeof(struct muster_segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return must(at == MAP_FAILED ? NULL : at);
}

struct fleet_host *fleet_host_new(unsigned ranks_most)
{
    struct fleet_host *host = must(calloc(1, sizeof *host));
    char path[96];
    snprintf(host->dir, sizeof host->dir, "/dev/shm/muster-bench-fleet-XXXXXX");
    must(mkdtemp(host->dir));
    host->most = ranks_most;
    host->parts = must(muster_gather_parts_new());
    host->found = must(calloc(ranks_most, sizeof *host->found));
    host->segment = must(calloc(ranks_most, sizeof(struct muster_segment *)));
    host->taken = must(calloc(ranks_most, sizeof *host->taken));
    for (unsigned r = 0; r < ranks_most; r++) {
        snprintf(path, sizeof path, "%s/%u.seg", host->dir, r);
        host->found[r] = (struct muster_found){.path = must(strdup(path)), .alive = true};
        host->segment[r] = map(path);
    }
    return host;
}

void fleet_host_free(struct fleet_host *host)
{
    muster_gather_free(host->gather);
    free(host->parts);
    for (unsigned r = 0; r < host->most; r++) {
        munmap(host->segment[r], sizeof(struct muster_segment));
        unlink(host->found[r].path);
        free(host->found[r].path);
    }
    rmdir(host->dir);
    free(host->found);
    free((void *)host->segment);
    free(host->taken);
    free(host);
}

void fleet_host_restart(struct fleet_host *host)
{
    muster_gather_free(host->gather);
    host->gather =
        must(muster_gather_new(&host->rank[0]->who, host->rank[0]->who.uid, 1, host->parts));
}

void fleet_host_begin(struct fleet_host *host, struct fleet_rank *const *rank, unsigned ranks)
{
    host->rank = rank;
    host->ranks = ranks;
    for (unsigned r = 0; r < ranks; r++) {
        memset((void *)host->segment[r], 0, sizeof(struct muster_segment));
        muster_segment_init(host->segment[r], &rank[r]->who);
        memcpy((void *)host->segment[r]->comm, rank[r]->comm,
               rank[r]->comms * sizeof *rank[r]->comm);
        host->found[r].uid = rank[r]->who.uid;
        host->taken[r] = 0;
    }
    fleet_host_restart(host);
}

static void retire(struct muster_segment *segment, const struct fleet_op *over)
{
    const struct muster_op *op = &over->op;
    segment->ring[segment->ring_head++ % MUSTER_SEG_RING] = *op;
    for (unsigned i = 0; i < MUSTER_SEG_COMMS && segment->comm[i].uid; i++) {
        struct muster_seg_comm *comm = &segment->comm[i];
        if (comm->uid != op->comm)
            continue;
        comm->calls += op->peer < 0;
        comm->launches++;
        comm->launches_ended++;
        comm->launches_probed++;
        comm->called_ns = op->enqueue_ns;
        comm->ended_ns = over->over_ns;
    }
}

void fleet_host_go(struct fleet_host *host, uint64_t now_ns)
{
    for (unsigned r = 0; r < host->ranks; r++) {
        const struct fleet_rank *rank = host->rank[r];
        host->segment[r]->heartbeat_mono_ns = now_ns;
        for (; host->taken[r] < rank->n && rank->op[host->taken[r]].over_ns <= now_ns;
             host->taken[r]++)
            retire(host->segment[r], &rank->op[host->taken[r]]);
    }
    muster_gather_look(host->gather, host->found, host->ranks, now_ns);
    muster_gather_take(host->gather, now_ns);
}

struct fleet_body fleet_host_publish(struct fleet_host *host, uint64_t now_ns)
{
    struct muster_wire_out out = {0}, head = {0};
    struct muster_arena arena = {0};
    struct muster_wire_message message;
    struct muster_err err;
    muster_gather_publish(host->gather, now_ns, now_ns, NULL, 0, &out);
    if (out.failed ||
        muster_wire_read("fleet_agents", out.byte, out.used, &arena, &message, &err) != 0)
        must(NULL);
    muster_wire_write_head(&message, &head);
    struct fleet_body body = {.byte = out.byte,
                              .bytes = out.used - head.used,
                              .processes = message.processes,
                              .described = message.described};
    memmove(out.byte, out.byte + head.used, body.bytes);
    free(head.byte);
    muster_arena_free(&arena);
    return body;
}
