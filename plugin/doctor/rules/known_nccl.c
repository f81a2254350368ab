#include "doctor/rules/known_nccl.h"

#include <string.h>

#include "base/text.h"

#define SOMETIMES MUSTER_KNOWN_SOMETIMES
#define LIKELY    MUSTER_KNOWN_LIKELY
#define SURE      MUSTER_KNOWN_SURE

#define ARM        MUSTER_NCCL_ON_ARM
#define HOPPER     MUSTER_NCCL_ON_HOPPER
#define RTX50      MUSTER_NCCL_ON_RTX50
#define OLDER      MUSTER_NCCL_BEFORE_BLACKWELL
#define VOLTA      MUSTER_NCCL_ON_VOLTA
#define TWO        MUSTER_NCCL_TWO_GPUS
#define NVSWITCH   MUSTER_NCCL_NVSWITCH
#define MESH       MUSTER_NCCL_NO_NVSWITCH
#define DOWN       MUSTER_NCCL_LINKS_DOWN
#define RDMA       MUSTER_NCCL_RDMA
#define ROCE       MUSTER_NCCL_ROCE
#define NO_GID     MUSTER_NCCL_NO_GID_INDEX
#define PEERMEM    MUSTER_NCCL_PEERMEM
#define HOSTS      MUSTER_NCCL_HOSTS
#define ONE_GPU    MUSTER_NCCL_ONE_GPU_A_HOST
#define VM         MUSTER_NCCL_VIRTUAL
#define WSL        MUSTER_NCCL_WSL
#define NO_CUMEM   MUSTER_NCCL_NO_CUMEM
#define NO_NUMA    MUSTER_NCCL_NO_NUMA
#define CONTAINER  MUSTER_NCCL_CONTAINER
#define BOX        MUSTER_NCCL_ANY_CONTAINER
#define OVER_80    MUSTER_NCCL_OVER_80_RANKS
#define OVER_1000  MUSTER_NCCL_OVER_1000_RANKS
#define USB        MUSTER_NCCL_USB_NETWORK
#define NO_P2P     MUSTER_NCCL_NO_P2P
#define ODD_NUMA   MUSTER_NCCL_ODD_NUMA
#define PORTS      MUSTER_NCCL_MANY_PORTS
#define OLD_CUDA   MUSTER_NCCL_OLD_CUDA
#define OLD_DRIVER MUSTER_NCCL_OLD_DRIVER
#define CUMEM      MUSTER_NCCL_CUMEM
#define AMPERE     MUSTER_NCCL_AMPERE

enum {
    HANGS = MUSTER_SHOWS_HANG,
    FAILS = MUSTER_SHOWS_FAILURE,
    WRONG = MUSTER_SHOWS_WRONG_DATA,
    SLOW = MUSTER_SHOWS_SLOWNESS,
    CRASHES = MUSTER_SHOWS_CRASH,
};

/* Ranges end with the release before the one whose notes have the fix; where the first version is
 * not known, they begin with the one that brought what is broken, or with 2.3. */
