"""Twenty-two further threads with a confirmed cause, drawn, rebuilt without reading doctor and frozen before doctor
learned of anything else or was run on any of them: fourteen by queries that name no cause, eight beside look-ups.

usage: doctor_threads_seventh.py [--dry | --report THREAD] [--without-log] MUSTER FOLDER:FOLDER

What a thread does not tell is sound, or, where a host needs a value, usual for its day. Error text and lines of
NCCL's log are given as host.log where the thread shows them; --without-log leaves them out. The words only
sort the answers; what counts is the sentence beside each, evaluated by reading (docs/accuracy.md).
"""

from doctor_threads_fifth import a100, interfaces, pod
from doctor_threads_fourth import main_said, nccl, p5
from doctor_threads_more import consumer, small_shm


def hopper(host, name):
    host.nvml.append(f"gpu * name {name}\ngpu * capability 9 0")


def v100(host, driver, cuda):
    host.nvml.append(f"gpu * name Tesla V100-SXM2-16GB\ngpu * links 6\ngpu * capability 7 0\ncuda {cuda}\n"
                     f"driver {driver}")


def reduce_scatter_of_2_18(host):  # NVIDIA/nccl#1050: 2.19.3 cured it
    host.several_hosts(nodes=32)
    p5(host)
    host.rdma([f"mlx5_{i}" for i in range(8)], rate="400 Gb/sec (4X NDR)")
    host.env.update(NCCL_IGNORE_CPU_AFFINITY="1")
    nccl(host, "2.18.3", "+cuda12.2")
    host.log = ("[ib-vm-61:343042:0:345015] Caught signal 11 (Segmentation fault: invalid permissions for mapped object at "
                "address 0x1454012e46c0)\n==== backtrace (tid: 345015) ====\n 0 0x0000000000042520 __sigaction()  ???:0\n"
                " 1 0x00000000000bde56 pncclReduceScatter()  ???:0\n 2 0x00000000000be816 pncclReduceScatter()  ???:0\n")


def peers_of_a6000s(host):  # huggingface/transformers#28280: NCCL_P2P_DISABLE=1 cured it
    consumer(host, 4, "NVIDIA RTX A6000", "8 6")
    host.put("proc/sys/kernel/osrelease", "4.15.0-156-generic\n")
    host.env.update(CUDA_VISIBLE_DEVICES="2,3", LOCAL_WORLD_SIZE="2", WORLD_SIZE="2")
    nccl(host, "2.14.3", "+cuda11.7")


def no_nccl_of_jax(host):  # jax-ml/jax#18391: nvidia-nccl-cu12 cured it
    consumer(host, 2, "NVIDIA RTX A6000", "8 6")
    host.nvml.append("cuda 12020\ndriver 535.104.05")
    nccl(host, "2.18.5", "+cuda12.2")
    host.remove("fakes/libnccl.so.2")
    del host.extra["args"]
    del host.env["FAKE_NCCL"]
    host.log = ("jaxlib.xla_extension.XlaRuntimeError: INTERNAL: Failed to execute XLA Runtime executable: run time error: "
                "custom call 'xla.gpu.all_reduce' failed: external/xla/xla/service/gpu/nccl_utils.cc:133: NCCL operation "
                "ncclGetUniqueId(&id) failed: Unable to load NCCL library. Multi-GPU collectives will not work.; current "
                "tracing scope: all-reduce-start\n")


def two_5090s(host):  # NVIDIA/nccl-tests#287: the NCCL of March 2025 cured it
    consumer(host, 2, "NVIDIA GeForce RTX 5090", "12 0")
    host.nvml.append("cuda 12080\ndriver 570.86.16")
    nccl(host, "2.25.1", "+cuda12.8")


def timeout_of_ib(host):  # horovod/horovod#147: without the driver of the InfiniBand devices it works
    host.several_hosts(local=4)
    consumer(host, 4, "Tesla P100-PCIE-16GB", "6 0")
    host.nvml.append("cuda 9000\ndriver 384.111")
    host.rdma(["mlx5_0", "mlx5_1"], rate="100 Gb/sec (4X EDR)")
    nccl(host, "2.1.2", "+cuda9.0")
    host.log = ("gpu-01:25431:25602 [1] transport/net_ib.cu:781 WARN NET/IB : Got completion with error 12, opcode 1, "
                "len 0, vendor err 129\ngpu-02:9912:10003 [0] include/socket.h:345 WARN Call to recv failed : Connection reset "
                "by peer\n")


