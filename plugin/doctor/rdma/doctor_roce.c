/* What keeps RoCE from losing frames: congestion control, the priority that frames get, and the
 * pauses (PFC) of that priority. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "doctor/rdma/doctor_ports.h"
#include "launch/bounded.h"
#include "topology/dcb.h"
#include "topology/sysfs.h"

enum { ASK_MS = 3000 };

/* "11111111": whether this side of congestion control is on, for each priority; "" where the driver
 * does not show it. */
static void read_ecn(const struct muster_doctor *doctor, const char *net, const char *side,
                     char text[MUSTER_DCB_PRIORITIES + 1])
{
    for (int i = 0; i < MUSTER_DCB_PRIORITIES; i++) {
        long long on =
            muster_sysfs_number(doctor->sysfs, -1, "class/net/%s/ecn/%s/enable/%d", net, side, i);
        if (on < 0)
            return;
        text[i] = "01"[on != 0];
        text[i + 1] = '\0';
    }
}

/* ECN works where both the side that notices (np) and the side that slows down (rp) take part. */
static void check_ecn(struct muster_doctor *doctor, const struct muster_doctor_port *port, int n)
{
    struct muster_check *check = muster_doctor_begin_ports(
        doctor, n, "ib.ecn", "F58", "ECN on both sides, the same on all RoCE ports");
    char first[MUSTER_DCB_PRIORITIES + 1] = "", net[32] = "";
    bool differs = false, one_sided = false;
    for (int i = 0; i < n; i++) {
        char notices[MUSTER_DCB_PRIORITIES + 1] = "", slows[MUSTER_DCB_PRIORITIES + 1] = "";
        if (strcmp(port[i].layer, "Ethernet") != 0 ||
            muster_doctor_port_mtu(doctor, &port[i], net) <= 0)
            continue;
        read_ecn(doctor, net, "roce_np", notices);
        read_ecn(doctor, net, "roce_rp", slows);
        if (!*notices || !*slows)
            continue;
        one_sided |= strcmp(notices, slows) != 0;
        differs |= *first && strcmp(first, notices) != 0;
        memcpy(first, notices, sizeof first);
        muster_check_evidence(check, "%s: notices %s, slows down %s (priorities 0 to 7)", net,
                              notices, slows);
    }
    if (n && !*first)
        muster_check_unchecked(check, "no RoCE port whose driver shows ECN");
    else if (n)
        muster_check_found(check, "%s",
                           one_sided ? "ECN on one side only"
                           : differs ? "ECN differs between ports"
                                     : "ECN alike on all RoCE ports");
    if (one_sided || differs) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check, "the same for the job's priority on all ports and switches: "
                                   "/sys/class/net/*/ecn/roce_np and roce_rp; where a port does "
                                   "not slow down, others lose frames");
    }
}

/* PFC holds back a priority: by what a port gives a frame one. NCCL_IB_TC sets the IP header's
 * field, which a port that trusts the VLAN tag's (pcp) does not look at. */
static void check_trust(struct muster_doctor *doctor, const struct muster_doctor_port *port, int n)
{
    struct muster_check *check = muster_doctor_begin_ports(
        doctor, n, "ib.trust", "F58", "one rule on all RoCE ports, dscp where NCCL_IB_TC is set");
    const char *class = muster_env("NCCL_IB_TC");
    bool marked = class && strtol(class, NULL, 0) > 0, differs = false, unread = false;
    char first[16] = "", trust[16], net[32] = "";
    for (int i = 0; i < n; i++) {
        if (strcmp(port[i].layer, "Ethernet") != 0 ||
            muster_doctor_port_mtu(doctor, &port[i], net) <= 0 ||
            !muster_sysfs_line(doctor->sysfs, trust, sizeof trust, "class/net/%s/qos/trust", net))
            continue;
        differs |= *first && strcmp(first, trust) != 0;
        unread |= marked && strcmp(trust, "pcp") == 0;
        memcpy(first, trust, sizeof first);
        muster_check_evidence(check, "%s: trusts %s", net, trust);
    }
    if (n && !*first)
        muster_check_unchecked(check, "no RoCE port whose driver shows what it trusts");
    else if (n)
        muster_check_found(check, "%s",
                           unread    ? "NCCL_IB_TC is set, but ports do not look at it"
                           : differs ? "RoCE ports sort frames by different fields"
                                     : "RoCE ports sort frames alike");
    if (unread || differs) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check,
                            "mlnx_qos -i PORT --trust dscp on all ports, as on the switches: "
                            "else NCCL's frames are in a priority without PFC and ECN");
    }
}

/* ---- PFC ---- */

static int ask_work(void *arg, int fd, struct muster_err *err)
{
    static char answer[MUSTER_DCB_ANSWER];
    int n = muster_dcb_ask(arg, answer, err);
    return n < 0 ? -1 : muster_bounded_write(fd, answer, (size_t)n, err);
}

/* The kernel's answer; of a recorded host what is in class/net/NAME/dcb. */
static int read_dcb(const struct muster_doctor *doctor, char *net, struct muster_dcb *dcb,
                    struct muster_err *err)
{
    char path[PATH_MAX], *bytes;
    size_t size;
    int rc;
    if (strcmp(doctor->sysfs, "/sys") == 0) {
        if (muster_bounded(net, ask_work, net, ASK_MS, &bytes, &size, err))
            return -1;
        rc = muster_dcb_parse(bytes, size, dcb, err);
        free(bytes);
        return rc;
    }
    char *room = muster_arena_array(doctor->memory, MUSTER_DCB_ANSWER, 1);
    snprintf(path, sizeof path, "%s/class/net/%s/dcb", doctor->sysfs, net);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 && room ? read(fd, room, MUSTER_DCB_ANSWER) : -1;
    if (fd >= 0)
        close(fd);
    return n < 0 ? muster_fail(err, "not recorded") : muster_dcb_parse(room, (size_t)n, dcb, err);
}

