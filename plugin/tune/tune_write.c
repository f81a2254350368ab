#include "tune/tune_write.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "policy/policy.h"
#include "policy/policy_fields.h"

static const char *func_word(unsigned func)
{
    const char *word = muster_policy_name_of(MUSTER_FIELD_COLLECTIVE, func);
    return word ? word : "unknown";
}

static void describe_size(char *to, size_t size, unsigned size_log2, const char *space)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    snprintf(to, size, "%u%s%s", 1u << size_log2 % 10, space, units[size_log2 / 10 % 7]);
}

void muster_tune_format_class(char *to, size_t size, const struct muster_tune_class *class)
{
    char bytes[24];
    describe_size(bytes, sizeof bytes, class->size_log2, " ");
    struct muster_text text = muster_text_begin(to, size);
    muster_text_add(&text, "%s %s, %" PRIu32 " ranks", func_word(class->func), bytes, class->ranks);
    if (class->nodes)
        muster_text_add(&text, ", %" PRIu32 " node%s", class->nodes, class->nodes == 1 ? "" : "s");
}

void muster_tune_format_choice(char *to, size_t size, const struct muster_tune_choice *choice)
{
    const char *algo = muster_policy_name_of(MUSTER_FIELD_ALGO, choice->algo);
    const char *proto = muster_policy_name_of(MUSTER_FIELD_PROTO, choice->proto);
    struct muster_text text = muster_text_begin(to, size);
    if (choice->algo && choice->proto)
        muster_text_add(&text, "%s/%s", algo ? algo : "?", proto ? proto : "?");
    else
        muster_text_add(&text, "NCCL's choice");
    if (choice->channels)
        muster_text_add(&text, " on %u channel%s", choice->channels,
                        choice->channels == 1 ? "" : "s");
}

void muster_tune_format_us(char *to, size_t size, double us)
{
    snprintf(to, size, "%.*f us", us < 10 ? 2 : us < 1000 ? 1 : 0, us);
}

void muster_tune_format_left_out(char *to, size_t size, size_t rare, size_t unevaluated)
{
    char few[80] = "", incomparable[80] = "";
    if (rare) {
        snprintf(few, sizeof few, "%zu class%s with fewer than %d operations a run", rare,
                 rare == 1 ? "" : "es", MUSTER_MEASURE_OPS);
    }
    if (unevaluated) {
        snprintf(incomparable, sizeof incomparable,
                 "%zu class%s without a comparable time for what was tried", unevaluated,
                 unevaluated == 1 ? "" : "es");
    }
    snprintf(to, size, "%s%s%s", few, rare && unevaluated ? "; " : "", incomparable);
}

/* ---- comments ---- */

/* A command may hold anything; a comment ends with its line. */
static void write_command(FILE *out, char *const *command)
{
    fputs("# Command:", out);
    for (; *command; command++) {
        char word[256];
        muster_text_copy(word, sizeof word, *command);
        for (char *at = word; *at; at++)
            *at = (char)((unsigned char)*at < 0x80 ? *at : '?');
        fprintf(out, " %s", word);
    }
    fputc('\n', out);
}

static void write_account(FILE *out, const struct muster_tune_account *account, size_t rules)
{
    char left_out[192];
    fprintf(out,
            "# Written by muster tune " MUSTER_VERSION ", %s: %u runs in %.0f s of %.0f s%s%s.\n",
            account->when, account->runs, account->seconds, account->budget_s,
            account->ending[0] ? "; " : "", account->ending);
    write_command(out, account->command);
    fputs(
        "# Ratio: time with the rule to without, over pairs of runs in turn. The time is that from "
        "the\n"
        "# start of an operation to the start of the communicator's next one, or what the rule "
        "names. A\n"
        "# rule stands here only if the 95 % interval of its ratio is below 0.97 over at least 3 "
        "pairs.\n",
        out);
    muster_tune_format_left_out(left_out, sizeof left_out, account->rare, account->unevaluated);
    if (left_out[0])
        fprintf(out, "# Not judged: %s.\n", left_out);
    for (size_t i = 0; i < 3; i++) {
        const char *line = account->whole[i];
        fprintf(out, line && line[0] ? "# %s\n" : "%s", line ? line : "");
    }
    if (!rules && !account->whole[0][0])
        fputs("# Nothing was: NCCL's own choices were not beaten.\n", out);
}

static void write_evidence(FILE *out, const struct muster_tune_rule *rule)
{
    const struct muster_tune_evidence *evidence = &rule->evidence;
    char class[96], before[64], after[64], before_us[32], after_us[32];
    muster_tune_format_class(class, sizeof class, &rule->class);
    muster_tune_format_us(before_us, sizeof before_us, evidence->before_us);
    muster_tune_format_us(after_us, sizeof after_us, evidence->after_us);
    muster_tune_format_choice(before, sizeof before, &evidence->before);
    muster_tune_format_choice(after, sizeof after, &evidence->after);
    fprintf(out, "  # %s: ratio %.3f, 95 %% interval %.3f to %.3f,\n", class,
            evidence->interval.ratio, evidence->interval.low, evidence->interval.high);
    fprintf(out, "  # %u pairs of runs, %" PRIu32 " operations a run.\n", evidence->interval.n,
            evidence->ops);
    fprintf(out, "  # %s: %s without, %s with.\n",
            evidence->by == MUSTER_MEASURE_CLOCK
                ? "By the quickest rank's clock, as the time to the next one is not known"
                : "From the start of one to the start of the next",
            before_us, after_us);
    fprintf(out, "  # Without: %s. With: %s.\n", before, after);
}

