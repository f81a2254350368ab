/* RoCE packets that were lost on the way, by the cards' own counters. */
#include <string.h>

#include "doctor/rdma/doctor_ports.h"
#include "topology/sysfs.h"

enum {
    MANY = 1000,    /* since the counters were reset: fewer come with links that were set up */
    RARE = 1000000, /* one in so many packets does not show in a job's speed */
};

/* Names of NVIDIA's driver (mlx5_ib), then of Broadcom's (bnxt_re). A packet behind a lost one
 * arrives, and the receiver asks again for the lost one: that is loss. Nothing but time-outs shows
 * that no packet of that size arrives at all. A receiver that was not ready (RNR) lost nothing, and
 * adaptive routing delivers out of sequence by itself. */
enum kind { ASKED_AGAIN, TIMED_OUT, BESIDES };
static const struct {
    const char *name;
    enum kind kind;
} counters[] = {
    {"packet_seq_err", ASKED_AGAIN},      {"implied_nak_seq_err", ASKED_AGAIN},
    {"roce_adp_retrans", ASKED_AGAIN},    {"seq_err_naks_rcvd", ASKED_AGAIN},
    {"local_ack_timeout_err", TIMED_OUT}, {"to_retransmits", TIMED_OUT},
    {"out_of_sequence", BESIDES},         {"roce_slow_restart", BESIDES},
    {"rnr_nak_retry_err", BESIDES},       {"np_cnp_sent", BESIDES},
    {"rp_cnp_handled", BESIDES},
};

struct loss {
    long long of[BESIDES + 1], sent; /* sent 0: unknown */
};

static struct loss read_loss(const struct muster_doctor *doctor, struct muster_check *check,
                             const struct muster_doctor_port *port)
{
    struct loss loss = {.sent = 0};
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        long long n =
            muster_sysfs_number(doctor->sysfs, 0, "class/infiniband/%s/ports/%s/hw_counters/%s",
                                port->device, port->number, counters[i].name);
        if (n <= 0)
            continue;
        /* They overlap: a sum would count one loss twice. */
        if (n > loss.of[counters[i].kind])
            loss.of[counters[i].kind] = n;
        muster_check_evidence(check, "%s port %s: %s %lld", port->device, port->number,
                              counters[i].name, n);
    }
    loss.sent = muster_sysfs_number(doctor->sysfs, 0,
                                    "class/infiniband/%s/ports/%s/counters/port_xmit_packets",
                                    port->device, port->number);
    if (loss.sent > 0)
        muster_check_evidence(check, "%s port %s: %lld packets were sent", port->device,
                              port->number, loss.sent);
    return loss;
}

static bool is_much(const struct loss *loss, long long n)
{
    return n >= MANY && (loss->sent <= 0 || n >= loss->sent / RARE);
}

/* What those checks saw of this host, whatever they make of it. */
static void add_settings(const struct muster_doctor *doctor, struct muster_check *check)
{
    static const char *const ids[] = {"ib.pfc", "ib.ecn", "ib.trust"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        const struct muster_check *of = muster_checks_find(doctor->checks, ids[i]);
        if (of)
            muster_check_evidence(check, "%s: %s", of->id, of->found);
    }
}

static void report_loss(const struct muster_doctor *doctor, struct muster_check *check,
                        bool damaged)
{
    if (check->status == MUSTER_CHECK_OK)
        add_settings(doctor, check);
    muster_check_worse(check, MUSTER_CHECK_WARNING);
    if (damaged) {
        muster_check_found(check, "packets are lost on RoCE, and frames arrive damaged");
        muster_check_advice(check, "cable, transceiver or switch port first (ethtool -S: "
                                   "rx_crc_errors_phy): no setting mends damaged frames");
        return;
    }
    muster_check_found(check, "packets are lost on RoCE");
    muster_check_advice(check,
                        "PFC and ECN for the priority of NCCL's frames on all ports and all "
                        "switches between them (ib.pfc, ib.ecn and ib.trust show this host's; "
                        "NCCL_IB_TC chooses the priority); a switch's drops name the port. Does "
                        "a counter grow in a job? `muster doctor --hosts` measures loss");
}

static void suspect_silence(struct muster_check *check, const char *device)
{
    muster_check_suspect(check,
                         "%s got no answers, and nothing was asked for again: it does not reach "
                         "its peers, or frames of that size do not pass",
                         device);
    muster_check_advice(check, "the same MTU on all ports and switches (ib.frames), routes between "
                               "the hosts' subnets: `muster doctor --hosts` sends full packets "
                               "from port to port");
}

void muster_doctor_loss(struct muster_doctor *doctor, const struct muster_doctor_port *port, int n)
{
    struct muster_check *check =
        muster_doctor_begin_ports(doctor, n, "ib.loss", "F58",
                                  "fewer than 1,000 packets sent again, or than one in a million");
    char net[32] = "";
    int roce = 0;
    for (int i = 0; i < n; i++) {
        if (strcmp(port[i].layer, "Ethernet") != 0)
            continue;
        struct loss loss = read_loss(doctor, check, &port[i]);
        bool named = muster_doctor_port_mtu(doctor, &port[i], net) > 0;
        bool damaged =
            named && muster_sysfs_number(doctor->sysfs, 0, "class/net/%s/statistics/rx_crc_errors",
                                         net) >= MANY;
        if (roce++ == 0)
            muster_check_found(check, "few or no RoCE packets were sent again");
        if (muster_doctor_downs(doctor, &port[i]) >= MUSTER_DOCTOR_FLAPS) /* ib.flaps */
            muster_check_evidence(check, "%s port %s: its link went down, which loses packets, too",
                                  port[i].device, port[i].number);
        else if (is_much(&loss, loss.of[ASKED_AGAIN]))
            report_loss(doctor, check, damaged);
        else if (is_much(&loss, loss.of[TIMED_OUT]) && check->status == MUSTER_CHECK_OK)
            suspect_silence(check, port[i].device);
    }
    if (n && !roce)
        muster_check_unchecked(check, "no RoCE port");
}
