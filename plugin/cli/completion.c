/* What shells offer after a beginning, from the tables of options: bash, then zsh and fish. */
#include <stdbool.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/manual.h"

static const char head[] =
    "# Completion of muster for bash, made by `muster help --completion`.\n"
    "_muster()\n"
    "{\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    local command=${COMP_WORDS[1]} options='' operand='' i\n"
    "    COMPREPLY=()\n"
    "    # --option=value comes as three words\n"
    "    if [ \"$word\" = = ]; then\n"
    "        word=''\n"
    "    elif [ \"$before\" = = ]; then\n"
    "        before=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    fi\n"
    "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
    "        command=help\n"
    "    fi\n";

/* A command whose own words begin at its first operand. */
static const char after_operand[] =
    "        for ((i = 2; i < COMP_CWORD; i++)); do\n"
    "            case ${COMP_WORDS[i]} in\n"
    "            --) _muster_command $((i + 1)); return ;;\n"
    "            %s) ((i += 1)); [ \"${COMP_WORDS[i]}\" != = ] || ((i += 1)) ;;\n"
    "            -*) ;;\n"
    "            *) _muster_command $i; return ;;\n"
    "            esac\n"
    "        done\n";

static const char tail[] =
    "    esac\n"
    "    case $word:$operand in\n"
    "    -*) mapfile -t COMPREPLY < <(compgen -W \"$options --help\" -- \"$word\") ;;\n"
    "    *:command) mapfile -t COMPREPLY < <(compgen -c -- \"$word\") ;;\n"
    "    *:file) _muster_files ;;\n"
    "    *) mapfile -t COMPREPLY < <(compgen -W \"$operand\" -- \"$word\") ;;\n"
    "    esac\n"
    "}\n"
    "_muster_files()\n"
    "{\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
    "}\n"
    "_muster_command()\n"
    "{\n"
    "    if declare -F _command_offset >/dev/null; then\n"
    "        _command_offset \"$1\"\n"
    "    else\n"
    "        mapfile -t COMPREPLY < <(compgen -c -f -- \"$word\")\n"
    "    fi\n"
    "}\n"
    "complete -F _muster muster\n";

static void put_pattern(FILE *out, const struct muster_opt *opt)
{
    if (opt->letter)
        fprintf(out, "-%c | ", opt->letter);
    fprintf(out, "--%s", opt->name);
}

/* Before the words of an option's value, where there is something to choose from. */
static void put_value(FILE *out, const struct muster_opt *opt)
{
    fputs("        ", out);
    put_pattern(out, opt);
    fputs(")", out);
    if (opt->type == MUSTER_OPT_CHOICE) {
        fputs(" mapfile -t COMPREPLY < <(compgen -W '", out);
        for (size_t i = 0; opt->choices[i]; i++)
            fprintf(out, "%s%s", i ? " " : "", opt->choices[i]);
        fputs("' -- \"$word\")", out);
    } else if (opt->type == MUSTER_OPT_TEXT) {
        fputs(" _muster_files", out);
    }
    fputs("\n            return ;;\n", out);
}

static void put_options(FILE *out, const struct muster_opt *options)
{
    fputs("        case $before in\n", out);
    for (const struct muster_opt *opt = options; opt->name; opt++)
        if (opt->type != MUSTER_OPT_FLAG)
            put_value(out, opt);
    fputs("        esac\n        options='", out);
    for (const struct muster_opt *opt = options; opt->name; opt++)
        fprintf(out, "%s--%s", opt == options ? "" : " ", opt->name);
    fputs("'\n", out);
}

static void put_after_operand(FILE *out, const struct muster_opt *options)
{
    static const char place[] = "%s";
    const char *at = strstr(after_operand, place);
    fwrite(after_operand, 1, (size_t)(at - after_operand), out);
    bool first = true;
    for (const struct muster_opt *opt = options; opt->name; opt++) {
        if (opt->type != MUSTER_OPT_FLAG) {
            fputs(first ? "" : " | ", out);
            put_pattern(out, opt);
            first = false;
        }
    }
    fputs(at + strlen(place), out);
}

static void put_topics(FILE *out)
{
    fputs("        operand='", out);
    for (const struct muster_cmd *const *cmd = muster_commands; *cmd; cmd++)
        fprintf(out, "%s ", (*cmd)->name);
    fputs("'\n        [ \"$COMP_CWORD\" = 1 ] || operand+=config\n", out);
}

/* What a command completes: between "NAME)" and ";;". */
static void put_body(FILE *out, const struct muster_cmd *cmd)
{
    bool operands = cmd->usage[0] && strncmp(cmd->usage, "[options]", 9) != 0;
    if (cmd->stop_at_operand && cmd->options)
        put_after_operand(out, cmd->options);
    if (cmd->options)
        put_options(out, cmd->options);
    if (cmd == &muster_cmd_help)
        put_topics(out);
    else if (cmd->stop_at_operand || operands)
        fprintf(out, "        operand='%s'\n", cmd->stop_at_operand ? "command" : "file");
}

static void put_subs(FILE *out, const struct muster_cmd *cmd)
{
    fputs("        case $COMP_CWORD:${COMP_WORDS[2]} in\n        2:*) operand='", out);
    for (const struct muster_cmd *const *sub = cmd->subs; *sub; sub++)
        fprintf(out, "%s%s", sub == cmd->subs ? "" : " ", muster_cmd_name(*sub));
    fputs("' ;;\n", out);
    for (const struct muster_cmd *const *sub = cmd->subs; *sub; sub++) {
        fprintf(out, "        *:%s)\n", muster_cmd_name(*sub));
        put_body(out, *sub);
        fputs("        ;;\n", out);
    }
    fputs("        esac\n", out);
}