const struct muster_known_nccl muster_known_nccl[] = {
    {20402, 20402, 0, LIKELY, HANGS, "F68", "hangs at random with the LL protocol", "upgrade",
     "nccl#238"},
    {20300, 20505, 0, SOMETIMES, HANGS, "F17", "two ranks on one GPU are not refused: they hang",
     "upgrade to 2.5.6", "notes of 2.5.6 (nccl#231)"},
    {20300, 20505, BOX, SOMETIMES, FAILS | SLOW, "F46",
     "P2P and shared memory between containers are guessed wrong", "upgrade to 2.5.6",
     "notes of 2.5.6 (nccl#155, nccl#248)"},
    {20500, 20802, 0, SOMETIMES, HANGS, "F41", "hangs after 2^31 steps of the LL128 protocol",
     "upgrade to 2.8.3, or NCCL_PROTO=^LL128", "notes of 2.8.3"},
    {20500, 20802, HOSTS | ONE_GPU, LIKELY, HANGS | FAILS, "F34",
     "ranks choose different protocols with one GPU a host, and hang or crash", "upgrade to 2.8.3",
     "notes of 2.8.3 (nccl#394)"},
    {20604, 20604, HOSTS | ONE_GPU | BOX, SURE, FAILS, "F69",
     "crashes while looking at the topology where ranks of one host are in several containers",
     "upgrade", "nccl#326"},
    {20700, 20705, VM | NVSWITCH, SURE, FAILS, "F47",
     "crashes where NVSwitch is not visible in a virtual "
     "machine",
     "upgrade to 2.7.6", "notes of 2.7.6"},
    {20700, 20803, 0, SOMETIMES, HANGS, "F15", "uneven send and receive (alltoallv) can hang",
     "upgrade to 2.8.4", "notes of 2.8.4 (horovod#2601)"},
    {20300, 20905, HOSTS, SOMETIMES, FAILS, "F66",
     "bootstrap fails when connections arrive in another order", "upgrade to 2.9.6",
     "notes of 2.9.6"},
    {20300, 22203, RDMA | PEERMEM, SURE, SLOW, "F61",
     "looks for nv_peer_mem's files and does not see nvidia-peermem: no GPUDirect RDMA",
     "upgrade to 2.23.4", "nccl#1676"},
    {20700, 20908, VOLTA | MESH, LIKELY, HANGS, "F15",
     "send and receive hang while connecting on cube-mesh machines", "upgrade to 2.9.9",
     "notes of 2.9.9"},
    {20300, 21002, WSL, LIKELY, FAILS | SLOW, "F47", "sees a wrong topology under WSL2",
     "upgrade to 2.10.3", "notes of 2.10.3"},
    {20300, 21103, VM | RDMA, LIKELY, FAILS | SLOW, "F47",
     "places virtual functions of RDMA NICs wrongly", "upgrade to 2.11.4", "notes of 2.11.4"},
    {20300, 21206, DOWN, SURE, WRONG, "F55", "wrong data where some NVLinks are down",
     "upgrade to 2.12.7, and see gpu.nvlink", "notes of 2.12.7"},
    {21207, 21211, 0, LIKELY, FAILS, "F69", "crashes at random in init", "upgrade to 2.12.12",
     "notes of 2.12.12"},
    {21207, 21211, VOLTA | MESH, LIKELY, HANGS, "F69", "hangs on cube-mesh machines",
     "upgrade to 2.12.12", "notes of 2.12.12"},
    {21304, 21402, RDMA, SOMETIMES, FAILS, "F61",
     "DMA-BUF does not fall back with MOFED 5.4 and earlier",
     "upgrade to 2.14.3, or load nvidia-peermem", "notes of 2.14.3"},
    {21501, 21504, HOPPER | TWO, LIKELY, HANGS, "F41", "ring with LL128 hangs on two H100",
     "upgrade to 2.15.5", "notes of 2.15.5"},
    {20500, 21504, 0, SOMETIMES, WRONG, "F41",
     "LL128 can give wrong data on buffers that are not aligned", "upgrade to 2.15.5",
     "notes of 2.15.5"},
    {21502, 21504, 0, SOMETIMES, HANGS | FAILS, "F14",
     "init of several threads can hang, so can captures of several "
     "graphs",
     "upgrade to 2.15.5", "notes of 2.15.5"},
    {20700, 21104, 0, SOMETIMES, FAILS, "F66",
     "its helper for memory of other ranks takes what was meant for another connection, and fails",
     "upgrade to 2.12.7 or later", "nccl#555, nccl#844"},
    {21801, 21902, HOPPER | NVSWITCH | HOSTS, SOMETIMES, WRONG, "F41",
     "NVLink SHARP over several hosts (NVLSTree) sums wrongly",
     "upgrade to 2.19.3, or NCCL_NVLS_ENABLE=0", "nccl-tests#167"},
    {20300, 21799, 0, SOMETIMES, HANGS, "F15", "uneven send and receive (alltoallv) can hang",
     "upgrade to 2.18.1", "notes of 2.18.1 (nccl#788)"},
    {20300, 21802, 0, SOMETIMES, FAILS, "F69",
     "crashes when a connection is set up at the wrong moment", "upgrade to 2.18.3",
     "notes of 2.18.3"},
    {20300, 21802, 0, SOMETIMES, FAILS, "F27", "crashes where shared memory cannot be had",
     "upgrade to 2.18.3, and see limit.shm", "notes of 2.18.3"},
    {21207, 21802, HOSTS, SOMETIMES, FAILS, "F46",
     "ways to the network by another GPU (PXN) fail where CUDA_VISIBLE_DEVICES is set",
     "upgrade to 2.18.3, or NCCL_PXN_DISABLE=1", "notes of 2.18.3"},
    {20300, 21899, 0, SOMETIMES, FAILS, "F27", "ends with a bus error where /dev/shm is too small",
     "upgrade to 2.19.1, and see limit.shm", "notes of 2.19.1"},
    {21901, 21903, 0, SOMETIMES, FAILS, "F15", "alltoallv crashes where a rank sends to itself",
     "upgrade to 2.19.4", "notes of 2.19.4"},
    {20300, 21999, 0, SOMETIMES, HANGS, "F15", "all-to-all can hang while connecting",
     "upgrade to 2.20.3", "notes of 2.20.3"},
    {20300, 22104, HOSTS, SOMETIMES, FAILS, "F66", "packets in another order confuse the bootstrap",
     "upgrade to 2.21.5", "notes of 2.21.5"},
    {20300, 22304, RDMA | HOSTS, SOMETIMES, FAILS, "F69", "crashes in its InfiniBand code",
     "upgrade to 2.24", "notes of 2.24.3"},
    {21801, 22501, 0, SOMETIMES, HANGS, "F69",
     "connecting hangs where communicators that share resources are set up in a group",
     "upgrade to 2.26.2", "notes of 2.26.2"},
    {20300, 22501, HOSTS, SOMETIMES, HANGS | FAILS, "F64",
     "hangs after an error of the network plugin", "upgrade to 2.26.2", "notes of 2.26.2"},
    {21801, 22604, 0, SOMETIMES, FAILS | WRONG, "F69",
     "ncclCommSplit can spoil memory on NVLink over hosts", "upgrade to 2.27.3", "notes of 2.27.3"},
    {20300, 22604, 0, SOMETIMES, FAILS | WRONG, "F14",
     "operations in and outside of graphs can collide", "upgrade to 2.27.3", "notes of 2.27.3"},
    {22803, 22806, NVSWITCH, SOMETIMES, FAILS, "F69",
     "crashes after a buffer could not be registered for NVLink SHARP", "upgrade to 2.28.7",
     "notes of 2.28.7"},
    {20300, 22806, HOSTS, SOMETIMES, SLOW, "F65", "is slow with NCCL_CROSS_NIC=0 on some networks",
     "upgrade to 2.28.7", "notes of 2.28.7"},
    {22003, 22899, 0, SOMETIMES, FAILS, "F69",
     "crashes where send or receive and a collective use one registered buffer",
     "upgrade to 2.29.2", "notes of 2.29.2 (nccl#1859)"},
    {22501, 22899, HOSTS | AMPERE | RDMA, SOMETIMES, SLOW, "F65",
     "finds no tree on some A100 with a NIC for each GPU, and takes one channel",
     "upgrade to 2.29.2, or NCCL_IB_HCA unset", "notes of 2.29.2 (nccl#1876, nccl#1946)"},
    {22403, 22899, 0, SOMETIMES, FAILS, "F41", "all-reduce of float8e4m3 finds no algorithm",
     "upgrade to 2.29.2", "notes of 2.29.2"},
    {22902, 22999, 0, SOMETIMES, 0, "KernelCh", "a profiler sees no kernels of ncclBroadcast",
     "NCCL_ALLGATHERV_ENABLE=0", "notes of 2.29.2"},
    {21801, 21802, HOPPER | RDMA | HOSTS, LIKELY, WRONG, "F41",
     "tree with LL128 can give wrong data where a NIC shares its switch with one GPU",
     "upgrade to 2.18.3, or NCCL_PROTO=^LL128", "notes of 2.18.1 and 2.18.3"},
    {21803, 21803, HOPPER | NVSWITCH | RDMA | HOSTS, SOMETIMES, FAILS, "F47",
     "crashes in init where NVLink SHARP looks for more channels than there are NICs (EFA)",
     "upgrade, or NCCL_NVLS_ENABLE=0", "nccl#931"},
    {21903, 21903, HOPPER | NVSWITCH | HOSTS, SOMETIMES, SLOW, "F65",
     "is slow with NVLSTree on 8 hosts and more", "upgrade, or NCCL_ALGO=^NVLSTree",
     "nccl#1112, pytorch#117748"},
    {21900, 21999, HOPPER | NVSWITCH, LIKELY, HANGS | FAILS, "F69",
     "can hang at init with cuMem or NVLS",
     "upgrade, or NCCL_CUMEM_ENABLE=0 and NCCL_NVLS_ENABLE=0", "nccl#1134, nccl#1197"},
    {21901, 21903, HOSTS | OVER_1000, LIKELY, FAILS, "F25",
     "all-to-all runs out of ports while connecting", "upgrade to 2.19.4", "notes of 2.19.4"},
    {22000, 22099, RDMA | HOSTS, SOMETIMES, HANGS | FAILS, "F70",
     "does not take the smaller MTU of both ends", "the same MTU on all ports, or a newer NCCL",
     "nccl#1524"},
    {22003, 22202, 0, SOMETIMES, HANGS, "F14", "deadlocks where operations are in CUDA graphs",
     "upgrade to 2.22.3", "nccl#1251, text-generation-inference#2099, sglang#7602"},
    {22003, 22004, 0, LIKELY, FAILS, "F69", "ncclCommSplit fails to connect inside a host",
     "upgrade to 2.20.5", "notes of 2.20.5 (nccl#1185)"},
    {20300, 22099, ROCE | NO_GID | HOSTS, LIKELY, HANGS | FAILS | SLOW, "F59",
     "takes GID 0 on RoCE, which is rarely the right one",
     "upgrade to 2.21, or NCCL_IB_GID_INDEX of a routable RoCE v2 GID", "notes of 2.21.5"},
    {20300, 22104, HOSTS, SOMETIMES, HANGS, "F37",
     "hangs where NCCL_CROSS_NIC differs between ranks", "the same on all ranks, or 2.21.5",
     "notes of 2.21.5"},
    {20300, 22202, HOSTS, SOMETIMES, HANGS, "F37", "hangs where hosts have different kinds of CPUs",
     "upgrade to 2.24, which ends the last of these", "notes of 2.22.3, 2.24.3 and 2.26.2"},
    {22105, 22105, HOPPER | NVSWITCH | VM, SOMETIMES, FAILS, "F47",
     "crashes with eight H100 of some clouds, and not with four", "upgrade to 2.23.4",
     "modded-nanogpt#15, pytorch#146118"},
    {22203, 22303, NO_NUMA, LIKELY, FAILS, "F47", "crashes where a GPU or NIC has no NUMA node",
     "upgrade to 2.23.4", "notes of 2.23.4 (nccl-tests#233)"},
    {22203, 22303, 0, SOMETIMES, FAILS, "F32",
     "loses a file descriptor for each buffer shared by cuMem", "upgrade to 2.24",
     "notes of 2.24.3"},
    {22400, 22604, CONTAINER, LIKELY, FAILS, "F29",
     "cuMem host memory needs CAP_SYS_NICE in a container",
     "docker: --cap-add SYS_NICE; 2.26.5; NCCL_CUMEM_HOST_ENABLE=0", "notes of 2.26.3"},
    {22500, 22702, HOSTS, SOMETIMES, FAILS, "F25",
     "gives up at its start where something that is no rank connects to its port",
     "upgrade to 2.27.3", "nccl#1612"},
    {22403, 22501, 0, SOMETIMES, CRASHES, "F69", "crashes when the library is unloaded (RAS)",
     "upgrade to 2.26.2, or NCCL_RAS_ENABLE=0", "xgboost#11154, notes of 2.26.2"},
    {20300, 22601, 0, SOMETIMES, HANGS, "F64",
     "ncclCommAbort can hang while the network does not move", "upgrade to 2.26.2",
     "pytorch#149351, notes of 2.26.2"},
    {22400, 22501, RTX50, SURE, FAILS, "F72", "asks for more shared memory than RTX 50 has",
     "upgrade to 2.26", "nccl#1637"},
    {22602, 22602, RTX50, SOMETIMES, FAILS, "F72",
     "uses memory that is not its own from 512 KiB on (\"illegal memory access\") on RTX 50 and "
     "RTX PRO",
     "upgrade to 2.27.3", "nccl#2418, vllm#19890"},
    {22602, 22602, NO_CUMEM, SURE, HANGS, "F71", "send and receive hang with NCCL_CUMEM_ENABLE=0",
     "unset it, or upgrade", "nccl#1721"},
    {22602, 22602, 0, SOMETIMES, HANGS | FAILS, "F71", "init hangs in PyTorch's non-blocking mode",
     "PyTorch 2.7.1, or another NCCL", "pytorch#153960"},
    {21901, 22602, ROCE, SOMETIMES, SLOW, "F65",
     "options of connections on RoCE are exchanged wrongly: slow", "upgrade to 2.26.3",
     "notes of 2.26.3 (nccl#1403)"},
    {22602, 22604, HOSTS | OVER_80, SOMETIMES, HANGS, "F15",
     "all-to-all over more than 80 ranks can hang on multi-node NVLink", "upgrade to 2.26.5",
     "notes of 2.26.5"},
    {22602, 22602, 0, SOMETIMES, CRASHES, "F69", "crashes when RAS is asked during init",
     "upgrade to 2.27.3", "nccl#1669"},
    {22703, 22706, OLDER, SOMETIMES, FAILS, "F69",
     "init can fail on GPUs before Blackwell (fp8 multicast kernels)", "upgrade to 2.27.7",
     "notes of 2.27.7"},
    {22700, 22707, 0, SOMETIMES, FAILS, "F73",
     "an interface that is missing gives an error nobody can read", "see net.interface",
     "nccl#1837"},
    {22800, 22802, 0, LIKELY, 0, "KernelCh",
     "kernel events are unsafe: muster records without GPU times", "upgrade to 2.28.3",
     "docs/versions.md"},
    {22803, 22806, 0, SOMETIMES, WRONG, "F41",
     "symmetric kernels can give wrong data below 8 bytes", "upgrade to 2.28.7", "notes of 2.28.7"},
    {22803, 22806, 0, SOMETIMES, FAILS, "F69",
     "errors of NCCL surface in the program's next kernel", "upgrade to 2.28.7",
     "notes of 2.28.7 (nccl#1864)"},
    {22803, 22808, HOSTS | OVER_1000, LIKELY, HANGS, "F66",
     "proxy and main thread order their work wrongly: hangs at large scale", "upgrade to 2.28.9",
     "notes of 2.28.9"},
    {20300, 22902, ARM | HOSTS, LIKELY, HANGS | FAILS, "F52",
     "loses proxy slots on ARM until all ranks wait, without an error", "upgrade to 2.29.3",
     "marin#8038, notes of 2.29.3"},
    {22902, 22902, 0, LIKELY, HANGS, "F52", "a regression that hangs", "upgrade to 2.29.3",
     "pytorch#174338"},
    {23000, 23007, RDMA | HOSTS, SOMETIMES, HANGS | FAILS, "F74",
     "GIN kernels wait for ever after an error of the NIC", "no GDAKI on lossy RoCE", "nccl#2383"},
    {21801, 21805, 0, SOMETIMES, FAILS, "F69",
     "uses an address before it was copied (\"invalid argument\" while connecting)",
     "upgrade to 2.18.6", "nccl#957, pytorch#111187"},
    {21801, 21899, HOSTS, SOMETIMES, HANGS, "F64",
     "does not pass on errors of the network: ranks wait for one that is gone", "upgrade to 2.19.3",
     "facebookresearch/nccl#53"},
    {21805, 21999, USB, LIKELY, FAILS, "F47",
     "fails at init where a network interface is on USB (a board's management controller)",
     "upgrade to 2.20, or take that interface away", "nccl#1125, nccl#1051"},
    {21805, 21903, HOPPER | NVSWITCH | RDMA | HOSTS, SOMETIMES, HANGS | FAILS, "F47",
     "hangs or crashes with NVLink SHARP (NVLS) and network cards of two ports",
     "upgrade to 2.20, or NCCL_NVLS_ENABLE=0", "nccl#1043"},
    {22403, 22799, NO_P2P, SOMETIMES, FAILS, "F29",
     "shares host memory by cuMem, which fails between GPUs without P2P (error 217)",
     "NCCL_CUMEM_HOST_ENABLE=0", "nccl#1838, ray#64109"},
    {22403, 23007, ODD_NUMA, SOMETIMES, FAILS, "F29",
     "takes host memory from NUMA nodes that have no CPUs or no memory: it crashes, or ranks "
     "choose differently",
     "NCCL_CUMEM_HOST_ENABLE=0 on all ranks; driver 595 and later", "nccl#2106, nccl#2190"},
    {22703, 22707, 0, SOMETIMES, CRASHES, "F69", "crashes in its RAS thread", "NCCL_RAS_ENABLE=0",
     "nccl#1996"},
    {22703, 22899, 0, SOMETIMES, CRASHES, "F69",
     "crashes when RAS is asked while ranks are missing", "upgrade to 2.29.2, or NCCL_RAS_ENABLE=0",
     "nccl#1762"},
    {22800, 22899, RDMA, SOMETIMES, FAILS, "F69",
     "crashes at init where the plugin for GPU-initiated networking finds no device",
     "upgrade to 2.29.2", "nccl#1881"},
    {22907, 22907, 0, SOMETIMES, HANGS | FAILS, "F69",
     "can hang while many communicators exchange cuMem handles", "NCCL_CUMEM_ENABLE=0",
     "nccl#2379"},
    {20402, 20402, HOSTS, SOMETIMES, HANGS | FAILS, "F28",
     "takes hosts whose names begin alike for one host", "upgrade to 2.4.6",
     "notes of 2.4.6 (nccl#187)"},
    {20402, 20402, 0, SOMETIMES, FAILS, "F27", "crashes while it sets up shared memory for trees",
     "upgrade to 2.4.6", "notes of 2.4.6 (nccl#185, horovod#893)"},
    {20300, 20507, 0, SOMETIMES, WRONG, "F41",
     "gathers 4 GiB and more wrongly where a process has several GPUs", "upgrade to 2.6.4",
     "nccl-tests#37"},
    {20700, 20706, 0, SOMETIMES, FAILS, "F15", "ends send and receive with \"collective mismatch\"",
     "upgrade to 2.7.8", "notes of 2.7.8"},
    {20300, 20905, 0, SOMETIMES, HANGS | FAILS, "F14", "cannot be captured in a CUDA graph",
     "upgrade to 2.9.6", "pytorch#64440"},
    {20906, 20908, OLD_DRIVER, LIKELY, FAILS, "F35",
     "asks the driver for what came with CUDA 11.3 (\"API call is not supported\")",
     "upgrade to 2.9.9, or the driver to 465", "nccl#496"},
    {20906, 23007, OLD_CUDA, SOMETIMES, FAILS, "F35",
     "was built with a CUDA before 11.3 and cannot be captured in a CUDA graph",
     "one that was built with 11.3 or later: nvidia-nccl-cu12, not -cu11", "vllm#3069, vllm#5679"},
    {21003, 21103, VOLTA | MESH, SOMETIMES, CRASHES, "F11",
     "loses memory of GPUs with each communicator on cube-mesh machines", "upgrade to 2.11.4",
     "notes of 2.11.4 (nccl#604)"},
    {21207, 21209, 0, SOMETIMES, HANGS | FAILS, "F15", "goes wrong where no bytes are sent",
     "upgrade to 2.12.10", "notes of 2.12.10"},
    {21207, 23007, HOSTS, SOMETIMES, HANGS, "F69",
     "hangs where connections by way of another GPU (PXN) are made as a communicator ends",
     "upgrade to 2.31.2, or NCCL_PXN_DISABLE=1", "notes of 2.31.2"},
    {21602, 21604, 0, SOMETIMES, CRASHES, "F69", "crashes in ncclCommAbort", "upgrade to 2.16.5",
     "notes of 2.16.5"},
    {21701, 21799, HOPPER | NVSWITCH, SOMETIMES, HANGS, "F69",
     "hangs now and then with NVLink SHARP (NVLS)", "upgrade to 2.18, or NCCL_NVLS_ENABLE=0",
     "JAX-Toolbox#331"},
    {20300, 21802, RDMA | HOSTS, SOMETIMES, HANGS | WRONG, "F69",
     "hangs with bfloat16 in IB SHARP, or gives wrong data where a process has several GPUs",
     "upgrade to 2.18.3, or NCCL_COLLNET_ENABLE=0", "notes of 2.18.1 and 2.18.3"},
    {20300, 23007, PORTS, LIKELY, FAILS, "F57",
     "writes beyond its list of RDMA ports, as more are active than it has room for (32; 16 up to "
     "2.18.1)",
     "name the job's ports in NCCL_IB_HCA", "nccl#2282"},
    {21901, 21999, HOSTS | CUMEM, SOMETIMES, HANGS, "F15",
     "all-to-all waits for itself while connecting with cuMem memory",
     "upgrade to 2.20.3, or NCCL_CUMEM_ENABLE=0", "nccl#1116, nccl#1134"},
    {21901, 21903, 0, SOMETIMES, CRASHES, "F11", "loses memory while CUDA graphs are captured",
     "upgrade to 2.19.4", "notes of 2.19.4"},
    {21901, 22906, 0, SOMETIMES, WRONG, "F41", "leaves elements out where one rank averages",
     "upgrade to 2.29.7", "nccl#1950, pytorch#168092"},
    {21900, 22699, HOSTS, SOMETIMES, FAILS, "F66",
     "gives up at its start where a signal interrupts accept()", "upgrade to 2.27.3", "nccl#1757"},
    {20300, 22501, HOSTS, SOMETIMES, SLOW, "F65", "is slower with NCCL_CROSS_NIC=1",
     "unset it, or upgrade to 2.26.2", "notes of 2.23.4 and 2.26.2"},
    {22105, 22501, ROCE | NO_GID | HOSTS | BOX, SOMETIMES, FAILS, "F59",
     "gives up its search for a GID where a container has not the first ones",
     "upgrade to 2.26.2, or NCCL_IB_GID_INDEX", "notes of 2.26.2 (nccl#1538, nccl#1573)"},
    {22403, 22699, RDMA | HOSTS, SOMETIMES, FAILS, "F47",
     "merges network cards and asks for one that is gone (\"Could not find NET with id 0\")",
     "upgrade to 2.27.3", "nccl#1748, Speech#13996"},
    {22703, 22899, 0, SOMETIMES, CRASHES, "F11",
     "loses memory of the host with each operation of a single rank", "another NCCL", "nccl#1944"},
    {22703, 22899, ARM | RDMA | HOSTS, SOMETIMES, HANGS, "F69",
     "hangs on GB200 with ConnectX-8 where GPUDirect is off", "upgrade to 2.29.2",
     "notes of 2.29.2"},
    {22703, 23007, 0, SOMETIMES, WRONG, "F41",
     "spoils data of several symmetric windows in one allocation", "upgrade to 2.31.2",
     "notes of 2.31.2 (nccl#2198)"},
    {22803, 22806, 0, SOMETIMES, FAILS, "F35",
     "crashes where it was built for a recent CUDA and the driver's is older", "upgrade to 2.28.7",
     "notes of 2.28.7"},
    {22803, 22806, 0, SOMETIMES, FAILS, "F63", "crashes where no network plugin can be assigned",
     "upgrade to 2.28.7", "notes of 2.28.7"},
    {22907, 22907, 0, SOMETIMES, SLOW, "F65", "is slower than 2.29.2 in symmetric kernels",
     "another NCCL", "nccl#2058"},
    {20909, 20909, VOLTA | MESH, LIKELY, HANGS, "F15",
     "hangs while NVLinks by way of a third GPU are connected on cube-mesh machines",
     "upgrade to 2.10.3", "notes of 2.10.3"},
    {20300, 21505, HOSTS, SOMETIMES, HANGS | FAILS, "F25",
     "is disturbed by strangers that connect to its ports (scanners)", "upgrade to 2.16.2",
     "notes of 2.16.2 (nccl#555)"},
    {20300, 21604, HOSTS, SOMETIMES, FAILS, "F66",
     "gives up where a signal interrupts its wait for a socket", "upgrade to 2.16.5",
     "notes of 2.16.5"},
    {20300, 21604, RDMA | HOPPER | HOSTS, SOMETIMES, SLOW, "F65",
     "does not know the speed of 400 Gbit/s network cards (NDR)", "upgrade to 2.16.5",
     "notes of 2.16.5"},
    {21602, 21602, 0, SOMETIMES, SLOW, "F65",
     "takes AMD's links between sockets for slower than they are", "upgrade to 2.16.5",
     "notes of 2.16.5 (nccl#770)"},
    {20700, 21799, RDMA | HOSTS, SOMETIMES, SLOW, "F65",
     "sends over one of a GPU's several network cards", "upgrade to 2.18.1",
     "notes of 2.18.1 (nccl#804)"},
    {21801, 21802, HOSTS, SOMETIMES, SLOW, "F65",
     "is slow in all-to-all at scale and in aggregated all-gathers", "upgrade to 2.18.3",
     "notes of 2.18.3"},
    {20300, 21903, VM, SOMETIMES, HANGS | SLOW, "F47",
     "orders the machine anew in each process where PCI speeds are not told", "upgrade to 2.19.4",
     "notes of 2.19.4 (nccl#1020)"},
    {20300, 22105, HOSTS, SOMETIMES, HANGS | FAILS, "F37",
     "chooses differently where hosts have GPUs of different generations", "upgrade to 2.22.3",
     "notes of 2.21.5 and 2.22.3 (nccl#1184)"},
    {22003, 22105, RDMA | HOSTS, SOMETIMES, SLOW, "F65",
     "is slow in send and receive of registered buffers", "upgrade to 2.22.3", "notes of 2.22.3"},
    {21801, 22105, HOPPER | NVSWITCH | RDMA | HOSTS, SOMETIMES, SLOW, "F47",
     "finds no good way for NVLink SHARP where a GPU has several network cards",
     "upgrade to 2.22.3", "notes of 2.22.3"},
    {20300, 22203, ROCE | HOSTS | OVER_80, SOMETIMES, FAILS | CRASHES, "F60",
     "waits too short a time for answers on large RoCE networks",
     "NCCL_IB_TIMEOUT=20 and more, or upgrade to 2.23.4", "notes of 2.23.4"},
    {20300, 22203, 0, SOMETIMES, SLOW, "F65",
     "spreads small operations beside large ones badly over its channels", "upgrade to 2.23.4",
     "notes of 2.23.4"},
    {21901, 22304, 0, SOMETIMES, FAILS | CRASHES, "F69",
     "crashes where the program and a CUDA graph register the same buffer", "upgrade to 2.24",
     "notes of 2.24.3"},
    {22003, 22304, RDMA | HOSTS, SOMETIMES, FAILS, "F62",
     "registers buffers of the program wrongly with DMA-BUF",
     "upgrade to 2.24, or NCCL_DMABUF_ENABLE=0", "notes of 2.24.3"},
    {21403, 22304, 0, SOMETIMES, HANGS | WRONG, "F14",
     "calls a non-blocking send or receive done before it began", "upgrade to 2.24",
     "notes of 2.24.3"},
    {22403, 22501, RDMA | HOSTS, SOMETIMES, FAILS | CRASHES, "F69",
     "fails with merged network cards and IB SHARP where communicators are made again",
     "upgrade to 2.26.2, or NCCL_NET_MERGE_LEVEL=LOC", "notes of 2.26.2"},
    {21701, 22604, HOPPER | NVSWITCH, SOMETIMES, FAILS, "F50",
     "fails at init where NVLink SHARP (NVLS) cannot be had, and does not go without",
     "NCCL_NVLS_ENABLE=0, or upgrade to 2.27.3", "notes of 2.27.3"},
    {22403, 22604, 0, SOMETIMES, CRASHES, "F69", "can spoil memory as a job ends (RAS)",
     "upgrade to 2.27.3, or NCCL_RAS_ENABLE=0", "notes of 2.27.3"},
    {22105, 22704, ARM | RDMA | HOSTS, SOMETIMES, FAILS, "F69",
     "wants memory of one host shared with others that NVLink joins (PXN)",
     "upgrade to 2.27.5, or NCCL_PXN_DISABLE=1", "notes of 2.27.5"},
    {22602, 22704, 0, SOMETIMES, FAILS, "F63", "does not take a path in NCCL_NET_PLUGIN",
     "upgrade to 2.27.5, or its name and LD_LIBRARY_PATH", "notes of 2.27.5 (nccl#1732)"},
    {22403, 22899, VM, SOMETIMES, FAILS, "F29",
     "asks for a memory pool, which a virtual GPU without unified memory refuses (error 801)",
     "switch unified memory on for the vGPU (its plugin's enable_uvm=1)", "nccl#2101"},
    {22907, 23006, RDMA | HOSTS, SOMETIMES, HANGS, "F69", "can hang on InfiniBand between hosts",
     "upgrade to 2.30.7, or NCCL_PXN_DISABLE=1", "docs of cuBLASMp, known issues"},
    {23004, 23006, 0, SOMETIMES, HANGS | WRONG, "F74",
     "captures put and signal in a CUDA graph before their buffers are made",
     "upgrade to 2.30.7, or call each once before the capture", "docs of cuBLASMp, known issues"},
    {23004, 23004, ARM | HOSTS, SOMETIMES, SLOW, "F65",
     "is slow now and then in all-to-all of small messages on GB300", "2.29.7, or a later one",
     "TensorRT-LLM#17160"},
    {21904, 21904, RDMA | HOSTS, SOMETIMES, SLOW, "F65", "is slower than its neighbours on EFA",
     "2.20.3 and later, or aws-ofi-nccl 1.8.0", "awsome-distributed-ai#217"},
    {20300, 20306, HOSTS, SOMETIMES, HANGS, "F66", "hangs at its start where a port is used again",
     "upgrade to 2.3.7", "notes of 2.3.7"},
    {20402, 20407, HOSTS, SOMETIMES, SLOW, "F65", "is slow over TCP between hosts",
     "upgrade to 2.4.8", "notes of 2.4.8 (nccl#209)"},
    {22803, 22803, 0, SOMETIMES, FAILS, "F69",
     "leaves a CUDA error behind that the program then finds (\"no kernel image\")",
     "upgrade to 2.28.7", "pytorch#164402"},
};
const size_t muster_known_nccl_n = sizeof muster_known_nccl / sizeof *muster_known_nccl;

