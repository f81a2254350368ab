/* What lines of a job's log mean, as job_log_kinds.c: those of programs, their launchers, the
 * kernel and file systems; at the end those that show a failure and no cause. */
#include "doctor/rules/job_log.h"

#define FAILS    "init_error"
#define HANGS    "hang_stuck"
#define DIES     "hang_dead"
#define ABSENT   "hang_absent"
#define MISMATCH "hang_mismatch"
#define SLOW     "slow_transfer"

static const struct muster_job_log_kind kinds[] = {
    /* the program, its launcher, the kernel */
    {"log.collective_mismatch", "F06,F08", MISMATCH, 9,
     "ranks called different collectives, or with different shapes",
     "the line names both calls: the same calls in the same order on every rank, also where a "
     "branch, an empty batch or an unused expert skips one",
     ""},
    {"log.model_differs", "F08", FAILS, 9,
     "ranks built different models, or passed different parameters",
     "the same configuration, vocabulary and trainable parameters on every rank before DDP or FSDP "
     "wraps the model",
     ""},
    {"log.unused_parameters", "F06", FAILS, 9,
     "some parameters took no part in the loss, and DDP waits for their gradients",
     "find_unused_parameters=True, or let all outputs of forward take part in the loss; reentrant "
     "checkpointing needs use_reentrant=False",
     ""},
    {"log.absent_rank", "F01,F05", ABSENT, 6, "a rank did not come to a barrier in time",
     "the line names it: look at what that rank did before (its own error, preprocessing, a longer "
     "shard, a save)",
     "net.mesh net.scanner net.names net.interface net.firewall"},
    {"log.preparing", "F05", ABSENT, 7,
     "a rank was still preparing data when the others' time-out was over",
     "prepare once before the job and let it read the cache; or a longer time-out: "
     "init_process_group(timeout=...), ddp_timeout of transformers",
     ""},
    {"log.mesh", "F25", ABSENT, 9, "a service mesh refused a connection of the job",
     "annotation sidecar.istio.io/inject: \"false\" on the job's pods, or an AuthorizationPolicy "
     "that lets them reach each other",
     "net.mesh"},
    {"log.rank_zero", "F01,F10", ABSENT, 6,
     "rank 0 did not publish NCCL's id: it had ended, or was busy before its first collective",
     "look at rank 0's own first error, else at what it does alone (download, preprocessing, a "
     "prompt); in this order before the network",
     "host.oom net.master job.ranks net.names limit.memory gpu.in_use"},
    {"log.watchdog", "F16", HANGS, 4,
     "PyTorch's watchdog itself was blocked (a call of CUDA or the interpreter's lock)",
     "py-spy dump --native of that process shows the call; a long compile or load: "
     "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC; else as for a collective that hangs",
     "host.kernel_log gpu.driver version.nccl_bad host.faults"},
    {"log.pidfd", "F29,F42", FAILS, 9,
     "a process may not take another one's file descriptors, by which PyTorch shares memory of "
     "GPUs "
     "in expandable segments",
     "PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF without expandable_segments in the processes "
     "that share memory; or docker: --cap-add=SYS_PTRACE, and kernel.yama.ptrace_scope=0 on the "
     "host; Linux 5.6 or later",
     "host.container"},
    {"log.launch_variables", "F36", FAILS, 9,
     "the launcher did not tell the rank who it is (RANK, WORLD_SIZE, MASTER_ADDR)",
     "start with torchrun (DeepSpeed: deepspeed, or accelerate launch --use_deepspeed), or export "
     "them: under srun RANK=$SLURM_PROCID, LOCAL_RANK=$SLURM_LOCALID, WORLD_SIZE=$SLURM_NTASKS",
     "job.ranks net.master"},
    {"log.first_collective", "F17,F36", FAILS, 2,
     "DDP's first collective failed: NCCL did not start",
     "NCCL_DEBUG=WARN prints why; else let each rank call torch.cuda.set_device(local_rank) before "
     "init_process_group, as two ranks on one GPU fail so",
     "gpu.shared job.ranks"},
    {"log.slots", "F36", FAILS, 9, "mpirun was asked for more ranks than it has slots",
     "slots=8 in the hostfile (-H host1:8,host2:8), as many as GPUs; not --oversubscribe, which "
     "puts two ranks on one GPU",
     "job.ranks"},
    {"log.pmi", "F36", FAILS, 9, "srun and this Open MPI do not speak the same PMI",
     "srun --mpi=pmix (srun --mpi=list shows which there are), or mpirun inside of the allocation",
     "job.ranks"},
    {"log.step", "F36", ABSENT, 8, "Slurm has no room for this step beside another one of the job",
     "no srun inside of srun (salloc's shell is a step, too), or srun --overlap; no more tasks, "
     "GPUs "
     "and memory than the job has",
     ""},
    {"log.local_rank", "F18", FAILS, 9,
     "the program does not know --local-rank, which torch.distributed.launch passes",
     "start with torchrun, and read os.environ[\"LOCAL_RANK\"]; else accept --local-rank and "
     "--local_rank: PyTorch 2 has the former, earlier ones the latter",
     ""},
    {"log.gres", "F17", FAILS, 9, "Slurm has no GPUs of that name or number on these nodes",
     "sinfo -o '%N %G' shows what nodes have; --gpus-per-node (or --gres=gpu:N) of that",
     "gpu.present"},
    {"log.ssh", "F36", FAILS, 8, "mpirun could not start its daemon on another host",
     "ssh HOST true has to work without a question from the first host to all (keys, known_hosts), "
     "and find the same Open MPI there (--prefix); or start by srun",
     "net.names net.firewall net.interface"},
    {"log.no_ssh", "F36", FAILS, 9, "the image has no ssh, by which mpirun starts ranks elsewhere",
     "install openssh-client where mpirun runs and openssh-server on all other hosts, and start "
     "/usr/sbin/sshd there (mpirun: --mca plm_rsh_args \"-p PORT\" where it is not 22); in an "
     "allocation of Slurm start by srun in its place",
     ""},
    {"log.no_provider", "F63", FAILS, 7, "libfabric finds no provider (fi_getinfo -61)",
     "fi_info -p efa (or cxi, verbs) has to list a device here, in the container: its files in "
     "/dev/infiniband, its driver, a libfabric that was built with that provider, no FI_PROVIDER "
     "of another",
     "ib.devices ib.libraries version.pairs env.unsafe env.value ib.ports host.container"},
    {"log.host_lost", "F10,F20", DIES, 4, "another host was lost while the job ran",
     "look there: memory (dmesg), a reboot, its link; with several networks name the one between "
     "the hosts: --mca oob_tcp_if_include and btl_tcp_if_include",
     "host.oom limit.memory net.interface net.firewall"},
    {"log.no_program", "F36", FAILS, 8, "the program is not on every host, or not in its PATH",
     "the same path on all (a shared folder, or the same image); in scripts the full path, and the "
     "environment activated in the job itself",
     ""},
    {"log.closed", "F36", FAILS, 3, "torchrun's rendezvous was closed before this host came",
     "a fresh --rdzv_id for each run; hosts started together, or --rdzv_conf "
     "last_call_timeout=600; where the job had run, look for the first error of the host that left",
     "net.master job.ranks"},
    {"log.coordinator", "F36,F25", FAILS, 4,
     "the coordinator of JAX or TensorFlow was not reached, or one of the processes never came",
     "jax.distributed.initialize: coordinator_address of process 0 as all hosts see it, its port "
     "open, num_processes right (TF_CONFIG: the same); no http_proxy between the hosts; else look "
     "for the first error of the process that is missing",
     "net.names net.firewall net.mesh net.proxy job.ranks net.interface"},
    {"log.ray_gpus", "F17,F36", FAILS, 7, "Ray has fewer GPUs than the ranks need",
     "ray status shows which hosts joined: start Ray on all of them first and let the program find "
     "that cluster (address auto); else fewer ranks, or GPUs that nothing else reserved",
     "gpu.present gpu.in_use"},
    {"log.own_all_reduce", "F43,F46", FAILS, 7,
     "the program's own all-reduce failed, not NCCL's: it maps GPUs into each other",
     "--disable-custom-all-reduce goes by NCCL; with it, NCCL_P2P_DISABLE=1 shows whether P2P "
     "itself is broken",
     "gpu.p2p_status gpu.peers gpu.acs gpu.iommu gpu.virtual env.unsafe host.container"},
    {"log.shm_small", "F27", FAILS, 4, "/dev/shm is too small for Ray, and mostly for NCCL",
     "docker: --ipc=host or --shm-size=16g; Kubernetes: an emptyDir of medium Memory at /dev/shm",
     "limit.shm"},
    {"log.no_nccl", "F35", FAILS, 9, "this build of the framework has no NCCL",
     "install the CUDA build (torch.version.cuda, torch.distributed.is_nccl_available()); on "
     "Windows and macOS use backend gloo",
     ""},
    {"log.wrong_device", "F18", FAILS, 9, "a tensor of the CPU was given to NCCL",
     "move it to the rank's GPU, or init_process_group('cpu:gloo,cuda:nccl')", ""},
    {"log.rank_memory", "F10,F11", DIES, 7,
     "a rank ran out of GPU memory, and the others waited for it",
     "a smaller batch or sharding on that rank; other processes on its GPU; "
     "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True where memory is in pieces",
     "gpu.in_use gpu.shared gpu.mig job.frameworks"},
    {"log.capture_broken", "F14", FAILS, 7,
     "a CUDA graph was captured while something else called CUDA",
     "one warm-up step before the capture, cudaStreamCaptureModeThreadLocal, and no watchdog's or "
     "data loader's CUDA calls meanwhile",
     "version.nccl_bad"},
    {"log.mps", "F17", FAILS, 8, "CUDA's MPS server does not answer",
     "start nvidia-cuda-mps-control -d as this user, the same CUDA_MPS_PIPE_DIRECTORY in all "
     "ranks, or unset it",
     "host.container gpu.mode"},
    {"log.cuda_refused", "F35", FAILS, 3, "CUDA refused an argument of NCCL's, or could not begin",
     "the driver and NCCL of one CUDA; NCCL_CUMEM_ENABLE=0 shows whether it is cuMem; no fork "
     "after CUDA began",
     "version.nccl_bad version.cuda version.driver gpu.virtual gpu.mig version.compat"},
    {"log.crashed", "F69", DIES, 3, "a process crashed (signal 11)",
     "the backtrace of its core names the library; NCCL_NET_PLUGIN=none and NCCL_TUNER_PLUGIN=none "
     "leave plugins out; one NCCL a process",
     "version.nccl_bad version.plugin net.plugin version.pairs limit.stack env.files version.nccl "
     "version.nccl_two"},
    {"log.time_limit", "F10", DIES, 9, "the job's time was over",
     "a longer --time, or checkpoints before its end (--signal=B:USR1@120)", ""},
    {"log.preempted", "F10", DIES, 9, "the job was preempted, or its host taken away",
     "checkpoints and --requeue; on demand hosts instead of spot ones", ""},
    {"log.xid", "F51,F52", DIES, 6, "the driver reported an error of a GPU (Xid)",
     "host.kernel_log says what that number means; drain the host, reset that GPU",
     "host.kernel_log gpu.ecc gpu.nvlink gpu.fabric"},
    {"log.nvswitch", "F51", DIES, 8, "an NVSwitch reported an error (SXid)",
     "fatal ones need a reset of all GPUs or a reboot; nvidia-fabricmanager's log tells the port; "
     "then NVIDIA's table of SXids",
     "gpu.fabric gpu.nvlink host.kernel_log"},
    {"log.nic_failed", "F60", DIES, 8, "a network card failed, or its firmware does",
     "mlxfwreset or a reboot, then its firmware and its place in the host; its rank's host out of "
     "the job meanwhile",
     "ib.ports ib.flaps host.faults"},
    {"log.link_down", "F58", DIES, 1, "a link of the network went down",
     "cable, optics and the switch's port; `dmesg -T` for how often; NCCL_IB_TIMEOUT=22 and "
     "NCCL_IB_RETRY_CNT=7 outlast short ones",
     "ib.flaps ib.ports"},
    {"log.neighbours", "F66", FAILS, 9,
     "the kernel's table of neighbours (ARP) is full: connections fail at random",
     "sysctl net.ipv4.neigh.default.gc_thresh3=16384, gc_thresh2=8192, gc_thresh1=4096 on all "
     "hosts, and ipv6 alike",
     "net.kernel"},
    {"log.conntrack", "F25,F66", FAILS, 9,
     "the firewall's table of connections is full: packets are dropped",
     "sysctl net.netfilter.nf_conntrack_max, or no tracking between the job's hosts",
     "net.firewall net.kernel"},
    {"log.host_hardware", "F51", DIES, 6, "the host's processor, memory or PCIe reported an error",
     "the host out of the job; rasdaemon or the BMC's log names the part",
     "gpu.pcie host.kernel_log"},
    {"log.kernel_stuck", "F52", HANGS, 6, "a processor or a process was stuck in the kernel",
     "the lines behind it name the driver or the file system; an NFS server that is gone, a "
     "driver's bug, a host without CPU time",
     "host.kernel host.kernel_log gpu.driver"},
    {"log.gsp", "F51,F52", DIES, 7, "a GPU's system processor (GSP) did not answer the driver",
     "the Xid 119 or 120 before it; drain the host, reset the GPU or reboot; a driver with newer "
     "GSP firmware",
     "host.kernel_log gpu.driver"},
    {"log.driver_down", "F49,F51", FAILS, 8, "the driver could not start a GPU",
     "dmesg's NVRM lines say why: firmware (GSP), BAR sizes, another module (nouveau); a reboot, "
     "else the board",
     "gpu.driver gpu.present host.kernel_log"},
    {"log.comm_id", "F36", FAILS, 9, "NCCL_COMM_ID is no address and port",
     "NCCL_COMM_ID=10.0.0.1:29500 (or [address of IPv6]:port) on all ranks, or unset, which is "
     "usual",
     "env.value net.master"},
    {"log.confidential", "F48", FAILS, 8,
     "the GPUs compute confidentially, and not several of them together",
     "protected PCIe mode for several GPUs, or confidential computing off, or one GPU a guest",
     "gpu.virtual"},
    {"log.gin", "F61,F74", FAILS, 7, "what GPU-initiated networking (GIN) needs is not there",
     "NCCL_GIN_ENABLE=0 goes without; nvidia-peermem or DMA-BUF, GDRCopy 2.5, ConnectX-6 Dx or "
     "later with current drivers, on all hosts",
     "ib.gdr ib.libraries ib.ports ib.devices version.nccl_bad"},
    {"log.gdrcopy", "F61", FAILS, 6, "GDRCopy failed",
     "modprobe gdrdrv, its library and module of one version, or NCCL_GDRCOPY_ENABLE unset",
     "ib.gdr env.unsafe host.container"},
    {"log.rdma_async", "F58,F60", DIES, 6, "a network card reported a fatal event",
     "dmesg of that host (mlx5_core), the card's firmware, its cable; where a rank ended first it "
     "follows from that",
     "ib.ports ib.flaps host.faults host.kernel_log gpu.acs gpu.iommu"},
    {"log.gids_changed", "F57,F59", FAILS, 3, "addresses of an RDMA port changed while the job ran",
     "no NetworkManager, DHCP or container network that changes the card's addresses meanwhile; "
     "NCCL_IB_GID_INDEX unset from 2.21 on",
     "ib.gid ib.flaps"},
    {"log.rdma_failover", "F58", DIES, 6,
     "a network port failed while the job ran, and NCCL could not go on without it",
     "the port's cable, optics and switch; a second port in NCCL_IB_HCA gives NCCL one to go on "
     "with",
     "ib.flaps ib.ports host.faults"},
    {"log.out_of_order", "F65", FAILS, 8,
     "NCCL was told to receive out of order, and the network does not do that",
     "unset NCCL_IB_OOO_RQ, or adaptive routing on the ports of all hosts",
     "env.set env.unsafe ib.hca"},
    {"log.subnets", "F57", FAILS, 7,
     "InfiniBand ports of two subnets, without a router between them",
     "NCCL_IB_HCA with ports of one subnet, or the fabric's router with FLIDs",
     "ib.hca ib.subnet ib.ports"},
    {"log.nics_unequal", "F60", FAILS, 5,
     "a rank asks for a network card that another one of its host does not have",
     "the same cards for all ranks of a host (NCCL_IB_HCA, containers, NCCL_TOPO_FILE)",
     "ib.hca ib.devices host.container env.files version.nccl_bad"},
    {"log.rdma_receiver", "F18,F60", HANGS, 5,
     "a network card's peer had no buffer ready (status 13)",
     "the receiving rank is stuck or gone: its own first error; unequal versions or variables of "
     "NCCL; NCCL_IB_RETRY_CNT does not help",
     "version.nccl net.plugin version.nccl_bad gpu.acs"},
    {"log.ucx", "F57,F63", FAILS, 5, "UCX found no way to another process",
     "UCX_TLS with rc (or tcp) and self, sm, cuda ones; UCX_NET_DEVICES of a port that is up; the "
     "same on all hosts",
     "ib.devices ib.ports ib.libraries ib.hca env.set net.interface host.container"},
    {"log.collnet", "F63", SLOW, 5, "SHARP (CollNet) was asked for and is not there",
     "NCCL_COLLNET_ENABLE unset, or nccl-rdma-sharp-plugins with a running SHARP daemon and the "
     "switches' permission",
     "net.plugin env.value env.unsafe"},
    /* a rank's own error, and what it needs */
    {"log.program", "F10", DIES, 3, "a rank ended by an error of its own program",
     "the first traceback names the line; other ranks' time-outs and closed connections follow "
     "from "
     "it",
     ""},
    {"log.data", "F10", DIES, 7, "a rank could not read a file that it needs",
     "the same path on all hosts (a shared folder, or a mount of the container), written to its "
     "end "
     "before others read it; a file that is cut off made again",
     ""},
    {"log.package", "F35", FAILS, 7,
     "a package or library is not there, or not of a version that fits",
     "one environment or image on all hosts; pip install of it there, and `ldd` of what does not "
     "load",
     "version.nccl version.compat"},
    {"log.download", "F10", DIES, 7, "a rank could not download a model or data set",
     "download before the job, by one process, to a folder that all see (HF_HOME), then "
     "HF_HUB_OFFLINE=1; a token for gated ones; https_proxy where hosts have no way out",
     "net.proxy net.names"},
    {"log.disk_full", "F10,F27", DIES, 7, "a disk, a quota or /dev/shm has no room left",
     "df -h of the folder that the line names, of /tmp and of /dev/shm; quota; checkpoints and "
     "TMPDIR elsewhere, older ones removed",
     "limit.shm limit.shm_stale"},
    {"log.file_system", "F10,F52", DIES, 7, "a file system failed, or does not answer",
     "dmesg of that host and the server of the file system; the host out of the job where a disk "
     "of "
     "its own fails",
     "host.kernel_log host.kernel"},
    {"log.permission", "F28", FAILS, 6, "a file or device may not be used by this user",
     "owner and mode of the path in the line; in a container --user, or a mount that can be "
     "written",
     "ib.devices host.container"},
    {"log.architecture", "F35", FAILS, 8, "a program is not made for this processor",
     "binaries and images of this architecture (x86_64, aarch64), and packages that were not built "
     "for a newer processor (-march=native)",
     ""},
    {"log.math_library", "F11,F35", DIES, 4, "cuBLAS or cuDNN failed",
     "mostly GPU memory that ran out, or an index out of range earlier (CUDA_LAUNCH_BLOCKING=1); "
     "else two versions of the library: none in LD_LIBRARY_PATH before the framework's own",
     "gpu.in_use gpu.shared version.cuda version.gpu_code version.compat gpu.mig"},
    {"log.peer_fault", "F43,F51", DIES, 6, "a GPU failed to use another one's memory over NVLink",
     "where no rank ended first: Xid 74 and 137 and later in dmesg, `nvidia-smi nvlink -e`; reset "
     "the "
     "GPUs, drain the host where it comes back",
     "host.kernel_log gpu.nvlink gpu.fabric"},
    {"log.lost_devices", "F49", FAILS, 8, "the container lost its access to the GPUs",
     "restart it: systemd rewrote its cgroup (daemon-reload). For good: docker's "
     "native.cgroupdriver=cgroupfs, or --device of each /dev/nvidia*",
     "gpu.driver version.driver"},
    {"log.build", "F35", FAILS, 8, "an extension for CUDA could not be built",
     "nvcc of the framework's CUDA (torch.version.cuda) as CUDA_HOME, a compiler that it accepts, "
     "ninja; remove ~/.cache/torch_extensions, which an earlier build left",
     ""},
    {"log.no_p2p_boards", "F46", FAILS, 9,
     "the program refuses these boards unless NCCL goes without P2P",
     "NCCL_P2P_DISABLE=1 and NCCL_IB_DISABLE=1, or start with accelerate launch, which sets them",
     ""},
    {"log.parallel_sizes", "F36", FAILS, 9,
     "numbers of ranks, GPUs, batches or parts of the model do not fit each other",
     "the line names both: ranks of the launcher (nodes times tasks or --nproc-per-node) against "
     "the "
     "program's own settings",
     "job.ranks"},
    {"log.serve_memory", "F11", FAILS, 8, "a server of models has too little GPU memory",
     "nvidia-smi shows who else has it; a smaller --max-model-len or more GPUs, "
     "--gpu-memory-utilization (SGLang: --mem-fraction-static) that fits what is free",
     "gpu.in_use gpu.shared gpu.mig"},
    {"log.host_ip", "F20,F36", FAILS, 9,
     "hosts of one job told the program the same address, or none",
     "VLLM_HOST_IP (HOST_IP) on each host, as its own address between the hosts",
     "net.names net.interface"},
    {"log.ray", "F36", FAILS, 6, "Ray's head was not reached, or is of another version",
     "ray start --head first, then --address of it on the others; port 6379 and Ray's others open; "
     "the same Ray and Python on all hosts; no http_proxy between them",
     "net.proxy net.firewall net.names net.mesh net.interface"},
    {"log.resources", "F17,F36", FAILS, 8, "Slurm cannot give the job or step what it asks for",
     "sinfo -o '%N %c %m %G %t' against --nodes, --ntasks, --gpus, --mem; a step has no more than "
     "its job; unset SLURM_ variables that a surrounding job left",
     "gpu.present limit.cpus"},
    {"log.slurm", "F36", FAILS, 6, "Slurm could not start the tasks on a node",
     "sinfo -R and slurmd's log of that node: down, its prolog or a plugin failed, clocks or munge "
     "keys that differ, port 6818 closed",
     "net.firewall net.names"},
    {"log.container_start", "F49", FAILS, 6, "a container did not start",
     "the line says which hook, mount, image or device; nvidia-smi on that host, then docker run "
     "--gpus all (or enroot start) by hand",
     "gpu.driver version.driver version.cuda host.container"},
    {"log.unscheduled", "F17,F36", ABSENT, 8, "Kubernetes has no node for a pod of the job",
     "kubectl describe node shows what is taken; GPUs and RDMA devices of the request as the nodes "
     "have them; pods of a job all at once (gang scheduling)",
     "gpu.present"},
    {"log.mpi", "F36", FAILS, 5, "MPI did not start",
     "mpirun and program of one MPI (LD_LIBRARY_PATH, --prefix); --mca pml ob1 --mca btl tcp,self "
     "shows whether it is the network's library; the lines before say what failed",
     "job.ranks net.interface ib.devices ib.libraries ib.ports host.container"},
    {"log.mpi_root", "F36", FAILS, 9, "mpirun does not start as root",
     "--allow-run-as-root, or OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", ""},
    {"log.mpi_binding", "F31,F36", FAILS, 9, "mpirun has fewer cores than ranks to bind to",
     "--bind-to none, or as many cores as ranks for the job (--cpus-per-task, the container's set)",
     "limit.cpus limit.binding"},
    {"log.hangup", "F10", DIES, 9, "somebody ended the launcher: its terminal closed, or Ctrl-C",
     "start it in tmux, by setsid or as a batch job, so that it outlives the terminal; nohup alone "
     "does not protect torchrun, which listens for that signal itself",
     ""},
    {"log.endpoint", "F36", FAILS, 9, "the rendezvous was given an address that is none",
     "--rdzv-endpoint=HOST:PORT, or MASTER_ADDR, --master_addr, accelerate's main_process_ip: a "
     "name "
     "or address of rank 0's host; what the line quotes is none",
     "net.master"},
    {"log.libuv", "F35", FAILS, 9, "this PyTorch was built without libuv, which its store asks for",
     "USE_LIBUV=0 on all ranks (of Windows, mostly)", ""},
    {"log.backlog", "F66", FAILS, 1,
     "more ranks connect to rank 0 at once than the kernel's queue takes",
     "sysctl net.core.somaxconn=65535 and net.ipv4.tcp_max_syn_backlog=65535 on the host of rank 0",
     "net.kernel"},
    {"log.cut", "F20,F58", DIES, 5, "a connection between hosts broke while the job ran",
     "whether the other host is up (a reboot, power, its kernel), its link, and firewalls that "
     "forget quiet connections",
     "net.firewall ib.flaps net.interface net.mtu host.oom"},
    {"log.nvshmem", "F61,F63", FAILS, 6, "NVSHMEM did not set itself up between GPUs or hosts",
     "NVSHMEM_HCA_LIST and NVSHMEM_IB_GID_INDEX of the ports between the hosts; for IBGDA the "
     "driver's NVreg_EnableStreamMemOPs=1 and PeerMappingOverride=1, else GDRCopy; /dev/infiniband "
     "in the container",
     "ib.devices ib.libraries ib.gid ib.gdr ib.ports host.container gpu.imex"},
    /* that the job failed, not why */
    {"log.peer_gone", "", DIES, 0, "another rank ended first", "", ""},
    {"log.rank_failed", "", DIES, 0, "a rank ended with an error", "", ""},
    {"log.time_out", "", HANGS, 0, "a collective did not end in time", "", ""},
    {"log.system_error", "", FAILS, 0, "a call of the system failed", "", ""},
    {"log.cuda_error", "", FAILS, 0, "a call of CUDA failed", "", ""},
    {"log.internal", "", FAILS, 0, "NCCL calls its error internal", "", ""},
    {"log.invalid", "", FAILS, 0, "NCCL calls an argument invalid", "", ""},
};
const struct muster_job_log_kinds muster_job_log_kinds_of_programs = {kinds,
                                                                      sizeof kinds / sizeof *kinds};
