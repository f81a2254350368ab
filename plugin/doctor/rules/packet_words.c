#include "doctor/rules/packet_words.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { WORD_MAX = 256 };

/* The next word into `word`; a quoted one and one in braces count as one. Returns where the rest
 * begins; NULL: none. */
static const char *take_word(const char *at, char *word)
{
    at += strspn(at, " \t");
    if (!*at || *at == '\n' || *at == '#')
        return NULL;
    size_t n = strcspn(at, " \t\n");
    if (*at == '"') {
        n = 1 + strcspn(at + 1, "\"\n");
        n += at[n] == '"';
    } else if (*at == '{') {
        n = strcspn(at, "}\n");
        n += at[n] == '}';
    }
    snprintf(word, WORD_MAX, "%.*s", (int)n, at);
    return at + n;
}

static void meet(struct muster_filter_rule *rule, enum muster_filter_match match)
{
    if (match < rule->match)
        rule->match = match;
}

static enum muster_filter_match turn(enum muster_filter_match match, bool negated)
{
    if (!negated || match == FILTER_MAYBE)
        return match;
    return match == FILTER_YES ? FILTER_NO : FILTER_YES;
}

/* "eth0", "eth+" (iptables), "eth*" (nft), either in quotes */
static enum muster_filter_match is_interface(const char *pattern, const char *name)
{
    size_t n;
    pattern += *pattern == '"';
    n = strcspn(pattern, "\"");
    if (n && (pattern[n - 1] == '+' || pattern[n - 1] == '*'))
        return strncmp(pattern, name, n - 1) == 0 ? FILTER_YES : FILTER_NO;
    return strlen(name) == n && strncmp(pattern, name, n) == 0 ? FILTER_YES : FILTER_NO;
}

/* "10.1.0.0/16", "10.1.0.7", "10.1.0.0/255.255.0.0": whether it holds the packet's whole network.
 */
static enum muster_filter_match is_from(const char *text, const struct muster_filter_packet *packet)
{
    char address[32];
    struct in_addr of, mask;
    size_t n = strcspn(text, "/");
    unsigned prefix = 32;
    snprintf(address, sizeof address, "%.*s", (int)(n < sizeof address ? n : sizeof address - 1),
             text);
    if (inet_pton(AF_INET, address, &of) != 1)
        return FILTER_MAYBE;
    if (text[n] && inet_pton(AF_INET, text + n + 1, &mask) == 1)
        prefix = (unsigned)__builtin_popcount(mask.s_addr);
    else if (text[n])
        prefix = (unsigned)strtoul(text + n + 1, NULL, 10);
    unsigned shorter = prefix < packet->prefix ? prefix : packet->prefix;
    uint32_t bits = shorter == 0 ? 0 : shorter >= 32 ? ~0u : ~0u << (32 - shorter);
    if ((ntohl(of.s_addr) & bits) != (packet->from & bits))
        return FILTER_NO;
    return prefix <= packet->prefix ? FILTER_YES : FILTER_MAYBE;
}

/* "22", "1000:2000" (iptables), "1000-2000" (nft); a name may be any port. */
static enum muster_filter_match is_port(const char *text, const struct muster_filter_packet *packet)
{
    char *end;
    unsigned long low = strtoul(text, &end, 10), high = low;
    if (end == text && *text != ':')
        return FILTER_MAYBE;
    if (*end == ':' || *end == '-')
        high = end[1] ? strtoul(end + 1, NULL, 10) : 65535;
    return packet->port >= low && packet->port <= high ? FILTER_YES : FILTER_NO;
}

typedef enum muster_filter_match one_of(const char *text,
                                        const struct muster_filter_packet *packet);

static enum muster_filter_match is_on(const char *text, const struct muster_filter_packet *packet)
{
    return is_interface(text, packet->interface);
}

static enum muster_filter_match is_tcp(const char *text, const struct muster_filter_packet *packet)
{
    (void)packet;
    return strcmp(text, "tcp") == 0 || strcmp(text, "all") == 0 || strcmp(text, "6") == 0
               ? FILTER_YES
               : FILTER_NO;
}

static enum muster_filter_match is_new(const char *text, const struct muster_filter_packet *packet)
{
    (void)packet;
    return strcasecmp(text, "new") == 0 ? FILTER_YES : FILTER_NO;
}

static enum muster_filter_match is_local(const char *text,
                                         const struct muster_filter_packet *packet)
{
    (void)packet;
    return strcasecmp(text, "local") == 0 ? FILTER_YES : FILTER_NO;
}

/* What has been translated (ct status dnat) goes to somebody else's address. */
static enum muster_filter_match is_translated(const char *text,
                                              const struct muster_filter_packet *packet)
{
    (void)packet;
    return strcmp(text, "dnat") == 0 || strcmp(text, "snat") == 0 ? FILTER_NO : FILTER_MAYBE;
}

static enum muster_filter_match is_ipv4(const char *text, const struct muster_filter_packet *packet)
{
    (void)packet;
    return strcmp(text, "ipv4") == 0 ? FILTER_YES : FILTER_NO;
}

/* A list in commas, in braces or not; "@name" is a set that is kept elsewhere. */
static enum muster_filter_match any_of(char *list, one_of *is,
                                       const struct muster_filter_packet *packet)
{
    enum muster_filter_match best = FILTER_NO;
    char *rest;
    if (*list == '@')
        return FILTER_MAYBE;
    for (char *word = strtok_r(list, "{}, ", &rest); word; word = strtok_r(NULL, "{}, ", &rest)) {
        enum muster_filter_match match = is(word, packet);
        best = match > best ? match : best;
    }
    return best;
}

