/* One rule of a packet filter, read in iptables' words or in nft's. For packet_filter.c. Pure. */
#ifndef MUSTER_DOCTOR_RULES_PACKET_WORDS_H
#define MUSTER_DOCTOR_RULES_PACKET_WORDS_H

#include "doctor/rules/packet_filter.h"

/* Whether a packet meets a condition; of several conditions the worst counts. */
enum muster_filter_match { FILTER_NO, FILTER_MAYBE, FILTER_YES };

enum muster_filter_target { FILTER_NEXT, FILTER_ACCEPT, FILTER_DROP, FILTER_RETURN, FILTER_JUMP };

struct muster_filter_rule {
    enum muster_filter_match match;
    enum muster_filter_target target;
    char to[64]; /* FILTER_JUMP: the chain */
};

/* `line` ends at a line break or a zero byte. */
typedef void muster_filter_reader(const char *line, const struct muster_filter_packet *packet,
                                  struct muster_filter_rule *rule);
muster_filter_reader muster_filter_read_iptables;
muster_filter_reader muster_filter_read_nft;

#endif
