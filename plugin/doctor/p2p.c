#include "doctor/p2p.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "doctor/p2p_work.h"
#include "launch/bounded.h"

enum { HANGS_MAX = 3 };

static bool in_range(const struct muster_p2p_matrix *matrix, const struct muster_p2p_result *result)
{
    return result->from >= 0 && result->from < matrix->gpus && result->to >= 0 &&
           result->to < matrix->gpus && result->from != result->to &&
           result->stage >= MUSTER_P2P_BEGIN && result->stage <= MUSTER_P2P_DONE;
}

/* Returns the number of the last pair that was begun and not done; -1: none. */
static int take(struct muster_p2p_matrix *matrix, const char *bytes, size_t n)
{
    int32_t gpus;
    int open = -1;
    if (!bytes || n < sizeof gpus)
        return -1;
    memcpy(&gpus, bytes, sizeof gpus);
    if (gpus < 0 || gpus > MUSTER_P2P_GPUS)
        return -1;
    matrix->gpus = gpus;
    for (size_t at = sizeof gpus; at + sizeof(struct muster_p2p_result) <= n;
         at += sizeof(struct muster_p2p_result)) {
        struct muster_p2p_result result;
        memcpy(&result, bytes + at, sizeof result);
        if (!in_range(matrix, &result))
            continue;
        muster_text_clean(result.failed, sizeof result.failed);
        muster_text_clean(result.from_pci, sizeof result.from_pci);
        muster_text_clean(result.to_pci, sizeof result.to_pci);
        matrix->pair[result.from][result.to] = result;
        open = result.stage == MUSTER_P2P_DONE ? -1 : result.from * gpus + result.to;
    }
    return open;
}

int muster_p2p_test(const struct muster_p2p_limits *limits, struct muster_p2p_matrix *matrix,
                    struct muster_err *err)
{
    struct muster_p2p_job job = {.words = limits->words};
    uint64_t end_ns = muster_now_ns() + limits->deadline_ms * MUSTER_NS_PER_MS;
    memset(matrix, 0, sizeof *matrix);
    for (;;) {
        char *bytes;
        size_t n;
        uint64_t now = muster_now_ns();
        if (now >= end_ns)
            break;
        unsigned left = (unsigned)((end_ns - now) / MUSTER_NS_PER_MS) + 1;
        int rc = muster_bounded_partly("the P2P test", muster_p2p_work, &job, left,
                                       limits->stage_ms, &bytes, &n, err);
        int open = take(matrix, bytes, n);
        free(bytes);
        if (rc == 0)
            break;
        if (matrix->gpus == 0 || open < 0)
            return -1; /* it did not come as far as a pair */
        matrix->hung++;
        if (matrix->hung == HANGS_MAX)
            break;
        job.first = open + 1;
    }
    if (matrix->gpus < 2)
        return muster_fail(err, "%d GPU%s: no pairs", matrix->gpus, matrix->gpus == 1 ? "" : "s");
    for (int a = 0; a < matrix->gpus; a++)
        for (int b = 0; b < matrix->gpus; b++)
            matrix->untested += a != b && matrix->pair[a][b].from_pci[0] == '\0';
    return 0;
}
