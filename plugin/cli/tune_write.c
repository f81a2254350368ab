#include "cli/tune_write.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "policy/policy.h"
#include "policy/rules.h"

static const char *func_word(unsigned func)
{
    const char *word = muster_policy_word_of(MUSTER_FIELD_COLLECTIVE, func);
    return word ? word : "unknown";
}

static void word_size(char *to, size_t size, unsigned size_log2, const char *space)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    snprintf(to, size, "%u%s%s", 1u << size_log2 % 10, space, units[size_log2 / 10 % 7]);
}

void muster_tune_word_class(char *to, size_t size, const struct muster_tune_class *class)
{
    char bytes[24];
    word_size(bytes, sizeof bytes, class->size_log2, " ");
    int n =
        snprintf(to, size, "%s %s, %" PRIu32 " ranks", func_word(class->func), bytes, class->ranks);
    if (n > 0 && (size_t)n < size && class->nodes) {
        snprintf(to + n, size - (size_t)n, ", %" PRIu32 " node%s", class->nodes,
                 class->nodes == 1 ? "" : "s");
    }
}

void muster_tune_word_choice(char *to, size_t size, const struct muster_tune_choice *choice)
{
    const char *algo = muster_policy_word_of(MUSTER_FIELD_ALGO, choice->algo);
    const char *proto = muster_policy_word_of(MUSTER_FIELD_PROTO, choice->proto);
    bool combination = choice->algo && choice->proto;
    int n = combination ? snprintf(to, size, "%s/%s", algo ? algo : "?", proto ? proto : "?")
                        : snprintf(to, size, "%s", "NCCL's choice");
    if (choice->channels && n > 0 && (size_t)n < size) {
        snprintf(to + n, size - (size_t)n, " on %u channel%s", choice->channels,
                 choice->channels == 1 ? "" : "s");
    }
}

/* ---- comments ---- */

/* A command may hold anything; a comment ends with its line. */
static void write_command(FILE *out, char *const *command)
{
    fputs("# Command:", out);
    for (; *command; command++) {
        char word[256];
        muster_text_copy(word, sizeof word, *command);
        for (char *at = word; *at; at++) {
            *at = (unsigned char)*at < 0x80 ? *at : '?';
        }
        fprintf(out, " %s", word);
    }
    fputc('\n', out);
}

static void write_account(FILE *out, const struct muster_tune_account *account, size_t rules)
{
    fprintf(out,
            "# Written by muster tune " MUSTER_VERSION ", %s: %u runs in %.0f s of %.0f s%s%s.\n",
            account->when, account->runs, account->seconds, account->budget_s,
            account->ending[0] ? "; " : "", account->ending);
    write_command(out, account->command);
    fputs("# Ratio: time of an operation with the rule to without, over pairs of runs in turn. A "
          "rule\n"
          "# stands here only if the 95 % interval of its ratio is below 0.97 over at least 3 "
          "pairs,\n"
          "# and if operations do not follow each other more slowly with it.\n",
          out);
    if (!rules) {
        fputs("# Nothing was: NCCL's own choices were not beaten.\n", out);
    }
}

static void write_evidence(FILE *out, const struct muster_tune_rule *rule)
{
    const struct muster_tune_evidence *evidence = &rule->evidence;
    char class[96], before[64], after[64];
    muster_tune_word_class(class, sizeof class, &rule->class);
    muster_tune_word_choice(before, sizeof before, &evidence->before);
    muster_tune_word_choice(after, sizeof after, &evidence->after);
    fprintf(out, "  # %s: ratio %.3f, 95 %% interval %.3f to %.3f,\n", class,
            evidence->interval.ratio, evidence->interval.low, evidence->interval.high);
    fprintf(out, "  # %u pairs of runs, %" PRIu32 " operations a run.\n", evidence->interval.n,
            evidence->ops);
    fprintf(out, "  # Without: %.2f us, %s. With: %.2f us, %s.\n", evidence->before_us, before,
            evidence->after_us, after);
}

/* ---- rules ---- */

static void write_action(FILE *out, const struct muster_tune_choice *choice)
{
    if (!choice->algo || !choice->proto) {
        fprintf(out, "    channels: %u\n", choice->channels);
        return;
    }
    fputs("    prefer: {", out);
    fprintf(out, "algo: %s, ", muster_policy_word_of(MUSTER_FIELD_ALGO, choice->algo));
    fprintf(out, "proto: %s", muster_policy_word_of(MUSTER_FIELD_PROTO, choice->proto));
    if (choice->channels) {
        fprintf(out, ", channels: %u", choice->channels);
    }
    fputs("}\n", out);
}

static void write_rule(FILE *out, const struct muster_tune_rule *rule)
{
    const struct muster_tune_class *class = &rule->class;
    char size[24];
    uint64_t first = 1ull << class->size_log2;
    word_size(size, sizeof size, class->size_log2, "");
    if (rule->proven) {
        write_evidence(out, rule);
    }
    fprintf(out, "  - name: %s-%s-%" PRIu32 "-ranks-%" PRIu32 "-nodes\n", func_word(class->func),
            size, class->ranks, class->nodes);
    fprintf(out, "    match: {collective: %s, bytes: %" PRIu64 "..%" PRIu64 ", ranks: %" PRIu32,
            func_word(class->func), first, 2 * first - 1, class->ranks);
    if (class->nodes) {
        fprintf(out, ", nodes: %" PRIu32, class->nodes);
    }
    fputs("}\n", out);
    write_action(out, &rule->choice);
}

/* Without an effect, or with one that NCCL does not have for the collective. */
static bool is_rule(const struct muster_tune_rule *rule)
{
    uint32_t bit = muster_policy_combination(rule->choice.algo, rule->choice.proto);
    bool combination = rule->choice.algo && rule->choice.proto;
    if (combination && !(muster_policy_available(rule->class.func) & bit)) {
        return false;
    }
    return (combination || rule->choice.channels) && rule->class.ranks &&
           rule->choice.channels <= MUSTER_POLICY_CHANNELS && rule->class.size_log2 < 63;
}

void muster_tune_write(FILE *out, const struct muster_tune_account *account,
                       const struct muster_tune_rule *rule, size_t rules)
{
    size_t written = 0;
    for (size_t i = 0; i < rules; i++) {
        written += is_rule(&rule[i]);
    }
    if (account && account->command) {
        write_account(out, account, written);
    }
    fputs(written ? "muster: 1\npolicy:\n" : "muster: 1\npolicy: []\n", out);
    for (size_t i = 0; i < rules; i++) {
        if (is_rule(&rule[i])) {
            write_rule(out, &rule[i]);
        }
    }
}

void muster_tune_write_force(FILE *out, const struct muster_tune_choice *choice)
{
    uint32_t bit = muster_policy_combination(choice->algo, choice->proto);
    const char *join = "";
    fputs("muster: 1\npolicy:\n  - name: all\n    match: {collective: [", out);
    for (unsigned func = 1; func < MUSTER_FUNCS; func++) {
        if (muster_policy_available(func) & bit) {
            fprintf(out, "%s%s", join, func_word(func));
            join = ", ";
        }
    }
    fputs("]}\n", out);
    write_action(out, choice);
}
