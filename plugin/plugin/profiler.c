#include "nccl/profiler_hooks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/library.h"
#include "base/log.h"
#include "base/text.h"
#include "config/settings.h"
#include "diagnose/live/live.h"
#include "nccl/tuner_hooks.h"
#include "plugin/machine_sampler.h"
#include "plugin/nccl_process.h"
#include "plugin/tuner.h"
#include "record/handle.h"
#include "record/recorder.h"
#include "record/track.h"
#include "segment/identity.h"
#include "trace/trace_record.h"

_Static_assert((int)MUSTER_SETTINGS_PATH == (int)MUSTER_SEG_PATH, "a setting fits the segment");

enum { EXIT_WRITE_MS = 2000, EXIT_LOOK_MS = 100 };

/* The one thing in the process that NCCL's calls without a context of their own can find. */
static struct {
    pthread_mutex_t lock;  /* set-up */
    bool configured;       /* settings read, once */
    _Atomic bool prepared; /* and what the profiler needs beside them */
    _Atomic bool failed;   /* or switched off: every call is a no-op */
    uint32_t unnamed;      /* v1 to v3: communicators alive */
    bool rank_settled;     /* a communicator of the whole world agreed with the environment */
    struct muster_settings settings;
    struct muster_seg_identity identity;
    struct muster_cuda cuda; /* filled where has_cuda is set */
    bool has_cuda;
    bool odd_api;        /* a second NCCL's interface did not fit, and it was logged */
    bool old_broadcasts; /* NCCL_ALLGATHERV_ENABLE=0: NCCL's issue 2368 does not come up */
    bool kernels; /* NCCL stamps kernels: asked for, and safe with every communicator so far */
    _Atomic(struct muster_recorder *) recorder;
    _Atomic(struct muster_trace_recorder *) trace;
    struct muster_sampler *sampler; /* by set-up and at exit; NULL: not wanted, or a replay */
    _Atomic uint64_t traced;        /* handles made for the trace alone */
} plugin = {.lock = PTHREAD_MUTEX_INITIALIZER};

#define BIT(kind) (1 << MUSTER_EVENT_##kind)

/* The events to ask for; what an interface does not know is left out, and of what is asked for NCCL
 * adds the parents itself. It is written in init and never again: NCCL reads it at every append,
 * and operations of one group that it read differently hang (docs/versions.md). */
static int mask_of(const struct muster_settings *settings, uint32_t api, bool launches,
                   bool kernels)
{
    int known = (1 << muster_event_kinds(api)) - 1;
    int mask = BIT(COLL) | BIT(P2P);
    if (api >= 4) /* before, counts, bytes and host times only */
        mask |= BIT(PROXY_OP) | BIT(CE_COLL);
    if (launches)
        mask |= BIT(KERNEL_LAUNCH);
    if (kernels)
        mask |= BIT(KERNEL_CH) | BIT(PROXY_STEP);
    if (settings->trace[0])
        mask = ~BIT(PROXY_CTRL) & ~BIT(KERNEL_PHASE) & (kernels ? ~0 : ~BIT(KERNEL_CH));
    return mask & known;
}

/* The mask for this process's NCCL of interface `api`. A replay's kernels show what events would.
 */
static int mask_here(uint32_t api)
{
    bool played = plugin.identity.replay_speed != 0 && plugin.identity.armed;
    bool launches = plugin.identity.armed || plugin.identity.mark;
    return mask_of(&plugin.settings, api, launches, plugin.kernels || played);
}

