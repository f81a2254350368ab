#include "emitted/emitted.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diagnose/finding_changes.h"
#include "segment/segment_reader.h"

enum { FILE_MOST = 2 << 20 }; /* twice what a process writes */

/* The directory's file, if there is one. -1: no memory. */
static int read_file(const char *dir, const char *stem, struct muster_findings *emitted,
                     bool *found, struct muster_err *err)
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
        muster_finding_line(&emitted->not_observable, "%s", why.text);
        return 0;
    }
    int rc = muster_emitted_parse(path, bytes, n, emitted, err);
    free(bytes);
    return rc;
}

/* What one process emitted: in a directory that was named, or where it was written. */
static int read_process(const struct muster_run *run, const struct muster_process *process,
                        struct muster_findings *emitted, struct muster_err *err)
{
    bool found = false;
    int rc = 0;
    if (!process->identity.file_stem[0] || strchr(process->identity.file_stem, '/'))
        return 0;
    for (size_t i = 0; i < run->sources && !found && rc == 0; i++)
        rc = read_file(run->source[i], process->identity.file_stem, emitted, &found, err);
    if (!found && rc == 0 && process->identity.run_dir[0])
        rc =
            read_file(process->identity.run_dir, process->identity.file_stem, emitted, &found, err);
    return rc;
}

static bool shares_rank(const struct muster_finding *a, const struct muster_finding *b)
{
    for (unsigned i = 0; i < a->ranks; i++) {
        for (unsigned k = 0; k < b->ranks; k++)
            if (a->rank[i] == b->rank[k])
                return true;
    }
    return a->ranks == 0 && b->ranks == 0 && a->comm == b->comm;
}

/* Whether what was found in the whole run is what was emitted: also a hang that came to an end and
 * is one long wait now. */
static bool is_that(const struct muster_finding *emitted, const struct muster_finding *found)
{
    bool ended = muster_finding_is_hang(emitted) && emitted->resolved &&
                 muster_finding_is_late(found) && found->comm == emitted->comm;
    if (ended)
        return shares_rank(emitted, found);
    if (muster_finding_is_hang(emitted))
        return muster_watch_same(emitted, found);
    bool alike = emitted->kind == found->kind ||
                 (muster_finding_is_late(emitted) && muster_finding_is_late(found));
    return alike && shares_rank(emitted, found);
}

static void put_emitted(const struct muster_finding *emitted, struct muster_finding *found)
{
    if (emitted->retracted)
        muster_finding_line(&found->evidence, "told while the job ran, and then withdrawn");
    else if (emitted->resolved)
        muster_finding_line(&found->evidence, "told while the job ran, as %s, and that it was over",
                            muster_finding_name(emitted->kind));
    else
        muster_finding_line(&found->evidence, "told while the job ran");
}

static bool add_past(const struct muster_finding *emitted, struct muster_findings *findings)
{
    struct muster_finding *past = muster_findings_copy(findings, emitted);
    if (!past)
        return false;
    muster_finding_line(&past->evidence, "told while the job ran");
    if (muster_finding_is_hang(emitted) || emitted->resolved || emitted->retracted)
        return true;
    past->resolved = true;
    muster_finding_line(
        &past->not_observable,
        "in the whole run it is not found: it was over soon, or what it cost is too "
        "little there");
    return true;
}

int muster_emitted_merge(const struct muster_findings *emitted, struct muster_findings *findings,
                         struct muster_err *err)
{
    size_t found = findings->n;
    for (size_t i = 0; i < emitted->n; i++) {
        bool known = false;
        for (size_t k = 0; k < found && !known; k++) {
            known = is_that(&emitted->finding[i], &findings->finding[k]);
            if (known)
                put_emitted(&emitted->finding[i], &findings->finding[k]);
        }
        if (!known && !add_past(&emitted->finding[i], findings))
            return muster_fail_memory(err, "what was told while the job ran");
    }
    for (unsigned i = 0; i < emitted->not_observable.n; i++)
        muster_finding_line(&findings->not_observable, "%s", emitted->not_observable.line[i]);
    return 0;
}

int muster_emitted_add(const struct muster_run *run, struct muster_findings *findings,
                       struct muster_err *err)
{
    struct muster_findings emitted = {0};
    int rc = 0;
    for (size_t p = 0; p < run->processes && rc == 0; p++)
        rc = read_process(run, &run->process[p], &emitted, err);
    if (rc == 0)
        rc = muster_emitted_merge(&emitted, findings, err);
    muster_findings_free(&emitted);
    return rc;
}
