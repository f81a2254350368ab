#include "doctor/p2p_work.h"

#include <stdio.h>
#include <string.h>

#include "allreduce/gpu_api.h"
#include "launch/bounded.h"

enum {
    BLOCKS = 264,
    THREADS = 512,
    ROUNDS = 16,
    ALREADY_ENABLED = 704,
};

/* word i of a buffer is i * 0x9e3779b1 + seed */
static const char ptx[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry muster_write(.param .u64 to, .param .u64 words, .param .u32 seed)\n"
    "{\n.reg .pred %p;\n.reg .b32 %r<8>;\n.reg .b64 %d<8>;\n"
    "ld.param.u64 %d1,[to];\nld.param.u64 %d2,[words];\nld.param.u32 %r1,[seed];\n"
    "mov.u32 %r2,%ctaid.x;\nmov.u32 %r3,%ntid.x;\nmov.u32 %r4,%tid.x;\nmov.u32 %r5,%nctaid.x;\n"
    "mad.lo.u32 %r6,%r2,%r3,%r4;\nmul.lo.u32 %r7,%r5,%r3;\n"
    "cvt.u64.u32 %d3,%r6;\ncvt.u64.u32 %d4,%r7;\n"
    "LOOP:\nsetp.ge.u64 %p,%d3,%d2;\n@%p bra DONE;\n"
    "cvt.u32.u64 %r4,%d3;\nmul.lo.u32 %r4,%r4,0x9e3779b1;\nadd.u32 %r4,%r4,%r1;\n"
    "shl.b64 %d5,%d3,2;\nadd.u64 %d6,%d1,%d5;\nst.global.u32 [%d6],%r4;\n"
    "add.u64 %d3,%d3,%d4;\nbra LOOP;\nDONE:\nret;\n}\n"
    ".visible .entry muster_verify(.param .u64 from, .param .u64 words, .param .u32 seed, "
    ".param .u64 wrong)\n"
    "{\n.reg .pred %p;\n.reg .b32 %r<9>;\n.reg .b64 %d<8>;\n"
    "ld.param.u64 %d1,[from];\nld.param.u64 %d2,[words];\nld.param.u32 %r1,[seed];\n"
    "ld.param.u64 %d7,[wrong];\n"
    "mov.u32 %r2,%ctaid.x;\nmov.u32 %r3,%ntid.x;\nmov.u32 %r4,%tid.x;\nmov.u32 %r5,%nctaid.x;\n"
    "mad.lo.u32 %r6,%r2,%r3,%r4;\nmul.lo.u32 %r7,%r5,%r3;\n"
    "cvt.u64.u32 %d3,%r6;\ncvt.u64.u32 %d4,%r7;\n"
    "LOOP:\nsetp.ge.u64 %p,%d3,%d2;\n@%p bra DONE;\n"
    "cvt.u32.u64 %r4,%d3;\nmul.lo.u32 %r4,%r4,0x9e3779b1;\nadd.u32 %r4,%r4,%r1;\n"
    "shl.b64 %d5,%d3,2;\nadd.u64 %d6,%d1,%d5;\nld.volatile.global.u32 %r8,[%d6];\n"
    "setp.eq.u32 %p,%r8,%r4;\n@%p bra NEXT;\nred.global.add.u32 [%d7],1;\n"
    "NEXT:\nadd.u64 %d3,%d3,%d4;\nbra LOOP;\nDONE:\nret;\n}\n";

struct gpu {
    int device;
    void *context, *stream, *write, *verify, *begin, *end;
    muster_cuda_ptr buffer, wrong;
    char pci[20];
};

struct test {
    struct muster_cuda cuda;
    struct muster_cuda_p2p p2p;
    struct gpu gpu[MUSTER_P2P_GPUS];
    int gpus, fd;
    uint32_t words;
    struct muster_p2p_result result;
    struct muster_err err;
};

/* A failing call names itself in the pair's result. */
#define TRY(call)     muster_cuda_check(&test->cuda, test->cuda.call, #call, &test->err)
#define TRY_P2P(call) muster_cuda_check(&test->cuda, test->p2p.call, #call, &test->err)

static int open_gpu(struct test *test, struct gpu *gpu, int ordinal)
{
    void *module;
    if (TRY(device_get(&gpu->device, ordinal)) ||
        TRY_P2P(bus_id(gpu->pci, sizeof gpu->pci, gpu->device)) ||
        TRY(primary_retain(&gpu->context, gpu->device)) || TRY(context_set(gpu->context)) ||
        TRY_P2P(module_load(&module, ptx)) ||
        TRY_P2P(function(&gpu->write, module, "muster_write")) ||
        TRY_P2P(function(&gpu->verify, module, "muster_verify")))
        return -1;
    return TRY(stream_create(&gpu->stream, MUSTER_CUDA_STREAM_NON_BLOCKING)) ||
                   TRY(event_create(&gpu->begin, 0)) || TRY(event_create(&gpu->end, 0)) ||
                   TRY(alloc(&gpu->buffer, (size_t)test->words * 4)) || TRY(alloc(&gpu->wrong, 4))
               ? -1
               : 0;
}

static int report(struct test *test, enum muster_p2p_stage stage)
{
    test->result.stage = (int32_t)stage;
    return muster_bounded_write(test->fd, &test->result, sizeof test->result, &test->err);
}

static int launch_write(struct test *test, const struct gpu *by, muster_cuda_ptr to, uint32_t seed)
{
    uint64_t words = test->words;
    void *params[] = {&to, &words, &seed};
    return TRY_P2P(launch(by->write, BLOCKS, 1, 1, THREADS, 1, 1, 0, by->stream, params, NULL));
}

/* By the GPU that owns the memory. */
static int verify(struct test *test, const struct gpu *owner, uint32_t seed, uint32_t *wrong)
{
    uint64_t words = test->words;
    muster_cuda_ptr from = owner->buffer, counter = owner->wrong;
    void *params[] = {&from, &words, &seed, &counter};
    return TRY(context_set(owner->context)) || TRY(fill32(owner->wrong, 0, 1, owner->stream)) ||
                   TRY_P2P(launch(owner->verify, BLOCKS, 1, 1, THREADS, 1, 1, 0, owner->stream,
                                  params, NULL)) ||
                   TRY(stream_wait(owner->stream)) || TRY(to_host(wrong, owner->wrong, 4))
               ? -1
               : 0;
}

static int clear(struct test *test, const struct gpu *owner)
{
    return TRY(context_set(owner->context)) ||
                   TRY(fill32(owner->buffer, 0, test->words, owner->stream)) ||
                   TRY(stream_wait(owner->stream))
               ? -1
               : 0;
}

static int end_timing(struct test *test, const struct gpu *gpu, double *gbs)
{
    float ms = 0;
    if (TRY(event_record(gpu->end, gpu->stream)) || TRY(stream_wait(gpu->stream)) ||
        TRY(event_elapsed(&ms, gpu->begin, gpu->end)))
        return -1;
    *gbs = ms > 0 ? (double)ROUNDS * test->words * 4 / (ms * 1e6) : 0;
    return 0;
}

static int test_kernel(struct test *test, const struct gpu *from, const struct gpu *to,
                       uint32_t seed)
{
    struct muster_p2p_result *result = &test->result;
    if (clear(test, to) || TRY(context_set(from->context)) ||
        launch_write(test, from, to->buffer, seed) || TRY(stream_wait(from->stream)) ||
        verify(test, to, seed, &result->kernel_wrong))
        return -1;
    result->kernel_tested = 1;
    if (TRY(context_set(from->context)) || TRY(event_record(from->begin, from->stream)))
        return -1;
    for (int i = 0; i < ROUNDS; i++)
        if (launch_write(test, from, to->buffer, seed))
            return -1;
    return end_timing(test, from, &result->kernel_gbs);
}

static int copy(struct test *test, const struct gpu *from, const struct gpu *to)
{
    return TRY_P2P(copy_peer(to->buffer, to->context, from->buffer, from->context,
                             (size_t)test->words * 4, from->stream));
}

static int test_copy(struct test *test, const struct gpu *from, const struct gpu *to, uint32_t seed)
{
    struct muster_p2p_result *result = &test->result;
    if (clear(test, to) || TRY(context_set(from->context)) ||
        launch_write(test, from, from->buffer, seed) || copy(test, from, to) ||
        TRY(stream_wait(from->stream)) || verify(test, to, seed, &result->copy_wrong))
        return -1;
    result->copy_tested = 1;
    if (TRY(context_set(from->context)) || TRY(event_record(from->begin, from->stream)))
        return -1;
    for (int i = 0; i < ROUNDS; i++)
        if (copy(test, from, to))
            return -1;
    return end_timing(test, from, &result->copy_gbs);
}

static int test_pair(struct test *test, const struct gpu *from, const struct gpu *to, uint32_t seed)
{
    struct muster_p2p_result *result = &test->result;
    if (TRY_P2P(can_access(&result->access, from->device, to->device)))
        return -1;
    if (result->access) {
        if (TRY(context_set(from->context)))
            return -1;
        int rc = test->p2p.enable(to->context, 0);
        if (rc && rc != ALREADY_ENABLED)
            return muster_cuda_check(&test->cuda, rc, "enable", &test->err);
        if (report(test, MUSTER_P2P_KERNEL) || test_kernel(test, from, to, seed))
            return -1;
    }
    return report(test, MUSTER_P2P_COPY) || test_copy(test, from, to, ~seed) ? -1 : 0;
}

static int start(struct test *test, struct muster_err *err)
{
    int32_t n;
    if (muster_cuda_open(&test->cuda, err) || muster_cuda_p2p_open(&test->cuda, &test->p2p, err) ||
        muster_cuda_check(&test->cuda, test->cuda.device_count(&test->gpus), "cuDeviceGetCount",
                          err))
        return -1;
    if (test->gpus > MUSTER_P2P_GPUS)
        test->gpus = MUSTER_P2P_GPUS;
    n = test->gpus;
    for (int i = 0; i < test->gpus; i++)
        if (open_gpu(test, &test->gpu[i], i))
            return muster_fail(err, "GPU %d: %.400s", i, test->err.text);
    return muster_bounded_write(test->fd, &n, sizeof n, err);
}

int muster_p2p_work(void *job, int fd, struct muster_err *err)
{
    static struct test test; /* too large for a small stack; the process is ours alone */
    const struct muster_p2p_job *given = job;
    test.fd = fd;
    test.words = given->words;
    if (start(&test, err))
        return -1;
    for (int pair = given->first; pair < test.gpus * test.gpus; pair++) {
        int from = pair / test.gpus, to = pair % test.gpus;
        if (from == to)
            continue;
        test.result = (struct muster_p2p_result){.from = from, .to = to, .words = test.words};
        snprintf(test.result.from_pci, sizeof test.result.from_pci, "%.19s", test.gpu[from].pci);
        snprintf(test.result.to_pci, sizeof test.result.to_pci, "%.19s", test.gpu[to].pci);
        if (report(&test, MUSTER_P2P_BEGIN))
            return muster_fail(err, "%.400s", test.err.text);
        if (test_pair(&test, &test.gpu[from], &test.gpu[to], (uint32_t)pair + 1)) {
            test.result.failed_stage = test.result.stage;
            snprintf(test.result.failed, sizeof test.result.failed, "%.127s", test.err.text);
        }
        if (report(&test, MUSTER_P2P_DONE))
            return muster_fail(err, "%.400s", test.err.text);
    }
    return 0;
}
