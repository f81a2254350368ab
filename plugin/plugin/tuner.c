#include "plugin/tuner.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/env.h"
#include "base/log.h"
#include "config/document.h"
#include "nccl/nccl_names.h"
#include "nccl/profiler_hooks.h"
#include "nccl/tuner_hooks.h"
#include "policy/policy.h"

enum { FUNCS = 16 };

/* From here on a Broadcast's channels are asked for as an AllGather's and taken unclamped
 * (scheduler/allgatherv_sched.cc). */
enum { NCCL_UNBOUNDED_ALL_GATHER = 22902 };

/* Communicators that are alike to a policy share one; it is the context that NCCL holds, so that a
 * stale one does no harm. */
struct shape {
    struct shape *next;
    struct muster_steering_init init;
    struct muster_frozen *frozen;
    const struct muster_advice *advice;
    uint8_t func[FUNCS];          /* enum muster_func of NCCL's numbers */
    uint8_t channel_limit[FUNCS]; /* most channels that NCCL bounds by those it has */
};

static struct {
    pthread_mutex_t lock; /* set-up */
    bool loaded;
    bool logged_domains, logged_v2, logged_environment, logged_stale;
    struct muster_document document;
    struct muster_policy *policy; /* NULL: nothing to decide */
    struct shape *shapes;
    struct muster_artifact *text; /* of the policy, until somebody keeps it */
    struct muster_log_writer *log;
    struct muster_seg_policy local; /* until there is a segment */
    _Atomic(struct muster_seg_policy *) counters;
} steering = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct shape nothing_to_decide;

static struct muster_seg_policy *counters(void)
{
    /* Acquire: pairs with the release in muster_steering_attach. */
    struct muster_seg_policy *block =
        atomic_load_explicit(&steering.counters, memory_order_acquire);
    return block ? block : &steering.local;
}

static void set_state(enum muster_policy_state state)
{
    atomic_store_explicit(&counters()->state, (uint32_t)state, memory_order_release);
}

/* ---- Reading the policy ---- */

static void log_message(void *to, const struct muster_policy_message *message)
{
    char text[1700];
    (void)to;
    muster_policy_message_print(text, sizeof(text), message);
    muster_log(message->warning ? MUSTER_LOG_WARN : MUSTER_LOG_ERROR, "%s", text);
}

static const char what_it_risks[] =
    "where other ranks steer, operations that they choose differently hang";

static bool is_expected(const struct muster_policy *policy, const char *expected)
{
    char hex[MUSTER_POLICY_HEX];
    if (policy)
        muster_policy_hex(hex, policy->sha256);
    if (policy && strcasecmp(hex, expected) == 0)
        return true;
    muster_log(MUSTER_LOG_ERROR,
               "MUSTER_POLICY_SHA256 is %.64s, %s%s: the tuner stays off in this process; %s",
               expected, policy ? "the policy's hash is " : "there is no policy", policy ? hex : "",
               what_it_risks);
    return false;
}

static void name_rules(struct muster_seg_policy *block, const struct muster_policy *policy)
{
    for (unsigned i = 0; i < policy->rules; i++) {
        struct muster_seg_rule *entry = &block->rule[muster_seg_rule_entry(i)];
        bool shared = i >= MUSTER_SEG_RULES;
        entry->line = shared ? 0 : policy->rule[i].place.line;
        memcpy(entry->name, shared ? "other" : policy->rule[i].name,
               shared ? sizeof("other") : sizeof(entry->name));
    }
    block->rules = policy->rules;
    memcpy(block->sha256, policy->sha256, sizeof(block->sha256));
}

static void keep_text_locked(void)
{
    if (steering.log && steering.text && muster_log_writer_keep(steering.log, steering.text))
        steering.text = NULL;
}

static void take_text_locked(const char *hex)
{
    char name[40];
    snprintf(name, sizeof(name), "policy-%.8s.yaml", hex);
    steering.text = muster_artifact_new(name, steering.document.text, steering.document.bytes);
    keep_text_locked();
}

