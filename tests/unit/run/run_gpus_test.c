#include "segment_fixture.h"

#include "run/run_gpus.h"

static struct muster_gpu_part part_of(uint64_t id, int32_t rank, uint32_t nranks, int32_t index)
{
    return (struct muster_gpu_part){.id = id, .rank = rank, .nranks = nranks, .gpu_index = index};
}

static void ordinals_tell_gpus_apart(void **state)
{
    (void)state;
    struct muster_gpu_part part[] = {part_of(1, 4, 8, 7), part_of(1, 5, 8, 2), part_of(2, 0, 2, 2),
                                     part_of(2, 1, 2, 7), part_of(3, 0, 1, -1)};
    assert_int_equal(muster_number_gpus(part, 5), 2);
    assert_int_equal(part[0].gpu, 0);
    assert_int_equal(part[1].gpu, 1);
    assert_int_equal(part[2].gpu, 1);
    assert_int_equal(part[3].gpu, 0);
    assert_int_equal(part[4].gpu, 0);                    /* somewhere it has to be */
    assert_int_equal(muster_rank_of_gpu(part, 5, 0), 4); /* in the larger communicator */
    assert_int_equal(muster_rank_of_gpu(part, 5, 1), 5);
    assert_int_equal(muster_rank_of_gpu(part, 5, 2), -1);
}

static void without_ordinals_the_ranks_of_a_communicator_do(void **state)
{
    (void)state;
    struct muster_gpu_part part[] = {part_of(9, 3, 4, -1), part_of(9, 2, 4, -1),
                                     part_of(5, 0, 2, -1), part_of(0, 1, 0, -1),
                                     part_of(0, 2, 0, -1)};
    assert_int_equal(muster_number_gpus(part, 5), 2);
    assert_int_equal(part[1].gpu, 0);
    assert_int_equal(part[0].gpu, 1);
    assert_int_equal(part[2].gpu, 0);
    assert_int_equal(part[3].gpu, 0); /* communicators without an id are nobody else's */
    assert_int_equal(part[4].gpu, 0);
}

static void a_process_has_one_gpu_at_least_and_64_at_most(void **state)
{
    (void)state;
    struct muster_gpu_part part[200];
    assert_int_equal(muster_number_gpus(part, 0), 1);
    for (int32_t i = 0; i < 200; i++)
        part[i] = part_of(1, i, 200, i);
    assert_int_equal(muster_number_gpus(part, 200), MUSTER_PROCESS_GPUS);
    assert_int_equal(part[199].gpu, MUSTER_PROCESS_GPUS - 1);
    for (int32_t i = 0; i < 200; i++)
        part[i].gpu_index = -1;
    assert_int_equal(muster_number_gpus(part, 200), MUSTER_PROCESS_GPUS);
    assert_int_equal(part[199].gpu, MUSTER_PROCESS_GPUS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinals_tell_gpus_apart),
        cmocka_unit_test(without_ordinals_the_ranks_of_a_communicator_do),
        cmocka_unit_test(a_process_has_one_gpu_at_least_and_64_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
