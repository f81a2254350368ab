/*
 * Playing: which calls a plugin gets for which mask, in each generation of NCCL. The functions of
 * replay/replay_driver.h are replaced by ones that write down what they are told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "replay/replay_driver.h"
#include "replay/replay_play.h"

#define BIT(kind) (1 << MUSTER_EVENT_##kind)

static const char *const names[MUSTER_EVENT_KINDS] = {
    "Group",    "Coll",      "P2p",      "ProxyOp",    "ProxyStep", "ProxyCtrl",
    "KernelCh", "NetPlugin", "GroupApi", "CollApi",    "P2pApi",    "Launch",
    "CeColl",   "CeSync",    "CeBatch",  "KernelPhase"};

/* ---- the plugin ---- */

static char written[4096]; /* "Coll3<2 ": start of a Coll, handle 3, parent 2 */
static int *mask;          /* the process's */
static int first_mask;     /* set by init */
static int next_mask;      /* set by the start of `change_at`; -1: leave it */
static unsigned change_at;
static unsigned refused; /* kinds that get a NULL handle */
static uintptr_t handles;
static pid_t proxy_pid;

__attribute__((format(printf, 1, 2))) static void put(const char *fmt, ...)
{
    va_list args;
    size_t used = strlen(written);
    va_start(args, fmt);
    vsnprintf(written + used, sizeof written - used, fmt, args);
    va_end(args);
}

int muster_driver_init(const struct muster_driver *driver, void **context, int *live,
                       const struct muster_event_init *init)
{
    (void)driver;
    (void)init;
    *context = &handles;
    mask = live;
    *mask = first_mask;
    return 0;
}

int muster_driver_start(const struct muster_driver *driver, void *context, void **handle,
                        const struct muster_event *event)
{
    (void)driver;
    (void)context;
    *handle = refused & 1u << event->kind ? NULL : (void *)++handles;
    put("%s%lu<%lu", names[event->kind], (unsigned long)*handle, (unsigned long)event->parent);
    if ((event->kind == MUSTER_EVENT_COLL || event->kind == MUSTER_EVENT_P2P) &&
        event->op.parent_group) {
        put("/%lu", (unsigned long)event->op.parent_group);
    }
    put(" ");
    if (event->kind == change_at && next_mask >= 0) {
        *mask = next_mask;
        next_mask = -1;
    }
    if (event->kind == MUSTER_EVENT_PROXY_OP)
        proxy_pid = event->proxy_op.pid;
    return 0;
}

int muster_driver_state(const struct muster_driver *driver, void *handle, unsigned state,
                        const struct muster_event_args *args)
{
    (void)driver;
    (void)args;
    put("state%u@%lu ", state, (unsigned long)handle);
    return 0;
}

int muster_driver_stop(const struct muster_driver *driver, void *handle)
{
    (void)driver;
    put("-%lu ", (unsigned long)handle);
    return 0;
}

int muster_driver_fini(const struct muster_driver *driver, void *context)
{
    (void)driver;
    put(context ? "fini" : "fini(NULL)");
    return 0;
}

/* ---- traces, as short words: "GroupApi:1 CollApi:2<1" starts, "-2" stops, "!3" state 22 ---- */

struct script {
    char text[16384];
    size_t used;
    uint64_t t;
};

__attribute__((format(printf, 2, 3))) static void add(struct script *script, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    script->used += (size_t)vsnprintf(script->text + script->used,
                                      sizeof script->text - script->used, fmt, args);
    va_end(args);
}

static unsigned kind_of(const char *word)
{
    size_t letters = strcspn(word, ":*");
    for (unsigned kind = 0; kind < MUSTER_EVENT_KINDS; kind++)
        if (strlen(names[kind]) == letters && strncmp(names[kind], word, letters) == 0)
            return kind;
    fail_msg("no event %s", word);
    return 0;
}

