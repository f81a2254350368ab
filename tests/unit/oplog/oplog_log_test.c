#include "segment_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oplog/crc32c.h"
#include "oplog/log_encode.h"
#include "oplog/log_image.h"
#include "oplog/log_reader.h"
#include "segment/image.h"

static const struct muster_log_comm dp = {
    .uid = 1, .id = 0x1122334455667788, .rank = 2, .nranks = 4, .nnodes = 1, .name = "dp"};

/* A log in memory. */
struct image {
    uint8_t *data;
    size_t bytes;
    uint32_t frames;
    size_t frame_at[16];
};

static struct muster_log_encoder encoder;

static void put_header(struct image *image, size_t at, uint64_t generation)
{
    struct muster_log_header header;
    memset(&header, 0, sizeof(header));
    header.magic = MUSTER_LOG_MAGIC;
    header.version = MUSTER_LOG_VERSION;
    header.bytes = sizeof(header);
    header.slot_bytes = MUSTER_LOG_SLOT_BYTES;
    header.segment_version = MUSTER_SEG_VERSION;
    header.generation = generation;
    header.identity.pid = 4711;
    header.identity.rank = (int32_t)generation;
    strcpy(header.identity.run_dir, "/run/dir");
    strcpy(header.identity.file_stem, "host-4711");
    header.crc = muster_log_header_crc(&header);
    memcpy(image->data + at, &header, sizeof(header));
}

static void begin_image(struct image *image)
{
    *image = (struct image){.data = calloc(1, 1 << 20), .bytes = MUSTER_LOG_HEADER_BYTES};
    put_header(image, 0, 1);
    put_header(image, MUSTER_LOG_COPY_BYTES, 2);
    muster_log_encode_begin(&encoder, MUSTER_LOG_FRAME_BYTES);
}

static void end_frame(struct image *image)
{
    size_t bytes = muster_log_encode_end(&encoder, image->frames, 0);
    memcpy(image->data + image->bytes, encoder.buffer, bytes);
    image->frame_at[image->frames++] = image->bytes;
    image->bytes += bytes;
    muster_log_encode_begin(&encoder, MUSTER_LOG_FRAME_BYTES);
}

static void put_op(uint64_t n)
{
    struct muster_op op = fixture_op(n);
    assert_true(muster_log_encode_op(&encoder, &dp, &op, n));
}

/* Three frames of three operations each. */
static void small_image(struct image *image)
{
    begin_image(image);
    for (uint64_t n = 0; n < 9; n++) {
        put_op(n);
        if (n % 3 == 2)
            end_frame(image);
    }
}

static void parse_ok(const struct image *image, size_t bytes, struct muster_log *log)
{
    struct muster_err err;
    if (muster_log_parse("log", image->data, bytes, log, &err) != 0)
        fail_msg("%s", err.text);
}

static void assert_op(const struct muster_op *op, uint64_t n)
{
    struct muster_op expected = fixture_op(n);
    assert_memory_equal(op, &expected, sizeof(expected));
}

