#include "cli/opt.h"

#include <getopt.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/terminal.h"
#include "base/text.h"
#include "cli/cmd.h"

enum { OPTIONS_MAX = 32, HELP_COLUMN = 30, HELP_WIDTH = 100, HELP_TWO_COLUMNS = 80 };
#define HELP_BESIDE "                              " /* HELP_COLUMN blanks */
#define HELP_BELOW  "        "

/* getopt_long's view of a table. Long options return FIRST_LONG + index, so that those without a
 * letter need none. */
enum { FIRST_LONG = 256, LONG_HELP = FIRST_LONG + OPTIONS_MAX };

struct parser {
    const struct muster_opt *table;
    size_t n;
    struct option longs[2 * OPTIONS_MAX + 2]; /* those of the table, help, older names */
    char shorts[2 * OPTIONS_MAX + 8];
};

static const struct muster_opt no_options[] = {{.name = NULL}};

static void build(struct parser *parser, const struct muster_cmd *cmd)
{
    char *letter = parser->shorts;
    parser->table = cmd->options ? cmd->options : no_options;
    parser->n = 0;
    /* '+': stop at the first operand; ':': report a missing value apart from an unknown option */
    if (cmd->stop_at_operand)
        *letter++ = '+';
    *letter++ = ':';
    *letter++ = 'h';
    for (; parser->n < OPTIONS_MAX && parser->table[parser->n].name; parser->n++) {
        const struct muster_opt *opt = &parser->table[parser->n];
        bool takes = opt->type != MUSTER_OPT_FLAG;
        parser->longs[parser->n] =
            (struct option){.name = opt->name,
                            .has_arg = takes ? required_argument : no_argument,
                            .val = FIRST_LONG + (int)parser->n};
        if (opt->letter) {
            *letter++ = opt->letter;
            if (takes)
                *letter++ = ':';
        }
    }
    *letter = '\0';
    parser->longs[parser->n] = (struct option){.name = "help", .val = LONG_HELP};
    size_t n = parser->n + 1;
    for (size_t i = 0; i < parser->n; i++) {
        if (parser->table[i].also) {
            parser->longs[n] = parser->longs[i];
            parser->longs[n++].name = parser->table[i].also;
        }
    }
    parser->longs[n] = (struct option){.name = NULL};
}

/* A letter that getopt gave: it is one of the table. */
static const struct muster_opt *by_letter(const struct parser *parser, int letter)
{
    const struct muster_opt *opt = parser->table;
    while (opt->letter != letter)
        opt++;
    return opt;
}

int muster_opt_wrong(const struct muster_cmd *cmd, const char *fmt, ...)
{
    va_list args;
    fprintf(stderr, "muster %s: ", cmd->name);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "\nusage: muster %s %s\n`muster %s --help` tells more\n", cmd->name, cmd->usage,
            cmd->name);
    return MUSTER_STATUS_USAGE;
}

static int wrong_choice(const struct muster_cmd *cmd, const struct muster_opt *opt,
                        const char *text)
{
    char known[256];
    struct muster_text list = muster_text_begin(known, sizeof known);
    size_t n = 0;
    while (opt->choices[n])
        n++;
    for (size_t i = 0; i < n; i++)
        muster_text_add(&list, "%s%s", muster_text_join(i, n, " or "), opt->choices[i]);
    const char *near = muster_text_nearest(text, opt->choices, n);
    return near ? muster_opt_wrong(cmd, "--%s: \"%s\" is not %s, did you mean %s?", opt->name, text,
                                   known, near)
                : muster_opt_wrong(cmd, "--%s: \"%s\" is not %s", opt->name, text, known);
}

static int set_choice(const struct muster_cmd *cmd, const struct muster_opt *opt, const char *text,
                      void *value)
{
    for (int i = 0; opt->choices[i]; i++) {
        if (strcmp(opt->choices[i], text) == 0) {
            memcpy(value, &i, sizeof i);
            return 0;
        }
    }
    return wrong_choice(cmd, opt, text);
}