static void start_locked(struct muster_policy *policy)
{
    char hex[MUSTER_POLICY_HEX];
    name_rules(counters(), policy);
    if (policy->rules == 0) {
        muster_policy_free(policy);
        return;
    }
    steering.policy = policy;
    set_state(MUSTER_POLICY_ACTIVE);
    muster_policy_hex(hex, policy->sha256);
    muster_log(MUSTER_LOG_INFO, "policy %s: %u rules, SHA-256 %s", steering.document.name,
               policy->rules, hex);
    take_text_locked(hex);
}

static void load_locked(void)
{
    struct muster_err err;
    struct muster_policy *policy = NULL;
    const char *expected = muster_env("MUSTER_POLICY_SHA256");
    steering.loaded = true;
    if (muster_document_of_policy(&steering.document, &err) != 0) {
        set_state(MUSTER_POLICY_INVALID);
        muster_log(MUSTER_LOG_ERROR, "no policy: %s: the tuner stays off in this process; %s",
                   err.text, what_it_risks);
    } else if (steering.document.text &&
               muster_policy_parse(&policy, steering.document.name, steering.document.text,
                                   steering.document.bytes, log_message, NULL) != 0) {
        set_state(MUSTER_POLICY_INVALID);
        muster_log(MUSTER_LOG_ERROR, "the policy has errors and is off as a whole; %s",
                   what_it_risks);
    } else if (expected && !is_expected(policy, expected)) {
        set_state(MUSTER_POLICY_REFUSED);
        muster_policy_free(policy);
    } else if (policy) {
        start_locked(policy);
    }
    muster_document_free(&steering.document);
}

/* ---- Communicators ---- */

static bool is_shape(const struct shape *shape, const struct muster_steering_init *init)
{
    return shape->init.api == init->api && shape->init.ranks == init->ranks &&
           shape->init.nodes == init->nodes && shape->init.nvlink_domains == init->nvlink_domains &&
           shape->init.nccl == init->nccl;
}

static unsigned channel_limit(const struct muster_steering_init *init, unsigned func)
{
    bool unbounded =
        init->api >= 6 ||
        (init->api == 5 && (init->nccl == 0 || init->nccl >= NCCL_UNBOUNDED_ALL_GATHER));
    return func == MUSTER_FUNC_ALL_GATHER && unbounded ? 1 : MUSTER_POLICY_CHANNELS;
}

static struct shape *make_shape(const struct muster_steering_init *init)
{
    struct shape *shape = calloc(1, sizeof(*shape));
    struct muster_query comm = {
        .ranks = init->ranks, .nodes = init->nodes, .nvlink_domains = init->nvlink_domains};
    if (!shape || muster_policy_freeze(&shape->frozen, steering.policy, &comm) != 0) {
        free(shape);
        muster_log(MUSTER_LOG_ERROR, "out of memory for the policy: a communicator is not steered; "
                                     "where other ranks steer it, it hangs");
        return &nothing_to_decide;
    }
    shape->init = *init;
    shape->advice = steering.policy->advice;
    for (unsigned number = 0; number < FUNCS; number++) {
        shape->func[number] = muster_names_of_number(MUSTER_NAMES_FUNC, number);
        shape->channel_limit[number] = (uint8_t)channel_limit(init, shape->func[number]);
    }
    shape->next = steering.shapes;
    steering.shapes = shape;
    return shape;
}

static void log_once(bool *logged, bool condition, const char *text)
{
    if (condition && !*logged) {
        *logged = true;
        muster_log(MUSTER_LOG_WARN, "%s", text);
    }
}

static void log_limits(const struct muster_steering_init *init)
{
    log_once(&steering.logged_v2, init->api < 3,
             "this NCCL's tuner interface has no cost table: the policy steers nothing");
    log_once(&steering.logged_domains, init->api < 5 && steering.policy->matches_nvlink_domains,
             "this NCCL does not tell NVLink domains: rules that match nvlink_domains never do");
    log_once(&steering.logged_environment, getenv("NCCL_ALGO") || getenv("NCCL_PROTO"),
             "NCCL_ALGO or NCCL_PROTO is set: what it rules out stays so, the policy acts on the "
             "rest");
    log_once(&steering.logged_stale, muster_document_is_stale(&steering.document),
             "the file with the policy has changed: this process stays with what it read first");
}

