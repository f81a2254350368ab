#include "told/told.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diagnose/watch.h"
#include "segment/segment_reader.h"

enum { FILE_MOST = 2 << 20 }; /* twice what a process writes */

/* The directory's file, if there is one. -1: no memory. */
static int read_file(const char *dir, const char *stem, struct muster_findings *told, bool *found,
                     struct muster_err *err)
{
    char path[MUSTER_SEG_PATH + 300];
    void *bytes;
    size_t n;
    struct muster_err why;
    snprintf(path, sizeof path, "%s/%s.findings.jsonl", dir, stem);
    *found = access(path, F_OK) == 0;
    if (!*found)
        return 0;
    if (muster_file_load(path, FILE_MOST, &bytes, &n, &why) != 0) {
        if (muster_is_memory(&why))
            return muster_fail_memory(err, path);
        muster_finding_say(&told->not_observable, "%s", why.text);
        return 0;
    }
    int rc = muster_told_parse(path, bytes, n, told, err);
    free(bytes);
    return rc;
}

/* What one process told: in a directory that was named, or where it was written. */
static int read_process(const struct muster_run *run, const struct muster_process *process,
                        struct muster_findings *told, struct muster_err *err)
{
    bool found = false;
    int rc = 0;
    if (!process->identity.file_stem[0] || strchr(process->identity.file_stem, '/'))
        return 0;
    for (size_t i = 0; i < run->sources && !found && rc == 0; i++)
        rc = read_file(run->source[i], process->identity.file_stem, told, &found, err);
    if (!found && rc == 0 && process->identity.run_dir[0])
        rc = read_file(process->identity.run_dir, process->identity.file_stem, told, &found, err);
    return rc;
}

static bool shares_rank(const struct muster_finding *a, const struct muster_finding *b)
{
    for (unsigned i = 0; i < a->ranks; i++) {
        for (unsigned k = 0; k < b->ranks; k++) {
            if (a->rank[i] == b->rank[k])
                return true;
        }
    }
    return a->ranks == 0 && b->ranks == 0 && a->comm == b->comm;
}

static bool is_hang(const struct muster_finding *finding)
{
    return muster_finding_rows[finding->kind].scope == MUSTER_SCOPE_HANG;
}

/* Whether what was found in the whole run is what was told: also a hang that came to an end and is
 * one long wait now. */
static bool is_that(const struct muster_finding *told, const struct muster_finding *found)
{
    bool ended = is_hang(told) && told->resolved && muster_finding_is_late(found) &&
                 found->comm == told->comm;
    if (ended)
        return shares_rank(told, found);
    if (is_hang(told))
        return muster_watch_same(told, found);
    bool alike = told->kind == found->kind ||
                 (muster_finding_is_late(told) && muster_finding_is_late(found));
    return alike && shares_rank(told, found);
}

static void say_told(const struct muster_finding *told, struct muster_finding *found)
{
    if (told->retracted)
        muster_finding_say(&found->evidence, "told while the job ran, and then withdrawn");
    else if (told->resolved)
        muster_finding_say(&found->evidence, "told while the job ran, as %s, and that it was over",
                           muster_finding_name(told->kind));
    else
        muster_finding_say(&found->evidence, "told while the job ran");
}

static bool add_past(const struct muster_finding *told, struct muster_findings *findings)
{
    struct muster_finding *past = muster_findings_add(findings);
    if (!past)
        return false;
    *past = *told;
    muster_finding_say(&past->evidence, "told while the job ran");
    if (is_hang(told) || told->resolved || told->retracted)
        return true;
    past->resolved = true;
    muster_finding_say(&past->not_observable,
                       "in the whole run it is not found: it was over soon, or what it cost is too "
                       "little there");
    return true;
}

int muster_told_merge(const struct muster_findings *told, struct muster_findings *findings,
                      struct muster_err *err)
{
    size_t found = findings->n;
    for (size_t i = 0; i < told->n; i++) {
        bool known = false;
        for (size_t k = 0; k < found && !known; k++) {
            known = is_that(&told->finding[i], &findings->finding[k]);
            if (known)
                say_told(&told->finding[i], &findings->finding[k]);
        }
        if (!known && !add_past(&told->finding[i], findings))
            return muster_fail_memory(err, "what was told while the job ran");
    }
    for (unsigned i = 0; i < told->not_observable.n; i++)
        muster_finding_say(&findings->not_observable, "%s", told->not_observable.line[i]);
    return 0;
}

int muster_told_add(const struct muster_run *run, struct muster_findings *findings,
                    struct muster_err *err)
{
    struct muster_findings told = {0};
    int rc = 0;
    for (size_t p = 0; p < run->processes && rc == 0; p++)
        rc = read_process(run, &run->process[p], &told, err);
    if (rc == 0)
        rc = muster_told_merge(&told, findings, err);
    muster_findings_free(&told);
    return rc;
}
