/* Facts of the machine on their way through segments and logs. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segment/image.h"
#include "segment/log_decode.h"
#include "segment/log_facts.h"
#include "segment/read.h"

static struct muster_log_encoder encoder;

static struct muster_segment *fresh(void)
{
    struct muster_segment *segment = aligned_alloc(64, sizeof(*segment));
    struct muster_seg_identity identity = {.pid = 7, .file_stem = "host-7", .run_dir = "/run"};
    assert_non_null(segment);
    memset((void *)segment, 0, sizeof(*segment));
    muster_segment_init(segment, &identity);
    return segment;
}

static void know_something(struct muster_facts *facts)
{
    facts->head.seq = 2;
    facts->head.state = MUSTER_FACTS_READ;
    facts->head.variables = 1u << MUSTER_VAR_P2P_DISABLE;
    strcpy(facts->head.value[MUSTER_VAR_P2P_DISABLE], "1");
    strcpy(facts->head.nic, "eth0");
    for (unsigned i = 0; i < MUSTER_FACT_GPUS; i++) {
        struct muster_fact_gpu *gpu = &facts->gpu[i];
        gpu->seq = 4;
        gpu->named = gpu->known = 1;
        snprintf(gpu->pci, sizeof(gpu->pci), "0000:%02x:00.0", 0x10 + i);
        gpu->peers = MUSTER_FACT_PEERS;
        for (unsigned j = 0; j < MUSTER_FACT_PEERS; j++)
            gpu->peer[j] = (struct muster_fact_peer){.domain = 0x12345,
                                                     .bus = (uint8_t)j,
                                                     .class = MUSTER_PATH_NVLINK,
                                                     .nvlinks = 18,
                                                     .p2p = MUSTER_P2P_OK,
                                                     .limit_mbs = 478116};
        facts->use[i].seq = 6;
        facts->use[i].samples = 3 + i;
        facts->use[i].last.at_ns = UINT64_MAX;
    }
}

/* What a log of all this tells, which may take several frames. */
static void through_log(struct muster_log_facts_told *told, const struct muster_facts *facts,
                        struct muster_log *log, size_t *bytes)
{
    struct muster_log_class *class = calloc(MUSTER_LOG_CLASSES, sizeof(*class));
    bool whole = false;
    assert_non_null(class);
    *bytes = 0;
    while (!whole) {
        struct muster_log_frame frame;
        muster_log_encode_begin(&encoder, MUSTER_LOG_FRAME_BYTES);
        whole = muster_log_facts_write(told, &encoder, facts);
        assert_true(whole || !muster_log_encode_empty(&encoder));
        *bytes += muster_log_encode_end(&encoder, 0, 0) - sizeof(frame);
        memcpy(&frame, encoder.buffer, sizeof(frame));
        assert_true(muster_log_decode(log, &frame, encoder.buffer + sizeof(frame), class));
    }
    free(class);
}

static void expect_equal(const struct muster_facts *a, const struct muster_facts *b)
{
    assert_string_equal(a->head.nic, b->head.nic);
    assert_string_equal(a->head.value[MUSTER_VAR_P2P_DISABLE],
                        b->head.value[MUSTER_VAR_P2P_DISABLE]);
    for (unsigned i = 0; i < MUSTER_FACT_GPUS; i++) {
        assert_memory_equal(a->gpu[i].peer, b->gpu[i].peer, sizeof(a->gpu[i].peer));
        assert_string_equal(a->gpu[i].pci, b->gpu[i].pci);
        assert_memory_equal(&a->use[i].last, &b->use[i].last, sizeof(a->use[i].last));
        assert_int_equal(a->use[i].samples, b->use[i].samples);
    }
}

static void facts_go_through_the_log(void **state)
{
    struct muster_facts facts;
    struct muster_log_facts_told told = {{0}};
    struct muster_log log = {.ops = 0};
    size_t bytes;
    (void)state;
    memset(&facts, 0, sizeof(facts));
    through_log(&told, &facts, &log, &bytes);
    assert_int_equal(bytes, 0);
    assert_null(log.facts);

    know_something(&facts);
    through_log(&told, &facts, &log, &bytes);
    assert_non_null(log.facts);
    expect_equal(log.facts, &facts);

    /* Told once, unless it changes. */
    through_log(&told, &facts, &log, &bytes);
    assert_int_equal(bytes, 0);
    facts.use[3].samples = 99;
    through_log(&told, &facts, &log, &bytes);
    assert_in_range(bytes, 1, 64);
    expect_equal(log.facts, &facts);
    muster_log_free(&log);
}

static void hostile_records_are_refused(void **state)
{
    static const uint8_t *const record[] = {
        (const uint8_t *)"\x11\x01\x01\x01", /* there is no part 17 */
        (const uint8_t *)"\x00\x00\x00\x00", /* goes nowhere */
        (const uint8_t *)"\x00\x81\x08\x00", /* 1,025 zeros of 1,024 bytes */
        (const uint8_t *)"\x00\x00\xff\x7f", /* more bytes than the part has */
        (const uint8_t *)"\x00\x00\x03\x01", /* more than the frame has */
    };
    (void)state;
    for (size_t i = 0; i < sizeof record / sizeof *record; i++) {
        struct muster_log log = {.ops = 0};
        struct muster_log_source in = {.at = record[i], .end = record[i] + 4};
        muster_log_facts_get(&log, &in);
        assert_true(in.bad);
        assert_null(log.facts);
    }
}

static void a_segment_without_facts_is_read(void **state)
{
    struct muster_segment *segment = fresh(), *copy;
    size_t bytes = offsetof(struct muster_segment, facts);
    struct muster_err err;
    (void)state;
    know_something(&segment->facts); /* bytes behind the end count for nothing */
    segment->version = 2;
    segment->size = (uint32_t)bytes;
    assert_int_equal(muster_segment_parse("old.seg", segment, bytes, &copy, &err), 0);
    assert_int_equal(copy->identity.pid, 7);
    assert_int_equal(copy->facts.head.state, MUSTER_FACTS_NONE);
    assert_int_equal(copy->facts.gpu[0].known, 0);
    free(copy);
    assert_int_equal(muster_segment_parse("old.seg", segment, bytes - 1, &copy, &err), -1);
    segment->version = 3;
    assert_int_equal(muster_segment_parse("old.seg", segment, bytes, &copy, &err), -1);
    assert_non_null(strstr(err.text, "another layout"));
    free(segment);
}

static void wild_facts_become_unknown(void **state)
{
    struct muster_segment *segment = fresh(), *copy;
    struct muster_err err;
    (void)state;
    memset(&segment->facts, 0xee, sizeof(segment->facts));
    assert_int_equal(muster_segment_parse("wild.seg", segment, sizeof(*segment), &copy, &err), 0);
    assert_int_equal(copy->facts.head.state, MUSTER_FACTS_NONE);
    assert_int_equal(strlen(copy->facts.head.nic), sizeof(copy->facts.head.nic) - 1);
    assert_int_equal(copy->facts.gpu[7].peers, MUSTER_FACT_PEERS);
    assert_int_equal(copy->facts.gpu[7].peer[63].class, MUSTER_PATH_UNKNOWN);
    assert_int_equal(copy->facts.gpu[7].peer[63].p2p, MUSTER_P2P_UNKNOWN);
    free(copy);
    free(segment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_go_through_the_log),
        cmocka_unit_test(hostile_records_are_refused),
        cmocka_unit_test(a_segment_without_facts_is_read),
        cmocka_unit_test(wild_facts_become_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
