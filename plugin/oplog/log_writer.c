#include "oplog/log_writer.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"
#include "oplog/log_encode.h"
#include "oplog/log_file.h"
#include "oplog/log_image.h"
#include "segment/image.h"
#include "segment/reap.h"
#include "segment/run_dir.h"
#include "segment/snapshot.h"

enum { QUEUE = 8192, WHOLE_SLOTS = 64, IMAGE_TRIES = 4 };
#define IMAGE_NS MUSTER_NS_PER_S

struct item {
    struct muster_op op;
    uint64_t ordinal; /* of the operation in the process */
};

/* Operations on their way from the drain thread to the log's: one producer, one consumer. */
struct queue {
    _Alignas(64) _Atomic uint32_t head; /* put so far; the producer's */
    _Alignas(64) _Atomic uint32_t tail; /* taken so far; the consumer's */
    struct item item[QUEUE];
};

struct muster_log_writer {
    struct queue queue;
    uint64_t ordinal; /* of the next operation; the drain thread's */
    struct muster_segment *segment;
    struct muster_log_options options;
    _Atomic bool logs;   /* operations go into a file, or will once it is there */
    _Atomic bool woken;  /* a wake-up is on its way */
    _Atomic bool finish; /* the next round is the last */
    _Atomic bool complete;
    _Atomic uint32_t owners; /* the thread and whoever calls finish; the last one frees */
    sem_t wake, done;
    pid_t pid;
    _Atomic(struct muster_artifact *) keep;
    _Atomic bool keeps;
    /* The thread's. */
    struct muster_segment_file segment_file;
    struct muster_log_file file;
    struct muster_log_encoder encoder;
    struct muster_log_image image;
    uint64_t imaged_ns; /* when the image was written last */
    bool placed;        /* the directory is there */
    bool whole;         /* it is to be written as a whole */
    size_t closed;      /* bytes of a closed frame that could not be written yet */
    bool failing;
    bool reported; /* a failure was logged */
};

/* The producer's: false if it is full. *filled: items inside afterwards. */
static bool queue_put(struct queue *queue, const struct muster_op *op, uint64_t ordinal,
                      uint32_t *filled)
{
    uint32_t head = atomic_load_explicit(&queue->head, memory_order_relaxed);
    /* Acquire: with the release in drop, so that the item has been read before it is replaced. */
    uint32_t inside = head - atomic_load_explicit(&queue->tail, memory_order_acquire);
    if (inside == QUEUE)
        return false;
    queue->item[head % QUEUE] = (struct item){*op, ordinal};
    /* Release: with the acquire in peek. */
    atomic_store_explicit(&queue->head, head + 1, memory_order_release);
    *filled = inside + 1;
    return true;
}

/* The consumer's: the oldest item, which stays until it is dropped; NULL: empty. */
static const struct item *queue_peek(struct queue *queue)
{
    uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
    if (atomic_load_explicit(&queue->head, memory_order_acquire) == tail)
        return NULL;
    return &queue->item[tail % QUEUE];
}

static void queue_drop(struct queue *queue)
{
    uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
    atomic_store_explicit(&queue->tail, tail + 1, memory_order_release);
}

static void release(struct muster_log_writer *writer)
{
    /* Both orders: what the other owner did is over before memory goes. */
    if (atomic_fetch_sub_explicit(&writer->owners, 1, memory_order_acq_rel) > 1)
        return;
    muster_log_image_close(&writer->image);
    free(atomic_load_explicit(&writer->keep, memory_order_relaxed));
    sem_destroy(&writer->wake);
    sem_destroy(&writer->done);
    free(writer);
}

static bool report(struct muster_log_writer *writer, int error)
{
    if (error == 0) {
        if (writer->failing)
            muster_log(MUSTER_LOG_INFO, "%s: writing again", writer->file.path);
        writer->failing = false;
        return true;
    }
    if (!writer->reported)
        muster_log(MUSTER_LOG_WARN, "%s: %s; what does not fit the queue meanwhile is lost",
                   writer->file.path, strerror(error));
    writer->failing = writer->reported = true;
    return false;
}

