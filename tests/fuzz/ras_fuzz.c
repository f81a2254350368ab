/* What NCCL's RAS is said to have answered, from hostile bytes: said of two communicators. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ras/ras_report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct muster_ras_report report;
    struct muster_finding_lines lines = {.n = 0};
    struct muster_err err = {""};
    if (muster_ras_read("fuzz", (const char *)data, size, &report, &err) == 0) {
        muster_ras_describe(&report, 0x1234, &lines);
        muster_ras_describe(&report, report.comms ? report.comm[0].hash : 0, &lines);
        if (lines.n < 1)
            abort();
    } else if (strncmp(err.text, "fuzz", 4) != 0 && !strstr(err.text, "memory")) {
        abort();
    }
    muster_ras_free(&report);
    return 0;
}
