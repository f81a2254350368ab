#include "doctor/verbs/verbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/text.h"
#include "doctor/verbs/verbs_abi.h"
#include "topology/interfaces.h"
#include "topology/sysfs.h"

enum {
    RECEIVES = 128, /* 8 ports lock 5.2 MiB: below the 8 MiB that a plain login may */
    SENDS = 32,
    PLACE = MUSTER_VERBS_BYTES + MUSTER_IBV_HEAD,
    GIDS = 256,
    HOPS = 255,
    QKEY = 0x4d757374, /* any whose highest bit is not set needs no rights */
    SENT = 1 << 16,    /* in an id: of a send, not a receive */
};

/* What is called of the library. */
struct library {
    struct muster_ibv_device **(*get_device_list)(int *);
    const char *(*get_device_name)(struct muster_ibv_device *);
    struct muster_ibv_context *(*open_device)(struct muster_ibv_device *);
    int (*query_port)(struct muster_ibv_context *, uint8_t, struct muster_ibv_port *);
    int (*query_gid)(struct muster_ibv_context *, uint8_t, int, union muster_ibv_gid *);
    struct muster_ibv_pd *(*alloc_pd)(struct muster_ibv_context *);
    struct muster_ibv_memory *(*reg_mr)(struct muster_ibv_pd *, void *, size_t, int);
    struct muster_ibv_cq *(*create_cq)(struct muster_ibv_context *, int, void *, void *, int);
    struct muster_ibv_qp *(*create_qp)(struct muster_ibv_pd *, struct muster_ibv_qp_plan *);
    int (*modify_qp)(struct muster_ibv_qp *, struct muster_ibv_qp_change *, int);
    struct muster_ibv_ah *(*create_ah)(struct muster_ibv_pd *, struct muster_ibv_way *);
};

struct port {
    struct muster_verbs_address address;
    struct muster_ibv_context *context;
    struct muster_ibv_pd *pd;
    struct muster_ibv_cq *cq;
    struct muster_ibv_qp *qp;
    struct muster_ibv_memory *memory;
    unsigned char *place; /* RECEIVES, then SENDS, of PLACE bytes each */
    int gid_index;
    uint32_t busy; /* bit i: send place i is under way */
};

struct muster_verbs {
    struct library call;
    const char *sysfs;
    struct port port[MUSTER_VERBS_PORTS];
    unsigned ports;
};

/* ---- the library ---- */

static int load(struct library *call, struct muster_err *err)
{
    const struct {
        const char *name;
        void *at;
    } symbol[] = {
        {"ibv_get_device_list", &call->get_device_list},
        {"ibv_get_device_name", &call->get_device_name},
        {"ibv_open_device", &call->open_device},
        {"ibv_query_port", &call->query_port},
        {"ibv_query_gid", &call->query_gid},
        {"ibv_alloc_pd", &call->alloc_pd},
        {"ibv_reg_mr", &call->reg_mr},
        {"ibv_create_cq", &call->create_cq},
        {"ibv_create_qp", &call->create_qp},
        {"ibv_modify_qp", &call->modify_qp},
        {"ibv_create_ah", &call->create_ah},
    };
    void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return muster_fail(err, "%s", dlerror());
    for (size_t i = 0; i < sizeof symbol / sizeof *symbol; i++) {
        void *found = dlsym(library, symbol[i].name);
        if (!found)
            return muster_fail(err, "libibverbs.so.1 has no %s", symbol[i].name);
        memcpy(symbol[i].at, &found, sizeof found);
    }
    return 0;
}

/* As NCCL reads it; `otherwise` where it is not set. */
static long variable(const char *name, long otherwise)
{
    const char *text = muster_env(name);
    return text ? strtol(text, NULL, 0) : otherwise;
}

/* ---- a port ---- */

