/* Two of the doctor's reports from hostile bytes, cut at the first zero byte. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/rules/doctor_compare.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char fine[] =
        "{\"version\":1,\"host\":\"b\",\"checks\":[{\"id\":\"net.interface\","
        "\"status\":\"ok\",\"found\":\"eth0\",\"evidence\":[\"x\"]}]}";
    struct muster_err err = {""};
    struct muster_comparison *comparison = muster_comparison_new(&err);
    const uint8_t *cut = memchr(data, 0, size);
    size_t first = cut ? (size_t)(cut - data) : size;
    FILE *out = fopen("/dev/null", "w");
    if (comparison && out &&
        muster_comparison_add(comparison, "fuzz", (const char *)data, first, &err) == 0) {
        if (muster_comparison_add(comparison, "b", fine, sizeof fine - 1, &err))
            abort();
        if (cut)
            muster_comparison_add(comparison, "c", (const char *)cut + 1, size - first - 1, &err);
        muster_comparison_print(comparison, false, out, &err);
        muster_comparison_print(comparison, true, out, &err);
    } else if (comparison && out && strncmp(err.text, "fuzz", 4) != 0) {
        abort();
    }
    if (out)
        fclose(out);
    muster_comparison_free(comparison);
    return 0;
}
