/* Runs `on:` commands of findings one after another, in a thread of its own: a slow one delays
 * others like it, and nothing else. */
#ifndef MUSTER_FLEET_NATS_HOOK_QUEUE_H
#define MUSTER_FLEET_NATS_HOOK_QUEUE_H

#include <stdbool.h>

#include "config/settings.h"
#include "diagnose/finding.h"

struct muster_hook_queue;

/* NULL: no kind has a command, or no memory. The settings stay. */
struct muster_hook_queue *muster_hook_queue_start(const struct muster_settings *settings);
bool muster_hook_queue_wants(const struct muster_hook_queue *queue, enum muster_finding_kind kind);
/* Takes `line` over: one line of JSON, without its end. NULL passes. */
void muster_hook_queue_add(struct muster_hook_queue *queue, enum muster_finding_kind kind,
                           char *line);
/* Runs what is left, for two seconds at most. */
void muster_hook_queue_stop(struct muster_hook_queue *queue);

#endif