static int set_u64(const struct muster_cmd *cmd, const struct muster_opt *opt, const char *text,
                   void *value)
{
    uint64_t number;
    if (!muster_text_u64(text, &number))
        return muster_opt_wrong(cmd, "--%s: \"%s\" is not a whole number", opt->name, text);
    if (number < opt->min || (opt->max && number > opt->max)) {
        return opt->max
                   ? muster_opt_wrong(cmd, "--%s: %s is not within %llu to %llu", opt->name, text,
                                      (unsigned long long)opt->min, (unsigned long long)opt->max)
                   : muster_opt_wrong(cmd, "--%s: %s is less than %llu", opt->name, text,
                                      (unsigned long long)opt->min);
    }
    memcpy(value, &number, sizeof number);
    return 0;
}

static int set_size(const struct muster_cmd *cmd, const struct muster_opt *opt, const char *text,
                    void *value)
{
    uint64_t bytes;
    if (!muster_text_size(text, &bytes))
        return muster_opt_wrong(cmd, "--%s: \"%s\" is not a size such as 256MiB", opt->name, text);
    memcpy(value, &bytes, sizeof bytes);
    return 0;
}

static int set(const struct muster_cmd *cmd, const struct muster_opt *opt, const char *text,
               void *values)
{
    void *value = (char *)values + opt->offset;
    switch (opt->type) {
    case MUSTER_OPT_FLAG:
        *(bool *)value = true;
        return 0;
    case MUSTER_OPT_TEXT:
        *(const char **)value = text;
        return 0;
    case MUSTER_OPT_CHOICE:
        return set_choice(cmd, opt, text, value);
    case MUSTER_OPT_U64:
        return set_u64(cmd, opt, text, value);
    case MUSTER_OPT_SIZE:
        return set_size(cmd, opt, text, value);
    }
    return 0;
}

/* Runs are named plainly where others would look for an option. */
static int wrong_dir(const struct muster_cmd *cmd, const char *option)
{
    return muster_opt_wrong(
        cmd, "unknown option %s: the run directory, RUN, is named without an option", option);
}

static bool takes_run(const struct muster_cmd *cmd)
{
    return strstr(cmd->usage, "RUN") != NULL;
}

static int wrong_letter(const struct muster_cmd *cmd, int letter)
{
    return letter == 'd' && takes_run(cmd) ? wrong_dir(cmd, "-d")
                                           : muster_opt_wrong(cmd, "unknown option -%c", letter);
}

static int wrong_long(const struct parser *parser, const struct muster_cmd *cmd, const char *word)
{
    const char *names[OPTIONS_MAX + 1];
    size_t letters = strcspn(word, "=");
    size_t starts = 0;
    for (size_t i = 0; i <= parser->n; i++) {
        names[i] = parser->longs[i].name;
        if (strncmp(names[i], word, letters) == 0)
            starts++;
        if (strncmp(names[i], word, letters) == 0 && strlen(names[i]) == letters)
            return muster_opt_wrong(cmd, "--%s takes no value", names[i]);
    }
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(letters < 60 ? letters : 60), word);
    if (starts > 1)
        return muster_opt_wrong(cmd, "--%s is short for more than one option", name);
    if (strcmp(name, "dir") == 0 && takes_run(cmd))
        return wrong_dir(cmd, "--dir");
    const char *near = muster_text_nearest(name, names, parser->n + 1);
    return near ? muster_opt_wrong(cmd, "unknown option --%s, did you mean --%s?", name, near)
                : muster_opt_wrong(cmd, "unknown option --%s", name);
}

static int missing_value(const struct parser *parser, const struct muster_cmd *cmd)
{
    const struct muster_opt *opt =
        optopt >= FIRST_LONG ? &parser->table[optopt - FIRST_LONG] : by_letter(parser, optopt);
    return muster_opt_wrong(cmd, "--%s needs a value: %s", opt->name, opt->value);
}

int muster_opt_parse(const struct muster_cmd *cmd, int argc, char **argv, void *values, int *status)
{
    struct parser parser;
    int got;
    build(&parser, cmd);
    opterr = 0;
    optind = 0; /* glibc: start afresh, even after another command's options */
    while ((got = getopt_long(argc, argv, parser.shorts, parser.longs, NULL)) != -1) {
        if (got == 'h' || got == LONG_HELP) {
            muster_opt_help(cmd, stdout);
            *status = MUSTER_STATUS_OK;
            return -1;
        }
        if (got == ':') {
            *status = missing_value(&parser, cmd);
            return -1;
        }
        if (got == '?') {
            /* a long option: optopt is 0, or its value when it was given one it does not take */
            *status = optopt && optopt < FIRST_LONG
                          ? wrong_letter(cmd, optopt)
                          : wrong_long(&parser, cmd, argv[optind - 1] + 2);
            return -1;
        }
        const struct muster_opt *opt =
            got >= FIRST_LONG ? &parser.table[got - FIRST_LONG] : by_letter(&parser, got);
        *status = set(cmd, opt, optarg, values);
        if (*status)
            return -1;
    }
    return optind;
}