def collnet_alone(host):  # NVIDIA/nccl#653
    host.several_hosts(nodes=32)
    a100(host)
    host.rdma([f"mlx5_{i}" for i in range(8)])
    host.env.update(NCCL_ALGO="CollNet")
    nccl(host, "2.11.4", "+cuda11.6")
    host.log = "201: :41367:41367 [1] enqueue.cc:422 NCCL WARN Error : no algorithm/protocol available\n"


def hang_of_2_4_2(host):  # horovod/horovod#1078: 2.4.7 cured it
    v100(host, "410.79", "10000")
    host.env.update(LOCAL_WORLD_SIZE="8", WORLD_SIZE="8", OMP_NUM_THREADS="4")
    nccl(host, "2.4.2", "+cuda10.0")


def gib_of_2_23(host):  # GoogleCloudPlatform/cluster-toolkit#4725: a newer NCCL beside gIB cured it
    host.several_hosts()
    hopper(host, "NVIDIA H200")
    host.put(".dockerenv")
    host.rdma([f"mlx5_{i}" for i in range(8)], "Ethernet", "400 Gb/sec (4X NDR)")
    host.libraries += ["libnccl-net.so"]
    nccl(host, "2.22.3", "+cuda12.6")
    host.put("usr/local/gib/lib64/libnccl-net.so")
    host.env.update(NCCL_VERSION="2.22.3",
                    LD_LIBRARY_PATH=f"{host.fakes}:{host.root}/lib:{host.root}/usr/local/gib/lib64")


def gb200_of_2_21(host):  # NVIDIA/nccl#1611: 2.25.1 cured it
    host.several_hosts(nodes=10, local=4)
    host.gpus = 4
    host.nvml.append("gpu * name NVIDIA GB200\ngpu * links 18\ngpu * capability 10 0\ncuda 12080\ndriver 570.86.15")
    host.put("proc/version", "Linux version 6.8.0-1021-nvidia-64k (aarch64)\n")
    host.rdma([f"mlx5_{i}" for i in range(4)], rate="400 Gb/sec (4X NDR)")
    nccl(host, "2.21.5", "+cuda12.8")
    host.log = ("free(): corrupted unsorted chunks\n[rack1-93-slot7:186363] *** Process received signal ***\n"
                "free(): corrupted unsorted chunks\n[rack1-93-slot7:186363] Signal: Aborted (6)\n"
                "[rack1-93-slot7:186363] Signal code:  (-6)\n")


def bridge_of_emr(host):  # dmlc/xgboost#7982: NCCL_SOCKET_IFNAME=eth cured it
    host.several_hosts(local=1)
    consumer(host, 1, "Tesla T4", "7 5")
    host.nvml.append("cuda 11040\ndriver 470.57.02")
    interfaces(host, ("br-4f1c1e2b7a9d", "172.18.0.1", "12AC"), ("docker0", "172.17.0.1", "11AC"),
               ("eth0", "10.1.0.1", "010A"))
    nccl(host, "2.11.4", "+cuda11.4")


def ece(host):  # NVIDIA/nccl#1403: slow only while ECE is on
    host.several_hosts()
    p5(host)
    host.rdma([f"mlx5_{i}" for i in range(4)], "Ethernet", "400 Gb/sec (4X NDR)")
    host.env.update(NCCL_IB_GID_INDEX="3")
    nccl(host, "2.22.3", "+cuda12.5")


def without_shm(host):  # NVIDIA/nccl#291: a crash only with NCCL_SHM_DISABLE=1
    consumer(host, 4, "Tesla V100-PCIE-16GB", "7 0")
    host.nvml.append("cuda 10000\ndriver 410.79")
    host.env.update(NCCL_SHM_DISABLE="1")
    nccl(host, "2.5.6", "+cuda10.0")
    host.log = ("[tb2b03210:78142] *** Process received signal ***\n[tb2b03210:78142] Signal: Segmentation fault (11)\n"
                "[tb2b03210:78142] Signal code: Address not mapped (1)\n[tb2b03210:78142] Failing at address: 0x8\n"
                "[tb2b03210:78142] [ 1] /usr/local/cuda-10.0/targets/x86_64-linux/lib/libnccl.so.2(+0x3533c)[0x7f8eab35933c]\n"
                "#0  0x00007f1f0ba9b33c in pathDistance (links=<optimized out>) at graph/topo.cc:618\n")


