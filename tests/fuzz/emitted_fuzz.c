/* A findings file of hostile bytes: what is taken from it is in bounds and can be printed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "emitted/emitted.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct muster_findings emitted = {0}, findings = {0};
    struct muster_err err = {""};
    char text[1024];
    FILE *out = fopen("/dev/null", "w");
    if (muster_emitted_parse("fuzz", (const char *)data, size, &emitted, &err) != 0 &&
        !muster_is_memory(&err))
        abort();
    if (muster_emitted_merge(&emitted, &findings, &err) != 0 && !muster_is_memory(&err))
        abort();
    for (size_t i = 0; i < findings.n && out; i++) {
        struct muster_json json;
        if (findings.finding[i].kind >= MUSTER_FINDING_KINDS)
            abort();
        muster_finding_sentence(&findings.finding[i], text, sizeof text);
        muster_json_begin(&json, out, false);
        muster_json_object(&json, NULL);
        muster_finding_json(&findings.finding[i], &json);
        muster_json_end(&json);
    }
    if (out)
        fclose(out);
    muster_findings_free(&emitted);
    muster_findings_free(&findings);
    return 0;
}
