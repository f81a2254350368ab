/* Facts of the machine on their way through segments. */
#include "segment_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segment/image.h"
#include "segment/segment_reader.h"

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

static void facts_come_out_of_a_segment(void **state)
{
    struct muster_segment *segment = fresh(), *copy;
    struct muster_err err;
    (void)state;
    know_something(&segment->facts);
    assert_int_equal(muster_segment_parse("x.seg", segment, sizeof(*segment), &copy, &err), 0);
    assert_memory_equal(&copy->facts, &segment->facts, sizeof(copy->facts));
    free(copy);
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
    assert_int_equal(strlen(copy->facts.head.nic_verbs), sizeof(copy->facts.head.nic_verbs) - 1);
    assert_int_equal(copy->facts.gpu[7].peers, MUSTER_FACT_PEERS);
    assert_int_equal(copy->facts.gpu[7].peer[63].class, MUSTER_PATH_UNKNOWN);
    assert_int_equal(copy->facts.gpu[7].peer[63].p2p, MUSTER_P2P_UNKNOWN);
    free(copy);
    free(segment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_come_out_of_a_segment),
        cmocka_unit_test(wild_facts_become_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
