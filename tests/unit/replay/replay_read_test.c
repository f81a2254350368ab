/* Reading traces: what stands in a file comes out, and what does not belong is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <lzma.h>

#include "trace/trace.h"

#define META(api)                                                                                  \
    "{\"op\":\"meta\",\"format\":1,\"api\":" #api ",\"nccl\":22809,\"rank\":3,\"nranks\":4,"       \
    "\"host\":\"node0\",\"local_rank\":1,\"gpu\":\"NVIDIA H200\"}\n"
#define INIT                                                                                       \
    "{\"t\":10,\"tid\":7,\"op\":\"init\",\"ctx\":1,\"comm\":\"f0c30a538feb7f72\",\"name\":null,"   \
    "\"nNodes\":1,\"nranks\":4,\"rank\":3}\n"
#define GROUP "{\"t\":11,\"tid\":7,\"op\":\"start\",\"ctx\":1,\"h\":1,\"type\":1,\"parent\":0}\n"
#define COLL                                                                                       \
    "{\"t\":12,\"tid\":7,\"op\":\"start\",\"ctx\":1,\"h\":2,\"type\":2,\"parent\":0,\"rank\":3,"   \
    "\"seq\":5,\"func\":\"AllReduce\",\"count\":1048576,\"dt\":\"ncclFloat32\",\"root\":0,"        \
    "\"nch\":24,\"nwarps\":20,\"algo\":\"RING\",\"proto\":\"LL128\",\"pgroup\":1}\n"
#define KERNEL                                                                                     \
    "{\"t\":13,\"tid\":8,\"op\":\"start\",\"ctx\":1,\"h\":3,\"type\":64,\"parent\":2,\"ch\":4,"    \
    "\"ptimer\":1795225758549216256}\n"                                                            \
    "{\"t\":14,\"tid\":8,\"op\":\"state\",\"h\":3,\"type\":64,\"state\":22,"                       \
    "\"ptimer\":1795225758549466112}\n"                                                            \
    "{\"t\":15,\"tid\":8,\"op\":\"stop\",\"h\":3,\"type\":64}\n"
#define PHASE                                                                                      \
    "{\"t\":13,\"tid\":8,\"op\":\"start\",\"ctx\":1,\"h\":3,\"type\":32768,\"parent\":0,\"ch\":4," \
    "\"phase\":2,\"ptimer\":1,\"colour\":{\"of\":[\"tomorrow\"]}}\n"
#define FINI "{\"t\":16,\"tid\":7,\"op\":\"fini\",\"ctx\":1}\n"

static struct muster_trace trace;
static struct muster_err err;
static bool truncated;

static int parse(const char *text)
{
    memset(&err, 0, sizeof err);
    return muster_trace_parse("f", text, strlen(text), &trace, &truncated, &err);
}

static void reads_calls(void **state)
{
    (void)state;
    assert_int_equal(parse(META(5) INIT GROUP COLL KERNEL FINI), 0);
    assert_false(truncated);
    assert_int_equal(trace.meta.api, 5);
    assert_int_equal(trace.meta.nccl, 22809);
    assert_int_equal(trace.meta.rank, 3);
    assert_int_equal(trace.meta.local_rank, 1);
    assert_string_equal(trace.meta.host, "node0");
    assert_false(trace.meta.killed);
    assert_int_equal(trace.calls, 7);

    const struct muster_trace_call *call = trace.call;
    assert_int_equal(call[0].op, MUSTER_TRACE_INIT);
    assert_true(call[0].init.comm_hash == 0xf0c30a538feb7f72);
    assert_null(call[0].init.name);
    assert_int_equal(call[0].init.api, 5);
    assert_int_equal(call[2].kind, MUSTER_EVENT_COLL);
    assert_int_equal(call[2].t_ns, 12);
    assert_int_equal(call[2].parent_group, 1);
    assert_int_equal(call[2].event.op.count, 1048576);
    assert_int_equal(call[2].event.op.channels, 24);
    assert_int_equal(call[2].event.op.func, MUSTER_FUNC_ALL_REDUCE);
    assert_int_equal(call[2].event.op.proto, MUSTER_PROTO_LL128);
    assert_string_equal(call[2].event.op.dtype_text, "ncclFloat32");
    assert_int_equal(call[3].parent, 2);
    assert_true(call[3].event.kernel_ch.ptimer == 1795225758549216256);
    assert_true(call[4].args.given);
    assert_true(call[4].args.ptimer == 1795225758549466112);
    assert_int_equal(call[6].op, MUSTER_TRACE_FINI);
    muster_trace_free(&trace);
}

static void reads_old_interfaces(void **state)
{
    (void)state;
    assert_int_equal(
        parse(
            META(2) "{\"t\":1,\"tid\":7,\"op\":\"init\",\"ctx\":1}\n" GROUP
                    "{\"t\":2,\"tid\":7,\"op\":\"start\",\"ctx\":1,\"h\":9,\"type\":2,"
                    "\"parent\":1,\"rank\":3,\"comm\":\"abc\",\"name\":\"dp\",\"seq\":0,"
                    "\"func\":\"AllGather\",\"count\":8,\"dt\":\"ncclInt8\",\"root\":0,"
                    "\"traffic\":32,\"nch\":2,\"nwarps\":4,\"algo\":\"RING\",\"proto\":\"LL\"}\n"),
        0);
    assert_int_equal(trace.call[0].init.rank, -1);
    assert_int_equal(trace.call[0].init.nranks, 0);
    assert_int_equal(trace.call[2].event.op.comm_hash, 0xabc);
    assert_string_equal(trace.call[2].event.op.comm_name, "dp");
    assert_int_equal(trace.call[2].event.op.traffic_bytes, 32);
    muster_trace_free(&trace);
}

static void reads_what_newer_versions_add(void **state)
{
    (void)state;
    assert_int_equal(parse(META(7) INIT GROUP PHASE), 0);
    assert_int_equal(trace.calls, 3);
    assert_int_equal(trace.call[2].event.kernel_ch.phase, 2);
    muster_trace_free(&trace);
}

static void leaves_out_a_line_cut_short(void **state)
{
    (void)state;
    assert_int_equal(parse(META(5) INIT "{\"t\":16,\"tid\":7,\"op\":\"st"), 0);
    assert_true(truncated);
    assert_int_equal(trace.calls, 1);
    muster_trace_free(&trace);
    /* complete, only its line feed is missing */
    assert_int_equal(parse(META(5) INIT "{\"t\":16,\"tid\":7,\"op\":\"fini\",\"ctx\":1}"), 0);
    assert_false(truncated);
    assert_int_equal(trace.calls, 2);
    muster_trace_free(&trace);
}

