#include "doctor/rules/doctor_compare.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "doctor/rules/causes.h"

enum { HOSTS_MAX = 4096, IDS_MAX = 256, LINES_MAX = 64, NAMES_MAX = 16 };

struct host {
    const char *name, *id, *file;
    json_t *report;
    int rank, local_rank; /* of the process that wrote it; -1: not from its launcher */
    bool namesake;        /* another host has the same name */
};

/* What one host has of a check. */
struct answer {
    json_t *check; /* NULL: nothing */
    int host;
    const char *value; /* what is compared; NULL: no check */
    int group;         /* hosts of one value have one group, numbered in the order of hosts */
};

struct row {
    const char *id;
    int rank;     /* 3: a problem on some hosts only; 2: has to be equal; 1: may differ; 0: equal */
    int explains; /* weight of the difference as the cause of what the job showed; 0: none */
    int groups;
    struct answer *answer; /* one a host, in their order */
};

struct muster_comparison {
    struct muster_arena arena;
    struct host *host;
    size_t hosts;
    struct row row[IDS_MAX];
    int rows;
    bool shows_shared;     /* also what all hosts have */
    const char *dismissed; /* an id, or NULL */
    const char *symptoms;  /* that the job showed, or NULL */
};

/* What makes ranks disagree, where it differs. */
static bool has_to_be_equal(const char *id)
{
    static const char *const ids[] = {
        "version.nccl", "version.driver", "version.cuda", "env.set",     "env.files",
        "gpu.present",  "gpu.nvlink",     "gpu.mig",      "ib.ports",    "ib.gdr",
        "gpu.iommu",    "net.plugin",     "net.mtu",      "limit.stack", "limit.memlock"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (strcmp(ids[i], id) == 0)
            return true;
    return false;
}

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

struct muster_comparison *muster_comparison_new(struct muster_err *err)
{
    struct muster_arena memory = {0};
    struct muster_comparison *comparison = muster_arena_array(&memory, 1, sizeof *comparison);
    if (muster_arena_check(&memory, err, "the comparison"))
        return NULL;
    comparison->arena = memory;
    return comparison;
}

void muster_comparison_show_shared(struct muster_comparison *comparison)
{
    comparison->shows_shared = true;
}

void muster_comparison_dismiss(struct muster_comparison *comparison, const char *id)
{
    comparison->dismissed = id;
}

void muster_comparison_explain(struct muster_comparison *comparison, const char *symptoms)
{
    comparison->symptoms = symptoms;
}

/* A rank in a report; -1: none. */
static int rank_of(json_t *report, const char *key)
{
    json_t *rank = json_object_get(report, key);
    json_int_t n = json_integer_value(rank);
    return json_is_integer(rank) && n >= 0 && n < 1 << 30 ? (int)n : -1;
}

static int check_report(json_t *report, const char *name, struct muster_err *err)
{
    size_t i;
    json_t *check, *checks = json_object_get(report, "checks");
    if (!json_is_array(checks))
        return muster_fail(err, "%s: no \"checks\": not a report of `muster doctor --format json`",
                           name);
    if (json_integer_value(json_object_get(report, "version")) != 1)
        return muster_fail(err, "%s: version %lld, expected 1", name,
                           (long long)json_integer_value(json_object_get(report, "version")));
    json_array_foreach(checks, i, check)
    {
        if (!*text_of(check, "id") || !*text_of(check, "status"))
            return muster_fail(err, "%s: check %zu has no id or no status", name, i);
    }
    return 0;
}

int muster_comparison_add(struct muster_comparison *comparison, const char *name, const char *text,
                          size_t size, struct muster_err *err)
{
    json_error_t at;
    json_t *report = json_loadb(text, size, JSON_REJECT_DUPLICATES, &at);
    if (!report)
        return muster_fail(err, "%s:%d:%d: %s", name, at.line, at.column, at.text);
    struct muster_arena *arena = &comparison->arena;
    int rc = check_report(report, name, err);
    if (rc == 0 && comparison->hosts == HOSTS_MAX)
        rc = muster_fail(err, "more than %d reports", HOSTS_MAX);
    size_t before = comparison->hosts;
    if (rc == 0) {
        const char *host = text_of(report, "host");
        struct host *added =
            muster_arena_add(arena, &comparison->host, &comparison->hosts, sizeof *added);
        *added = (struct host){.name = muster_arena_text(arena, *host ? host : name),
                               .id = muster_arena_text(arena, text_of(report, "host_id")),
                               .file = muster_arena_text(arena, name),
                               .rank = rank_of(report, "rank"),
                               .local_rank = rank_of(report, "local_rank"),
                               .report = report};
        rc = muster_arena_check(arena, err, name);
    }
    if (comparison->hosts == before)
        json_decref(report);
    return rc;
}

/* Evidence holds figures; only where it is the list of settings itself does it have to be equal. */
static const char *value_of(struct muster_arena *arena, json_t *check, const char *id)
{
    char *evidence = NULL;
    bool settings = strcmp(id, "env.set") == 0 || strcmp(id, "env.files") == 0;
    if (settings)
        evidence = json_dumps(json_object_get(check, "evidence"), JSON_COMPACT | JSON_ENCODE_ANY);
    arena->failed |= json_object_get(check, "evidence") && settings && !evidence;
    const char *value = muster_arena_format(arena, "%s\n%s\n%s", text_of(check, "status"),
                                            text_of(check, "found"), evidence ? evidence : "");
    free(evidence);
    return value;
}

/* The row of an id; made where there is none. NULL: too many, or no memory. */
static struct row *find_row(struct muster_comparison *comparison, const char *id)
{
    for (int i = 0; i < comparison->rows; i++)
        if (strcmp(comparison->row[i].id, id) == 0)
            return &comparison->row[i];
    if (comparison->rows == IDS_MAX)
        return NULL;
    struct row *row = &comparison->row[comparison->rows];
    struct answer *answer =
        muster_arena_array(&comparison->arena, comparison->hosts, sizeof *answer);
    if (!answer)
        return NULL;
    for (size_t i = 0; i < comparison->hosts; i++)
        answer[i].host = (int)i;
    *row = (struct row){.id = id, .answer = answer};
    comparison->rows++;
    return row;
}

static void fill_rows(struct muster_comparison *comparison)
{
    for (size_t i = 0; i < comparison->hosts; i++) {
        size_t at;
        json_t *check;
        json_array_foreach(json_object_get(comparison->host[i].report, "checks"), at, check)
        {
            struct row *row = find_row(comparison, text_of(check, "id"));
            if (!row || row->answer[i].check)
                continue; /* of an id twice the first counts */
            row->answer[i].check = check;
            row->answer[i].value = value_of(&comparison->arena, check, row->id);
        }
    }
}

static int by_value(const void *a, const void *b)
{
    const struct answer *const *x = a, *const *y = b;
    const char *of_x = (*x)->value ? (*x)->value : "", *of_y = (*y)->value ? (*y)->value : "";
    int order = strcmp(of_x, of_y);
    return order ? order : (*x)->host - (*y)->host;
}

static bool same(const struct answer *a, const struct answer *b)
{
    return a->value && b->value ? strcmp(a->value, b->value) == 0 : a->value == b->value;
}

/* Numbers groups by their first hosts. */
static void group(struct muster_arena *arena, struct row *row, int hosts)
{
    struct answer **sorted = muster_arena_array(arena, (size_t)hosts, sizeof *sorted);
    if (!sorted)
        return;
    for (int i = 0; i < hosts; i++)
        sorted[i] = &row->answer[i];
    qsort(sorted, (size_t)hosts, sizeof(struct answer *), by_value);
    for (int i = 0, first = 0; i < hosts; i++) {
        if (!same(sorted[first], sorted[i]))
            first = i;
        sorted[i]->group = sorted[first]->host; /* for now: the first host of the value */
    }
    for (int i = 0; i < hosts; i++)
        row->answer[i].group =
            row->answer[i].group == i ? row->groups++ : row->answer[row->answer[i].group].group;
}

static void rank(const struct muster_comparison *comparison, struct row *row)
{
    int hosts = (int)comparison->hosts;
    bool dismissed = comparison->dismissed && strcmp(comparison->dismissed, row->id) == 0;
    bool problem = false, fine = false;
    for (int i = 0; i < hosts; i++) {
        json_t *check = row->answer[i].check;
        bool bad = check && strcmp(text_of(check, "status"), "problem") == 0;
        problem |= bad;
        fine |= !bad;
    }
    if (problem && !dismissed && (comparison->shows_shared || (fine && row->groups > 1)))
        row->rank = 3;
    else if (row->groups > 1)
        row->rank = has_to_be_equal(row->id) ? 2 : 1;
    if (row->groups > 1)
        row->explains = muster_difference_weight(row->id, comparison->symptoms);
}

static int worse(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->explains != y->explains)
        return y->explains - x->explains;
    return x->rank != y->rank ? y->rank - x->rank : strcmp(x->id, y->id);
}

