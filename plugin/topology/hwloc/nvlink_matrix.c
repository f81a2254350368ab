#include "topology/hwloc/nvlink_matrix.h"

#include <math.h>

enum { MBPS_MAX = 1000 * 1000 * 1000 };

bool muster_nvlink_matrix_node(struct muster_nvlink_matrix *matrix, int node, bool cpu)
{
    if (matrix->nodes == MUSTER_NVLINK_OBJECTS)
        return false;
    matrix->cpu[matrix->nodes] = cpu;
    matrix->node[matrix->nodes++] = node;
    return true;
}

bool muster_nvlink_matrix_value(struct muster_nvlink_matrix *matrix, uint64_t mbps)
{
    if (matrix->values == matrix->nodes * matrix->nodes)
        return false;
    matrix->mbps[matrix->values++] = mbps > MBPS_MAX ? 0 : (uint32_t)mbps;
    return true;
}

/* PCI device ids of chips with NVLink, and what one link of theirs moves in one direction, in MB/s:
 * by NVIDIA's data sheets, and as drivers round them. */
static const struct {
    uint16_t first, last;
    double mbps[3]; /* 0: no more */
} chips[] = {
    {0x15f0, 0x15ff, {20000}},               /* GP100 */
    {0x1db0, 0x1dff, {25000, 25781}},        /* GV100 */
    {0x1e00, 0x1eff, {25000, 25781}},        /* TU10x */
    {0x20b0, 0x20ff, {25000, 25781}},        /* GA100 */
    {0x2200, 0x22ff, {14062, 25000, 25781}}, /* GA102 */
    {0x2300, 0x23ff, {26562, 25000, 25781}}, /* GH100 */
    {0x2900, 0x29ff, {50000, 53125}},        /* GB100 */
    {0x3180, 0x31ff, {50000, 53125}},        /* GB110 */
};

/* Whether all values of a row are so many links of this bandwidth. */
static bool fits(const struct muster_nvlink_matrix *matrix, int row, double mbps)
{
    for (int j = 0; j < matrix->nodes; j++) {
        double links = matrix->mbps[row * matrix->nodes + j] / mbps;
        if (j != row && fabs(links - round(links)) > 0.01 * links)
            return false;
    }
    return true;
}

static double least(const struct muster_nvlink_matrix *matrix, int row)
{
    double value = 0;
    for (int j = 0; j < matrix->nodes; j++) {
        double mbps = matrix->mbps[row * matrix->nodes + j];
        /* an object's bandwidth to itself is no link */
        if (j != row && mbps > 0 && (value <= 0 || mbps < value))
            value = mbps;
    }
    return value;
}

/* One link of the GPU in a row: its chip's, or, of an unknown chip, the smallest value there is. */
static double one_link(const struct muster_nvlink_matrix *matrix, int row, uint16_t device)
{
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++)
        for (int j = 0; j < 3 && device >= chips[i].first && device <= chips[i].last; j++)
            if (chips[i].mbps[j] > 0 && fits(matrix, row, chips[i].mbps[j]))
                return chips[i].mbps[j];
    return least(matrix, row);
}

static int gpu_at(const struct muster_machine *machine, const struct muster_nvlink_matrix *matrix,
                  int at)
{
    int node = matrix->node[at];
    return node < 0 ? -1 : muster_machine_find_gpu(machine, machine->node[node].pci);
}

static void connect(struct muster_machine *machine, int a, int b, double mbps, double one)
{
    double links = round(mbps / one);
    machine->nvlinks[a][b] = (uint8_t)(links > 255 ? 255 : links);
    machine->nvlink_gbs[a][b] = mbps / 1000;
}

/* A GPU's row: to GPUs, to processors (POWER, Grace), and to everything else, which are switches.
 */
struct row {
    int gpu;
    double one, to_switches;
};

static struct row read_row(const struct muster_nvlink_matrix *matrix,
                           struct muster_machine *machine, int i)
{
    struct row row = {.gpu = gpu_at(machine, matrix, i)};
    double sum = 0;
    if (row.gpu < 0)
        return row;
    row.one = one_link(matrix, i, machine->node[matrix->node[i]].device);
    for (int j = 0; j < matrix->nodes && row.one > 0; j++) {
        double mbps = matrix->mbps[i * matrix->nodes + j];
        int b = gpu_at(machine, matrix, j);
        if (i == j || mbps <= 0 || row.gpu == b)
            continue;
        sum += mbps;
        if (b >= 0)
            connect(machine, row.gpu, b, mbps, row.one);
        else if (!matrix->cpu[j])
            row.to_switches += mbps;
    }
    if (row.one > 0) {
        machine->gpu[row.gpu].nvlinks = (int)round(sum / row.one);
        machine->gpu[row.gpu].fabric = (int)round(row.to_switches / row.one);
        machine->gpu[row.gpu].nvlink_gbs = row.one / 1000;
    }
    return row;
}

void muster_nvlink_matrix_apply(const struct muster_nvlink_matrix *matrix,
                                struct muster_machine *machine)
{
    struct row row[MUSTER_NVLINK_OBJECTS];
    bool any = false;
    if (matrix->nodes == 0 || matrix->values != matrix->nodes * matrix->nodes) {
        muster_machine_note(machine, "NVLinkBandwidth has %d values for %d objects: left out",
                            matrix->values, matrix->nodes);
        return;
    }
    for (int i = 0; i < matrix->nodes; i++)
        any |= least(matrix, i) > 0;
    for (int i = 0; i < matrix->nodes && any; i++)
        row[i] = read_row(matrix, machine, i);
    for (int i = 0; i < matrix->nodes && any; i++)
        for (int j = 0; row[i].gpu >= 0 && j < matrix->nodes; j++) {
            double both = fmin(row[i].to_switches, row[j].to_switches);
            if (row[j].gpu >= 0 && row[j].gpu != row[i].gpu && both > 0 &&
                machine->nvlinks[row[i].gpu][row[j].gpu] == 0)
                connect(machine, row[i].gpu, row[j].gpu, both, row[i].one);
        }
}