def bootstrap_of_2_3_5(host):  # tensorflow/tensorflow#27207: 2.3.7 cured it
    host.several_hosts(local=4)
    consumer(host, 4, "Tesla V100-PCIE-16GB", "7 0")
    host.nvml.append("cuda 10000\ndriver 410.79")
    nccl(host, "2.3.5", "+cuda10.0")


def iommu_of_a_desktop(host):  # tensorflow/tensorflow#44976: no IOMMU cured it
    consumer(host, 2, "GeForce RTX 2080 Ti", "7 5")
    host.nvml.append("cuda 11010\ndriver 455.32.00")
    for i, bus in enumerate(("17", "65")):
        port = f"pci0000:{bus}/0000:{bus}:00.0".replace(bus, ("16", "64")[i])
        host.pci(port, "0x060400", "0x8086")
        host.pci(f"{port}/0000:{bus}:00.0", "0x030000")
        host.nvml.append(f"gpu {i} pci 00000000:{bus}:00.0")
    for group in range(60):
        host.put(f"sys/kernel/iommu_groups/{group}/type", "DMA\n")
    host.put("proc/cmdline", "BOOT_IMAGE=/vmlinuz-5.4.0-54-generic ro intel_iommu=on quiet splash\n")
    nccl(host, "2.7.3", "+cuda11.0")


def four_nics_of_h800(host):  # NVIDIA/nccl#974: 2.19 bettered it
    host.several_hosts()
    hopper(host, "NVIDIA H800")
    host.nvml.append("cuda 12020\ndriver 535.104.05")
    host.rdma([f"mlx5_{i}" for i in range(4)], rate="200 Gb/sec (4X HDR)")
    nccl(host, "2.18.3", "+cuda12.2")


def loopback_of_p5(host):  # awslabs/awsome-distributed-ai#192: NCCL_SOCKET_IFNAME=enp cured it
    host.several_hosts()
    p5(host)
    host.put(".dockerenv")
    interfaces(host, ("enp71s0", "10.1.0.1", "010A"))
    nccl(host, "2.18.5", "+cuda12.2")
    host.log = ("torch.distributed.DistBackendError: NCCL error in: "
                "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1331, unhandled "
                "system error, NCCL version 2.18.5\nncclSystemError: System call (e.g. socket, malloc) or external library call "
                "failed or device error.\nLast error:\nsocketStartConnect: Connect to 127.0.0.1<45069> failed : Software caused "
                "connection abort\n")


def pod_identity(host):  # aws-samples/aws-do-eks#54: leaving the interface out cured it
    host.several_hosts()
    p5(host)
    pod(host)
    interfaces(host, ("pod-id-link0", "169.254.170.23", "FEA9"), ("enp73s0", "10.1.216.156", "010A"))
    host.env.update(NCCL_SOCKET_IFNAME="^lo,docker,veth,eni", NCCL_DEBUG="INFO")
    nccl(host, "2.27.5", "+cuda12.9")
    host.log = ("NCCL INFO NET/OFI Using transport protocol RDMA (platform set)\n"
                "NCCL WARN NET/OFI No eligible providers were found\nNCCL WARN NET/OFI aws-ofi-nccl initialization failed\n"
                "NCCL INFO NET/IB : No device found.\nNCCL INFO Initialized NET plugin Socket\n"
                "NCCL INFO NET/Socket : Using [0]enp73s0:10.1.216.156<0> [1]pod-id-link0:169.254.170.23<0>\n"
                "NCCL INFO socketPollConnect: connect to 169.254.170.23<41235> returned Connection refused, retrying (13/34)\n"
                "RuntimeError: NCCL error: remote process exited or there was a network error\n")


def no_eth0(host):  # aws/deep-learning-containers#6469: the variable unset cured it
    host.several_hosts()
    p5(host)
    host.put(".dockerenv")
    interfaces(host, ("ens6", "10.1.0.1", "010A"))
    host.env.update(NCCL_SOCKET_IFNAME="eth0")
    nccl(host, "2.27.5", "+cuda12.9")
    host.log = "node1:71:90 [0] NCCL WARN Bootstrap : no socket interface found\n"