static void put_command(FILE *out, const struct muster_cmd *cmd)
{
    fprintf(out, "    %s)\n", cmd->name);
    if (cmd->subs)
        put_subs(out, cmd);
    else
        put_body(out, cmd);
    fputs("        ;;\n", out);
}

void muster_completion(FILE *out)
{
    fputs(head, out);
    fputs("    case $command in\n", out);
    for (const struct muster_cmd *const *cmd = muster_commands; *cmd; cmd++)
        put_command(out, *cmd);
    fputs(tail, out);
}

/* Between single quotes of a shell; `special` gets a backslash, too. */
static void put_quoted(FILE *out, const char *text, const char *special)
{
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fprintf(out, "%s%c", strchr(special, *text) ? "\\" : "", *text);
}

/* ---- zsh ---- */

static void put_zsh_name(FILE *out, const struct muster_opt *opt, const char *name)
{
    fprintf(out, " \\\n            '%s[", name);
    put_quoted(out, opt->help, "[]:\\");
    fputs("]", out);
    if (opt->type == MUSTER_OPT_CHOICE) {
        fprintf(out, ":%s:(", opt->value);
        for (size_t i = 0; opt->choices[i]; i++)
            fprintf(out, "%s%s", i ? " " : "", opt->choices[i]);
        fputs(")", out);
    } else if (opt->type != MUSTER_OPT_FLAG) {
        fputs(":", out);
        put_quoted(out, opt->value, "[]:\\");
        fputs(opt->type == MUSTER_OPT_TEXT ? ":_files" : ":", out);
    }
    fputs("'", out);
}

static void put_zsh_options(FILE *out, const struct muster_opt *options)
{
    for (const struct muster_opt *opt = options; opt && opt->name; opt++) {
        char name[64];
        snprintf(name, sizeof name, "--%s", opt->name);
        put_zsh_name(out, opt, name);
        if (opt->letter) {
            snprintf(name, sizeof name, "-%c", opt->letter);
            put_zsh_name(out, opt, name);
        }
    }
    fputs(" \\\n            '--help[print help]'", out);
}

static void put_zsh_command(FILE *out, const struct muster_cmd *cmd)
{
    fprintf(out, "    %s)\n        _arguments -S", cmd->name);
    put_zsh_options(out, cmd->options);
    if (cmd->subs) {
        fputs(" \\\n            '1:command:(", out);
        for (const struct muster_cmd *const *sub = cmd->subs; *sub; sub++)
            fprintf(out, "%s%s", sub == cmd->subs ? "" : " ", muster_cmd_name(*sub));
        fputs(")' '*::operand:_files'", out);
    } else {
        fputs(cmd->stop_at_operand ? " \\\n            '*::command:_normal'"
                                   : " \\\n            '*:operand:_files'",
              out);
    }
    fputs("\n        ;;\n", out);
}

void muster_completion_zsh(FILE *out)
{
    fputs("#compdef muster\n"
          "# Completion of muster for zsh, made by `muster help --completion --shell zsh`.\n"
          "local -a commands\ncommands=(\n",
          out);
    for (const struct muster_cmd *const *cmd = muster_commands; *cmd; cmd++) {
        fprintf(out, "    '%s:", (*cmd)->name);
        put_quoted(out, (*cmd)->summary, ":\\");
        fputs("'\n", out);
    }
    fputs(")\nif (( CURRENT == 2 )); then\n    _describe command commands\n    return\nfi\n"
          "shift words\n(( CURRENT-- ))\ncase $words[1] in\n",
          out);
    for (const struct muster_cmd *const *cmd = muster_commands; *cmd; cmd++)
        put_zsh_command(out, *cmd);
    fputs("esac\n", out);
}

/* ---- fish ---- */

static void put_fish_option(FILE *out, const struct muster_cmd *cmd, const struct muster_opt *opt)
{
    fprintf(out, "complete -c muster -n '__fish_seen_subcommand_from %s' -l %s", cmd->name,
            opt->name);
    if (opt->letter)
        fprintf(out, " -s %c", opt->letter);
    if (opt->type == MUSTER_OPT_CHOICE) {
        fputs(" -x -a '", out);
        for (size_t i = 0; opt->choices[i]; i++)
            fprintf(out, "%s%s", i ? " " : "", opt->choices[i]);
        fputs("'", out);
    } else if (opt->type != MUSTER_OPT_FLAG) {
        fputs(opt->type == MUSTER_OPT_TEXT ? " -r -F" : " -x", out);
    }
    fputs(" -d \"", out);
    for (const char *at = opt->help; *at; at++)
        fprintf(out, "%s%c", strchr("\"$\\", *at) ? "\\" : "", *at);
    fputs("\"\n", out);
}

void muster_completion_fish(FILE *out)
{
    fputs("# Completion of muster for fish, made by `muster help --completion --shell fish`.\n",
          out);
    for (const struct muster_cmd *const *cmd = muster_commands; *cmd; cmd++) {
        fprintf(out, "complete -c muster -n __fish_use_subcommand -f -a %s -d \"%s\"\n",
                (*cmd)->name, (*cmd)->summary);
        for (const struct muster_opt *opt = (*cmd)->options; opt && opt->name; opt++)
            put_fish_option(out, *cmd, opt);
        for (const struct muster_cmd *const *sub = (*cmd)->subs; sub && *sub; sub++) {
            fprintf(out, "complete -c muster -n '__fish_seen_subcommand_from %s' -a %s\n",
                    (*cmd)->name, muster_cmd_name(*sub));
        }
    }
}
