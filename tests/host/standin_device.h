/*
 * Which GPU stamp NCCL hands to a plugin, and for which it waits in vain. With standin.exact_gpu a
 * communicator keeps what NCCL keeps: on each channel the device counts the works that it ran and
 * writes the stamps of those that it was told to time into a ring of 64, and the host numbers the
 * works that it expects to be timed. What is between the two counters is NCCL's, not the plugin's:
 *
 * - a Send and a Receive of one group, the k-th of each, are one work, timed if the receive is; the
 *   host waits for either by its own mask. Where they differ it waits for ever, and the process
 *   ends with STANDIN_BROKEN (enqueue.cc, addP2pToPlan).
 * - up to 2.30 the host counts every work but pairs with oneself; from 2.31 on armed works only,
 *   and sends and receives once a plan (profiler.cc, ncclProfilerPostPlanWork), so that it falls
 *   behind the device with any other work.
 * - a stamp is taken once the ring's slot holds its number or a later one: a reader that is 64
 *   works behind takes those of other works.
 * - a work is opened in one round of the thread that looks and closed in the next, so that several
 *   of one channel are open at once where the thread is behind; from 2.31 on always all of a plan.
 */
#ifndef MUSTER_TESTS_HOST_STANDIN_DEVICE_H
#define MUSTER_TESTS_HOST_STANDIN_DEVICE_H

enum { STANDIN_CHANNELS = 64, STANDIN_RING = 64 };

struct standin_comm;
struct standin_device;
struct standin_group;

struct standin_device *standin_device_create(void);
void standin_device_destroy(struct standin_device *device); /* accepts NULL */

/* At a launch: runs the plan's works, whose times are known. */
void standin_device_launch(struct standin_group *group, struct standin_comm *comm);
/* After its operations were shown: has the proxy or profiler thread tell of them. */
void standin_device_post(const struct standin_group *group, struct standin_comm *comm);
/* The device runs one more work that the host does not count, for a reason that nobody knows; on
 * the calling thread, between launches. */
void standin_device_slip(struct standin_comm *comm);
/* Works whose stamps the host still waits for; on the thread that looks for them, or without it. */
unsigned standin_device_waiting(const struct standin_comm *comm);

#endif