/* "Kind[*]:handle[<parent][/group]"; * is captured into a graph. */
static void add_start(struct script *script, const char *word)
{
    unsigned kind = kind_of(word);
    unsigned long handle = strtoul(strchr(word, ':') + 1, NULL, 10);
    const char *parent = strchr(word, '<'), *group = strchr(word, '/');
    add(script, "{\"t\":%lu,\"tid\":1,\"op\":\"start\",\"ctx\":1,\"h\":%lu,\"type\":%u,",
        (unsigned long)script->t, handle, 1u << kind);
    add(script, "\"parent\":%lu,\"pgroup\":%lu,", parent ? strtoul(parent + 1, NULL, 10) : 0,
        group ? strtoul(group + 1, NULL, 10) : 0);
    add(script,
        "\"func\":\"AllReduce\",\"count\":1,\"dt\":\"ncclInt8\",\"root\":0,\"peer\":0,\"rank\":0,"
        "\"seq\":0,\"nch\":1,\"nwarps\":1,\"algo\":\"RING\",\"proto\":\"LL\",\"stream\":\"(nil)\","
        "\"graph\":%d,\"depth\":1,\"ch\":0,\"ptimer\":1,\"pid\":5628,\"nsteps\":1,\"chunk\":1,"
        "\"send\":1,\"step\":0,\"id\":1,\"comm\":\"1\",\"name\":null,\"traffic\":1,\"n\":1,"
        "\"bytes\":1,\"phase\":0}\n",
        strchr(word, '*') != NULL);
}

static unsigned kinds[64]; /* by handle */

static void add_word(struct script *script, const char *word)
{
    if (strcmp(word, "fini") == 0) {
        add(script, "{\"t\":%lu,\"tid\":1,\"op\":\"fini\",\"ctx\":1}\n", (unsigned long)script->t);
    } else if (word[0] == '-' || word[0] == '!') {
        unsigned long handle = strtoul(word + 1, NULL, 10);
        add(script, "{\"t\":%lu,\"tid\":1,\"op\":\"%s\",\"h\":%lu,\"type\":%u%s}\n",
            (unsigned long)script->t, word[0] == '-' ? "stop" : "state", handle,
            1u << kinds[handle], word[0] == '-' ? "" : ",\"state\":22,\"ptimer\":2");
    } else {
        kinds[strtoul(strchr(word, ':') + 1, NULL, 10)] = kind_of(word);
        add_start(script, word);
    }
    script->t += MUSTER_NS_PER_MS;
}

static struct muster_trace trace;

static void write_trace(unsigned api, const char *words)
{
    static struct script script;
    struct muster_err err;
    bool truncated;
    char copy[1024], *rest = copy, *word;
    script = (struct script){.t = 1000};
    add(&script,
        "{\"op\":\"meta\",\"format\":1,\"api\":%u,\"nccl\":22809,\"rank\":0,\"nranks\":1,"
        "\"host\":\"\",\"local_rank\":0,\"gpu\":\"\"}\n"
        "{\"t\":1000,\"tid\":1,\"op\":\"init\",\"ctx\":1,\"comm\":\"1\",\"name\":null,"
        "\"nNodes\":1,\"nranks\":1,\"rank\":0}\n",
        api);
    snprintf(copy, sizeof copy, "%s", words);
    while ((word = strsep(&rest, " ")))
        add_word(&script, word);
    if (muster_trace_parse("test", script.text, script.used, &trace, &truncated, &err))
        fail_msg("%s", err.text);
}

static int live; /* the process's mask */

static void play_at(unsigned api, struct muster_play *play)
{
    struct muster_driver driver = {.name = "test", .api = api};
    struct muster_err err;
    play->mask = &live;
    written[0] = '\0';
    handles = 0;
    if (muster_trace_play(&trace, &driver, play, &err))
        fail_msg("%s", err.text);
    muster_trace_free(&trace);
}

