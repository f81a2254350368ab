/* A cost table from hostile bytes; the first 8 are the operation's size. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "policy/offline/cost_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    float cost[MUSTER_COST_ENTRIES];
    struct muster_err err = {""};
    uint64_t bytes = 0;
    size_t head = size < sizeof bytes ? size : sizeof bytes;
    memcpy(&bytes, data, head);
    if (muster_cost_file_parse(cost, "fuzz", (const char *)data + head, size - head, bytes, &err)) {
        if (strncmp(err.text, "fuzz:", 5) != 0)
            abort();
        return 0;
    }
    for (unsigned i = 0; i < MUSTER_COST_ENTRIES; i++)
        if (!(cost[i] >= 0) && cost[i] != -1.0f)
            abort();
    return 0;
}
