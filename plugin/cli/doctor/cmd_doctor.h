/* What the files of `muster doctor` share. */
#ifndef MUSTER_CLI_DOCTOR_CMD_DOCTOR_H
#define MUSTER_CLI_DOCTOR_CMD_DOCTOR_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "base/host.h"
#include "cli/cmd.h"
#include "doctor/hosts/hosts.h"
#include "doctor/rules/causes.h"

enum { MUSTER_DOCTOR_TEXT, MUSTER_DOCTOR_JSON };

struct doctor_options {
    int format;
    bool all, active, passive, hosts, quick;
    const char *nccl, *only, *symptom, *log;
    const char *with, *command, *share, *rendezvous, *as; /* of --hosts */
};

/* This host, or the one that MUSTER_PROCFS is from. */
void muster_doctor_host_read(struct muster_host *host);
/* As text, and `more` behind it, to standard output. */
void muster_doctor_print(const struct muster_checks *checks, const struct muster_causes *causes,
                         bool all, const char *more);
/* Examines this host and prints what was found, JSON to `out`, text to standard output: 1 with a
 * problem, else 0; -1 with err. */
int muster_doctor_report(const struct doctor_options *given, FILE *out, struct muster_err *err);
/* `muster doctor --hosts`, with the hosts' names. Returns the exit status. */
int muster_doctor_hosts(const struct muster_cmd *self, const struct doctor_options *given,
                        char **names, int n);

#endif
