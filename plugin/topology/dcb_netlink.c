/* Foreign bytes: the kernel's answer, or a recorded one. */
#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "topology/dcb.h"

/* Attributes one after the other. */
struct walk {
    const char *at;
    size_t left;
    unsigned type; /* of the present one */
    const char *bytes;
    size_t n;
};

static bool next(struct walk *walk)
{
    struct nlattr head;
    if (walk->left < sizeof head)
        return false;
    memcpy(&head, walk->at, sizeof head);
    if (head.nla_len < sizeof head || head.nla_len > walk->left)
        return false;
    walk->type = head.nla_type & (unsigned)NLA_TYPE_MASK;
    walk->bytes = walk->at + sizeof head;
    walk->n = head.nla_len - sizeof head;
    size_t step = NLA_ALIGN(head.nla_len);
    step = step < walk->left ? step : walk->left;
    walk->at += step;
    walk->left -= step;
    return true;
}

/* Kernels may add fields behind those that are known here. */
static bool read_pfc(const struct walk *walk, struct muster_dcb *dcb)
{
    struct ieee_pfc pfc = {0};
    if (walk->n < offsetof(struct ieee_pfc, requests))
        return false;
    memcpy(&pfc, walk->bytes, walk->n < sizeof pfc ? walk->n : sizeof pfc);
    dcb->pfc = pfc.pfc_en;
    for (int i = 0; i < MUSTER_DCB_PRIORITIES; i++) {
        dcb->pauses += pfc.requests[i];
        dcb->paused += pfc.indications[i];
    }
    return true;
}

static void read_priorities(const struct walk *table, struct muster_dcb *dcb)
{
    struct walk walk = {.at = table->bytes, .left = table->n};
    while (next(&walk)) {
        struct dcb_app app;
        if (walk.type != DCB_ATTR_IEEE_APP || walk.n < sizeof app)
            continue;
        memcpy(&app, walk.bytes, sizeof app);
        if (app.selector == IEEE_8021QAZ_APP_SEL_DSCP && app.protocol < MUSTER_DCB_DSCPS &&
            app.priority < MUSTER_DCB_PRIORITIES)
            dcb->priority[app.protocol] = (int8_t)app.priority;
    }
}

static int read_ieee(const struct walk *ieee, struct muster_dcb *dcb, struct muster_err *err)
{
    struct walk walk = {.at = ieee->bytes, .left = ieee->n};
    bool found = false;
    while (next(&walk))
        if (walk.type == DCB_ATTR_IEEE_PFC)
            found |= read_pfc(&walk, dcb);
        else if (walk.type == DCB_ATTR_IEEE_APP_TABLE)
            read_priorities(&walk, dcb);
    return found ? 0 : muster_fail(err, "its driver does not tell of PFC");
}

static int read_error(const char *bytes, size_t n, struct muster_err *err)
{
    int code = 0;
    if (n >= sizeof code)
        memcpy(&code, bytes, sizeof code);
    return muster_fail(err, "%s",
                       code < 0 && code > -4096 ? strerror(-code) : "the kernel refuses");
}

int muster_dcb_parse(const void *answer, size_t n, struct muster_dcb *dcb, struct muster_err *err)
{
    struct nlmsghdr head;
    *dcb = (struct muster_dcb){.pfc = 0};
    memset(dcb->priority, -1, sizeof dcb->priority);
    if (n < sizeof head)
        return muster_fail(err, "the kernel's answer is too short");
    memcpy(&head, answer, sizeof head);
    if (head.nlmsg_len < sizeof head || head.nlmsg_len > n)
        return muster_fail(err, "the kernel's answer is cut");
    const char *bytes = (const char *)answer + sizeof head;
    size_t left = head.nlmsg_len - sizeof head;
    if (head.nlmsg_type == NLMSG_ERROR)
        return read_error(bytes, left, err);
    if (left < sizeof(struct dcbmsg))
        return muster_fail(err, "the kernel's answer is too short");
    struct walk walk = {.at = bytes + sizeof(struct dcbmsg), .left = left - sizeof(struct dcbmsg)};
    while (next(&walk))
        if (walk.type == DCB_ATTR_IEEE)
            return read_ieee(&walk, dcb, err);
    return muster_fail(err, "its driver does not tell of data centre bridging");
}
