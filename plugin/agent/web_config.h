/*
 * Prometheus' usual web configuration file (exporter-toolkit's): TLS, and who may read.
 *
 *   tls_server_config:
 *     cert_file: server.crt       # beside the file, or absolute
 *     key_file: server.key
 *   basic_auth_users:
 *     prometheus: $2y$10$...      # bcrypt, as htpasswd -nBC 10 "" writes it
 *
 * What else may stand in such a file is an error here, so that nobody believes in a protection that
 * is not there.
 */
#ifndef MUSTER_AGENT_WEB_CONFIG_H
#define MUSTER_AGENT_WEB_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { MUSTER_WEB_USERS = 16, MUSTER_WEB_NAME = 128 };

struct muster_web_config {
    char *cert, *key; /* texts of these files; NULL both: no TLS */
    struct muster_web_user {
        char name[MUSTER_WEB_NAME], hash[MUSTER_WEB_NAME];
    } user[MUSTER_WEB_USERS];
    size_t users; /* 0: everybody may read */
};

/* Reads it, and the files that it names. err: FILE:LINE:COLUMN and what was expected; then *web
 * holds nothing. */
int muster_web_config_load(const char *path, struct muster_web_config *web, struct muster_err *err);
void muster_web_config_free(struct muster_web_config *web);

/* Whether an Authorization header, NULL without one, is of one of the users. Takes as long for
 * users that there are not: about 50 ms at a cost of 10. */
bool muster_web_may(const struct muster_web_config *web, const char *authorization);

#endif
