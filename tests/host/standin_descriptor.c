#include "standin_descriptor.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { DESCRIPTOR_MAX = 136, ARGS_MAX = 16 };

/* Two pages for descriptors and two for state arguments; the second of each is PROT_NONE. */
struct guarded {
    unsigned char *descriptor_end;
    unsigned char *args_end;
};

static pthread_key_t guarded_key;
static pthread_once_t guarded_once = PTHREAD_ONCE_INIT;

static unsigned char *guarded_page(size_t page)
{
    unsigned char *at =
        mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED || mprotect(at + page, page, PROT_NONE)) {
        perror("stand-in: guarded memory");
        _exit(96);
    }
    return at + page;
}

static void guarded_free(void *memory)
{
    struct guarded *guarded = memory;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    munmap(guarded->descriptor_end - page, 2 * page);
    munmap(guarded->args_end - page, 2 * page);
    free(guarded);
}

static void guarded_key_create(void)
{
    pthread_key_create(&guarded_key, guarded_free);
}

static struct guarded *guarded_mine(void)
{
    pthread_once(&guarded_once, guarded_key_create);
    struct guarded *guarded = pthread_getspecific(guarded_key);

    if (!guarded) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        guarded = malloc(sizeof(*guarded));
        if (!guarded)
            _exit(96);
        guarded->descriptor_end = guarded_page(page);
        guarded->args_end = guarded_page(page);
        pthread_setspecific(guarded_key, guarded);
    }
    return guarded;
}

static void put8(unsigned char *at, size_t offset, uint64_t value)
{
    at[offset] = (unsigned char)value;
}

static void put32(unsigned char *at, size_t offset, uint64_t value)
{
    uint32_t v = (uint32_t)value;
    memcpy(at + offset, &v, sizeof(v));
}

static void put64(unsigned char *at, size_t offset, uint64_t value)
{
    memcpy(at + offset, &value, sizeof(value));
}

static void put_pointer(unsigned char *at, size_t offset, const void *value)
{
    memcpy(at + offset, &value, sizeof(value));
}

static const char *const v1_func[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                      "AllReduce", "SendRecv", "Send",      "Recv"};
static const char *const v1_dtype[] = {"ncclInt8",     "Unknown" /* uint8 */, "ncclInt32",
                                       "ncclUint32",   "ncclInt64",           "ncclUint64",
                                       "ncclFloat16",  "ncclFloat32",         "ncclFloat64",
                                       "ncclBfloat16", "ncclFloat8e4m3",      "ncclFloat8e5m2"};
static const char *const v1_algo[] = {
    "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
static const char *const v1_proto[] = {"LL", "LL128", "SIMPLE"};

#define V1_CODE(table, word) v1_code(table, sizeof(table) / sizeof((table)[0]), word)

static unsigned v1_code(const char *const *table, size_t n, const char *word)
{
    if (!word)
        return 255;
    if (word[0] == '#')
        return (unsigned)atoi(word + 1);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(table[i], word))
            return (unsigned)i;
    return 200;
}

static void put_coll_v1(unsigned char *at, const struct standin_event *event)
{
    put_pointer(at, 24, event->comm_name);
    put64(at, 32, event->comm_hash);
    put64(at, 40, event->seq);
    put8(at, 48, V1_CODE(v1_func, event->func));
    put64(at, 56, 0x1000);
    put64(at, 64, 0x2000);
    put64(at, 72, event->count);
    put32(at, 80, (uint32_t)event->root_or_peer);
    put8(at, 84, V1_CODE(v1_dtype, event->dtype));
    put32(at, 88, 0);
    put64(at, 96, event->traffic);
    put8(at, 104, event->channels);
    put8(at, 105, event->warps);
    put8(at, 106, V1_CODE(v1_algo, event->algo));
    put8(at, 107, V1_CODE(v1_proto, event->proto));
    put32(at, 108, 0);
    put32(at, 112, 0);
}

/* What all collectives have since v2, in one order: function, buffers, count, root, type. */
static void put_call(unsigned char *at, const struct standin_event *event)
{
    put_pointer(at, 0, event->func);
    put64(at, 8, 0x1000);
    put64(at, 16, 0x2000);
    put64(at, 24, event->count);
    put32(at, 32, (uint32_t)event->root_or_peer);
    put_pointer(at, 40, event->dtype);
}