def plugin_of_another_folder(host):  # NVIDIA/nccl#513: the plugin of HPC-X cured it
    host.several_hosts(local=8)
    a100(host, "40GB")
    host.put(".dockerenv")
    host.rdma([f"mlx5_{i}" for i in range(8)])
    host.libraries += ["libnccl-net.so"]
    host.put("opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so")
    host.put("opt/nccl-rdma-sharp-plugins.install/lib/libnccl-net.so")
    nccl(host, "2.9.9", "+cuda11.3")
    host.env.update(LD_LIBRARY_PATH=f"{host.fakes}:{host.root}/lib:{host.root}/opt/nccl-rdma-sharp-plugins.install/lib")


def sockets_of_2_4_2(host):  # pytorch/pytorch#23016: 2.4.8 cured it
    host.several_hosts(nodes=4)
    v100(host, "410.79", "10000")
    nccl(host, "2.4.2", "+cuda10.0")


def graph_of_four(host):  # Azure/azhpc-images#327: without the files it works
    host.gpus = 1
    host.nvml.append("gpu * name NVIDIA A100 80GB PCIe\ngpu * links 0\ngpu * capability 8 0\ncuda 12020\ndriver 535.154.05")
    host.put("etc/nccl.conf", "NCCL_IB_PCI_RELAXED_ORDERING=1\nNCCL_TOPO_FILE=/opt/microsoft/ncv4/topo.xml\n"
             "NCCL_GRAPH_FILE=/opt/microsoft/ncv4/graph.xml\n")
    host.put("opt/microsoft/ncv4/topo.xml", '<system version="1">\n  <cpu numaid="0" affinity="0000ffff" arch="x86_64" '
             'vendor="AuthenticAMD" familyid="175" modelid="1">\n    <pci busid="0001:00:00.0" class="0x030200" '
             'link_speed="16 GT/s" link_width="16"/>\n  </cpu>\n</system>\n')
    host.put("opt/microsoft/ncv4/graph.xml", '<graphs version="1">\n  <graph id="0" pattern="4" crossnic="0" nchannels="1" '
             'speedintra="12" speedinter="12" latencyinter="0" typeintra="SYS" typeinter="PIX" samechannels="0">\n    <channel>\n'
             '      <gpu dev="0"/>\n      <gpu dev="1"/>\n      <gpu dev="2"/>\n      <gpu dev="3"/>\n    </channel>\n  </graph>\n'
             "</graphs>\n")
    nccl(host, "2.18.6", "+cuda11.8")
    host.log = ("::16674:17023 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /opt/microsoft/ncv4/topo.xml\n"
                "::16674:17023 [0] NCCL INFO Setting affinity for GPU 0 to ffffff\n"
                "::16674:17023 [0] NCCL INFO NCCL_GRAPH_FILE set by environment to /opt/microsoft/ncv4/graph.xml\n\n"
                "::16674:17023 [0] graph/search.cc:703 NCCL WARN XML Import Channel : dev 1 not found.\n"
                "::16674:17023 [0] NCCL INFO graph/search.cc:733 -> 2\n")


def shm_of_a_chart(host):  # vllm-project/production-stack#276
    consumer(host, 2, "NVIDIA L40S", "8 9")
    pod(host)
    small_shm(host, 64)
    nccl(host, "2.21.5", "+cuda12.4")
    host.log = ("torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, unhandled "
                "system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\nLast error:\nError while creating "
                "shared memory segment /dev/shm/nccl-F9ffgB (size 9637888)\n")