/* Whether NCCL may stamp this communicator's kernels; false with the reason. */
static bool kernels_are_safe(const struct muster_event_init *init, char *why, size_t size)
{
    if (init->api < 5) {
        snprintf(why, size, "NCCL before 2.28.3 cannot time kernels safely");
        return false;
    }
    if (plugin.identity.replay_speed != 0)
        return true;
    if (init->api >= 6 && !plugin.old_broadcasts) {
        snprintf(why, size,
                 "with timed kernels NCCL 2.29 and later hang in groups of broadcasts, "
                 "unless NCCL_ALLGATHERV_ENABLE=0");
        return false;
    }
    int hosts = init->nnodes > 0 ? init->nnodes : 1;
    int local_ranks = init->nranks > 0 ? (init->nranks + hosts - 1) / hosts : 1;
    return muster_process_memory_suffices((unsigned)local_ranks, why, size);
}

/* Whether launches can be timed here; if not, why not. */
static bool decide_timed(struct muster_seg_identity *identity, const struct muster_event_init *init)
{
    const char *why = NULL;
    if (plugin.settings.timing == MUSTER_TIMING_LIGHT && !plugin.settings.trace[0])
        return false;
    if (init->api < 5)
        why = "NCCL before 2.28.3 does not show its launches";
    else if (identity->replay_speed == 0 && !plugin.kernels && !plugin.has_cuda)
        why = "there is no CUDA driver of 12.0 or later";
    if (why && !identity->why_not_armed[0])
        snprintf(identity->why_not_armed, sizeof identity->why_not_armed, "%s", why);
    return !why;
}

/* What MUSTER_TIMING=channels asks for, as long as it is safe; else `full`, logged once. */
static void decide_kernels_locked(const struct muster_event_init *init)
{
    char why[128];
    bool asked = plugin.settings.timing == MUSTER_TIMING_CHANNELS || plugin.settings.trace[0];
    plugin.kernels = asked && kernels_are_safe(init, why, sizeof why);
    if (plugin.settings.timing == MUSTER_TIMING_CHANNELS && !plugin.kernels) {
        plugin.identity.timing = MUSTER_TIMING_FULL;
        muster_text_copy(plugin.identity.why_not_armed, sizeof plugin.identity.why_not_armed, why);
        muster_log(MUSTER_LOG_WARN, "MUSTER_TIMING=full instead of channels: %s", why);
    }
}

static void in_forked_child(void)
{
    muster_library_forked();
    /* Alone in the process: no order is needed. */
    struct muster_recorder *recorder = atomic_load_explicit(&plugin.recorder, memory_order_relaxed);
    if (recorder)
        muster_recorder_forked(recorder);
    muster_steering_detach();
    atomic_store_explicit(&plugin.trace, NULL, memory_order_relaxed);
    atomic_store_explicit(&plugin.failed, true, memory_order_relaxed);
}

static void open_trace(const struct muster_gpu *gpu)
{
    struct muster_err err;
    struct muster_trace_recorder *trace;
    struct muster_trace_who who = {.nccl = plugin.identity.nccl,
                                   .rank = plugin.identity.rank,
                                   .world = plugin.identity.world,
                                   .local_rank = plugin.identity.local_rank,
                                   .host = plugin.identity.host,
                                   .gpu = gpu->name};
    if (muster_trace_recorder_open(&trace, plugin.settings.trace, &who, &err) != 0)
        muster_log(MUSTER_LOG_WARN, "no trace is recorded: %s", err.text);
    else
        /* Release: pairs with the acquire in every call. */
        atomic_store_explicit(&plugin.trace, trace, memory_order_release);
}

/* A replay's machine is not the one that was recorded. */
static void start_sampler(struct muster_recorder *recorder)
{
    struct muster_err err;
    if (plugin.settings.gpus && recorder->seg->identity.replay_speed == 0 &&
        muster_sampler_start(&plugin.sampler, recorder->seg, &recorder->closed, &err) != 0)
        muster_log(MUSTER_LOG_INFO, "nothing is known of GPUs and paths: %s", err.text);
}