static void put_coll_v2_v3(unsigned char *at, const struct standin_event *event, bool v2)
{
    size_t after = v2 ? 104 : 96;

    put_pointer(at, 24, event->comm_name);
    put64(at, 32, event->comm_hash);
    put64(at, 40, event->seq);
    put_call(at + 48, event);
    if (v2)
        put64(at, 96, event->traffic);
    put8(at, after, event->channels);
    put8(at, after + 1, event->warps);
    put_pointer(at, after + 8, event->algo);
    put_pointer(at, after + 16, event->proto);
}

static void put_coll_v4(unsigned char *at, const struct standin_event *event, unsigned api)
{
    put64(at, 24, event->seq);
    put_call(at + 32, event);
    put8(at, 80, event->channels);
    put8(at, 81, event->warps);
    put_pointer(at, 88, event->algo);
    put_pointer(at, 96, event->proto);
    if (api >= 5)
        put_pointer(at, 104, event->parent_group);
    if (api >= 7) {
        put_pointer(at, 112, event->symmetric ? "symmetric" : NULL);
        put8(at, 120, event->symmetric);
        put64(at, 128, event->user_tag);
    }
}

static void put_p2p(unsigned char *at, const struct standin_event *event, unsigned api)
{
    if (api >= 4) {
        put_pointer(at, 24, event->func);
        put64(at, 32, 0x1000);
        put_pointer(at, 40, event->dtype);
        put64(at, 48, event->count);
        put32(at, 56, (uint32_t)event->root_or_peer);
        put8(at, 60, event->channels);
        if (api >= 5)
            put_pointer(at, 64, event->parent_group);
        if (api >= 7)
            put64(at, 72, event->user_tag);
        return;
    }
    put_pointer(at, 24, event->comm_name);
    put64(at, 32, event->comm_hash);
    if (api == 1) {
        put8(at, 40, V1_CODE(v1_func, event->func));
        put8(at, 56, V1_CODE(v1_dtype, event->dtype));
    } else {
        put_pointer(at, 40, event->func);
        put_pointer(at, 56, event->dtype);
    }
    put64(at, 48, 0x1000);
    put64(at, 64, event->count);
    put32(at, 72, (uint32_t)event->root_or_peer);
}

static void put_api(unsigned char *at, const struct standin_event *event, unsigned api)
{
    put_pointer(at, 24, event->func);
    put64(at, 32, event->count);
    put_pointer(at, 40, event->dtype);
    if (event->type == STANDIN_COLL_API) {
        put32(at, 48, (uint32_t)event->root_or_peer);
        put_pointer(at, 56, event->stream);
        put8(at, 64, event->graph);
        if (api >= 7)
            put64(at, 72, event->user_tag);
    } else {
        put_pointer(at, 48, event->stream);
        put8(at, 56, event->graph);
        if (api >= 7)
            put64(at, 64, event->user_tag);
    }
}

static void put_ce_coll(unsigned char *at, const struct standin_event *event, unsigned api)
{
    put64(at, 24, event->seq);
    put_call(at + 32, event);
    put_pointer(at, 80, "None");
    put8(at, 88, 0);
    put32(at, 92, 1);
    put32(at, 96, 1);
    put32(at, 100, event->seq);
    put_pointer(at, 104, event->stream);
    if (api >= 7)
        put64(at, 112, event->user_tag);
}

static void put_ce_part(unsigned char *at, const struct standin_event *event)
{
    if (event->type == STANDIN_CE_SYNC) {
        put8(at, 24, 1);
        put32(at, 28, (uint32_t)event->ce_n);
    } else {
        put32(at, 24, (uint32_t)event->ce_n);
        put64(at, 32, event->ce_bytes);
        put8(at, 40, 0);
    }
}

static void put_proxy_op(unsigned char *at, const struct standin_event *event)
{
    put32(at, 24, (uint32_t)event->pid);
    put8(at, 28, event->channel);
    put32(at, 32, (uint32_t)event->root_or_peer);
    put32(at, 36, (uint32_t)event->steps);
    put32(at, 40, (uint32_t)event->chunk);
    put32(at, 44, (uint32_t)event->send);
}

