/* `muster compare`: two runs of a job, what became slower. */
#include <math.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "base/terminal.h"
#include "cli/cmd.h"
#include "cli/diagnose/diagnose_look.h"
#include "cli/progress.h"
#include "compare/compare_runs.h"
#include "compare/compare_words.h"
#include "page/page.h"
#include "run/beside_work.h"

enum format { FORMAT_TEXT, FORMAT_JSON };
enum { NO_LIMIT = UINT16_MAX, LIMIT_MOST = 10000 };

struct options {
    int format;
    uint64_t limit; /* percent */
    const char *html;
};

static const char *const formats[] = {"text", "json", NULL};

static const struct muster_opt table[] = {
    {"format", 'f', MUSTER_OPT_CHOICE, offsetof(struct options, format), "FORMAT", formats,
     .help = "text or json (text)"},
    {"limit", 'l', MUSTER_OPT_U64, offsetof(struct options, limit), "PERCENT", .max = LIMIT_MOST,
     .help = "exit status 1 if B hangs, or is slower by more than this (none)"},
    {"html", 0, MUSTER_OPT_TEXT, offsetof(struct options, html), "FILE",
     .help = "also a page with pictures, one file that needs no network"},
    {.name = NULL},
};

/* A run with its view and findings; of its operations only what is compared is kept. */
struct side {
    struct muster_run run;
    struct muster_view view;
    struct muster_findings findings;
    struct muster_compare_side compared;
    bool loaded, seen;
};

/* Loading one run, perhaps while another is loaded. */
struct loading {
    const char *name;
    struct side *side;
    struct muster_err err;
};

static void load_side(void *arg)
{
    struct loading *loading = arg;
    const struct muster_run_query query = {.run = &loading->name, .runs = 1, .streamed = true};
    loading->side->loaded = muster_run_load(&query, &loading->side->run, &loading->err) == 0;
}

/* Both at once: who there is, some 30 KB a rank. What they did is read one run after the other. */
static int load_sides(char **name, struct side *a, struct side *b, struct muster_err *err)
{
    struct loading both[] = {{.name = name[0], .side = a}, {.name = name[1], .side = b}};
    struct muster_beside other;
    muster_beside_begin(&other, load_side, &both[1]);
    load_side(&both[0]);
    muster_beside_end(&other);
    if (a->loaded && b->loaded)
        return 0;
    *err = both[a->loaded].err;
    return -1;
}

/* What of a side is compared, read while its findings are looked for. */
struct reading {
    struct side *side;
    int result;
    struct muster_err err;
};

static void read_side(void *arg)
{
    struct reading *reading = arg;
    struct side *side = reading->side;
    reading->result =
        muster_compare_side_read(&side->view, &side->findings, &side->compared, &reading->err);
}

static int open_side(struct side *side, struct muster_err *err)
{
    struct reading reading = {.side = side};
    const struct muster_meanwhile meanwhile = {read_side, &reading};
    if (muster_view_of_run(&side->run, &side->view, err))
        return -1;
    side->seen = true;
    muster_diagnose_shown(&side->view, &meanwhile, &side->findings);
    muster_view_drop_ops(&side->view);
    if (reading.result != 0)
        *err = reading.err;
    return reading.result;
}

static void close_side(struct side *side)
{
    muster_compare_side_free(&side->compared);
    muster_findings_free(&side->findings);
    if (side->seen)
        muster_view_free(&side->view);
    if (side->loaded)
        muster_run_free(&side->run);
}

static int make_page(const struct muster_compared *compared, double limit,
                     const struct options *options, const char *command, struct muster_err *err)
{
    const struct muster_page_request page = {
        .path = options->html, .command = command, .made_unix_s = (uint64_t)time(NULL)};
    uint64_t bytes;
    if (muster_page_compare_write(compared, limit, &page, &bytes, err))
        return -1;
    fprintf(stderr, "muster compare: %s: %.1f MB\n", options->html, (double)bytes / 1e6);
    return 0;
}

