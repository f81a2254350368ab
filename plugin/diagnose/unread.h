/* What was recorded and timed, and still says nothing about who is late or slow. */
#ifndef MUSTER_DIAGNOSE_UNREAD_H
#define MUSTER_DIAGNOSE_UNREAD_H

#include "diagnose/finding.h"
#include "diagnose/view.h"

/* Adds a line for each function that has no common end and was used. */
void muster_say_unread(const struct muster_view *view, struct muster_finding_lines *to);

#endif
