/* `muster env`: the variables as lines for a shell. */
#include <stdio.h>

#include "cli/capture_options.h"
#include "cli/cmd.h"
#include "config/settings.h"

/* Within single quotes only the single quote itself means anything to a shell. */
static void put_quoted(const char *text)
{
    putchar('\'');
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*text);
    putchar('\'');
}

static const struct muster_opt env_table[] = {
    MUSTER_CAPTURE_OPTIONS,
    {.name = NULL},
};

/* As the job will find them: now rather than from each of its ranks. */
static void check_settings(const struct muster_environment *environment)
{
    struct muster_settings settings;
    struct muster_err err;
    if (muster_environment_apply(environment, &err) || muster_settings_load(&settings, &err))
        fprintf(stderr, "muster env: %s\n", err.text);
}

static int env(const struct muster_cmd *self, int argc, char **argv)
{
    struct muster_capture capture = {0};
    struct muster_environment environment;
    struct muster_err err;
    int status;
    int at = muster_opt_parse(self, argc, argv, &capture, &status);
    if (at < 0)
        return status;
    if (at < argc)
        return muster_opt_wrong(self, "takes no command; \"%s\" is for `muster run`", argv[at]);
    if (muster_environment_plan(&capture, &environment, &err)) {
        fprintf(stderr, "muster env: %s\n", err.text);
        return MUSTER_STATUS_USAGE;
    }
    if (!capture.quiet)
        muster_environment_report_others(self->name, &environment);
    for (unsigned i = 0; i < environment.n; i++) {
        const struct muster_variable *variable = &environment.at[i];
        printf("export %s=", variable->name);
        put_quoted(muster_variable_value(variable));
        if (variable->prepend)
            printf("\"${%s:+:$%s}\"", variable->name, variable->name);
        putchar('\n');
    }
    check_settings(&environment);
    muster_environment_free(&environment);
    return MUSTER_STATUS_OK;
}

const struct muster_cmd muster_cmd_env = {
    .name = "env",
    .summary = "print the variables that make a job record itself",
    .usage = "[options]",
    .about = "For jobs that `muster run` cannot start. In a shell or a job script:\n"
             "  eval \"$(muster env --timing full)\"\n",
    .examples = "  eval \"$(muster env --dir /shared/run-7)\" && srun train.sh\n",
    .options = env_table,
    .run = env,
};
