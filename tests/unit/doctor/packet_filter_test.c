/* Rules of packet filters, as hosts have them, and the connections of a job. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "doctor/rules/packet_filter.h"

#define HEAD  "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:LOGGING - [0:0]\n"
#define KNOWN "-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT\n-A INPUT -i lo -j ACCEPT\n"

static const struct muster_filter_packet other = {"eth0", 0x0a010000, 16, 40000},
                                         own = {"lo", 0x0a010007, 32, 40000};

static struct muster_filter_answer tables(const char *text,
                                          const struct muster_filter_packet *packet)
{
    struct muster_filter_answer answer = {.verdict = MUSTER_FILTER_NONE};
    muster_filter_iptables(text, packet, &answer);
    return answer;
}

static struct muster_filter_answer nft(const char *text, const struct muster_filter_packet *packet)
{
    struct muster_filter_answer answer = {.verdict = MUSTER_FILTER_NONE};
    muster_filter_nft(text, packet, &answer);
    return answer;
}

static void no_rules(void **state)
{
    (void)state;
    assert_int_equal(tables("", &other).verdict, MUSTER_FILTER_NONE);
    assert_int_equal(tables("*nat\n:INPUT ACCEPT [0:0]\nCOMMIT\n", &other).verdict,
                     MUSTER_FILTER_NONE);
    assert_int_equal(tables(HEAD "COMMIT\n", &other).verdict, MUSTER_FILTER_PASSES);
    assert_int_equal(nft("", &other).verdict, MUSTER_FILTER_NONE);
    assert_int_equal(
        nft("table ip6 x {\n\tchain y {\n\t\ttype filter hook input priority 0; policy "
            "drop;\n\t}\n}\n",
            &other)
            .verdict,
        MUSTER_FILTER_NONE);
}

/* As images of Oracle's cloud and of RHEL 6 have them: ssh alone is let in. */
static void all_but_ssh_is_rejected(void **state)
{
    static const char rules[] =
        HEAD KNOWN "-A INPUT -p icmp -j ACCEPT\n"
                   "-A INPUT -p tcp -m state --state NEW -m tcp --dport 22 -j ACCEPT\n"
                   "-A INPUT -j REJECT --reject-with icmp-host-prohibited\nCOMMIT\n";
    (void)state;
    struct muster_filter_answer answer = tables(rules, &other);
    assert_int_equal(answer.verdict, MUSTER_FILTER_DROPS);
    assert_string_equal(answer.rule, "-A INPUT -j REJECT --reject-with icmp-host-prohibited");
    assert_int_equal(tables(rules, &own).verdict, MUSTER_FILTER_PASSES);
    struct muster_filter_packet ssh = other;
    ssh.port = 22;
    assert_int_equal(tables(rules, &ssh).verdict, MUSTER_FILTER_PASSES);
}

static void a_subnet_that_is_let_in(void **state)
{
    (void)state;
    assert_int_equal(
        tables("*filter\n:INPUT DROP [0:0]\n-A INPUT -s 10.0.0.0/8 -j ACCEPT\nCOMMIT\n", &other)
            .verdict,
        MUSTER_FILTER_PASSES);
    assert_int_equal(
        tables("*filter\n:INPUT DROP [0:0]\n-A INPUT -s 10.2.0.0/16 -j ACCEPT\n", &other).verdict,
        MUSTER_FILTER_DROPS);
    /* a few of its hosts */
    struct muster_filter_answer answer =
        tables("*filter\n:INPUT DROP [0:0]\n-A INPUT -s 10.1.0.7/32 -j ACCEPT\nCOMMIT\n", &other);
    assert_int_equal(answer.verdict, MUSTER_FILTER_MAY_PASS);
    assert_string_equal(answer.rule, "the policy of INPUT, DROP");
    assert_int_equal(
        tables("*filter\n:INPUT DROP [0:0]\n-A INPUT ! -s 192.168.0.0/16 -j ACCEPT\n", &other)
            .verdict,
        MUSTER_FILTER_PASSES);
    assert_int_equal(tables(HEAD "-A INPUT -s 10.1.0.0/255.255.0.0 -j DROP\n", &other).verdict,
                     MUSTER_FILTER_DROPS);
}

static void a_range_of_ports(void **state)
{
    static const char rules[] = "*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp -m multiport --dports "
                                "22,50000:60999 -j ACCEPT\n";
    struct muster_filter_packet high = other;
    (void)state;
    high.port = 55000;
    assert_int_equal(tables(rules, &other).verdict, MUSTER_FILTER_DROPS);
    assert_int_equal(tables(rules, &high).verdict, MUSTER_FILTER_PASSES);
}