# thread, host, symptom, ids of which one is the answer (none: any), words that the answer must have, what it must say
SAID = (
    ("nccl#1050", reduce_scatter_of_2_18, "init_error", (), r"2\.18\.3",
     "NCCL 2.18.3 crashes at random; 2.19.3 (or 2.18.5) cures it"),
    ("transformers#28280", peers_of_a6000s, "hang_stuck", (), r"P2P|peer",
     "P2P between these GPUs does not work though it is claimed; NCCL_P2P_DISABLE=1"),
    ("jax#18391", no_nccl_of_jax, "init_error", (), r"no NCCL|libnccl|Unable to load|cannot be loaded",
     "no NCCL can be loaded: the framework's install brings none; install one"),
    ("nccl-tests#287", two_5090s, "init_error", (), r"2\.25\.1|2\.26|RTX 50",
     "NCCL before 2.26 does not run on RTX 50"),
    ("horovod#147", timeout_of_ib, "init_error", (), r"RDMA|NCCL_IB_DISABLE|InfiniBand|error 12",
     "RDMA devices of two hosts do not reach each other (error 12 is a timeout); mend that, or NCCL_IB_DISABLE=1"),
    ("nccl#653", collnet_alone, "init_error", (), r"NCCL_ALGO|CollNet",
     "NCCL_ALGO=CollNet leaves collectives without an algorithm; unset it or name others too"),
    ("horovod#1078", hang_of_2_4_2, "hang_stuck", (), r"2\.4\.2",
     "NCCL 2.4.2 hangs after a long time; 2.4.7 cures it"),
    ("cluster-toolkit#4725", gib_of_2_23, "init_error", (), r"2\.22\.3|2\.23|gib",
     "the gIB plugin needs NCCL 2.23 or newer and this is 2.22.3"),
    ("nccl#1611", gb200_of_2_21, "init_error", (), r"2\.21\.5|2\.25",
     "NCCL 2.21.5 does not know GB200 (Blackwell needs 2.25.1)"),
    ("xgboost#7982", bridge_of_emr, "init_error", (), r"br-|NCCL_SOCKET_IFNAME",
     "NCCL takes a bridge (br-*) for its sockets; NCCL_SOCKET_IFNAME=eth"),
    ("nccl#1403", ece, "slow_transfer", (), r"ECE",
     "ECE (enhanced connection establishment) slows this RoCE; NCCL_IB_ECE_ENABLE=0"),
    ("nccl#291", without_shm, "init_error", (), r"SHM_DISABLE|2\.5\.6",
     "NCCL 2.5.6 crashes with NCCL_SHM_DISABLE=1; unset it or a newer NCCL"),
    ("tensorflow#27207", bootstrap_of_2_3_5, "hang_stuck", (), r"2\.3\.5",
     "NCCL 2.3.5 hangs at bootstrap (sockets used again); 2.3.7 cures it"),
    ("tensorflow#44976", iommu_of_a_desktop, "hang_stuck", ("gpu.iommu",), "",
     "the IOMMU translates what GPUs send each other"),
    ("nccl#974", four_nics_of_h800, "slow_transfer", (), r"2\.18\.3",
     "NCCL 2.18.3 does badly on H800 with few NICs; 2.19 is better"),
    ("awsome-distributed-ai#192", loopback_of_p5, "init_error", (), r"127\.0\.0\.1|loopback|NCCL_SOCKET_IFNAME",
     "NCCL's sockets use the loopback interface; NCCL_SOCKET_IFNAME must name the host's network"),
    ("aws-do-eks#54", pod_identity, "init_error", (), r"pod-id-link0|169\.254",
     "NCCL's sockets use pod-id-link0 (169.254), which no other host reaches; leave it out by NCCL_SOCKET_IFNAME"),
    ("deep-learning-containers#6469", no_eth0, "init_error", (), r"NCCL_SOCKET_IFNAME|eth0",
     "NCCL_SOCKET_IFNAME names eth0, which this host does not have"),
    ("nccl#513", plugin_of_another_folder, "init_error", (), r"plugin|libnccl-net|sharp",
     "the network plugin of /opt/nccl-rdma-sharp-plugins.install does not fit this NCCL; HPC-X's does"),
    ("pytorch#23016", sockets_of_2_4_2, "slow_transfer", (), r"2\.4\.2|2\.4\.8",
     "NCCL 2.4.2 is slow over sockets; 2.4.8 cures it"),
    ("azhpc-images#327", graph_of_four, "init_error", (), r"NCCL_GRAPH_FILE|graph",
     "NCCL_GRAPH_FILE (in /etc/nccl.conf) is for more GPUs than this host has"),
    ("production-stack#276", shm_of_a_chart, "init_error", ("limit.shm",), "",
     "the container's /dev/shm is too small"),
)


if __name__ == "__main__":
    main_said(SAID)