static void the_crc_is_the_known_one(void **state)
{
    (void)state;
    assert_int_equal(muster_crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(muster_crc32c(muster_crc32c(0, "1234", 4), "56789", 5), 0xe3069283);
    unsigned char byte[100];
    for (size_t i = 0; i < sizeof(byte); i++)
        byte[i] = (unsigned char)(i * 37);
    for (size_t at = 0; at < 9; at++)
        for (size_t n = 0; n <= sizeof(byte) - at; n++)
            assert_int_equal(muster_crc32c(7, byte + at, n),
                             muster_crc32c_by_table(7, byte + at, n));
}

static void what_was_put_comes_out(void **state)
{
    (void)state;
    struct image image;
    struct muster_log log;
    begin_image(&image);
    struct muster_op strange = {.number = UINT64_MAX,
                                .enqueue_ns = 1,
                                .begin_ns = UINT64_MAX,
                                .end_ns = 3,
                                .count = UINT64_MAX,
                                .comm = UINT32_MAX,
                                .peer = INT32_MIN,
                                .func = MUSTER_FUNC_SEND,
                                .source = MUSTER_SOURCE_PROXY,
                                .flags = UINT16_MAX,
                                .channels = 255};
    struct muster_op untimed = {.number = 5, .comm = 1, .peer = 3, .func = MUSTER_FUNC_RECV};
    put_op(0);
    assert_true(muster_log_encode_op(&encoder, NULL, &strange, 1));
    assert_true(muster_log_encode_op(&encoder, &dp, &untimed, 2));
    put_op(3);
    end_frame(&image);
    parse_ok(&image, image.bytes, &log);
    assert_int_equal(log.ops, 4);
    assert_op(&log.op[0], 0);
    assert_memory_equal(&log.op[1], &strange, sizeof(strange));
    assert_memory_equal(&log.op[2], &untimed, sizeof(untimed));
    assert_op(&log.op[3], 3);
    assert_int_equal(log.comms, 1);
    assert_string_equal(log.comm[0].name, "dp");
    assert_int_equal(log.comm[0].id, dp.id);
    assert_int_equal(log.comm[0].nranks, 4);
    assert_int_equal(log.next_op, 4);
    assert_int_equal(log.ops_missing, 0);
    assert_int_equal(log.damaged, 0);
    assert_int_equal(log.identity.rank, 2); /* the header's newer copy */
    muster_log_free(&log);
    free(image.data);
}

/* Tells what changed, in frames of at most `room` bytes, of which it says how many it took. */
static unsigned put(struct muster_log_image *written, struct image *image, bool whole, size_t room)
{
    uint32_t before = image->frames;
    muster_log_encode_begin(&encoder, room);
    while (!muster_log_image_write(written, &encoder, whole)) {
        end_frame(image);
        muster_log_encode_begin(&encoder, room);
    }
    if (!muster_log_encode_empty(&encoder))
        end_frame(image);
    return image->frames - before;
}

static struct muster_segment *some_segment(void)
{
    struct muster_seg_identity nobody = {.rank = -1};
    struct muster_segment *segment = muster_segment_new(&nobody);
    assert_non_null(segment);
    fixture_comm(segment);
    for (uint64_t n = 0; n < 20; n++) {
        struct muster_op op = fixture_op(n);
        fixture_retire(segment, &op);
        segment->comm[0].call[n % MUSTER_SEG_CALLS] =
            (struct muster_seg_call){100 + n, -1, MUSTER_FUNC_ALL_REDUCE, 0, (uint16_t)n};
    }
    atomic_store(&segment->comm[0].calls, 20);
    atomic_store(&segment->exit_state, MUSTER_EXIT_EXITED);
    fixture_slot(segment, 17, 20, MUSTER_SLOT_LAUNCHED);
    segment->net[3] = (struct muster_seg_net){.seq = 8, .comm = 1, .peer = 3, .count = 7};
    segment->policy.rules = 130; /* two more than have an entry */
    memset(segment->policy.sha256, 0xab, 32);
    for (unsigned i = 0; i < MUSTER_SEG_RULES; i++)
        snprintf(segment->policy.rule[i].name, sizeof(segment->policy.rule[i].name), "rule-%u", i);
    atomic_store(&segment->policy.state, MUSTER_POLICY_ACTIVE);
    segment->facts.head.state = MUSTER_FACTS_READ;
    strcpy(segment->facts.head.nic, "eth0");
    return segment;
}

/* But for seq and the slots' generations, which mean nothing to a reader. */
static void assert_image(const struct muster_segment *got, const struct muster_segment *expected)
{
    size_t from = offsetof(struct muster_segment, net), to = offsetof(struct muster_segment, slot);
    struct muster_segment *like = malloc(sizeof(*like));
    memcpy((void *)like, (const void *)expected, sizeof(*like));
    for (unsigned i = 0; i < MUSTER_SEG_NETS; i++)
        like->net[i].seq = 0;
    assert_memory_equal((const char *)got + from, (const char *)like + from, to - from);
    free(like);
    assert_int_equal(atomic_load(&got->exit_state), atomic_load(&expected->exit_state));
    assert_int_equal(atomic_load(&got->ring_head), atomic_load(&expected->ring_head));
    for (unsigned i = 0; i < MUSTER_SEG_COMMS; i++) {
        assert_int_equal(got->comm[i].uid, expected->comm[i].uid);
        assert_int_equal(got->comm[i].retired, expected->comm[i].retired);
        assert_memory_equal(got->comm[i].call, expected->comm[i].call, sizeof(got->comm[i].call));
    }
    for (unsigned i = 0; i < MUSTER_SEG_ROWS; i++)
        assert_memory_equal(&got->row[i].comm, &expected->row[i].comm,
                            sizeof(got->row[i]) - sizeof(got->row[i].seq));
    for (unsigned i = 0; i < MUSTER_SEG_SLOTS; i++) {
        unsigned state = atomic_load(&expected->slot_state[i]) & 0xff;
        bool flies = state >= MUSTER_SLOT_CALLED && state <= MUSTER_SLOT_DONE;
        assert_int_equal(atomic_load(&got->slot_state[i]), flies ? state : MUSTER_SLOT_FREE);
        if (flies)
            assert_memory_equal(&got->slot[i], &expected->slot[i], sizeof(got->slot[i]));
    }
}

static void expect_image(const struct image *image, const struct muster_segment *expected)
{
    struct muster_log log;
    parse_ok(image, image->bytes, &log);
    assert_int_equal(log.damaged, 0);
    assert_image(log.image, expected);
    muster_log_free(&log);
}

static void the_image_comes_out_with_what_changed_since(void **state)
{
    (void)state;
    struct image image;
    struct muster_segment *segment = some_segment();
    struct muster_log_image written = {0};
    begin_image(&image);
    assert_true(muster_log_image_open(&written, segment));
    assert_int_equal(put(&written, &image, false, MUSTER_LOG_FRAME_BYTES), 1);
    expect_image(&image, segment);
    assert_int_equal(put(&written, &image, false, MUSTER_LOG_FRAME_BYTES), 0); /* nothing changed */
    atomic_store(&segment->policy.rule[7].hits, 1000);
    atomic_store(&segment->slot_state[17], 0);
    struct muster_op op = fixture_op(20);
    fixture_retire(segment, &op);
    size_t before = image.bytes;
    assert_int_equal(put(&written, &image, false, MUSTER_LOG_FRAME_BYTES), 1);
    assert_in_range(image.bytes - before, 40, 200);
    expect_image(&image, segment);
    muster_log_image_close(&written);
    free(segment);
    free(image.data);
}

static void an_image_that_does_not_fit_goes_on_in_the_next_frame(void **state)
{
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        struct image image;
        struct muster_segment *segment = some_segment();
        struct muster_log_image written = {0};
        begin_image(&image);
        assert_true(muster_log_image_open(&written, segment));
        assert_in_range(put(&written, &image, whole, 2000), 2, 8);
        expect_image(&image, segment);
        muster_log_image_close(&written);
        free(segment);
        free(image.data);
    }
}

