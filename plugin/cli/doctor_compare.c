#include "cli/doctor_compare.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

enum { HOSTS_MAX = 4096, IDS_MAX = 256, LINES_MAX = 64 };

struct host {
    char *name, *id, *file;
    json_t *report;
};

struct difference {
    const char *check;
    int rank; /* 3: a problem on some hosts only; 2: has to be equal; 1: may differ */
};

struct muster_comparison {
    struct host *host;
    int hosts;
    struct difference difference[IDS_MAX];
    int differences;
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

struct muster_comparison *muster_comparison_new(void)
{
    return calloc(1, sizeof(struct muster_comparison));
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
    struct host *grown = NULL;
    int rc = check_report(report, name, err);
    if (rc == 0 && comparison->hosts == HOSTS_MAX)
        rc = muster_fail(err, "more than %d reports", HOSTS_MAX);
    if (rc == 0) {
        grown = realloc(comparison->host, (size_t)(comparison->hosts + 1) * sizeof *grown);
        if (!grown)
            rc = muster_fail_memory(err, name);
    }
    if (rc) {
        json_decref(report);
        return -1;
    }
    const char *host = text_of(report, "host");
    comparison->host = grown;
    struct host *added =
        &grown[comparison->hosts++]; /* freed with the comparison, also half made */
    *added = (struct host){strdup(*host ? host : name), strdup(text_of(report, "host_id")),
                           strdup(name), report};
    return added->name && added->id && added->file ? 0 : muster_fail_memory(err, name);
}

static json_t *find_check(const struct host *host, const char *id)
{
    size_t i;
    json_t *check;
    json_array_foreach(json_object_get(host->report, "checks"), i, check)
    {
        if (strcmp(text_of(check, "id"), id) == 0)
            return check;
    }
    return NULL;
}

static bool same_evidence(json_t *a, json_t *b)
{
    return json_equal(json_object_get(a, "evidence"), json_object_get(b, "evidence"));
}

/* Evidence holds figures; only where it is the list of settings itself does it have to be equal. */
static bool same(json_t *a, json_t *b, const char *id)
{
    if (!a || !b)
        return a == b;
    if (strcmp(text_of(a, "status"), text_of(b, "status")) != 0 ||
        strcmp(text_of(a, "found"), text_of(b, "found")) != 0)
        return false;
    return (strcmp(id, "env.set") != 0 && strcmp(id, "env.files") != 0) || same_evidence(a, b);
}

static int rank_of(const struct muster_comparison *comparison, const char *id)
{
    bool differs = false, problem = false, fine = false;
    json_t *first = find_check(&comparison->host[0], id);
    for (int i = 0; i < comparison->hosts; i++) {
        json_t *check = find_check(&comparison->host[i], id);
        bool bad = check && strcmp(text_of(check, "status"), "problem") == 0;
        problem |= bad;
        fine |= !bad;
        differs |= !same(first, check, id);
    }
    return !differs ? 0 : problem && fine ? 3 : has_to_be_equal(id) ? 2 : 1;
}

static bool known(const struct muster_comparison *comparison, const char *id)
{
    for (int i = 0; i < comparison->differences; i++)
        if (strcmp(comparison->difference[i].check, id) == 0)
            return true;
    return false;
}

static int worse(const void *a, const void *b)
{
    const struct difference *x = a, *y = b;
    return x->rank != y->rank ? y->rank - x->rank : strcmp(x->check, y->check);
}

static void find_differences(struct muster_comparison *comparison)
{
    comparison->differences = 0;
    for (int i = 0; i < comparison->hosts; i++) {
        size_t at;
        json_t *check;
        json_array_foreach(json_object_get(comparison->host[i].report, "checks"), at, check)
        {
            const char *id = text_of(check, "id");
            if (known(comparison, id) || comparison->differences == IDS_MAX)
                continue;
            int rank = rank_of(comparison, id);
            if (rank)
                comparison->difference[comparison->differences++] = (struct difference){id, rank};
        }
    }
    qsort(comparison->difference, (size_t)comparison->differences, sizeof *comparison->difference,
          worse);
}

/* Whether host i is the first with its value. */
static bool is_first(const struct muster_comparison *comparison, int i, const char *id)
{
    json_t *check = find_check(&comparison->host[i], id);
    for (int j = 0; j < i; j++)
        if (same(find_check(&comparison->host[j], id), check, id))
            return false;
    return true;
}

/* With its file where another host has the same name. */
static void put_name(const struct muster_comparison *comparison, int of, FILE *out)
{
    const struct host *host = &comparison->host[of];
    fputs(host->name, out);
    for (int i = 0; i < comparison->hosts; i++)
        if (i != of && strcmp(comparison->host[i].name, host->name) == 0) {
            fprintf(out, " (%s)", host->file);
            return;
        }
}

static void put_hosts(const struct muster_comparison *comparison, int first, const char *id,
                      FILE *out)
{
    json_t *check = find_check(&comparison->host[first], id);
    const char *separator = "";
    for (int i = first; i < comparison->hosts; i++)
        if (same(find_check(&comparison->host[i], id), check, id)) {
            fputs(separator, out);
            put_name(comparison, i, out);
            separator = ", ";
        }
}

/* Lines of evidence that another host lacks. */
static void put_own_evidence(const struct muster_comparison *comparison, int of, const char *id,
                             FILE *out)
{
    json_t *check = find_check(&comparison->host[of], id), *line;
    size_t i;
    int shown = 0;
    json_array_foreach(json_object_get(check, "evidence"), i, line)
    {
        bool everywhere = true;
        for (int j = 0; j < comparison->hosts && everywhere; j++) {
            size_t k;
            json_t *other,
                *lines = json_object_get(find_check(&comparison->host[j], id), "evidence");
            bool found = false;
            json_array_foreach(lines, k, other)
            {
                found |= json_equal(line, other) != 0;
            }
            everywhere = found;
        }
        if (!everywhere && json_is_string(line) && shown++ < LINES_MAX)
            fprintf(out, "      %s\n", json_string_value(line));
    }
}

static void put_text(const struct muster_comparison *comparison, FILE *out)
{
    static const char *const ranks[] = {"", "differs", "should be equal", "problem"};
    for (int i = 0; i < comparison->differences; i++) {
        const struct difference *difference = &comparison->difference[i];
        fprintf(out, "%s: %s\n", ranks[difference->rank], difference->check);
        for (int j = 0; j < comparison->hosts; j++) {
            if (!is_first(comparison, j, difference->check))
                continue;
            json_t *check = find_check(&comparison->host[j], difference->check);
            fputs("    ", out);
            put_hosts(comparison, j, difference->check, out);
            fprintf(out, ": %s%s%s\n", check ? text_of(check, "status") : "not checked",
                    check && *text_of(check, "found") ? ", " : "",
                    check ? text_of(check, "found") : "");
            put_own_evidence(comparison, j, difference->check, out);
        }
    }
    fprintf(out, "%d hosts, %d difference%s\n", comparison->hosts, comparison->differences,
            comparison->differences == 1 ? "" : "s");
}

static void put_json(const struct muster_comparison *comparison, FILE *out)
{
    static const char *const ranks[] = {"", "differs", "should_be_equal", "problem"};
    struct muster_json json;
    muster_json_begin(&json, out, true);
    muster_json_object(&json, NULL);
    muster_json_u64(&json, "version", 1);
    muster_json_array(&json, "differences");
    for (int i = 0; i < comparison->differences; i++) {
        const char *id = comparison->difference[i].check;
        muster_json_object(&json, NULL);
        muster_json_str(&json, "id", id);
        muster_json_str(&json, "rank", ranks[comparison->difference[i].rank]);
        muster_json_array(&json, "hosts");
        for (int j = 0; j < comparison->hosts; j++) {
            json_t *check = find_check(&comparison->host[j], id);
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

/* Two hosts that NCCL takes for one. */
static int put_twins(const struct muster_comparison *comparison, FILE *out)
{
    int twins = 0;
    for (int i = 0; i < comparison->hosts; i++)
        for (int j = i + 1; j < comparison->hosts; j++)
            if (*comparison->host[i].id &&
                strcmp(comparison->host[i].id, comparison->host[j].id) == 0) {
                twins++;
                if (out)
                    fprintf(out,
                            "problem: reports %d and %d (%s, %s) are of one host, or of two "
                            "that NCCL takes for one: NCCL_HOSTID tells them apart\n",
                            i + 1, j + 1, comparison->host[i].name, comparison->host[j].name);
            }
    return twins;
}

int muster_comparison_print(struct muster_comparison *comparison, bool json, FILE *out)
{
    if (comparison->hosts == 0)
        return 0;
    find_differences(comparison);
    int twins = put_twins(comparison, json ? NULL : out);
    if (json)
        put_json(comparison, out);
    else
        put_text(comparison, out);
    return twins || (comparison->differences && comparison->difference[0].rank >= 2);
}

void muster_comparison_free(struct muster_comparison *comparison)
{
    for (int i = 0; comparison && i < comparison->hosts; i++) {
        free(comparison->host[i].name);
        free(comparison->host[i].id);
        free(comparison->host[i].file);
        json_decref(comparison->host[i].report);
    }
    if (comparison)
        free(comparison->host);
    free(comparison);
}
