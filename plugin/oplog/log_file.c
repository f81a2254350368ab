#include "oplog/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "segment/image.h"

enum { MIN_SLOTS = 2, MAX_SLOTS = 1 << 24, MAX_STEMS = 1000 };

static int open_new(const char *path, const char *segment)
{
    if (access(segment, F_OK) == 0) {
        errno = EEXIST;
        return -1;
    }
    return open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static int open_free_stem(struct muster_log_file *file, const char *dir, char *stem,
                          size_t stem_size)
{
    char base[128], segment[sizeof(file->path)];
    muster_text_copy_path(base, sizeof(base), stem);
    for (int i = 1; i <= MAX_STEMS; i++) {
        if (i > 1)
            snprintf(stem, stem_size, "%.*s.%d", (int)stem_size - 8, base, i);
        snprintf(file->path, sizeof(file->path), "%s/%s.log", dir, stem);
        snprintf(segment, sizeof(segment), "%s/%s.seg", dir, stem);
        int fd = open_new(file->path, segment);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

int muster_log_file_create(struct muster_log_file *file, const char *dir, char *stem,
                           size_t stem_size, uint64_t max_bytes, struct muster_err *err)
{
    memset(file, 0, sizeof(*file));
    uint64_t slots = max_bytes / MUSTER_LOG_SLOT_BYTES;
    file->slots = slots < MIN_SLOTS ? MIN_SLOTS : slots > MAX_SLOTS ? MAX_SLOTS : (uint32_t)slots;
    file->slot_ops = calloc(file->slots, sizeof(*file->slot_ops));
    if (!file->slot_ops)
        return muster_fail_memory(err, "the log");
    file->fd = open_free_stem(file, dir, stem, stem_size);
    if (file->fd >= 0)
        return 0;
    muster_fail(err, "%s: %s", file->path, strerror(errno));
    free(file->slot_ops);
    return -1;
}

void muster_log_file_close(struct muster_log_file *file)
{
    close(file->fd);
    free(file->slot_ops);
}

int muster_log_file_identity(struct muster_log_file *file,
                             const struct muster_seg_identity *identity)
{
    if (file->generation > 0 && memcmp(&file->identity, identity, sizeof(*identity)) == 0)
        return 0;
    struct muster_log_header header;
    memset(&header, 0, sizeof(header));
    header.magic = MUSTER_LOG_MAGIC;
    header.version = MUSTER_LOG_VERSION;
    header.bytes = sizeof(header);
    header.slot_bytes = MUSTER_LOG_SLOT_BYTES;
    header.segment_version = MUSTER_SEG_VERSION;
    header.generation = file->generation + 1;
    header.identity = *identity;
    header.crc = muster_log_header_crc(&header);
    /* By turns, so that one whole copy always stands. */
    uint64_t at = file->generation % 2 * MUSTER_LOG_COPY_BYTES;
    int rc = muster_pwrite_all(file->fd, &header, sizeof(header), at);
    if (rc)
        return rc;
    file->generation++;
    file->identity = *identity;
    return 0;
}

size_t muster_log_file_room(const struct muster_log_file *file)
{
    return MUSTER_LOG_SLOT_BYTES - file->used;
}

uint32_t muster_log_file_next(struct muster_log_file *file)
{
    file->slot = (file->slot + 1) % file->slots;
    file->used = 0;
    file->begun++;
    uint32_t given_up = file->slot_ops[file->slot];
    file->slot_ops[file->slot] = 0;
    return given_up;
}

int muster_log_file_append(struct muster_log_file *file, const void *frame, size_t bytes,
                           uint32_t ops)
{
    size_t room = muster_log_file_room(file);
    size_t with_end = bytes + 8 < room ? bytes + 8 : room;
    uint64_t at =
        MUSTER_LOG_HEADER_BYTES + (uint64_t)file->slot * MUSTER_LOG_SLOT_BYTES + file->used;
    int rc = muster_pwrite_all(file->fd, frame, with_end, at);
    if (rc)
        return rc;
    file->used += (uint32_t)bytes;
    file->sequence++;
    file->slot_ops[file->slot] += ops;
    return 0;
}
