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
    if (opt->letter) {
        fprintf(out, "-%c | ", opt->letter);
    }
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
        for (size_t i = 0; opt->choices[i]; i++) {
            fprintf(out, "%s%s", i ? " " : "", opt->choices[i]);
        }
        fputs("' -- \"$word\")", out);
    } else if (opt->type == MUSTER_OPT_TEXT) {
        fputs(" _muster_files", out);
    }
    fputs("\n            return ;;\n", out);
}

static void put_options(FILE *out, const struct muster_opt *options)
{
    fputs("        case $before in\n", out);
    for (const struct muster_opt *opt = options; opt->name; opt++) {
        if (opt->type != MUSTER_OPT_FLAG) {
            put_value(out, opt);
        }
    }
    fputs("        esac\n        options='", out);
    for (const struct muster_opt *opt = options; opt->name; opt++) {
        fprintf(out, "%s--%s", opt == options ? "" : " ", opt->name);
    }
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
    for (const struct muster_cmd *const *cmd = muster_commands; *cmd; cmd++) {
        fprintf(out, "%s ", (*cmd)->name);
    }
    fputs("'\n        [ \"$COMP_CWORD\" = 1 ] || operand+=config\n", out);
}

/* What a command completes: between "NAME)" and ";;". */
static void put_body(FILE *out, const struct muster_cmd *cmd)
{
    bool operands = cmd->usage[0] && strncmp(cmd->usage, "[options]", 9) != 0;
    if (cmd->stop_at_operand && cmd->options) {
        put_after_operand(out, cmd->options);
    }
    if (cmd->options) {
        put_options(out, cmd->options);
    }
    if (cmd == &muster_cmd_help) {
        put_topics(out);
    } else if (cmd->stop_at_operand || operands) {
        fprintf(out, "        operand='%s'\n", cmd->stop_at_operand ? "command" : "file");
    }
}

static void put_subs(FILE *out, const struct muster_cmd *cmd)
{
    fputs("        case $COMP_CWORD:${COMP_WORDS[2]} in\n        2:*) operand='", out);
    for (const struct muster_cmd *const *sub = cmd->subs; *sub; sub++) {
        fprintf(out, "%s%s", sub == cmd->subs ? "" : " ", muster_cmd_word(*sub));
    }
    fputs("' ;;\n", out);
    for (const struct muster_cmd *const *sub = cmd->subs; *sub; sub++) {
        fprintf(out, "        *:%s)\n", muster_cmd_word(*sub));
        put_body(out, *sub);
        fputs("        ;;\n", out);
    }
    fputs("        esac\n", out);
}

static void put_command(FILE *out, const struct muster_cmd *cmd)
{
    fprintf(out, "    %s)\n", cmd->name);
    if (cmd->subs) {
        put_subs(out, cmd);
    } else {
        put_body(out, cmd);
    }
    fputs("        ;;\n", out);
}

void muster_completion(FILE *out)
{
    fputs(head, out);
    fputs("    case $command in\n", out);
    for (const struct muster_cmd *const *cmd = muster_commands; *cmd; cmd++) {
        put_command(out, *cmd);
    }
    fputs(tail, out);
}