/* Segment, log, recorder: with the first communicator, whose id may name the run directory. */
static int start_locked(uint64_t comm_hash, const struct muster_gpu *gpu, struct muster_err *err)
{
    struct muster_seg_identity *identity = &plugin.identity;
    if (muster_run_dir_choose(identity->run_dir, sizeof identity->run_dir, plugin.settings.dir,
                              comm_hash, err) != 0)
        return -1;
    muster_text_copy(identity->gpu_name, sizeof identity->gpu_name, gpu->name);
    identity->log_enabled = plugin.settings.log_max > 0;
    bool played = identity->replay_speed != 0;
    struct muster_recorder_options options = {.timing = (enum muster_timing)identity->timing,
                                              .kernels = plugin.kernels,
                                              .probes = identity->mark,
                                              .cuda = plugin.has_cuda ? &plugin.cuda : NULL,
                                              .played = played && identity->armed,
                                              .host_times = !played,
                                              .replay =
                                                  played ? muster_process_replay_clock() : NULL,
                                              .cpus = muster_process_cpus(),
                                              .group_handles = identity->api < 5,
                                              .named_by_event = identity->api < 4};
    err->text[0] = '\0';
    switch (muster_segment_create(&options.file, plugin.settings.segment_dir, identity, err)) {
    case MUSTER_SEGMENT_DUPLICATE:
        return muster_fail(err, "another copy of muster records this process already");
    case MUSTER_SEGMENT_FAILED:
        return -1;
    case MUSTER_SEGMENT_OK:
        if (!options.file.shared)
            muster_log(MUSTER_LOG_WARN, "no live view of this process: %s", err->text);
    }
    struct muster_log_options log = {plugin.settings.log_max, plugin.settings.dir[0] != '\0'};
    if (muster_log_writer_start(&options.log, &options.file, &log, err) != 0) {
        muster_log(MUSTER_LOG_WARN, "no log is written: %s", err->text);
        options.log = NULL;
    }
    struct muster_recorder *recorder;
    if (muster_recorder_create(&recorder, &options, err) != 0)
        return -1;
    if (plugin.settings.trace[0])
        open_trace(gpu);
    struct muster_live_options live = {&recorder->options.file, &plugin.settings,
                                       &recorder->closed};
    if (muster_live_start(&live, err) != 0)
        muster_log(MUSTER_LOG_WARN, "nothing is diagnosed while the job runs: %s", err->text);
    start_sampler(recorder);
    muster_steering_attach(options.file.map, options.log);
    /* Release: pairs with the acquire in every call. */
    atomic_store_explicit(&plugin.recorder, recorder, memory_order_release);
    muster_log(MUSTER_LOG_INFO, "recording rank %d into %s, by muster %s", identity->rank,
               identity->run_dir, identity->recorded_by);
    return 0;
}

static void configure_locked(void)
{
    struct muster_err err;
    if (plugin.configured)
        return;
    plugin.configured = true;
    if (muster_settings_load(&plugin.settings, &err) != 0 && !muster_settings_was_reported(&err))
        muster_log(MUSTER_LOG_ERROR, "%s", err.text);
    muster_log_set_level((enum muster_log_level)plugin.settings.log_level);
}

const struct muster_settings *muster_plugin_settings(void)
{
    pthread_mutex_lock(&plugin.lock);
    configure_locked();
    pthread_mutex_unlock(&plugin.lock);
    return &plugin.settings;
}

