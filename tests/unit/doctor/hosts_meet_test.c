/* Members that connect to the leader, and others that do, too. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "doctor/hosts/hosts_channel.h"

enum { MEMBERS = 3, LONG = 3 << 20, WAIT_MS = 20000 };

static void places_are_a_host_and_a_port(void **state)
{
    char host[256];
    uint16_t port;
    struct muster_err err;
    static const char *const wrong[] = {"node1",       "node1:", ":29500",   "node1:0",  "node1:x",
                                        "node1:70000", "[]:1",   "node1:-1", "node1:1 ", ""};
    (void)state;
    assert_int_equal(muster_hosts_meet_place("node1:29501", host, &port, &err), 0);
    assert_string_equal(host, "node1");
    assert_int_equal(port, 29501);
    assert_int_equal(muster_hosts_meet_place("[fe80::1%eth0]:1", host, &port, &err), 0);
    assert_string_equal(host, "fe80::1%eth0");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(muster_hosts_meet_place(wrong[i], host, &port, &err), -1);
        assert_non_null(strstr(err.text, "expected HOST:PORT"));
    }
}

static void a_member_says_the_jobs_name(void **state)
{
    unsigned member = 77;
    (void)state;
    assert_true(muster_hosts_meet_read("@muster-join 2 job.1", "job.1", 3, &member));
    assert_int_equal(member, 2);
    assert_false(muster_hosts_meet_read("@muster-join 3 job.1", "job.1", 3, &member));
    assert_false(muster_hosts_meet_read("@muster-join 2 job.2", "job.1", 3, &member));
    assert_false(muster_hosts_meet_read("@muster-join 2 job.1 ", "job.1", 3, &member));
    assert_false(muster_hosts_meet_read("@muster-join  2 job.1", "job.1", 3, &member));
    assert_false(muster_hosts_meet_read("GET / HTTP/1.1", "job.1", 3, &member));
    assert_false(muster_hosts_meet_read("", "job.1", 3, &member));
}

/* A port that was free a moment ago. */
static void free_place(char *at, size_t size)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t n = sizeof any;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof any), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &n), 0);
    close(fd);
    snprintf(at, size, "127.0.0.1:%u", ntohs(any.sin_port));
}

/* Gives back what it hears, its number in front, until the leader ends. */
static void be_member(const char *at, const char *key, unsigned member)
{
    struct muster_hosts_channel channel;
    struct muster_err err;
    const char *text;
    size_t size;
    unsigned from;
    int rc = muster_hosts_meet_join(at, key, member, &channel, &err);
    while (rc == 0 && (rc = channel.take(channel.self, WAIT_MS, &from, &text, &size, &err)) > 0) {
        char *back = malloc(size + 32);
        if (!back)
            _exit(2);
        snprintf(back, size + 32, "%u %s", member, text);
        rc = channel.send(channel.self, back, &err);
        free(back);
    }
    _exit(rc < 0 ? 0 : 1); /* the end of the leader is the only one */
}

static pid_t start_member(const char *at, const char *key, unsigned member)
{
    pid_t pid = fork();
    if (pid == 0)
        be_member(at, key, member);
    return pid;
}

/* What connects to a port that is open: nothing of it is a member. */
static void make_noise(const char *at)
{
    static const char *const noise[] = {"GET / HTTP/1.0\r\n\r\n",
                                        "@muster-join 0 another\n",
                                        "@muster-join 99 job\n",
                                        "@muster 1 . {\"kind\":\"failure\"}\n",
                                        "\n",
                                        "\x16\x03\x01\x02\x00\x01"};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(strchr(at, ':') + 1))};
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    for (size_t i = 0; i < sizeof noise / sizeof *noise; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
        assert_true(send(fd, noise[i], strlen(noise[i]), MSG_NOSIGNAL) > 0);
        if (i % 2)
            close(fd); /* the others stay open, silent */
    }
}

static void hear_all(struct muster_hosts_channel *channel, const char *sent)
{
    struct muster_err err;
    unsigned heard = 0;
    while (heard != (1u << MEMBERS) - 1) {
        const char *text;
        char *end;
        size_t size;
        unsigned from;
        assert_int_equal(channel->take(channel->self, WAIT_MS, &from, &text, &size, &err), 1);
        assert_true(from < MEMBERS);
        assert_int_equal(strtoul(text, &end, 10), from);
        assert_int_equal(strncmp(end + 1, sent, strlen(sent)), 0);
        heard |= 1u << from;
    }
}

static void all_hear_and_are_heard(void **state)
{
    struct muster_hosts_channel channel;
    struct muster_err err;
    char at[32], *large = malloc(LONG + 1);
    pid_t pid[MEMBERS];
    int status;
    (void)state;
    assert_non_null(large);
    memset(large, 'x', LONG);
    large[LONG] = '\0';
    free_place(at, sizeof at);
    pid[0] = start_member(at, "job", 0); /* before there is a leader */
    assert_int_equal(muster_hosts_meet_lead(at, "job", MEMBERS, &channel, &err), 0);
    make_noise(at);
    pid[1] = start_member(at, "job", 1);
    assert_int_equal(channel.send(channel.self, "first", &err), 0);
    pid[2] = start_member(at, "job", 2); /* hears what was said before it came */
    hear_all(&channel, "first");
    assert_int_equal(channel.send(channel.self, large, &err), 0);
    hear_all(&channel, large);
    for (unsigned i = 0; i < MEMBERS; i++)
        assert_null(channel.lost(channel.self, i));
    channel.close(channel.self);
    for (unsigned i = 0; i < MEMBERS; i++) {
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(status, 0);
    }
    free(large);
}

static void who_goes_is_missed(void **state)
{
    struct muster_hosts_channel channel;
    struct muster_err err;
    const char *text;
    char at[32];
    size_t size;
    unsigned from;
    (void)state;
    free_place(at, sizeof at);
    assert_int_equal(muster_hosts_meet_lead(at, "job", MEMBERS, &channel, &err), 0);
    pid_t pid = start_member(at, "job", 1);
    assert_int_equal(channel.send(channel.self, "first", &err), 0);
    assert_int_equal(channel.take(channel.self, WAIT_MS, &from, &text, &size, &err), 1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    for (int i = 0; i < WAIT_MS / 100 && !channel.lost(channel.self, 1); i++)
        assert_int_equal(channel.take(channel.self, 100, &from, &text, &size, &err), 0);
    assert_non_null(strstr(channel.lost(channel.self, 1), "ended"));
    assert_null(channel.lost(channel.self, 0)); /* may still come */
    channel.close(channel.self);
}

static void a_port_in_use_is_said(void **state)
{
    struct muster_hosts_channel one, other;
    struct muster_err err;
    char at[32];
    (void)state;
    free_place(at, sizeof at);
    assert_int_equal(muster_hosts_meet_lead(at, "job", MEMBERS, &one, &err), 0);
    assert_int_equal(muster_hosts_meet_lead(at, "job", MEMBERS, &other, &err), -1);
    assert_non_null(strstr(err.text, "--rendezvous HOST:PORT names another one"));
    one.close(one.self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_a_host_and_a_port),
        cmocka_unit_test(a_member_says_the_jobs_name),
        cmocka_unit_test(all_hear_and_are_heard),
        cmocka_unit_test(who_goes_is_missed),
        cmocka_unit_test(a_port_in_use_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