/* What is told as a whole replaces whatever damage left: zeros, too. */
static void a_whole_image_makes_good_what_was_lost(void **state)
{
    (void)state;
    struct image image;
    struct muster_log log;
    struct muster_segment *segment = some_segment();
    struct muster_log_image written = {0};
    begin_image(&image);
    assert_true(muster_log_image_open(&written, segment));
    put(&written, &image, false, MUSTER_LOG_FRAME_BYTES);
    atomic_store(&segment->slot_state[17], 0);
    strcpy(segment->comm[0].name, "tp");
    put(&written, &image, false, MUSTER_LOG_FRAME_BYTES);
    image.data[image.frame_at[1] + sizeof(struct muster_log_frame)] ^= 1;
    atomic_store(&segment->heartbeat_mono_ns, 77);
    put(&written, &image, false, MUSTER_LOG_FRAME_BYTES);
    parse_ok(&image, image.bytes, &log);
    assert_int_equal(log.damaged, 1);
    assert_int_equal(atomic_load(&log.image->heartbeat_mono_ns), 77);
    assert_string_equal(log.image->comm[0].name, "dp");
    assert_int_equal(atomic_load(&log.image->slot_state[17]), MUSTER_SLOT_LAUNCHED);
    muster_log_free(&log);
    put(&written, &image, true, MUSTER_LOG_FRAME_BYTES);
    parse_ok(&image, image.bytes, &log);
    assert_image(log.image, segment);
    muster_log_free(&log);
    muster_log_image_close(&written);
    free(segment);
    free(image.data);
}

