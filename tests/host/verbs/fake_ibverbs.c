/* libibverbs for tests, of the few functions that muster calls: FORMAT.md. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fake_ibverbs.h"

enum { DEVICES = 8, QUEUED = 512, BYTES = 8192 };

struct muster_ibv_device {
    int number;
};
struct muster_ibv_pd {
    struct muster_ibv_context *context;
};
struct muster_ibv_cq {
    struct queue *queue;
};
struct muster_ibv_ah {
    union muster_ibv_gid to;
};

/* A queue pair. */
struct queue {
    struct muster_ibv_qp qp;
    int fd;
    struct muster_ibv_recv room[QUEUED];
    struct muster_ibv_part part[QUEUED];
    unsigned rooms;
    uint64_t sent[QUEUED];
    unsigned sends;
};

/* Whether the network has a line of these words; *n gets the number behind them. */
__attribute__((format(printf, 2, 3))) static int has_line(int *n, const char *fmt, ...)
{
    char path[512], line[128], wanted[128];
    va_list args;
    va_start(args, fmt);
    vsnprintf(wanted, sizeof wanted, fmt, args);
    va_end(args);
    snprintf(path, sizeof path, "%s/network", getenv("FAKE_IB"));
    FILE *file = fopen(path, "re");
    size_t length = strlen(wanted);
    int found = 0;
    while (file && !found && fgets(line, sizeof line, file)) {
        found = strncmp(line, wanted, length) == 0 && (line[length] == ' ' || line[length] == '\n');
        if (found && n)
            *n = atoi(line + length);
    }
    if (file)
        fclose(file);
    return found;
}

static char own(void)
{
    const char *name = getenv("FAKE_IB_HOST");
    return name ? name[0] : 'x';
}

/* ::ffff:10.0.HOST.DEVICE */
static union muster_ibv_gid gid_of(int device)
{
    return (union muster_ibv_gid){
        .raw = {
            [10] = 0xff, [11] = 0xff, [12] = 10, [14] = (uint8_t)own(), [15] = (uint8_t)device}};
}

static void path_of(struct sockaddr_un *at, const union muster_ibv_gid *gid, uint32_t queue)
{
    at->sun_family = AF_UNIX;
    snprintf(at->sun_path, sizeof at->sun_path, "%s/%c.%d.%u", getenv("FAKE_IB"), gid->raw[14],
             gid->raw[15], queue);
}

/* ---- the queue pair's functions ---- */

static int is_lost(char to, int device, size_t bytes)
{
    int most;
    char words[16];
    snprintf(words, sizeof words, "%c", to);
    return has_line(NULL, "drop %c %c", own(), to) || has_line(NULL, "drop-to %c %d", to, device) ||
           (has_line(&most, "narrow %c %c", own(), to) && bytes > (size_t)most);
}

static int post_send(struct muster_ibv_qp *qp, struct muster_ibv_send *send,
                     struct muster_ibv_send **bad)
{
    struct queue *queue = (struct queue *)qp;
    struct sockaddr_un to = {0};
    const union muster_ibv_gid *gid = &send->ud.ah->to;
    path_of(&to, gid, send->ud.qp);
    if (!is_lost((char)gid->raw[14], gid->raw[15], send->part->length))
        sendto(queue->fd, (void *)(uintptr_t)send->part->address, send->part->length, MSG_DONTWAIT,
               (struct sockaddr *)&to, sizeof to); /* a full queue loses packets, too */
    *bad = NULL;
    queue->sent[queue->sends++ % QUEUED] = send->id;
    return 0;
}

static int post_recv(struct muster_ibv_qp *qp, struct muster_ibv_recv *recv,
                     struct muster_ibv_recv **bad)
{
    struct queue *queue = (struct queue *)qp;
    *bad = recv;
    if (queue->rooms == QUEUED)
        return ENOMEM;
    queue->room[queue->rooms] = *recv;
    queue->part[queue->rooms++] = *recv->part;
    return 0;
}

static int poll_cq(struct muster_ibv_cq *cq, int n, struct muster_ibv_completion *done)
{
    struct queue *queue = cq->queue;
    static unsigned char bytes[BYTES];
    (void)n;
    *done = (struct muster_ibv_completion){0};
    if (queue->sends) {
        done->id = queue->sent[--queue->sends];
        return 1;
    }
    if (!queue->rooms)
        return 0;
    ssize_t got = recv(queue->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0)
        return 0;
    const struct muster_ibv_part *part = &queue->part[--queue->rooms];
    if ((size_t)got + MUSTER_IBV_HEAD > part->length)
        return 0;
    memcpy((char *)(uintptr_t)part->address + MUSTER_IBV_HEAD, bytes, (size_t)got);
    done->id = queue->room[queue->rooms].id;
    done->opcode = MUSTER_IBV_RECEIVED;
    done->bytes = (uint32_t)got + MUSTER_IBV_HEAD;
    return 1;
}

