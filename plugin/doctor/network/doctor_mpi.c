/* Open MPI's own connections, by which ranks meet before NCCL: it takes all interfaces but lo, and
 * holds those of one subnet for connected. Bridges have the same subnet on each host (horovod#310,
 * horovod#195, horovod#212, Horovod's page on hangs). */
#include <string.h>

#include "base/env.h"
#include "base/text.h"
#include "doctor/doctor.h"

/* docker's and libvirt's, whose subnets are the same wherever nobody chose others. */
static bool is_alike_everywhere(const struct muster_interface *at)
{
    static const char *const names[] = {"docker0", "virbr0", "lxcbr0"};
    if (at->family != AF_INET)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(at->name, names[i]) == 0)
            return true;
    return strncmp(at->name, "br-", 3) == 0 && strlen(at->name) == 15 &&
           strspn(at->name + 3, "0123456789abcdef") == 12;
}

/* By variables, as mpirun sets them for its -mca; not its TCP at all counts, too. */
static bool is_chosen(void)
{
    static const char *const names[] = {"OMPI_MCA_btl_tcp_if_include",
                                        "OMPI_MCA_btl_tcp_if_exclude", "OMPI_MCA_btl"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (muster_env(names[i]))
            return true;
    const char *pml = muster_env("OMPI_MCA_pml");
    return pml && strcmp(pml, "ob1") != 0;
}

static bool spans_hosts(void)
{
    const char *size = muster_env("OMPI_COMM_WORLD_SIZE");
    const char *local = muster_env("OMPI_COMM_WORLD_LOCAL_SIZE");
    uint64_t all, here;
    return size && local && muster_text_u64(size, &all) && muster_text_u64(local, &here) &&
           all > here;
}

void muster_doctor_mpi(struct muster_doctor *doctor, const struct muster_interfaces *interfaces)
{
    const struct muster_interface *alike = NULL;
    if (!spans_hosts())
        return;
    struct muster_check *check = muster_check_begin(doctor->checks, "net.mpi", "F19,F25");
    muster_check_expected(check, "Open MPI takes interfaces that reach the other hosts");
    if (is_chosen()) {
        muster_check_found(check, "chosen by OMPI_MCA variables");
        return;
    }
    for (int i = 0; !alike && i < interfaces->n; i++)
        if (is_alike_everywhere(&interfaces->at[i]))
            alike = &interfaces->at[i];
    if (!alike) {
        muster_check_found(check, "no bridge that each host has alike");
        return;
    }
    muster_check_found(check, "Open MPI's TCP may take %s", alike->name);
    muster_check_suspect(check,
                         "Open MPI's own TCP takes %s, too, which has the same subnet on each host "
                         "and reaches none: MPI_Init or the first messages hang, before NCCL",
                         alike->name);
    muster_check_advice(check,
                        "mpirun -mca btl_tcp_if_exclude lo,%s -mca oob_tcp_if_exclude lo,%s, or "
                        "-mca btl_tcp_if_include with the hosts' subnet",
                        alike->name, alike->name);
    check->suspect_of = "hang_absent";
    check->suspect_weight = 5; /* before bugs of NCCL that few jobs meet */
}
