#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/pages.h"
#include "base/text.h"
#include "cli/cmd.h"

const struct muster_cmd *const muster_commands[] = {
    &muster_cmd_run,
    &muster_cmd_demo,
    &muster_cmd_report,
    &muster_cmd_diagnose,
    &muster_cmd_top,
    &muster_cmd_compare,
    &muster_cmd_replay,
    &muster_cmd_policy,
    &muster_cmd_tune,
    &muster_cmd_topo,
    &muster_cmd_doctor,
    &muster_cmd_agent,
    &muster_cmd_fleet,
    &muster_cmd_env,
    &muster_cmd_version,
    &muster_cmd_help,
    NULL,
};

enum { COMMANDS = sizeof muster_commands / sizeof *muster_commands - 1 };

const struct muster_cmd *muster_cmd_find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(muster_commands[i]->name, name) == 0)
            return muster_commands[i];
    return NULL;
}

int muster_cmd_unknown(const char *name)
{
    const char *names[COMMANDS];
    for (size_t i = 0; i < COMMANDS; i++)
        names[i] = muster_commands[i]->name;
    const char *near = muster_text_nearest(name, names, COMMANDS);
    fprintf(stderr, "muster: unknown command %s", name);
    if (near)
        fprintf(stderr, ", did you mean %s?", near);
    fputs("\n`muster help` lists the commands\n", stderr);
    return MUSTER_STATUS_USAGE;
}

void muster_cmd_settings(const struct muster_cmd *self, struct muster_settings *settings)
{
    struct muster_err err;
    if (muster_settings_load(settings, &err) != 0)
        fprintf(stderr, "muster %s: %s; the defaults are taken\n", self->name, err.text);
}

/* A file opened while descriptor 0, 1 or 2 is closed would take its number and get what is meant
 * for the user. A descriptor opened the wrong way round keeps the number and fails every use. */
static void hold_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

static int check_stdout(int status)
{
    if (ferror(stdout) == 0 && fflush(stdout) == 0)
        return status;
    fprintf(stderr, "muster: cannot write to standard output: %s\n", strerror(errno));
    return status ? status : MUSTER_STATUS_USAGE;
}

int main(int argc, char **argv)
{
    hold_standard_descriptors();
    if (argc < 2) {
        fputs("muster: which command?\n`muster help` lists the commands\n", stderr);
        return MUSTER_STATUS_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    const struct muster_cmd *cmd = muster_cmd_find(name);
    if (!cmd)
        return muster_cmd_unknown(name);
    muster_pages_keep_apart();
    return check_stdout(cmd->run(cmd, argc - 1, argv + 1));
}
