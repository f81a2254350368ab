/*
 * What children answer that called the driver, NCCL or the resolver, from hostile bytes: whoever
 * asked gets the input instead (muster_bounded and its twin are wrapped). The first byte chooses
 * who asks.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allreduce/allreduce.h"
#include "cli/topo/topo_out.h"
#include "doctor/doctor.h"
#include "doctor/p2p.h"
#include "launch/bounded.h"
#include "topology/faults.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __wrap_muster_bounded(const char *what, muster_bounded_work *work, void *arg,
                          unsigned deadline_ms, char **bytes, size_t *n, struct muster_err *err);
int __wrap_muster_bounded_partly(const char *what, muster_bounded_work *work, void *arg,
                                 unsigned deadline_ms, unsigned pause_ms, char **bytes, size_t *n,
                                 struct muster_err *err);

static const uint8_t *answer;
static size_t left;

int __wrap_muster_bounded(const char *what, muster_bounded_work *work, void *arg,
                          unsigned deadline_ms, char **bytes, size_t *n, struct muster_err *err)
{
    return __wrap_muster_bounded_partly(what, work, arg, deadline_ms, 0, bytes, n, err);
}

/* Of the exact size, so that who reads on is seen. */
int __wrap_muster_bounded_partly(const char *what, muster_bounded_work *work, void *arg,
                                 unsigned deadline_ms, unsigned pause_ms, char **bytes, size_t *n,
                                 struct muster_err *err)
{
    (void)what;
    (void)work;
    (void)arg;
    (void)deadline_ms;
    (void)pause_ms;
    (void)err;
    *bytes = malloc(left + 1);
    if (!*bytes)
        abort();
    if (left)
        memcpy(*bytes, answer, left);
    (*bytes)[left] = '\0';
    *n = left;
    return 0;
}

static void survey(FILE *out)
{
    static struct muster_faults faults;
    struct muster_survey survey;
    struct muster_visible visible;
    struct muster_err err;
    if (muster_survey_live(&survey, &err))
        abort();
    muster_faults_find(survey.machine, &faults);
    muster_visible_gpus(survey.machine, "0,1", NULL, &visible);
    muster_topo_text(survey.machine, &faults, &visible, out);
    muster_survey_free(&survey);
}

static void pairs(FILE *out)
{
    static struct muster_p2p_matrix matrix;
    const struct muster_p2p_limits limits = {1, 1, 1};
    struct muster_err err = {""};
    if (muster_p2p_test(&limits, &matrix, &err) && !err.text[0])
        abort();
    for (int a = 0; a < matrix.gpus; a++)
        for (int b = 0; b < matrix.gpus; b++)
            fprintf(out, "%s%s%s", matrix.pair[a][b].failed, matrix.pair[a][b].from_pci,
                    matrix.pair[a][b].to_pci);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *out;
    struct muster_interface to;
    struct muster_allreduce_probe probe;
    struct muster_err err = {""};
    if (!out)
        out = fopen("/dev/null", "w");
    if (size == 0 || !out)
        return 0;
    setenv("MUSTER_SYSFS", "/nonexistent", 1);
    answer = data + 1;
    left = size - 1;
    if (data[0] % 4 == 0)
        survey(out);
    else if (data[0] % 4 == 1)
        pairs(out);
    else if (data[0] % 4 == 2)
        muster_doctor_resolve("fuzz", &to, &err);
    else if (muster_allreduce_probe(NULL, 1, &probe, &err) == 0)
        fprintf(out, "%s", probe.gpu);
    return 0;
}
