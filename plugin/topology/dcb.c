#include "topology/dcb.h"

#include <errno.h>
#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { SECONDS = 2 };

/* As the kernel wants it: a message, its head, one attribute. */
struct request {
    struct nlmsghdr message;
    struct dcbmsg head;
    struct nlattr attribute;
    char name[IFNAMSIZ];
};

static int exchange(int fd, const struct request *request, void *answer, struct muster_err *err)
{
    const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    const struct timeval patience = {.tv_sec = SECONDS};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (sendto(fd, request, request->message.nlmsg_len, 0, (const struct sockaddr *)&kernel,
               sizeof kernel) < 0)
        return muster_fail(err, "cannot ask the kernel: %s", strerror(errno));
    ssize_t n = recv(fd, answer, MUSTER_DCB_ANSWER, 0);
    return n < 0 ? muster_fail(err, "the kernel does not answer: %s", strerror(errno)) : (int)n;
}

int muster_dcb_ask(const char *interface, void *answer, struct muster_err *err)
{
    size_t length = strnlen(interface, IFNAMSIZ - 1) + 1;
    struct request request = {
        .message = {.nlmsg_len = (uint32_t)(offsetof(struct request, name) +
                                            ((length + NLA_ALIGNTO - 1) & ~(NLA_ALIGNTO - 1ul))),
                    .nlmsg_type = RTM_GETDCB,
                    .nlmsg_flags = NLM_F_REQUEST},
        .head = {.dcb_family = AF_UNSPEC, .cmd = DCB_CMD_IEEE_GET},
        .attribute = {.nla_len = (uint16_t)(sizeof(struct nlattr) + length),
                      .nla_type = DCB_ATTR_IFNAME}};
    memcpy(request.name, interface, length - 1);
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return muster_fail(err, "cannot ask the kernel: %s", strerror(errno));
    int n = exchange(fd, &request, answer, err);
    close(fd);
    return n;
}