/* The GID that NCCL takes by itself: a routable one of RoCE v2, of IPv4 where there is one. */
static int choose_gid(const struct muster_verbs *verbs, const struct muster_verbs_address *address)
{
    long given = variable("NCCL_IB_GID_INDEX", -1);
    int six = -1;
    char gid[64], type[32];
    if (given >= 0 && given < GIDS)
        return (int)given;
    for (int i = 0; address->ethernet && i < GIDS; i++) {
        if (!muster_sysfs_line(verbs->sysfs, gid, sizeof gid,
                               "class/infiniband/%s/ports/%u/gids/%d", address->device,
                               address->port, i))
            break;
        muster_sysfs_line(verbs->sysfs, type, sizeof type,
                          "class/infiniband/%s/ports/%u/gid_attrs/types/%d", address->device,
                          address->port, i);
        if (strspn(gid, "0:") == strlen(gid) || strncmp(gid, "fe80", 4) == 0 ||
            strncmp(type, "RoCE v2", 7) != 0)
            continue;
        if (strncmp(gid, "0000:0000:0000:0000:0000:ffff", 29) == 0)
            return i;
        six = six < 0 ? i : six;
    }
    return six < 0 ? 0 : six;
}

static bool begin_receive(struct port *port, unsigned at)
{
    struct muster_ibv_part part = {.address = (uintptr_t)(port->place + (size_t)at * PLACE),
                                   .length = PLACE,
                                   .lkey = port->memory->lkey};
    struct muster_ibv_recv recv = {.id = at, .part = &part, .parts = 1}, *bad;
    return port->context->ops.post_recv(port->qp, &recv, &bad) == 0;
}

/* Through the states of a queue pair, to where it sends and receives. */
static bool start_queue(const struct library *call, struct port *port)
{
    struct muster_ibv_qp_change change = {.state = MUSTER_IBV_INIT,
                                          .qkey = QKEY,
                                          .port = port->address.port,
                                          .pkey_index = (uint16_t)variable("NCCL_IB_PKEY", 0)};
    bool ok = call->modify_qp(port->qp, &change,
                              MUSTER_IBV_QP_STATE | MUSTER_IBV_QP_PKEY_INDEX | MUSTER_IBV_QP_PORT |
                                  MUSTER_IBV_QP_QKEY) == 0;
    for (unsigned i = 0; ok && i < RECEIVES; i++)
        ok = begin_receive(port, i);
    change.state = MUSTER_IBV_RTR;
    ok = ok && call->modify_qp(port->qp, &change, MUSTER_IBV_QP_STATE) == 0;
    change.state = MUSTER_IBV_RTS;
    return ok &&
           call->modify_qp(port->qp, &change, MUSTER_IBV_QP_STATE | MUSTER_IBV_QP_SQ_PSN) == 0;
}

static int fail_port(const struct port *port, const char *what, struct muster_err *err)
{
    int why = errno;
    return muster_fail(err, "%s port %u: %s: %s", port->address.device, port->address.port, what,
                       strerror(why));
}

static int open_queue(const struct library *call, struct port *port, struct muster_err *err)
{
    size_t bytes = (size_t)(RECEIVES + SENDS) * PLACE;
    port->pd = call->alloc_pd(port->context);
    port->place = calloc(RECEIVES + SENDS, PLACE);
    if (!port->pd || !port->place)
        return fail_port(port, "no protection domain", err);
    port->memory = call->reg_mr(port->pd, port->place, bytes, MUSTER_IBV_LOCAL_WRITE);
    if (!port->memory)
        return fail_port(port, "cannot lock 640 KiB of memory (see limit.memlock)", err);
    port->cq = call->create_cq(port->context, RECEIVES + SENDS, NULL, NULL, 0);
    if (!port->cq)
        return fail_port(port, "no completion queue", err);
    struct muster_ibv_qp_plan plan = {
        .send_cq = port->cq,
        .recv_cq = port->cq,
        .capacity = {.sends = SENDS, .receives = RECEIVES, .send_parts = 1, .receive_parts = 1},
        .type = MUSTER_IBV_UD};
    port->qp = call->create_qp(port->pd, &plan);
    if (!port->qp)
        return fail_port(port, "no queue pair", err);
    port->address.queue = port->qp->number;
    return start_queue(call, port) ? 0 : fail_port(port, "the queue pair does not start", err);
}

