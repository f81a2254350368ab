/*
 * Everything that a command started, also what took a session of its own (torchrun's workers), so
 * that none of it stays behind on the GPUs. One thread; for commands that wait for one job at a
 * time and have no other children.
 */
#ifndef MUSTER_LAUNCH_FAMILY_H
#define MUSTER_LAUNCH_FAMILY_H

/* Before the command is started: whose parent dies becomes this process's child. */
void muster_family_adopt(void);

/* After the command's own end: ends all children of this process, and every process of this user on
 * this host that records into `run_dir` (NULL: the children alone, where others may record into the
 * run); by SIGTERM, `grace_ms` later by SIGKILL. Takes leave of the children, and puts the segments
 * that they leave into their run directories. */
void muster_family_end(const char *run_dir, unsigned grace_ms);

#endif
