/* What a report is of, and how old that is: one line. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/nccl_types.h"
#include "base/terminal.h"
#include "base/text.h"
#include "report/report_output.h"

static int by_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* How many different hosts; -1: no memory. */
static long count_hosts(const struct muster_run *run)
{
    const char **host = malloc((run->processes + 1) * sizeof *host);
    long hosts = 0;
    for (size_t i = 0; host && i < run->processes; i++)
        host[i] = run->process[i].identity.host;
    if (!host)
        return -1;
    qsort(host, run->processes, sizeof *host, by_text);
    for (size_t i = 0; i < run->processes; i++)
        hosts += i == 0 || strcmp(host[i - 1], host[i]) != 0;
    free(host);
    return hosts;
}

static void put_nccl(const struct muster_run *run, FILE *out)
{
    char text[24];
    uint32_t nccl = run->processes ? run->process[0].identity.nccl : 0;
    for (size_t i = 0; i < run->processes; i++)
        nccl = run->process[i].identity.nccl == nccl ? nccl : 0;
    if (nccl) {
        muster_nccl_version_text(text, sizeof text, nccl);
        fprintf(out, ", NCCL %s", text);
    }
}

/* Where all processes are of one job; ranks of several steps have columns of their own. */
static void put_slurm(const struct muster_run *run, FILE *out)
{
    const struct muster_seg_identity *first = run->processes ? &run->process[0].identity : NULL;
    bool job = first && first->slurm_job[0], step = job && first->slurm_step[0];
    for (size_t i = 1; job && i < run->processes; i++) {
        const struct muster_seg_identity *who = &run->process[i].identity;
        job = strcmp(who->slurm_job, first->slurm_job) == 0;
        step = step && strcmp(who->slurm_step, first->slurm_step) == 0;
    }
    if (job) {
        fprintf(out, ", Slurm job %s%s%s", first->slurm_job, step ? " step " : "",
                step ? first->slurm_step : "");
    }
}

/* ", ended 3 min ago", ", running (last seen 1 s ago)". */
static void put_age(const struct muster_run *run, FILE *out)
{
    size_t running = 0, killed = 0;
    uint64_t last = 0;
    char age[32];
    for (size_t p = 0; p < run->processes; p++) {
        running += run->process[p].state == MUSTER_PROCESS_RUNNING;
        killed += run->process[p].state == MUSTER_PROCESS_KILLED;
        last = run->process[p].last_seen_unix_ns > last ? run->process[p].last_seen_unix_ns : last;
    }
    muster_text_age(age, sizeof age, last, muster_unix_ns());
    if (!run->processes || !last)
        return;
    if (killed)
        fprintf(out, ", %zu of %zu processes killed or crashed", killed, run->processes);
    if (running == run->processes)
        fprintf(out, ", running (last seen %s)", age);
    else if (running)
        fprintf(out, ", %zu of %zu processes running (last seen %s)", running, run->processes, age);
    else
        fprintf(out, ", ended %s", age);
}

static int put_scope(const struct muster_run *run, size_t ranks, FILE *out)
{
    long hosts = count_hosts(run);
    if (hosts < 0)
        return -1;
    if (run->sources) {
        fputs("run ", out);
    } else {
        fprintf(out, "live: %zu process%s of this user", run->processes,
                run->processes == 1 ? "" : "es");
    }
    for (size_t i = 0; i < run->sources && i < 4; i++)
        fprintf(out, "%s%s", i ? ", " : "", run->source[i]);
    if (run->sources > 4)
        fprintf(out, " and %zu more", run->sources - 4);
    fprintf(out, ": %zu rank%s on %ld host%s", ranks, ranks == 1 ? "" : "s", hosts,
            hosts == 1 ? "" : "s");
    put_nccl(run, out);
    put_slurm(run, out);
    put_age(run, out);
    return 0;
}

int muster_report_scope(const struct muster_run *run, size_t ranks, unsigned width, FILE *out)
{
    char *text = NULL;
    size_t bytes;
    FILE *line = open_memstream(&text, &bytes);
    if (!line)
        return -1;
    int result = put_scope(run, ranks, line);
    result = muster_text_close(line, &text) ? result : -1;
    if (result == 0)
        muster_terminal_wrap(out, width, "", "  ", text);
    free(text);
    return result;
}