static void prepare_locked(const struct muster_event_init *init, const void *caller)
{
    /* Now: v1 to v3 record from their first event on, and a child forked before it must not. */
    pthread_atfork(muster_library_fork_begins, muster_library_fork_ended, in_forked_child);
    configure_locked();
    atomic_store_explicit(&plugin.failed, plugin.settings.off, memory_order_relaxed);
    muster_identity_read(&plugin.identity);
    muster_text_copy(plugin.identity.recorded_by, sizeof plugin.identity.recorded_by,
                     MUSTER_VERSION " (" MUSTER_COMMIT ")");
    plugin.identity.nccl = muster_process_nccl(caller);
    plugin.identity.api = init->api;
    plugin.identity.timing = (uint32_t)plugin.settings.timing;
    /* Events need launches, and to know what is being captured into a graph: v5 on. */
    plugin.has_cuda =
        init->api >= 5 && plugin.identity.replay_speed == 0 && muster_process_cuda(&plugin.cuda);
    plugin.identity.mark = plugin.settings.mark && plugin.has_cuda;
    const char *gathers = getenv("NCCL_ALLGATHERV_ENABLE");
    plugin.old_broadcasts = gathers && strcmp(gathers, "0") == 0;
    decide_kernels_locked(init);
    plugin.identity.armed = decide_timed(&plugin.identity, init);
    /* Release: pairs with the acquire in needs_start. */
    atomic_store_explicit(&plugin.prepared, true, memory_order_release);
}

/* Relaxed: what else was set up comes by the recorder. */
static bool has_failed(void)
{
    return atomic_load_explicit(&plugin.failed, memory_order_relaxed);
}

/* The recorder, made if this is the first communicator; NULL: switched off or not possible, logged
 * once. */
static struct muster_recorder *recorder_for(uint64_t comm_hash, const struct muster_gpu *gpu)
{
    if (has_failed())
        return NULL;
    struct muster_recorder *recorder = atomic_load_explicit(&plugin.recorder, memory_order_acquire);
    struct muster_err err;
    if (!recorder && start_locked(comm_hash, gpu, &err) != 0) {
        atomic_store_explicit(&plugin.failed, true, memory_order_relaxed);
        muster_log(MUSTER_LOG_WARN, "nothing is recorded: %s", err.text);
    }
    return atomic_load_explicit(&plugin.recorder, memory_order_acquire);
}

static void learn_rank_locked(struct muster_recorder *recorder,
                              const struct muster_event_init *init)
{
    struct muster_seg_identity *identity = &recorder->seg->identity;
    int32_t rank = identity->rank, world = identity->world;
    if (muster_identity_learn(identity, &plugin.rank_settled, init->nranks, init->rank) ==
        MUSTER_RANK_CONTRADICTED)
        muster_log(MUSTER_LOG_WARN,
                   "the environment says rank %d of %d, a communicator rank %d of %d: this process "
                   "is recorded as the latter",
                   rank, world, init->rank, init->nranks);
}

/* NCCL would crash at this communicator's first operation (its issue 2326), and the mask is the
 * process's: this init writes it without kernels, for good. */
static void check_kernels_locked(struct muster_recorder *recorder,
                                 const struct muster_event_init *init)
{
    char why[128];
    if (!plugin.kernels || kernels_are_safe(init, why, sizeof why))
        return;
    plugin.kernels = false;
    atomic_store_explicit(&recorder->kernels, false, memory_order_relaxed);
    struct muster_seg_identity *identity = &recorder->seg->identity;
    identity->timing = MUSTER_TIMING_FULL;
    identity->armed = plugin.has_cuda;
    muster_text_copy(identity->why_not_armed, sizeof identity->why_not_armed, why);
    muster_log(MUSTER_LOG_WARN, "MUSTER_TIMING=full instead of channels from here on: %s", why);
}

/* A second NCCL in the process: it is recorded if its communicators name themselves as the first
 * one's do. */
static bool fits_locked(const struct muster_event_init *init)
{
    uint32_t first = plugin.identity.api;
    if (init->api == first || (init->api >= 4 && first >= 4))
        return true;
    if (!plugin.odd_api)
        muster_log(
            MUSTER_LOG_WARN,
            "a second NCCL in this process uses profiler interface v%u, the first v%u: it is "
            "not recorded",
            init->api, first);
    plugin.odd_api = true;
    return false;
}