static int by_name(const void *a, const void *b)
{
    const struct host *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static void find_namesakes(struct muster_comparison *comparison)
{
    struct host **sorted =
        muster_arena_array(&comparison->arena, comparison->hosts, sizeof *sorted);
    if (!sorted)
        return;
    for (size_t i = 0; i < comparison->hosts; i++)
        sorted[i] = &comparison->host[i];
    qsort(sorted, comparison->hosts, sizeof(struct host *), by_name);
    for (size_t i = 1; i < comparison->hosts; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            sorted[i - 1]->namesake = sorted[i]->namesake = true;
}

/* Differing rows first, the worst at their head. */
static void find_differences(struct muster_comparison *comparison)
{
    int hosts = (int)comparison->hosts;
    find_namesakes(comparison);
    fill_rows(comparison);
    for (int i = 0; i < comparison->rows; i++) {
        group(&comparison->arena, &comparison->row[i], hosts);
        rank(comparison, &comparison->row[i]);
    }
    qsort(comparison->row, (size_t)comparison->rows, sizeof *comparison->row, worse);
}

static int count_differences(const struct muster_comparison *comparison)
{
    int n = 0;
    while (n < comparison->rows && comparison->row[n].rank)
        n++;
    return n;
}

/* Whether a row is about variables, and every report has which rank's they are. */
static bool is_by_rank(const struct muster_comparison *comparison, const struct row *row)
{
    if (strncmp(row->id, "env.", 4) != 0)
        return false;
    for (size_t i = 0; i < comparison->hosts; i++)
        if (comparison->host[i].rank < 0)
            return false;
    return true;
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* "ranks 0-3, 8" */
static void put_ranks(struct muster_comparison *comparison, const struct row *row, int group,
                      FILE *out)
{
    int n = 0, shown = 0;
    int *ranks = muster_arena_array(&comparison->arena, comparison->hosts, sizeof *ranks);
    for (size_t i = 0; ranks && i < comparison->hosts; i++)
        if (row->answer[i].group == group)
            ranks[n++] = comparison->host[i].rank;
    if (n)
        qsort(ranks, (size_t)n, sizeof *ranks, by_number);
    fputs(n > 1 ? "ranks" : "rank", out);
    for (int i = 0, last; i < n && shown < NAMES_MAX; i = last + 1, shown++) {
        for (last = i; last + 1 < n && ranks[last + 1] <= ranks[last] + 1;)
            last++;
        fprintf(out, "%s %d", shown ? "," : "", ranks[i]);
        if (ranks[last] > ranks[i])
            fprintf(out, "-%d", ranks[last]);
    }
    if (shown == NAMES_MAX)
        fprintf(out, " and more, %d in all", n);
}

/* The hosts of a group, those beyond the first few as a number. */
static void put_hosts(const struct muster_comparison *comparison, const struct row *row, int group,
                      FILE *out)
{
    int n = 0;
    for (size_t i = 0; i < comparison->hosts; i++) {
        const struct host *host = &comparison->host[i];
        if (row->answer[i].group != group || n++ >= NAMES_MAX)
            continue;
        fprintf(out, "%s%s", n > 1 ? ", " : "", host->name);
        if (host->namesake) /* then with its file */
            fprintf(out, " (%s)", host->file);
    }
    if (n > NAMES_MAX)
        fprintf(out, " and %d more", n - NAMES_MAX);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Lines of evidence of all hosts, sorted; a host's own line is there once for each host that has
 * it. */
struct lines {
    const char **at;
    size_t n;
};

static struct lines collect_lines(const struct row *row, int hosts, struct muster_arena *memory)
{
    struct lines lines = {0};
    size_t k;
    json_t *line;
    for (int i = 0; i < hosts; i++)
        json_array_foreach(json_object_get(row->answer[i].check, "evidence"), k, line)
        {
            if (!json_is_string(line))
                continue;
            const char **at = muster_arena_add(memory, &lines.at, &lines.n, sizeof *at);
            *at = json_string_value(line);
        }
    if (lines.n)
        qsort(lines.at, lines.n, sizeof *lines.at, by_text);
    return lines;
}

static bool is_everywhere(const struct lines *lines, const char *line, int hosts)
{
    size_t low = 0, high = lines->n, n = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(lines->at[middle], line) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    while (low + n < lines->n && n < (size_t)hosts && strcmp(lines->at[low + n], line) == 0)
        n++;
    return n >= (size_t)hosts;
}

/* Lines of evidence that another host lacks. */
static void put_own_evidence(const struct answer *answer, const struct lines *lines, int hosts,
                             FILE *out)
{
    size_t i;
    int shown = 0;
    json_t *line;
    json_array_foreach(json_object_get(answer->check, "evidence"), i, line)
    {
        if (json_is_string(line) && shown < LINES_MAX &&
            !is_everywhere(lines, json_string_value(line), hosts)) {
            fprintf(out, "      %s\n", json_string_value(line));
            shown++;
        }
    }
}

/* What the first host with the problem is advised to do. */
static void put_fix(const struct row *row, int hosts, FILE *out)
{
    for (int i = 0; i < hosts; i++) {
        json_t *check = row->answer[i].check;
        if (check && strcmp(text_of(check, "status"), "problem") == 0 &&
            *text_of(check, "advice")) {
            fprintf(out, "    fix: %s\n", text_of(check, "advice"));
            return;
        }
    }
}

static void put_row(struct muster_comparison *comparison, const struct row *row, FILE *out)
{
    static const char *const ranks[] = {"", "differs", "should be equal", "problem"};
    struct muster_arena memory = {0};
    int shown = 0;
    fprintf(out, "%s: %s\n", ranks[row->rank], row->id);
    int hosts = (int)comparison->hosts;
    struct lines lines = collect_lines(row, hosts, &memory);
    for (size_t i = 0; i < comparison->hosts; i++) {
        json_t *check = row->answer[i].check;
        if (row->answer[i].group != shown)
            continue;
        fputs("    ", out);
        if (is_by_rank(comparison, row))
            put_ranks(comparison, row, shown, out);
        else if (row->groups == 1)
            fputs("all hosts", out);
        else
            put_hosts(comparison, row, shown, out);
        shown++;
        fprintf(out, ": %s%s%s\n", check ? text_of(check, "status") : "not checked",
                check && *text_of(check, "found") ? ", " : "",
                check ? text_of(check, "found") : "");
        put_own_evidence(&row->answer[i], &lines, hosts, out);
    }
    muster_arena_end(&memory, &comparison->arena);
    if (row->explains)
        fprintf(out, "    may explain: %s\n", comparison->symptoms);
    put_fix(row, hosts, out);
}

static void put_text(struct muster_comparison *comparison, FILE *out)
{
    int differences = count_differences(comparison);
    for (int i = 0; i < differences; i++)
        put_row(comparison, &comparison->row[i], out);
    fprintf(out, "%zu hosts, %d difference%s%s\n", comparison->hosts, differences,
            differences == 1 ? "" : "s", comparison->shows_shared ? " and problems of hosts" : "");
}

static void put_json(const struct muster_comparison *comparison, FILE *out)
{
    static const char *const ranks[] = {"", "differs", "should_be_equal", "problem"};
    struct muster_json json;
    muster_json_begin(&json, out, true);
    muster_json_object(&json, NULL);
    muster_json_u64(&json, "version", 1);
    muster_json_array(&json, "differences");
    for (int i = 0; i < count_differences(comparison); i++) {
        const struct row *row = &comparison->row[i];
        muster_json_object(&json, NULL);
        muster_json_str(&json, "id", row->id);
        muster_json_str(&json, "rank", ranks[row->rank]);
        if (comparison->symptoms)
            muster_json_bool(&json, "explains", row->explains > 0);
        muster_json_array(&json, "hosts");
        for (size_t j = 0; j < comparison->hosts; j++) {
            json_t *check = row->answer[j].check;
            muster_json_object(&json, NULL);
            muster_json_str(&json, "host", comparison->host[j].name);
            muster_json_str(&json, "file", comparison->host[j].file);
            muster_json_str(&json, "status", check ? text_of(check, "status") : NULL);
            muster_json_str(&json, "found", check ? text_of(check, "found") : NULL);
            muster_json_end(&json);
        }
        muster_json_end(&json);
        muster_json_end(&json);
    }
    muster_json_end(&json);
    muster_json_end(&json);
    fputc('\n', out);
}

/* Of one identity; two processes of one host are no twins. */
static bool are_twins(const struct host *a, const struct host *b)
{
    bool siblings = a->local_rank >= 0 && b->local_rank >= 0 && a->local_rank != b->local_rank;
    return *b->id && strcmp(a->id, b->id) == 0 && !siblings;
}

/* Hosts that NCCL takes for one: each is reported with the first of them. */
static int put_twins(const struct muster_comparison *comparison, FILE *out)
{
    int twins = 0;
    for (size_t j = 1; j < comparison->hosts; j++) {
        const struct host *second = &comparison->host[j];
        size_t i = 0;
        while (i < j && !are_twins(&comparison->host[i], second))
            i++;
        if (i == j)
            continue;
        twins++;
        if (out)
            fprintf(out,
                    "problem: reports %zu and %zu (%s, %s) are of one host, or of two that NCCL "
                    "takes for one: NCCL_HOSTID tells them apart\n",
                    i + 1, j + 1, comparison->host[i].name, second->name);
    }
    return twins;
}

int muster_comparison_print(struct muster_comparison *comparison, bool json, FILE *out,
                            struct muster_err *err)
{
    if (comparison->hosts == 0)
        return 0;
    find_differences(comparison);
    if (muster_arena_check(&comparison->arena, err, "the comparison"))
        return -1;
    int twins = put_twins(comparison, json ? NULL : out);
    if (json)
        put_json(comparison, out);
    else
        put_text(comparison, out);
    if (muster_arena_check(&comparison->arena, err, "the comparison"))
        return -1;
    int worst = 0;
    for (int i = 0; i < comparison->rows; i++)
        worst = comparison->row[i].rank > worst ? comparison->row[i].rank : worst;
    return twins || worst >= 2;
}

void muster_comparison_free(struct muster_comparison *comparison)
{
    if (!comparison)
        return;
    for (size_t i = 0; i < comparison->hosts; i++)
        json_decref(comparison->host[i].report);
    struct muster_arena memory = comparison->arena; /* which it is in, too */
    muster_arena_free(&memory);
}
