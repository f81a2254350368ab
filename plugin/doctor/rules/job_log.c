#include "doctor/rules/job_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "doctor/rules/job_log_words.h"
#include "doctor/rules/known_plugin.h"

enum { BEST = 9, LEAST_OF_A_LIST = 3 };

const struct muster_job_log_line *muster_job_log_line(size_t i)
{
    static const struct muster_job_log_lines *const all[] = {
        &muster_job_log_of_nccl, &muster_job_log_of_systems, &muster_job_log_of_programs};
    for (size_t of = 0; of < sizeof all / sizeof *all; i -= all[of++]->n)
        if (i < all[of]->n)
            return &all[of]->at[i];
    return NULL;
}

static size_t kinds(void)
{
    return muster_job_log_kinds_of_nccl.n + muster_job_log_kinds_of_programs.n;
}

static const struct muster_job_log_kind *kind_at(size_t i)
{
    size_t first = muster_job_log_kinds_of_nccl.n;
    return i < first ? &muster_job_log_kinds_of_nccl.at[i]
                     : &muster_job_log_kinds_of_programs.at[i - first];
}

const struct muster_job_log_kind *muster_job_log_kind(size_t i)
{
    return i < kinds() ? kind_at(i) : NULL;
}

/* Where a kind stands; behind all of them: none of that id. */
static size_t index_of(const char *id)
{
    static const char prefix[] = "log.";
    size_t i = 0;
    if (strncmp(id, prefix, sizeof prefix - 1) != 0)
        return MUSTER_JOB_LOG_KINDS;
    while (i < kinds() && strcmp(kind_at(i)->id, id) != 0)
        i++;
    return i < kinds() ? i : MUSTER_JOB_LOG_KINDS;
}

const struct muster_job_log_kind *muster_job_log_find(const char *id)
{
    return muster_job_log_kind(index_of(id));
}

int muster_job_log_weight(const struct muster_job_log_kind *kind, const char *check)
{
    int weight = BEST;
    if (strcmp(kind->id, check) ==
        0) /* behind what is seen on the host, unless it names the cause */
        return (kind->weight + 1) / 2;
    for (const char *at = kind->causes; *at; weight -= weight > LEAST_OF_A_LIST) {
        size_t n = strcspn(at, " ");
        if (strlen(check) == n && strncmp(at, check, n) == 0)
            return weight;
        at += n + (at[n] == ' ');
    }
    return 0;
}

static void take_version(struct muster_job_log *log, const char *line)
{
    if (!log->plugin && strstr(line, "NET/OFI Initializing aws-ofi-nccl"))
        log->plugin = muster_known_plugin_version(line, strlen(line));
    const char *at = strstr(line, "NCCL version ");
    const char *vllm = strstr(line, "vLLM is using nccl==");
    unsigned major = 0, minor = 0, patch = 0, cuda_major = 0, cuda_minor = 0;
    int fields = 0;
    if (at)
        fields = sscanf(at, "NCCL version %2u.%2u.%2u+cuda%2u.%1u", &major, &minor, &patch,
                        &cuda_major, &cuda_minor);
    else if (vllm)
        fields = sscanf(vllm, "vLLM is using nccl==%2u.%2u.%2u", &major, &minor, &patch);
    if (log->version || fields < 3 || major < 2)
        return;
    log->version = (int)(major * 10000 + minor * 100 + patch);
    log->cuda = (int)(cuda_major * 1000 + cuda_minor * 10);
}

static bool is_of_the_kernel(const char *line)
{
    return strstr(line, "NVRM: ") || strstr(line, "Killed process") || strstr(line, "DMAR: ") ||
           strstr(line, "AMD-Vi: ");
}

const char *muster_job_log_value(const struct muster_job_log *log, const char *name)
{
    for (int i = 0; i < log->sets; i++)
        if (strcmp(log->set[i].name, name) == 0)
            return log->set[i].value;
    return NULL;
}

static void note_setting(struct muster_job_log *log, const char *name, const char *value)
{
    muster_text_copy(log->set[log->sets].name, sizeof log->set[0].name, name);
    muster_text_copy(log->set[log->sets++].value, sizeof log->set[0].value, value);
}

