/*
 * A small HTTP server for one page, over libmicrohttpd: /metrics, in the format that the client
 * asks for. GET and HEAD only, few connections, short time limits. One thread of its own.
 */
#ifndef MUSTER_AGENT_AGENT_HTTP_H
#define MUSTER_AGENT_AGENT_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Makes the page: *text is malloc'ed, *bytes long. False: no memory. Called by the server's thread,
 * one call at a time. */
typedef bool muster_http_page(void *arg, bool open_metrics, char **text, size_t *bytes);

struct muster_http;

/* Listens on `where`: ADDR:PORT, [ADDR]:PORT or :PORT for all addresses; port 0: any that is free.
 * Addresses are numbers: a name may take its time to be found. `web`: a web configuration file,
 * whose TLS and users hold from now on; NULL: everybody may read, in clear. */
int muster_http_start(const char *where, const char *web, muster_http_page *page, void *arg,
                      struct muster_http **http, struct muster_err *err);
/* "http://127.0.0.1:9417": where it listens. */
const char *muster_http_where(const struct muster_http *http);
void muster_http_stop(struct muster_http *http);

#endif
