#include "nccl/descriptor_downgrade.h"

#include <string.h>

#include "nccl/nccl_names.h"

/* All that any version up to v4 has of a collective. */
struct coll {
    const char *name;
    uint64_t comm_hash;
    size_t traffic_bytes;
    struct nccl_coll_what what;
    struct nccl_coll_how how;
};

static struct coll read_coll(unsigned from, const void *d, const struct nccl_lower_who *who)
{
    struct coll coll = {.name = who->name, .comm_hash = who->comm_hash};
    if (from == 2) {
        const struct nccl_coll_v2 *v2 = &((const struct nccl_descr_v2 *)d)->coll;
        coll.name = v2->name;
        coll.comm_hash = v2->comm_hash;
        coll.traffic_bytes = v2->traffic_bytes;
        coll.what = v2->what;
        coll.how = v2->how;
    } else if (from == 3) {
        const struct nccl_coll_v3 *v3 = &((const struct nccl_descr_v3 *)d)->coll;
        coll.name = v3->name;
        coll.comm_hash = v3->comm_hash;
        coll.what = v3->what;
        coll.how = v3->how;
    } else {
        const struct nccl_coll_v4 *v4 = from == 4 ? &((const struct nccl_descr_v4 *)d)->coll
                                                  : &((const struct nccl_descr_v5 *)d)->coll.v4;
        coll.what = v4->what;
        coll.how = v4->how;
    }
    return coll;
}

static uint8_t number(enum muster_names kind, const char *text)
{
    return muster_names_number(kind, muster_names_match(kind, text));
}

static bool begins(const char *text, const char *with)
{
    return text && strncmp(text, with, strlen(with)) == 0;
}

static void write_coll_v1(struct nccl_coll_v1 *to, const struct coll *coll)
{
    *to = (struct nccl_coll_v1){
        .name = coll->name,
        .comm_hash = coll->comm_hash,
        .seq = coll->what.seq,
        .func = number(MUSTER_NAMES_FUNC, coll->what.func),
        .send = coll->what.send,
        .recv = coll->what.recv,
        .count = coll->what.count,
        .root = coll->what.root,
        .datatype = number(MUSTER_NAMES_DTYPE, coll->what.datatype),
        .traffic_bytes = coll->traffic_bytes,
        .max_channels = coll->how.channels,
        .warps = coll->how.warps,
        .algo = number(MUSTER_NAMES_ALGO, coll->how.algo),
        .proto = number(MUSTER_NAMES_PROTO, coll->how.proto),
        .collnet = begins(coll->how.algo, "COLLNET"),
        .nvls = begins(coll->how.algo, "NVLS"),
    };
}

static void write_coll(unsigned to, union nccl_descr *out, const struct coll *coll)
{
    if (to == 4)
        out->v4.coll = (struct nccl_coll_v4){coll->what, coll->how};
    else if (to == 3)
        out->v3.coll = (struct nccl_coll_v3){coll->name, coll->comm_hash, coll->what, coll->how};
    else if (to == 2)
        out->v2.coll = (struct nccl_coll_v2){coll->name, coll->comm_hash, coll->what,
                                             coll->traffic_bytes, coll->how};
    else
        write_coll_v1(&out->v1.coll, coll);
}

static struct nccl_p2p_v4 read_p2p(unsigned from, const void *d)
{
    if (from >= 5)
        return ((const struct nccl_descr_v5 *)d)->p2p.v4;
    if (from == 4)
        return ((const struct nccl_descr_v4 *)d)->p2p;
    const struct nccl_p2p_v2 *v2 = &((const struct nccl_descr_v2 *)d)->p2p;
    return (struct nccl_p2p_v4){v2->func, v2->buff, v2->datatype, v2->count, v2->peer, 0};
}

