/*
 * What the kernel knows of a recorded process, beside its segment: whose job it is, and what
 * muster's own threads take. Reads /proc only; what is not readable stays empty. A process in
 * another PID namespace is not found, and nothing is known of it.
 */
#ifndef MUSTER_AGENT_AGENT_PROC_H
#define MUSTER_AGENT_AGENT_PROC_H

#include <stddef.h>
#include <stdint.h>

enum { MUSTER_AGENT_WORD = 64, MUSTER_AGENT_THREADS = 8 };

struct muster_agent_proc {
    char job_id[MUSTER_AGENT_WORD]; /* the scheduler's; "": none is known */
    char step_id[MUSTER_AGENT_WORD];
    char pod_uid[MUSTER_AGENT_WORD]; /* Kubernetes' */
    char pod[MUSTER_AGENT_WORD];     /* its name and namespace, where its variables have them */
    char namespace[MUSTER_AGENT_WORD];
    uint32_t tid[MUSTER_AGENT_THREADS]; /* muster's threads in it */
    unsigned tids;
    uint64_t cpu_ns; /* of them, so far */
};

/* Job, step, pod and muster's threads of a process that lives, or zero. `root` "/proc"; tests have
 * their own. */
void muster_agent_proc_read(const char *root, uint32_t pid, uint64_t start_ticks,
                            struct muster_agent_proc *proc);
/* Only cpu_ns again, which never falls. */
void muster_agent_proc_cpu(const char *root, uint32_t pid, struct muster_agent_proc *proc);

/* The same from the text of a cgroup file: job, step and pod. */
void muster_agent_proc_cgroup(const char *text, struct muster_agent_proc *proc);
/* And from a process's environment: `bytes` bytes of terminated NAME=VALUE. Only the few variables
 * that name a job are looked at. */
void muster_agent_proc_environ(const char *text, size_t bytes, struct muster_agent_proc *proc);

#endif