/* Chains of ufw's kind: RETURN, a chain that only logs, and one that nobody wrote. */
static void chains(void **state)
{
    static const char rules[] =
        "*filter\n:INPUT DROP [0:0]\n:before - [0:0]\n:not-local - [0:0]\n"
        "-A INPUT -j before\n-A INPUT -j absent\n"
        "-A before -m limit --limit 3/min -j LOG --log-prefix \"[x -j DROP] \"\n"
        "-A before -j not-local\n"
        "-A before -p tcp -m comment --comment \"the job's ports\" -j ACCEPT\n"
        "-A not-local -m addrtype --dst-type LOCAL -j RETURN\n-A not-local -j DROP\nCOMMIT\n";
    (void)state;
    assert_int_equal(tables(rules, &other).verdict, MUSTER_FILTER_PASSES);
    /* round and round */
    assert_int_equal(
        tables(HEAD "-A INPUT -j a\n-A a -j b\n-A a -j b\n-A b -j a\n-A b -j a\n", &other).verdict,
        MUSTER_FILTER_PASSES);
}

/* As firewalld's own: a zone that lets ssh in, all else is rejected. */
static void a_zone_of_firewalld(void **state)
{
    static const char rules[] =
        "table inet firewalld {\n"
        "\tchain filter_INPUT {\n"
        "\t\ttype filter hook input priority filter + 10; policy accept;\n"
        "\t\tct state { established, related } accept\n"
        "\t\tct status dnat accept\n"
        "\t\tiifname \"lo\" accept\n"
        "\t\tjump filter_INPUT_ZONES\n"
        "\t\treject with icmpx admin-prohibited\n\t}\n\n"
        "\tchain filter_INPUT_ZONES {\n\t\tiifname \"eth0\" goto zone\n\t}\n"
        "\tchain zone {\n\t\ttcp dport 22 accept\n\t\ttcp dport { 80, 443 } accept\n"
        "\t\tmeta l4proto { icmp, ipv6-icmp } accept\n\t}\n}\n";
    (void)state;
    struct muster_filter_answer answer = nft(rules, &other);
    assert_int_equal(answer.verdict, MUSTER_FILTER_DROPS);
    assert_string_equal(answer.rule, "reject with icmpx admin-prohibited");
    assert_int_equal(nft(rules, &own).verdict, MUSTER_FILTER_PASSES);
}

static void a_policy_of_nft(void **state)
{
#define NFT(rules)                                                                                 \
    "table inet filter {\n chain input {\n  type filter hook input priority filter; "              \
    "policy drop;\n" rules " }\n}\n"
    (void)state;
    struct muster_filter_answer answer = nft(NFT(""), &other);
    assert_int_equal(answer.verdict, MUSTER_FILTER_DROPS);
    assert_string_equal(answer.rule, "the policy of chain input, drop");
    assert_int_equal(
        nft(NFT("ip saddr 10.1.0.0/16 tcp dport 1024-65535 counter packets 5 bytes 300 "
                "accept comment \"jobs\"\n"),
            &other)
            .verdict,
        MUSTER_FILTER_PASSES);
    assert_int_equal(nft(NFT("ip saddr @hosts accept\n"), &other).verdict, MUSTER_FILTER_MAY_PASS);
    assert_int_equal(
        nft(NFT("iifname != \"eth0\" accept\nudp dport 0-65535 accept\n"), &other).verdict,
        MUSTER_FILTER_DROPS);
    assert_int_equal(nft(NFT("iifname \"eth*\" accept\n"), &other).verdict, MUSTER_FILTER_PASSES);
    /* of two chains the one that drops counts */
    assert_int_equal(
        nft("table ip a {\nchain x {\ntype filter hook input priority 0; policy accept;\n}\n}\n"
            "table ip b {\nchain x {\ntype filter hook input priority 1; policy accept;\n"
            "tcp dport 1000-65535 drop\n}\n}\n",
            &other)
            .verdict,
        MUSTER_FILTER_DROPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_rules),
        cmocka_unit_test(all_but_ssh_is_rejected),
        cmocka_unit_test(a_subnet_that_is_let_in),
        cmocka_unit_test(a_range_of_ports),
        cmocka_unit_test(chains),
        cmocka_unit_test(a_zone_of_firewalld),
        cmocka_unit_test(a_policy_of_nft),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
