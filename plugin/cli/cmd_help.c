/* `muster help` and `muster version`. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/terminal.h"
#include "cli/cmd.h"
#include "cli/manual.h"
#include "config/settings.h"
#include "segment/layout.h"

static void list_commands(FILE *out)
{
    const struct muster_terminal terminal = muster_terminal_of(STDOUT_FILENO);
    char first[32];
    fputs("muster: " MUSTER_SUMMARY "\n\n"
          "usage: muster COMMAND [options] [arguments]\n\n",
          out);
    for (const struct muster_cmd *const *cmd = muster_commands; *cmd; cmd++) {
        snprintf(first, sizeof first, "  %-10s ", (*cmd)->name);
        muster_terminal_wrap(out, terminal.width, first, "             ", (*cmd)->summary);
    }
    muster_terminal_prose(
        out, terminal.width,
        "\n`muster help COMMAND` or `muster COMMAND --help` tells more; `muster help config` "
        "lists\n"
        "the settings, as variables and as keys of the configuration file.\n"
        "Exit status: 0; 2 for a wrong call or where nothing could be read or written; `muster\n"
        "run` exits as its command did.\n");
}

static void print_settings(void)
{
    const struct muster_terminal terminal = muster_terminal_of(STDOUT_FILENO);
    struct muster_terminal_page page;
    muster_terminal_page_begin(&page);
    muster_settings_help(page.out);
    muster_terminal_page_end(&page);
    muster_terminal_prose(stdout, terminal.width, muster_settings_more);
}

struct help_options {
    bool man, completion;
    int shell;
};

enum { SHELL_BASH, SHELL_ZSH, SHELL_FISH };
static const char *const shells[] = {"bash", "zsh", "fish", NULL};

static const struct muster_opt help_table[] = {
    {"man", 'm', MUSTER_OPT_FLAG, offsetof(struct help_options, man),
     .help = "as a manual page, for man -l"},
    {"completion", 0, MUSTER_OPT_FLAG, offsetof(struct help_options, completion),
     .help = "print what makes a shell complete muster's words"},
    {"shell", 0, MUSTER_OPT_CHOICE, offsetof(struct help_options, shell), "SHELL", shells,
     .help = "which one: bash, zsh or fish (bash)"},
    {.name = NULL},
};

static int help(const struct muster_cmd *self, int argc, char **argv)
{
    struct help_options options = {0};
    int status;
    int at = muster_opt_parse(self, argc, argv, &options, &status);
    if (at < 0)
        return status;
    if (at + 1 < argc)
        return muster_opt_wrong(self, "one topic at a time, not also \"%s\"", argv[at + 1]);
    if (options.completion) {
        static void (*const print[])(FILE *) = {[SHELL_BASH] = muster_completion,
                                                [SHELL_ZSH] = muster_completion_zsh,
                                                [SHELL_FISH] = muster_completion_fish};
        print[options.shell](stdout);
        return MUSTER_STATUS_OK;
    }
    if (options.man)
        return muster_manual(argv[at], stdout) ? muster_cmd_unknown(argv[at]) : MUSTER_STATUS_OK;
    if (at == argc) {
        list_commands(stdout);
        return MUSTER_STATUS_OK;
    }
    if (strcmp(argv[at], "config") == 0) {
        print_settings();
        return MUSTER_STATUS_OK;
    }
    const struct muster_cmd *cmd = muster_cmd_find(argv[at]);
    if (!cmd)
        return muster_cmd_unknown(argv[at]);
    muster_opt_help(cmd, stdout);
    return MUSTER_STATUS_OK;
}

const struct muster_cmd muster_cmd_help = {
    .name = "help",
    .summary = "explain a command, or the configuration",
    .usage = "[COMMAND | config] [options]",
    .examples = "  muster help report\n"
                "Every setting, with its variable and default:\n"
                "  muster help config\n",
    .options = help_table,
    .run = help,
};

static int version(const struct muster_cmd *self, int argc, char **argv)
{
    int status;
    if (!muster_opt_parse_all(self, argc, argv, NULL, &status))
        return status;
    printf("muster %s (%s)\n"
           "NCCL profiler interfaces: v1 to v7 (NCCL 2.23 and later)\n"
           "segment layout: %u\n",
           MUSTER_VERSION, MUSTER_COMMIT, MUSTER_SEG_VERSION);
    return MUSTER_STATUS_OK;
}

const struct muster_cmd muster_cmd_version = {
    .name = "version",
    .summary = "versions of muster and of the interfaces it speaks",
    .usage = "",
    .run = version,
};
