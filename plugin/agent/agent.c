#include "agent/agent.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>

#include "agent/agent_http.h"
#include "agent/agent_metrics.h"
#include "agent/agent_sample.h"
#include "agent/agent_watch.h"
#include "base/clock.h"
#include "base/text.h"

struct agent {
    const struct muster_agent_options *options;
    struct muster_agent_watch *watch;
    struct muster_agent_sample sample; /* of the server's thread alone */
};

static int begin(struct agent *agent, const struct muster_agent_options *options, FILE *log,
                 struct muster_err *err)
{
    const struct muster_agent_watch_options watch = {.segment_dir = options->segment_dir,
                                                     .all = options->all,
                                                     .hang_ns = options->hang_ns,
                                                     .log = log,
                                                     .report = options->report,
                                                     .found = options->found,
                                                     .report_arg = options->report_arg};
    *agent = (struct agent){.options = options, .watch = muster_agent_watch_new(&watch)};
    return agent->watch ? 0 : muster_fail_memory(err, "the agent");
}

static void end(struct agent *agent)
{
    muster_agent_watch_free(agent->watch);
    muster_agent_sample_free(&agent->sample);
}

static bool print_page(struct agent *agent, bool open_metrics, FILE *out)
{
    uint64_t begin_ns = muster_now_ns();
    const char *dir = agent->options->segment_dir;
    struct muster_found *found;
    size_t n = agent->options->all ? muster_find_all_segments(dir, &found)
                                   : muster_find_segments(dir, &found);
    bool whole = muster_agent_sample_take(&agent->sample, found, n);
    muster_found_free(found, n);
    uint64_t took_ns = muster_now_ns() - begin_ns;
    const struct muster_agent_news *news = muster_agent_watch_lock(agent->watch);
    if (whole)
        muster_agent_metrics(agent->options, &agent->sample, news, took_ns, open_metrics, out);
    muster_agent_watch_unlock(agent->watch);
    return whole;
}

int muster_agent_once(const struct muster_agent_options *options, bool open_metrics, FILE *out,
                      struct muster_err *err)
{
    struct agent agent;
    if (begin(&agent, options, stderr, err) != 0)
        return -1;
    muster_agent_watch_once(agent.watch);
    bool whole = print_page(&agent, open_metrics, out);
    end(&agent);
    return whole ? 0 : muster_fail_memory(err, "what the segments hold");
}

static bool page(void *arg, bool open_metrics, char **text, size_t *bytes)
{
    struct agent *agent = arg;
    *text = NULL;
    FILE *memory = open_memstream(text, bytes);
    bool whole = memory && print_page(agent, open_metrics, memory);
    if (!muster_text_close(memory, text))
        return false;
    if (!whole)
        free(*text);
    return whole;
}

static void ends(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
}

void muster_agent_block_signals(void)
{
    sigset_t set;
    ends(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

int muster_agent_serve(const struct muster_agent_options *options, const char *listen,
                       const char *web, FILE *log, struct muster_err *err)
{
    struct muster_http *http;
    struct agent agent;
    sigset_t set;
    int signal_number;
    muster_agent_block_signals();
    ends(&set);
    signal(SIGPIPE, SIG_IGN);
    /* What is read whole for a moment goes back to the system. */
    mallopt(M_MMAP_THRESHOLD, 256 * 1024);
    if (begin(&agent, options, log, err) != 0)
        return -1;
    int rc = muster_agent_watch_start(agent.watch, err);
    rc = rc == 0 ? muster_http_start(listen, web, page, &agent, &http, err) : rc;
    if (rc == 0) {
        if (log) {
            fprintf(log, "muster agent: %s/metrics, segments of %s in %s\n",
                    muster_http_where(http), options->all ? "all users" : "this user",
                    options->segment_dir);
            fflush(log);
        }
        sigwait(&set, &signal_number);
        muster_http_stop(http);
    }
    end(&agent);
    return rc;
}