static const struct {
    const char *text, *message;
} bad[] = {
    {"", "f:1: an empty file, expected the meta line"},
    {"{\"op\":\"me", "f:1: "},
    {"\n" META(5), "f:1: "},
    {"[1]\n", "f:1: another JSON value, expected a JSON object"},
    {INIT, "f:1: \"op\" is \"init\", expected \"meta\" in the first line"},
    {META(8), "f:1: \"api\" is 8, expected a whole number from 1 to 7"},
    {META(0), "f:1: \"api\" is 0, expected"},
    {META(5) META(5), "f:2: \"op\" is \"meta\", expected init, start, state, stop or fini"},
    {META(5) "{\"op\":\"st\n" INIT, "f:2: "},
    {META(5) "{\"op\":\"restart\",\"t\":1,\"tid\":1}\n",
     "f:2: \"op\" is \"restart\", expected init, start, state, stop or fini"},
    {META(5) "{\"tid\":7,\"op\":\"fini\",\"ctx\":1}\n",
     "f:2: \"t\" is missing, expected a whole number"},
    {META(5) "{\"t\":-1,\"tid\":7,\"op\":\"fini\",\"ctx\":1}\n", "f:2: \"t\" is -1, expected"},
    {META(5) "{\"t\":1,\"t\":1,\"tid\":7,\"op\":\"fini\",\"ctx\":1}\n", "f:2: duplicate"},
    {META(5) FINI, "f:2: \"ctx\" is 1, expected a number that an earlier line introduced"},
    {META(5) INIT INIT, "f:3: \"ctx\" is 1, expected a number not used before"},
    {META(5) INIT GROUP GROUP, "f:4: \"h\" is 1, expected a number not used before"},
    {META(5) INIT COLL, "f:3: \"pgroup\" is 1, expected a number that an earlier line"},
    {META(5) INIT KERNEL, "f:3: \"parent\" is 2, expected a number that an earlier line"},
    {META(5) INIT "{\"t\":1,\"tid\":7,\"op\":\"stop\",\"h\":4,\"type\":1}\n",
     "f:3: \"h\" is 4, expected a number that an earlier line introduced"},
    {META(5) INIT "{\"t\":1,\"tid\":7,\"op\":\"state\",\"h\":4,\"type\":1,\"state\":3}\n",
     "f:3: \"h\" is 4, expected a number that an earlier line introduced"},
    {META(5) INIT GROUP "{\"t\":1,\"tid\":7,\"op\":\"stop\",\"h\":1,\"type\":2}\n",
     "f:4: \"type\" is 2, expected the type that the handle was started with"},
    {META(5) INIT GROUP "{\"t\":1,\"tid\":7,\"op\":\"state\",\"h\":1,\"type\":1,"
                        "\"state\":256}\n",
     "f:4: \"state\" is 256, expected a whole number from 0 to 255"},
    {META(5) INIT "{\"t\":1,\"tid\":7,\"op\":\"start\",\"ctx\":1,\"h\":1,\"type\":3,"
                  "\"parent\":0}\n",
     "f:3: \"type\" is 3, expected one event bit of the interface version"},
    {META(4) INIT "{\"t\":1,\"tid\":7,\"op\":\"start\",\"ctx\":1,\"h\":1,\"type\":256,"
                  "\"parent\":0,\"graph\":0,\"depth\":1}\n",
     "f:3: \"type\" is 256, expected one event bit of the interface version"},
    {META(5) INIT "{\"t\":1,\"tid\":7,\"op\":\"start\",\"ctx\":1,\"h\":1,\"type\":256,"
                  "\"parent\":0,\"graph\":2,\"depth\":1}\n",
     "f:3: \"graph\" is 2, expected a whole number from 0 to 1"},
    {META(5) INIT "{\"t\":1,\"tid\":7,\"op\":\"start\",\"ctx\":1,\"h\":1,\"type\":2048,"
                  "\"parent\":0,\"stream\":\"here\"}\n",
     "f:3: \"stream\" is \"here\", expected an address"},
    {META(5) INIT "{\"t\":1,\"tid\":7,\"op\":\"start\",\"ctx\":1,\"h\":1,\"type\":64,"
                  "\"parent\":0,\"ch\":true,\"ptimer\":0}\n",
     "f:3: \"ch\" is true, expected a whole number from 0 to 255"},
    {META(5) "{\"t\":1,\"tid\":7,\"op\":\"init\",\"ctx\":1,\"comm\":\"xyz\",\"name\":\"\","
             "\"nNodes\":1,\"nranks\":4,\"rank\":3}\n",
     "f:2: \"comm\" is \"xyz\", expected 1 to 16 hex digits in quotes"},
    {META(5) "{\"t\":1,\"tid\":7,\"op\":\"init\",\"ctx\":1,\"comm\":\"1\",\"name\":5,"
             "\"nNodes\":1,\"nranks\":4,\"rank\":3}\n",
     "f:2: \"name\" is 5, expected a string or null"},
    {META(5) "{\"t\":1,\"tid\":7,\"op\":\"init\",\"ctx\":1,\"comm\":\"1\",\"name\":\"\","
             "\"nNodes\":1,\"nranks\":5000000000,\"rank\":3}\n",
     "f:2: \"nranks\" is 5000000000, expected a whole number from -2147483648 to 2147483647"},
    {"{\"op\":\"meta\",\"format\":1,\"api\":5,\"nccl\":22809,\"rank\":3,\"nranks\":4,"
     "\"host\":\"node0\",\"local_rank\":1,\"gpu\":\"\",\"end\":\"stopped\"}\n",
     "f:1: \"end\" is \"stopped\", expected \"killed\""},
};