static void operations_behind_the_image_are_told_apart(void **state)
{
    (void)state;
    struct image image;
    struct muster_log log;
    struct muster_segment *segment = some_segment(); /* has retired 20 */
    struct muster_log_image written = {0};
    begin_image(&image);
    assert_true(muster_log_image_open(&written, segment));
    for (uint64_t n = 3; n < 18; n++)
        put_op(n);
    end_frame(&image);
    put(&written, &image, false, MUSTER_LOG_FRAME_BYTES);
    for (uint64_t n = 18; n < 25; n++)
        put_op(n);
    end_frame(&image);
    parse_ok(&image, image.bytes, &log);
    assert_int_equal(log.ops, 22);
    assert_int_equal(log.ops_imaged, 17);
    muster_log_free(&log);
    muster_log_image_close(&written);
    free(segment);
    free(image.data);
}

/* Right CRC, but no image lies there. */
static void patches_beside_the_image_are_refused(void **state)
{
    (void)state;
    const size_t begin = MUSTER_SEG_IMAGE_BEGIN / 8, end = MUSTER_SEG_IMAGE_END / 8;
    const uint64_t word[2] = {1, 2};
    const struct {
        size_t at, n;
        bool fits;
    } place[] = {{begin, 2, true}, {end - 2, 2, true}, {begin - 1, 2, false}, {end - 1, 2, false},
                 {0, 1, false},    {end, 1, false},    {SIZE_MAX, 1, false},  {begin, end, false}};
    for (size_t i = 0; i < sizeof(place) / sizeof(*place); i++) {
        /* The longest is one of zeros alone. */
        for (int zeros = place[i].n > 2; zeros < 2; zeros++) {
            struct image image;
            struct muster_log log;
            begin_image(&image);
            if (zeros)
                muster_log_encode_zeros(&encoder, place[i].at, place[i].n);
            else
                muster_log_encode_patch(&encoder, place[i].at, word, place[i].n);
            end_frame(&image);
            parse_ok(&image, image.bytes, &log);
            assert_int_equal(log.damaged, !place[i].fits);
            muster_log_free(&log);
            free(image.data);
        }
    }
}

static void an_operation_takes_less_than_32_bytes(void **state)
{
    (void)state;
    struct image image;
    begin_image(&image);
    uint64_t n = 0;
    for (unsigned second = 0; second < 4; second++) {
        for (unsigned i = 0; i < 700; i++)
            put_op(n++);
        end_frame(&image);
    }
    size_t bytes = image.bytes - MUSTER_LOG_HEADER_BYTES;
    print_message("%.1f bytes an operation\n", (double)bytes / (double)n);
    assert_true(bytes <= 32 * n);
    free(image.data);
}

static void a_full_frame_says_so_and_stays_whole(void **state)
{
    (void)state;
    struct image image;
    struct muster_log log;
    begin_image(&image);
    uint64_t n = 0;
    struct muster_op op = fixture_op(0);
    while (muster_log_encode_op(&encoder, &dp, &op, n))
        op = fixture_op(++n);
    assert_true(n > 800);
    end_frame(&image);
    assert_true(image.bytes <= MUSTER_LOG_HEADER_BYTES + MUSTER_LOG_FRAME_BYTES);
    parse_ok(&image, image.bytes, &log);
    assert_int_equal(log.ops, n);
    assert_op(&log.op[n - 1], n - 1);
    muster_log_free(&log);
    muster_log_encode_begin(&encoder, 16);
    assert_false(muster_log_encode_op(&encoder, &dp, &op, n));
    free(image.data);
}

