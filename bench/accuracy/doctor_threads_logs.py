"""Threads whose cause, or the way to it, stands in a line that they quote: a host, and that line as its log.

usage: doctor_threads_logs.py MUSTER FOLDER:FOLDER

They were read while the table of lines was made: this says that they stay explained, no more. The answer is the
check, or the kind of line, that has to lead.
"""

from doctor_threads import evaluate, memlock, no_device_files, no_peermem
from doctor_threads_more import small_shm

WARN = "node1:71:90 [0] NCCL WARN "


def quoting(line, build=None):
    def host_with_log(host):
        if build:
            build(host)
        host.log = f"node1:71:71 [0] NCCL INFO Bootstrap : Using eth0:10.1.0.1<0>\n{line}\n" \
                   "node1:71:90 [0] NCCL INFO init.cc:1358 -> 2\n"
    return host_with_log


def shm(host):
    small_shm(host, 64)


ENDS = WARN + "Call to ibv_modify_qp failed with error Connection timed out"
GONE = WARN + "NET/IB : Got completion from peer 10.1.0.2<38560> with error 12, opcode 0, len 0, vendor err 129"
CONNECT = WARN + "socketStartConnect: Connect to {} failed : Software caused connection abort"

THREADS = (
    ("nccl#426", quoting(GONE), "", "log.rdma_timeout"),
    ("nccl#1664", quoting(WARN + "NET/IBP : Got completion from peer 7.6.13.83<36315> with status=12 opcode=32698"),
     "", "log.rdma_timeout"),
    ("nccl#769", quoting(ENDS), "", "log.rdma_unreachable"),
    ("nccl#2013", quoting(WARN + "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1"), "",
     "log.rdma_unreachable"),
    ("nccl#451", quoting(WARN + "Call to ibv_open_device failed\nNET/IB : Unable to open device mlx5_bond_0",
                         no_device_files), "init_error", "ib.devices"),
    ("nccl-tests#206", quoting(WARN + "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory", memlock),
     "", "limit.memlock"),
    ("nccl#1191", quoting(WARN + "Call to ibv_create_cq failed with error Cannot allocate memory"), "",
     "log.rdma_room"),
    ("nccl#562", quoting(WARN + "Call to ibv_create_qp failed"), "", "log.rdma_room"),
    ("nccl#1524", quoting("local access violation work queue error"), "", "log.rdma_access"),
    ("nccl#1343", quoting("NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", no_peermem),
     "slow_transfer", "ib.gdr"),
    ("vllm#42075", quoting("NCCL INFO NET/IB : No device found."), "slow_transfer", "log.no_rdma"),
    ("nccl#975", quoting(CONNECT.format("fe80::966d:ae03:a2:8cf0%ib1<17943>")), "", "log.link_local"),
    ("nccl#529", quoting(WARN + "Connect to fe80::745d:60ff%ip6tnl0<46681> failed : Connection timed out"), "",
     "log.link_local"),
    ("nccl-tests#162", quoting(CONNECT.format("10.1.0.2<40001>")), "", "log.unreachable"),
    ("sglang#3820", quoting(WARN + "socketPollConnect: Connect to 10.0.0.4<56849> returned 113(No route to host)"),
     "", "log.unreachable"),
    ("marin#6940", quoting(WARN + "Bootstrap : no socket interface found"), "", "log.no_interface"),
    ("nccl#210", quoting("WARN Socket creation failed : Address family not supported by protocol"), "",
     "log.address_family"),
    ("nnabla-ext-cuda#273", quoting(WARN + "Error while creating shared memory segment /dev/shm/nccl-g (size 963788)",
                                    shm), "", "limit.shm"),
    ("WSL#12467", quoting("Error while creating shared memory segment /dev/shm/nccl-g0wGsu (size 9637888)"), "",
     "log.shm_full"),
    ("nccl#2190", quoting(WARN + "Error while attaching to shared memory segment /dev/shm/nccl-x (size 0)"), "",
     "log.shm_files"),
    ("ray_lightning#24", quoting(WARN + "failed to open CUDA IPC handle : 217 peer access is not supported between "
                                 "these two devices"), "", "log.peer_access"),
    ("nccl#976", quoting("transport/nvls.cc:165 NCCL WARN Cuda failure 'invalid argument'"), "", "log.multicast"),
    ("nccl#1788", quoting("transport/nvls.cc:254 NCCL WARN Cuda failure 401 'the operation cannot be performed in the "
                          "present state'"), "", "log.multicast"),
    ("D-FINE#289", quoting("Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 2000"), "",
     "log.duplicate_gpu"),
    ("nccl-tests#165", quoting("Test CUDA failure common.cu:892 'invalid device ordinal'"), "", "log.no_such_gpu"),
    ("pytorch#186591", quoting("libtorch_cuda.so: undefined symbol: ncclCommResume"), "", "log.symbols"),
    ("CodeJudge#2", quoting("libtorch_cuda.so: undefined symbol: ncclCommRegister"), "", "log.symbols"),
    ("LlamaFactory#1169", quoting(WARN + "Failed to find CUDA library libcuda.so (NCCL_CUDA_PATH='') : libcuda.so: "
                                  "cannot open shared object file"), "", "log.cuda_library"),
    ("nccl#442", quoting(WARN + "Could not find real path of /sys/class/pci_bus/0000:21/../../0000:21:00.0"), "",
     "log.topology"),
    ("nccl#1485", quoting(WARN + "Failed to CUDA calloc 10485760 bytes"), "", "log.gpu_memory"),
    ("aws-ofi-nccl#24", quoting(WARN + "NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument"), "", "log.ofi"),
    ("aws-ofi-nccl#244", quoting("libcudart.so: cannot open shared object file: No such file or directory"), "",
     "log.plugin"),
    ("sriov-cni#348", quoting("libibverbs: Warning: couldn't load driver 'libmlx5-rdmav34.so'"), "slow_transfer",
     "log.rdma_driver"),
    ("pytorch#105782", quoting("[c10d] The client socket has timed out after 900s while trying to connect to "
                               "(33.145.124.128, 29500)"), "", "log.store"),
)

if __name__ == "__main__":
    evaluate(THREADS)
