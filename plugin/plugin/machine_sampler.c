#include "plugin/machine_sampler.h"

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"
#include "plugin/host_facts.h"
#include "segment/seqlock.h"
#include "topology/sysfs.h"

enum {
    PERIOD_S = 10,   /* of looks; the first few come sooner: many jobs are short */
    AGAIN_LOOKS = 4, /* then an idle GPU's links are evaluated once more, under load */
};

struct muster_sampler {
    struct muster_facts *facts;
    const _Atomic bool *closed;
    sem_t wake;
    _Atomic bool busy; /* inside the driver or /sys */
    char family[16];   /* NCCL_SOCKET_FAMILY; "": not set */
    char pci[MUSTER_FACT_GPUS][16];
    _Atomic unsigned gpus; /* of `pci`, filled */
    /* The thread's. */
    struct muster_fact_head head;
    struct muster_gpu_watch *watch; /* NULL: no NVML */
    struct muster_nvml *nvml;
    struct muster_machine *machine;
    int at[MUSTER_FACT_GPUS]; /* in `watch`; -1: not there */
    unsigned described;       /* of `pci`: in the segment */
    unsigned looks;
    bool again; /* links of an idle GPU are to be evaluated once more */
};

/* Copies an entry that begins with its seq; `from`'s own seq means nothing. */
static void publish(void *to, const void *from, size_t bytes)
{
    uint32_t *seq = to;
    muster_seg_write_begin(seq);
    memcpy((char *)to + sizeof *seq, (const char *)from + sizeof *seq, bytes - sizeof *seq);
    muster_seg_write_end(seq);
}

static void publish_head(struct muster_sampler *sampler, enum muster_fact_state state)
{
    sampler->head.state = (uint32_t)state;
    publish(&sampler->facts->head, &sampler->head, sizeof sampler->head);
}

static void read_tree(struct muster_sampler *sampler)
{
    struct muster_err err;
    muster_machine_free(sampler->machine);
    sampler->machine = NULL;
    if (muster_machine_new(&sampler->machine, &err) != 0)
        return;
    /* Without a tree NVML still knows the GPUs. */
    if (muster_sysfs_read(sampler->machine, "/sys", &err) == 0)
        muster_sysfs_annotate(sampler->machine, "/sys");
}

static void read_driver(struct muster_sampler *sampler)
{
    struct muster_err err = {""};
    sampler->nvml = calloc(1, sizeof *sampler->nvml);
    if (!sampler->nvml)
        return;
    if (muster_gpu_watch_open(&sampler->watch, sampler->nvml, &err) != 0) {
        muster_text_copy(sampler->head.no_nvml, sizeof sampler->head.no_nvml, err.text);
        return;
    }
    muster_text_copy(sampler->head.driver, sizeof sampler->head.driver, sampler->nvml->driver);
}

static void read_machine(struct muster_sampler *sampler)
{
    /* What takes no driver first: it is there even if the driver never answers. */
    publish_head(sampler, MUSTER_FACTS_READING);
    muster_facts_interface(&sampler->head, sampler->family[0] ? sampler->family : NULL);
    publish_head(sampler, MUSTER_FACTS_READING);
    read_tree(sampler);
    read_driver(sampler);
    if (sampler->machine && sampler->watch)
        muster_nvml_annotate(sampler->machine, sampler->nvml);
    if (sampler->machine)
        muster_facts_machine(&sampler->head, sampler->machine);
    sampler->head.read_ns = muster_now_ns();
    publish_head(sampler, MUSTER_FACTS_READ);
}

static bool may_be_idle(const struct muster_fact_gpu *gpu)
{
    bool idle = gpu->host_low == MUSTER_FACT_LOW_IDLE;
    for (unsigned i = 0; i < gpu->peers; i++)
        idle |= gpu->peer[i].low == MUSTER_FACT_LOW_IDLE;
    return idle;
}

static void describe(struct muster_sampler *sampler, unsigned which)
{
    struct muster_fact_gpu gpu = {.named = 1};
    struct muster_pci pci;
    memcpy(gpu.pci, sampler->pci[which], sizeof gpu.pci);
    sampler->at[which] = sampler->watch && muster_pci_parse(gpu.pci, &pci)
                             ? muster_gpu_watch_find(sampler->watch, pci)
                             : -1;
    if (sampler->at[which] >= 0) {
        muster_gpu_watch_own(sampler->watch, sampler->at[which], sampler->nvml);
        if (sampler->machine)
            muster_nvml_annotate(sampler->machine, sampler->nvml);
    }
    if (sampler->machine)
        muster_facts_gpu(&gpu, &sampler->head, sampler->machine,
                         sampler->watch ? sampler->nvml : NULL);
    sampler->again |= may_be_idle(&gpu);
    publish(&sampler->facts->gpu[which], &gpu, sizeof gpu);
}

