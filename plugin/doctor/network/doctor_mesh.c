/* Service meshes: a proxy beside the job takes its connections, and knows nothing of NCCL's. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor/doctor.h"
#include "doctor/rules/proc_text.h"

/* Ports on which the proxies of a pod listen: that for what leaves it and that for what arrives. */
static const struct {
    const char *mesh;
    unsigned out, in;
    const char *advice;
} meshes[] = {
    {"Istio", 15001, 15006, "annotation sidecar.istio.io/inject: \"false\" on the job's pods"},
    {"Linkerd", 4140, 4143, "annotation linkerd.io/inject: disabled on the job's pods"},
};

static int find_mesh(const struct muster_doctor *doctor, char *text)
{
    static const char *const files[] = {"net/tcp", "net/tcp6"};
    const int n = sizeof meshes / sizeof *meshes;
    bool out[sizeof meshes / sizeof *meshes] = {false},
                                    in[sizeof meshes / sizeof *meshes] = {false};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++)
        for (int i = 0; muster_doctor_read_proc(doctor, files[f], text) && i < n; i++) {
            out[i] |= muster_proc_listens(text, meshes[i].out);
            in[i] |= muster_proc_listens(text, meshes[i].in);
        }
    for (int i = 0; i < n; i++)
        if (out[i] && in[i])
            return i;
    return -1;
}

void muster_doctor_mesh(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "net.mesh", "F25");
    char *text = muster_doctor_room(doctor);
    muster_check_expected(check, "no proxy between the job's pods");
    int at = text ? find_mesh(doctor, text) : -1;
    if (at < 0) {
        muster_check_found(check, "none seen");
        return;
    }
    muster_check_found(check, "the proxy of %s takes this pod's connections", meshes[at].mesh);
    muster_check_evidence(check, "it listens on ports %u and %u", meshes[at].out, meshes[at].in);
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
