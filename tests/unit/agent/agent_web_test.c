/* Who may read, by Prometheus' web configuration file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/web_config.h"

/* "let me read", at the lowest cost. */
#define HASH "$2b$04$abcdefghijklmnopqrstuuZx7bwzEt2zO5rYiIG2MPCzROol.usxu"

static int load(const char *text, struct muster_web_config *web, struct muster_err *err)
{
    char path[] = "/tmp/muster-web-XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    int rc = muster_web_config_load(path, web, err);
    unlink(path);
    return rc;
}

static void users_by_their_hashes(void **state)
{
    (void)state;
    struct muster_web_config web;
    struct muster_err err = {""};
    assert_int_equal(load("basic_auth_users:\n  anna: " HASH "\n  bert: '" HASH "'\n", &web, &err),
                     0);
    assert_int_equal(web.users, 2);
    assert_null(web.cert);
    assert_true(muster_web_may(&web, "Basic YW5uYTpsZXQgbWUgcmVhZA=="));
    assert_true(muster_web_may(&web, "basic YmVydDpsZXQgbWUgcmVhZA=="));
    static const char *const refused[] = {NULL,
                                          "",
                                          "Basic ",
                                          "Basic ====",
                                          "Basic YW5uYTp3cm9uZw==",         /* anna:wrong */
                                          "Basic Y2FybDpsZXQgbWUgcmVhZA==", /* carl */
                                          "Basic YW5uYQ==",
                                          "Bearer YW5uYTpsZXQgbWUgcmVhZA==",
                                          "Basic YW5uYTpsZXQgbWUgcmVhZA==x",
                                          "Basic \xff\xfe",
                                          "Basic YW5uYQA6bGV0IG1lIHJlYWQ=" /* a NUL in the name */};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_false(muster_web_may(&web, refused[i]));
    char huge[4096] = "Basic ";
    memset(huge + 6, 'Y', sizeof huge - 7);
    huge[sizeof huge - 1] = 0;
    assert_false(muster_web_may(&web, huge));
    muster_web_config_free(&web);
    assert_true(muster_web_may(&web, NULL));
}

static void what_is_wrong_is_named_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", ":1:1: expected a mapping"},
        {"basic_auth_users: {}\n", "protects nothing"},
        {"basic_auth_users:\n  anna: secret\n", ":2:9: expected a bcrypt hash"},
        {"basic_auth_users: [a]\n", "expected a mapping of names"},
        {"http_server_config: {http2: false}\n",
         ":1:1: the agent does not know http_server_config"},
        {"tls_server_config:\n  client_ca_file: x\n",
         ":2:3: the agent does not know client_ca_file"},
        {"tls_server_config:\n  cert_file: /nonexistent/server.crt\n", ":2:14: /nonexistent"},
        {"tls_server_config:\n  cert_file: /etc/hostname\n", "both cert_file and key_file"},
        {"tls_server_config: yes\n", "expected a mapping with cert_file"},
        {"basic_auth_users: {a: " HASH ", a: " HASH "}\n", ":1:"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct muster_web_config web;
        struct muster_err err = {""};
        assert_int_equal(load(cases[i].text, &web, &err), -1);
        if (!strstr(err.text, cases[i].message))
            fail_msg("\"%s\" does not say \"%s\"", err.text, cases[i].message);
        assert_null(strstr(err.text, "secret"));
    }
}

static void files_stand_beside_the_file(void **state)
{
    (void)state;
    char dir[] = "/tmp/muster-web-XXXXXX", path[128];
    struct muster_web_config web;
    struct muster_err err = {""};
    assert_non_null(mkdtemp(dir));
    static const char *const files[][2] = {
        {"web.yml", "tls_server_config: {cert_file: c, key_file: k}\n"},
        {"c", "CERT"},
        {"k", "KEY"}};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i][0]);
        FILE *file = fopen(path, "w");
        fputs(files[i][1], file);
        fclose(file);
    }
    snprintf(path, sizeof path, "%s/web.yml", dir);
    assert_int_equal(muster_web_config_load(path, &web, &err), 0);
    assert_string_equal(web.cert, "CERT");
    assert_string_equal(web.key, "KEY");
    muster_web_config_free(&web);
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i][0]);
        unlink(path);
    }
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users_by_their_hashes),
        cmocka_unit_test(what_is_wrong_is_named_with_its_place),
        cmocka_unit_test(files_stand_beside_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
