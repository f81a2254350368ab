#include "agent/agent_http.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/exposition.h"
#include "agent/listen_address.h"
#include "agent/web_config.h"

enum { CONNECTIONS = 32, SECONDS = 10, OPTIONS = 4 };

struct muster_http {
    struct MHD_Daemon *daemon;
    muster_http_page *page;
    void *arg;
    struct muster_web_config web; /* zeroed: everybody may read */
    char where[112];
};

static enum MHD_Result answer(struct MHD_Connection *to, unsigned status, const char *type,
                              char *text, size_t bytes, enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(bytes, text, mode);
    if (!response) {
        if (mode == MHD_RESPMEM_MUST_FREE)
            free(text);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
                                "Basic realm=\"muster agent\"");
    enum MHD_Result result = MHD_queue_response(to, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer_text(struct MHD_Connection *to, unsigned status, const char *text)
{
    char copy[128];
    int n = snprintf(copy, sizeof copy, "%s\n", text);
    return answer(to, status, "text/plain; charset=utf-8", copy, (size_t)n, MHD_RESPMEM_MUST_COPY);
}

static enum MHD_Result metrics(struct muster_http *http, struct MHD_Connection *to)
{
    bool open = muster_exposition_wants_open_metrics(
        MHD_lookup_connection_value(to, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT));
    char *text;
    size_t bytes;
    if (!http->page(http->arg, open, &text, &bytes))
        return answer_text(to, MHD_HTTP_SERVICE_UNAVAILABLE, "no memory");
    return answer(to, MHD_HTTP_OK, muster_exposition_media_type(open), text, bytes,
                  MHD_RESPMEM_MUST_FREE);
}

static enum MHD_Result choose(struct muster_http *http, struct MHD_Connection *to, const char *url,
                              const char *method)
{
    if (!muster_web_may(&http->web, MHD_lookup_connection_value(to, MHD_HEADER_KIND,
                                                                MHD_HTTP_HEADER_AUTHORIZATION)))
        return answer_text(to, MHD_HTTP_UNAUTHORIZED, "who are you?");
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return answer_text(to, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD only");
    if (strcmp(url, "/metrics") == 0)
        return metrics(http, to);
    if (strcmp(url, "/") == 0 || strcmp(url, "/-/healthy") == 0)
        return answer_text(to, MHD_HTTP_OK, "muster agent; see /metrics");
    return answer_text(to, MHD_HTTP_NOT_FOUND, "not here; see /metrics");
}

static enum MHD_Result take(void *arg, struct MHD_Connection *to, const char *url,
                            const char *method, const char *version, const char *upload,
                            size_t *upload_bytes, void **state)
{
    static int begun;
    (void)version;
    (void)upload;
    if (!*state) { /* the head alone is there; a body, if one comes, is not wanted */
        *state = &begun;
        return MHD_YES;
    }
    if (*upload_bytes) {
        *upload_bytes = 0;
        return MHD_YES;
    }
    return choose(arg, to, url, method);
}

/* Takes the socket over. NULL: it does not start. */
static struct MHD_Daemon *start_on(struct muster_http *http, int fd)
{
    char *cert = http->web.cert, *key = http->web.key;
    struct MHD_OptionItem tls[OPTIONS] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (char[]){"NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"}},
        {MHD_OPTION_END, 0, NULL},
    };
    struct MHD_OptionItem *more = cert ? tls : &tls[OPTIONS - 1];
    unsigned flags = MHD_USE_AUTO_INTERNAL_THREAD | (cert ? MHD_USE_TLS : 0);
    struct MHD_Daemon *daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, take, http, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SECONDS, MHD_OPTION_ARRAY,
        more, MHD_OPTION_END);
    if (!daemon)
        close(fd);
    return daemon;
}

static int listen_and_start(struct muster_http *http, const char *where, const char *web,
                            struct muster_err *err)
{
    char address[96];
    if (web && muster_web_config_load(web, &http->web, err) != 0)
        return -1;
    if (http->web.cert && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return muster_fail(err, "%s: this libmicrohttpd has no TLS", web);
    int fd = muster_listen_open(where, address, sizeof address, err);
    if (fd < 0)
        return -1;
    snprintf(http->where, sizeof http->where, "http%s://%s", http->web.cert ? "s" : "", address);
    http->daemon = start_on(http, fd);
    if (!http->daemon && http->web.cert)
        return muster_fail(
            err, "%s: TLS does not start; are certificate and key PEM files of one pair?", web);
    return http->daemon ? 0 : muster_fail(err, "libmicrohttpd does not start on %s", where);
}

int muster_http_start(const char *where, const char *web, muster_http_page *page, void *arg,
                      struct muster_http **started, struct muster_err *err)
{
    struct muster_http *http = calloc(1, sizeof *http);
    if (!http)
        return muster_fail_memory(err, "a server");
    http->page = page;
    http->arg = arg;
    if (listen_and_start(http, where, web, err) != 0) {
        muster_web_config_free(&http->web);
        free(http);
        return -1;
    }
    *started = http;
    return 0;
}

const char *muster_http_where(const struct muster_http *http)
{
    return http->where;
}

void muster_http_stop(struct muster_http *http)
{
    MHD_stop_daemon(http->daemon);
    muster_web_config_free(&http->web);
    free(http);
}
