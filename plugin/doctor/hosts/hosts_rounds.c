#include "doctor/hosts/hosts_rounds.h"

/* The circle of a tournament: all but the last sit on it, and in turn t those meet whose places add
 * up to t; who would meet himself meets the last. */
static unsigned turns(unsigned n)
{
    return n < 2 ? 0 : n + n % 2 - 1;
}

unsigned muster_hosts_rounds(unsigned n)
{
    return turns(n) < MUSTER_HOSTS_ROUNDS ? turns(n) : MUSTER_HOSTS_ROUNDS;
}

int muster_hosts_partner(unsigned n, unsigned round, unsigned host)
{
    unsigned circle = turns(n), rounds = muster_hosts_rounds(n);
    if (round >= rounds || host >= n)
        return -1;
    /* spread over all turns: neighbours in the list often share a switch */
    unsigned turn = (unsigned)((unsigned long)round * circle / rounds);
    unsigned meets_last = turn % 2 ? (turn + circle) / 2 : turn / 2;
    unsigned partner = host == circle       ? meets_last
                       : host == meets_last ? circle
                                            : (turn + circle - host) % circle;
    return partner < n ? (int)partner : -1;
}
