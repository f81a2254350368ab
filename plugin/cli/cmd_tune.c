/* `muster tune`: what of NCCL's choices can be beaten, measured on the command itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "tune/tune_search.h"

struct tune_options {
    const char *budget, *output;
    bool quiet;
};

static const struct muster_opt tune_table[] = {
    {"budget", 'b', MUSTER_OPT_TEXT, offsetof(struct tune_options, budget), "TIME",
     .help = "how long it may take: 90s, 10m, 1h (10m)"},
    {"out", 'o', MUSTER_OPT_TEXT, offsetof(struct tune_options, output), "FILE",
     .help = "where the policy goes (muster-policy.yaml)", .also = "output"},
    {"quiet", 'q', MUSTER_OPT_FLAG, offsetof(struct tune_options, quiet),
     .help = "no progress on standard error"},
    {.name = NULL},
};

/* "90", "90s", "1.5m", "2h" to seconds; 0: none of these. */
static double duration_s(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    double unit = !*end || strcmp(end, "s") == 0 ? 1
                  : strcmp(end, "m") == 0        ? 60
                  : strcmp(end, "h") == 0        ? 3600
                                                 : 0;
    return end == text || !(value > 0) || value * unit > 1e6 ? 0 : value * unit;
}

static int tune(const struct muster_cmd *self, int argc, char **argv)
{
    struct tune_options options = {.budget = "10m", .output = "muster-policy.yaml"};
    struct muster_err err = {""};
    int status;
    int at = muster_opt_parse(self, argc, argv, &options, &status);
    if (at < 0)
        return status;
    struct muster_tune_plan plan = {.argv = argv + at,
                                    .output = options.output,
                                    .budget_s = duration_s(options.budget),
                                    .quiet = options.quiet};
    if (at == argc)
        return muster_opt_wrong(self, "which command?");
    if (!(plan.budget_s > 0)) {
        return muster_opt_wrong(self, "--budget: \"%s\" is not a time like 90s, 10m or 1h",
                                options.budget);
    }
    status = muster_tune_search(&plan, &err);
    if (status >= 0)
        return status;
    fprintf(stderr, "muster tune: %s\n", err.text);
    return MUSTER_STATUS_USAGE;
}

const struct muster_cmd muster_cmd_tune = {
    .name = "tune",
    .summary = "find by measurement where NCCL's choices can be beaten, and write a policy",
    .usage = "[options] [--] COMMAND [ARGUMENT...]",
    .about =
        "Runs the whole job again and again, recorded with full timing: without a policy, under\n"
        "each algorithm and protocol that NCCL has for its collectives, with half the channels\n"
        "where that may pay; then in turn without and with the best for each collective and size\n"
        "class. A rule is kept only if the 95 % interval of its ratio is below 0.97 over at least\n"
        "three pairs of runs, and its evidence stands beside it. What is compared is the time\n"
        "from the start of an operation to that of its communicator's next one. The rules kept\n"
        "then run together, in pairs of their own: the file says what that did to all\n"
        "operations, and holds no rule if they took longer, or if only others paid. No run is\n"
        "started that would not end within the budget; interrupted, it leaves what is proven by\n"
        "then. The command should be short and do each collective at least 10 times; what it\n"
        "prints is thrown away. Exit status: 0, also without a rule; 128 + n after signal n; 2 if\n"
        "nothing could be measured.\n",
    .examples =
        "  muster tune --budget 15m --out policy.yaml -- torchrun --nproc-per-node 8 train.py\n",
    .options = tune_table,
    .stop_at_operand = true,
    .run = tune,
};
