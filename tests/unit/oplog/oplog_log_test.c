#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segment/crc32c.h"
#include "segment/log_encode.h"
#include "segment/log_policy.h"
#include "segment/log_read.h"

static const struct muster_log_comm dp = {
    .uid = 1, .id = 0x1122334455667788, .rank = 2, .nranks = 4, .nnodes = 1, .name = "dp"};

/* A log in memory. */
struct image {
    uint8_t *data;
    size_t bytes;
    uint32_t frames;
    size_t frame_at[8];
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

static void states_come_out(void **state)
{
    (void)state;
    struct image image;
    struct muster_log log;
    begin_image(&image);
    struct muster_log_pending pending = {.launched = 1, .started = 2, .ended = 1};
    pending.op = (struct muster_op){.number = 8,
                                    .enqueue_ns = 99,
                                    .count = 7,
                                    .comm = 1,
                                    .peer = -1,
                                    .func = MUSTER_FUNC_BROADCAST,
                                    .channels = 4};
    struct muster_log_comm_state comm = {.uid = 1,
                                         .outstanding = 70,
                                         .listed = 1,
                                         .calls_listed = 1,
                                         .begin_ns = 5,
                                         .retired = 8,
                                         .calls = 9,
                                         .call_hash = 0xabcdef,
                                         .called_ns = 77,
                                         .launches = 12,
                                         .launches_marked = 11,
                                         .launches_ended = 10,
                                         .pending = &pending};
    comm.call[0] = (struct muster_seg_call){7, -1, MUSTER_FUNC_BROADCAST, MUSTER_DTYPE_INT8, 8};
    struct muster_log_process_state process = {11, 12, MUSTER_EXIT_EXITED, 3, 4, 5};
    assert_true(muster_log_encode_process(&encoder, &process));
    assert_true(muster_log_encode_comm_state(&encoder, &dp, &comm));
    end_frame(&image);
    parse_ok(&image, image.bytes, &log);
    assert_true(log.has_process);
    assert_memory_equal(&log.process, &process, sizeof(process));
    assert_int_equal(log.seens, 1);
    assert_int_equal(log.seen[0].state.outstanding, 70);
    assert_int_equal(log.seen[0].state.calls, 9);
    assert_int_equal(log.seen[0].state.call_hash, 0xabcdef);
    assert_int_equal(log.seen[0].state.called_ns, 77);
    assert_int_equal(log.seen[0].state.launches, 12);
    assert_int_equal(log.seen[0].state.launches_marked, 11);
    assert_int_equal(log.seen[0].state.launches_ended, 10);
    assert_memory_equal(&log.seen[0].state.call[0], &comm.call[0], sizeof(comm.call[0]));
    assert_memory_equal(&log.seen[0].state.pending[0], &pending, sizeof(pending));
    muster_log_free(&log);
    free(image.data);
}

/* Headers and all, for a second of training in full timing a frame. */
static void rule_of(struct muster_segment *segment, unsigned i, uint64_t hits)
{
    struct muster_seg_rule *rule = &segment->policy.rule[i];
    snprintf(rule->name, sizeof(rule->name), "rule-%u", i);
    rule->line = 3 + i;
    atomic_store(&rule->hits, hits);
    atomic_store(&rule->not_offered, hits / 2);
}

static void a_policy_comes_out_with_the_newest_counters(void **state)
{
    (void)state;
    struct image image;
    struct muster_log log;
    struct muster_log_policy_told told = {0};
    struct muster_segment *segment = calloc(1, sizeof(*segment));
    begin_image(&image);
    segment->policy.rules = 130; /* two more than have an entry */
    segment->policy.tuner_api = 5;
    memset(segment->policy.sha256, 0xab, 32);
    for (unsigned i = 0; i < MUSTER_SEG_RULES; i++)
        rule_of(segment, i, i);
    atomic_store(&segment->policy.state, MUSTER_POLICY_ACTIVE);
    assert_true(muster_log_policy_write(&told, &encoder, segment));
    end_frame(&image);
    assert_true(muster_log_policy_write(&told, &encoder, segment));
    assert_true(muster_log_encode_empty(&encoder)); /* nothing has changed */
    rule_of(segment, 7, 1000);
    assert_true(muster_log_policy_write(&told, &encoder, segment));
    end_frame(&image);
    parse_ok(&image, image.bytes, &log);
    assert_int_equal(log.damaged, 0);
    assert_memory_equal(log.policy, &segment->policy, sizeof(segment->policy));
    muster_log_free(&log);
    free(segment);
    free(image.data);
}

static void a_policy_that_does_not_fit_goes_on_in_the_next_frame(void **state)
{
    (void)state;
    struct image image;
    struct muster_log log;
    struct muster_log_policy_told told = {0};
    struct muster_segment *segment = calloc(1, sizeof(*segment));
    begin_image(&image);
    segment->policy.rules = 40;
    for (unsigned i = 0; i < 40; i++)
        rule_of(segment, i, 10 * i);
    atomic_store(&segment->policy.state, MUSTER_POLICY_ACTIVE);
    muster_log_encode_begin(&encoder, 200);
    while (!muster_log_policy_write(&told, &encoder, segment)) {
        end_frame(&image);
        muster_log_encode_begin(&encoder, 400);
    }
    end_frame(&image);
    assert_true(image.frames > 1);
    parse_ok(&image, image.bytes, &log);
    assert_memory_equal(log.policy, &segment->policy, sizeof(segment->policy));
    muster_log_free(&log);
    free(segment);
    free(image.data);
}

static void a_log_of_the_first_version_is_read(void **state)
{
    (void)state;
    struct image image;
    struct muster_log log;
    small_image(&image);
    for (size_t at = 0; at <= MUSTER_LOG_COPY_BYTES; at += MUSTER_LOG_COPY_BYTES) {
        struct muster_log_header header;
        memcpy(&header, image.data + at, sizeof(header));
        header.version = 1;
        header.crc = muster_log_header_crc(&header);
        memcpy(image.data + at, &header, sizeof(header));
    }
    parse_ok(&image, image.bytes, &log);
    assert_int_equal(log.version, 1);
    assert_int_equal(log.ops, 9);
    assert_null(log.policy);
    muster_log_free(&log);
    free(image.data);
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
    expect_refused(&image, "log format 4, this muster reads 1 to 3");
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
        cmocka_unit_test(states_come_out),
        cmocka_unit_test(a_policy_comes_out_with_the_newest_counters),
        cmocka_unit_test(a_policy_that_does_not_fit_goes_on_in_the_next_frame),
        cmocka_unit_test(a_log_of_the_first_version_is_read),
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