static void refuses(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (parse(bad[i].text) != -1)
            fail_msg("accepted: %s", bad[i].text);
        if (strncmp(err.text, bad[i].message, strlen(bad[i].message)) != 0)
            fail_msg("\"%s\" instead of \"%s\"", err.text, bad[i].message);
    }
}

static void refuses_long_lines(void **state)
{
    (void)state;
    size_t bytes = (2u << 20) + 512;
    char *text = malloc(bytes);
    assert_non_null(text);
    memset(text, ' ', bytes);
    memcpy(text, META(5), strlen(META(5)));
    text[bytes - 1] = '\n';
    assert_int_equal(muster_trace_parse("f", text, bytes, &trace, &truncated, &err), -1);
    assert_string_equal(err.text, "f:2: a line longer than 1 MiB");
    free(text);
}

/* ---- files ---- */

static char folder[] = "/tmp/muster-trace-XXXXXX";
static char path[sizeof folder + 16];

static void write_file(const void *data, size_t bytes)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static size_t compress(const char *text, size_t bytes, uint8_t *to, size_t room)
{
    size_t used = 0;
    assert_int_equal(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, NULL, (const uint8_t *)text,
                                             bytes, to, &used, room),
                     LZMA_OK);
    return used;
}

static void reads_files(void **state)
{
    (void)state;
    static const char text[] = META(5) INIT GROUP COLL KERNEL FINI;
    uint8_t xz[4096];
    write_file(text, strlen(text));
    assert_int_equal(muster_trace_read(path, &trace, &truncated, &err), 0);
    assert_int_equal(trace.calls, 7);
    muster_trace_free(&trace);

    size_t bytes = compress(text, strlen(text), xz, sizeof xz);
    write_file(xz, bytes);
    assert_int_equal(muster_trace_read(path, &trace, &truncated, &err), 0);
    assert_false(truncated);
    assert_int_equal(trace.calls, 7);
    muster_trace_free(&trace);

    xz[bytes / 2] ^= 0x55;
    write_file(xz, bytes);
    assert_int_equal(muster_trace_read(path, &trace, &truncated, &err), -1);
    assert_non_null(strstr(err.text, "damaged xz data"));

    assert_int_equal(muster_trace_read(folder, &trace, &truncated, &err), -1);
    assert_non_null(strstr(err.text, "not a file"));
    assert_int_equal(muster_trace_read("/nonexistent", &trace, &truncated, &err), -1);
    assert_string_equal(err.text, "/nonexistent: No such file or directory");
}