static void a_lost_operation_needs_a_new_frame(void **state)
{
    (void)state;
    struct image image;
    struct muster_log log;
    begin_image(&image);
    struct muster_op op = fixture_op(5);
    put_op(0);
    assert_false(muster_log_encode_op(&encoder, &dp, &op, 5));
    end_frame(&image);
    assert_true(muster_log_encode_op(&encoder, &dp, &op, 5));
    end_frame(&image);
    parse_ok(&image, image.bytes, &log);
    assert_int_equal(log.ops, 2);
    assert_int_equal(log.next_op, 6);
    assert_int_equal(log.ops_missing, 4);
    muster_log_free(&log);
    free(image.data);
}

static size_t frames_before(const struct image *image, size_t bytes)
{
    size_t whole = 0;
    for (uint32_t i = 0; i < image->frames; i++) {
        struct muster_log_frame frame;
        memcpy(&frame, image->data + image->frame_at[i], sizeof(frame));
        whole += image->frame_at[i] + sizeof(frame) + frame.length <= bytes;
    }
    return whole;
}

/* Torn tails: whatever was written in full is read, and nothing is called damaged. */
static void a_log_cut_off_anywhere_keeps_what_is_whole(void **state)
{
    (void)state;
    struct image image;
    struct muster_log log;
    struct muster_err err;
    small_image(&image);
    for (size_t bytes = 0; bytes <= image.bytes; bytes++) {
        /* Exactly so many bytes of memory, for the sanitizer. */
        uint8_t *copy = malloc(bytes ? bytes : 1);
        memcpy(copy, image.data, bytes);
        int rc = muster_log_parse("log", copy, bytes, &log, &err);
        free(copy);
        assert_int_equal(rc, bytes >= sizeof(struct muster_log_header) ? 0 : -1);
        if (rc != 0)
            continue;
        assert_int_equal(log.ops, 3 * frames_before(&image, bytes));
        assert_int_equal(log.damaged, 0);
        muster_log_free(&log);
    }
    free(image.data);
}

/* The frame that holds the byte is lost, the other two never are. */
static void a_flipped_byte_costs_at_most_its_frame(void **state)
{
    (void)state;
    struct image image;
    struct muster_log log;
    small_image(&image);
    for (size_t at = MUSTER_LOG_HEADER_BYTES; at < image.bytes; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            image.data[at] ^= (uint8_t)(1u << bit);
            parse_ok(&image, image.bytes, &log);
            size_t hit = 0;
            for (size_t i = 0; i < image.frames; i++)
                hit = at >= image.frame_at[i] ? i : hit;
            assert_true(log.ops >= 6);
            for (size_t i = 0, n = 0; i < log.ops; i++, n++) {
                if (log.ops == 6 && n == 3 * hit)
                    n += 3;
                assert_op(&log.op[i], n);
            }
            muster_log_free(&log);
            image.data[at] ^= (uint8_t)(1u << bit);
        }
    }
    free(image.data);
}

static void damage_is_counted_and_placed(void **state)
{
    (void)state;
    struct image image;
    struct muster_log log;
    small_image(&image);
    memset(image.data + image.frame_at[1], 0, 4); /* as if the slot ended there */
    parse_ok(&image, image.bytes, &log);
    assert_int_equal(log.ops, 6);
    assert_int_equal(log.ops_missing, 3);
    assert_int_equal(log.damaged, 1);
    assert_int_equal(log.damaged_at, image.frame_at[1]);
    muster_log_free(&log);
    free(image.data);
}

static void a_flip_in_the_header_leaves_the_other_copy(void **state)
{
    (void)state;
    struct image image;
    struct muster_log log;
    small_image(&image);
    for (size_t at = 0; at < MUSTER_LOG_HEADER_BYTES; at++) {
        image.data[at] ^= 0x55;
        parse_ok(&image, image.bytes, &log);
        assert_int_equal(log.ops, 9);
        assert_string_equal(log.identity.file_stem, "host-4711");
        muster_log_free(&log);
        image.data[at] ^= 0x55;
    }
    free(image.data);
}