/* "NCCL INFO NCCL_IB_HCA set by environment to mlx5_0." How much the run was to log is no setting
 * of the job. */
static void take_setting(struct muster_job_log *log, const char *line)
{
    static const char words[] = " set by environment to ", mark[] = "NCCL INFO NCCL_";
    const char *at = strstr(line, mark), *end = at ? strstr(at, words) : NULL;
    char name[sizeof log->set[0].name], value[sizeof log->set[0].value];
    if (!end || log->sets == MUSTER_JOB_LOG_SET)
        return;
    at += strlen("NCCL INFO ");
    if ((size_t)(end - at) >= sizeof name || memchr(at, ' ', (size_t)(end - at)))
        return;
    snprintf(name, sizeof name, "%.*s", (int)(end - at), at);
    end += strlen(words);
    size_t n = strcspn(end, "\r");
    n -= n > 0 && end[n - 1] == '.';
    char raw[sizeof value];
    snprintf(raw, sizeof raw, "%.*s", (int)n, end);
    muster_text_copy(value, sizeof value, raw);
    if (strncmp(name, "NCCL_DEBUG", strlen("NCCL_DEBUG")) == 0 || muster_job_log_value(log, name))
        return;
    note_setting(log, name, value);
}

/* "rank=2 local_rank=0 distributed_init_method=tcp://127.0.0.1:29501": where ranks of several hosts
 * meet, as by MASTER_ADDR. Of one host it may be any address. */
static void take_meeting(struct muster_job_log *log, const char *line)
{
    static const char mark[] = "init_method=tcp://", name[] = "MASTER_ADDR";
    const char *at = strstr(line, mark), *ranks = strstr(line, " rank=");
    unsigned rank, local;
    if (!at || !ranks || log->sets == MUSTER_JOB_LOG_SET || muster_job_log_value(log, name) ||
        sscanf(ranks, " rank=%9u local_rank=%9u", &rank, &local) != 2 || rank == local)
        return;
    at += strlen(mark);
    char address[sizeof log->set[0].value];
    size_t n = strcspn(at, ": ,'\"/\r");
    bool is_known = n > 0 && n < sizeof address && at[0] != '['; /* IPv6 is not */
    snprintf(address, sizeof address, "%.*s", is_known ? (int)n : 0, at);
    if (is_known)
        note_setting(log, name, address);
}

static bool goes_by_gpudirect(const char *line)
{
    return strstr(line, "GDRDMA") != NULL;
}

static void take_way(struct muster_job_log *log, const char *line)
{
    const char *via = strstr(line, " via ");
    if (!via || !strstr(line, " -> "))
        return;
    if (strstr(via, "P2P"))
        log->way[MUSTER_WAY_P2P]++;
    else if (strstr(via, "SHM") || strstr(via, "shared memory"))
        log->way[MUSTER_WAY_SHM]++;
    else if (strstr(via, "NET/Socket"))
        log->way[MUSTER_WAY_SOCKET]++;
    else if (strstr(via, "NET/"))
        log->way[goes_by_gpudirect(via) ? MUSTER_WAY_RDMA : MUSTER_WAY_RDMA_HOST]++;
}

/* torchrun's table: "Root Cause (first observed failure):", below it "host : node2" and
 * "rank : 12 (local_rank: 4)". */
static void take_first_to_end(struct muster_job_log *log, const char *line)
{
    const char *host = strstr(line, "host      : "), *rank = strstr(line, "rank      : ");
    char *to = host ? log->ended.host : log->ended.rank;
    log->ended.begun |= strstr(line, "Root Cause (first observed failure)") != NULL;
    if (!log->ended.begun || (!host && !rank) || to[0])
        return;
    char raw[sizeof log->ended.rank];
    snprintf(raw, sizeof raw, "%s", (host ? host : rank) + strlen("rank      : "));
    raw[strcspn(raw, "\r")] = '\0';
    muster_text_copy(to, sizeof raw, raw);
}

/* Most lines of most logs: looked at for the way alone. */
static bool is_of_a_way(const struct muster_job_log_line *known)
{
    return strncmp(known->id, "log.way_", strlen("log.way_")) == 0;
}

/* An error of the program's own, of any kind: the last of all words. What else is known of the same
 * line goes before it. */
