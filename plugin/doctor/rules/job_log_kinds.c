/* What lines of a job's log mean. A weight: 9 names the cause itself, 5 shows where it lies, 2 that
 * something was refused, 1 what healthy logs have, too, 0 that the job failed. Causes are checks of
 * this host, by how directly they bring such a line about. Sources: where the line is printed
 * (job_log_lines.c), and the threads of docs/accuracy.md. */
#include "doctor/rules/job_log.h"

#define FAILS "init_error"
#define HANGS "hang_stuck"
#define DIES  "hang_dead"
#define SLOW  "slow_transfer"

static const struct muster_job_log_kind kinds[] = {
    /* GPUs and their driver */
    {"log.duplicate_gpu", "F17", FAILS, 9, "two ranks took the same GPU",
     "each rank calls cudaSetDevice (torch.cuda.set_device) with its local rank before the first "
     "collective; as many ranks a host as GPUs; not CUDA_VISIBLE_DEVICES in the script",
     "gpu.shared job.ranks gpu.present"},
    {"log.no_such_gpu", "F17,F46", FAILS, 7, "a rank asked for a GPU that it does not see",
     "ranks of a host against GPUs in CUDA_VISIBLE_DEVICES, which counts the GPUs that the "
     "container sees from 0; nccl-tests' -g is GPUs of each process: -g times processes of a host "
     "at most its GPUs; with --gpus-per-task=1 of Slurm's each task sees one GPU, number 0",
     "job.ranks gpu.shared gpu.present gpu.mig"},
    {"log.no_gpu", "F17,F49", FAILS, 6, "CUDA sees no GPU",
     "the container needs --gpus all (nvidia-container-toolkit); CUDA_VISIBLE_DEVICES; nvidia-smi",
     "gpu.driver gpu.present version.driver host.container"},
    {"log.gpu_busy", "F17", FAILS, 7, "GPUs are taken, or allow one process alone",
     "nvidia-smi shows who holds them; compute mode: nvidia-smi -c 0 as root",
     "gpu.mode gpu.in_use gpu.mig"},
    {"log.gpu_memory", "F11", FAILS, 5, "a GPU had no memory left for NCCL's buffers",
     "leave NCCL 1 to 4 GiB a GPU (the framework's share of memory, batch size), end other "
     "processes on it, and NCCL_BUFFSIZE and NCCL_MAX_NCHANNELS at their defaults",
     "gpu.in_use gpu.shared env.unsafe gpu.mig job.frameworks"},
    {"log.old_driver", "F35", FAILS, 8, "the driver is older than the CUDA of NCCL or the program",
     "upgrade the driver, or install the framework and NCCL for the driver's CUDA",
     "version.cuda version.compat version.driver"},
    {"log.driver_mismatch", "F35", FAILS, 8,
     "the driver's module and its library are of two versions",
     "reload the module or reboot; in a container unset LD_LIBRARY_PATH's compat folder",
     "gpu.driver version.compat version.driver version.cuda"},
    {"log.fabric", "F49,F50", FAILS, 8, "the GPUs' fabric is not set up (CUDA error 802)",
     "systemctl start nvidia-fabricmanager, of exactly the driver's version; then restart what "
     "holds the GPUs",
     "gpu.fabric gpu.driver gpu.mig"},
    {"log.gpu_code", "F35", FAILS, 7, "NCCL, or the program, has no code for these GPUs",
     "install NCCL and the framework for this generation of GPUs",
     "version.gpu_code version.nccl_bad version.cuda version.nccl"},
    {"log.cuda_library", "F35,F49", FAILS, 6, "NCCL finds no libcuda.so",
     "the container's runtime puts it there (--gpus all, --nv); else ldconfig, or its folder in "
     "LD_LIBRARY_PATH",
     "gpu.driver version.compat host.container"},
    {"log.peer_access", "F43,F46", FAILS, 6, "a GPU was refused access to another one's memory",
     "NCCL_P2P_DISABLE=1 shows whether it is that; NCCL_CUMEM_HOST_ENABLE=0 with CUDA 12.8 and "
     "GPUs without P2P; each process has to see all GPUs of its host",
     "job.ranks gpu.p2p_status gpu.peers gpu.mig version.nccl_bad host.identity gpu.virtual "
     "env.unsafe gpu.acs gpu.iommu host.container"},
    {"log.multicast", "F49,F50", FAILS, 7, "NVLink SHARP (NVLS): the multicast was refused",
     "NCCL_NVLS_ENABLE=0 goes without. Mostly the fabric manager was restarted under the GPUs: "
     "reboot, or stop all that uses them, restart it, reset them; in a container "
     "/dev/nvidia-caps; in a VM all GPUs of the board",
     "gpu.fabric gpu.multicast gpu.virtual gpu.mig version.nccl_bad"},
    {"log.imex", "F49,F50", FAILS, 8, "NVLink between hosts (MNNVL) is there and does not work",
     "nvidia-imex with the same nodes_config.cfg on all hosts, and /dev/nvidia-caps-imex-channels "
     "in the container; NCCL_MNNVL_ENABLE=0 goes without",
     "gpu.imex gpu.fabric"},
    {"log.not_supported", "F29,F35", FAILS, 6,
     "the driver refused what NCCL asked of it (not supported)",
     "a virtual GPU needs a profile of a whole GPU and unified memory (enable_uvm=1); else an NCCL "
     "of the driver's CUDA, or a newer driver",
     "gpu.virtual version.nccl_bad version.cuda version.driver version.compat gpu.mig"},
    {"log.fork", "F18", FAILS, 9, "a process that was forked after CUDA had begun asks for CUDA",
     "start processes by spawn (multiprocessing.set_start_method, VLLM_WORKER_MULTIPROC_METHOD="
     "spawn), and touch no GPU before",
     ""},
    {"log.unknown_error", "F52", FAILS, 2, "CUDA failed and did not say why (error 999)",
     "dmesg for an Xid of that time; reload nvidia_uvm or reboot; in Windows' subsystem for Linux "
     "a newer NCCL and driver",
     "host.kernel_log gpu.virtual gpu.driver gpu.fabric"},
    {"log.gpu_lost", "F51", DIES, 9, "a GPU is lost, or its memory failed",
     "the Xid in dmesg says which; drain the host, reset or replace that GPU",
     "host.kernel_log gpu.ecc gpu.nvlink gpu.driver"},
    {"log.gpu_fault", "F13,F52", DIES, 4, "a kernel used an address that is not there",
     "mostly the program's, not NCCL's: CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer names the "
     "kernel; NCCL tells of it only as the first to ask",
     "host.kernel_log version.nccl_bad gpu.ecc"},
    {"log.nvml", "F35,F49", FAILS, 6, "NVML, the driver's own library, did not start",
     "nvidia-smi says why; after an upgrade of the driver reboot or reload its modules",
     "gpu.driver version.driver gpu.present"},
    /* memory and limits of the host */
    {"log.shm_full", "F27", FAILS, 9, "/dev/shm has no room",
     "docker: --ipc=host or --shm-size=16g; Kubernetes: an emptyDir of medium Memory at /dev/shm; "
     "remove what dead jobs left there",
     "limit.shm_stale limit.shm limit.memory"},
    {"log.shm_files", "F27,F28", FAILS, 5,
     "a rank does not find the shared memory that another one made",
     "ranks of one host in containers need one /dev/shm (--ipc=host), or NCCL_SHM_DISABLE=1; "
     "NCCL_CUMEM_HOST_ENABLE=0 where NUMA nodes lack memory or CPUs",
     "limit.shm host.cumem host.identity limit.shm_stale version.nccl_bad host.numa "
     "host.container"},
    {"log.uds", "F28,F29", FAILS, 5,
     "ranks of one host could not pass a handle of memory over a Unix socket",
     "ranks of one host in containers need one network namespace (--network host), or "
     "NCCL_CUMEM_ENABLE=0; ulimit -n 65536",
     "host.identity limit.nofile version.nccl_bad host.container"},
    {"log.bus_error", "F27", DIES, 7, "a process wrote to shared memory that has no room",
     "more /dev/shm (docker --shm-size, --ipc=host), or fewer workers of data loaders",
     "limit.shm limit.shm_stale limit.memory host.oom"},
    {"log.killed", "F11", DIES, 7, "a process was killed (signal 9), mostly for memory",
     "memory.events of its cgroup and dmesg say whether the kernel did it; raise the limit",
     "host.oom limit.memory host.memory"},
    {"log.memlock", "F30", FAILS, 7, "memory could not be registered with the network card",
     "ulimit -l unlimited where the job starts (docker --ulimit memlock=-1, LimitMEMLOCK of "
     "slurmd or sshd); else too many queue pairs for the card",
     "limit.memlock limit.service host.faults ib.gdr host.container gpu.acs gpu.iommu "
     "limit.memory"},
    {"log.open_files", "F32", FAILS, 9, "the limit of open files was reached",
     "ulimit -n 65536 where the job starts (LimitNOFILE of its service)",
     "limit.nofile limit.service"},
    {"log.no_threads", "F32", FAILS, 8, "no further thread or process was allowed",
     "raise pids.max of the cgroup or ulimit -u; fewer workers and OpenMP threads",
     "limit.processes limit.service limit.threads limit.memory"},
    {"log.host_memory", "F11", FAILS, 6, "the host had no memory left",
     "raise the cgroup's limit, or use less a rank", "limit.memory host.memory host.oom"},
    /* sockets and names */
    {"log.no_interface", "F19,F20", FAILS, 8, "NCCL found no network interface that it may take",
     "unset NCCL_SOCKET_IFNAME or name one that is here (ip -br addr); in a container one with an "
     "address",
     "net.interface net.oob env.value"},
    {"log.address_family", "F20,F24", FAILS, 6, "hosts took addresses of two families, or none",
     "NCCL_SOCKET_FAMILY=AF_INET on all hosts, and NCCL_SOCKET_IFNAME of one that all have",
     "net.interface net.names"},
    {"log.no_address", "F19,F34", FAILS, 6,
     "a rank was told no address by another one: NCCLs of two versions, or no interface",
     "the same NCCL on all hosts (NCCL_DEBUG=VERSION prints it; `muster doctor --hosts` compares); "
     "an NCCL_SOCKET_IFNAME that each host has",
     "net.interface version.nccl net.oob version.pairs"},
    {"log.link_local", "F20,F21", FAILS, 8,
     "NCCL connects over an address that no other host reaches (link-local, or loopback)",
     "name the interface between the hosts in NCCL_SOCKET_IFNAME (=eth0); NCCL_SOCKET_FAMILY="
     "AF_INET",
     "net.interface net.subnet net.names"},
    {"log.bridge", "F21,F24", FAILS, 8,
     "NCCL connects over a bridge or tunnel of this host alone (docker0, virbr0, veth, cni)",
     "name the interface between the hosts in NCCL_SOCKET_IFNAME, on all hosts",
     "net.interface net.pattern net.names"},
    {"log.unreachable", "F20,F23,F24,F25", FAILS, 4,
     "another rank's address cannot be reached over TCP",
     "NCCL_SOCKET_IFNAME of the interface between the hosts, the same on all; a firewall or "
     "security group that drops high ports; `muster doctor --hosts` tries all pairs",
     "net.interface net.firewall net.mesh net.scanner net.oob net.names net.kernel net.subnet "
     "net.ports net.mtu"},
    {"log.refused", "F25,F36", FAILS, 3,
     "another rank's port refused the connection: that rank had ended, or another host answered",
     "look for the first error of that rank; else NCCL_SOCKET_IFNAME: docker's bridges have the "
     "same address on all hosts",
     "net.interface net.names net.mesh net.scanner net.firewall net.master"},
    {"log.store", "F36,F25", FAILS, 4, "the rendezvous at MASTER_ADDR:MASTER_PORT was not reached",
     "MASTER_ADDR has to be rank 0's address as all hosts see it, MASTER_PORT open, and rank 0 "
     "running; the number of nodes and ranks right",
     "net.master net.names job.ranks net.firewall net.mesh net.scanner net.interface"},
    {"log.port_taken", "F36", FAILS, 8, "the port of the rendezvous is taken",
     "end the job that left a process there (ss -ltnp), or another MASTER_PORT, below those that "
     "the kernel gives to connections (net.ipv4.ip_local_port_range); on one host torchrun "
     "--standalone",
     "net.master net.ports job.ranks net.kernel"},
    {"log.not_ours", "F20,F36", FAILS, 8,
     "a process was to listen at an address that its host does not have",
     "MASTER_ADDR (TF_CONFIG, coordinator_address, --host) as an address of the host of rank 0, "
     "and "
     "that rank started there; not a public or translated one of a cloud",
     "net.master net.names net.interface"},
    {"log.name", "F36", FAILS, 8, "a host's name has no address here",
     "an entry for it in DNS or /etc/hosts, or the address itself in MASTER_ADDR or NCCL_COMM_ID",
     "net.names net.master net.interface"},
    {"log.gloo_address", "F20,F36", FAILS, 8,
     "Gloo finds no address for this host's name, or for the interface that it was given",
     "GLOO_SOCKET_IFNAME of one interface that is here (ip -br addr; an exact name), or the host's "
     "name with its address in /etc/hosts",
     "net.names net.interface"},
    {"log.zero_address", "F20,F36", FAILS, 8,
     "ranks look for rank 0 at an address that begins with 0: a name that is a number (3472853 is "
     "0.52.253.213), or 0.0.0.0",
     "an address in MASTER_ADDR or --rdzv-endpoint (127.0.0.1 on one host) in place of the name; "
     "another name for the host or container",
     "net.names net.master"},
    {"log.proxy", "F20,F36", FAILS, 7, "a proxy for the web stands between processes of the job",
     "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY grpc_proxy on all hosts, or no_proxy and "
     "NO_PROXY with all of them",
     "net.proxy net.mesh"},
    {"log.stranger", "F25,F36", FAILS, 5,
     "something that is no rank of this job spoke at NCCL's port, or ranks speak differently",
     "the same NCCL and variables on all hosts; not two jobs at one NCCL_COMM_ID; scanners of "
     "ports off the hosts; from NCCL 2.27.3 on a stranger is ignored",
     "version.nccl env.unsafe version.nccl_bad net.mesh net.plugin net.master"},
    {"log.net_differs", "F34,F63", FAILS, 9,
     "one host uses sockets where another uses InfiniBand or RoCE",
     "RDMA on all hosts (ports that are up, libibverbs and its drivers, /dev/infiniband in the "
     "container, NCCL_IB_HCA and the network plugin alike), or NCCL_IB_DISABLE=1 on all of them",
     "ib.libraries ib.devices ib.ports ib.hca net.plugin ib.subnet env.costly"},
    {"log.remote_memory", "F66", FAILS, 9,
     "NCCL's helper for memory of other ranks failed (before 2.12)",
     "upgrade NCCL to 2.12.7 or later, which has none; else that GPU's memory is full",
     "version.nccl_bad version.nccl"},
    /* RDMA */
    {"log.rdma_unreachable", "F57,F59", FAILS, 4,
     "a queue pair could not reach the other port: RDMA between these two addresses fails",
     "RoCE: NCCL_IB_GID_INDEX of a routable RoCE v2 address (show_gids), the same on all; ports "
     "that do not see each other out of NCCL_IB_HCA, or NCCL_CROSS_NIC=0 between rails; "
     "ib_write_bw "
     "-x GID tries a pair",
     "ib.netns ib.gid ib.hca ib.ports ib.subnet env.unsafe ib.frames net.firewall "
     "version.nccl_bad"},
    {"log.rdma_timeout", "F57,F58,F59,F60", FAILS, 4,
     "a network card got no answer (status 12): the other port is not reached, or packets are lost",
     "at init: NCCL_IB_GID_INDEX and the pair of ports, as ib_write_bw -x GID tries; later: links "
     "that flap, PFC and ECN of the switches, the MTU; NCCL_IB_TIMEOUT=22 outlasts short losses",
     "ib.gid ib.ports ib.flaps ib.loss ib.frames ib.hca ib.pfc ib.ecn ib.trust ib.subnet net.mtu "
     "env.unsafe "
     "host.faults"},
    {"log.rdma_flushed", "F43,F60", FAILS, 2,
     "a network card ended its queue after an error of another request (status 5)",
     "the first line of another status says why; where there is none, ACS between card and GPU, "
     "and "
     "the firmware of the host",
     "gpu.acs gpu.iommu ib.flaps host.faults ib.ports ib.gid"},
    {"log.rdma_access", "F43,F61,F62", FAILS, 4,
     "a network card could not get at memory that NCCL gave it (status 4, 10 or 11)",
     "ACS and the IOMMU between card and GPU; nvidia-peermem of this driver, or "
     "NCCL_DMABUF_ENABLE=0; NCCL_NET_GDR_LEVEL=LOC shows whether it is GPUDirect; a rank that "
     "ended first looks the same",
     "gpu.acs gpu.iommu ib.gdr host.dma_faults version.nccl_bad gpu.virtual"},
    {"log.rdma_room", "F30,F60", FAILS, 4, "a network card gave no further queue or queue pair",
     "ulimit -l unlimited; fewer queue pairs (NCCL_IB_QPS_PER_CONNECTION, channels, all-to-all of "
     "many ranks); other jobs on it; virtual functions have less room",
     "limit.memlock limit.service host.faults env.costly host.container"},
    {"log.rdma_device", "F57,F63", FAILS, 5, "an RDMA device that NCCL was given cannot be opened",
     "docker: --device=/dev/infiniband --cap-add=IPC_LOCK; Kubernetes: a device plugin's resource; "
     "the port's network interface has to be in the container, too (RoCE)",
     "ib.devices ib.libraries host.container limit.memlock ib.ports ib.gid"},
    {"log.rdma_driver", "F63", SLOW, 6, "libibverbs has no driver for the network card",
     "install the driver's package in the image (ibverbs-providers, libmlx5-1, libefa), of the "
     "version of libibverbs and of the kernel's module",
     "ib.libraries ib.devices"},
    {"log.ofi", "F63", FAILS, 5, "aws-ofi-nccl, the network plugin of EFA, did not work",
     "FI_PROVIDER=efa, the EFA driver and libfabric of one installer, /dev/infiniband in the "
     "container, a security group that lets the hosts reach themselves, in and out; "
     "FI_LOG_LEVEL=warn says more",
     "version.pairs version.plugin ib.devices ib.libraries env.unsafe net.plugin limit.memlock "
     "env.files "
     "env.value host.hugepages host.faults"},
    {"log.net_profile", "F34,F63", FAILS, 9,
     "this cloud's network plugin refuses what NCCL's variables are set to",
     "the line names the variable and the value that is wanted: source the plugin's own script "
     "last "
     "on every host (/usr/local/gib/scripts/set_nccl_env.sh, nccl-env-profile.sh), and unset what "
     "the job or its image sets besides",
     "net.plugin env.set"},
    {"log.huge_pages", "F11,F63", FAILS, 7, "huge pages were refused, which the network asks for",
     "FI_EFA_USE_HUGE_PAGE=0 (EFA), UCX_ALLOC_PRIO and UCX_IB_ALLOC without huge (UCX), or give "
     "the container hugepages-2Mi",
     "host.hugepages limit.memory"},
    {"log.plugin", "F63", FAILS, 5, "NCCL's network plugin could not be loaded",
     "ldd of it shows what it lacks; NCCL_NET_PLUGIN=none goes without; a plugin of this NCCL's "
     "version",
     "net.plugin version.plugin version.pairs ib.libraries version.nccl"},
    {"log.no_network", "F63", FAILS, 5, "the network that NCCL_NET names is not there",
     "NCCL_NET as the plugin calls itself (\"AWS Libfabric\", IB, Socket), or unset; the plugin in "
     "the loader's path",
     "net.plugin ib.libraries env.value ib.devices ib.hca"},
    /* NCCL itself */
    {"log.versions", "F34", FAILS, 9, "ranks loaded different versions of NCCL",
     "one image or environment on all hosts; LD_LIBRARY_PATH and LD_PRELOAD alike", "version.nccl"},
    {"log.symbols", "F34", FAILS, 8,
     "no NCCL could be loaded, or one that is not the framework's own",
     "one NCCL in the environment (pip list: nvidia-nccl-cu11, -cu12, -cu13), none before it in "
     "LD_LIBRARY_PATH or LD_PRELOAD",
     "version.nccl version.cuda version.nccl_two"},
    {"log.topology", "F37,F48", FAILS, 5,
     "NCCL could not make out the machine: /sys, a topology file, or a GPU's place",
     "NCCL_TOPO_FILE unset or right (arch and vendor in each <cpu>); /sys in the container; a "
     "newer NCCL in virtual machines and in Windows' subsystem for Linux",
     "env.files gpu.virtual version.nccl_bad host.numa gpu.p2p_status"},
    {"log.net_id", "F47,F65", FAILS, 6, "NCCL asks for a network card that it merged with another",
     "upgrade NCCL to 2.27.3; NCCL_NET_MERGE_LEVEL=LOC shows whether it is the merging",
     "version.nccl_bad env.files ib.hca"},
    {"log.interrupted", "F66", FAILS, 7, "a signal interrupted NCCL as it waited for another rank",
     "upgrade NCCL to 2.27.3, which waits again; else no timers and profilers that send signals "
     "while ranks start",
     "version.nccl_bad"},
    {"log.capture", "F14,F35", FAILS, 8,
     "NCCL cannot be captured in a CUDA graph: built with a CUDA before 11.3, or an older driver",
     "an NCCL that was built with CUDA 11.3 or later (nvidia-nccl-cu12; nvidia-nccl-cu11 is built "
     "with 11.0), driver 465 or later; or no CUDA graphs",
     "version.nccl_bad version.cuda version.driver version.nccl"},
    {"log.shared_memory", "F72", FAILS, 6,
     "NCCL's kernels ask for more shared memory than GPUs have", "upgrade NCCL to 2.26.2 or later",
     "version.nccl_bad version.gpu_code"},
    {"log.ras", "F69", DIES, 7, "NCCL crashed in its RAS thread",
     "NCCL_RAS_ENABLE=0, or a newer NCCL", "version.nccl_bad"},
    {"log.plugin_crash", "F63", FAILS, 7, "NCCL's network plugin crashed",
     "NCCL_NET_PLUGIN=none goes without it; a newer plugin; NCCL_IB_HCA with fewer devices (some "
     "have room for 16)",
     "net.plugin version.plugin version.pairs"},
    {"log.choice", "F39,F40", FAILS, 7, "variables leave NCCL no algorithm or protocol",
     "unset NCCL_ALGO and NCCL_PROTO", "env.value env.contradiction env.unsafe env.set"},
    {"log.no_way", "F39,F46", FAILS, 7, "NCCL has no way from one rank to another",
     "NCCL_P2P_DISABLE, NCCL_SHM_DISABLE and NCCL_NET unset; a network that the host has",
     "env.costly env.unsafe env.set env.value net.interface"},
    {"log.cma", "F29", FAILS, 4, "processes of MPI may not read one another's memory",
     "docker: --cap-add=SYS_PTRACE; or OMPI_MCA_btl_vader_single_copy_mechanism=none",
     "host.container"},
    {"log.nics_differ", "F34,F57", FAILS, 7, "hosts have different numbers of network cards",
     "the same ports on all hosts: NCCL_IB_HCA, and those that are down", "ib.hca ib.ports"},
    {"log.nics_mixed", "F57", FAILS, 8, "network cards of InfiniBand and of Ethernet were paired",
     "NCCL_IB_HCA with those of one kind, the same on all hosts", "ib.hca ib.ports"},
    {"log.comm_unknown", "F34", FAILS, 6,
     "NCCL does not know a communicator: mostly it is another NCCL's of the same process",
     "one NCCL in the process: TensorFlow brings its own (tensorflow-cpu, or hide the GPUs from it "
     "and begin with JAX before its import), pip's beside conda's, one of the system's before the "
     "framework's",
     "job.frameworks version.nccl_two"},
    {"log.argument", "F18", FAILS, 6, "the program called NCCL with something that does not fit",
     "a tensor on the rank's own GPU, a root and types that are there; one device a rank",
     "gpu.shared job.ranks"},
    {"log.usage", "F17,F18", FAILS, 4,
     "NCCL calls it invalid usage: mostly two ranks of one communicator on one GPU",
     "a GPU of its own for each rank, also where two programs share a communicator (a trainer and "
     "the server of its weights): CUDA_VISIBLE_DEVICES of both, no more ranks than GPUs; "
     "NCCL_DEBUG=WARN says which (\"Duplicate GPU detected\")",
     "gpu.shared job.ranks gpu.present"},
    {"log.sizes", "F06,F34", FAILS, 5, "ranks sent and expected different sizes",
     "the same calls, sizes and types on all ranks, and NCCL's version and variables (NCCL_ALGO, "
     "NCCL_PROTO, NCCL_BUFFSIZE) alike",
     "version.nccl net.plugin env.value env.files"},
    {"log.device_unknown", "F17", HANGS, 5,
     "ranks have not said which GPU is theirs: barrier() may take another one",
     "torch.cuda.set_device(local_rank) before init_process_group, or its device_id",
     "gpu.shared job.ranks"},
    /* slow ways */
    {"log.no_gdr", "F61,F62", SLOW, 7, "GPUDirect RDMA is off: data goes through the host's memory",
     "modprobe nvidia-peermem (before NCCL 2.23 nv_peer_mem's name), or a kernel and driver with "
     "DMA-BUF; GPU and card below one PCIe switch or NCCL_NET_GDR_LEVEL",
     "ib.gdr version.nccl_bad gpu.nic env.costly host.container gpu.virtual"},
    {"log.no_rdma", "F57,F63", SLOW, 5, "NCCL found no RDMA device and takes TCP",
     "in a container --device=/dev/infiniband, IPC_LOCK and libibverbs with its drivers; "
     "NCCL_IB_HCA and NCCL_IB_DISABLE; ports that are active (ibstat)",
     "ib.devices ib.libraries ib.hca ib.ports env.costly host.container net.plugin ib.subnet"},
    {"log.no_verbs", "F63", SLOW, 4, "NCCL finds no libibverbs: RDMA is not used",
     "install libibverbs1 and ibverbs-providers where the job runs, if the host has RDMA",
     "ib.libraries ib.devices"},
    {"log.p2p_off", "F43,F46", SLOW, 5, "NCCL does not use P2P between GPUs that NVLinks join",
     "NCCL_P2P_DISABLE and NCCL_P2P_LEVEL unset; CUDA_VISIBLE_DEVICES shows each process all GPUs",
     "env.costly gpu.p2p_status job.ranks gpu.nvlink gpu.bridge gpu.acs gpu.iommu"},
    {"log.late_links", "F43", SLOW, 6, "NVLinks are there that NCCL does not use, or are down",
     "nvidia-smi nvlink -s; reset the GPUs; seat the bridge", "gpu.nvlink gpu.bridge gpu.fabric"},
    {"log.way_shm", "F43,F46", SLOW, 3,
     "GPUs of one host exchange data by way of the host's memory",
     "P2P where it works: NCCL_P2P_DISABLE and NCCL_P2P_LEVEL unset, ACS and the IOMMU off, each "
     "process sees all GPUs; boards without P2P have no other way",
     "env.costly gpu.p2p_status gpu.acs gpu.iommu gpu.nvlink gpu.bridge job.ranks gpu.virtual"},
    {"log.way_socket", "F57,F63", SLOW, 4, "hosts exchange data over TCP (NET/Socket)",
     "where hosts have RDMA: /dev/infiniband and libibverbs in the container, NCCL_IB_DISABLE and "
     "NCCL_NET unset, the network plugin of EFA",
     "env.costly ib.devices ib.libraries ib.hca ib.ports net.plugin net.interface host.container "
     "ib.subnet"},
    {"log.way_host", "F61,F62", SLOW, 5, "RDMA goes by way of the host's memory, without GPUDirect",
     "nvidia-peermem or DMA-BUF; GPU and card below one PCIe switch, or NCCL_NET_GDR_LEVEL",
     "ib.gdr version.nccl_bad gpu.nic env.costly host.container gpu.virtual gpu.acs"},
};
const struct muster_job_log_kinds muster_job_log_kinds_of_nccl = {kinds,
                                                                  sizeof kinds / sizeof *kinds};
