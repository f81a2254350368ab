#include "agent/web_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/yaml.h"
#include "segment/segment_reader.h"

enum { FILE_BYTES = 1 << 20, PATH_BYTES = 1024 };

struct reading {
    const char *file;
    struct muster_web_config *web;
    struct muster_err *err;
};

static int unexpected(const struct reading *in, const struct muster_yaml_node *node,
                      const char *expected)
{
    char what[64];
    muster_yaml_describe(node, what, sizeof what);
    return muster_yaml_fail(in->err, in->file, node->place, "expected %s, found %s", expected,
                            what);
}

static int unknown_key(const struct reading *in, const struct muster_yaml_node *node,
                       const char *expected)
{
    return muster_yaml_fail(in->err, in->file, node->key_place,
                            "the agent does not know %.100s; expected %s", node->key, expected);
}

/* The text of a file that is named beside `in->file`. */
static int load_text(const struct reading *in, const struct muster_yaml_node *node, char **text)
{
    char path[PATH_BYTES];
    const char *slash = strrchr(in->file, '/');
    struct muster_err why;
    void *data;
    size_t bytes;
    if (node->kind != MUSTER_YAML_SCALAR || !node->text[0])
        return unexpected(in, node, "a file");
    int folder = node->text[0] == '/' || !slash ? 0 : (int)(slash + 1 - in->file);
    snprintf(path, sizeof path, "%.*s%s", folder, in->file, node->text);
    if (muster_file_load(path, FILE_BYTES, &data, &bytes, &why) != 0)
        return muster_yaml_fail(in->err, in->file, node->place, "%s", why.text);
    free(*text);
    *text = malloc(bytes + 1);
    if (*text) {
        memcpy(*text, data, bytes);
        (*text)[bytes] = 0;
    }
    free(data);
    return *text ? 0 : muster_fail_memory(in->err, path);
}

static int read_tls(const struct reading *in, const struct muster_yaml_node *tls)
{
    if (tls->kind != MUSTER_YAML_MAP)
        return unexpected(in, tls, "a mapping with cert_file and key_file");
    for (const struct muster_yaml_node *one = tls->first; one; one = one->next) {
        char **text = strcmp(one->key, "cert_file") == 0  ? &in->web->cert
                      : strcmp(one->key, "key_file") == 0 ? &in->web->key
                                                          : NULL;
        if (!text)
            return unknown_key(in, one, "cert_file and key_file");
        if (load_text(in, one, text) != 0)
            return -1;
    }
    if (!in->web->cert || !in->web->key)
        return muster_yaml_fail(in->err, in->file, tls->place,
                                "TLS needs both cert_file and key_file");
    return 0;
}

static int read_users(const struct reading *in, const struct muster_yaml_node *users)
{
    if (users->kind != MUSTER_YAML_MAP)
        return unexpected(in, users, "a mapping of names to bcrypt hashes");
    for (const struct muster_yaml_node *one = users->first; one; one = one->next) {
        if (in->web->users == MUSTER_WEB_USERS)
            return muster_yaml_fail(in->err, in->file, one->key_place, "more than %d users",
                                    MUSTER_WEB_USERS);
        bool bcrypt = one->kind == MUSTER_YAML_SCALAR && strlen(one->text) == 60 &&
                      one->text[0] == '$' && one->text[1] == '2';
        if (!bcrypt) /* not shown: it may be a password */
            return muster_yaml_fail(in->err, in->file, one->place,
                                    "expected a bcrypt hash, as `htpasswd -nBC 10 \"\"` writes it");
        if (strlen(one->key) >= MUSTER_WEB_NAME || strchr(one->key, ':'))
            return muster_yaml_fail(in->err, in->file, one->key_place,
                                    "a user's name has less than %d bytes and no colon",
                                    MUSTER_WEB_NAME);
        struct muster_web_user *user = &in->web->user[in->web->users++];
        snprintf(user->name, sizeof user->name, "%s", one->key);
        snprintf(user->hash, sizeof user->hash, "%s", one->text);
    }
    return 0;
}

static int read_root(const struct reading *in, const struct muster_yaml_node *root)
{
    if (root->kind != MUSTER_YAML_MAP)
        return unexpected(in, root, "a mapping with tls_server_config or basic_auth_users");
    for (const struct muster_yaml_node *one = root->first; one; one = one->next) {
        int rc = strcmp(one->key, "tls_server_config") == 0 ? read_tls(in, one)
                 : strcmp(one->key, "basic_auth_users") == 0
                     ? read_users(in, one)
                     : unknown_key(in, one, "tls_server_config and basic_auth_users");
        if (rc != 0)
            return -1;
    }
    if (!in->web->cert && !in->web->users)
        return muster_yaml_fail(in->err, in->file, root->place, "it protects nothing");
    return 0;
}

int muster_web_config_load(const char *path, struct muster_web_config *web, struct muster_err *err)
{
    const struct reading in = {path, web, err};
    struct muster_yaml_node *root;
    struct muster_arena memory = {0};
    void *data;
    size_t bytes;
    memset(web, 0, sizeof *web);
    if (muster_file_load(path, MUSTER_YAML_BYTES, &data, &bytes, err) != 0)
        return -1;
    int rc = muster_yaml_parse(&root, &memory, path, data, bytes, err);
    free(data);
    if (rc == 0)
        rc = read_root(&in, root);
    muster_arena_free(&memory);
    if (rc != 0)
        muster_web_config_free(web);
    return rc;
}

void muster_web_config_free(struct muster_web_config *web)
{
    free(web->cert);
    if (web->key)
        explicit_bzero(web->key, strlen(web->key));
    free(web->key);
    memset(web, 0, sizeof *web);
}
