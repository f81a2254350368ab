#include "fleet/nats/link.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

enum { CREDENTIALS_BYTES = 512, SERVERS = 16 };
#define ANEW_NS      (5 * MUSTER_NS_PER_S)
#define RECONNECT_MS 500
#define WRITE_MS     2000 /* a server that takes nothing for so long is lost */
#define PING_MS      5000
#define LOG_NS       (30 * MUSTER_NS_PER_S)

struct muster_link {
    struct muster_link_options options;
    char secret[CREDENTIALS_BYTES]; /* "user:password" or a token; "": none, or NATS' own file */
    natsOptions *nats;
    natsConnection *connection;
    jsCtx *js;
    unsigned begun;
    uint64_t anew_ns;
    uint64_t logged_ns; /* of the library's thread */
    atomic_bool
        ending; /* closed by us; relaxed: the library's lock is between close and on_closed */
};

static void log_line(const struct muster_link *link, const char *what, const char *why)
{
    if (link->options.quiet)
        return;
    fprintf(link->options.log, "%s: NATS %s: %s%s%s\n", link->options.who, link->options.nats.url,
            what, why && why[0] ? ": " : "", why ? why : "");
    fflush(link->options.log);
}

static void on_up(natsConnection *connection, void *arg)
{
    (void)connection;
    log_line(arg, "connected", NULL);
}

static const char *last_error(natsConnection *connection)
{
    const char *text = NULL;
    natsConnection_GetLastError(connection, &text);
    return text;
}

static void on_down(natsConnection *connection, void *arg)
{
    const struct muster_link *link = arg;
    if (!atomic_load_explicit(&link->ending, memory_order_relaxed))
        log_line(link, "lost; trying again", last_error(connection));
}

static const char *refused_advice(const struct muster_link *link)
{
    return strncmp(link->options.nats.url, "tls://", 6) == 0
               ? "no connection; has it TLS, does --nats-ca vouch for its certificate, are the "
                 "credentials right?"
               : "refuses this connection; wrong credentials, or a server with TLS, which is "
                 "tls://HOST:PORT?";
}

/* The library looks for servers that are away without end, and gives up one that refuses. */
static void on_closed(natsConnection *connection, void *arg)
{
    struct muster_link *link = arg;
    const char *why = last_error(connection);
    uint64_t now = muster_now_ns();
    if (!why || !why[0] || atomic_load_explicit(&link->ending, memory_order_relaxed) ||
        (link->logged_ns && now - link->logged_ns < LOG_NS))
        return;
    link->logged_ns = now;
    char what[192];
    snprintf(what, sizeof what, "%s Trying again each five seconds", refused_advice(link));
    log_line(link, what, why);
}

/* What the server refuses. Lost heartbeats and slow consumers are seen by what does not come. */
static void on_error(natsConnection *connection, natsSubscription *subscription, natsStatus status,
                     void *arg)
{
    struct muster_link *link = arg;
    uint64_t now = muster_now_ns();
    (void)subscription;
    if ((status != NATS_CONNECTION_AUTH_FAILED && status != NATS_NOT_PERMITTED) ||
        (link->logged_ns && now - link->logged_ns < LOG_NS))
        return;
    link->logged_ns = now;
    log_line(link,
             status == NATS_NOT_PERMITTED ? "something is not permitted to these credentials"
                                          : "refuses the credentials",
             last_error(connection));
}

/* ---- options ---- */

static int read_secret(struct muster_link *link, struct muster_err *err)
{
    const char *path = link->options.nats.credentials;
    FILE *file = path ? fopen(path, "re") : NULL;
    if (!path)
        return 0;
    if (!file)
        return muster_fail(err,
                           "--nats-credentials %s: %s; expected a NATS credentials file, or a line "
                           "USER:PASSWORD or TOKEN",
                           path, strerror(errno));
    size_t n = fread(link->secret, 1, sizeof link->secret - 1, file);
    fclose(file);
    link->secret[n] = '\0';
    if (strstr(link->secret, "-----BEGIN NATS USER JWT-----")) {
        link->secret[0] = '\0';
        return 0;
    }
    link->secret[strcspn(link->secret, "\r\n")] = '\0';
    return link->secret[0] ? 0
                           : muster_fail(err,
                                         "%s: no credentials in it; expected a NATS credentials "
                                         "file, or a line USER:PASSWORD or TOKEN",
                                         path);
}

