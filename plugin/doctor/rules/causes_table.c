/* What explains what. Sources: the classes of docs/doctor.md; the weights order causes that are
 * seen together, and follow how directly the check shows the fault: 9 names the fault itself, 5 a
 * setting that often is one, 2 a state in which it is more likely. */
#include "doctor/rules/causes.h"

/* What fails where a GPU cannot reach another one. */
#define PAIRS "p2p.kernel p2p.copy allreduce.small allreduce.large hang_stuck wrong_result"
#define TESTS PAIRS " p2p.bandwidth gpu.p2p_status"
/* What fails where CUDA or the driver does not work at all. */
#define STARTS "p2p.kernel p2p.copy allreduce.small allreduce.large init_error hang_absent"
/* What a host does to all of its ranks, or all hosts to a job that is set up alike. */
#define LATE "late_rank late_host"
#define HELD LATE " all_wait"
#define SLOW "p2p.bandwidth slow_transfer path_degraded"

const char *const muster_symptoms[] = {"p2p.kernel", "p2p.copy", "p2p.bandwidth", "allreduce.small",
                                       "allreduce.large", "gpu.p2p_status",
                                       /* of a job, beside findings */
                                       "init_error", "wrong_result", NULL};

const struct muster_cause_row muster_cause_rows[] = {
    {"log.job", "", 0},
    {"env.files", "policy_divergence slow_transfer path_missing init_error", 4},
    {"env.set", "", 0},
    {"env.unread", "init_error", 1},
    {"env.misspelt", "init_error slow_transfer policy_divergence", 2},
    {"env.removed", "slow_transfer", 2},
    {"env.legacy", "hang_absent", 1},
    {"env.number", "hang_stuck init_error slow_transfer", 3},
    {"env.value", "init_error allreduce.small allreduce.large policy_divergence", 6},
    {"env.contradiction", "init_error slow_transfer path_missing", 4},
    {"env.costly", SLOW " path_missing", 6},
    {"env.costly", "hang_dead", 3}, /* time-outs that a short loss of a link outlasts */
    {"env.unsafe", "wrong_result hang_stuck allreduce.small allreduce.large", 6},
    {"env.unsafe", "init_error", 5},
    {"net.interface", "init_error hang_stuck hang_absent", 8},
    {"net.interface", "slow_transfer", 7},
    {"net.oob", "init_error hang_stuck", 8},
    {"net.mpi", "hang_absent", 5},
    {"net.mtu", "hang_stuck slow_transfer", 3},
    {"net.pattern", "init_error hang_stuck slow_transfer", 4},
    {"net.subnet", "hang_stuck slow_transfer init_error", 4},
    {"net.kernel", "hang_stuck init_error hang_absent slow_transfer", 7},
    {"net.master", "init_error hang_absent", 8},
    {"job.ranks", "init_error hang_absent", 8},
    {"job.ranks", "slow_transfer path_missing", 4},
    {"job.extensions", "hang_absent hang_stuck", 5},
    {"net.ports", "init_error hang_stuck", 4},
    {"net.plugin", "slow_transfer init_error path_missing", 7},
    {"net.plugin", "hang_stuck", 4},
    {"net.names", "init_error hang_absent hang_stuck", 8},
    {"net.firewall", "init_error hang_stuck hang_absent", 6},
    {"net.mesh", "init_error hang_stuck hang_absent", 7},
    {"net.proxy", "hang_absent", 5},
    {"net.scanner", "hang_absent hang_stuck init_error", 5},
    {"limit.shm", "init_error allreduce.small allreduce.large hang_dead", 8},
    {"limit.shm", "hang_stuck hang_absent", 5},
    {"limit.shm_stale", "init_error allreduce.small allreduce.large", 9},
    {"limit.memlock", "init_error allreduce.small", 8},
    {"limit.nofile", "init_error hang_dead", 7},
    {"limit.processes", "init_error hang_dead", 8},
    {"limit.stack", "init_error hang_dead", 6},
    {"limit.cpu_quota", HELD " slow_transfer", 8},
    {"limit.cpus", HELD " slow_transfer", 7},
    {"limit.memory", "hang_dead", 6},
    {"host.oom", "hang_dead hang_absent", 9},
    {"limit.threads", HELD " slow_transfer", 6},
    {"limit.binding", HELD " slow_transfer", 7},
    {"limit.near", LATE " slow_transfer path_degraded", 6},
    {"host.numa", LATE " slow_transfer", 3},
    {"limit.service", "init_error hang_dead", 5},
    {"host.kernel", "hang_stuck wrong_result init_error p2p.kernel p2p.copy allreduce.large", 3},
    {"host.tuning", LATE " slow_transfer", 3},
    {"host.clock", LATE " slow_transfer", 5},
    {"host.hugepages", LATE " hang_dead", 4},
    {"host.container", "", 0},
    {"host.swap", LATE " hang_absent", 8},
    {"host.memory", LATE " hang_dead hang_absent", 6},
    {"host.pressure", HELD " hang_absent", 5},
    {"host.identity", "init_error hang_stuck", 4},
    {"host.cumem", "init_error allreduce.small allreduce.large", 6},
    {"host.dma_faults", TESTS " slow_transfer", 9},
    {"host.faults", TESTS " hang_dead init_error slow_transfer path_degraded " LATE, 6},
    {"host.kernel_log", TESTS " hang_dead init_error " LATE, 7},
    {"version.nccl", "init_error hang_mismatch mismatch hang_stuck policy_divergence", 4},
    {"version.nccl_bad",
     "init_error hang_stuck hang_absent hang_dead wrong_result slow_transfer path_missing "
     "path_degraded allreduce.small allreduce.large",
     5},
    {"job.frameworks", "init_error hang_stuck wrong_result", 6},
    {"version.torch", "hang_stuck init_error", 6},
    {"version.nccl_two", "init_error hang_stuck hang_dead wrong_result", 7},
    {"version.driver", TESTS " init_error", 9},
    {"version.cuda", STARTS, 8},
    {"version.gpu_code", STARTS, 9},
    {"version.plugin",
     "init_error hang_stuck hang_absent hang_dead wrong_result slow_transfer path_degraded", 5},
    {"version.pairs", "init_error hang_stuck slow_transfer path_missing", 8},
    {"version.compat", STARTS, 9},
    {"gpu.shared", STARTS " late_rank", 9},
    {"gpu.bridge", "p2p.bandwidth gpu.p2p_status slow_transfer path_missing", 8},
    {"gpu.peers", STARTS, 6},
    {"gpu.persistence", "late_rank", 2},
    {"gpu.requests", "slow_transfer path_degraded", 5},
    {"gpu.driver", STARTS " path_missing", 9},
    {"gpu.driver", "hang_stuck", 7},
    {"gpu.present", STARTS " hang_dead", 7},
    {"gpu.present", "hang_stuck late_rank slow_transfer", 3},
    {"gpu.mode", STARTS, 8},
    {"gpu.fabric", STARTS " hang_stuck", 9},
    {"gpu.multicast", "init_error hang_stuck allreduce.small allreduce.large", 4},
    {"gpu.nvlink", TESTS " slow_transfer path_degraded path_missing", 8},
    {"gpu.pcie", SLOW, 7},
    {"gpu.nic", "slow_transfer late_rank path_degraded", 5},
    {"gpu.clocks", LATE " uneven_stages p2p.bandwidth", 7},
    {"gpu.ecc", PAIRS " init_error hang_dead", 8},
    {"gpu.mig", "init_error allreduce.small gpu.p2p_status path_missing", 7},
    {"gpu.in_use", "late_rank init_error allreduce.large", 5},
    {"gpu.virtual", "p2p.kernel p2p.copy allreduce.large hang_stuck wrong_result", 5},
    {"gpu.virtual", "gpu.p2p_status p2p.bandwidth slow_transfer path_missing init_error", 5},
    {"gpu.iommu", TESTS " slow_transfer", 6},
    {"gpu.acs", TESTS " slow_transfer", 8},
    {"gpu.acs", "init_error hang_dead", 4}, /* a NIC's access to a GPU that ends nowhere */
    {"gpu.imex", "init_error path_missing slow_transfer", 6},
    {"ib.ports", "slow_transfer hang_stuck init_error path_degraded", 6},
    {"ib.gid", "init_error hang_stuck slow_transfer", 7},
    {"ib.hca", "slow_transfer init_error hang_stuck path_degraded path_missing", 7},
    {"ib.devices", "slow_transfer init_error path_missing", 8},
    {"ib.gdr", "slow_transfer path_missing", 7},
    {"ib.subnet", "init_error slow_transfer path_missing path_degraded", 9},
    {"ib.frames", "hang_stuck slow_transfer init_error", 5},
    {"ib.ecn", "slow_transfer hang_stuck", 5},
    {"ib.trust", "slow_transfer hang_stuck", 5},
    {"ib.pfc", "slow_transfer hang_stuck", 5},
    {"ib.loss", "slow_transfer hang_stuck path_degraded", 7},
    {"ib.loss", "hang_dead", 6},
    {"ib.netns", "init_error hang_stuck", 9},
    {"ib.flaps", "hang_stuck hang_dead slow_transfer", 7},
    {"ib.libraries", "slow_transfer path_missing init_error", 9},
    /* A pair that does not work takes the all-reduce with it. */
    {"p2p.kernel", "allreduce.small allreduce.large hang_stuck wrong_result", 3},
    {"p2p.copy", "allreduce.large hang_stuck wrong_result", 2},
    {"gpu.p2p_status", SLOW " path_missing", 3},
    /* Boards without P2P, which NCCL tries all the same; the NCCL itself is looked at after that.
     */
    {"gpu.p2p_status", "init_error hang_stuck", 6},
    {"policy_divergence", "hang_stuck", 9},
};
const size_t muster_cause_rows_n = sizeof muster_cause_rows / sizeof *muster_cause_rows;