static bool is_any_error(const char *id)
{
    return strcmp(id, "log.program") == 0;
}

/* How a launcher counts its dead: not even a symptom, as every failure ends so. */
static bool is_an_end(size_t kind)
{
    return strcmp(kind_at(kind)->id, "log.rank_failed") == 0;
}

/* Progress of preparing data: what each job prints, until others wait for it for too long. */
static bool is_preparation(const char *id)
{
    return strcmp(id, "log.preparing") == 0;
}

/* What a program may catch, and go on with less: a log that goes on behind it shows that it did. */
static bool may_be_caught(size_t kind)
{
    static const char *const ids[] = {"log.rank_memory", "log.program",  "log.data",
                                      "log.package",     "log.download", "log.permission",
                                      "log.preparing"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (strcmp(kind_at(kind)->id, ids[i]) == 0)
            return true;
    return false;
}

/* Or of how a program ends, which shows nothing of going on. */
static bool is_of_a_failure(const char *line)
{
    static const char *const words[] = {"rror", "xception", "Traceback",    "exitcode", "bort",
                                        "SIG",  "ignal",    "  File \"",    "GiB",      "PYTORCH_",
                                        "rank", "wandb",    "process_group"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(line, words[i]))
            return true;
    return line[strspn(line, " \t\r=-")] == '\0';
}

static bool is_slowness(const struct muster_job_log_kind *kind)
{
    return strcmp(kind->shows, "slow_transfer") == 0;
}

/* Neither what healthy logs have nor what a program may catch, too. */
static bool is_of_an_end(size_t kind)
{
    return !is_slowness(kind_at(kind)) && kind_at(kind)->weight != 1 && !may_be_caught(kind);
}

/* Whether a line of the other kind, soon behind one of the first, shows that it did not go on. */
static bool is_its_end(size_t kind, size_t other)
{
    return is_preparation(kind_at(kind)->id) ? strcmp(kind_at(other)->id, "log.time_out") == 0
                                             : is_of_an_end(other);
}

static void take_fate(struct muster_job_log *log, const char *line, const bool *taken)
{
    enum { TO_THE_END = 50 }; /* lines: other ranks go on until they need the one that failed */
    bool failed = is_of_a_failure(line);
    for (size_t i = 0; i < kinds(); i++) {
        if (log->of[i].lines == 0 || !may_be_caught(i))
            continue;
        for (size_t other = 0; other < kinds() && !taken[i]; other++)
            log->of[i].fatal |=
                taken[other] && is_its_end(i, other) && log->of[i].behind < TO_THE_END;
        log->of[i].behind += !failed;
        if (taken[i])
            log->of[i].behind = log->of[i].fatal = 0;
    }
}

/* Frameworks quote NCCL's last warning without its head: PyTorch on the line behind "Last error:",
 * as far from the line's begin, JAX between quotes. `text` gets the line with that head. */
static const char *with_head(struct muster_job_log *log, const char *line, char *text, size_t size)
{
    static const char torch[] = "Last error:", jax[] = "(may be unrelated) '";
    const char *last = strstr(line, torch), *inside = strstr(line, jax);
    size_t at = log->quoted;
    log->quoted = last ? (size_t)(last - line) + 1 : 0;
    if (inside)
        snprintf(text, size, "NCCL WARN %s", inside + sizeof jax - 1);
    else if (at > 0 && strlen(line) >= at)
        snprintf(text, size, "NCCL WARN %s", line + at - 1);
    else
        return line;
    return text;
}

static void take_line(struct muster_job_log *log, const char *line)
{
    char text[MUSTER_JOB_LOG_LINE + sizeof "NCCL WARN "];
    struct muster_log_text words;
    muster_log_text_begin(&words, with_head(log, line, text, sizeof text));
    bool channel = strstr(line, "NCCL INFO Channel") != NULL;
    bool taken[sizeof log->of / sizeof *log->of] = {false};
    log->lines++;
    take_way(log, line);
    if (!channel) {
        take_version(log, line);
        take_setting(log, line);
        take_meeting(log, line);
        take_first_to_end(log, line);
        log->nvls_none |= strstr(line, "NVLS multicast support is not available") != NULL;
    }
    if (log->kernels < MUSTER_JOB_LOG_KERNEL && !channel && is_of_the_kernel(line))
        muster_text_copy(log->kernel[log->kernels++], MUSTER_JOB_LOG_TEXT, line);
    const struct muster_job_log_line *known;
    bool any = false;
    for (size_t i = 0; (known = muster_job_log_line(i)); i++) {
        if ((channel && !is_of_a_way(known)) || !muster_log_text_has(&words, known->words) ||
            (is_of_a_way(known) && goes_by_gpudirect(line)) || (any && is_any_error(known->id)) ||
            (is_preparation(known->id) && strstr(line, "100%")))
            continue;
        size_t at = index_of(known->id);
        if (at >= sizeof taken / sizeof *taken || taken[at])
            continue;
        taken[at] = any = true;
        if (log->of[at].lines++ == 0) {
            log->of[at].first = log->lines;
            muster_text_copy(log->of[at].text, sizeof log->of[at].text, line);
        }
    }
    take_fate(log, line, taken);
}

void muster_job_log_take(struct muster_job_log *log, const char *text, size_t size)
{
    char line[MUSTER_JOB_LOG_LINE];
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t n = end ? (size_t)(end - text) - at : size - at;
        size_t kept = n < sizeof line - 1 ? n : sizeof line - 1;
        memcpy(line, text + at, kept);
        for (size_t i = 0; i < kept; i++)
            if (!line[i])
                line[i] = ' ';
        line[kept] = '\0';
        take_line(log, line);
        at += n + 1;
    }
}

