/* What `muster run` and `muster env` let one choose. */
#ifndef MUSTER_CLI_CAPTURE_OPTIONS_H
#define MUSTER_CLI_CAPTURE_OPTIONS_H

#include "cli/opt.h"
#include "launch/job_environment.h"

/* Rows of an option table whose struct begins with a struct muster_capture. */
/* clang-format off */
#define MUSTER_CAPTURE_OPTIONS                                                                     \
    {"timing", 't', MUSTER_OPT_CHOICE, offsetof(struct muster_capture, timing), "MODE",            \
     muster_capture_timings, .help = "GPU times: auto, full, light or channels"},                            \
    {"dir", 'd', MUSTER_OPT_TEXT, offsetof(struct muster_capture, dir), "DIR",                     \
     .help = "run directory"},                                                                     \
    {"log-max", 0, MUSTER_OPT_SIZE, offsetof(struct muster_capture, log_max), "SIZE",              \
     .help = "log bytes a process; beyond, the oldest operations go (256MiB)"},               \
    {"trace", 0, MUSTER_OPT_TEXT, offsetof(struct muster_capture, trace), "DIR",                   \
     .help = "record the call trace there, for bug reports; slow"},                                \
    {"config", 'c', MUSTER_OPT_TEXT, offsetof(struct muster_capture, config), "FILE",              \
     .help = "configuration file (YAML)"},                                                         \
    {"policy", 'p', MUSTER_OPT_TEXT, offsetof(struct muster_capture, policy), "FILE",              \
     .help = "steer NCCL by this policy (YAML), carried to all ranks in the environment"},                                                         \
    {"quiet", 'q', MUSTER_OPT_FLAG, offsetof(struct muster_capture, quiet),                        \
     .help = "say nothing but errors"}
/* clang-format on */

#endif