static void write_p2p(unsigned to, union nccl_descr *out, const struct nccl_p2p_v4 *p2p,
                      const struct nccl_lower_who *who)
{
    if (to == 4)
        out->v4.p2p = *p2p;
    else if (to >= 2)
        out->v2.p2p = (struct nccl_p2p_v2){who->name,     who->comm_hash, p2p->func, p2p->buff,
                                           p2p->datatype, p2p->count,     p2p->peer};
    else
        out->v1.p2p = (struct nccl_p2p_v1){.name = who->name,
                                           .comm_hash = who->comm_hash,
                                           .func = number(MUSTER_NAMES_FUNC, p2p->func),
                                           .buff = p2p->buff,
                                           .datatype = number(MUSTER_NAMES_DTYPE, p2p->datatype),
                                           .count = p2p->count,
                                           .peer = p2p->peer};
}

/* What has no other shape than the one it came with. */
static void copy_part(int kind, unsigned to, union nccl_descr *out, const void *d)
{
    const struct nccl_descr_v4 *v4 = d;
    if (kind == MUSTER_EVENT_PROXY_OP)
        out->v3.proxy_op = v4->proxy_op;
    else if (kind == MUSTER_EVENT_PROXY_STEP)
        out->v3.proxy_step = v4->proxy_step;
    else if (kind == MUSTER_EVENT_NET_PLUGIN)
        out->v3.net_plugin = v4->net_plugin;
    else if (kind == MUSTER_EVENT_KERNEL_CH && to == 4)
        out->v4.kernel_ch = v4->kernel_ch;
    else if (kind == MUSTER_EVENT_KERNEL_CH)
        out->v3.kernel_ch.channel = v4->kernel_ch.channel;
}

/* v1 to v3 name the communicator in the event itself. */
static struct nccl_lower_who who_of(unsigned from, int kind, const void *d,
                                    const struct nccl_lower_who *who)
{
    const struct nccl_descr_v2 *v2 = d;
    if ((from == 2 || from == 3) && kind == MUSTER_EVENT_P2P)
        return (struct nccl_lower_who){v2->p2p.name, v2->p2p.comm_hash};
    return *who;
}

/* From v5 on a version's descriptor begins with that of the one before. */
static void copy_whole(unsigned to, const void *d, union nccl_descr *out)
{
    if (to == 5 || to == 6) /* known to the compiler: a few moves */
        out->v6 = *(const struct nccl_descr_v6 *)d;
    else if (to == 7)
        out->v7 = *(const struct nccl_descr_v7 *)d;
    else
        memcpy(out, d, nccl_descr_size(to));
}
_Static_assert(sizeof(struct nccl_descr_v5) == sizeof(struct nccl_descr_v6), "copied as one");

bool nccl_lower(unsigned from, unsigned to, const void *d, const struct nccl_lower_who *who,
                union nccl_descr *out)
{
    int kind = nccl_descr_kind(from, d);
    if (kind < 0 || (unsigned)kind >= muster_event_kinds(to))
        return false;
    if (to == from || to >= 5) {
        copy_whole(to, d, out);
        return true;
    }
    memset(out, 0, sizeof *out);
    void *const *group = nccl_descr_group(from, kind, d);
    out->v1.type = (uint8_t)(1u << kind);
    out->v1.parent = group ? *group : nccl_descr_parent(d);
    out->v1.rank = ((const struct nccl_descr_v1 *)d)->rank;
    if (kind == MUSTER_EVENT_COLL) {
        struct coll coll = read_coll(from, d, who);
        write_coll(to, out, &coll);
    } else if (kind == MUSTER_EVENT_P2P) {
        struct nccl_p2p_v4 p2p = read_p2p(from, d);
        struct nccl_lower_who named = who_of(from, kind, d, who);
        write_p2p(to, out, &p2p, &named);
    } else {
        copy_part(kind, to, out, d);
    }
    return true;
}

bool nccl_lower_state(unsigned from, unsigned to, unsigned state, bool *args)
{
    static const unsigned newest[NCCL_NEWEST_API + 1] = {0, 18, 18, 18, 22, 24, 30, 31};
    *args = nccl_args_of_state(from, state) == nccl_args_of_state(to, state);
    return state <= newest[to];
}