static void put_kernel(unsigned char *at, const struct standin_event *event, unsigned api)
{
    put8(at, 24, event->channel);
    if (event->type == STANDIN_KERNEL_PHASE) {
        put8(at, 25, event->phase);
        put_pointer(at, 32, "compute");
        put64(at, 40, event->ptimer);
    } else if (api >= 4) {
        put64(at, 32, event->ptimer);
    }
}

static void put_body(unsigned char *at, const struct standin_event *event, unsigned api)
{
    switch (event->type) {
    case STANDIN_COLL:
        if (api == 1)
            put_coll_v1(at, event);
        else if (api <= 3)
            put_coll_v2_v3(at, event, api == 2);
        else
            put_coll_v4(at, event, api);
        break;
    case STANDIN_P2P:
        put_p2p(at, event, api);
        break;
    case STANDIN_PROXY_OP:
        put_proxy_op(at, event);
        break;
    case STANDIN_PROXY_STEP:
        put32(at, 24, (uint32_t)event->step);
        break;
    case STANDIN_KERNEL_CH:
    case STANDIN_KERNEL_PHASE:
        put_kernel(at, event, api);
        break;
    case STANDIN_NET_PLUGIN:
        put64(at, 24, (uint64_t)event->net_id);
        put_pointer(at, 32, event->net_data);
        break;
    case STANDIN_GROUP_API:
        put8(at, 24, event->graph);
        put32(at, 28, (uint32_t)event->depth);
        break;
    case STANDIN_COLL_API:
    case STANDIN_P2P_API:
        put_api(at, event, api);
        break;
    case STANDIN_KERNEL_LAUNCH:
        put_pointer(at, 24, event->stream);
        break;
    case STANDIN_CE_COLL:
        put_ce_coll(at, event, api);
        break;
    case STANDIN_CE_SYNC:
    case STANDIN_CE_BATCH:
        put_ce_part(at, event);
        break;
    default: /* Group, ProxyCtrl, and what no version knows: header only */
        break;
    }
}

size_t standin_descriptor_bytes(unsigned api)
{
    static const size_t bytes[] = {0, 120, 128, 120, 104, 112, 112, STANDIN_DESCRIPTOR_BYTES};
    return bytes[api];
}

void *standin_descriptor(unsigned api, const struct standin_event *event)
{
    static const unsigned newest[] = {0, 0x20, 0x20, 0x80, 0x80, 0x800, 0x4000, 0x8000};
    size_t bytes = standin_descriptor_bytes(api);
    unsigned char *at = guarded_mine()->descriptor_end - bytes;

    memset(at, 0x5a, bytes);
    if (api >= 5)
        put64(at, 0, event->type);
    else
        put8(at, 0, event->type);
    put_pointer(at, 8, event->parent);
    put32(at, 16, (uint32_t)event->rank);
    if (event->type <= newest[api])
        put_body(at, event, api);
    return at;
}

void *standin_state_args(unsigned api, unsigned state, const struct standin_args *args)
{
    size_t bytes = api <= 3 ? 16 : 8;
    unsigned char *at = guarded_mine()->args_end - bytes;

    memset(at, 0x5a, bytes);
    if (state >= 13 && state <= 18) {
        put32(at, 0, (uint32_t)args->appended);
    } else if (state == 22 || state == 31) {
        put64(at, 0, args->ptimer);
    } else {
        put64(at, 0, args->trans_bytes);
        if (api <= 3)
            put32(at, 8, (uint32_t)args->steps);
    }
    return at;
}

void standin_descriptor_writable(bool writable)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int access = writable ? PROT_READ | PROT_WRITE : PROT_READ;

    if (mprotect(guarded_mine()->descriptor_end - page, page, access)) {
        perror("stand-in: guarded memory");
        _exit(96);
    }
}

void standin_descriptor_spoil(void)
{
    struct guarded *guarded = guarded_mine();

    memset(guarded->descriptor_end - DESCRIPTOR_MAX, 0xee, DESCRIPTOR_MAX);
    memset(guarded->args_end - ARGS_MAX, 0xee, ARGS_MAX);
}
