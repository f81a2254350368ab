/* What is read from NVML, told by a made-up one (tests/host/nvml). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "topology/nvml/gpu_watch.h"
#include "topology/nvml/nvml.h"

static char path[64];

static void describe(const char *text)
{
    char fresh[80];
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *file = fopen(fresh, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(fresh, path), 0);
}

static struct muster_nvml *read_described(const char *text)
{
    struct muster_nvml *nvml = calloc(1, sizeof *nvml);
    struct muster_err err = {.text = ""};
    assert_non_null(nvml);
    describe(text);
    if (muster_nvml_read(nvml, &err)) {
        free(nvml);
        assert_non_null(strstr(err.text, "NVML"));
        return NULL;
    }
    return nvml;
}

static void healthy_gpus_are_read_in_full(void **state)
{
    struct muster_nvml *nvml = read_described("gpus 4\np2p 0 1 5\nancestor 0 1 20\n");
    (void)state;
    assert_int_equal(nvml->gpus, 4);
    assert_string_equal(nvml->driver, "580.95.05");
    assert_string_equal(nvml->gpu[2].uuid, "GPU-00000000-0000-0000-0000-000000000003");
    assert_int_equal(nvml->gpu[2].pci.bus, 0x12);
    assert_int_equal(nvml->gpu[2].link_mbps, 26562);
    assert_int_equal(nvml->gpu[2].link[17].state, MUSTER_NVLINK_ACTIVE);
    assert_int_equal(nvml->gpu[2].link[17].remote, MUSTER_NVLINK_TO_SWITCH);
    assert_int_equal(nvml->gpu[2].power_mw, 600000);
    assert_int_equal(nvml->gpu[2].limits, 0);
    assert_int_equal(nvml->gpu[2].processes, 0);
    assert_int_equal(nvml->p2p[0][1], MUSTER_P2P_NOT_SUPPORTED);
    assert_int_equal(nvml->p2p[2][1], MUSTER_P2P_OK);
    assert_int_equal(nvml->ancestor[1][0], 20);
    free(nvml);
}

static void each_ailment_is_seen(void **state)
{
    struct muster_nvml *nvml = read_described("gpus 8\n"
                                              "gpu 3 pci 10000:c1:00.0\n"
                                              "gpu 3 generation 1\ngpu 3 width 8\ngpu 3 replays 7\n"
                                              "gpu 3 link 2 down\ngpu 3 link 4 absent\n"
                                              "gpu 3 link 5 errors 1 9\ngpu 3 link 6 to 1\n"
                                              "gpu 3 limits 0x44\ngpu 3 clock 1200\n"
                                              "gpu 3 ecc_uncorrected 2\ngpu 3 remap_pending 1\n"
                                              "gpu 3 processes 17:1024 18:2048\n");
    const struct muster_nvml_gpu *gpu = &nvml->gpu[3];
    (void)state;
    assert_int_equal(gpu->pci.domain, 0x10000);
    assert_int_equal(gpu->pcie_generation, 1);
    assert_int_equal(gpu->pcie_max_generation, 5);
    assert_int_equal(gpu->pcie_width, 8);
    assert_int_equal(gpu->pcie_replays, 7);
    assert_int_equal(gpu->link[2].state, MUSTER_NVLINK_INACTIVE);
    assert_int_equal(gpu->link[4].state, MUSTER_NVLINK_ABSENT);
    assert_int_equal(gpu->link[5].recoveries, 9);
    assert_int_equal(gpu->link[6].remote, MUSTER_NVLINK_TO_GPU);
    assert_int_equal(gpu->link[6].to.bus, 0x11);
    assert_int_equal(gpu->limits, MUSTER_CLOCK_SW_POWER_CAP | MUSTER_CLOCK_HW_THERMAL);
    assert_int_equal(gpu->sm_mhz, 1200);
    assert_int_equal(gpu->ecc_uncorrected, 2);
    assert_int_equal(gpu->remap_pending, 1);
    assert_int_equal(gpu->processes, 2);
    free(nvml);
}

static void calls_that_fail_leave_their_fields_unknown(void **state)
{
    struct muster_nvml *nvml = read_described("gpus 2\n"
                                              "gpu 1 fail nvmlDeviceGetPowerUsage 15\n"
                                              "fail nvmlDeviceGetTemperature 13\n"
                                              "fail nvmlDeviceGetNvLinkState 3\n");
    (void)state;
    assert_int_equal(nvml->gpu[0].power_mw, 600000);
    assert_int_equal(nvml->gpu[1].power_mw, -1);
    assert_int_equal(nvml->gpu[0].temperature, -1);
    assert_int_equal(nvml->gpu[0].link[0].state, MUSTER_NVLINK_ABSENT);
    free(nvml);
    nvml = read_described("gpus 2\ngpu 1 fail nvmlDeviceGetHandleByIndex_v2 15\n");
    assert_string_equal(nvml->gpu[1].name, "GPU 1 does not answer");
    assert_int_equal(nvml->gpu[1].temperature, -1); /* unknown, not 0 */
    assert_int_equal(nvml->gpu[1].pcie_replays, -1);
    free(nvml);
    assert_null(read_described("fail nvmlInit_v2 9\n"));
}

