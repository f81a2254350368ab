#include "policy/offline/report_rules.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "config/document.h"
#include "policy/offline/simulate.h"

/* Processes with the same policy in the same state. */
struct group {
    const struct muster_seg_policy *first;
    const char *hex; /* of its policy */
    uint64_t processes;
    uint64_t hits[MUSTER_SEG_RULES], not_offered[MUSTER_SEG_RULES];
    struct muster_simulation ran;
    struct muster_policy *policy; /* NULL: its text is not known */
};

struct job {
    struct muster_arena memory; /* of what is needed on the way */
    const struct muster_run *run;
    const struct muster_view *view;
    struct muster_report *report;
    struct group **group;
    size_t groups;
};

/* ---- Counters ---- */

static bool is_of(const struct group *group, const struct muster_seg_policy *policy)
{
    return group->first->state == policy->state &&
           memcmp(group->first->sha256, policy->sha256, sizeof policy->sha256) == 0;
}

static struct group *find_group(struct job *job, const struct muster_seg_policy *policy)
{
    for (size_t i = 0; i < job->groups; i++)
        if (is_of(job->group[i], policy))
            return job->group[i];
    struct group *group = muster_arena_array(&job->memory, 1, sizeof *group);
    if (!group)
        return NULL;
    struct group **place =
        muster_arena_add(&job->memory, &job->group, &job->groups, sizeof(struct group *));
    *place = group;
    char hex[MUSTER_POLICY_HEX];
    muster_policy_hex(hex, policy->sha256);
    group->first = policy;
    group->hex = muster_arena_text(&job->report->memory, hex);
    return group;
}

static unsigned entries_of(const struct muster_seg_policy *policy)
{
    return policy->rules < MUSTER_SEG_RULES ? policy->rules : MUSTER_SEG_RULES;
}

static void count_process(struct job *job, const struct muster_process *process)
{
    const struct muster_seg_policy *policy = &process->segment->policy;
    struct group *group = policy->state == MUSTER_POLICY_NONE ? NULL : find_group(job, policy);
    if (!group)
        return;
    group->processes++;
    for (unsigned i = 0; i < entries_of(policy); i++) {
        group->hits[i] += policy->rule[i].hits;
        group->not_offered[i] += policy->rule[i].not_offered;
    }
}

/* ---- What ran ---- */

/* The policy's text as a process kept it in a run directory; it must be that of the hash. */
static struct muster_policy *load_from(const char *dir, const struct muster_seg_policy *of)
{
    char path[PATH_MAX], hex[MUSTER_POLICY_HEX];
    struct muster_document document;
    struct muster_policy *policy = NULL;
    muster_policy_hex(hex, of->sha256);
    snprintf(path, sizeof path, "%s/policy-%.8s.yaml", dir, hex);
    if (muster_document_read(&document, path, NULL))
        return NULL;
    if (muster_policy_parse(&policy, path, document.text, document.bytes, NULL, NULL))
        policy = NULL;
    muster_document_free(&document);
    if (policy && memcmp(policy->sha256, of->sha256, sizeof policy->sha256) != 0) {
        muster_policy_free(policy);
        policy = NULL;
    }
    return policy;
}

static struct muster_policy *load_policy(const struct job *job, const struct muster_seg_policy *of)
{
    struct muster_policy *policy = NULL;
    for (size_t i = 0; i < job->run->sources && !policy; i++)
        policy = load_from(job->run->source[i], of);
    for (size_t i = 0; i < job->run->processes && !policy; i++)
        policy = load_from(job->run->process[i].identity.run_dir, of);
    return policy;
}

static void report_unknown(const struct job *job, const struct group *group)
{
    muster_report_add_gap(job->report,
                          "what ran under each rule: the run directory holds no policy-%.8s.yaml",
                          group->hex);
}

static void find_ran(struct job *job, struct group *group)
{
    if (group->first->state != MUSTER_POLICY_ACTIVE)
        return;
    group->policy = load_policy(job, group->first);
    if (!group->policy) {
        report_unknown(job, group);
        return;
    }
    group->ran.policy = group->policy;
    muster_simulation_count(&group->ran, job->view, group->first->sha256);
    job->memory.failed |= muster_simulation_finish(&group->ran) != 0;
}

/* ---- Rows ---- */

/* Never NULL. */
static struct muster_report_rule *add_row(const struct job *job, const struct group *group,
                                          const struct muster_seg_rule *rule)
{
    struct muster_report *report = job->report;
    struct muster_report_rule *row =
        muster_arena_add(&report->memory, &report->rule, &report->rules, sizeof *row);
    *row = (struct muster_report_rule){
        .sha256 = group->hex,
        .state = muster_policy_state_name(group->first->state),
        .processes = group->processes,
        .rule = rule ? rule->name : NULL,
        .line = rule && rule->line ? (int64_t)rule->line : -1,
        .hits = -1,
        .not_offered = -1,
        .count = group->policy ? 0 : -1,
    };
    return row;
}

/* The row of the rule, from `first` on, in which this variant stands; the first that holds none
 * yet, or a new one. */
static struct muster_report_rule *row_of(const struct job *job, const struct group *group,
                                         const struct muster_seg_rule *rule, size_t first,
                                         struct muster_variant variant)
{
    const char *algo = muster_algo_name(variant.algo), *proto = muster_proto_name(variant.proto);
    for (size_t i = first; i < job->report->rules; i++) {
        struct muster_report_rule *row = &job->report->rule[i];
        if (!row->algo || (strcmp(row->algo, algo) == 0 && strcmp(row->proto, proto) == 0 &&
                           row->channels == variant.channels))
            return row;
    }
    return add_row(job, group, rule);
}

static void add_rule(const struct job *job, const struct group *group, unsigned entry)
{
    const struct muster_seg_rule *rule = &group->first->rule[entry];
    size_t first = job->report->rules;
    struct muster_report_rule *row = add_row(job, group, rule);
    row->hits = (int64_t)group->hits[entry];
    row->not_offered = (int64_t)group->not_offered[entry];
    for (size_t i = 0; i < group->ran.classes; i++) {
        const struct muster_sim_class *class = &group->ran.class[i];
        const struct muster_sim_cell *cell = class->cell;
        if (cell->rule < 0 || muster_seg_rule_entry((uint32_t)cell->rule) != entry)
            continue;
        row = row_of(job, group, rule, first, cell->ran);
        row->algo = muster_algo_name(cell->ran.algo);
        row->proto = muster_proto_name(cell->ran.proto);
        row->channels = cell->ran.channels;
        row->count += (int64_t) class->ops;
    }
}

static void add_group(const struct job *job, const struct group *group)
{
    if (group->first->state != MUSTER_POLICY_ACTIVE)
        add_row(job, group, NULL);
    else
        for (unsigned i = 0; i < entries_of(group->first); i++)
            add_rule(job, group, i);
}

int muster_report_rules_add(const struct muster_view *view, struct muster_report *report,
                            struct muster_err *err)
{
    struct job job = {.run = view->run, .view = view, .report = report};
    for (size_t i = 0; i < job.run->processes; i++)
        count_process(&job, &job.run->process[i]);
    for (size_t i = 0; i < job.groups; i++) {
        struct group *group = job.group[i];
        find_ran(&job, group);
        add_group(&job, group);
        muster_simulation_free(&group->ran);
        muster_policy_free(group->policy);
    }
    muster_arena_end(&job.memory, &report->memory);
    return muster_arena_check(&report->memory, err, "the rows by rule");
}