/* HOST, HOST:PORT or [ADDRESS]:PORT. */
static bool is_host(const char *text)
{
    const char *colon = strrchr(text, ':');
    uint64_t port = 1;
    bool has_port = colon && !strchr(colon, ']');
    return text[0] && text[0] != ':' && text[0] != '/' &&
           (!has_port || (muster_text_u64(colon + 1, &port) && port > 0 && port <= UINT16_MAX));
}

/* The list at the commas, in place. */
static int check_urls(char *list, const char *url[SERVERS], int *n, struct muster_err *err)
{
    char *rest = NULL;
    *n = 0;
    for (char *one = strtok_r(list, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        const char *host = strncmp(one, "nats://", 7) == 0  ? one + 7
                           : strncmp(one, "tls://", 6) == 0 ? one + 6
                                                            : "";
        if (*n == SERVERS)
            return muster_fail(err, "--nats: more than %d servers", SERVERS);
        if (strchr(one, '@'))
            return muster_fail(err, "--nats: credentials in an address are seen by every user of "
                                    "this host: put them into a file, --nats-credentials FILE");
        if (!is_host(host))
            return muster_fail(err, "--nats \"%s\": expected nats://HOST:PORT or tls://HOST:PORT",
                               one);
        url[(*n)++] = one;
    }
    return *n ? 0 : muster_fail(err, "--nats: expected nats://HOST:PORT or tls://HOST:PORT");
}

static natsStatus set_secret(struct muster_link *link)
{
    char *colon = strchr(link->secret, ':');
    if (!link->options.nats.credentials)
        return NATS_OK;
    if (!link->secret[0])
        return natsOptions_SetUserCredentialsFromFiles(link->nats, link->options.nats.credentials,
                                                       NULL);
    if (!colon)
        return natsOptions_SetToken(link->nats, link->secret);
    *colon = '\0';
    natsStatus status = natsOptions_SetUserInfo(link->nats, link->secret, colon + 1);
    *colon = ':';
    return status;
}

static natsStatus set_callbacks(struct muster_link *link)
{
    natsStatus s = natsOptions_SetRetryOnFailedConnect(link->nats, true, on_up, link);
    s = s == NATS_OK ? natsOptions_SetReconnectedCB(link->nats, on_up, link) : s;
    s = s == NATS_OK ? natsOptions_SetDisconnectedCB(link->nats, on_down, link) : s;
    s = s == NATS_OK ? natsOptions_SetClosedCB(link->nats, on_closed, link) : s;
    return s == NATS_OK ? natsOptions_SetErrorHandler(link->nats, on_error, link) : s;
}

static natsStatus set_options(struct muster_link *link, const char **url, int urls)
{
    natsStatus s = natsOptions_Create(&link->nats);
    s = s == NATS_OK ? natsOptions_SetServers(link->nats, url, urls) : s;
    s = s == NATS_OK ? natsOptions_SetName(link->nats, link->options.who) : s;
    s = s == NATS_OK ? natsOptions_SetTimeout(link->nats, MUSTER_LINK_WAIT_MS) : s;
    s = s == NATS_OK ? natsOptions_SetMaxReconnect(link->nats, -1) : s;
    s = s == NATS_OK ? natsOptions_SetReconnectWait(link->nats, RECONNECT_MS) : s;
    s = s == NATS_OK ? natsOptions_SetReconnectJitter(link->nats, RECONNECT_MS, RECONNECT_MS) : s;
    s = s == NATS_OK ? natsOptions_SetPingInterval(link->nats, PING_MS) : s;
    s = s == NATS_OK ? natsOptions_SetWriteDeadline(link->nats, WRITE_MS) : s;
    s = s == NATS_OK && strncmp(url[0], "tls://", 6) == 0 ? natsOptions_SetSecure(link->nats, true)
                                                          : s;
    s = s == NATS_OK && link->options.nats.ca
            ? natsOptions_LoadCATrustedCertificates(link->nats, link->options.nats.ca)
            : s;
    s = s == NATS_OK ? set_secret(link) : s;
    return s == NATS_OK ? set_callbacks(link) : s;
}

/* ---- the connection ---- */

static void drop(struct muster_link *link)
{
    jsCtx_Destroy(link->js);
    natsConnection_Destroy(link->connection);
    link->js = NULL;
    link->connection = NULL;
}

static void begin(struct muster_link *link, uint64_t now_ns)
{
    jsOptions js;
    jsOptions_Init(&js);
    js.Wait = MUSTER_LINK_WAIT_MS;
    js.PublishAsync.AckHandler = link->options.acked;
    js.PublishAsync.AckHandlerClosure = link->options.acked_arg;
    link->begun++;
    link->anew_ns = now_ns + ANEW_NS;
    natsStatus status = natsConnection_Connect(&link->connection, link->nats);
    if (status == NATS_OK)
        log_line(link, "connected", NULL);
    else if (status == NATS_NOT_YET_CONNECTED && link->begun == 1)
        log_line(link, "not connected yet; does nats-server run there? Trying again", NULL);
    else if (status != NATS_NOT_YET_CONNECTED)
        log_line(link, "not connected; trying again", natsStatus_GetText(status));
    if (link->connection && natsConnection_JetStream(&link->js, link->connection, &js) != NATS_OK)
        drop(link);
}

int muster_link_open(const struct muster_link_options *options, struct muster_link **link,
                     struct muster_err *err)
{
    const char *url[SERVERS] = {NULL};
    int urls, rc;
    struct muster_link *one = calloc(1, sizeof *one);
    char *list = strdup(options->nats.url);
    if (!one || !list) {
        free(one);
        free(list);
        return muster_fail_memory(err, "a connection");
    }
    one->options = *options;
    rc = check_urls(list, url, &urls, err);
    rc = rc == 0 ? read_secret(one, err) : rc;
    if (rc == 0 && options->nats.ca && access(options->nats.ca, R_OK) != 0)
        rc = muster_fail(err, "--nats-ca %s: %s; expected certificates in PEM", options->nats.ca,
                         strerror(errno));
    if (rc == 0 && set_options(one, url, urls) != NATS_OK)
        rc = muster_fail(err, "NATS %s: %s", options->nats.url, nats_GetLastError(NULL));
    free(list);
    if (rc != 0) {
        natsOptions_Destroy(one->nats);
        free(one);
        return -1;
    }
    begin(one, muster_now_ns());
    *link = one;
    return 0;
}

void muster_link_close(struct muster_link *link)
{
    if (!link)
        return;
    atomic_store_explicit(&link->ending, true, memory_order_relaxed);
    natsConnection_Close(link->connection);
    drop(link);
    natsOptions_Destroy(link->nats);
    explicit_bzero(link->secret, sizeof link->secret);
    nats_CloseAndWait(MUSTER_LINK_WAIT_MS);
    free(link);
}

unsigned muster_link_tend(struct muster_link *link, uint64_t now_ns)
{
    if (muster_link_is_over(link) && now_ns >= link->anew_ns) {
        drop(link);
        begin(link, now_ns);
    }
    return link->begun;
}

bool muster_link_is_up(const struct muster_link *link)
{
    return link->connection &&
           natsConnection_Status(link->connection) == NATS_CONN_STATUS_CONNECTED;
}

bool muster_link_is_over(const struct muster_link *link)
{
    return !link->connection || natsConnection_IsClosed(link->connection);
}

int muster_link_why_down(const struct muster_link *link, struct muster_err *err)
{
    const char *url = link->options.nats.url;
    const char *why = link->connection ? last_error(link->connection) : nats_GetLastError(NULL);
    if (muster_link_is_over(link))
        return muster_fail(err, "NATS %s: %s%s%s", url, refused_advice(link),
                           why && why[0] ? ": " : "", why ? why : "");
    return muster_fail(err,
                       "NATS %s does not answer: does nats-server run there, and does this host "
                       "reach it? Else give another address: --nats nats://HOST:PORT",
                       url);
}

natsConnection *muster_link_connection(const struct muster_link *link)
{
    return link->connection;
}

jsCtx *muster_link_js(const struct muster_link *link)
{
    return link->js;
}
