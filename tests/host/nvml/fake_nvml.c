#include "fake_nvml.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct fake_nvml described;
static struct stat seen;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const char *path(void)
{
    const char *is = getenv("FAKE_NVML");
    return is ? is : "";
}

__attribute__((noreturn)) static void refuse(unsigned line, const char *text)
{
    fprintf(stderr, "%s:%u: no statement for a made-up NVML: %s\n", path(), line, text);
    abort();
}

static void make_gpus(struct fake_nvml *nvml, int n)
{
    nvml->gpus = n;
    memset(nvml->ancestor, 50, sizeof nvml->ancestor);
    for (int i = 0; i < n; i++) {
        struct fake_gpu *gpu = &nvml->gpu[i];
        *gpu = (struct fake_gpu){.index = i,
                                 .bus = (unsigned)(0x10 + i),
                                 .name = "NVIDIA H200",
                                 .capability = {9, 0},
                                 .generation = 5,
                                 .max_generation = 5,
                                 .width = 16,
                                 .max_width = 16,
                                 .link_version = 6,
                                 .link_mbps = 26562,
                                 .clock = 1980,
                                 .max_clock = 1980,
                                 .power = 600000,
                                 .power_limit = 700000,
                                 .utilization = 100,
                                 .temperature = 55,
                                 .memory = {150754820096, 1073741824},
                                 .persistence = 1,
                                 .fabric = {3, 0}};
        snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-00000000-0000-0000-0000-0000000000%02x", i + 1);
        for (int j = 0; j < FAKE_LINKS; j++)
            gpu->link[j].to = -1;
    }
}

static bool set_number(struct fake_gpu *gpu, const char *key, const char *value)
{
    const struct {
        const char *key;
        long *to;
    } numbers[] = {
        {"generation", &gpu->generation},
        {"max_generation", &gpu->max_generation},
        {"width", &gpu->width},
        {"max_width", &gpu->max_width},
        {"replays", &gpu->replays},
        {"link_version", &gpu->link_version},
        {"link_mbps", &gpu->link_mbps},
        {"clock", &gpu->clock},
        {"max_clock", &gpu->max_clock},
        {"power", &gpu->power},
        {"power_limit", &gpu->power_limit},
        {"utilization", &gpu->utilization},
        {"temperature", &gpu->temperature},
        {"remap_pending", &gpu->remap_pending},
        {"remap_failed", &gpu->remap_failed},
        {"mig", &gpu->mig},
        {"virtualization", &gpu->virtualization},
        {"persistence", &gpu->persistence},
        {"compute_mode", &gpu->compute_mode},
    };
    const struct {
        const char *key;
        uint64_t *to;
    } counts[] = {{"limits", &gpu->limits},
                  {"ecc_corrected", &gpu->ecc_corrected},
                  {"ecc_uncorrected", &gpu->ecc_uncorrected}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(key, numbers[i].key) == 0)
            return sscanf(value, "%li", numbers[i].to) == 1;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (strcmp(key, counts[i].key) == 0)
            return sscanf(value, "%" SCNi64, (int64_t *)counts[i].to) == 1;
    return false;
}

static bool set_link(struct fake_gpu *gpu, const char *value)
{
    unsigned at, counter;
    uint64_t n;
    int used = 0, to;
    if (sscanf(value, "%u %n", &at, &used) != 1 || at >= FAKE_LINKS)
        return false;
    struct fake_link *link = &gpu->link[at];
    value += used;
    if (sscanf(value, "to %d", &to) == 1)
        return link->to = to, true;
    if (sscanf(value, "errors %u %" SCNu64, &counter, &n) == 2 && counter < FAKE_COUNTERS)
        return link->errors[counter] = n, true;
    if (strcmp(value, "down") == 0)
        return link->state = FAKE_LINK_DOWN, true;
    return strcmp(value, "absent") == 0 && (link->state = FAKE_LINK_ABSENT, true);
}

static bool set_processes(struct fake_gpu *gpu, const char *value)
{
    int used;
    for (gpu->processes = 0; *value; value += used) {
        if (gpu->processes == FAKE_PROCESSES ||
            sscanf(value, "%u:%" SCNu64 " %n", &gpu->process[gpu->processes].pid,
                   &gpu->process[gpu->processes].bytes, &used) != 2)
            return false;
        gpu->processes++;
    }
    return true;
}

static bool add_fault(struct fake_nvml *nvml, int gpu, const char *text)
{
    struct fake_fault *fault = &nvml->fault[nvml->faults];
    *fault = (struct fake_fault){.gpu = gpu};
    fault->hang = sscanf(text, "hang %63s", fault->function) == 1;
    if (nvml->faults == FAKE_FAULTS ||
        (!fault->hang && sscanf(text, "fail %63s %d", fault->function, &fault->code) != 2 &&
         sscanf(text, "slow %63s %u", fault->function, &fault->ms) != 2))
        return false;
    nvml->faults++;
    return true;
}

