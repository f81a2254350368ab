/*
 * What a process's main thread waits for, as far as an unprivileged reader of /proc may see: the
 * system call, and of one that reads or writes a TCP connection the peer. Stops and traces nothing.
 */
#ifndef MUSTER_DIAGNOSE_EVIDENCE_WAIT_H
#define MUSTER_DIAGNOSE_EVIDENCE_WAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diagnose/evidence.h"

/* A line of /proc/PID/syscall: its number and first argument. False: it runs, or cannot be seen. */
bool muster_wait_parse_syscall(const char *text, unsigned long *number, uint64_t *first);

/* A row of /proc/net/tcp or tcp6: "10.0.0.5:29500" to `peer`. False: no established connection with
 * that inode. */
bool muster_wait_parse_tcp(const char *row, uint64_t inode, char *peer, size_t size);

/* Adds in which system call the main thread is, and with whom it waits for the network. */
void muster_wait_describe(const struct muster_evidence_roots *roots, uint32_t pid, int32_t rank,
                          struct muster_finding_lines *lines);

#endif