static void reads_compressed_files_cut_short(void **state)
{
    (void)state;
    enum { LINES = 20000 };
    size_t room = 256 * LINES, used;
    char *text = malloc(room);
    uint8_t *xz = malloc(room);
    assert_non_null(text);
    assert_non_null(xz);
    used = (size_t)snprintf(text, room, "%s", META(5) INIT);
    unsigned noise = 1;
    for (unsigned i = 1; i <= LINES; i++) {
        noise = noise * 1103515245 + 12345;
        used += (size_t)snprintf(text + used, room - used,
                                 "{\"t\":%u,\"tid\":7,\"op\":\"start\",\"ctx\":1,\"h\":%u,"
                                 "\"type\":1,\"parent\":0}\n",
                                 noise, i);
    }
    size_t bytes = compress(text, used, xz, room);
    write_file(xz, bytes / 2);
    assert_int_equal(muster_trace_read(path, &trace, &truncated, &err), 0);
    assert_true(truncated);
    assert_in_range(trace.calls, 2, LINES - 1);
    muster_trace_free(&trace);
    free(text);
    free(xz);
}

static void refuses_bombs(void **state)
{
    (void)state;
    enum { BYTES = 64 << 20 };
    char *zeros = calloc(1, BYTES);
    uint8_t xz[65536];
    assert_non_null(zeros);
    write_file(xz, compress(zeros, BYTES, xz, sizeof xz));
    free(zeros);
    assert_int_equal(muster_trace_read(path, &trace, &truncated, &err), -1);
    assert_non_null(strstr(err.text, ":1: a line longer than 1 MiB"));
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/rank-0.jsonl", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_calls),
        cmocka_unit_test(reads_old_interfaces),
        cmocka_unit_test(reads_what_newer_versions_add),
        cmocka_unit_test(leaves_out_a_line_cut_short),
        cmocka_unit_test(refuses),
        cmocka_unit_test(refuses_long_lines),
        cmocka_unit_test(reads_files),
        cmocka_unit_test(reads_compressed_files_cut_short),
        cmocka_unit_test(refuses_bombs),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
