/* Without libnats: everything of one host works, and what needs NATS fails with that. */
#include "fleet/nats/asker.h"
#include "fleet/nats/publish.h"
#include "fleet/nats/worker.h"

static int cannot(struct muster_err *err)
{
    return muster_fail(err, "this build knows no NATS: libnats was not there when it was made "
                            "(libnats-dev)");
}

int muster_publish_start(const struct muster_publish_options *options,
                         struct muster_publish **publish, struct muster_err *err)
{
    (void)options;
    (void)publish;
    return cannot(err);
}

void muster_publish_stop(struct muster_publish *publish)
{
    (void)publish;
}

void muster_publish_findings(void *publish, uint32_t uid, const char *run_dir,
                             const struct muster_finding *finding, size_t findings)
{
    (void)publish;
    (void)uid;
    (void)run_dir;
    (void)finding;
    (void)findings;
}

void muster_publish_found(void *publish, struct muster_found *found, size_t n)
{
    (void)publish;
    muster_found_free(found, n);
}

void muster_publish_metrics(void *publish, struct muster_exposition *to)
{
    (void)publish;
    (void)to;
}

int muster_worker_run(const struct muster_worker_options *options, struct muster_err *err)
{
    (void)options;
    return cannot(err);
}

int muster_fleet_ask(const struct muster_fleet_question *question, FILE *out, size_t *found,
                     struct muster_err *err)
{
    (void)question;
    (void)out;
    (void)found;
    return cannot(err);
}

int muster_asker_open(const struct muster_asker_options *options, struct muster_asker **asker,
                      struct muster_err *err)
{
    (void)options;
    (void)asker;
    return cannot(err);
}

int muster_asker_ask(struct muster_asker *asker, struct muster_answer *answer,
                     struct muster_err *err)
{
    (void)asker;
    (void)answer;
    return cannot(err);
}

void muster_answer_free(struct muster_answer *answer)
{
    (void)answer;
}

void muster_asker_close(struct muster_asker *asker)
{
    (void)asker;
}
