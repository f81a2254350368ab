/* Where the command was built without libmicrohttpd. */
#include "agent/agent_http.h"

struct muster_http {
    int unused;
};

int muster_http_start(const char *where, const char *web, muster_http_page *page, void *arg,
                      struct muster_http **http, struct muster_err *err)
{
    (void)web;
    (void)where;
    (void)page;
    (void)arg;
    (void)http;
    return muster_fail(err, "this muster was built without libmicrohttpd and cannot serve; --once "
                            "prints the same, or build it with libmicrohttpd-dev installed");
}

const char *muster_http_where(const struct muster_http *http)
{
    (void)http;
    return "";
}

void muster_http_stop(struct muster_http *http)
{
    (void)http;
}
