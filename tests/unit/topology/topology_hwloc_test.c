/* hwloc's XML: whole machines, and files that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "topology/hwloc/hwloc.h"
#include "topology/paths.h"

#define HEAD                                                                                       \
    "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology "               \
    "version=\"2.0\">\n"
#define BRIDGE(gp, pci)                                                                            \
    "<object type=\"Bridge\" gp_index=\"" gp "\" bridge_type=\"1-1\" pci_busid=\"" pci             \
    "\" pci_type=\"0604 [8086:2030] [0000:0000] 04\" pci_link_speed=\"15.75\">"
#define HOST "<object type=\"Bridge\" bridge_type=\"0-1\">"
#define GPU(gp, pci)                                                                               \
    "<object type=\"PCIDev\" gp_index=\"" gp "\" pci_busid=\"" pci                                 \
    "\" pci_type=\"0302 [10de:2330] [10de:0000] a1\" pci_link_speed=\"31.5\">"                     \
    "<object type=\"OSDev\" gp_index=\"9" gp "\" name=\"nvml0\" osdev_type=\"5\">"                 \
    "<info name=\"GPUModel\" value=\"A &amp; B\"/><info name=\"NVIDIAUUID\" "                      \
    "value=\"GPU-1\"/></object></object>"
#define NIC(pci, name)                                                                             \
    "<object type=\"PCIDev\" pci_busid=\"" pci "\" pci_type=\"0207 [15b3:101b] [15b3:0000] 00\">"  \
    "<object type=\"OSDev\" name=\"" name "\" osdev_type=\"3\"/></object>"
#define END "</object>"

/* Two sockets; on the first a switch with two GPUs and a NIC, a nested switch with one GPU, and a
 * second root port with one; on the second one GPU. */
static const char two_sockets[] =
    HEAD "<object type=\"Machine\" nodeset=\"0x00000003\">"
         "<object type=\"Package\" nodeset=\"0x00000001\">" HOST BRIDGE("1", "0000:10:00.0")
             BRIDGE("2", "0000:11:00.0") BRIDGE("3", "0000:12:00.0") GPU("21", "0000:13:00.0")
                 END BRIDGE("4", "0000:12:01.0") GPU("22", "0000:14:00.0")
                     END BRIDGE("5", "0000:12:02.0") NIC("0000:15:00.0", "mlx5_0")
                         END BRIDGE("6", "0000:12:03.0") BRIDGE("7", "0000:16:00.0")
                             BRIDGE("8", "0000:17:00.0") GPU("23", "0000:18:00.0")
                                 END END END END END BRIDGE("9", "0000:10:01.0")
                                     GPU("24", "0000:20:00.0") END END
    "</object>"
    "<object type=\"Package\" nodeset=\"0x00000002\">" HOST BRIDGE("31", "0001:10:00.0")
        GPU("25", "10001:30:00.0") END END
    "</object></object>\n"
    "<distances2hetero nbobjs=\"2\" kind=\"25\" name=\"NVLinkBandwidth\">"
    "<indexes length=\"18\">OSDev:921 OSDev:922 </indexes>"
    "<u64values length=\"20\">0 50000 25000 0 </u64values></distances2hetero>"
    "</topology>\n";

static struct muster_machine *read_machine(const char *xml)
{
    struct muster_machine *machine;
    struct muster_err err = {""};
    assert_int_equal(muster_machine_new(&machine, &err), 0);
    if (muster_hwloc_read(machine, "test.xml", xml, strlen(xml), &err))
        fail_msg("%s", err.text);
    return machine;
}

static void assert_path(const struct muster_machine *machine, int a, int b, const char *word)
{
    struct muster_path path;
    char got[16];
    muster_path_gpus(machine, a, b, &path);
    muster_path_name(&path, got, sizeof got);
    assert_string_equal(got, word);
}

static void classes_are_those_of_nvidia_smi(void **state)
{
    struct muster_machine *machine = read_machine(two_sockets);
    struct muster_path path;
    (void)state;
    assert_int_equal(machine->gpus, 5);
    machine->nvlinks[0][1] = machine->nvlinks[1][0] = 0;
    assert_path(machine, 0, 0, "X");
    assert_path(machine, 0, 1, "PIX");
    assert_path(machine, 0, 2, "PXB");
    assert_path(machine, 0, 3, "PHB");
    assert_path(machine, 0, 4, "SYS");
    muster_path_gpu_nic(machine, 0, 0, &path);
    assert_int_equal(path.class, MUSTER_PATH_PIX);
    muster_path_gpu_nic(machine, 4, 0, &path);
    assert_int_equal(path.class, MUSTER_PATH_SYS);
    muster_machine_free(machine);
}

static void links_of_a_path_are_counted_and_the_narrowest_found(void **state)
{
    struct muster_machine *machine = read_machine(two_sockets);
    struct muster_path path;
    (void)state;
    muster_path_between(machine, machine->gpu[0].node, machine->gpu[2].node, &path);
    assert_int_equal(path.links, 3); /* GPU, nested switch's uplink, GPU */
    assert_float_equal(path.limit_gbs, 15.75, 0.001);
    assert_true(path.narrowest >= 0);
    muster_machine_free(machine);
}

