/* Recording: what is recorded reads back the same, in every interface version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <signal.h>

#include "base/log.h"
#include "trace/handle_ids.h"
#include "trace/trace.h"
#include "trace/trace_record.h"

static char folder[] = "/tmp/muster-record-XXXXXX";
static char path[sizeof folder + 32];

static const struct muster_trace_who who = {
    .nccl = 22809, .rank = 0, .world = 4, .local_rank = 0, .host = "node0", .gpu = "NVIDIA H200"};
static const struct muster_event_init comm = {
    .comm_hash = 0xf0c30a538feb7f72, .name = "dp \"0\"", .nnodes = 2, .nranks = 4, .rank = 1};

/* Handles and contexts are identities: any address will do. */
static void *at(uintptr_t number)
{
    return (void *)(number << 12);
}

static struct muster_trace_recorder *record(unsigned api)
{
    struct muster_trace_recorder *recorder;
    struct muster_event_init init = comm;
    init.api = api;
    assert_int_equal(muster_trace_recorder_open(&recorder, folder, &who, NULL), 0);
    muster_trace_init(recorder, at(1), &init);
    return recorder;
}

static struct muster_trace read_back(struct muster_trace_recorder *recorder)
{
    struct muster_trace trace;
    struct muster_err err;
    bool truncated;
    muster_trace_recorder_close(recorder);
    if (muster_trace_read(path, &trace, &truncated, &err))
        fail_msg("%s", err.text);
    assert_false(truncated);
    unlink(path);
    return trace;
}

static struct muster_event collective(void)
{
    return (struct muster_event){
        .kind = MUSTER_EVENT_COLL,
        .rank = 1,
        .parent = at(2),
        .op = {.comm_hash = 0xabc,
               .comm_name = "tp",
               .count = UINT64_MAX,
               .seq = 77,
               .traffic_bytes = 9,
               .func_text = "AllReduce",
               .dtype_text = "ncclFloat32",
               .algo_text = "RING",
               .proto_text = "LL128",
               .root_or_peer = -5,
               .channels = 24,
               .warps = 20,
               .parent_group = at(2)},
    };
}

static void writes_what_the_recordings_have(void **state)
{
    (void)state;
    struct muster_trace_recorder *recorder = record(5);
    muster_trace_recorder_close(recorder);
    FILE *file = fopen(path, "r");
    char line[512];
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "{\"op\":\"meta\",\"format\":1,\"api\":5,\"nccl\":22809,\"rank\":0,"
                              "\"nranks\":4,\"host\":\"node0\",\"local_rank\":0,"
                              "\"gpu\":\"NVIDIA H200\"}\n");
    assert_non_null(fgets(line, sizeof line, file));
    assert_non_null(strstr(line,
                           "\"op\":\"init\",\"ctx\":1,\"comm\":\"f0c30a538feb7f72\","
                           "\"name\":\"dp \\\"0\\\"\",\"nNodes\":2,\"nranks\":4,\"rank\":1}"));
    fclose(file);
    unlink(path);
}

/* A parent, a collective, and one event of `kind` below it. */
static void round_trip(unsigned api, struct muster_event *event,
                       void (*check)(unsigned api, const struct muster_trace_call *call))
{
    struct muster_trace_recorder *recorder = record(api);
    struct muster_event group = {.kind = MUSTER_EVENT_GROUP};
    muster_trace_start(recorder, at(1), at(2), &group);
    muster_trace_start(recorder, at(1), at(3), event);
    muster_trace_stop(recorder, at(3));
    muster_trace_fini(recorder, at(1));
    struct muster_trace trace = read_back(recorder);
    assert_int_equal(trace.meta.api, api);
    assert_int_equal(trace.calls, 5);
    assert_int_equal(trace.call[2].kind, event->kind);
    assert_int_equal(trace.call[2].ctx, 1);
    assert_int_equal(trace.call[2].handle, 2);
    check(api, &trace.call[2]);
    assert_int_equal(trace.call[3].op, MUSTER_TRACE_STOP);
    assert_int_equal(trace.call[4].op, MUSTER_TRACE_FINI);
    muster_trace_free(&trace);
}

static void check_collective(unsigned api, const struct muster_trace_call *call)
{
    const struct muster_event_op *op = &call->event.op;
    assert_int_equal(call->parent, 1);
    assert_int_equal(call->parent_group, api >= 5 ? 1 : 0);
    assert_true(op->count == UINT64_MAX);
    assert_int_equal(op->seq, 77);
    assert_string_equal(op->func_text, "AllReduce");
    assert_string_equal(op->algo_text, "RING");
    assert_int_equal(op->root_or_peer, -5);
    assert_int_equal(op->comm_hash, api <= 3 ? 0xabc : 0);
    assert_int_equal(op->traffic_bytes, api <= 2 ? 9 : 0);
}

