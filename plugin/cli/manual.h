/* The manual pages and the completion for bash, both from the tables of commands, options and
 * settings: what they say cannot differ from what the command does. */
#ifndef MUSTER_CLI_MANUAL_H
#define MUSTER_CLI_MANUAL_H

#include <stdio.h>

#define MUSTER_SUMMARY "what every NCCL operation of a job cost, rank by rank"

/* A page in roff's man format: muster(1) for a NULL topic, muster-config(5) for "config", else
 * muster-TOPIC(1). -1: there is no such topic, and nothing was written. */
int muster_manual(const char *topic, FILE *out);

/* A script for bash that completes commands, options and their values. */
void muster_completion(FILE *out);

#endif