static void play(unsigned api, int plugin_mask, const char *words)
{
    struct muster_play at_once = {.speed = 0};
    first_mask = plugin_mask;
    write_trace(api, words);
    play_at(api, &at_once);
}

static int nothing_special(void **state)
{
    (void)state;
    next_mask = -1;
    refused = 0;
    change_at = 0;
    return 0;
}

/* One eager collective as 2.28 tells it; handles are renumbered by the plugin from 1. */
#define EAGER                                                                                      \
    "GroupApi:1 CollApi:2<1 -2 Launch:3<1 -3 Group:4 Coll:5<2/4 -5 -4 -1 "                         \
    "KernelCh:6<5 !6 -6 ProxyOp:7<5 ProxyStep:8<7 -8 -7 fini"
/* The same in 2.23 to 2.27. */
#define OLD "Group:4 Coll:5<4 -5 -4 ProxyOp:7<5 ProxyStep:8<7 -8 -7 fini"

static void all_that_is_asked_for(void **state)
{
    (void)state;
    play(5, 0xfff, EAGER);
    assert_string_equal(written,
                        "GroupApi1<0 CollApi2<1 -2 Launch3<1 -3 Group4<0 Coll5<2/4 -5 -4 -1 "
                        "KernelCh6<5 state22@6 -6 ProxyOp7<5 ProxyStep8<7 -8 -7 fini");
    play(5, 0, EAGER);
    assert_string_equal(written, "fini");
}

static void children_bring_their_ancestors(void **state)
{
    (void)state;
    play(5, BIT(KERNEL_CH), EAGER);
    assert_string_equal(written, "GroupApi1<0 CollApi2<1 -2 Group3<0 Coll4<2/3 -4 -3 -1 "
                                 "KernelCh5<4 state22@5 -5 fini");
    play(5, BIT(PROXY_STEP), EAGER);
    assert_string_equal(written, "GroupApi1<0 CollApi2<1 -2 Group3<0 Coll4<2/3 -4 -3 -1 "
                                 "ProxyOp5<4 ProxyStep6<5 -6 -5 fini");
    play(5, BIT(KERNEL_LAUNCH), EAGER);
    assert_string_equal(written, "GroupApi1<0 Launch2<1 -2 -1 fini");
    play(5, BIT(COLL_API), EAGER);
    assert_string_equal(written, "GroupApi1<0 CollApi2<1 -2 -1 fini");
}

static void bits_that_a_version_does_not_know(void **state)
{
    (void)state;
    play(2, BIT(KERNEL_CH) | BIT(COLL_API), OLD);
    assert_string_equal(written, "fini");
    play(4, BIT(GROUP_API), OLD);
    assert_string_equal(written, "fini");
}

static void null_handles(void **state)
{
    (void)state;
    refused = BIT(GROUP_API) | BIT(COLL_API) | BIT(GROUP) | BIT(PROXY_OP);
    play(5, 0xfff, EAGER);
    assert_string_equal(written, "GroupApi0<0 CollApi0<0 Launch1<0 -1 Group0<0 Coll2<0 -2 "
                                 "KernelCh3<2 state22@3 -3 ProxyOp0<2 ProxyStep4<0 -4 fini");
    /* up to 2.27 a group without a handle has no operations, a proxy operation without one no steps
     */
    play(4, 0xff, OLD);
    assert_string_equal(written, "Group0<0 ProxyOp0<0 fini");
    play(1, 0x3f, OLD);
    assert_string_equal(written, "Group0<0 ProxyOp0<0 fini");
}

static void old_versions_stop_null(void **state)
{
    (void)state;
    refused = BIT(COLL);
    play(2, BIT(COLL), OLD);
    assert_string_equal(written, "Group1<0 Coll0<1 -0 -1 fini");
    play(3, BIT(COLL), OLD);
    assert_string_equal(written, "Group1<0 Coll0<1 -1 fini");
}