static void collectives_round_trip(void **state)
{
    (void)state;
    for (unsigned api = 1; api <= 7; api++) {
        struct muster_event event = collective();
        round_trip(api, &event, check_collective);
    }
}

static void check_proxy(unsigned api, const struct muster_trace_call *call)
{
    (void)api;
    assert_int_equal(call->event.proxy_op.pid, 4242);
    assert_int_equal(call->event.proxy_op.peer, 3);
    assert_int_equal(call->event.proxy_op.steps, 12);
    assert_int_equal(call->event.proxy_op.chunk, 1 << 20);
    assert_int_equal(call->event.proxy_op.send, 1);
}

static void check_phase(unsigned api, const struct muster_trace_call *call)
{
    (void)api;
    assert_int_equal(call->event.kernel_ch.channel, 9);
    assert_int_equal(call->event.kernel_ch.phase, 2);
    assert_int_equal(call->event.kernel_ch.ptimer, 123);
}

static void check_ce(unsigned api, const struct muster_trace_call *call)
{
    (void)api;
    assert_int_equal(call->event.ce.n, 6);
    assert_int_equal(call->event.ce.bytes, 1 << 20);
}

static void check_call(unsigned api, const struct muster_trace_call *call)
{
    (void)api;
    assert_ptr_equal(call->event.op.stream, at(5));
    assert_true(call->event.op.graph);
    assert_null(call->event.op.dtype_text);
}

static void other_events_round_trip(void **state)
{
    (void)state;
    struct muster_event proxy = {
        .kind = MUSTER_EVENT_PROXY_OP,
        .proxy_op = {
            .pid = 4242, .channel = 1, .peer = 3, .steps = 12, .chunk = 1 << 20, .send = 1}};
    struct muster_event phase = {.kind = MUSTER_EVENT_KERNEL_PHASE,
                                 .kernel_ch = {.channel = 9, .phase = 2, .ptimer = 123}};
    struct muster_event batch = {.kind = MUSTER_EVENT_CE_BATCH, .ce = {.n = 6, .bytes = 1 << 20}};
    struct muster_event call = {
        .kind = MUSTER_EVENT_COLL_API,
        .op = {.func_text = "AllReduce", .count = 8, .stream = at(5), .graph = true}};
    round_trip(1, &proxy, check_proxy);
    round_trip(7, &phase, check_phase);
    round_trip(6, &batch, check_ce);
    round_trip(5, &call, check_call);
}

static void states_keep_what_they_carry(void **state)
{
    (void)state;
    struct muster_trace_recorder *recorder = record(5);
    struct muster_event kernel = {.kind = MUSTER_EVENT_KERNEL_CH, .kernel_ch = {.ptimer = 5}};
    struct muster_event step = {.kind = MUSTER_EVENT_PROXY_STEP};
    struct muster_event_args stamp = {.given = true, .ptimer = 6};
    struct muster_event_args size = {.given = true, .trans_bytes = 7};
    struct muster_event_args none = {.given = false};
    muster_trace_start(recorder, at(1), at(2), &kernel);
    muster_trace_start(recorder, at(1), at(3), &step);
    muster_trace_state(recorder, at(2), MUSTER_STATE_KERNEL_CH_STOP, &stamp);
    muster_trace_state(recorder, at(3), MUSTER_STATE_SEND_WAIT, &size);
    muster_trace_state(recorder, at(3), MUSTER_STATE_SEND_WAIT, &none);
    struct muster_trace trace = read_back(recorder);
    assert_int_equal(trace.calls, 6);
    assert_int_equal(trace.call[3].args.ptimer, 6);
    assert_int_equal(trace.call[4].args.trans_bytes, 7);
    assert_true(trace.call[4].args.given);
    assert_false(trace.call[5].args.given);
    muster_trace_free(&trace);
}

static void handles_outlive_stop_and_come_back(void **state)
{
    (void)state;
    struct muster_trace_recorder *recorder = record(5);
    struct muster_event first = {.kind = MUSTER_EVENT_GROUP_API};
    struct muster_event below = {.kind = MUSTER_EVENT_GROUP, .parent = at(2)};
    struct muster_event foreign = {.kind = MUSTER_EVENT_GROUP, .parent = at(99)};
    muster_trace_start(recorder, at(1), at(2), &first);
    muster_trace_stop(recorder, at(2));
    muster_trace_stop(recorder, at(2));
    muster_trace_start(recorder, at(1), at(2), &below); /* same handle, child of the old one */
    muster_trace_stop(recorder, at(2));
    muster_trace_stop(recorder, at(98)); /* never seen */
    muster_trace_stop(recorder, NULL);
    muster_trace_start(recorder, at(97), at(3), &foreign);
    struct muster_trace trace = read_back(recorder);
    assert_int_equal(trace.calls, 7);
    assert_int_equal(trace.call[3].handle, 1);
    assert_int_equal(trace.call[4].handle, 2);
    assert_int_equal(trace.call[4].parent, 1);
    assert_int_equal(trace.call[5].handle, 2);
    assert_int_equal(trace.call[6].parent, 0);
    assert_int_equal(trace.call[6].ctx, 0);
    muster_trace_free(&trace);
}