void muster_plugin_init(void **context, int *mask, const struct muster_event_init *init,
                        const void *caller)
{
    struct muster_gpu gpu;
    muster_process_gpu(&gpu);
    *context = &plugin; /* not ours to any check: every call with it is a no-op */
    pthread_mutex_lock(&plugin.lock);
    if (!atomic_load_explicit(&plugin.prepared, memory_order_relaxed))
        prepare_locked(init, caller);
    bool fits = fits_locked(init);
    /* v1 to v3 name no communicator before their first event: see start_late. */
    bool unnamed = fits && init->api < 4;
    plugin.unnamed += unnamed;
    struct muster_recorder *recorder = NULL;
    if (fits && (!unnamed || muster_run_dir_known(plugin.settings.dir)))
        recorder = recorder_for(init->comm_hash, &gpu);
    if (recorder && !unnamed) {
        learn_rank_locked(recorder, init);
        check_kernels_locked(recorder, init);
        if (plugin.sampler)
            muster_sampler_add(plugin.sampler, gpu.pci);
    }
    bool off = has_failed() || !fits || (!recorder && !unnamed);
    int wanted = off ? 0 : mask_here(init->api);
    pthread_mutex_unlock(&plugin.lock);

    if (recorder && !unnamed)
        *context = muster_recorder_comm_open(recorder, init, &gpu);
    /* All communicators share the mask; others read it meanwhile, and write the same. */
    __atomic_store_n(mask, wanted, __ATOMIC_RELAXED);
    struct muster_trace_recorder *trace = atomic_load_explicit(&plugin.trace, memory_order_acquire);
    if (trace)
        muster_trace_init(trace, *context, init);
}

/* v1 to v3: the first event that names a communicator. */
static struct muster_recorder *start_late(const struct muster_event *event)
{
    if (event->kind != MUSTER_EVENT_COLL && event->kind != MUSTER_EVENT_P2P)
        return NULL;
    struct muster_gpu gpu = {.index = -1};
    pthread_mutex_lock(&plugin.lock);
    struct muster_recorder *recorder = recorder_for(event->op.comm_hash, &gpu);
    pthread_mutex_unlock(&plugin.lock);
    return recorder;
}

/* Whether the recorder is still to be made: v1 to v3, before their first event. */
static bool needs_start(void)
{
    /* Acquire: pairs with the release in prepare_locked, so that the interface is known. */
    return atomic_load_explicit(&plugin.prepared, memory_order_acquire) && !has_failed() &&
           plugin.identity.api < 4;
}

/* Before 2.28 NCCL shows no operation whose group has no handle, the first one included. */
static char group_before_start;

/* In a trace every event has a handle of its own, so that its stop and its children are seen. */
static void *handle_for_trace(const struct muster_recorder *recorder, void *handle)
{
    struct muster_handle h = muster_handle_unpack(handle);
    if (handle && h.kind != MUSTER_HANDLE_GROUP && h.kind != MUSTER_HANDLE_CALL)
        return handle;
    uint64_t n = atomic_fetch_add_explicit(&plugin.traced, 1, memory_order_relaxed);
    if (handle && h.kind == MUSTER_HANDLE_CALL)
        return muster_call_pack(h.nonce, muster_call_dtype(h), muster_call_probes(h), (uint32_t)n);
    return muster_handle_pack(recorder->nonce, MUSTER_HANDLE_GROUP, (uint32_t)(n >> 16),
                              (unsigned)n & 0xffff);
}

/* Out of muster_plugin_start, as is what follows: every event would pay for the room that they take
 * on the stack. */
static __attribute__((noinline, cold)) struct muster_recorder *
recorder_late(void **handle, const struct muster_event *event)
{
    if (!needs_start())
        return NULL;
    if (event->kind == MUSTER_EVENT_GROUP)
        *handle = &group_before_start;
    return start_late(event);
}

static __attribute__((noinline)) void start_traced(struct muster_trace_recorder *trace,
                                                   struct muster_recorder *recorder, void *context,
                                                   void **handle, const struct muster_event *event)
{
    *handle = handle_for_trace(recorder, muster_track_start(recorder, context, event));
    muster_trace_start(trace, context, *handle, event);
}