static void next_slot(struct muster_log_writer *writer)
{
    struct muster_log_file *file = &writer->file;
    uint32_t given_up = muster_log_file_next(file);
    atomic_fetch_add_explicit(&writer->segment->log_overwritten, given_up, memory_order_relaxed);
    /* What is written once must not wander out of a log that goes round, and what damage took from
     * the image must come back. */
    if (file->slot == 0 || file->slot == file->slots / 2 || file->begun % WHOLE_SLOTS == 0)
        writer->whole = true;
}

static void open_frame(struct muster_log_writer *writer)
{
    muster_log_encode_begin(&writer->encoder, muster_log_file_room(&writer->file));
}

/* Writes the frame, if there is something in it, and begins another. */
static bool flush(struct muster_log_writer *writer)
{
    if (writer->closed == 0) {
        if (muster_log_encode_empty(&writer->encoder))
            return true;
        writer->closed =
            muster_log_encode_end(&writer->encoder, writer->file.sequence, writer->file.begun);
    }
    int rc = muster_log_file_append(&writer->file, writer->encoder.buffer, writer->closed,
                                    writer->encoder.ops);
    if (!report(writer, rc))
        return false;
    writer->closed = 0;
    open_frame(writer);
    return true;
}

/* After something did not fit. A frame in a fresh slot takes anything. */
static bool make_room(struct muster_log_writer *writer)
{
    if (!muster_log_encode_empty(&writer->encoder))
        return flush(writer);
    next_slot(writer);
    open_frame(writer);
    return true;
}

static bool write_ops(struct muster_log_writer *writer)
{
    const struct item *item;
    while ((item = queue_peek(&writer->queue))) {
        struct muster_log_comm comm;
        bool known = muster_log_encode_wants_comm(&writer->encoder, item->op.comm) &&
                     muster_log_image_comm(&writer->image, item->op.comm, &comm);
        if (muster_log_encode_op(&writer->encoder, known ? &comm : NULL, &item->op, item->ordinal))
            queue_drop(&writer->queue);
        else if (!make_room(writer))
            return false;
    }
    return true;
}

static uint64_t retired(const struct muster_log_writer *writer)
{
    return atomic_load_explicit(&writer->segment->ring_head, memory_order_acquire);
}

/* Again if operations were retired meanwhile: then some entries count them, others do not. */
static bool write_image(struct muster_log_writer *writer)
{
    uint64_t before;
    unsigned tries = 0;
    do {
        bool whole = writer->whole;
        writer->whole = false; /* a slot that begins meanwhile asks for the next one */
        before = retired(writer);
        while (!muster_log_image_write(&writer->image, &writer->encoder, whole))
            if (!make_room(writer))
                return false;
    } while (retired(writer) != before && ++tries < IMAGE_TRIES);
    writer->imaged_ns = muster_now_ns();
    return true;
}

static bool write_identity(struct muster_log_writer *writer)
{
    struct muster_seg_identity identity;
    muster_snapshot(&identity, &writer->segment->identity, sizeof(identity));
    return report(writer, muster_log_file_identity(&writer->file, &identity));
}

static void write_kept(struct muster_log_writer *writer)
{
    struct muster_err err;
    /* Acquire: pairs with the release in muster_log_writer_keep. */
    struct muster_artifact *kept =
        atomic_exchange_explicit(&writer->keep, NULL, memory_order_acquire);
    if (kept && writer->placed &&
        muster_artifact_write(kept, writer->segment->identity.run_dir, &err) != 0)
        muster_log(MUSTER_LOG_WARN, "%s", err.text);
    free(kept);
}

static bool write_round(struct muster_log_writer *writer, bool last)
{
    if (writer->closed && !flush(writer))
        return false;
    if (!write_identity(writer) || !write_ops(writer))
        return false;
    /* A queue that fills fast wakes the writer more often than once a second. */
    bool due = last || writer->whole || muster_now_ns() - writer->imaged_ns >= IMAGE_NS * 9 / 10;
    return (!due || write_image(writer)) && flush(writer);
}