static void nvlink_bandwidth_gives_links(void **state)
{
    struct muster_machine *machine = read_machine(two_sockets);
    (void)state;
    assert_path(machine, 0, 1, "NV2");
    assert_path(machine, 1, 0, "NV1");
    assert_float_equal(machine->nvlink_gbs[0][1], 50, 0.001);
    assert_string_equal(machine->gpu[0].name, "A & B");
    assert_string_equal(machine->gpu[0].uuid, "GPU-1");
    assert_int_equal(machine->gpu[4].pci.domain, 0x10001);
    muster_machine_free(machine);
}

static void what_is_no_machine_is_refused_with_a_place(void **state)
{
    static const char *const bad[][2] = {
        {"", "no <topology>"},
        {"<html>", "test.xml:1: found <html>, expected <topology>"},
        {"<topology><object type=\"Machine\"></topology>", "another element is closed"},
        {"<topology>\n<object", "test.xml:2:"},
        {"<topology><object type=Machine/></topology>", "expected a quoted value"},
        {"<topology><object type=\"x></topology>", "not closed"},
        {"<topology></topology></topology>", "not opened"},
        {"<!-- ", "comment"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct muster_machine *machine;
        struct muster_err err = {""};
        assert_int_equal(muster_machine_new(&machine, &err), 0);
        assert_int_equal(muster_hwloc_read(machine, "test.xml", bad[i][0], strlen(bad[i][0]), &err),
                         -1);
        assert_non_null(strstr(err.text, bad[i][1]));
        muster_machine_free(machine);
    }
}

static void half_a_matrix_is_left_out_and_said(void **state)
{
    struct muster_machine *machine = read_machine(
        HEAD "<object type=\"Machine\">" HOST BRIDGE("1", "0000:10:00.0") GPU("21", "0000:13:00.0")
            END END
        "</object>"
        "<distances2hetero name=\"NVLinkBandwidth\"><indexes>OSDev:921 OSDev:5 </indexes>"
        "<u64values>0 25000 25000 </u64values></distances2hetero></topology>");
    (void)state;
    assert_int_equal(machine->notes, 1);
    assert_non_null(strstr(machine->note[0], "3 values for 2 objects"));
    assert_int_equal(machine->gpu[0].nvlinks, -1);
    muster_machine_free(machine);
}

static void deep_and_wide_files_end(void **state)
{
    enum { DEEP = 1000, WIDE = 9000 };
    struct muster_machine *machine;
    struct muster_err err = {""};
    char *text;
    size_t size;
    (void)state;
    FILE *out = open_memstream(&text, &size);
    fputs("<topology>", out);
    for (int i = 0; i < DEEP; i++)
        fputs("<object type=\"Bridge\" bridge_type=\"1-1\">", out);
    fclose(out);
    assert_int_equal(muster_machine_new(&machine, &err), 0);
    assert_int_equal(muster_hwloc_read(machine, "deep", text, size, &err), -1);
    assert_non_null(strstr(err.text, "nested deeper"));
    muster_machine_free(machine);
    free(text);
    out = open_memstream(&text, &size);
    fputs("<topology>", out);
    for (int i = 0; i < WIDE; i++)
        fputs("<object type=\"PCIDev\" pci_busid=\"0000:00:00.0\"/>", out);
    fputs("</topology>", out);
    fclose(out);
    assert_int_equal(muster_machine_new(&machine, &err), 0);
    assert_int_equal(muster_hwloc_read(machine, "wide", text, size, &err), -1);
    assert_non_null(strstr(err.text, "more than 8192"));
    muster_machine_free(machine);
    free(text);
}

static const struct {
    const char *file;
    int gpus, a, b;
    const char *class;
} real[] = {
    {"nvidia-dgx2.xml", 16, 0, 15, "NV6"},
    {"two-socket-2gpu.xml", 3, 0, 1, "SYS"},
    {"two-socket-2gpu.xml", 3, 1, 2, "PHB"},
};

static void files_of_real_machines_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        char path[512];
        struct muster_machine *machine;
        struct muster_err err = {""};
        snprintf(path, sizeof path, "%s/%s", MUSTER_TOPOLOGIES, real[i].file);
        if (access(path, R_OK)) {
            print_message("%s is not there: skipped (cmake -DMUSTER_TOPOLOGIES=FOLDER)\n",
                          real[i].file);
            skip();
        }
        assert_int_equal(muster_machine_new(&machine, &err), 0);
        if (muster_hwloc_read_file(machine, path, &err))
            fail_msg("%s", err.text);
        assert_int_equal(machine->gpus, real[i].gpus);
        assert_path(machine, real[i].a, real[i].b, real[i].class);
        muster_machine_free(machine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_are_those_of_nvidia_smi),
        cmocka_unit_test(links_of_a_path_are_counted_and_the_narrowest_found),
        cmocka_unit_test(nvlink_bandwidth_gives_links),
        cmocka_unit_test(what_is_no_machine_is_refused_with_a_place),
        cmocka_unit_test(half_a_matrix_is_left_out_and_said),
        cmocka_unit_test(deep_and_wide_files_end),
        cmocka_unit_test(files_of_real_machines_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
