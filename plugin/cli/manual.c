#include "cli/manual.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "cli/cmd.h"
#include "config/settings_table.h"

/* Text as it stands: roff reads some characters as commands, as typographic quotes, or, in front
 * of a line, as requests. */
static void put(FILE *out, const char *text)
{
    static const char *const escapes[] = {"\\\\e", "-\\-", "'\\(aq", "`\\(ga", "^\\(ha", "~\\(ti"};
    if (*text == '.')
        fputs("\\&", out);
    for (; *text; text++) {
        const char *escaped = NULL;
        for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++)
            if (escapes[i][0] == *text)
                escaped = escapes[i] + 1;
        if (escaped)
            fputs(escaped, out);
        else
            putc(*text, out);
    }
}

static void put_bold(FILE *out, const char *text)
{
    fputs("\\fB", out);
    put(out, text);
    fputs("\\fR", out);
}

static void put_italic(FILE *out, const char *text)
{
    fputs("\\fI", out);
    put(out, text);
    fputs("\\fR", out);
}

static void put_line(FILE *out, const char *text)
{
    put(out, text);
    putc('\n', out);
}

/* Lines that end in \n; those that begin with two spaces are examples and keep their form. */
static void put_text(FILE *out, const char *text)
{
    char line[256];
    bool example = false;
    for (const char *end; (end = strchr(text, '\n')); text = end + 1) {
        bool indented = strncmp(text, "  ", 2) == 0;
        if (indented != example) {
            fputs(indented ? ".PP\n.RS 4\n.nf\n" : ".fi\n.RE\n.PP\n", out);
            example = indented;
        }
        snprintf(line, sizeof line, "%.*s", (int)(end - text), text);
        put_line(out, line + (indented ? 2 : 0));
    }
    if (example)
        fputs(".fi\n.RE\n", out);
}

static void put_title(FILE *out, const char *name, int section, const char *summary)
{
    char upper[64];
    size_t n = 0;
    for (; name[n] && n + 1 < sizeof upper; n++)
        upper[n] = (char)toupper((unsigned char)name[n]);
    upper[n] = '\0';
    fputs(".TH ", out);
    put(out, upper);
    fprintf(out, " %d \"\" \"muster %s\" \"%s\"\n.SH NAME\n", section, MUSTER_VERSION,
            section == 5 ? "File Formats" : "User Commands");
    put(out, name);
    fputs(" \\- ", out);
    put_line(out, summary);
}

static void put_reference(FILE *out, const char *name, int section, bool more)
{
    fputs(".BR ", out);
    put(out, name);
    fprintf(out, " (%d)%s\n", section, more ? "," : "");
}

static void put_values(FILE *out, const struct muster_opt *opt)
{
    if (opt->type == MUSTER_OPT_CHOICE) {
        fputs("One of ", out);
        for (size_t i = 0; opt->choices[i]; i++) {
            fputs(i == 0 ? "" : opt->choices[i + 1] ? ", " : " or ", out);
            put(out, opt->choices[i]);
        }
        fputs(".\n", out);
    }
    if (opt->type == MUSTER_OPT_U64 && opt->max)
        fprintf(out, "From %" PRIu64 " to %" PRIu64 ".\n", opt->min, opt->max);
    if (opt->type == MUSTER_OPT_SIZE)
        fputs("Bytes, or with a unit as in 256MiB.\n", out);
}

static void put_option(FILE *out, const struct muster_opt *opt)
{
    char dashed[64];
    fputs(".TP\n", out);
    if (opt->letter) {
        put_bold(out, (const char[]){'-', opt->letter, '\0'});
        fputs(", ", out);
    }
    snprintf(dashed, sizeof dashed, "--%s", opt->name);
    put_bold(out, dashed);
    if (opt->value) {
        putc(' ', out);
        put_italic(out, opt->value);
    }
    putc('\n', out);
    put(out, opt->help);
    fputs(".\n", out);
    put_values(out, opt);
}

static void put_synopsis(FILE *out, const struct muster_cmd *cmd)
{
    char name[64];
    snprintf(name, sizeof name, "muster %s", cmd->name);
    put_bold(out, name);
    putc(' ', out);
    put_line(out, cmd->usage);
}

/* A section for each of a command's own commands, with its options. */
static void put_subs(FILE *out, const struct muster_cmd *cmd)
{
    for (const struct muster_cmd *const *sub = cmd->subs; sub && *sub; sub++) {
        fputs(".SH ", out);
        for (const char *word = muster_cmd_name(*sub); *word; word++)
            putc(toupper((unsigned char)*word), out);
        putc('\n', out);
        put_synopsis(out, *sub);
        fputs(".PP\n", out);
        put_line(out, (*sub)->summary);
        if ((*sub)->about) {
            fputs(".PP\n", out);
            put_text(out, (*sub)->about);
        }
        for (const struct muster_opt *opt = (*sub)->options; opt && opt->name; opt++)
            put_option(out, opt);
    }
}

static bool has_examples(const struct muster_cmd *cmd)
{
    bool has = cmd->examples != NULL;
    for (const struct muster_cmd *const *sub = cmd->subs; sub && *sub; sub++)
        has |= (*sub)->examples != NULL;
    return has;
}

static void put_examples(FILE *out, const struct muster_cmd *cmd)
{
    if (has_examples(cmd))
        fputs(".SH EXAMPLES\n", out);
    if (cmd->examples)
        put_text(out, cmd->examples);
    for (const struct muster_cmd *const *sub = cmd->subs; sub && *sub; sub++)
        if ((*sub)->examples)
            put_text(out, (*sub)->examples);
}