static void expect_refused(struct image *image, const char *why)
{
    struct muster_log log;
    struct muster_err err;
    assert_int_equal(muster_log_parse("x.log", image->data, image->bytes, &log, &err), -1);
    assert_non_null(strstr(err.text, "x.log"));
    if (!strstr(err.text, why))
        fail_msg("\"%s\" does not say \"%s\"", err.text, why);
}

static void foreign_files_are_refused_in_words(void **state)
{
    (void)state;
    struct image image;
    small_image(&image);
    uint32_t other = MUSTER_LOG_VERSION + 1;
    for (int copy = 0; copy < 2; copy++)
        memcpy(image.data + copy * MUSTER_LOG_COPY_BYTES + 8, &other, sizeof(other));
    expect_refused(&image, "log format 7, this muster reads 6");
    other = 0;
    memcpy(image.data + 8, &other, sizeof(other));
    expect_refused(&image, "log format 0");
    memcpy(image.data, "\177ELF", 4);
    expect_refused(&image, "not a muster log");
    image.bytes = 20;
    expect_refused(&image, "20 bytes are too few");
    free(image.data);
}

/* A right CRC proves nothing about who wrote it. */
static void frames_with_senseless_records_are_left_out(void **state)
{
    (void)state;
    struct image image;
    struct muster_log log;
    small_image(&image);
    struct muster_log_frame frame;
    memcpy(&frame, image.data + image.frame_at[1], sizeof(frame));
    for (unsigned value = 0; value < 256; value++) {
        memset(image.data + image.frame_at[1] + sizeof(frame), (int)value, frame.length);
        struct muster_log_frame *placed = (void *)(image.data + image.frame_at[1]);
        placed->crc = muster_log_frame_crc(placed, frame.length);
        parse_ok(&image, image.bytes, &log);
        assert_int_equal(log.ops, 6);
        assert_int_equal(log.damaged, 1);
        muster_log_free(&log);
    }
    free(image.data);
}

/* Remains of an earlier use of the slot behind the end of the newer frames. */
static void remains_of_an_earlier_use_are_not_read(void **state)
{
    (void)state;
    struct image image;
    struct muster_log log;
    small_image(&image);
    muster_log_encode_begin(&encoder, MUSTER_LOG_FRAME_BYTES);
    put_op(100);
    size_t bytes = muster_log_encode_end(&encoder, 50, 16);
    memcpy(image.data + image.frame_at[0], encoder.buffer, bytes + 8);
    parse_ok(&image, image.bytes, &log);
    assert_int_equal(log.ops, 1);
    assert_op(&log.op[0], 100);
    assert_int_equal(log.ops_missing, 100);
    assert_int_equal(log.damaged, 0);
    muster_log_free(&log);
    free(image.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_crc_is_the_known_one),
        cmocka_unit_test(what_was_put_comes_out),
        cmocka_unit_test(the_image_comes_out_with_what_changed_since),
        cmocka_unit_test(an_image_that_does_not_fit_goes_on_in_the_next_frame),
        cmocka_unit_test(a_whole_image_makes_good_what_was_lost),
        cmocka_unit_test(operations_behind_the_image_are_told_apart),
        cmocka_unit_test(patches_beside_the_image_are_refused),
        cmocka_unit_test(an_operation_takes_less_than_32_bytes),
        cmocka_unit_test(a_full_frame_says_so_and_stays_whole),
        cmocka_unit_test(a_lost_operation_needs_a_new_frame),
        cmocka_unit_test(a_log_cut_off_anywhere_keeps_what_is_whole),
        cmocka_unit_test(a_flipped_byte_costs_at_most_its_frame),
        cmocka_unit_test(damage_is_counted_and_placed),
        cmocka_unit_test(a_flip_in_the_header_leaves_the_other_copy),
        cmocka_unit_test(foreign_files_are_refused_in_words),
        cmocka_unit_test(frames_with_senseless_records_are_left_out),
        cmocka_unit_test(remains_of_an_earlier_use_are_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