static bool set_gpu(struct fake_nvml *nvml, struct fake_gpu *gpu, const char *statement)
{
    char key[32];
    int used = 0;
    if (sscanf(statement, "%31s %n", key, &used) != 1)
        return false;
    const char *value = statement + used;
    if (strcmp(key, "pci") == 0)
        return sscanf(value, "%x:%x:%x.0", &gpu->domain, &gpu->bus, &gpu->device) == 3;
    if (strcmp(key, "uuid") == 0)
        return sscanf(value, "%63s", gpu->uuid) == 1;
    if (strcmp(key, "name") == 0)
        return sscanf(value, "%63[^\n]", gpu->name) == 1;
    if (strcmp(key, "capability") == 0)
        return sscanf(value, "%ld %ld", &gpu->capability[0], &gpu->capability[1]) == 2;
    if (strcmp(key, "memory") == 0)
        return sscanf(value, "%" SCNu64 " %" SCNu64, &gpu->memory[0], &gpu->memory[1]) == 2;
    if (strcmp(key, "fabric") == 0)
        return sscanf(value, "%ld %ld %ld", &gpu->fabric[0], &gpu->fabric[1], &gpu->fabric[2]) >= 2;
    if (strcmp(key, "xid") == 0)
        return sscanf(value, "%u", &gpu->xid) == 1;
    if (strcmp(key, "link") == 0)
        return set_link(gpu, value);
    if (strcmp(key, "processes") == 0)
        return set_processes(gpu, value);
    if (strcmp(key, "fail") == 0 || strcmp(key, "hang") == 0 || strcmp(key, "slow") == 0)
        return add_fault(nvml, gpu->index, statement);
    if (strcmp(key, "links") == 0) {
        long n;
        bool ok = sscanf(value, "%ld", &n) == 1 && n >= 0 && n <= FAKE_LINKS;
        for (long i = 0; ok && i < FAKE_LINKS; i++)
            gpu->link[i].state = i < n ? FAKE_LINK_UP : FAKE_LINK_ABSENT;
        return ok;
    }
    return set_number(gpu, key, value);
}

static bool which_gpu(const struct fake_nvml *nvml, const char *text, int *first, int *last)
{
    *first = 0;
    *last = nvml->gpus - 1;
    if (strcmp(text, "*") == 0)
        return true;
    if (sscanf(text, "%d", first) != 1 || *first < 0 || *first >= nvml->gpus)
        return false;
    *last = *first;
    return true;
}

static bool set_pairs(const struct fake_nvml *nvml, uint8_t pairs[FAKE_GPUS][FAKE_GPUS],
                      const char *text)
{
    char a[8], b[8];
    int value, from[2], to[2];
    if (sscanf(text, "%7s %7s %d", a, b, &value) != 3 || !which_gpu(nvml, a, &from[0], &to[0]) ||
        !which_gpu(nvml, b, &from[1], &to[1]))
        return false;
    for (int i = from[0]; i <= to[0]; i++)
        for (int j = from[1]; j <= to[1]; j++)
            pairs[i][j] = pairs[j][i] = (uint8_t)value;
    return true;
}

static bool take(struct fake_nvml *nvml, const char *line)
{
    char which[8];
    int n, used = 0, first, last;
    if (sscanf(line, "gpus %d", &n) == 1)
        return n >= 0 && n <= FAKE_GPUS && (make_gpus(nvml, n), true);
    if (sscanf(line, "gpu %7s %n", which, &used) == 1 && used) {
        bool ok = which_gpu(nvml, which, &first, &last);
        for (int i = first; ok && i <= last; i++)
            ok = set_gpu(nvml, &nvml->gpu[i], line + used);
        return ok;
    }
    if (strncmp(line, "p2p ", 4) == 0)
        return set_pairs(nvml, nvml->p2p, line + 4);
    if (strncmp(line, "ancestor ", 9) == 0)
        return set_pairs(nvml, nvml->ancestor, line + 9);
    if (strncmp(line, "fail ", 5) == 0 || strncmp(line, "hang ", 5) == 0 ||
        strncmp(line, "slow ", 5) == 0)
        return add_fault(nvml, FAKE_ALL, line);
    return sscanf(line, "driver %31s", nvml->driver) == 1 ||
           sscanf(line, "cuda %ld", &nvml->cuda) == 1;
}

static void read_file(struct fake_nvml *nvml)
{
    char line[1024];
    unsigned number = 0, changes = nvml->changes + 1;
    FILE *file = fopen(path(), "r");
    if (!file)
        refuse(0, "FAKE_NVML names no file");
    memset(nvml, 0, sizeof *nvml);
    nvml->changes = changes;
    nvml->cuda = 13000;
    snprintf(nvml->driver, sizeof nvml->driver, "580.95.05");
    while (fgets(line, sizeof line, file)) {
        number++;
        line[strcspn(line, "#\n")] = '\0';
        size_t end = strlen(line);
        while (end && (line[end - 1] == ' ' || line[end - 1] == '\t'))
            line[--end] = '\0';
        char *text = line + strspn(line, " \t");
        if (*text && !take(nvml, text))
            refuse(number, text);
    }
    fclose(file);
}

const struct fake_nvml *fake_nvml(void)
{
    struct stat now;
    pthread_mutex_lock(&lock);
    if (stat(path(), &now) != 0)
        refuse(0, "FAKE_NVML names no file");
    if (now.st_ino != seen.st_ino || now.st_size != seen.st_size ||
        now.st_mtim.tv_sec != seen.st_mtim.tv_sec || now.st_mtim.tv_nsec != seen.st_mtim.tv_nsec) {
        seen = now;
        read_file(&described);
    }
    pthread_mutex_unlock(&lock);
    return &described;
}
