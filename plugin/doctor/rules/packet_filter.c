#include "doctor/rules/packet_filter.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "doctor/rules/packet_words.h"

/* Rules that send packets round in circles end here. */
enum { DEPTH_MAX = 16, STEPS_MAX = 20000, CHAIN_MAX = 64 };

struct walk {
    const char *text;
    const struct muster_filter_packet *packet;
    muster_filter_reader *read;
    bool nft;
    char table[CHAIN_MAX]; /* nft: of the chain that is walked */
    int steps;
    bool may_pass; /* a rule that would accept, if its condition holds */
    char rule[200];
};

static void keep_rule(struct walk *walk, const char *line)
{
    line += strspn(line, " \t");
    snprintf(walk->rule, sizeof walk->rule, "%.*s", (int)strcspn(line, "\n"), line);
}

static const char *next_line(const char *at)
{
    at += strcspn(at, "\n");
    return *at ? at + 1 : NULL;
}

static bool begins(const char *line, const char *word)
{
    return strncmp(line, word, strlen(word)) == 0;
}

static bool same_word(const char *at, const char *word)
{
    size_t n = strlen(word);
    return strncmp(at, word, n) == 0 && strchr(" \t\n{", at[n]);
}

/* The line behind "chain NAME {" of the walk's table; NULL: no such chain. */
static const char *enter_nft(const struct walk *walk, const char *chain)
{
    bool inside = false;
    for (const char *line = walk->text; line; line = next_line(line)) {
        const char *at = line + strspn(line, " \t");
        if (begins(at, "table "))
            inside = strncmp(at, walk->table, strlen(walk->table)) == 0;
        else if (inside && begins(at, "chain ") && same_word(at + 6, chain))
            return next_line(line);
    }
    return NULL;
}

/* The next rule of a chain at or behind `line`; NULL: its end. */
static const char *find_rule(const struct walk *walk, const char *line, const char *chain)
{
    for (; line; line = next_line(line)) {
        const char *at = line + strspn(line, " \t");
        if (walk->nft) {
            if (*at == '}')
                return NULL;
            if (*at && *at != '\n' && *at != '#' && !begins(at, "type "))
                return at;
        } else if (begins(at, "COMMIT")) {
            return NULL;
        } else if (begins(at, "-A ") && same_word(at + 3, chain)) {
            return at;
        }
    }
    return NULL;
}

static const char *first_rule(const struct walk *walk, const char *chain)
{
    const char *filter = walk->nft ? enter_nft(walk, chain) : strstr(walk->text, "*filter");
    return filter ? find_rule(walk, filter, chain) : NULL;
}

/* How a chain ends for the packet: FILTER_NEXT where it returns. */
static enum muster_filter_target walk_chain(struct walk *walk, const char *chain, int depth)
{
    struct muster_filter_rule rule;
    for (const char *line = first_rule(walk, chain); line && depth < DEPTH_MAX;
         line = next_line(line) ? find_rule(walk, next_line(line), chain) : NULL) {
        if (++walk->steps > STEPS_MAX)
            return FILTER_ACCEPT;
        walk->read(line, walk->packet, &rule);
        if (rule.match == FILTER_NO)
            continue;
        if (rule.target == FILTER_RETURN && rule.match == FILTER_YES)
            return FILTER_NEXT;
        enum muster_filter_target end = rule.target;
        if (rule.target == FILTER_JUMP)
            end = walk_chain(walk, rule.to, depth + 1);
        if (end == FILTER_ACCEPT && rule.match == FILTER_MAYBE)
            walk->may_pass = true;
        if (rule.match == FILTER_MAYBE || (end != FILTER_ACCEPT && end != FILTER_DROP))
            continue;
        if (end == FILTER_DROP && rule.target == FILTER_DROP)
            keep_rule(walk, line);
        return end;
    }
    return FILTER_NEXT;
}

static void worsen(struct muster_filter_answer *answer, struct walk *walk, bool drops)
{
    enum muster_filter_verdict verdict = !drops           ? MUSTER_FILTER_PASSES
                                         : walk->may_pass ? MUSTER_FILTER_MAY_PASS
                                                          : MUSTER_FILTER_DROPS;
    if (verdict <= answer->verdict)
        return;
    answer->verdict = verdict;
    snprintf(answer->rule, sizeof answer->rule, "%s", drops ? walk->rule : "");
}

void muster_filter_iptables(const char *text, const struct muster_filter_packet *packet,
                            struct muster_filter_answer *answer)
{
    struct walk walk = {.text = text, .packet = packet, .read = muster_filter_read_iptables};
    const char *filter = strstr(text, "*filter");
    const char *policy = filter ? strstr(filter, ":INPUT ") : NULL;
    if (!policy)
        return;
    enum muster_filter_target end = walk_chain(&walk, "INPUT", 0);
    if (end == FILTER_NEXT && begins(policy + strlen(":INPUT "), "DROP")) {
        end = FILTER_DROP;
        snprintf(walk.rule, sizeof walk.rule, "the policy of INPUT, DROP");
    }
    worsen(answer, &walk, end == FILTER_DROP);
}

static void take_word(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%.*s", (int)strcspn(from, " \t\n{"), from);
}

static void walk_base(const char *text, const char *table, const char *chain, bool policy_drops,
                      const struct muster_filter_packet *packet,
                      struct muster_filter_answer *answer)
{
    struct walk walk = {
        .text = text, .packet = packet, .read = muster_filter_read_nft, .nft = true};
    snprintf(walk.table, sizeof walk.table, "%.*s", (int)strcspn(table, "{\n"), table);
    enum muster_filter_target end = walk_chain(&walk, chain, 0);
    if (end == FILTER_NEXT && policy_drops) {
        end = FILTER_DROP;
        snprintf(walk.rule, sizeof walk.rule, "the policy of chain %s, drop", chain);
    }
    worsen(answer, &walk, end == FILTER_DROP);
}

void muster_filter_nft(const char *text, const struct muster_filter_packet *packet,
                       struct muster_filter_answer *answer)
{
    const char *table = "";
    char chain[CHAIN_MAX] = "";
    for (const char *line = text; line; line = next_line(line)) {
        const char *at = line + strspn(line, " \t"), *end = at + strcspn(at, "\n");
        if (begins(at, "table "))
            table = at;
        else if (begins(at, "chain "))
            take_word(chain, sizeof chain, at + strlen("chain "));
        if (!begins(at, "type ") || begins(table, "table ip6") || begins(table, "table bridge"))
            continue;
        const char *hook = strstr(at, "hook input"), *drop = strstr(at, "policy drop");
        if (hook && hook < end && begins(at, "type filter"))
            walk_base(text, table, chain, drop && drop < end, packet, answer);
    }
}
