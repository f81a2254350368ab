#include "fault_hostile.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "segment/identity.h"
#include "segment/image.h"
#include "segment/totals.h"

uint64_t hostile_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void hostile_image(struct muster_segment *image, const char *run_dir, const char *stem)
{
    struct muster_seg_identity identity;
    struct muster_row_index rows = {0};

    memset((void *)image, 0, sizeof(*image));
    muster_identity_read(&identity);
    identity.pid = 1u << 30;
    identity.start_ticks = 1;
    snprintf(identity.run_dir, sizeof(identity.run_dir), "%s", run_dir);
    snprintf(identity.file_stem, sizeof(identity.file_stem), "%s", stem);
    muster_segment_init(image, &identity);
    image->comm[0].uid = 1;
    image->comm[0].id = 0xc0ffee;
    image->comm[0].nranks = 4;
    for (unsigned i = 0; i < 2 * MUSTER_SEG_RING; i++) {
        struct muster_op op = {.number = i,
                               .begin_ns = 1000 * i + 1,
                               .end_ns = 1000 * i + 500,
                               .count = i,
                               .comm = 1,
                               .peer = -1,
                               .func = MUSTER_FUNC_ALL_REDUCE,
                               .dtype = MUSTER_DTYPE_FLOAT32,
                               .algo = MUSTER_ALGO_RING,
                               .source = MUSTER_SOURCE_GPU};
        image->ring[i % MUSTER_SEG_RING] = op;
        muster_rows_add(image, &rows, &op, 4u * i);
    }
    atomic_store(&image->ring_head, 2u * MUSTER_SEG_RING);
    for (unsigned i = 0; i < 100; i++) {
        image->slot[i].comm = 1;
        image->slot[i].count = i;
        atomic_store(&image->slot_state[i], muster_slot_word(i, MUSTER_SLOT_LAUNCHED));
    }
}

/* What breaks arithmetic. */
static uint64_t extreme(uint64_t *random)
{
    static const uint64_t values[] = {0,         1,          INT32_MAX, UINT32_MAX,
                                      INT64_MAX, 1ull << 63, UINT64_MAX};
    uint64_t pick = hostile_random(random) % 8;
    return pick < 7 ? values[pick] : hostile_random(random);
}

static void endless_texts(struct muster_segment *image)
{
    struct muster_seg_identity *identity = &image->identity;
    memset(identity->why_not_armed, '%', sizeof(identity->why_not_armed));
    memset(identity->host, 0x1b, sizeof(identity->host));
    memset(identity->hostname, 0xff, sizeof(identity->hostname));
    memset(identity->gpu_name, '"', sizeof(identity->gpu_name));
    for (unsigned i = 0; i <= MUSTER_SEG_COMMS; i++) {
        memset(image->comm[i].gpu_pci, 'A', sizeof(image->comm[i].gpu_pci));
        memset(image->comm[i].gpu_uuid, 'A', sizeof(image->comm[i].gpu_uuid));
        memset(image->comm[i].name, '\n', sizeof(image->comm[i].name));
        image->comm[i].uid = i + 1;
    }
}

static void noise(void *to, size_t bytes, uint64_t *random)
{
    for (size_t at = 0; at + 8 <= bytes; at += 8) {
        uint64_t word = hostile_random(random);
        memcpy((char *)to + at, &word, sizeof(word));
    }
}

static void scatter_extremes(struct muster_segment *image, size_t from, uint64_t *random)
{
    for (uint64_t n = 1 + hostile_random(random) % 5000; n > 0; n--) {
        uint64_t word = extreme(random);
        size_t at = from + hostile_random(random) % (sizeof(*image) - from - 8);
        memcpy((char *)image + at / 4 * 4, &word, sizeof(word));
    }
}

size_t hostile_damage(struct muster_segment *image, uint64_t *random)
{
    size_t body = offsetof(struct muster_segment, heartbeat_mono_ns);
    switch (hostile_random(random) % 6) {
    case 0:
        noise((char *)image + body, sizeof(*image) - body, random);
        break;
    case 1:
        scatter_extremes(image, body, random);
        break;
    case 2:
        endless_texts(image);
        scatter_extremes(image, body, random);
        break;
    case 3:
        image->header_bytes = (uint32_t)extreme(random);
        image->comm_bytes = (uint32_t)extreme(random);
        image->size = hostile_random(random) % 2 ? image->size : (uint32_t)extreme(random);
        break;
    case 4:
        return hostile_random(random) % sizeof(*image);
    default:
        noise(&image->identity, sizeof(image->identity), random);
        break;
    }
    return sizeof(*image);
}

static void write_file(const char *path, const void *data, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || muster_pwrite_all(fd, data, bytes, 0) != 0)
        abort();
    close(fd);
}

void hostile_plant(const char *dir, unsigned pid, const void *image, size_t bytes)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/muster-%u-1-%u-1.lock", dir, (unsigned)geteuid(), pid);
    write_file(path, "", 0);
    snprintf(path, sizeof(path), "%s/muster-%u-1-%u-1.seg", dir, (unsigned)geteuid(), pid);
    write_file(path, image, bytes);
}