bool muster_known_nccl_holds(const struct muster_known_nccl *bug, int version, uint64_t has)
{
    return version >= bug->first && version <= bug->last && (bug->needs & ~has) == 0;
}

static const struct {
    unsigned bit;
    const char *words;
} shown[] = {
    {MUSTER_SHOWS_HANG, "hang_stuck hang_absent"},
    {MUSTER_SHOWS_FAILURE, "init_error hang_dead allreduce.small allreduce.large"},
    {MUSTER_SHOWS_WRONG_DATA, "wrong_result allreduce.small allreduce.large"},
    {MUSTER_SHOWS_SLOWNESS, "slow_transfer path_degraded path_missing"},
    {MUSTER_SHOWS_CRASH, "hang_dead"},
};

void muster_known_nccl_symptoms(unsigned shows, char *words, size_t size)
{
    struct muster_text text = muster_text_begin(words, size);
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        if (shows & shown[i].bit)
            muster_text_add(&text, "%s%s", text.used ? " " : "", shown[i].words);
}

bool muster_known_nccl_explains(const struct muster_known_nccl *bug, const char *symptoms)
{
    char words[256], *rest;
    muster_known_nccl_symptoms(bug->shows, words, sizeof words);
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        if (strstr(symptoms, word))
            return true;
    return false;
}