struct condition {
    const char *word;
    one_of *is; /* NULL: cannot be evaluated */
};

static void set_target(struct muster_filter_rule *rule, const char *target)
{
    if (strcmp(target, "ACCEPT") == 0)
        rule->target = FILTER_ACCEPT;
    else if (strcmp(target, "DROP") == 0 || strcmp(target, "REJECT") == 0)
        rule->target = FILTER_DROP;
    else if (strcmp(target, "RETURN") == 0)
        rule->target = FILTER_RETURN;
    else {
        rule->target = FILTER_JUMP; /* LOG and its like are chains without rules */
        snprintf(rule->to, sizeof rule->to, "%.63s", target);
    }
}

void muster_filter_read_iptables(const char *line, const struct muster_filter_packet *packet,
                                 struct muster_filter_rule *rule)
{
    static const struct condition conditions[] = {
        {"-i", is_on},         {"-s", is_from},       {"-p", is_tcp},      {"--dport", is_port},
        {"--dports", is_port}, {"--ctstate", is_new}, {"--state", is_new}, {"--dst-type", is_local},
    };
    static const char *const harmless[] = {"-A", "-m", "--comment", "--reject-with"};
    char word[WORD_MAX], value[WORD_MAX];
    bool negated = false;
    *rule = (struct muster_filter_rule){.match = FILTER_YES};
    for (const char *at = take_word(line, word); at; at = take_word(at, word)) {
        if (strcmp(word, "!") == 0) {
            negated = true;
            continue;
        }
        if (strcmp(word, "--syn") == 0)
            continue;
        const char *behind = take_word(at, value);
        bool known = false;
        for (size_t i = 0; behind && i < sizeof harmless / sizeof *harmless; i++)
            known |= strcmp(word, harmless[i]) == 0;
        for (size_t i = 0; behind && i < sizeof conditions / sizeof *conditions; i++)
            if (strcmp(word, conditions[i].word) == 0) {
                meet(rule, turn(any_of(value, conditions[i].is, packet), negated));
                known = true;
            }
        if (behind && (strcmp(word, "-j") == 0 || strcmp(word, "-g") == 0)) {
            set_target(rule, value);
            return; /* what stands behind a target is its own */
        }
        if (known)
            at = behind;
        else if (*word == '-')
            meet(rule, FILTER_MAYBE);
        negated = false;
    }
}

/* accept, drop, reject, return, jump X, goto X; false: another word. */
static bool is_verdict(const char *word, const char *at, struct muster_filter_rule *rule)
{
    char name[WORD_MAX] = "";
    if (strcmp(word, "accept") == 0)
        rule->target = FILTER_ACCEPT;
    else if (strcmp(word, "drop") == 0 || strcmp(word, "reject") == 0)
        rule->target = FILTER_DROP;
    else if (strcmp(word, "return") == 0)
        rule->target = FILTER_RETURN;
    else if (strcmp(word, "jump") == 0 || strcmp(word, "goto") == 0) {
        rule->target = FILTER_JUMP;
        if (take_word(at, name))
            snprintf(rule->to, sizeof rule->to, "%.63s", name);
    } else
        return false;
    return true;
}

void muster_filter_read_nft(const char *line, const struct muster_filter_packet *packet,
                            struct muster_filter_rule *rule)
{
    static const struct condition conditions[] = {
        {"iifname", is_on},   {"iif", is_on},       {"saddr", is_from},
        {"dport", is_port},   {"state", is_new},    {"l4proto", is_tcp},
        {"protocol", is_tcp}, {"nfproto", is_ipv4}, {"status", is_translated},
    };
    /* Words that name what the next one is about, and those whose value means nothing. */
    static const char *const about[] = {"ip", "tcp", "th", "meta", "ct", "counter"};
    static const char *const skipped[] = {"packets", "bytes", "comment",
                                          "prefix",  "level", "handle"};
    char word[WORD_MAX], value[WORD_MAX];
    *rule = (struct muster_filter_rule){.match = FILTER_YES};
    for (const char *at = take_word(line, word); at; at = take_word(at, word)) {
        if (is_verdict(word, at, rule))
            return;
        bool known = strcmp(word, "log") == 0;
        for (size_t i = 0; i < sizeof about / sizeof *about; i++)
            known |= strcmp(word, about[i]) == 0;
        for (size_t i = 0; i < sizeof skipped / sizeof *skipped; i++)
            if (strcmp(word, skipped[i]) == 0) {
                const char *behind = take_word(at, value);
                at = behind ? behind : at;
                known = true;
            }
        for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++) {
            const char *behind =
                strcmp(word, conditions[i].word) == 0 ? take_word(at, value) : NULL;
            bool negated = behind && strcmp(value, "!=") == 0;
            if (negated)
                behind = take_word(behind, value);
            if (!behind)
                continue;
            meet(rule, turn(any_of(value, conditions[i].is, packet), negated));
            at = behind;
            known = true;
        }
        if (strcmp(word, "udp") == 0 || strcmp(word, "ip6") == 0 || strcmp(word, "icmp") == 0)
            meet(rule, FILTER_NO);
        else if (!known)
            meet(rule, FILTER_MAYBE);
    }
}
