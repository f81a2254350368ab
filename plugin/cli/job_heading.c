#include "cli/job_heading.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/text.h"
#include "run/live_jobs.h"

/* The first few of a number that each living process has. */
static void put_numbers(const struct muster_run *run, bool ranks, FILE *out)
{
    enum { SHOWN = 8 };
    size_t shown = 0, all = muster_run_alive(run);
    fputs(ranks ? "ranks" : "pids", out);
    for (size_t i = 0; i < run->processes && shown < SHOWN; i++) {
        const struct muster_process *process = &run->process[i];
        if (process->state == MUSTER_PROCESS_RUNNING)
            fprintf(out, "%s %" PRId64, shown++ ? "," : "",
                    ranks ? (int64_t)process->identity.rank : (int64_t)process->identity.pid);
    }
    if (all > shown)
        fprintf(out, " and %zu more", all - shown);
}

/* "job 1 of 2: run-7: ranks 0, 1; pids 4711, 4712" */
static void put_heading(const struct muster_run *run, const char *name, size_t at, size_t n,
                        FILE *out)
{
    fprintf(out, "job %zu of %zu: %s", at + 1, n, name[0] ? name : "no run directory");
    if (muster_run_alive(run) > 0) {
        fputs(": ", out);
        put_numbers(run, true, out);
        fputs("; ", out);
        put_numbers(run, false, out);
    }
}

void muster_job_heading(const struct muster_run *run, const char *name, size_t at, size_t n,
                        const struct muster_terminal *terminal, FILE *out)
{
    char *text = NULL;
    size_t bytes;
    FILE *line = open_memstream(&text, &bytes);
    if (line)
        put_heading(run, name, at, n, line);
    if (line && muster_text_close(line, &text)) {
        fputs(at ? "\n" : "", out);
        fputs(terminal->style ? "\033[1m" : "", out);
        muster_terminal_wrap(out, terminal->width, "", "  ", text);
        fputs(terminal->style ? "\033[0m" : "", out);
        free(text);
    }
}