/* A GPU that works has its links at full speed, or they are slow. */
static void evaluate_again(struct muster_sampler *sampler)
{
    sampler->again = false;
    read_tree(sampler);
    if (!sampler->machine || muster_gpu_watch_read(sampler->watch, sampler->nvml) != 0)
        return;
    muster_nvml_annotate(sampler->machine, sampler->nvml);
    for (unsigned i = 0; i < sampler->described; i++)
        describe(sampler, i);
    sampler->again = false;
}

static void look(struct muster_sampler *sampler)
{
    for (unsigned i = 0; i < sampler->described; i++) {
        struct muster_fact_use use = sampler->facts->use[i];
        struct muster_gpu_reading now;
        if (sampler->at[i] < 0)
            continue;
        muster_gpu_watch_poll(sampler->watch, sampler->at[i], &now);
        muster_facts_poll(&use, &now, muster_gpu_watch_xid(sampler->watch, sampler->at[i]),
                          muster_now_ns());
        publish(&sampler->facts->use[i], &use, sizeof use);
    }
    sampler->looks++;
    if (sampler->again && sampler->looks >= AGAIN_LOOKS)
        evaluate_again(sampler);
}

/* 1 s, 2 s, 4 s, 8 s, then every 10 s; sooner if there is a new GPU. */
static void rest(struct muster_sampler *sampler)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += sampler->looks < 4 ? 1 << sampler->looks : PERIOD_S;
    while (sem_clockwait(&sampler->wake, CLOCK_MONOTONIC, &until) != 0 && errno == EINTR)
        ;
}

static bool is_over(const struct muster_sampler *sampler)
{
    return atomic_load_explicit(sampler->closed, memory_order_acquire);
}

static void *sampler_main(void *arg)
{
    struct muster_sampler *sampler = arg;
    atomic_store_explicit(&sampler->busy, true, memory_order_seq_cst);
    if (!is_over(sampler))
        read_machine(sampler);
    while (!is_over(sampler)) {
        /* Acquire: pairs with the release in muster_sampler_add. */
        unsigned gpus = atomic_load_explicit(&sampler->gpus, memory_order_acquire);
        while (sampler->described < gpus)
            describe(sampler, sampler->described++);
        look(sampler);
        atomic_store_explicit(&sampler->busy, false, memory_order_seq_cst);
        rest(sampler);
        atomic_store_explicit(&sampler->busy, true, memory_order_seq_cst);
    }
    atomic_store_explicit(&sampler->busy, false, memory_order_seq_cst);
    return NULL;
}

int muster_sampler_start(struct muster_sampler **sampler, struct muster_segment *segment,
                         const _Atomic bool *closed, struct muster_err *err)
{
    struct muster_sampler *made = calloc(1, sizeof *made);
    if (!made)
        return muster_fail_memory(err, "looking at GPUs");
    made->facts = &segment->facts;
    made->closed = closed;
    sem_init(&made->wake, 0, 0);
    muster_facts_variables(&made->head);
    muster_text_copy(made->family, sizeof made->family, getenv("NCCL_SOCKET_FAMILY"));
    int rc = muster_thread_start("muster-topo", sampler_main, made);
    if (rc) {
        free(made);
        return muster_fail(err, "no thread for looking at GPUs: %s", strerror(rc));
    }
    *sampler = made;
    return 0;
}

void muster_sampler_add(struct muster_sampler *sampler, const char *pci)
{
    unsigned n = atomic_load_explicit(&sampler->gpus, memory_order_relaxed);
    if (!pci || !pci[0] || n == MUSTER_FACT_GPUS)
        return;
    for (unsigned i = 0; i < n; i++)
        if (strcmp(sampler->pci[i], pci) == 0)
            return;
    muster_text_copy(sampler->pci[n], sizeof sampler->pci[n], pci);
    atomic_store_explicit(&sampler->gpus, n + 1, memory_order_release);
    sem_post(&sampler->wake);
}

void muster_sampler_leave(struct muster_sampler *sampler, unsigned ms)
{
    if (!sampler)
        return;
    sem_post(&sampler->wake);
    /* Both orders: either the thread sees `closed`, or this sees it busy. */
    for (unsigned i = 0; i < ms && atomic_load_explicit(&sampler->busy, memory_order_seq_cst); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}
