/* A tree of files that stands for /sys. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "launch/scratch.h"
#include "topology/faults.h"
#include "topology/paths.h"
#include "topology/sysfs.h"

static char root[256];

static void make_below(const char *path)
{
    char whole[1024];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir(whole, 0700))
            assert_int_equal(errno, EEXIST);
        *slash = '/';
    }
}

static void put(const char *device, const char *file, const char *text)
{
    char path[512], whole[1024];
    snprintf(path, sizeof path, "%s/%s", device, file);
    make_below(path);
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    FILE *out = fopen(whole, "w");
    assert_non_null(out);
    fprintf(out, "%s\n", text);
    fclose(out);
}

static void add_device(const char *chain, const char *class_code, const char *vendor,
                       const char *speed, const char *width)
{
    char path[512], link[600], whole[1024];
    const char *name = strrchr(chain, '/') + 1;
    snprintf(path, sizeof path, "devices/%s", chain);
    put(path, "class", class_code);
    put(path, "vendor", vendor);
    put(path, "device", "0x1234");
    put(path, "numa_node", "1");
    put(path, "current_link_speed", speed);
    put(path, "max_link_speed", "16.0 GT/s PCIe");
    put(path, "current_link_width", width);
    put(path, "max_link_width", "16");
    make_below("bus/pci/devices/x");
    snprintf(link, sizeof link, "../../../%s", path);
    snprintf(whole, sizeof whole, "%s/bus/pci/devices/%s", root, name);
    assert_int_equal(symlink(link, whole), 0);
}

static int setup(void **state)
{
    (void)state;
    return muster_scratch_make(root, sizeof root, "/tmp", NULL);
}

static int teardown(void **state)
{
    (void)state;
    muster_scratch_remove(root);
    return 0;
}

static struct muster_machine *read_machine(void)
{
    struct muster_machine *machine;
    struct muster_err err = {""};
    assert_int_equal(muster_machine_new(&machine, &err), 0);
    if (muster_sysfs_read(machine, root, &err))
        fail_msg("%s", err.text);
    muster_sysfs_annotate(machine, root);
    return machine;
}

#define PORT      "pci0000:10/0000:10:01.0"
#define GPU_BELOW PORT "/0000:11:00.0"

static void make_gpu(const char *speed, const char *width)
{
    add_device(PORT, "0x060400", "0x8086", speed, width);
    add_device(GPU_BELOW, "0x030200", "0x10de", speed, width);
}

static void find(struct muster_machine *machine, struct muster_faults *faults)
{
    muster_faults_find(machine, faults);
    muster_machine_free(machine);
}

static void a_full_link_is_no_fault(void **state)
{
    struct muster_faults faults;
    (void)state;
    make_gpu("16.0 GT/s PCIe", "16");
    struct muster_machine *machine = read_machine();
    assert_int_equal(machine->gpus, 1);
    assert_int_equal(muster_machine_numa(machine, machine->gpu[0].node), 2);
    assert_false(machine->hidden);
    find(machine, &faults);
    assert_int_equal(faults.n, 0);
}

static void fewer_lanes_are_a_fault(void **state)
{
    struct muster_faults faults;
    (void)state;
    make_gpu("16.0 GT/s PCIe", "8");
    find(read_machine(), &faults);
    assert_int_equal(faults.n, 1);
    assert_int_equal(faults.at[0].kind, MUSTER_FAULT_WIDTH);
    assert_string_equal(faults.at[0].text, "PCIe link 0000:10:01.0 - 0000:11:00.0 runs gen4 x8, "
                                           "both ends can gen4 x16");
}

static void an_idle_gpus_slow_link_is_no_fault_but_said(void **state)
{
    struct muster_faults faults;
    (void)state;
    make_gpu("2.5 GT/s PCIe", "16");
    struct muster_machine *machine = read_machine();
    machine->gpu[0].utilization = 0;
    find(machine, &faults);
    assert_int_equal(faults.n, 1);
    assert_int_equal(faults.at[0].kind, MUSTER_FAULT_IDLE);
    machine = read_machine();
    machine->gpu[0].utilization = 80;
    find(machine, &faults);
    assert_int_equal(faults.at[0].kind, MUSTER_FAULT_SPEED);
}

static void a_flat_tree_is_said_to_be_hidden(void **state)
{
    struct muster_faults faults;
    (void)state;
    add_device("pci0000:00/0000:00:06.0", "0x030200", "0x10de", "16.0 GT/s PCIe", "8");
    struct muster_machine *machine = read_machine();
    assert_true(machine->hidden);
    assert_non_null(strstr(machine->note[0], "PCI tree hidden by the hypervisor"));
    find(machine, &faults);
    assert_int_equal(faults.n, 0);
}

static void hostile_contents_stay_unknown(void **state)
{
    struct muster_faults faults;
    (void)state;
    make_gpu("nonsense", "99999999999999999999");
    put("devices/" GPU_BELOW, "numa_node", "-12345678901234567890");
    put("devices/" GPU_BELOW, "max_link_speed", "1e400 GT/s");
    struct muster_machine *machine = read_machine();
    const struct muster_node *node = &machine->node[machine->gpu[0].node];
    assert_float_equal(node->end.gts, 0, 0);
    assert_int_equal(node->end.width, 0);
    assert_float_equal(node->end.max_gts, 0, 0);
    find(machine, &faults);
    assert_int_equal(faults.n, 0);
}

static void nics_have_names_rates_and_states(void **state)
{
    (void)state;
    add_device(PORT, "0x060400", "0x8086", "16.0 GT/s PCIe", "16");
    add_device(PORT "/0000:12:00.0", "0x020700", "0x15b3", "16.0 GT/s PCIe", "16");
    put("devices/" PORT "/0000:12:00.0/net/ib0", "x", "");
    put("devices/" PORT "/0000:12:00.0/infiniband/mlx5_0", "x", "");
    put("class/infiniband/mlx5_0/ports/1", "rate", "400 Gb/sec (4X NDR)");
    put("class/infiniband/mlx5_0/ports/1", "state", "1: DOWN");
    struct muster_machine *machine = read_machine();
    assert_int_equal(machine->nics, 1);
    assert_string_equal(machine->nic[0].name, "ib0");
    assert_string_equal(machine->nic[0].verbs, "mlx5_0");
    assert_int_equal(machine->nic[0].mbps, 400000);
    assert_false(machine->nic[0].up);
    assert_true(machine->nic[0].fabric);
    muster_machine_free(machine);
}

static void without_sysfs_there_is_an_error(void **state)
{
    struct muster_machine *machine;
    struct muster_err err = {""};
    (void)state;
    assert_int_equal(muster_machine_new(&machine, &err), 0);
    assert_int_equal(muster_sysfs_read(machine, "/nowhere", &err), -1);
    assert_non_null(strstr(err.text, "/nowhere/bus/pci/devices"));
    muster_machine_free(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_full_link_is_no_fault, setup, teardown),
        cmocka_unit_test_setup_teardown(fewer_lanes_are_a_fault, setup, teardown),
        cmocka_unit_test_setup_teardown(an_idle_gpus_slow_link_is_no_fault_but_said, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_flat_tree_is_said_to_be_hidden, setup, teardown),
        cmocka_unit_test_setup_teardown(hostile_contents_stay_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(nics_have_names_rates_and_states, setup, teardown),
        cmocka_unit_test(without_sysfs_there_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
