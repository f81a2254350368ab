/* The size of frames that pass from this member to all others: a full one, and if that is lost,
 * smaller ones. Datagrams that may not be cut into fragments, answered by small ones. */
#ifndef MUSTER_DOCTOR_HOSTS_HOSTS_FRAMES_H
#define MUSTER_DOCTOR_HOSTS_HOSTS_FRAMES_H

#include "doctor/hosts/hosts_ear.h"

struct muster_hosts_frames; /* opaque */

/* NULL: no memory. */
struct muster_hosts_frames *muster_hosts_frames_new(const struct muster_hosts_ear *ear,
                                                    const struct muster_hosts_member *members,
                                                    unsigned n, unsigned self,
                                                    struct muster_arena *memory);
/* Sends what is due. True: nothing is left to wait for. */
bool muster_hosts_frames_step(struct muster_hosts_frames *frames, uint64_t now_ns);
/* An answer came. */
void muster_hosts_frames_answer(struct muster_hosts_frames *frames,
                                const struct muster_hosts_packet *packet);
void muster_hosts_frames_result(const struct muster_hosts_frames *frames,
                                struct muster_hosts_message *message);

#endif