static void links_between_gpus_are_each_asked_for_their_end(void **state)
{
    struct muster_nvml *nvml = calloc(1, sizeof *nvml);
    struct muster_gpu_watch *watch;
    struct muster_err err;
    (void)state;
    assert_non_null(nvml);
    describe("gpus 2\ngpu * links 4\ngpu 0 link 0 to 1\ngpu 0 link 1 to 1\ngpu 0 link 2 to 1\n"
             "gpu 0 link 3 to 1\n");
    assert_int_equal(muster_gpu_watch_open(&watch, nvml, &err), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(nvml->gpu[0].link[i].remote, MUSTER_NVLINK_TO_GPU);
        assert_int_equal(nvml->gpu[0].link[i].to.bus, 0x11);
    }
    assert_int_equal(nvml->gpu[0].link[4].state, MUSTER_NVLINK_ABSENT);
    free(nvml);
    free(watch);
}

static void sixty_four_gpus_fit(void **state)
{
    struct muster_nvml *nvml = read_described("gpus 64\ngpu * processes 1:2\n");
    (void)state;
    assert_int_equal(nvml->gpus, 64);
    assert_int_equal(nvml->gpu[63].processes, 1);
    assert_int_equal(nvml->p2p[63][0], MUSTER_P2P_OK);
    free(nvml);
}

static void a_gpu_is_watched_as_it_changes(void **state)
{
    struct muster_nvml *nvml = calloc(1, sizeof *nvml);
    struct muster_gpu_watch *watch;
    struct muster_gpu_reading look;
    struct muster_err err = {.text = ""};
    (void)state;
    assert_non_null(nvml);
    describe("gpus 4\ngpu 2 processes 17:1024\n");
    assert_int_equal(muster_gpu_watch_open(&watch, nvml, &err), 0);
    assert_string_equal(nvml->driver, "580.95.05");
    assert_int_equal(nvml->gpu[3].link_mbps, 26562);
    assert_int_equal(nvml->gpu[3].link[17].remote, MUSTER_NVLINK_TO_SWITCH);
    assert_int_equal(nvml->p2p[2][1], MUSTER_P2P_UNKNOWN);
    muster_gpu_watch_own(watch, 2, nvml);
    assert_int_equal(nvml->p2p[2][1], MUSTER_P2P_OK);
    assert_int_equal(nvml->gpu[2].pcie_max_width, 16);
    assert_int_equal(muster_gpu_watch_find(watch, (struct muster_pci){.bus = 0x77}), -1);
    int gpu = muster_gpu_watch_find(watch, (struct muster_pci){.bus = 0x12});
    assert_int_equal(gpu, 2);
    muster_gpu_watch_poll(watch, gpu, &look);
    assert_int_equal(look.limits, 0);
    assert_int_equal(look.nvlinks, 18);
    assert_int_equal(look.others, 0); /* one: this process */
    assert_int_equal(muster_gpu_watch_xid(watch, gpu), 0);

    describe("gpus 4\ngpu 2 limits 0x8\ngpu 2 link 7 down\ngpu 2 link 8 errors 1 3\n"
             "gpu 2 link 8 errors 2 5\ngpu 2 replays 4\ngpu 2 processes 17:1 18:1 19:1\n"
             "gpu 2 xid 48\ngpu 3 xid 79\ngpu 2 ecc_uncorrected 1\n");
    muster_gpu_watch_poll(watch, gpu, &look);
    assert_int_equal(look.nvlinks, 18); /* links are looked at less often */
    for (int i = 0; i < 5; i++)
        muster_gpu_watch_poll(watch, gpu, &look);
    assert_int_equal(look.limits, MUSTER_CLOCK_HW_SLOWDOWN);
    assert_int_equal(look.nvlinks, 17);
    assert_int_equal(look.nvlink_recoveries, 3);
    assert_int_equal(look.nvlink_errors, 5);
    assert_int_equal(look.pcie_replays, 4);
    assert_int_equal(look.ecc_uncorrected, 1);
    assert_int_equal(look.others, 2);
    assert_int_equal(muster_gpu_watch_xid(watch, gpu), 48);
    assert_int_equal(muster_gpu_watch_xid(watch, gpu), 0); /* once */

    describe("gpus 4\ngpu * links 0\nfail nvmlDeviceGetPowerUsage 15\n");
    muster_gpu_watch_poll(watch, gpu, &look);
    assert_int_equal(look.power_mw, -1);
    for (int i = 0; i < 5; i++)
        muster_gpu_watch_poll(watch, gpu, &look);
    assert_int_equal(look.nvlinks, 17); /* a driver that tells of no link leaves what was seen */
    free(nvml);
    free(watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(healthy_gpus_are_read_in_full),
        cmocka_unit_test(each_ailment_is_seen),
        cmocka_unit_test(calls_that_fail_leave_their_fields_unknown),
        cmocka_unit_test(links_between_gpus_are_each_asked_for_their_end),
        cmocka_unit_test(sixty_four_gpus_fit),
        cmocka_unit_test(a_gpu_is_watched_as_it_changes),
    };
    snprintf(path, sizeof path, "/tmp/muster-nvml-%d", (int)getpid());
    setenv("FAKE_NVML", path, 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
