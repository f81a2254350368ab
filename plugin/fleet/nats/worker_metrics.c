#include "fleet/nats/worker_metrics.h"

#include <inttypes.h>
#include <string.h>

#include "base/array.h"

/* ---- taking ---- */

struct adding {
    struct muster_worker_picture *picture;
    const struct muster_worker_job *job;
    uint32_t uid;
};

static void add_finding(void *arg, const struct muster_finding *finding)
{
    struct adding *adding = arg;
    muster_finding_metrics_add(&adding->picture->findings, MUSTER_WORKER_FINDINGS, adding->job->run,
                               adding->uid, finding);
}

/* As its agents name it; where none that is understood did, as its subject does: UID.RUN-HASH. */
static void name_job(const struct muster_join *join, struct muster_worker_job *job)
{
    const char *last = strrchr(join->run_dir, '/');
    if (last) {
        snprintf(job->uid, sizeof job->uid, "%u", join->uid);
        snprintf(job->run, sizeof job->run, "%s", last + 1);
        return;
    }
    size_t uid = strcspn(join->name, ".");
    const char *run = join->name + uid + (join->name[uid] == '.');
    const char *hash = strrchr(run, '-');
    size_t bytes = hash ? (size_t)(hash - run) : strlen(run);
    bytes = bytes < sizeof job->run ? bytes : sizeof job->run - 1;
    uid = uid < sizeof job->uid ? uid : sizeof job->uid - 1;
    memcpy(job->uid, join->name, uid); /* the rest is 0 */
    memcpy(job->run, run, bytes);
}

void muster_worker_picture_add(struct muster_worker_picture *picture,
                               const struct muster_held_job *held)
{
    const struct muster_join *join = muster_held_job_join(held);
    if (!muster_grow(&picture->job, picture->jobs, sizeof *picture->job))
        return;
    struct muster_worker_job *job = &picture->job[picture->jobs];
    *job = (struct muster_worker_job){
        .is = muster_join_coverage(join, muster_held_job_read_ns(held)),
        .messages = join->messages,
        .lost = join->lost,
        .refused = join->refused,
        .silenced = muster_evaluator_silenced(muster_held_job_evaluator(held))};
    name_job(join, job);
    picture->jobs++;
    struct adding adding = {picture, job, join->uid};
    muster_evaluator_findings(muster_held_job_evaluator(held), add_finding, &adding);
}

/* ---- printing ---- */

struct figure {
    struct muster_family family;
    size_t offset; /* in struct muster_worker_job; of a size_t or uint64_t */
};
#define OF(member) offsetof(struct muster_worker_job, member)

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "one way to read figures");

static void print_jobs(const struct muster_worker_picture *picture, struct muster_exposition *to)
{
    static const struct figure figures[] = {
        {{"muster_fleet_ranks", MUSTER_FAMILY_GAUGE, "Ranks of a run that are heard"},
         OF(is.ranks)},
        {{"muster_fleet_ranks_expected", MUSTER_FAMILY_GAUGE, "Ranks that a run has, as they say"},
         OF(is.expected)},
        {{"muster_fleet_hosts", MUSTER_FAMILY_GAUGE, "Hosts of a run that were ever heard"},
         OF(is.hosts)},
        {{"muster_fleet_hosts_silent", MUSTER_FAMILY_GAUGE,
          "Of them, those that said nothing for three seconds"},
         OF(is.silent_hosts)},
        {{"muster_fleet_messages_total", MUSTER_FAMILY_COUNTER, "Messages of a run's agents"},
         OF(messages)},
        {{"muster_fleet_messages_lost_total", MUSTER_FAMILY_COUNTER,
          "Messages that never came, by their numbers"},
         OF(lost)},
        {{"muster_fleet_messages_refused_total", MUSTER_FAMILY_COUNTER,
          "Messages of another version, damaged, or not of this job"},
         OF(refused)},
        {{"muster_fleet_silenced_total", MUSTER_FAMILY_COUNTER,
          "Judgements that were not made because too few ranks were heard"},
         OF(silenced)},
    };
    for (size_t f = 0; f < sizeof figures / sizeof *figures; f++) {
        muster_exposition_family(to, &figures[f].family);
        for (size_t i = 0; i < picture->jobs; i++) {
            const struct muster_worker_job *job = &picture->job[i];
            const struct muster_label label[] = {
                {"run", job->run}, {"uid", job->uid}, {NULL, NULL}};
            uint64_t value;
            memcpy(&value, (const char *)job + figures[f].offset, sizeof value);
            muster_exposition_count(to, "", label, value);
        }
    }
}

static void print_progress(const struct muster_worker_picture *picture,
                           struct muster_exposition *to)
{
    static const struct muster_family moved = {
        "muster_fleet_last_progress_timestamp_seconds", MUSTER_FAMILY_GAUGE,
        "When any rank of a run called or ended an operation last, by the clock of NATS"};
    muster_exposition_family(to, &moved);
    for (size_t i = 0; i < picture->jobs; i++) {
        const struct muster_worker_job *job = &picture->job[i];
        const struct muster_label label[] = {{"run", job->run}, {"uid", job->uid}, {NULL, NULL}};
        if (job->is.moved_ns)
            muster_exposition_seconds(to, "", label, job->is.moved_ns);
    }
}

void muster_worker_print(const struct muster_worker_picture *picture, bool open_metrics, FILE *out)
{
    static const struct muster_family up = {"muster_fleet_nats_up", MUSTER_FAMILY_GAUGE,
                                            "1 while the worker is connected to NATS"};
    static const struct muster_family jobs = {"muster_fleet_jobs", MUSTER_FAMILY_GAUGE,
                                              "Jobs that this worker holds"};
    static const struct muster_family ever = {"muster_findings_total", MUSTER_FAMILY_COUNTER,
                                              "Findings since the worker began"};
    static const struct muster_family omitted = {"muster_fleet_findings_omitted",
                                                 MUSTER_FAMILY_GAUGE,
                                                 "Findings beyond the 256 that are told at once"};
    static const struct muster_family cpu = {"muster_fleet_cpu_seconds_total",
                                             MUSTER_FAMILY_COUNTER, "Processor time of the worker"};
    const struct muster_label none = {NULL, NULL};
    struct muster_exposition to;
    muster_exposition_begin(&to, out, open_metrics);
    muster_exposition_family(&to, &up);
    muster_exposition_count(&to, "", &none, picture->up);
    muster_exposition_family(&to, &jobs);
    muster_exposition_count(&to, "", &none, picture->jobs);
    print_jobs(picture, &to);
    print_progress(picture, &to);
    muster_finding_metrics_print(&picture->findings, &ever, true, &to);
    muster_exposition_family(&to, &omitted);
    muster_exposition_count(&to, "", &none, picture->findings.omitted);
    muster_exposition_family(&to, &cpu);
    muster_exposition_seconds(&to, "", &none, picture->cpu_ns);
    muster_exposition_end(&to);
}