static void wait_for_work(struct muster_log_writer *writer)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 1;
    for (;;) {
        int rc = sem_clockwait(&writer->wake, CLOCK_MONOTONIC, &until);
        bool finish = atomic_load_explicit(&writer->finish, memory_order_acquire);
        /* A full disk is tried once a second, however full the queue is. */
        if ((rc == 0 && (finish || !writer->failing)) || (rc != 0 && errno != EINTR))
            break;
    }
    /* Before the queue is looked at: a put after this wakes again. */
    atomic_store_explicit(&writer->woken, false, memory_order_seq_cst);
}

static void count_lost(struct muster_log_writer *writer)
{
    uint64_t lost = 0;
    while (queue_peek(&writer->queue)) {
        queue_drop(&writer->queue);
        lost++;
    }
    lost += writer->closed ? writer->encoder.ops : 0;
    atomic_fetch_add_explicit(&writer->segment->lost_log, lost, memory_order_relaxed);
}

static void reap_others(const struct muster_log_writer *writer)
{
    char dir[MUSTER_SEG_PATH];
    if (!writer->segment_file.shared)
        return;
    muster_text_copy_path(dir, sizeof(dir), writer->segment_file.path);
    *strrchr(dir, '/') = 0;
    muster_reap(dir[0] ? dir : "/");
}

static int create_in(struct muster_log_writer *writer, const char *dir, struct muster_err *err)
{
    struct muster_seg_identity *identity = &writer->segment->identity;
    int rc = muster_make_dir(dir);
    if (rc == 0 && writer->options.max_bytes == 0 && access(dir, W_OK) != 0)
        rc = errno;
    if (rc)
        return muster_fail(err, "%s: %s", dir, strerror(rc));
    return writer->options.max_bytes == 0
               ? 0
               : muster_log_file_create(&writer->file, dir, identity->file_stem,
                                        sizeof(identity->file_stem), writer->options.max_bytes,
                                        err);
}

/* The identity in the segment has in the end where the files are. */
static int create(struct muster_log_writer *writer, struct muster_err *err)
{
    struct muster_seg_identity *identity = &writer->segment->identity;
    char dir[MUSTER_SEG_PATH] = ""; /* all of it goes into a file */
    struct muster_err first, second;
    if ((writer->options.named || muster_check_owner(identity->run_dir, &first) == 0) &&
        create_in(writer, identity->run_dir, &first) == 0)
        return 0;
    if (muster_run_dir_fallback(dir, sizeof(dir), identity->run_dir, &second) != 0 ||
        muster_check_owner(dir, &second) != 0 || create_in(writer, dir, &second) != 0)
        return muster_fail(err, "%.250s; nor under TMPDIR: %.220s", first.text, second.text);
    muster_log(MUSTER_LOG_WARN, "%s; this run is written to %s", first.text, dir);
    memcpy(identity->run_dir, dir, sizeof(identity->run_dir));
    return 0;
}

/* The thread's first step, because a file system may take seconds for it, or never answer. */
static void settle(struct muster_log_writer *writer)
{
    struct muster_err err;
    writer->placed = create(writer, &err) == 0;
    if (!writer->placed) {
        muster_log(MUSTER_LOG_WARN, "no log is written: %s", err.text);
        /* Relaxed: what is put until this is seen is given up. */
        atomic_store_explicit(&writer->logs, false, memory_order_relaxed);
        return;
    }
    if (writer->options.max_bytes == 0)
        return;
    open_frame(writer);
    /* At once, so that even a process that dies within the second left its name. */
    write_identity(writer);
}

static void *writer_main(void *arg)
{
    struct muster_log_writer *writer = arg;
    struct muster_err err;
    bool last = false, whole = true;
    settle(writer);
    reap_others(writer);
    bool logs = atomic_load_explicit(&writer->logs, memory_order_relaxed);
    while (!last) {
        wait_for_work(writer);
        last = atomic_load_explicit(&writer->finish, memory_order_acquire);
        whole = !logs || write_round(writer, last);
        write_kept(writer);
    }
    if (!whole)
        count_lost(writer);
    if (muster_segment_archive(&writer->segment_file, &err) != 0) {
        muster_log(MUSTER_LOG_WARN, "the totals are not kept: %s", err.text);
        whole = false;
    }
    if (logs)
        muster_log_file_close(&writer->file);
    atomic_store_explicit(&writer->complete, whole, memory_order_release);
    sem_post(&writer->done);
    release(writer);
    return NULL;
}