/* 0 also for a port that is down: it is left out. */
static int open_port(struct muster_verbs *verbs, struct muster_ibv_context *context,
                     const char *device, unsigned number, struct muster_err *err)
{
    struct port *port = &verbs->port[verbs->ports];
    struct muster_ibv_port now = {0};
    union muster_ibv_gid gid = {{0}};
    char layer[32] = "";
    *port = (struct port){.context = context, .address.port = (uint8_t)number};
    snprintf(port->address.device, sizeof port->address.device, "%.23s", device);
    if (verbs->call.query_port(context, (uint8_t)number, &now))
        return fail_port(port, "cannot be asked", err);
    if (now.state != MUSTER_IBV_PORT_ACTIVE)
        return 0;
    muster_sysfs_line(verbs->sysfs, layer, sizeof layer, "class/infiniband/%s/ports/%u/link_layer",
                      device, number);
    port->address.ethernet = strcmp(layer, "Ethernet") == 0;
    port->address.lid = port->address.ethernet ? 0 : now.lid;
    int doublings = now.active_mtu - MUSTER_IBV_MTU_256;
    port->address.mtu = (uint16_t)(256 << (doublings < 0 || doublings > 4 ? 0 : doublings));
    port->gid_index = choose_gid(verbs, &port->address);
    if (verbs->call.query_gid(context, (uint8_t)number, port->gid_index, &gid))
        return fail_port(port, "no GID", err);
    memcpy(port->address.gid, gid.raw, sizeof gid.raw);
    if (open_queue(&verbs->call, port, err))
        return -1;
    verbs->ports++;
    return 0;
}

/* Whether NCCL_IB_HCA takes it: names or their beginnings, with ":PORT" or without. */
static bool takes(const char *device, unsigned number)
{
    const char *list = muster_env("NCCL_IB_HCA");
    char with_port[48];
    snprintf(with_port, sizeof with_port, "%.31s:%u", device, number);
    bool exclude = list && list[0] == '^';
    bool either =
        list && exclude
            ? muster_interfaces_match(list, device) && muster_interfaces_match(list, with_port)
        : list ? muster_interfaces_match(list, device) || muster_interfaces_match(list, with_port)
               : true;
    return either;
}

static int open_device(struct muster_verbs *verbs, struct muster_ibv_device *device,
                       struct muster_err *err)
{
    const char *name = verbs->call.get_device_name(device);
    struct muster_ibv_context *context = NULL;
    char pattern[PATH_MAX];
    glob_t found;
    int rc = 0;
    snprintf(pattern, sizeof pattern, "%s/class/infiniband/%.31s/ports/*", verbs->sysfs, name);
    if (glob(pattern, 0, NULL, &found))
        return 0;
    for (size_t i = 0; rc == 0 && i < found.gl_pathc && verbs->ports < MUSTER_VERBS_PORTS; i++) {
        uint64_t number;
        if (!muster_text_u64(strrchr(found.gl_pathv[i], '/') + 1, &number) || number > 255 ||
            !takes(name, (unsigned)number))
            continue;
        if (!context && !(context = verbs->call.open_device(device)))
            rc = muster_fail(err, "%.31s cannot be opened: %s (see ib.devices)", name,
                             strerror(errno));
        else
            rc = open_port(verbs, context, name, (unsigned)number, err);
    }
    globfree(&found);
    return rc;
}