/* "3", "0 3 4", "none". */
static const char *name_priorities(const struct muster_doctor *doctor, unsigned bits)
{
    const char *names = "";
    for (unsigned i = 0; i < MUSTER_DCB_PRIORITIES; i++)
        if (bits >> i & 1)
            names = muster_arena_format(doctor->memory, "%s%s%u", names, *names ? " " : "", i);
    return *names ? names : "none";
}

/* The traffic class of NCCL's frames on a port: NCCL_IB_TC, else the device's own. */
static long traffic_class(const struct muster_doctor *doctor, const struct muster_doctor_port *port)
{
    const char *given = muster_env("NCCL_IB_TC");
    char text[64];
    if (given)
        return strtol(given, NULL, 0);
    return muster_sysfs_line(doctor->sysfs, text, sizeof text,
                             "class/infiniband/%s/tc/%s/traffic_class", port->device,
                             port->number) &&
                   strstr(text, "tclass=")
               ? strtol(strstr(text, "tclass=") + strlen("tclass="), NULL, 0)
               : 0;
}

/* Its priority: that of its DSCP, by the port's table or, where that has nothing, the upper three
 * bits. A port that trusts the VLAN tag goes by the service level. */
static unsigned priority_of(const struct muster_doctor *doctor, const char *net,
                            const struct muster_dcb *dcb, long class)
{
    const char *level = muster_env("NCCL_IB_SL");
    char trust[16];
    unsigned dscp = (unsigned)class >> 2 & (MUSTER_DCB_DSCPS - 1);
    if (muster_sysfs_line(doctor->sysfs, trust, sizeof trust, "class/net/%s/qos/trust", net) &&
        strcmp(trust, "pcp") == 0)
        return level ? (unsigned)strtol(level, NULL, 0) & (MUSTER_DCB_PRIORITIES - 1) : 0;
    return dcb->priority[dscp] >= 0 ? (unsigned)dcb->priority[dscp] : dscp >> 3;
}

struct pfc_seen {
    int ports; /* that report it */
    unsigned first;
    bool differs, uncovered, chosen;
    char why[160]; /* of the first port that does not */
};

static void look_at_pfc(struct muster_doctor *doctor, struct muster_check *check,
                        const struct muster_doctor_port *port, char *net, struct pfc_seen *seen)
{
    struct muster_dcb dcb;
    struct muster_err err;
    if (read_dcb(doctor, net, &dcb, &err)) {
        if (!seen->why[0])
            snprintf(seen->why, sizeof seen->why, "%s: %.120s", net, err.text);
        return;
    }
    long class = traffic_class(doctor, port);
    unsigned priority = priority_of(doctor, net, &dcb, class);
    seen->differs |= seen->ports && seen->first != dcb.pfc;
    seen->first = seen->ports++ ? seen->first : dcb.pfc;
    seen->uncovered |= dcb.pfc && !(dcb.pfc >> priority & 1);
    seen->chosen |= muster_env("NCCL_IB_TC") || muster_env("NCCL_IB_SL");
    muster_check_evidence(check,
                          "%s: PFC of priorities %s; NCCL's frames get priority %u "
                          "(traffic class %ld)",
                          net, name_priorities(doctor, dcb.pfc), priority, class);
    if (dcb.paused || dcb.pauses)
        muster_check_evidence(check,
                              "%s: %llu pauses came in, %llu went out since the driver was "
                              "loaded",
                              net, (unsigned long long)dcb.paused, (unsigned long long)dcb.pauses);
}

/* PFC differs between ports, or is on for priorities that NCCL's frames do not have. That is a
 * warning only where somebody chose a priority: who did not may rely on congestion control. */
static void check_pfc(struct muster_doctor *doctor, const struct muster_doctor_port *port, int n)
{
    struct muster_check *check =
        muster_doctor_begin_ports(doctor, n, "ib.pfc", "F58",
                                  "PFC of the priority of NCCL's frames, alike on all RoCE ports");
    struct pfc_seen seen = {.ports = 0};
    char net[32] = "";
    for (int i = 0; i < n; i++)
        if (strcmp(port[i].layer, "Ethernet") == 0 &&
            muster_doctor_port_mtu(doctor, &port[i], net) > 0)
            look_at_pfc(doctor, check, &port[i], net, &seen);
    if (n && !seen.ports)
        muster_check_unchecked(check, "%s", seen.why[0] ? seen.why : "no RoCE port");
    if (!seen.ports)
        return;
    bool lost = seen.uncovered && seen.chosen;
    muster_check_found(check, "%s",
                       seen.differs ? "PFC differs between RoCE ports"
                       : lost       ? "NCCL's frames are in a priority without PFC"
                       : seen.first ? "PFC alike on all RoCE ports"
                                    : "no PFC on RoCE ports");
    if (seen.differs || lost)
        muster_check_worse(check, MUSTER_CHECK_WARNING);
    if (seen.uncovered)
        muster_check_suspect(check, "NCCL's frames are in a priority without PFC");
    if (seen.differs || seen.uncovered)
        muster_check_advice(check, "mlnx_qos -i PORT --pfc (or dcb pfc) alike on all ports and "
                                   "switches, and NCCL_IB_TC to a traffic class of that priority: "
                                   "frames without PFC are dropped where a switch is full, and all "
                                   "behind them is sent again");
}

void muster_doctor_roce(struct muster_doctor *doctor, const struct muster_doctor_port *port, int n)
{
    check_ecn(doctor, port, n);
    check_trust(doctor, port, n);
    check_pfc(doctor, port, n);
}
