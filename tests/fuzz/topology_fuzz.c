/* hwloc's XML from hostile bytes: refused with a place, or a machine whose every path can be asked
 * for. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "topology/faults.h"
#include "topology/hwloc/hwloc.h"
#include "topology/paths.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void ask_everything(const struct muster_machine *machine)
{
    static struct muster_faults faults;
    bool nearest[MUSTER_MACHINE_NICS];
    enum muster_path_class class;
    struct muster_path path;
    struct muster_link link;
    char word[16];
    for (int a = 0; a < machine->gpus; a++) {
        for (int b = 0; b < machine->gpus; b++) {
            muster_path_gpus(machine, a, b, &path);
            muster_path_name(&path, word, sizeof word);
            require(path.links >= 0 && path.links <= MUSTER_PATH_LINKS && *word);
        }
        muster_path_nearest(machine, a, nearest, &class);
        require((unsigned)class <= MUSTER_PATH_UNKNOWN);
    }
    for (int i = 0; i < machine->nodes; i++) {
        require(machine->node[i].parent < i);
        muster_link_above(machine, i, &link);
    }
    muster_faults_find(machine, &faults);
    require(faults.n >= 0 && faults.n <= MUSTER_FAULTS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct muster_machine *machine;
    struct muster_err err = {""};
    if (muster_machine_new(&machine, &err))
        return 0;
    if (muster_hwloc_read(machine, "fuzz", (const char *)data, size, &err))
        require(strncmp(err.text, "fuzz", 4) == 0 || strstr(err.text, "PCI devices"));
    else
        ask_everything(machine);
    muster_machine_free(machine);
    return 0;
}