struct muster_verbs *muster_verbs_open(const char *sysfs, struct muster_err *err)
{
    struct muster_verbs *verbs = calloc(1, sizeof *verbs);
    int n = 0, rc = verbs ? load(&verbs->call, err) : muster_fail_memory(err, "RDMA ports");
    if (rc == 0) {
        verbs->sysfs = sysfs;
        struct muster_ibv_device **device = verbs->call.get_device_list(&n);
        for (int i = 0; rc == 0 && device && i < n; i++)
            rc = open_device(verbs, device[i], err);
    }
    if (rc == 0)
        return verbs;
    free(verbs);
    return NULL;
}

unsigned muster_verbs_ports(const struct muster_verbs *verbs)
{
    return verbs->ports;
}

const struct muster_verbs_address *muster_verbs_address(const struct muster_verbs *verbs,
                                                        unsigned port)
{
    return &verbs->port[port].address;
}

/* ---- datagrams ---- */

struct muster_ibv_ah *muster_verbs_way(struct muster_verbs *verbs, unsigned port,
                                       const struct muster_verbs_address *to)
{
    const struct port *from = &verbs->port[port];
    bool same_subnet = memcmp(from->address.gid, to->gid, 8) == 0;
    struct muster_ibv_way way = {.lid = to->lid,
                                 .sl = (uint8_t)variable("NCCL_IB_SL", 0),
                                 .is_global = to->ethernet || !to->lid || !same_subnet,
                                 .port = from->address.port,
                                 .gid_index = (uint8_t)from->gid_index,
                                 .hop_limit = HOPS,
                                 .traffic_class = (uint8_t)variable("NCCL_IB_TC", 0)};
    memcpy(way.gid.raw, to->gid, sizeof to->gid);
    errno = 0;
    return verbs->call.create_ah(from->pd, &way);
}

bool muster_verbs_send(struct muster_verbs *verbs, unsigned port, struct muster_ibv_ah *way,
                       uint32_t queue, const void *bytes, size_t n)
{
    struct port *from = &verbs->port[port];
    if (from->busy == UINT32_MAX || n > MUSTER_VERBS_BYTES) {
        errno = n > MUSTER_VERBS_BYTES ? EMSGSIZE : EAGAIN;
        return false;
    }
    unsigned at = (unsigned)__builtin_ctz(~from->busy);
    unsigned char *place = from->place + (size_t)(RECEIVES + at) * PLACE;
    struct muster_ibv_part part = {
        .address = (uintptr_t)place, .length = (uint32_t)n, .lkey = from->memory->lkey};
    struct muster_ibv_send send = {.id = SENT | at,
                                   .part = &part,
                                   .parts = 1,
                                   .opcode = MUSTER_IBV_SEND,
                                   .flags = MUSTER_IBV_SIGNALED,
                                   .ud = {way, queue, QKEY}},
                           *bad;
    memcpy(place, bytes, n);
    int why = from->context->ops.post_send(from->qp, &send, &bad);
    if (why == 0)
        from->busy |= 1u << at;
    errno = why < 0 ? -why : why;
    return why == 0;
}

int muster_verbs_take(struct muster_verbs *verbs, unsigned port, void *bytes)
{
    struct port *at = &verbs->port[port];
    struct muster_ibv_completion done;
    int n;
    while ((n = at->context->ops.poll_cq(at->cq, 1, &done)) > 0) {
        uint64_t place = done.id & (SENT - 1);
        if (done.id & SENT) {
            at->busy &= ~(1u << (place % SENDS)); /* a send that failed is as one that was lost */
            continue;
        }
        if (place >= RECEIVES)
            return -1;
        int size = 0;
        if (done.status == 0 && done.bytes > MUSTER_IBV_HEAD && done.bytes <= PLACE) {
            size = (int)done.bytes - MUSTER_IBV_HEAD;
            memcpy(bytes, at->place + place * PLACE + MUSTER_IBV_HEAD, (size_t)size);
        }
        if (done.status || !begin_receive(at, (unsigned)place))
            return -1;
        if (size)
            return size;
    }
    return n < 0 ? -1 : 0;
}