static struct muster_log_writer *new_writer(const struct muster_segment_file *file)
{
    struct muster_log_writer *writer = aligned_alloc(64, sizeof(*writer));
    if (!writer)
        return NULL;
    memset(writer, 0, sizeof(*writer));
    if (!muster_log_image_open(&writer->image, file->map)) {
        free(writer);
        return NULL;
    }
    writer->segment = file->map;
    writer->segment_file = *file;
    writer->pid = getpid();
    writer->ordinal = atomic_load_explicit(&file->map->ring_head, memory_order_relaxed);
    atomic_store_explicit(&writer->owners, 2, memory_order_relaxed);
    sem_init(&writer->wake, 0, 0);
    sem_init(&writer->done, 0, 0);
    return writer;
}

int muster_log_writer_start(struct muster_log_writer **writer,
                            const struct muster_segment_file *file,
                            const struct muster_log_options *options, struct muster_err *err)
{
    struct muster_log_writer *made = new_writer(file);
    if (!made)
        return muster_fail_memory(err, "the log");
    made->options = *options;
    atomic_store_explicit(&made->logs, options->max_bytes > 0, memory_order_relaxed);
    int rc = muster_thread_start("muster-log", writer_main, made);
    if (rc) {
        /* Without the thread there is one owner. */
        atomic_store_explicit(&made->owners, 1, memory_order_relaxed);
        release(made);
        return muster_fail(err, "no thread for the log: %s", strerror(rc));
    }
    *writer = made;
    return 0;
}

static void wake(struct muster_log_writer *writer)
{
    if (!atomic_exchange_explicit(&writer->woken, true, memory_order_seq_cst))
        sem_post(&writer->wake);
}

bool muster_log_writer_keep(struct muster_log_writer *writer, struct muster_artifact *kept)
{
    if (atomic_exchange_explicit(&writer->keeps, true, memory_order_relaxed))
        return false;
    atomic_store_explicit(&writer->keep, kept, memory_order_release);
    sem_post(&writer->wake); /* now: a short job may be killed before the writer's second is over */
    return true;
}

bool muster_log_put(struct muster_log_writer *writer, const struct muster_op *op)
{
    uint32_t filled;
    uint64_t ordinal = writer->ordinal++;
    if (!atomic_load_explicit(&writer->logs, memory_order_relaxed))
        return false;
    if (!queue_put(&writer->queue, op, ordinal, &filled)) {
        atomic_fetch_add_explicit(&writer->segment->lost_log, 1, memory_order_relaxed);
        return false;
    }
    if (filled >= QUEUE / 2)
        wake(writer);
    return true;
}

bool muster_log_writer_finish(struct muster_log_writer *writer, unsigned deadline_ms)
{
    /* A forked child has neither the thread nor the segment. */
    if (!writer || writer->pid != getpid())
        return false;
    uint64_t until_ns = muster_now_ns() + deadline_ms * MUSTER_NS_PER_MS;
    struct timespec until = {.tv_sec = (time_t)(until_ns / MUSTER_NS_PER_S),
                             .tv_nsec = (long)(until_ns % MUSTER_NS_PER_S)};
    atomic_store_explicit(&writer->finish, true, memory_order_release);
    sem_post(&writer->wake);
    int rc;
    while ((rc = sem_clockwait(&writer->done, CLOCK_MONOTONIC, &until)) != 0 && errno == EINTR)
        ;
    bool whole = rc == 0 && atomic_load_explicit(&writer->complete, memory_order_acquire);
    /* Another segment stays where it lies, and whoever reads next finds it. */
    if (rc != 0 && !writer->segment_file.shared)
        muster_log(
            MUSTER_LOG_WARN,
            "the file system of the run directory did not answer for %u ms at the exit: what "
            "this process recorded is lost, as its segment was in its own memory. Make room "
            "in MUSTER_SEGMENT_DIR (/dev/shm): there it outlives the process",
            deadline_ms);
    release(writer);
    return whole;
}
