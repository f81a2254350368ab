#include "top_made.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nccl_types.h"

static void make_rank(struct muster_top_rank *rank, size_t i)
{
    *rank = (struct muster_top_rank){.rank = (int32_t)i,
                                     .gpu = (int32_t)(i % 8),
                                     .pid = (uint32_t)(1000 + i),
                                     .alive = true,
                                     .since_s = 0.25,
                                     .waits = -1,
                                     .ops_s = 10,
                                     .compared = 100,
                                     .made_wait_ns = i == MADE_LATE ? 5000000000 : 1000 * i,
                                     .waited_ns = i == MADE_LATE ? 0 : 4000000000 + i,
                                     .trend = {1, i == MADE_LATE ? 800 : 2},
                                     .trends = 2,
                                     .culprit = i == MADE_LATE};
    snprintf(rank->host, sizeof rank->host, "node%zu", i / 8);
    snprintf(rank->call, sizeof rank->call, "AllReduce #%d (4 MiB)", 76);
}

void made_job(struct muster_top *top, size_t ranks)
{
    *top = (struct muster_top){.state = MUSTER_TOP_RUNS,
                               .run = "/jobs/muster-4711",
                               .jobs = 1,
                               .ranks_alive = (int32_t)ranks,
                               .ranks_expected = (int32_t)ranks,
                               .nccl = 22809,
                               .up_s = 3600,
                               .progress_s = 0.1,
                               .ops_s = 10.0 * (double)ranks,
                               .timed_share = 0.5,
                               .compared = 100};
    top->rank = calloc(ranks + 1, sizeof *top->rank);
    top->ranks = ranks;
    for (size_t i = 0; i < ranks; i++)
        make_rank(&top->rank[i], i);
    top->comm = calloc(1, sizeof *top->comm);
    top->comms = 1;
    top->comm[0] = (struct muster_top_comm){.id = 0xabc,
                                            .name = "dp",
                                            .nranks = (uint32_t)ranks,
                                            .here = (uint32_t)ranks,
                                            .calls = 77,
                                            .behind = MADE_LATE,
                                            .behind_by = 3,
                                            .ops_s = 10,
                                            .since_s = 0.2};
    top->class = calloc(1, sizeof *top->class);
    top->classes = 1;
    top->class[0] = (struct muster_top_class){.func = MUSTER_FUNC_ALL_REDUCE,
                                              .algo = MUSTER_ALGO_RING,
                                              .proto = MUSTER_PROTO_SIMPLE,
                                              .size_log2 = 22,
                                              .count = 200,
                                              .timed = 100,
                                              .sum_ns = 100000000,
                                              .max_ns = 3000000};
    top->finding = calloc(1, sizeof *top->finding);
    top->findings = 1;
    top->finding[0] = (struct muster_finding){.kind = MUSTER_FINDING_LATE_RANK,
                                              .comm = 0xabc,
                                              .rank = {MADE_LATE},
                                              .ranks = 1,
                                              .gpu = MADE_LATE,
                                              .host = "node0",
                                              .cause = MUSTER_CAUSE_GPU,
                                              .cost_s = 5,
                                              .cost_share = 0.4,
                                              .advice = "look at its GPU: clocks"};
    muster_finding_line(&top->finding[0].evidence, "it was late in 38 of 38 operations");
}

void made_free(struct muster_top *top)
{
    free(top->rank);
    free(top->comm);
    free(top->class);
    free(top->finding);
}

const struct muster_screen_line *made_find(const struct muster_screen *screen, const char *text)
{
    for (unsigned i = 0; i < screen->used; i++)
        if (strstr(screen->line[i].text, text))
            return &screen->line[i];
    return NULL;
}