/* ---- the library's ---- */

struct muster_ibv_device **ibv_get_device_list(int *n)
{
    static struct muster_ibv_device device[DEVICES];
    static struct muster_ibv_device *list[DEVICES + 1];
    *n = 0;
    has_line(n, "host %c", own());
    for (int i = 0; i < *n; i++) {
        device[i].number = i;
        list[i] = &device[i];
    }
    if (has_line(NULL, "crash %c", own()))
        raise(SIGSEGV);
    if (has_line(NULL, "hang %c", own()))
        for (;;)
            pause();
    return list;
}

const char *ibv_get_device_name(struct muster_ibv_device *device)
{
    static char name[DEVICES][16];
    snprintf(name[device->number], sizeof name[0], "fake_%d", device->number);
    return name[device->number];
}

struct muster_ibv_context *ibv_open_device(struct muster_ibv_device *device)
{
    struct muster_ibv_context *context = calloc(1, sizeof *context);
    context->device = device;
    context->ops.poll_cq = poll_cq;
    context->ops.post_send = post_send;
    context->ops.post_recv = post_recv;
    return context;
}

int ibv_query_port(struct muster_ibv_context *context, uint8_t port, struct muster_ibv_port *found)
{
    char path[512], word[16];
    int devices = 0, mtu = 4096;
    (void)context;
    (void)port;
    snprintf(path, sizeof path, "%s/network", getenv("FAKE_IB"));
    FILE *file = fopen(path, "re");
    char line[128], name;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%15s %c %d %d", word, &name, &devices, &mtu) == 4 && name == own() &&
            strcmp(word, "host") == 0)
            break;
    if (file)
        fclose(file);
    found->state = MUSTER_IBV_PORT_ACTIVE;
    for (found->active_mtu = MUSTER_IBV_MTU_256; mtu > 256; mtu /= 2)
        found->active_mtu++;
    return 0;
}

int ibv_query_gid(struct muster_ibv_context *context, uint8_t port, int index,
                  union muster_ibv_gid *gid)
{
    (void)port;
    (void)index;
    *gid = gid_of(context->device->number);
    return 0;
}

struct muster_ibv_pd *ibv_alloc_pd(struct muster_ibv_context *context)
{
    struct muster_ibv_pd *pd = calloc(1, sizeof *pd);
    pd->context = context;
    return pd;
}

struct muster_ibv_memory *ibv_reg_mr(struct muster_ibv_pd *pd, void *address, size_t length,
                                     int access)
{
    struct muster_ibv_memory *memory = calloc(1, sizeof *memory);
    (void)access;
    *memory = (struct muster_ibv_memory){pd->context, pd, address, length, 0, 1, 1};
    if (!has_line(NULL, "memlock %c", own()))
        return memory;
    free(memory);
    errno = ENOMEM;
    return NULL;
}

struct muster_ibv_cq *ibv_create_cq(struct muster_ibv_context *context, int n, void *arg,
                                    void *channel, int vector)
{
    (void)context;
    (void)n;
    (void)arg;
    (void)channel;
    (void)vector;
    return calloc(1, sizeof(struct muster_ibv_cq));
}

struct muster_ibv_qp *ibv_create_qp(struct muster_ibv_pd *pd, struct muster_ibv_qp_plan *plan)
{
    struct queue *queue = calloc(1, sizeof *queue);
    struct sockaddr_un at = {0};
    union muster_ibv_gid gid = gid_of(pd->context->device->number);
    if (plan->type != MUSTER_IBV_UD || !plan->send_cq) {
        errno = EINVAL;
        free(queue);
        return NULL;
    }
    queue->qp.context = pd->context;
    queue->qp.number = (uint32_t)getpid() & 0xffffff;
    queue->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    path_of(&at, &gid, queue->qp.number);
    if (bind(queue->fd, (struct sockaddr *)&at, sizeof at))
        abort();
    plan->recv_cq->queue = queue;
    return &queue->qp;
}

int ibv_modify_qp(struct muster_ibv_qp *qp, struct muster_ibv_qp_change *change, int mask)
{
    (void)qp;
    return mask & MUSTER_IBV_QP_STATE && change->state <= MUSTER_IBV_RTS ? 0 : EINVAL;
}

struct muster_ibv_ah *ibv_create_ah(struct muster_ibv_pd *pd, struct muster_ibv_way *way)
{
    struct muster_ibv_ah *ah = calloc(1, sizeof *ah);
    (void)pd;
    ah->to = way->gid;
    if (way->is_global && !has_line(NULL, "no-way %c %c", own(), way->gid.raw[14]))
        return ah;
    free(ah);
    errno = EHOSTUNREACH;
    return NULL;
}