/* Boards without P2P: most of those that are sold. Variables that nobody reads: many jobs'. */
const struct muster_cause_row muster_common_rows[] = {
    {"gpu.p2p_status", "init_error hang_stuck", 0},
    {"env.unread", "init_error", 0},
};
const size_t muster_common_rows_n = sizeof muster_common_rows / sizeof *muster_common_rows;

/* Ranks wait for each other for ever where they take different ways for one operation; what makes
 * them choose differently is worth less than what makes them speak differently. */
const struct muster_cause_row muster_difference_rows[] = {
    {"version.nccl", "hang_stuck hang_mismatch policy_divergence init_error", 9},
    {"net.plugin", "hang_stuck policy_divergence init_error", 9},
    {"ib.ports", "hang_stuck init_error slow_transfer path_degraded", 8},
    {"env.set", "hang_stuck hang_mismatch policy_divergence slow_transfer", 8},
    {"env.files", "hang_stuck policy_divergence slow_transfer", 8},
    {"ib.gid", "hang_stuck init_error", 7},
    {"net.mtu", "hang_stuck slow_transfer", 6},
    {"gpu.present", "hang_stuck policy_divergence init_error", 6},
    {"gpu.nvlink", "policy_divergence slow_transfer path_degraded", 6},
    {"ib.gdr", "slow_transfer path_degraded", 6},
    {"ib.pfc", "slow_transfer hang_stuck", 5},
    {"net.interface", "hang_stuck init_error", 5},
    {"version.driver", "policy_divergence init_error", 3},
};
const size_t muster_difference_rows_n =
    sizeof muster_difference_rows / sizeof *muster_difference_rows;
