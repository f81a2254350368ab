/*
 * Calls are checked as far as compiler and C library can, with the project's flags in a build as it
 * is shipped: at level 3 also where only the running program knows how much room there is.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__has_builtin) && __GLIBC_PREREQ(2, 34)
#if __has_builtin(__builtin_dynamic_object_size)
#define CAN_LEVEL 3
#endif
#endif
#ifndef CAN_LEVEL
#define CAN_LEVEL 2
#endif

static volatile size_t room = 8;

static void write_past_known_room(void)
{
    char text[8];
    memset(text, 'x', room + 1);
    puts(text);
}

static void write_past_room_that_is_asked_for(void)
{
    size_t n = room;
    char *text = malloc(n);
    if (!text)
        _exit(1);
    memset(text, 'x', room + 1);
    puts(text);
}

/* Whether a process of its own that does it is ended. */
static bool ends(void (*work)(void))
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        fclose(stdout); /* nobody reads it */
        fclose(stderr);
        work();
        _exit(0);
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void the_level_is_what_the_compiler_can(void **state)
{
    (void)state;
    assert_int_equal(__USE_FORTIFY_LEVEL, CAN_LEVEL);
}

static void what_is_written_past_its_room_ends_the_process(void **state)
{
    (void)state;
    assert_true(ends(write_past_known_room));
    assert_int_equal(ends(write_past_room_that_is_asked_for), CAN_LEVEL == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_level_is_what_the_compiler_can),
        cmocka_unit_test(what_is_written_past_its_room_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