bool muster_known_nccl_is_rare(const struct muster_known_nccl *bug)
{
    enum { MANY = 4 };
    return (bug->needs & (USB | NO_P2P | ODD_NUMA | DOWN | WSL | NO_CUMEM | NO_NUMA | PORTS |
                          OLD_CUDA | OLD_DRIVER)) != 0 ||
           __builtin_popcountll(bug->needs) >= MANY;
}

bool muster_known_nccl_is_wide(const struct muster_known_nccl *bug)
{
    enum { NARROW = 300 };
    return bug->last - bug->first >= NARROW && !muster_known_nccl_is_rare(bug);
}

static const struct {
    const char *source, *line;
} printed[] = {
    {"nccl#1748, Speech#13996", "log.net_id"},
    {"nccl#1757", "log.interrupted"},
    {"notes of 2.16.5", "log.interrupted"},
    {"nccl#2101", "log.not_supported"},
    {"vllm#3069, vllm#5679", "log.capture"},
    {"nccl#1637", "log.shared_memory"},
    {"nccl#1996", "log.ras"},
    {"nccl#1762", "log.ras"},
    {"xgboost#11154, notes of 2.26.2", "log.ras"},
    {"pytorch#164402", "log.gpu_code"},
    {"nccl#555, nccl#844", "log.remote_memory"},
};

