#include "plugin/nccl_process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/library.h"
#include "base/text.h"
#include "nccl/tuner_hooks.h"

#define SHM_PER_RANK (35ull << 20)

uint32_t muster_process_nccl(const void *caller)
{
    typedef int get_version(int *version);
    get_version *get = NULL;
    Dl_info info;
    /* Frameworks load NCCL privately, so the library that calls is asked first. The handle is
     * kept: it only counts a reference. */
    if (caller && dladdr(caller, &info) && info.dli_fname) {
        void *nccl = muster_library_open(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        get = nccl ? (get_version *)dlsym(nccl, "ncclGetVersion") : NULL;
    }
    if (!get)
        get = (get_version *)dlsym(RTLD_DEFAULT, "ncclGetVersion");
    muster_library_forget();
    int version = 0;
    if (!get || get(&version) != 0 || version < 0)
        return 0;
    return (uint32_t)version;
}

muster_replay_clock *muster_process_replay_clock(void)
{
    return (muster_replay_clock *)dlsym(RTLD_DEFAULT, "muster_replay_now_ns");
}

/* The driver's own types, as far as they are passed here (CUDA driver API, 11.4 on). */
struct cuda_uuid {
    unsigned char bytes[16];
};
typedef int ctx_get_device(int *device);
typedef int device_pci(char *to, int size, int device);
typedef int device_name(char *to, int size, int device);
typedef int device_uuid(struct cuda_uuid *uuid, int device);

static void print_uuid(char *to, size_t size, const struct cuda_uuid *uuid)
{
    const unsigned char *b = uuid->bytes;
    snprintf(to, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
             b[14], b[15]);
}

void muster_process_gpu(struct muster_gpu *gpu)
{
    *gpu = (struct muster_gpu){.index = -1};
    void *cuda = muster_library_open("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (!cuda) {
        muster_library_forget();
        return;
    }
    ctx_get_device *get_device = (ctx_get_device *)dlsym(cuda, "cuCtxGetDevice");
    device_pci *get_pci = (device_pci *)dlsym(cuda, "cuDeviceGetPCIBusId");
    device_name *get_name = (device_name *)dlsym(cuda, "cuDeviceGetName");
    device_uuid *get_uuid = (device_uuid *)dlsym(cuda, "cuDeviceGetUuid");
    int device;
    if (get_device && get_device(&device) == 0) {
        struct cuda_uuid uuid;
        gpu->index = device;
        if (!get_pci || get_pci(gpu->pci, sizeof gpu->pci, device) != 0)
            gpu->pci[0] = '\0';
        if (!get_name || get_name(gpu->name, sizeof gpu->name, device) != 0)
            gpu->name[0] = '\0';
        if (get_uuid && get_uuid(&uuid, device) == 0)
            print_uuid(gpu->uuid, sizeof gpu->uuid, &uuid);
    }
    muster_library_close(cuda);
    muster_library_forget();
}

bool muster_process_cuda(struct muster_cuda *cuda)
{
    void *library = muster_library_open("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (!library) {
        muster_library_forget();
        return false;
    }
    struct {
        const char *name;
        void *to;
    } wanted[] = {
        {"cuCtxGetCurrent", &cuda->ctx_get_current},
        {"cuCtxSetCurrent", &cuda->ctx_set_current},
        {"cuCtxGetId", &cuda->ctx_get_id},
        {"cuEventCreate", &cuda->event_create},
        {"cuEventRecord", &cuda->event_record},
        {"cuEventQuery", &cuda->event_query},
        {"cuEventElapsedTime", &cuda->event_elapsed},
        {"cuStreamIsCapturing", &cuda->stream_is_capturing},
        {"cuThreadExchangeStreamCaptureMode", &cuda->exchange_capture_mode},
    };
    /* The handle is kept: events are read until the process ends. */
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *function = dlsym(library, wanted[i].name);
        if (!function) {
            muster_library_forget();
            return false;
        }
        memcpy(wanted[i].to, &function, sizeof function);
    }
    return true;
}

unsigned muster_process_cpus(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    return n > 0 ? (unsigned)n : 1;
}

static bool shm_left(uint64_t *left)
{
    struct statvfs shm;
    if (statvfs("/dev/shm", &shm) != 0)
        return false;
    *left = (uint64_t)shm.f_bavail * shm.f_frsize;
    return true;
}

/* The start of a small file; "" if it cannot be read. */
static void read_start(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, size - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
}

static bool number_in(const char *path, uint64_t *number)
{
    char text[64];
    read_start(path, text, sizeof text);
    text[strcspn(text, "\n")] = '\0';
    return muster_text_u64(text, number);
}

/* Of memory.stat: "name bytes" a line. */
static uint64_t stat_of(const char *stat, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = stat; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            return strtoull(line + length, NULL, 10);
    }
    return 0;
}

/* What lies in /dev/shm counts for the control group as well; what it keeps of files it gives back.
 * False: no limit, or not known. */
static bool cgroup_left(uint64_t *left)
{
    char stat[4096] = "";
    uint64_t most, used;
    if (!number_in("/sys/fs/cgroup/memory.max", &most) ||
        !number_in("/sys/fs/cgroup/memory.current", &used))
        return false;
    read_start("/sys/fs/cgroup/memory.stat", stat, sizeof stat);
    uint64_t files = stat_of(stat, "inactive_file") + stat_of(stat, "active_file");
    used = used > files ? used - files : 0;
    *left = most > used ? most - used : 0;
    return true;
}

bool muster_process_memory_suffices(unsigned local_ranks, char *why, size_t size)
{
    uint64_t needed = 2 * SHM_PER_RANK * local_ranks, shm, memory;
    if (!shm_left(&shm)) {
        snprintf(why, size, "/dev/shm is missing");
        return false;
    }
    bool limited = cgroup_left(&memory) && memory < shm;
    uint64_t left = limited ? memory : shm;
    if (left >= needed)
        return true;
    snprintf(why, size, "%s has %llu MiB free; timing kernels of %u ranks needs %llu MiB",
             limited ? "the control group" : "/dev/shm", (unsigned long long)(left >> 20),
             local_ranks, (unsigned long long)(needed >> 20));
    return false;
}