static struct shape *open_locked(const struct muster_steering_init *init)
{
    if (!steering.loaded)
        load_locked();
    counters()->tuner_api = init->api;
    if (!steering.policy)
        return &nothing_to_decide;
    log_limits(init);
    for (struct shape *shape = steering.shapes; shape; shape = shape->next)
        if (is_shape(shape, init))
            return shape;
    return make_shape(init);
}

void *muster_steering_open(const struct muster_steering_init *init)
{
    if (muster_plugin_settings()->off)
        return &nothing_to_decide;
    pthread_mutex_lock(&steering.lock);
    struct shape *shape = open_locked(init);
    pthread_mutex_unlock(&steering.lock);
    return shape;
}

void muster_steering_decide(void *context, const struct muster_steering_call *call)
{
    const struct shape *shape = context;
    if (!shape || !shape->frozen || call->func >= FUNCS)
        return;
    int rule = muster_frozen_decide(shape->frozen, shape->func[call->func], call->bytes,
                                    call->pipe_ops > 0 ? (uint64_t)call->pipe_ops : 0);
    if (rule < 0)
        return;
    struct muster_seg_rule *entry = &counters()->rule[muster_seg_rule_entry((uint32_t)rule)];
    atomic_fetch_add_explicit(&entry->hits, 1, memory_order_relaxed);
    struct muster_cost_table table = {call->cost, 0, 0};
    if (call->cost && call->algos > 0 && call->protos > 0) {
        table.algos = (unsigned)call->algos;
        table.protos = (unsigned)call->protos;
    }
    int channels = 0;
    enum muster_applied applied = muster_policy_apply(&shape->advice[rule], &table,
                                                      shape->channel_limit[call->func], &channels);
    if (channels && call->channels)
        *call->channels = channels;
    if (applied == MUSTER_APPLIED_NOT_OFFERED)
        atomic_fetch_add_explicit(&entry->not_offered, 1, memory_order_relaxed);
}

/* ---- The segment ---- */

/* Whether there is a policy that the tuner would read, loaded or not. */
static bool is_configured_locked(void)
{
    struct muster_document document;
    struct muster_policy *policy = NULL;
    if (steering.loaded)
        return steering.policy ||
               atomic_load_explicit(&counters()->state, memory_order_relaxed) != MUSTER_POLICY_NONE;
    if (muster_document_of_policy(&document, NULL) != 0 || !document.text)
        return false;
    bool valid =
        muster_policy_parse(&policy, document.name, document.text, document.bytes, NULL, NULL) == 0;
    bool configured = !valid || policy->rules > 0;
    muster_policy_free(policy);
    muster_document_free(&document);
    return configured;
}

void muster_steering_attach(struct muster_segment *segment, struct muster_log_writer *log)
{
    pthread_mutex_lock(&steering.lock);
    steering.log = log;
    keep_text_locked();
    atomic_store_explicit(&segment->policy.configured, is_configured_locked(),
                          memory_order_relaxed);
    struct muster_seg_policy *from = counters(), *to = &segment->policy;
    to->rules = from->rules;
    to->tuner_api = from->tuner_api;
    memcpy(to->sha256, from->sha256, sizeof(to->sha256));
    for (unsigned i = 0; i < MUSTER_SEG_RULES; i++) {
        memcpy(to->rule[i].name, from->rule[i].name, sizeof(to->rule[i].name));
        to->rule[i].line = from->rule[i].line;
        atomic_store_explicit(&to->rule[i].hits,
                              atomic_load_explicit(&from->rule[i].hits, memory_order_relaxed),
                              memory_order_relaxed);
        atomic_store_explicit(
            &to->rule[i].not_offered,
            atomic_load_explicit(&from->rule[i].not_offered, memory_order_relaxed),
            memory_order_relaxed);
    }
    /* Release: pairs with the acquire in counters(). */
    atomic_store_explicit(&steering.counters, to, memory_order_release);
    set_state((enum muster_policy_state)atomic_load_explicit(&from->state, memory_order_relaxed));
    pthread_mutex_unlock(&steering.lock);
}

void muster_steering_detach(void)
{
    atomic_store_explicit(&steering.counters, NULL, memory_order_release);
    steering.log = NULL;
}
