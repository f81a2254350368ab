/*
 * Commands that a configuration runs on findings (`on: KIND: exec:`). They run here, not in the
 * training processes: a thread follows the findings that the job writes into its run directory.
 */
#ifndef MUSTER_LAUNCH_HOOKS_H
#define MUSTER_LAUNCH_HOOKS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "config/settings.h"

struct muster_hooks;

/* NULL: no kind has a command, or no memory. dir is copied. */
struct muster_hooks *muster_hooks_start(const struct muster_settings *settings, const char *dir);
/* The job is over: runs what is left, and waits at most 2 s for what runs, which is then ended;
 * both are printed on stderr. NULL is accepted. Frees it. */
void muster_hooks_finish(struct muster_hooks *hooks);

/* Runs a command once with `text` on its standard input; it has `deadline_ms`, at most until
 * *end_ns (CLOCK_MONOTONIC, which may change meanwhile; NULL: none), and what it prints beyond a
 * few KiB is not passed on, much beyond ends it. Each is printed on stderr, in lines that begin
 * with `who` ("muster run"). */
void muster_hook_run(const char *who, const char *const *argv, const char *text, size_t bytes,
                     unsigned deadline_ms, const _Atomic uint64_t *end_ns);

#endif