/* Healthy logs have such lines, too: no more than a hint. */
static bool is_hint(const struct muster_job_log *log, size_t kind)
{
    bool goes_on = log->of[kind].behind > 0 || is_preparation(kind_at(kind)->id);
    return is_slowness(kind_at(kind)) || kind_at(kind)->weight == 1 ||
           (goes_on && !log->of[kind].fatal);
}

/* Whether a weightier kind is of the same lines: its words are nearer to the cause. */
static bool names_more(const struct muster_job_log *log, size_t more, size_t kind)
{
    return kind_at(more)->weight > kind_at(kind)->weight && log->of[kind].lines &&
           log->of[more].lines >= log->of[kind].lines &&
           log->of[more].first == log->of[kind].first && !is_hint(log, more);
}

/* A rank that ends by an error that names its cause takes the others with it: what was refused or
 * not reached behind it, and errors of cleaning up, follow from it. */
static bool is_consequence(const struct muster_job_log *log, size_t kind)
{
    enum { NAMES_ITS_CAUSE = 7, WAS_REFUSED = 4 };
    const struct muster_job_log_kind *of = kind_at(kind);
    for (size_t i = 0; i < kinds(); i++)
        if (names_more(log, i, kind))
            return true;
    for (size_t i = 0; i < kinds() && of->weight <= WAS_REFUSED; i++)
        if (log->of[i].lines && log->of[i].first < log->of[kind].first && !is_hint(log, i) &&
            (kind_at(i)->weight >= NAMES_ITS_CAUSE ||
             (is_any_error(of->id) && kind_at(i)->weight > of->weight)))
            return true;
    return false;
}

static bool is_useful(const struct muster_job_log *log, size_t kind)
{
    return log->of[kind].lines && kind_at(kind)->weight > 0 && !is_hint(log, kind) &&
           !is_consequence(log, kind);
}

static void add_check(const struct muster_job_log *log, size_t kind, struct muster_checks *checks)
{
    const struct muster_job_log_kind *of = kind_at(kind);
    struct muster_check *check = muster_check_begin(checks, of->id, of->class_id);
    check->line = of;
    if (!is_hint(log, kind))
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_found(check, "%s", of->found);
    muster_check_advice(check, "%s", of->advice);
    muster_check_evidence(check, "line %lu%s: %s", log->of[kind].first,
                          log->of[kind].lines > 1 ? " and others" : "", log->of[kind].text);
}

