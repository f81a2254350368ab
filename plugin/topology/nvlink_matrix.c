#include "topology/nvlink_matrix.h"

enum { MBPS_MAX = 1000 * 1000 * 1000 };

bool muster_nvlink_matrix_node(struct muster_nvlink_matrix *matrix, int node)
{
    if (matrix->nodes == MUSTER_NVLINK_OBJECTS)
        return false;
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

/* The smallest value there is: one link. */
static uint32_t one_link(const struct muster_nvlink_matrix *matrix)
{
    uint32_t least = 0;
    for (int i = 0; i < matrix->nodes; i++)
        for (int j = 0; j < matrix->nodes; j++) {
            uint32_t value = matrix->mbps[i * matrix->nodes + j];
            /* an object's bandwidth to itself is no link */
            if (i != j && value && (least == 0 || value < least))
                least = value;
        }
    return least;
}

static int gpu_at(const struct muster_machine *machine, const struct muster_nvlink_matrix *matrix,
                  int at)
{
    int node = matrix->node[at];
    return node < 0 ? -1 : muster_machine_find_gpu(machine, machine->node[node].pci);
}

static void connect(struct muster_machine *machine, int a, int b, double mbps, uint32_t one)
{
    unsigned links = (unsigned)(mbps / one + 0.5);
    machine->nvlinks[a][b] = (uint8_t)(links > 255 ? 255 : links);
    machine->nvlink_gbs[a][b] = mbps / 1000;
}

/* GPU i's sums to GPUs and to everything else. */
static void add_row(const struct muster_nvlink_matrix *matrix, struct muster_machine *machine,
                    int i, uint32_t one, double *to_switches)
{
    double sum = 0;
    int a = gpu_at(machine, matrix, i);
    *to_switches = 0;
    if (a < 0)
        return;
    for (int j = 0; j < matrix->nodes; j++) {
        double mbps = matrix->mbps[i * matrix->nodes + j];
        int b = gpu_at(machine, matrix, j);
        if (i == j || mbps <= 0 || a == b)
            continue;
        sum += mbps;
        if (b >= 0)
            connect(machine, a, b, mbps, one);
        else
            *to_switches += mbps;
    }
    machine->gpu[a].nvlinks = (int)(sum / one + 0.5);
    machine->gpu[a].fabric = (int)(*to_switches / one + 0.5);
    machine->gpu[a].nvlink_gbs = one / 1000.0;
}

void muster_nvlink_matrix_apply(const struct muster_nvlink_matrix *matrix,
                                struct muster_machine *machine)
{
    double to_switches[MUSTER_NVLINK_OBJECTS] = {0};
    uint32_t one;
    if (matrix->nodes == 0 || matrix->values != matrix->nodes * matrix->nodes) {
        muster_machine_note(machine, "NVLinkBandwidth has %d values for %d objects: left out",
                            matrix->values, matrix->nodes);
        return;
    }
    one = one_link(matrix);
    if (one == 0)
        return;
    for (int i = 0; i < matrix->nodes; i++)
        add_row(matrix, machine, i, one, &to_switches[i]);
    for (int i = 0; i < matrix->nodes; i++) {
        int a = gpu_at(machine, matrix, i);
        for (int j = 0; a >= 0 && j < matrix->nodes; j++) {
            int b = gpu_at(machine, matrix, j);
            double both = to_switches[i] < to_switches[j] ? to_switches[i] : to_switches[j];
            if (b >= 0 && b != a && both > 0 && machine->nvlinks[a][b] == 0)
                connect(machine, a, b, both, one);
        }
    }
}
