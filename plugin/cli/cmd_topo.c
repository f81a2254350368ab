/* `muster topo`: what lies between this machine's GPUs and NICs. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cmd.h"
#include "cli/topo/topo_out.h"
#include "doctor/survey.h"

enum format { TEXT, JSON };

struct topo_options {
    int format;
    const char *xml;
};

static const char *const formats[] = {"text", "json", NULL};

static const struct muster_opt options[] = {
    {"format", 'f', MUSTER_OPT_CHOICE, offsetof(struct topo_options, format), "FORMAT", formats,
     .help = "text or json (text)"},
    {"xml", 'x', MUSTER_OPT_TEXT, offsetof(struct topo_options, xml), "FILE",
     .help = "a machine that hwloc wrote down (lstopo FILE.xml), instead of this one"},
    {.name = NULL},
};

static int run(const struct muster_cmd *self, int argc, char **argv)
{
    struct topo_options given = {0};
    struct muster_survey survey;
    struct muster_visible visible;
    struct muster_err err;
    int status;
    if (!muster_opt_parse_all(self, argc, argv, &given, &status))
        return status;
    struct muster_faults *faults = calloc(1, sizeof *faults);
    int rc = !faults     ? muster_fail_memory(&err, "looking at links")
             : given.xml ? muster_survey_xml(&survey, given.xml, &err)
                         : muster_survey_live(&survey, &err);
    if (rc) {
        fprintf(stderr, "muster topo: %s\n", err.text);
        free(faults);
        return MUSTER_STATUS_USAGE;
    }
    muster_faults_find(survey.machine, faults);
    muster_visible_gpus(survey.machine, given.xml ? NULL : getenv("CUDA_VISIBLE_DEVICES"),
                        getenv("CUDA_DEVICE_ORDER"), &visible);
    if (given.format == JSON)
        muster_topo_json(survey.machine, faults, &visible, stdout);
    else
        muster_topo_text(survey.machine, faults, &visible, stdout);
    muster_survey_free(&survey);
    free(faults);
    return MUSTER_STATUS_OK;
}

const struct muster_cmd muster_cmd_topo = {
    .name = "topo",
    .summary = "show GPUs, NICs and the paths between them: what they can, what they negotiated",
    .usage = "[options]",
    .about =
        "Classes of paths, as in nvidia-smi topo -m, from near to far: NV# (so many NVLinks),\n"
        "PIX (one PCIe switch), PXB (several), PHB (a CPU's host bridge), NODE (host bridges\n"
        "of one NUMA node), SYS (between NUMA nodes). \"degraded\": a link does less than both\n"
        "of its ends can. MUSTER_SYSFS stands for /sys.\n",
    .examples = "  muster topo\n"
                "Which links do less than they can, for a program:\n"
                "  muster topo --format json\n",
    .options = options,
    .run = run,
};