static void print(const struct muster_compared *compared, double limit, int format)
{
    const struct muster_terminal terminal = muster_terminal_of(STDOUT_FILENO);
    if (format == FORMAT_JSON)
        muster_compare_json(compared, limit, stdout);
    else
        muster_compare_text(compared, limit, &terminal, stdout);
}

/* The exit status, or -1 and an error. */
static int compare(struct side *a, struct side *b, const struct options *options,
                   const char *command, struct muster_err *err)
{
    struct muster_compared compared;
    double limit = options->limit == NO_LIMIT ? NAN : (double)options->limit / 100;
    int result = muster_compare_runs(&a->compared, &b->compared, &compared, err);
    if (result == 0)
        print(&compared, limit, options->format);
    if (result == 0 && options->html)
        result = make_page(&compared, limit, options, command, err);
    if (result == 0 && !isnan(limit) && !muster_compare_knows(&compared)) {
        char why[256];
        muster_compare_put_unknown(why, sizeof why, &compared);
        result = muster_fail(err, "whether --limit is kept is not known: %s", why);
    } else if (result == 0 && !isnan(limit) && muster_compare_worse(&compared, limit))
        result = MUSTER_STATUS_FINDING;
    muster_compare_free(&compared);
    return result;
}

/* A page's own data. */
static int read_page(const struct muster_cmd *self, const struct options *options, const char *path)
{
    struct muster_err err;
    if (options->format != FORMAT_JSON || options->html || options->limit != NO_LIMIT)
        return muster_opt_wrong(
            self, "%s is a page, which holds the numbers as JSON: --format json", path);
    if (muster_page_read(path, MUSTER_PAGE_COMPARE, stdout, &err) == 0)
        return MUSTER_STATUS_OK;
    fprintf(stderr, "muster compare: %s\n", err.text);
    return MUSTER_STATUS_USAGE;
}

static int run(const struct muster_cmd *self, int argc, char **argv)
{
    struct options options = {.format = FORMAT_TEXT, .limit = NO_LIMIT};
    struct side a = {.loaded = false}, b = {.loaded = false};
    struct muster_err err;
    char command[1024];
    int status;
    muster_opt_describe(argc, argv, command, sizeof command);
    int at = muster_opt_parse(self, argc, argv, &options, &status);
    if (at < 0)
        return status;
    if (argc - at == 1 && muster_page_is_named(argv[at]))
        return read_page(self, &options, argv[at]);
    if (argc - at != 2)
        return muster_opt_wrong(self, "two runs are compared, %d %s given", argc - at,
                                argc - at == 1 ? "is" : "are");
    muster_beside_permit();
    struct muster_progress *progress = muster_progress_begin("compare", "reading both runs", 0);
    int result = load_sides(argv + at, &a, &b, &err);
    if (result == 0)
        result = open_side(&a, &err);
    if (result == 0)
        result = open_side(&b, &err);
    muster_progress_end(progress);
    if (result == 0)
        result = compare(&a, &b, &options, command, &err);
    close_side(&a);
    close_side(&b);
    if (result >= 0)
        return result;
    fprintf(stderr, "muster compare: %s\n", err.text);
    return MUSTER_STATUS_USAGE;
}

const struct muster_cmd muster_cmd_compare = {
    .name = "compare",
    .summary = "what became slower from one run to another, where, and by how much",
    .usage = "A B [options]",
    .about =
        "A and B are run directories, or pids of live processes. Operations are matched by\n"
        "function, size, number of ranks and the communicator's name, ranks by their number.\n"
        "What changed by less than 3 %, or not certainly, is not told. Exit status: 1 if B\n"
        "hangs, or is slower by more than --limit, and that is asked for; 2 if the runs cannot\n"
        "be compared, else 0.\n",
    .examples = "A gate: fails where a step became 5 % slower:\n"
                "  muster compare before/ after/ --limit 5\n"
                "A page with pictures, and its numbers for a program:\n"
                "  muster compare before/ after/ --html compare.html\n"
                "  muster compare compare.html --format json | jq .change\n",
    .options = table,
    .run = run,
};