void muster_plugin_start(void *context, void **handle, const struct muster_event *event)
{
    *handle = NULL;
    /* Acquire: pairs with the release in start_locked. */
    struct muster_recorder *recorder = atomic_load_explicit(&plugin.recorder, memory_order_acquire);
    if (!recorder)
        recorder = recorder_late(handle, event);
    if (!recorder || atomic_load_explicit(&recorder->closed, memory_order_relaxed))
        return;
    struct muster_trace_recorder *trace = atomic_load_explicit(&plugin.trace, memory_order_acquire);
    if (trace)
        start_traced(trace, recorder, context, handle, event);
    else
        *handle = muster_track_start(recorder, context, event);
}

void muster_plugin_state(void *handle, unsigned state, const struct muster_event_args *args)
{
    struct muster_recorder *recorder = atomic_load_explicit(&plugin.recorder, memory_order_acquire);
    if (!recorder || !handle || atomic_load_explicit(&recorder->closed, memory_order_relaxed))
        return;
    muster_track_state(recorder, handle, state, args);
    struct muster_trace_recorder *trace = atomic_load_explicit(&plugin.trace, memory_order_acquire);
    if (trace)
        muster_trace_state(trace, handle, state, args);
}

void muster_plugin_stop(void *handle)
{
    struct muster_recorder *recorder = atomic_load_explicit(&plugin.recorder, memory_order_acquire);
    if (!recorder || !handle || atomic_load_explicit(&recorder->closed, memory_order_relaxed))
        return;
    muster_track_stop(recorder, handle);
    struct muster_trace_recorder *trace = atomic_load_explicit(&plugin.trace, memory_order_acquire);
    if (trace)
        muster_trace_stop(trace, handle);
}

void muster_plugin_fini(void *context)
{
    struct muster_recorder *recorder = atomic_load_explicit(&plugin.recorder, memory_order_acquire);
    if (!recorder || atomic_load_explicit(&recorder->closed, memory_order_relaxed))
        return;
    struct muster_trace_recorder *trace = atomic_load_explicit(&plugin.trace, memory_order_acquire);
    if (trace)
        muster_trace_fini(trace, context);
    if (plugin.identity.api >= 4) {
        muster_recorder_comm_close(recorder, context);
        return;
    }
    pthread_mutex_lock(&plugin.lock);
    /* NCCL finalizes communicators that never ran init, with NULL, and some twice: whatever is
     * still alive at the last finalize ends with it. */
    if (context && plugin.unnamed > 0)
        plugin.unnamed--;
    bool last = context && plugin.unnamed == 0;
    pthread_mutex_unlock(&plugin.lock);
    if (last)
        muster_recorder_comm_close_all(recorder);
}

/* At the process's exit (the library is never unloaded). NCCL's threads may still call: nothing is
 * freed, no thread is joined, no CUDA. */
__attribute__((destructor)) static void at_exit(void)
{
    struct muster_recorder *recorder = atomic_load_explicit(&plugin.recorder, memory_order_acquire);
    if (!recorder || getpid() != recorder->pid ||
        atomic_load_explicit(&recorder->closed, memory_order_relaxed))
        return;
    muster_trace_recorder_close(
        atomic_exchange_explicit(&plugin.trace, NULL, memory_order_acq_rel));
    muster_recorder_exit(recorder);
    muster_sampler_leave(plugin.sampler, EXIT_LOOK_MS);
    struct muster_err err;
    if (recorder->options.log)
        muster_log_writer_finish(recorder->options.log, EXIT_WRITE_MS);
    else if (recorder->options.file.shared &&
             muster_segment_archive(&recorder->options.file, &err) != 0)
        muster_log(MUSTER_LOG_WARN, "%s", err.text);
}
