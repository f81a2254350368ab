/* What nccl.conf sets, for a member's own tests of the network. */
#ifndef MUSTER_DOCTOR_HOSTS_HOSTS_CONF_H
#define MUSTER_DOCTOR_HOSTS_HOSTS_CONF_H

/* Sets NCCL_* of the files that NCCL reads here, where the environment has none of that name, as
 * NCCL does when it starts. Not before the host's report, which keeps files and environment apart.
 */
void muster_hosts_conf(void);

#endif
