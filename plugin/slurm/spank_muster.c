/*
 * A SPANK plugin: `srun --muster[=OPTIONS]` records a step. plugstack.conf:
 *   optional /usr/lib/.../muster-slurm/spank_muster.so [script=FILE] [command=FILE]
 * It runs in slurmstepd, in each task's own process, as the user, before the task is started. What
 * the task gets is what the TaskProlog prints (config/slurm/muster-taskprolog.sh), so that both
 * ways set the same. Whatever goes wrong is one line on the task's standard error, and the task
 * starts as it is.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <slurm/spank.h>

SPANK_PLUGIN(muster, 1)

enum { PATIENCE_MS = 10000, LINES_BYTES = 1 << 20 };

/* SPANK hands callbacks nothing of ours, and frees what it hands them: the value of --muster; "":
 * nobody did. */
static char wanted[4096];

static int take_option(int value, const char *text, int remote)
{
    (void)value, (void)remote;
    int n = snprintf(wanted, sizeof wanted, "%s", text && text[0] ? text : "1");
    return n < (int)sizeof wanted ? ESPANK_SUCCESS : ESPANK_BAD_ARG;
}

int slurm_spank_init(spank_t spank, int words, char **word)
{
    static char name[] = "muster", argument[] = "OPTIONS",
                usage[] = "record the step with muster; OPTIONS are those of `muster env`";
    struct spank_option option = {name, argument, usage, 2, 0, take_option};
    (void)words, (void)word;
    return spank_option_register(spank, &option) == ESPANK_SUCCESS ? 0 : -1;
}

/* The value of "key=value" among the words of plugstack.conf. */
static const char *setting(const char *key, const char *otherwise, int words, char **word)
{
    size_t n = strlen(key);
    for (int i = 0; i < words; i++)
        if (strncmp(word[i], key, n) == 0 && word[i][n] == '=')
            return word[i] + n + 1;
    return otherwise;
}

static pid_t start(const char *script, char **environment, int to[2])
{
    char shell[] = "/bin/sh", *words[] = {shell, (char *)(size_t)script, NULL};
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    dup2(to[1], STDOUT_FILENO);
    close(to[0]);
    close(to[1]);
    setpgid(0, 0);
    execve(shell, words, environment);
    _exit(127);
}

static int left_ms(const struct timespec *begin)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long past =
        (now.tv_sec - begin->tv_sec) * 1000LL + (now.tv_nsec - begin->tv_nsec) / 1000000;
    return past < PATIENCE_MS ? (int)(PATIENCE_MS - past) : 0;
}

/* All that comes until the end, as a text; false: it did not end in time, or is too long. */
static bool read_all(int from, char *text, size_t size)
{
    struct timespec begin;
    size_t n = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (;;) {
        struct pollfd ready = {.fd = from, .events = POLLIN};
        int polled = poll(&ready, 1, left_ms(&begin));
        if (polled < 0 && errno == EINTR)
            continue;
        ssize_t got = polled > 0 && n + 1 < size ? read(from, text + n, size - n - 1) : -1;
        if (got < 0)
            return false;
        if (got == 0) {
            text[n] = '\0';
            return true;
        }
        n += (size_t)got;
    }
}

/* "export NAME=VALUE" a line; how many were set. */
static unsigned set_lines(spank_t spank, char *text)
{
    static const char mark[] = "export ";
    unsigned n = 0;
    for (char *rest = NULL, *line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        char *equals = strchr(line, '=');
        if (strncmp(line, mark, sizeof mark - 1) != 0 || !equals)
            continue;
        *equals = '\0';
        n += spank_setenv(spank, line + sizeof mark - 1, equals + 1, 1) == ESPANK_SUCCESS;
    }
    return n;
}

/* Runs the script with the task's environment, and sets what it prints. */
static unsigned record(spank_t spank, const char *script)
{
    char **environment;
    int to[2];
    if (spank_get_item(spank, S_JOB_ENV, &environment) != ESPANK_SUCCESS || pipe(to) != 0)
        return 0;
    pid_t pid = start(script, environment, to);
    close(to[1]);
    char *text = pid > 0 ? malloc(LINES_BYTES) : NULL;
    bool whole = text && read_all(to[0], text, LINES_BYTES);
    close(to[0]);
    if (pid > 0 && !whole)
        kill(-pid, SIGKILL);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    unsigned n = whole ? set_lines(spank, text) : 0;
    free(text);
    return n;
}

int slurm_spank_task_init(spank_t spank, int words, char **word)
{
    const char *command = setting("command", NULL, words, word);
    const char *script = setting("script", MUSTER_SLURM_SCRIPT, words, word);
    if (!wanted[0] || spank_remote(spank) != 1)
        return 0;
    spank_setenv(spank, "WITH_MUSTER", wanted, 1);
    if (command)
        spank_setenv(spank, "WITH_MUSTER_COMMAND", command, 0);
    if (access(script, R_OK) != 0)
        fprintf(stderr, "muster: not recorded: %s: %s; plugstack.conf names it by script=FILE\n",
                script, strerror(errno));
    else if (!record(spank, script))
        fprintf(stderr, "muster: not recorded: %s set nothing; is `muster` on this node's PATH?\n",
                script);
    return 0;
}