/* ---- rules ---- */

static void write_words(FILE *out, enum muster_policy_type type, uint32_t values)
{
    const char *join = "[";
    for (unsigned value = 1; value < 32; value++) {
        if (values >> value & 1) {
            fprintf(out, "%s%s", join, muster_policy_name_of(type, value));
            join = ", ";
        }
    }
    fputc(']', out);
}

static void write_action(FILE *out, const struct muster_tune_choice *choice)
{
    if (!choice->algo || !choice->proto) {
        fprintf(out, "    channels: %u\n", choice->channels);
        return;
    }
    fputs("    prefer: {", out);
    fprintf(out, "algo: %s, ", muster_policy_name_of(MUSTER_FIELD_ALGO, choice->algo));
    fprintf(out, "proto: %s", muster_policy_name_of(MUSTER_FIELD_PROTO, choice->proto));
    if (choice->channels)
        fprintf(out, ", channels: %u", choice->channels);
    fputs("}\n", out);
}

static void write_rule(FILE *out, const struct muster_tune_rule *rule)
{
    const struct muster_tune_class *class = &rule->class;
    char size[24];
    uint64_t first = 1ull << class->size_log2;
    describe_size(size, sizeof size, class->size_log2, "");
    if (rule->proven)
        write_evidence(out, rule);
    fprintf(out, "  - name: %s-%s-%" PRIu32 "-ranks-%" PRIu32 "-nodes\n", func_word(class->func),
            size, class->ranks, class->nodes);
    fprintf(out, "    match: {collective: %s, bytes: %" PRIu64 "..%" PRIu64 ", ranks: %" PRIu32,
            func_word(class->func), first, 2 * first - 1, class->ranks);
    if (class->nodes)
        fprintf(out, ", nodes: %" PRIu32, class->nodes);
    fputs("}\n", out);
    write_action(out, &rule->choice);
}

/* Without an effect, or with one that NCCL does not have for the collective. */
static bool is_rule(const struct muster_tune_rule *rule)
{
    uint32_t bit = muster_policy_combination(rule->choice.algo, rule->choice.proto);
    bool combination = rule->choice.algo && rule->choice.proto;
    if (combination && !(muster_policy_available(rule->class.func) & bit))
        return false;
    return (combination || rule->choice.channels) && rule->class.ranks &&
           rule->choice.channels <= MUSTER_POLICY_CHANNELS && rule->class.size_log2 < 63;
}

void muster_tune_write(FILE *out, const struct muster_tune_account *account,
                       const struct muster_tune_rule *rule, size_t rules)
{
    size_t written = 0;
    for (size_t i = 0; i < rules; i++)
        written += is_rule(&rule[i]);
    if (account && account->command)
        write_account(out, account, written);
    fputs(written ? "muster: 1\npolicy:\n" : "muster: 1\npolicy: []\n", out);
    for (size_t i = 0; i < rules; i++)
        if (is_rule(&rule[i]))
            write_rule(out, &rule[i]);
}

void muster_tune_write_force(FILE *out, uint32_t combinations)
{
    uint32_t funcs = 0, algos = 0, protos = 0;
    for (unsigned func = 1; func < MUSTER_FUNCS; func++)
        funcs |= muster_policy_available(func) & combinations ? 1u << func : 0;
    for (unsigned algo = 1; algo <= MUSTER_POLICY_ALGOS; algo++) {
        for (unsigned proto = 1; proto <= MUSTER_POLICY_PROTOS; proto++) {
            bool wanted = combinations & muster_policy_combination(algo, proto);
            algos |= wanted ? 1u << algo : 0;
            protos |= wanted ? 1u << proto : 0;
        }
    }
    fputs("muster: 1\npolicy:\n  - name: all\n    match: {collective: ", out);
    write_words(out, MUSTER_FIELD_COLLECTIVE, funcs);
    fputs("}\n    prefer: {algo: ", out);
    write_words(out, MUSTER_FIELD_ALGO, algos);
    fputs(", proto: ", out);
    write_words(out, MUSTER_FIELD_PROTO, protos);
    fputs("}\n", out);
}

const char *muster_tune_text(struct muster_arena *arena, const struct muster_tune_rule *rule,
                             size_t rules, uint32_t force)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    if (force)
        muster_tune_write_force(out, force);
    else
        muster_tune_write(out, NULL, rule, rules);
    const char *kept = muster_text_close(out, &text) ? muster_arena_text(arena, text) : NULL;
    free(text);
    return arena->failed ? NULL : kept;
}
