/* NVLinkBandwidth of whole machines, as hwloc writes it: links between GPUs, to switches and to
 * processors. Matrices are written from what the machines' makers publish. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topology/hwloc/hwloc.h"

struct layout {
    const char *kinds;       /* one letter an object: g GPU, s NVSwitch, p package */
    const char *device;      /* the GPUs' PCI id */
    const char *values;      /* row by row */
    int gpus, links, fabric; /* of each GPU */
    int pair[4];             /* links of GPU 0 to GPU 0, 1, 2, 3 */
};

static const struct layout layouts[] = {
    /* S822LC "Minsky": two P100 on a POWER8, two links between them and two to the processor */
    {"ggggpp",
     "15f9",
     "0 40000 0 0 40000 0 "
     "40000 0 0 0 40000 0 "
     "0 0 0 40000 0 40000 "
     "0 0 40000 0 0 40000 "
     "40000 40000 0 0 0 0 "
     "0 0 40000 40000 0 0",
     4,
     4,
     0,
     {0, 2, 0, 0}},
    /* AC922 with four V100: three links to the neighbour, three to the POWER9 */
    {"ggggpp",
     "1db5",
     "0 75000 0 0 75000 0 "
     "75000 0 0 0 75000 0 "
     "0 0 0 75000 0 75000 "
     "0 0 75000 0 0 75000 "
     "75000 75000 0 0 0 0 "
     "0 0 75000 75000 0 0",
     4,
     6,
     0,
     {0, 3, 0, 0}},
    /* Half of a DGX-1 with V100, where some pairs have one link and others two */
    {"gggg",
     "1db1",
     "0 25000 25000 50000 "
     "25000 0 50000 25000 "
     "25000 50000 0 50000 "
     "50000 25000 50000 0",
     4,
     0,
     0,
     {0, 1, 1, 2}},
    /* HGX H100: 18 links a GPU to four NVSwitches */
    {"ggssss",
     "2330",
     "0 0 132810 106248 106248 132810 "
     "0 0 132810 106248 106248 132810 "
     "132810 132810 0 0 0 0 "
     "106248 106248 0 0 0 0 "
     "106248 106248 0 0 0 0 "
     "132810 132810 0 0 0 0",
     2,
     18,
     18,
     {0, 18, 0, 0}},
    /* Two RTX 3090 with a bridge of four links */
    {"gg", "2204", "0 56248 56248 0", 2, 4, 0, {0, 4, 0, 0}},
};

static void put_machine(FILE *out, const struct layout *layout)
{
    int gpus = 0;
    fputs("<topology version=\"2.0\"><object type=\"Machine\">"
          "<object type=\"Bridge\" bridge_type=\"0-1\">",
          out);
    for (int i = 0; layout->kinds[i]; i++) {
        if (layout->kinds[i] == 'p')
            continue;
        bool gpu = layout->kinds[i] == 'g';
        fprintf(out,
                "<object type=\"PCIDev\" gp_index=\"%d\" pci_busid=\"0000:%02x:00.0\" "
                "pci_type=\"%s [10de:%s] [10de:0000] a1\" pci_link_speed=\"15.75\">",
                100 + i, 16 + i, gpu ? "0302" : "0680", gpu ? layout->device : "22a3");
        if (gpu)
            fprintf(out,
                    "<object type=\"OSDev\" gp_index=\"%d\" name=\"nvml%d\" osdev_type=\"5\"/>",
                    200 + i, gpus++);
        fputs("</object>", out);
    }
    fputs("</object></object>", out);
}

static struct muster_machine *read_layout(const struct layout *layout)
{
    struct muster_machine *machine;
    struct muster_err err = {""};
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    put_machine(out, layout);
    fputs("<distances2hetero kind=\"25\" name=\"NVLinkBandwidth\"><indexes>", out);
    for (int i = 0; layout->kinds[i]; i++)
        fprintf(out, "%s:%d ",
                layout->kinds[i] == 'g'   ? "OSDev"
                : layout->kinds[i] == 's' ? "PCIDev"
                                          : "Package",
                layout->kinds[i] == 'g'   ? 200 + i
                : layout->kinds[i] == 's' ? 100 + i
                                          : i);
    fprintf(out, "</indexes><u64values>%s </u64values></distances2hetero></topology>",
            layout->values);
    fclose(out);
    assert_int_equal(muster_machine_new(&machine, &err), 0);
    if (muster_hwloc_read(machine, "test.xml", text, size, &err))
        fail_msg("%s", err.text);
    free(text);
    return machine;
}

static void links_are_counted_by_the_chip(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const struct layout *layout = &layouts[i];
        struct muster_machine *machine = read_layout(layout);
        assert_int_equal(machine->gpus, layout->gpus);
        for (int b = 0; b < layout->gpus; b++)
            assert_int_equal(machine->nvlinks[0][b], layout->pair[b]);
        for (int a = 0; a < layout->gpus && layout->links; a++) {
            assert_int_equal(machine->gpu[a].nvlinks, layout->links);
            assert_int_equal(machine->gpu[a].fabric, layout->fabric);
        }
        muster_machine_free(machine);
    }
}

/* What ends at the processor joins no two GPUs. */
static void gpus_of_two_processors_have_no_link(void **state)
{
    struct muster_machine *machine = read_layout(&layouts[0]);
    (void)state;
    for (int a = 0; a < 2; a++)
        for (int b = 2; b < 4; b++) {
            assert_int_equal(machine->nvlinks[a][b], 0);
            assert_float_equal(machine->nvlink_gbs[a][b], 0, 0);
        }
    assert_float_equal(machine->gpu[0].nvlink_gbs, 20, 0.001);
    assert_float_equal(machine->nvlink_gbs[0][1], 40, 0.001);
    muster_machine_free(machine);
}

static void an_unknown_chip_counts_by_its_smallest_value(void **state)
{
    static const struct layout layout = {
        .kinds = "gg", .device = "ffff", .values = "0 30000 60000 0"};
    struct muster_machine *machine = read_layout(&layout);
    (void)state;
    assert_int_equal(machine->nvlinks[0][1], 1);
    muster_machine_free(machine);
}

static void a_machine_without_a_matrix_has_no_links(void **state)
{
    static const struct layout layout = {.kinds = "gg", .device = "20f1", .values = "0 0 0 0"};
    struct muster_machine *machine = read_layout(&layout);
    (void)state;
    assert_int_equal(machine->nvlinks[0][1], 0);
    assert_int_equal(machine->gpu[0].nvlinks, -1);
    muster_machine_free(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_are_counted_by_the_chip),
        cmocka_unit_test(gpus_of_two_processors_have_no_link),
        cmocka_unit_test(an_unknown_chip_counts_by_its_smallest_value),
        cmocka_unit_test(a_machine_without_a_matrix_has_no_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