static void command_page(FILE *out, const struct muster_cmd *cmd)
{
    static const struct muster_opt help = {.name = "help", .letter = 'h', .help = "print help"};
    char name[64];
    snprintf(name, sizeof name, "muster-%s", cmd->name);
    put_title(out, name, 1, cmd->summary);
    fputs(".SH SYNOPSIS\n", out);
    put_synopsis(out, cmd);
    if (cmd->about) {
        fputs(".SH DESCRIPTION\n", out);
        put_text(out, cmd->about);
    }
    fputs(".SH OPTIONS\n", out);
    for (const struct muster_opt *opt = cmd->options; opt && opt->name; opt++)
        put_option(out, opt);
    put_option(out, &help);
    put_subs(out, cmd);
    put_examples(out, cmd);
    fputs(".SH SEE ALSO\n", out);
    put_reference(out, "muster", 1, true);
    put_reference(out, "muster-config", 5, false);
}

static void put_commands(FILE *out)
{
    fputs(".SH COMMANDS\n", out);
    for (const struct muster_cmd *const *cmd = muster_commands; *cmd; cmd++) {
        fputs(".TP\n", out);
        put_bold(out, (*cmd)->name);
        putc(' ', out);
        put_line(out, (*cmd)->usage);
        put(out, (*cmd)->summary);
        fputs(".\n", out);
    }
}

static void put_fallback(FILE *out, const struct muster_setting *setting)
{
    fputs(".br\nDefault: ", out);
    put_line(out, setting->fallback[0] ? setting->fallback : "unset");
}

static void put_variables(FILE *out)
{
    fputs(".SH ENVIRONMENT\nThe plugin reads these once, when NCCL loads it.\n"
          ".TP\n.B MUSTER_CONFIG\nA configuration file, see\n.BR muster\\-config (5).\n",
          out);
    for (size_t i = 0; i < muster_settings_count; i++) {
        const struct muster_setting *setting = &muster_settings_table[i];
        fputs(".TP\n", out);
        put_bold(out, setting->short_variable);
        putc('\n', out);
        put(out, setting->help);
        fputs(".\n", out);
        put_fallback(out, setting);
    }
}

static void overview_page(FILE *out)
{
    put_title(out, "muster", 1, MUSTER_SUMMARY);
    fputs(".SH SYNOPSIS\n\\fBmuster\\fR \\fICOMMAND\\fR [options] [arguments]\n"
          ".SH DESCRIPTION\n",
          out);
    put_text(out, "muster is a library that NCCL loads into a training job as its profiler plugin, "
                  "and this command,\nwhich starts jobs with it and reports from what it "
                  "recorded. The job itself stays unchanged:\n"
                  "  muster run -- torchrun --nproc-per-node=8 train.py\n");
    put_commands(out);
    put_variables(out);
    fputs(".SH FILES\n.TP\n.I ./muster\\-ID/\nThe run directory, unless MUSTER_DIR names another: "
          "a log and a segment per process,\n"
          ".IR HOST \\- PID .log\nand\n.IR HOST \\- PID .seg .\n"
          ".TP\n.I /dev/shm\nThe segments of live processes.\n"
          ".TP\n.I libnccl\\-profiler\\-muster.so\nThe plugin, in the system's library folder or "
          "beside the command.\n"
          ".SH EXIT STATUS\n",
          out);
    put_text(out, "0; 2 for a wrong call or where nothing could be read or written; `muster run` "
                  "exits as its\ncommand did.\n");
    fputs(".SH SEE ALSO\n", out);
    for (const struct muster_cmd *const *cmd = muster_commands; *cmd; cmd++) {
        char name[64];
        snprintf(name, sizeof name, "muster-%s", (*cmd)->name);
        put_reference(out, name, 1, true);
    }
    put_reference(out, "muster-config", 5, false);
}

static void put_setting(FILE *out, const struct muster_setting *setting)
{
    char expected[128];
    muster_setting_expected(setting, expected, sizeof expected);
    fputs(".TP\n", out);
    put_bold(out, setting->key);
    fputs(" (", out);
    put(out, setting->short_variable);
    fputs(")\n", out);
    put(out, setting->help);
    fputs(".\n.br\nAccepted: ", out);
    put(out, expected);
    fputs(".\n", out);
    put_fallback(out, setting);
}

static void config_page(FILE *out)
{
    put_title(out, "muster-config", 5, "the configuration of muster");
    fputs(".SH DESCRIPTION\n", out);
    put_text(out,
             "MUSTER_CONFIG names a YAML file. It begins with the version of the format, and a key "
             "a.b\nbelow stands as b inside a:\n"
             "  muster: 1\n"
             "  capture:\n"
             "    timing: full\n"
             "    log_max: 1GiB\n"
             "Each key also has a variable, which wins over the file: the short one in brackets, "
             "and a long\none, MUSTER_CAPTURE_TIMING for capture.timing, over which the short one "
             "wins. An empty\nvariable counts as not set. With an unknown key or a bad value "
             "anywhere, one line says where,\nand the other settings hold, but of a file with an "
             "error none; where a directory or a policy may\nbe meant, the job runs unrecorded.\n");
    fputs(".SH KEYS\n", out);
    for (size_t i = 0; i < muster_settings_count; i++)
        put_setting(out, &muster_settings_table[i]);
    fputs(".SH SEE ALSO\n", out);
    put_reference(out, "muster", 1, false);
}

int muster_manual(const char *topic, FILE *out)
{
    if (!topic) {
        overview_page(out);
        return 0;
    }
    if (strcmp(topic, "config") == 0) {
        config_page(out);
        return 0;
    }
    const struct muster_cmd *cmd = muster_cmd_find(topic);
    if (!cmd)
        return -1;
    command_page(out, cmd);
    return 0;
}