static void remembers_the_last_handles(void **state)
{
    (void)state;
    struct muster_handle_ids *ids = calloc(1, sizeof *ids);
    assert_non_null(ids);
    for (uintptr_t i = 1; i <= MUSTER_HANDLE_IDS + 10; i++)
        assert_int_equal(muster_handle_ids_add(ids, at(i), 3), i);
    assert_null(muster_handle_ids_find(ids, at(10)));
    for (uintptr_t i = 11; i <= MUSTER_HANDLE_IDS + 10; i++) {
        const struct muster_handle_ids_entry *entry = muster_handle_ids_find(ids, at(i));
        assert_non_null(entry);
        assert_int_equal(entry->id, i);
    }
    for (unsigned i = 0; i < 3 * MUSTER_HANDLE_IDS; i++)
        muster_handle_ids_add(ids, at(1 + i % 7), 3); /* the same few, over and over */
    assert_non_null(muster_handle_ids_find(ids, at(7)));
    assert_null(muster_handle_ids_find(ids, at(500)));
    free(ids);
}

static void a_second_recorder_takes_another_name(void **state)
{
    (void)state;
    char second[sizeof folder + 32];
    struct muster_trace_recorder *recorder = record(5), *other = record(5);
    snprintf(second, sizeof second, "%s/pid-%d.jsonl", folder, (int)getpid());
    assert_int_equal(access(second, R_OK), 0);
    muster_trace_recorder_close(other);
    unlink(second);
    struct muster_trace trace = read_back(recorder);
    muster_trace_free(&trace);
}

static void a_forked_child_writes_nothing(void **state)
{
    (void)state;
    struct muster_trace_recorder *recorder = record(5);
    struct muster_event group = {.kind = MUSTER_EVENT_GROUP};
    muster_trace_start(recorder, at(1), at(2), &group);
    pid_t pid = fork();
    if (pid == 0) {
        muster_trace_stop(recorder, at(2));
        muster_trace_recorder_close(recorder);
        fflush(NULL); /* as exit() does */
        _exit(0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    struct muster_trace trace = read_back(recorder);
    assert_int_equal(trace.calls, 2);
    muster_trace_free(&trace);
}

static void a_full_disk_ends_the_recording_only(void **state)
{
    (void)state;
    struct rlimit before, small = {.rlim_cur = 4096};
    struct muster_trace trace;
    struct muster_err err;
    bool truncated;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    struct muster_trace_recorder *recorder = record(5);
    struct muster_event event = collective();
    muster_log_set_level(MUSTER_LOG_ERROR);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (uintptr_t i = 2; i < 20000; i++)
        muster_trace_start(recorder, at(1), at(i), &event);
    muster_trace_stop(recorder, at(2));
    muster_trace_recorder_close(recorder);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    if (muster_trace_read(path, &trace, &truncated, &err))
        fail_msg("%s", err.text);
    assert_true(truncated);
    assert_in_range(trace.calls, 2, 40);
    muster_trace_free(&trace);
    unlink(path);
}

static void bad_folder_is_said(void **state)
{
    (void)state;
    struct muster_trace_recorder *recorder;
    struct muster_err err;
    assert_int_equal(muster_trace_recorder_open(&recorder, "/proc/none/here", &who, &err), -1);
    assert_string_equal(err.text, "/proc/none/here: No such file or directory");
    muster_trace_recorder_close(NULL);
    muster_trace_stop(NULL, at(1));
}

static int make_folder(void **state)
{
    (void)state;
    muster_log_set_level(MUSTER_LOG_ERROR);
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/rank-0.jsonl", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_what_the_recordings_have),
        cmocka_unit_test(collectives_round_trip),
        cmocka_unit_test(other_events_round_trip),
        cmocka_unit_test(states_keep_what_they_carry),
        cmocka_unit_test(handles_outlive_stop_and_come_back),
        cmocka_unit_test(remembers_the_last_handles),
        cmocka_unit_test(a_second_recorder_takes_another_name),
        cmocka_unit_test(a_forked_child_writes_nothing),
        cmocka_unit_test(a_full_disk_ends_the_recording_only),
        cmocka_unit_test(bad_folder_is_said),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
