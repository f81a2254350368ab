/*
 * Data centre bridging of an Ethernet interface, as its driver reports it to the kernel and the
 * kernel anybody (rtnetlink, DCB_CMD_IEEE_GET): which priorities have PFC, and which priority a
 * DSCP gets.
 */
#ifndef MUSTER_TOPOLOGY_DCB_H
#define MUSTER_TOPOLOGY_DCB_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { MUSTER_DCB_ANSWER = 16384, MUSTER_DCB_PRIORITIES = 8, MUSTER_DCB_DSCPS = 64 };

struct muster_dcb {
    uint8_t pfc;                       /* bit i: priority i has it */
    uint64_t paused;                   /* PFC frames that came in, of all priorities */
    uint64_t pauses;                   /* PFC frames that went out */
    int8_t priority[MUSTER_DCB_DSCPS]; /* that frames of this DSCP are given; -1: not known */
};

/* The kernel's answer about an interface of this network namespace, at most MUSTER_DCB_ANSWER
 * bytes; its size. Asks the driver, which may hang: for child processes with a deadline. -1: err.
 */
int muster_dcb_ask(const char *interface, void *answer, struct muster_err *err);
/* Pure. -1: err: no answer, the kernel's error, or no word of PFC in it. */
int muster_dcb_parse(const void *answer, size_t n, struct muster_dcb *dcb, struct muster_err *err);

#endif