const char *muster_known_nccl_prints(const struct muster_known_nccl *bug)
{
    for (size_t i = 0; i < sizeof printed / sizeof *printed; i++)
        if (strcmp(printed[i].source, bug->source) == 0)
            return printed[i].line;
    return NULL;
}

bool muster_known_nccl_logged(const struct muster_known_nccl *bug,
                              const struct muster_known_question *of)
{
    const char *line = muster_known_nccl_prints(bug);
    return line && of->logged && strstr(of->logged, line);
}

/* How well a row fits what a job showed: one that the log names stands before one that fits the
 * symptoms, that before one that is surer, that before one that needs something few hosts have, and
 * that before one of fewer versions. */
static int fits(const struct muster_known_nccl *bug, const struct muster_known_question *of)
{
    enum { CODES = 30000 };
    int places = muster_known_nccl_logged(bug, of) ? 8 : 0;
    places += of->symptoms && muster_known_nccl_explains(bug, of->symptoms) ? 4 : 0;
    return ((places + (int)bug->weight) * 2 + muster_known_nccl_is_rare(bug)) * CODES +
           (CODES - 1 - (bug->last - bug->first));
}

/* Bugs that depend on the program, hold, and bring about what the job showed. */
static int count_fitting(const struct muster_known_question *of)
{
    int n = 0;
    for (size_t i = 0; of->symptoms && i < muster_known_nccl_n; i++)
        n += muster_known_nccl[i].weight == MUSTER_KNOWN_SOMETIMES &&
             muster_known_nccl_holds(&muster_known_nccl[i], of->version, of->has) &&
             muster_known_nccl_explains(&muster_known_nccl[i], of->symptoms);
    return n;
}

const struct muster_known_nccl *muster_known_nccl_pick(const struct muster_known_question *of,
                                                       bool certain)
{
    const struct muster_known_nccl *best = NULL;
    bool only = !certain && count_fitting(of) == 1;
    for (size_t i = 0; i < muster_known_nccl_n; i++) {
        const struct muster_known_nccl *bug = &muster_known_nccl[i];
        bool depends = bug->weight == MUSTER_KNOWN_SOMETIMES && !muster_known_nccl_logged(bug, of);
        bool fitting = only && muster_known_nccl_explains(bug, of->symptoms);
        if (depends == certain || !muster_known_nccl_holds(bug, of->version, of->has) ||
            (depends && (!bug->shows || (muster_known_nccl_is_wide(bug) && !fitting))))
            continue;
        if (!best || fits(bug, of) > fits(best, of))
            best = bug;
    }
    return best;
}
