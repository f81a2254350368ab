/* Service meshes: a proxy beside the job takes its connections, and knows nothing of NCCL's. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "doctor/doctor.h"
#include "doctor/rules/proc_text.h"
#include "topology/sysfs.h"

extern char **environ;

/* Ports on which the proxies of a pod listen: that for what leaves it and that for what arrives.
 * Istio's sidecar has 15021 besides (its state), the ztunnel of its ambient mode has not; an Envoy
 * of Istio before 1.3 takes both ways at 15001, and has 15000 (its administration). Variables are
 * of the proxy's own container, whose network is the pod's. NCCL's ports are any of a range, which
 * Istio's lists of excluded ports cannot name. */
static const struct {
    const char *mesh;
    unsigned out, in, also; /* also 0: no third one */
    const char *variable;   /* what its names begin with; "": none */
    const char *advice;
} meshes[] = {
    {"Istio", 15001, 15006, 15021, "ISTIO_META_",
     "annotation sidecar.istio.io/inject: \"false\" on the job's pods; where they need the "
     "sidecar, "
     "traffic.sidecar.istio.io/includeInboundPorts: \"\" and excludeOutboundIPRanges: the pods' "
     "subnet (excludeInboundPorts and excludeOutboundPorts mend MASTER_PORT alone)"},
    {"Istio (ambient mode)", 15001, 15006, 15008, "",
     "label istio.io/dataplane-mode: none on the job's pods"},
    {"Istio", 15001, 15006, 0, "",
     "annotation sidecar.istio.io/inject: \"false\" on the job's pods"},
    {"Istio", 15001, 15000, 0, "",
     "annotation sidecar.istio.io/inject: \"false\" on the job's pods"},
    {"Linkerd", 4140, 4143, 0, "LINKERD2_PROXY_",
     "annotation linkerd.io/inject: disabled on the job's pods; where they need the proxy, "
     "config.linkerd.io/skip-inbound-ports and skip-outbound-ports: \"1024-65535\""},
};
enum { MESHES = sizeof meshes / sizeof *meshes };

/* The first that begins so; NULL: none. */
static const char *find_variable(const char *prefix)
{
    for (char **at = environ; *prefix && *at; at++)
        if (strncmp(*at, prefix, strlen(prefix)) == 0)
            return *at;
    return NULL;
}

static int find_mesh(const struct muster_doctor *doctor, char *text)
{
    static const char *const files[] = {"net/tcp", "net/tcp6"};
    bool out[MESHES] = {false}, in[MESHES] = {false}, also[MESHES] = {false};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++)
        for (int i = 0; muster_doctor_read_proc(doctor, files[f], text) && i < MESHES; i++) {
            out[i] |= muster_proc_listens(text, meshes[i].out);
            in[i] |= muster_proc_listens(text, meshes[i].in);
            also[i] |= meshes[i].also == 0 || muster_proc_listens(text, meshes[i].also);
        }
    for (int i = 0; i < MESHES; i++)
        if ((out[i] && in[i] && also[i]) || find_variable(meshes[i].variable))
            return i;
    return -1;
}

void muster_doctor_mesh(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "net.mesh", "F25");
    char *text = muster_doctor_room(doctor), range[64];
    unsigned low, high;
    muster_check_expected(check, "no proxy between the job's pods");
    int at = text ? find_mesh(doctor, text) : -1;
    if (at < 0) {
        muster_check_found(check, "none seen");
        return;
    }
    muster_check_found(check, "the proxy of %s takes this pod's connections", meshes[at].mesh);
    const char *variable = find_variable(meshes[at].variable), *port = muster_env("MASTER_PORT");
    if (variable)
        muster_check_evidence(check, "this process has its variable %.*s",
                              (int)strcspn(variable, "="), variable);
    else
        muster_check_evidence(check, "it listens on ports %u and %u", meshes[at].out,
                              meshes[at].in);
    if (muster_sysfs_line(doctor->procfs, range, sizeof range,
                          "sys/net/ipv4/ip_local_port_range") &&
        sscanf(range, "%u %u", &low, &high) == 2)
        muster_check_evidence(check, "through it pass MASTER_PORT%s%.8s and NCCL's ports %u to %u",
                              port ? "=" : "", port ? port : "", low, high);
    muster_check_advice(check, "%s; where the job has one host, NCCL_SOCKET_IFNAME=lo",
                        meshes[at].advice);
    if (muster_doctor_several_hosts())
        muster_check_worse(check, MUSTER_CHECK_WARNING);
    else
        muster_check_suspect(check,
                             "the proxy of the service mesh %s takes this pod's connections, "
                             "NCCL's to itself among them",
                             meshes[at].mesh);
}
