#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "diagnose/finding.h"
#include "diagnose/transfer/transfer_internal.h"

void muster_transfer_op(const struct muster_view *view, const struct muster_view_comm *comm,
                        const struct muster_view_op *op, const struct muster_view_op *since,
                        struct muster_finding *finding)
{
    const struct muster_view_gpu *gpu = &view->gpu[view->member[since->member].gpu];
    muster_finding_set_op(finding, view, comm, op);
    finding->since_unix_ns = since->enqueue_ns + (uint64_t)gpu->unix_ns;
}

/* The host that all ranks are on; NULL: there are several. */
static const char *common_host(const struct muster_view *view, const struct muster_view_comm *comm)
{
    const char *host = view->gpu[view->member[comm->first_member].gpu].host;
    for (uint32_t m = comm->first_member; m < comm->first_member + comm->members; m++)
        if (strcmp(view->gpu[view->member[m].gpu].host, host) != 0)
            return NULL;
    return host;
}

void muster_transfer_name(const struct muster_view *view, uint32_t c, uint32_t from, uint32_t to,
                          const struct muster_view_op *op, struct muster_finding *finding)
{
    const struct muster_view_comm *comm = &view->comm[c];
    const char *host = common_host(view, comm);
    bool pair = from != MUSTER_VIEW_NONE;
    finding->kind = MUSTER_FINDING_SLOW_TRANSFER;
    finding->comm = comm->id;
    muster_transfer_op(view, comm, op, op, finding);
    muster_text_copy(finding->host, sizeof finding->host, host ? host : "");
    if (pair || comm->members == 2) {
        const struct muster_view_member *one = &view->member[pair ? from : comm->first_member];
        const struct muster_view_member *two = &view->member[pair ? to : comm->first_member + 1];
        muster_finding_set_ends(finding, &view->gpu[one->gpu], &view->gpu[two->gpu]);
    }
    if (!pair && comm->members == 2) {
        muster_finding_line(&finding->not_observable, "in which direction it is slow");
    } else if (!pair) {
        muster_finding_line(&finding->not_observable,
                            "between whom: the transfer of a collective is seen as a whole, and "
                            "nothing inside a host tells its links apart");
    }
    muster_finding_line(&finding->not_observable,
                        "whether a link is slow, or the GPUs, or something else uses them");
}