static void add_facts(const struct muster_job_log *log, struct muster_check *check)
{
    static const char *const ways[] = {"P2P", "shared memory (SHM)", "RDMA from the GPU (GDRDMA)",
                                       "RDMA and the host's memory", "TCP (NET/Socket)"};
    for (int i = 0; i < MUSTER_WAYS; i++)
        if (log->way[i])
            muster_check_evidence(check, "%lu lines of channels say via %s", log->way[i], ways[i]);
    for (int i = 0; i < log->sets; i++)
        muster_check_evidence(check, "the job had %s=%s", log->set[i].name, log->set[i].value);
    if (log->ended.rank[0])
        muster_check_evidence(check, "torchrun saw rank %s on %s end first", log->ended.rank,
                              log->ended.host[0] ? log->ended.host
                                                 : "a host that it does not name");
    if (!log->cut)
        return;
    muster_check_evidence(check, "only its first 64 MiB were read: what comes behind is not known");
    muster_check_advice(check, "grep -E 'WARN|[Ee]rror|set by environment' of it, and that to "
                               "`muster doctor --log -`");
}

void muster_job_log_checks(const struct muster_job_log *log, const char *name,
                           struct muster_checks *checks)
{
    struct muster_check *check = muster_check_begin(checks, "log.job", "");
    int known = 0, useful = 0, slow = 0, hints = 0;
    muster_check_expected(check, "lines that say why the job failed");
    for (size_t i = 0; i < kinds(); i++) {
        if (log->of[i].lines == 0)
            continue;
        known++;
        useful += is_useful(log, i);
        hints += is_hint(log, i);
        slow += is_slowness(kind_at(i));
        if (kind_at(i)->weight == 0 || is_consequence(log, i))
            muster_check_evidence(check, "line %lu: %s: %s", log->of[i].first, kind_at(i)->found,
                                  log->of[i].text);
    }
    muster_check_found(check,
                       useful ? "%.200s says something about the cause"
                       : known == slow && slow > 0
                           ? "%.200s says what makes a job slow (--symptom slow_transfer), not why "
                             "one fails"
                       : known == hints && hints > 0
                           ? "%.200s has lines that healthy logs have, too, and none that says why "
                             "the job failed"
                       : known ? "%.200s says that the job failed, not why: the first error of "
                                 "another rank may, or NCCL_DEBUG=INFO"
                               : "no line of %.200s is known: is it of a run with "
                                 "NCCL_DEBUG=INFO, and of the rank that failed first?",
                       name);
    if (known > slow && known > hints && !useful && log->ended.rank[0])
        muster_check_found(check,
                           "%.150s says that the job failed, not why: the first error of rank %s "
                           "may, which torchrun saw end first",
                           name, log->ended.rank);
    if (log->cut)
        muster_check_found(check, "of %.150s only the first 64 MiB were read, and %s", name,
                           useful  ? "say something about the cause"
                           : known ? "say that the job failed or is slow, not why"
                                   : "have no line that is known");
    add_facts(log, check);
    for (size_t i = 0; i < kinds(); i++)
        if (log->of[i].lines && kind_at(i)->weight > 0 && !is_consequence(log, i))
            add_check(log, i, checks);
}

static bool is_any_useful(const struct muster_job_log *log)
{
    for (size_t i = 0; i < kinds(); i++)
        if (is_useful(log, i))
            return true;
    return false;
}

/* That a rank ended, or a call failed, follows from other lines. */
void muster_job_log_symptoms(const struct muster_job_log *log, char *words, size_t size)
{
    bool useful = is_any_useful(log);
    struct muster_text text = muster_text_begin(words, size);
    for (size_t i = 0; i < kinds(); i++) {
        const struct muster_job_log_kind *kind = kind_at(i);
        if (log->of[i].lines == 0 || is_hint(log, i) || (useful && kind->weight == 0) ||
            is_consequence(log, i) || is_an_end(i) || strstr(words, kind->shows) ||
            text.used + strlen(kind->shows) + 2 > size)
            continue;
        muster_text_add(&text, "%s%s", text.used ? "," : "", kind->shows);
    }
}

void muster_job_log_kinds_seen(const struct muster_job_log *log, char *words, size_t size)
{
    struct muster_text text = muster_text_begin(words, size);
    for (size_t i = 0; i < kinds(); i++)
        if (log->of[i].lines)
            muster_text_add(&text, "%s%s", text.used ? " " : "", kind_at(i)->id);
}