bool muster_opt_parse_all(const struct muster_cmd *cmd, int argc, char **argv, void *values,
                          int *status)
{
    int at = muster_opt_parse(cmd, argc, argv, values, status);
    if (at >= 0 && at < argc)
        *status = muster_opt_wrong(cmd, "takes no argument such as \"%s\"", argv[at]);
    return at == argc;
}

int muster_opt_parse_one(const struct muster_cmd *cmd, int argc, char **argv, void *values,
                         const char *what, int *status)
{
    int at = muster_opt_parse(cmd, argc, argv, values, status);
    if (at < 0 || argc - at == 1)
        return at;
    *status = at == argc ? muster_opt_wrong(cmd, "which %s?", what)
                         : muster_opt_wrong(cmd, "one %s at a time", what);
    return -1;
}

/* Where there is no room for two columns, what an option does stands below it. */
static void put_row(FILE *out, unsigned width, const char *left, const char *help)
{
    char first[128];
    bool beside = width >= HELP_TWO_COLUMNS;
    snprintf(first, sizeof first, "  %-*s  ", HELP_COLUMN - 4, left);
    if (!beside)
        fprintf(out, "  %s\n", left);
    muster_terminal_wrap(out, width, beside ? first : HELP_BELOW, beside ? HELP_BESIDE : HELP_BELOW,
                         help);
}

static void help_line(FILE *out, unsigned width, char letter, const char *name, const char *value,
                      const char *help)
{
    char left[64];
    char dash[8] = "    ";
    if (letter)
        snprintf(dash, sizeof dash, "-%c, ", letter);
    snprintf(left, sizeof left, "%s--%s%s%s", dash, name, value ? " " : "", value ? value : "");
    put_row(out, width, left, help);
}

static void help_subs(const struct muster_cmd *cmd, unsigned width, FILE *out)
{
    char more[128];
    for (const struct muster_cmd *const *sub = cmd->subs; *sub; sub++)
        put_row(out, width, muster_cmd_name(*sub), (*sub)->summary);
    snprintf(more, sizeof more, "`muster %s %s --help` tells more of each.", cmd->name,
             muster_cmd_name(cmd->subs[0]));
    fputc('\n', out);
    muster_terminal_wrap(out, width, "", "", more);
}

void muster_opt_describe(int argc, char **argv, char *to, size_t size)
{
    struct muster_text text = muster_text_begin(to, size);
    muster_text_add(&text, "muster");
    for (int i = 0; i < argc; i++)
        muster_text_add(&text, " %s", argv[i]);
}

/* As wide as the terminal, where somebody reads at one; else what fits most. */
static unsigned help_width(void)
{
    const struct muster_terminal terminal = muster_terminal_of(STDOUT_FILENO);
    return terminal.fit && terminal.width < HELP_WIDTH ? terminal.width : HELP_WIDTH;
}

void muster_opt_help(const struct muster_cmd *cmd, FILE *out)
{
    unsigned width = help_width();
    char text[512];
    snprintf(text, sizeof text, "muster %s: %s", cmd->name, cmd->summary);
    muster_terminal_wrap(out, width, "", "  ", text);
    snprintf(text, sizeof text, "usage: muster %s %s", cmd->name, cmd->usage);
    fputc('\n', out);
    muster_terminal_wrap(out, width, "", "  ", text);
    fputc('\n', out);
    for (const struct muster_opt *opt = cmd->options; opt && opt->name; opt++)
        help_line(out, width, opt->letter, opt->name, opt->value, opt->help);
    help_line(out, width, 'h', "help", NULL, "print this");
    if (cmd->subs) {
        fputc('\n', out);
        help_subs(cmd, width, out);
    }
    if (cmd->about) {
        fputc('\n', out);
        muster_terminal_prose(out, width, cmd->about);
    }
    if (cmd->examples) {
        fputs("\nexamples:\n", out);
        muster_terminal_prose(out, width, cmd->examples);
    }
}