static void p2p_alone_gives_no_operations_before_2_26(void **state)
{
    (void)state;
    play(1, BIT(P2P), "Group:1 P2p:2<1 -2 -1");
    assert_string_equal(written, "Group1<0 -1 ");
    play(3, BIT(P2P), "Group:1 P2p:2<1 -2 -1");
    assert_string_equal(written, "Group1<0 P2p2<1 -2 -1 ");
}

#define TWO_GROUPED                                                                                \
    "GroupApi:1 CollApi:2<1 -2 CollApi:3<1 -3 Group:4 Coll:5<2/4 Coll:6<3/4 -5 -6 -4 -1 "          \
    "KernelCh:7<5 -7 KernelCh:8<6 -8"

/* The mask is read at the call of every operation and kept for it and all below. */
static void new_versions_keep_the_mask_of_the_call(void **state)
{
    (void)state;
    change_at = MUSTER_EVENT_GROUP_API; /* too late for the first operation */
    next_mask = BIT(COLL) | BIT(KERNEL_CH);
    play(5, BIT(COLL), TWO_GROUPED);
    assert_string_equal(written, "GroupApi1<0 CollApi2<1 -2 CollApi3<1 -3 Group4<0 Coll5<2/4 "
                                 "Coll6<3/4 -5 -6 -4 -1 KernelCh7<6 -7 ");
    change_at = MUSTER_EVENT_COLL_API;
    next_mask = 0;
    play(5, BIT(COLL) | BIT(KERNEL_CH), TWO_GROUPED);
    assert_string_equal(written, "GroupApi1<0 CollApi2<1 -2 Group3<0 Coll4<2/3 -4 -3 -1 "
                                 "KernelCh5<4 -5 ");
}

static void old_versions_read_at_the_group(void **state)
{
    (void)state;
    change_at = MUSTER_EVENT_GROUP; /* too late for this group */
    next_mask = BIT(COLL);
    play(2, BIT(COLL) | BIT(PROXY_STEP), OLD);
    assert_string_equal(written, "Group1<0 Coll2<1 -2 -1 ProxyOp3<2 ProxyStep4<3 -4 -3 fini");
    change_at = MUSTER_EVENT_COLL;
    next_mask = 0;
    play(4, BIT(COLL) | BIT(PROXY_OP),
         "Group:1 Coll:2<1 -2 Coll:3<1 -3 -1 ProxyOp:4<3 -4 "
         "Group:5 Coll:6<5 -6 -5");
    assert_string_equal(written, "Group1<0 Coll2<1 -2 Coll3<1 -3 -1 ProxyOp4<3 -4 ");
}

static void live_reading(void **state)
{
    (void)state;
    change_at = MUSTER_EVENT_PROXY_CTRL;
    next_mask = 0;
    play(6, BIT(PROXY_CTRL), "ProxyCtrl:1 -1 ProxyCtrl:2 -2");
    assert_string_equal(written, "ProxyCtrl1<0 -1 ");
    play(6, BIT(CE_SYNC),
         "GroupApi:1 CollApi:2<1 -2 CeColl:3<2 CeSync:4<3 -4 CeBatch:5<3 -5 -3 -1");
    assert_string_equal(written, "GroupApi1<0 CollApi2<1 -2 CeColl3<2 CeSync4<3 -4 -3 -1 ");
}

#define REPLAYED                                                                                   \
    "GroupApi:1 CollApi*:2<1 -2 Launch:3<1 -3 -1 Group:4 Coll:5<2/4 -5 -4 KernelCh:6<5 -6 "        \
    "Group:7 Coll:8<2/7 -8 -7 KernelCh:9<8 -9"

