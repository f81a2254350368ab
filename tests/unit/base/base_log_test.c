#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

struct capture {
    int read_fd;
    int saved_stderr;
};

static void capture_begin(struct capture *capture)
{
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    capture->saved_stderr = dup(STDERR_FILENO);
    capture->read_fd = fd[0];
    assert_int_equal(dup2(fd[1], STDERR_FILENO), STDERR_FILENO);
    close(fd[1]);
}

static void capture_end(struct capture *capture)
{
    dup2(capture->saved_stderr, STDERR_FILENO);
    close(capture->saved_stderr);
}

static void capture_read(struct capture *capture, char *text, size_t size)
{
    capture_end(capture);
    size_t n = 0;
    ssize_t got;
    while (n < size - 1 && (got = read(capture->read_fd, text + n, size - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    close(capture->read_fd);
}

static void levels_and_their_words(void **state)
{
    (void)state;
    struct capture capture;
    char text[4096];
    capture_begin(&capture);
    muster_log(MUSTER_LOG_INFO, "not at the default level");
    muster_log(MUSTER_LOG_WARN, "w %d", 1);
    muster_log_set_level(MUSTER_LOG_DEBUG);
    muster_log(MUSTER_LOG_INFO, "i");
    muster_log(MUSTER_LOG_DEBUG, "d");
    muster_log_set_level(MUSTER_LOG_ERROR);
    muster_log(MUSTER_LOG_WARN, "not at level error");
    muster_log(MUSTER_LOG_ERROR, "e");
    muster_log_set_level(MUSTER_LOG_WARN);
    capture_read(&capture, text, sizeof(text));
    assert_string_equal(text, "muster: warning: w 1\nmuster: i\nmuster: debug: d\n"
                              "muster: error: e\n");
}

static void a_text_stays_one_line(void **state)
{
    (void)state;
    struct capture capture;
    char text[4096], big[3000];
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    capture_begin(&capture);
    muster_log(MUSTER_LOG_WARN, "a\nb\x1b[31m");
    muster_log(MUSTER_LOG_WARN, "%s", big);
    capture_read(&capture, text, sizeof(text));
    const char *second = strchr(text, '\n') + 1;
    assert_memory_equal(text, "muster: warning: a?b?[31m\n", (size_t)(second - text));
    assert_ptr_equal(strchr(second, '\n'), text + strlen(text) - 1);
}

static void a_closed_pipe_does_not_end_the_process(void **state)
{
    (void)state;
    struct capture capture;
    sigset_t pending;
    signal(SIGPIPE, SIG_DFL);
    capture_begin(&capture);
    close(capture.read_fd);
    errno = ERANGE;
    muster_log(MUSTER_LOG_WARN, "nobody reads this");
    int kept = errno;
    capture_end(&capture);
    assert_int_equal(kept, ERANGE);
    sigpending(&pending);
    assert_int_equal(sigismember(&pending, SIGPIPE), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_and_their_words),
        cmocka_unit_test(a_text_stays_one_line),
        cmocka_unit_test(a_closed_pipe_does_not_end_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
