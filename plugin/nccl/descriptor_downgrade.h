/*
 * A descriptor of one interface version as an older one would have had it, for a profiler that has
 * only the older. What the older version has no field for is left out; what only it has and the
 * newer lacks is taken from `who`, or 0.
 */
#ifndef MUSTER_NCCL_DESCRIPTOR_DOWNGRADE_H
#define MUSTER_NCCL_DESCRIPTOR_DOWNGRADE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/event.h"
#include "nccl/profiler_abi.h"

/* Bytes of a version's descriptor. */
static inline size_t nccl_descr_size(unsigned api)
{
    static const uint8_t sizes[] = {
        0,
        sizeof(struct nccl_descr_v1),
        sizeof(struct nccl_descr_v2),
        sizeof(struct nccl_descr_v3),
        sizeof(struct nccl_descr_v4),
        sizeof(struct nccl_descr_v5),
        sizeof(struct nccl_descr_v6),
        sizeof(struct nccl_descr_v7),
    };
    return sizes[api];
}

/* The communicator as v1 to v3 name it in each operation; v4 on has it in init. */
struct nccl_lower_who {
    const char *name; /* may be NULL */
    uint64_t comm_hash;
};

/* Bit number of the event's type (enum muster_event_kind); -1: none of this version's. `d` may be
 * NULL. */
static inline int nccl_descr_kind(unsigned api, const void *d)
{
    if (!d)
        return -1;
    uint64_t type = api < 5 ? *(const uint8_t *)d : *(const uint64_t *)d;
    if (type == 0 || (type & (type - 1)) != 0 || type >> muster_event_kinds(api) != 0)
        return -1;
    return __builtin_ctzll(type);
}

/* The event above; for the operations of v5 on that is the application's call. */
static inline void *nccl_descr_parent(const void *d)
{
    return ((const struct nccl_descr_v1 *)d)->parent;
}
/* v5 on, of Coll and P2p: the place of the Group's handle; NULL elsewhere. The second is for
 * writing. */
static inline void *const *nccl_descr_group(unsigned api, int kind, const void *d)
{
    const struct nccl_descr_v5 *v5 = d;
    if (api >= 5 && kind == MUSTER_EVENT_COLL)
        return &v5->coll.parent_group;
    return api >= 5 && kind == MUSTER_EVENT_P2P ? &v5->p2p.parent_group : NULL;
}
static inline void **nccl_descr_group_in(unsigned api, int kind, union nccl_descr *d)
{
    if (api >= 5 && kind == MUSTER_EVENT_COLL)
        return &d->v5.coll.parent_group;
    return api >= 5 && kind == MUSTER_EVENT_P2P ? &d->v5.p2p.parent_group : NULL;
}
/* Copies as much of a whole, valid descriptor as its kind has; what is behind it in `copy` stays.
 */
static inline void nccl_descr_copy(unsigned api, int kind, const void *d, union nccl_descr *copy)
{
    enum { SHORT = offsetof(struct nccl_descr_v5, group_api) + sizeof(struct nccl_group_api) };
    const unsigned are_short =
        1u << MUSTER_EVENT_GROUP | 1u << MUSTER_EVENT_GROUP_API | 1u << MUSTER_EVENT_KERNEL_LAUNCH;
    if (are_short >> kind & 1)
        memcpy(copy, d, SHORT);
    else if (api == 7) /* known to the compiler: a few moves */
        memcpy(copy, d, sizeof copy->v7);
    else
        memcpy(copy, d, nccl_descr_size(api));
}
/* The process that a ProxyOp works for. */
static inline int32_t nccl_descr_pid(const void *d)
{
    return ((const struct nccl_descr_v3 *)d)->proxy_op.pid;
}

/* Writes version `to`'s descriptor; `to` is at most `from`. False: `to` has no such event. `d` is a
 * whole, valid descriptor of version `from`. */
bool nccl_lower(unsigned from, unsigned to, const void *d, const struct nccl_lower_who *who,
                union nccl_descr *out);

/* Whether version `to` knows the state, and whether its arguments mean there what they do in
 * `from`; if not, none go with it. */
bool nccl_lower_state(unsigned from, unsigned to, unsigned state, bool *args);

#endif
