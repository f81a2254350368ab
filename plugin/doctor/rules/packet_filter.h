/*
 * What the rules of a host's packet filter do with a new TCP connection that comes in: the first
 * rule that drops it, by its own text. Reads what `iptables-save` and `nft list ruleset` print.
 * What it does not know it takes for a condition that may hold. IPv4. Pure.
 */
#ifndef MUSTER_DOCTOR_RULES_PACKET_FILTER_H
#define MUSTER_DOCTOR_RULES_PACKET_FILTER_H

#include <stdint.h>

struct muster_filter_packet {
    const char *interface; /* on which it comes */
    uint32_t from;         /* a network, in host order: any of its addresses */
    unsigned prefix;       /* bits of it */
    unsigned port;         /* to which it goes */
};

enum muster_filter_verdict {
    MUSTER_FILTER_NONE, /* no rules of incoming packets */
    MUSTER_FILTER_PASSES,
    MUSTER_FILTER_MAY_PASS, /* dropped unless a condition holds that cannot be evaluated here */
    MUSTER_FILTER_DROPS,
};

struct muster_filter_answer {
    enum muster_filter_verdict verdict;
    char rule[200]; /* the rule or policy that drops it; "": none */
};

/* Both may be called one after the other: each makes the answer worse, never better. */
void muster_filter_iptables(const char *text, const struct muster_filter_packet *packet,
                            struct muster_filter_answer *answer);
void muster_filter_nft(const char *text, const struct muster_filter_packet *packet,
                       struct muster_filter_answer *answer);

#endif
