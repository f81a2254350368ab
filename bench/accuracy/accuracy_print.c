#include "accuracy_print.h"

#include <stdio.h>

void report_findings(const struct muster_findings *findings, bool evidence)
{
    char text[1024];
    for (size_t f = 0; f < findings->n; f++) {
        const struct muster_finding *finding = &findings->finding[f];
        muster_finding_sentence(finding, text, sizeof text);
        printf("    %s\n", text);
        for (unsigned i = 0; evidence && i < finding->evidence.n; i++)
            printf("        %s\n", finding->evidence.line[i]);
    }
}
