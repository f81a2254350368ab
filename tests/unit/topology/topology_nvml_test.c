/* What NVML says, laid over a PCI tree or over none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topology/faults.h"
#include "topology/nvml/nvml.h"
#include "topology/paths.h"

enum { LINKS = 18 };

static struct muster_nvml *four_h200(void)
{
    struct muster_nvml *nvml = calloc(1, sizeof *nvml);
    assert_non_null(nvml);
    nvml->gpus = 4;
    for (int i = 0; i < nvml->gpus; i++) {
        struct muster_nvml_gpu *gpu = &nvml->gpu[i];
        *gpu = (struct muster_nvml_gpu){.pci = {.bus = (uint8_t)(9 - i)}, .link_mbps = 26562};
        snprintf(gpu->name, sizeof gpu->name, "NVIDIA H200");
        snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-%d", i);
        for (int j = 0; j < LINKS; j++)
            gpu->link[j] = (struct muster_nvml_link){
                .state = MUSTER_NVLINK_ACTIVE, .remote = MUSTER_NVLINK_TO_SWITCH, .version = 6};
        for (int j = 0; j < nvml->gpus; j++)
            nvml->p2p[i][j] = i == j ? MUSTER_P2P_UNKNOWN : MUSTER_P2P_OK;
    }
    return nvml;
}

static struct muster_machine *machine_of(const struct muster_nvml *nvml)
{
    struct muster_machine *machine;
    assert_int_equal(muster_machine_new(&machine, NULL), 0);
    muster_nvml_annotate(machine, nvml);
    return machine;
}

static void switches_join_every_pair(void **state)
{
    struct muster_nvml *nvml = four_h200();
    struct muster_machine *machine = machine_of(nvml);
    struct muster_faults faults;
    struct muster_path path;
    (void)state;
    assert_int_equal(machine->gpus, 4);
    assert_string_equal(machine->gpu[0].uuid, "GPU-3"); /* by address, not by NVML's order */
    assert_int_equal(machine->gpu[0].index, 3);
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++) {
            muster_path_gpus(machine, a, b, &path);
            assert_int_equal(path.class, a == b ? MUSTER_PATH_SELF : MUSTER_PATH_NVLINK);
            assert_int_equal(path.nvlinks, a == b ? 0 : LINKS);
            if (a != b)
                assert_float_equal(path.limit_gbs, (float)(LINKS * 26.562), 0.01F);
        }
    muster_faults_find(machine, &faults);
    assert_int_equal(faults.n, 0);
    muster_machine_free(machine);
    free(nvml);
}

static void a_gpu_with_fewer_links_stands_out(void **state)
{
    struct muster_nvml *nvml = four_h200();
    struct muster_faults faults;
    struct muster_path path;
    (void)state;
    nvml->gpu[1].link[5].state = MUSTER_NVLINK_INACTIVE;
    nvml->gpu[1].link[6].state = MUSTER_NVLINK_INACTIVE;
    struct muster_machine *machine = machine_of(nvml);
    muster_faults_find(machine, &faults);
    assert_int_equal(faults.n, 1);
    assert_int_equal(faults.at[0].kind, MUSTER_FAULT_NVLINK);
    assert_int_equal(faults.at[0].gpu, 2);
    muster_path_gpus(machine, 0, 2, &path);
    assert_int_equal(path.nvlinks, 16);
    assert_true(muster_fault_between(machine, &faults.at[0], 0, 2));
    assert_false(muster_fault_between(machine, &faults.at[0], 0, 1));
    muster_machine_free(machine);
    free(nvml);
}

static void direct_links_join_only_their_ends(void **state)
{
    struct muster_nvml *nvml = four_h200();
    struct muster_path path;
    (void)state;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < LINKS; j++)
            nvml->gpu[i].link[j] = j < 4 ? (struct muster_nvml_link){.state = MUSTER_NVLINK_ACTIVE,
                                                                     .remote = MUSTER_NVLINK_TO_GPU,
                                                                     .to = nvml->gpu[i ^ 1].pci}
                                         : (struct muster_nvml_link){0};
    struct muster_machine *machine = machine_of(nvml);
    muster_path_gpus(machine, 0, 1, &path);
    assert_int_equal(path.nvlinks, 4);
    muster_path_gpus(machine, 0, 2, &path);
    assert_int_equal(path.class, MUSTER_PATH_UNKNOWN);
    muster_machine_free(machine);
    free(nvml);
}

static void speeds_by_version_stand_in_for_what_is_not_said(void **state)
{
    struct muster_nvml *nvml = four_h200();
    (void)state;
    for (int i = 0; i < 4; i++)
        nvml->gpu[i].link_mbps = 0;
    struct muster_machine *machine = machine_of(nvml);
    assert_float_equal(machine->gpu[0].nvlink_gbs, 25, 0);
    assert_float_equal(muster_nvlink_gbs(99), 0, 0);
    muster_machine_free(machine);
    free(nvml);
}

static void without_the_library_there_is_a_reason(void **state)
{
    struct muster_nvml *nvml = calloc(1, sizeof *nvml);
    struct muster_err err = {""};
    (void)state;
    assert_non_null(nvml);
    if (muster_nvml_read(nvml, &err)) /* on machines with a driver it reads */
        assert_non_null(strstr(err.text, "NVML"));
    free(nvml);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(switches_join_every_pair),
        cmocka_unit_test(a_gpu_with_fewer_links_stands_out),
        cmocka_unit_test(direct_links_join_only_their_ends),
        cmocka_unit_test(speeds_by_version_stand_in_for_what_is_not_said),
        cmocka_unit_test(without_the_library_there_is_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
