/* The manual pages and completions, all from the tables of commands, options and settings: what
 * they hold cannot differ from what the command does. */
#ifndef MUSTER_CLI_MANUAL_H
#define MUSTER_CLI_MANUAL_H

#include <stdio.h>

#define MUSTER_SUMMARY "which rank holds an NCCL job back, and why it hangs"

/* A page in roff's man format: muster(1) for a NULL topic, muster-config(5) for "config", else
 * muster-TOPIC(1). -1: there is no such topic, and nothing was written. */
int muster_manual(const char *topic, FILE *out);

/* A script for bash that completes commands, options and their values. */
void muster_completion(FILE *out);
void muster_completion_zsh(FILE *out);
void muster_completion_fish(FILE *out);

#endif