static void graphs_keep_the_mask_of_the_capture(void **state)
{
    (void)state;
    change_at = MUSTER_EVENT_KERNEL_LAUNCH;
    next_mask = BIT(COLL);
    play(5, BIT(COLL) | BIT(KERNEL_CH) | BIT(KERNEL_LAUNCH), REPLAYED);
    assert_string_equal(written,
                        "GroupApi1<0 CollApi2<1 -2 Launch3<1 -3 -1 Group4<0 Coll5<2/4 -5 -4 "
                        "KernelCh6<5 -6 Group7<0 Coll8<2/7 -8 -7 KernelCh9<8 -9 ");
    change_at = MUSTER_EVENT_COLL_API;
    next_mask = BIT(COLL) | BIT(KERNEL_CH);
    play(5, BIT(COLL), REPLAYED);
    assert_string_equal(written, "GroupApi1<0 CollApi2<1 -2 -1 Group3<0 Coll4<2/3 -4 -3 "
                                 "Group5<0 Coll6<2/5 -6 -5 ");
}

static void proxies_get_this_process(void **state)
{
    (void)state;
    play(5, 0xfff, EAGER);
    assert_int_equal(proxy_pid, getpid());
    /* another process's operation, which this one only carries (PXN) */
    play(5, 0xfff, "ProxyOp:1 -1");
    assert_int_equal(proxy_pid, 5628);
}

static void counts_progress(void **state)
{
    (void)state;
    struct muster_play_progress progress = {0};
    struct muster_play at_once = {.progress = &progress};
    first_mask = 0xfff;
    write_trace(5, TWO_GROUPED);
    play_at(5, &at_once);
    assert_int_equal(progress.entered, 2);
    assert_int_equal(progress.returned, 2);
}

/* Only lower bounds: a busy machine may be late, but never early. */
static void keeps_the_gaps(void **state)
{
    (void)state;
    uint64_t begin = muster_now_ns();
    struct muster_play slow = {.speed = 2, .epoch_ns = 1000, .start_ns = begin};
    first_mask = 0xfff;
    write_trace(5, EAGER); /* 18 calls, 1 ms apart */
    size_t calls = trace.calls;
    play_at(5, &slow);
    assert_true(muster_now_ns() - begin >= (calls - 2) * MUSTER_NS_PER_MS / 2);
}

/* The player has long been late here, as on a machine that is busy: the plugin still hears when the
 * last call came, to the nanosecond. */
static void tells_when_each_call_came(void **state)
{
    (void)state;
    uint64_t begin = muster_now_ns() - MUSTER_NS_PER_S, replay_ns = 0;
    struct muster_play late = {
        .speed = 2, .epoch_ns = 1000, .start_ns = begin, .replay_ns = &replay_ns};
    first_mask = 0xfff;
    write_trace(5, EAGER);
    uint64_t last_ns = trace.call[trace.calls - 1].t_ns;
    play_at(5, &late);
    assert_int_equal(replay_ns, begin + (last_ns - 1000) / 2);
}

static void holds_before_finalizing(void **state)
{
    (void)state;
    uint64_t begin = muster_now_ns();
    struct muster_play held = {.hold_ns = 30 * MUSTER_NS_PER_MS};
    first_mask = 0;
    write_trace(5, EAGER);
    play_at(5, &held);
    assert_true(muster_now_ns() - begin >= held.hold_ns);
    assert_string_equal(written, "fini");
}

#define TEST(name) cmocka_unit_test_setup(name, nothing_special)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_that_is_asked_for),
        TEST(children_bring_their_ancestors),
        TEST(bits_that_a_version_does_not_know),
        TEST(null_handles),
        TEST(old_versions_stop_null),
        TEST(p2p_alone_gives_no_operations_before_2_26),
        TEST(new_versions_keep_the_mask_of_the_call),
        TEST(old_versions_read_at_the_group),
        TEST(live_reading),
        TEST(graphs_keep_the_mask_of_the_capture),
        TEST(proxies_get_this_process),
        TEST(counts_progress),
        TEST(keeps_the_gaps),
        TEST(tells_when_each_call_came),
        TEST(holds_before_finalizing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
