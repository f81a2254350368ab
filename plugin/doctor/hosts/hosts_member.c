#include "doctor/hosts/hosts_member.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const char *const kinds[] = {"begin",   "hello",    "reach", "reached",
                                    "measure", "measured", "end",   "failure"};
enum { KINDS = sizeof kinds / sizeof *kinds };

void muster_hosts_target(const struct muster_hosts_member *member, unsigned t,
                         struct sockaddr_storage *to, socklen_t *size)
{
    bool first = t < MUSTER_HOSTS_PORTS;
    const struct muster_interface *at = &member->address[first ? 0 : t - MUSTER_HOSTS_PORTS + 1];
    uint16_t port = htons(member->port[first ? t : 0]);
    memset(to, 0, sizeof *to);
    if (at->family == AF_INET6) {
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)to;
        *six = (struct sockaddr_in6){
            .sin6_family = AF_INET6, .sin6_port = port, .sin6_addr = at->address};
        *size = sizeof *six;
    } else {
        struct sockaddr_in *four = (struct sockaddr_in *)(void *)to;
        *four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
        memcpy(&four->sin_addr, &at->address, sizeof four->sin_addr);
        *size = sizeof *four;
    }
}

/* ---- writing ---- */

/* "fe80...": 32 digits. */
static json_t *write_rdma(const struct muster_hosts_member *member)
{
    json_t *ports = json_array();
    for (unsigned i = 0; i < member->rdmas && i < MUSTER_VERBS_PORTS; i++) {
        const struct muster_verbs_address *at = &member->rdma[i];
        char gid[2 * sizeof at->gid + 1];
        for (size_t j = 0; j < sizeof at->gid; j++)
            snprintf(gid + 2 * j, 3, "%02x", at->gid[j]);
        json_array_append_new(ports,
                              json_pack("[s,i,b,i,i,I,s]", at->device, at->port, (int)at->ethernet,
                                        at->lid, at->mtu, (json_int_t)at->queue, gid));
    }
    return ports;
}

static json_t *write_member(const struct muster_hosts_member *member)
{
    json_t *object = json_object(), *addresses = json_array(), *ports = json_array();
    for (unsigned i = 0; i < member->addresses; i++) {
        const struct muster_interface *at = &member->address[i];
        char text[INET6_ADDRSTRLEN] = "";
        inet_ntop(at->family, &at->address, text, sizeof text);
        json_array_append_new(
            addresses, json_pack("[s,s,i,i]", at->name, text, (int)at->prefix, (int)at->mtu));
    }
    for (unsigned i = 0; i < MUSTER_HOSTS_PORTS; i++)
        json_array_append_new(ports, json_integer(member->port[i]));
    json_object_set_new(object, "host", json_string(member->name));
    json_object_set_new(object, "host_id", json_string(member->id));
    json_object_set_new(object, "rank", json_integer(member->rank));
    json_object_set_new(object, "addresses", addresses);
    json_object_set_new(object, "ports", ports);
    json_object_set_new(object, "frames", json_integer(member->frames));
    json_object_set_new(object, "low", json_integer(member->low));
    json_object_set_new(object, "high", json_integer(member->high));
    json_object_set_new(object, "token", json_integer((json_int_t)member->token));
    json_object_set_new(object, "rdma", write_rdma(member));
    json_object_set_new(object, "no_rdma", json_string(member->no_rdma));
    return object;
}

static void write_begin(json_t *object, const struct muster_hosts_message *message)
{
    json_t *variables = json_object();
    for (size_t i = 0; i < message->variables; i++)
        json_object_set_new(variables, message->name[i], json_string(message->value[i]));
    json_object_set_new(object, "variables", variables);
    json_object_set_new(object, "active", json_boolean(message->active));
}

static void write_reach(json_t *object, const struct muster_hosts_message *message)
{
    json_t *members = json_array();
    for (unsigned i = 0; i < message->n; i++)
        json_array_append_new(members, write_member(&message->members[i]));
    json_object_set_new(object, "members", members);
    json_object_set_new(object, "timeout_ms", json_integer(message->timeout_ms));
}

static void write_reached(json_t *object, const struct muster_hosts_message *message)
{
    json_t *bytes = json_array();
    for (unsigned i = 0; i < message->n; i++)
        json_array_append_new(bytes, json_integer(message->frame_bytes[i]));
    json_object_set_new(object, "ends", json_string(message->ends));
    json_object_set_new(object, "frame_ends", json_string(message->frame_ends));
    json_object_set_new(object, "frame_bytes", bytes);
    json_object_set_new(object, "rdma_ends",
                        json_string(message->rdma_ends ? message->rdma_ends : ""));
}

static void write_measure(json_t *object, const struct muster_hosts_message *message)
{
    json_t *rounds = json_array();
    for (unsigned i = 0; i < message->rounds; i++) {
        json_t *round = json_array();
        for (unsigned j = 0; j < message->n; j++)
            json_array_append_new(round, json_integer(message->partner[i * message->n + j]));
        json_array_append_new(rounds, round);
    }
    json_object_set_new(object, "rounds", rounds);
    json_object_set_new(object, "ms", json_integer(message->ms));
}

static void write_measured(json_t *object, const struct muster_hosts_message *message)
{
    json_t *flows = json_array();
    for (size_t i = 0; i < message->flows; i++) {
        const struct muster_hosts_flow *flow = &message->flow[i];
        json_array_append_new(flows, json_pack("[I,f,I,I,I,I,I]", (json_int_t)flow->peer,
                                               flow->gbps, (json_int_t)flow->retransmitted,
                                               (json_int_t)flow->sent, (json_int_t)flow->expected,
                                               (json_int_t)flow->lost, (json_int_t)flow->dropped));
    }
    json_object_set_new(object, "flows", flows);
}

/* "": no memory, as in the arena. */
static const char *text_of_json(const json_t *json, size_t flags, struct muster_arena *arena)
{
    char *text = json_dumps(json, flags);
    const char *kept = muster_arena_text(arena, text ? text : "");
    arena->failed |= !text;
    free(text);
    return kept;
}

const char *muster_hosts_write(const struct muster_hosts_message *message,
                               struct muster_arena *arena)
{
    json_t *object = json_object(), *report;
    json_object_set_new(object, "kind", json_string(kinds[message->kind]));
    switch (message->kind) {
    case MUSTER_HOSTS_BEGIN:
        write_begin(object, message);
        break;
    case MUSTER_HOSTS_HELLO:
        report = json_loads(message->report, JSON_REJECT_DUPLICATES, NULL);
        json_object_set_new(object, "member", write_member(&message->member));
        json_object_set_new(object, "report", report ? report : json_null());
        break;
    case MUSTER_HOSTS_REACH:
        write_reach(object, message);
        break;
    case MUSTER_HOSTS_REACHED_ALL:
        write_reached(object, message);
        break;
    case MUSTER_HOSTS_MEASURE:
        write_measure(object, message);
        break;
    case MUSTER_HOSTS_MEASURED:
        write_measured(object, message);
        break;
    case MUSTER_HOSTS_FAILURE:
        json_object_set_new(object, "why", json_string(message->why));
        break;
    case MUSTER_HOSTS_END:
        break;
    }
    const char *line = text_of_json(object, JSON_COMPACT | JSON_ENSURE_ASCII, arena);
    json_decref(object);
    return line;
}

/* ---- reading: what comes may be anything ---- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* A whole number within bounds; `else_` where it is none. */
static long long number_in(const json_t *value, long long low, long long high, long long else_)
{
    json_int_t n = json_integer_value(value);
    return json_is_integer(value) && n >= low && n <= high ? n : else_;
}

static bool read_address(json_t *from, struct muster_interface *to)
{
    const char *address = json_string_value(json_array_get(from, 1));
    *to = (struct muster_interface){.family = AF_INET};
    muster_text_copy(to->name, sizeof to->name, json_string_value(json_array_get(from, 0)));
    to->prefix = (unsigned)number_in(json_array_get(from, 2), 0, 128, 0);
    to->mtu = (unsigned)number_in(json_array_get(from, 3), 0, 65536, 0);
    if (!address)
        return false;
    if (strchr(address, ':'))
        to->family = AF_INET6;
    return inet_pton(to->family, address, &to->address) == 1;
}

static bool read_gid(const char *text, uint8_t gid[16])
{
    bool ok = text && strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32;
    for (size_t i = 0; ok && i < 16; i++)
        ok = sscanf(text + 2 * i, "%2hhx", &gid[i]) == 1;
    return ok;
}

static bool read_rdma(json_t *from, struct muster_verbs_address *to)
{
    muster_text_copy(to->device, sizeof to->device, json_string_value(json_array_get(from, 0)));
    to->port = (uint8_t)number_in(json_array_get(from, 1), 0, 255, 0);
    to->ethernet = json_is_true(json_array_get(from, 2));
    to->lid = (uint16_t)number_in(json_array_get(from, 3), 0, 65535, 0);
    to->mtu = (uint16_t)number_in(json_array_get(from, 4), 0, MUSTER_VERBS_BYTES, 0);
    to->queue = (uint32_t)number_in(json_array_get(from, 5), 0, (1 << 24) - 1, 0);
    return read_gid(json_string_value(json_array_get(from, 6)), to->gid);
}

static int read_rdmas(json_t *object, struct muster_hosts_member *member, struct muster_err *err)
{
    size_t i;
    json_t *at;
    muster_text_copy(member->no_rdma, sizeof member->no_rdma, text_of(object, "no_rdma"));
    json_array_foreach(json_object_get(object, "rdma"), i, at)
    {
        if (i == MUSTER_VERBS_PORTS)
            break;
        if (!read_rdma(at, &member->rdma[member->rdmas++]))
            return muster_fail(err, "%s: RDMA port %zu has no GID", member->name, i);
    }
    return 0;
}

static int read_member(json_t *object, struct muster_hosts_member *member, struct muster_err *err)
{
    size_t i;
    json_t *at;
    *member = (struct muster_hosts_member){
        .rank = (int)number_in(json_object_get(object, "rank"), 0, 1 << 24, -1),
        .frames = (uint16_t)number_in(json_object_get(object, "frames"), 0, 65535, 0),
        .low = (unsigned)number_in(json_object_get(object, "low"), 0, 65535, 0),
        .high = (unsigned)number_in(json_object_get(object, "high"), 0, 65535, 0),
        .token = (uint64_t)number_in(json_object_get(object, "token"), 0, 1ll << 62, 0)};
    muster_text_copy(member->name, sizeof member->name, text_of(object, "host"));
    muster_text_copy(member->id, sizeof member->id, text_of(object, "host_id"));
    if (!member->name[0])
        return muster_fail(err, "a host without a name");
    json_array_foreach(json_object_get(object, "addresses"), i, at)
    {
        if (i == MUSTER_HOSTS_ADDRESSES)
            break;
        if (!read_address(at, &member->address[member->addresses++]))
            return muster_fail(err, "%s: address %zu is none", member->name, i);
    }
    for (i = 0; i < MUSTER_HOSTS_PORTS; i++)
        member->port[i] =
            (uint16_t)number_in(json_array_get(json_object_get(object, "ports"), i), 0, 65535, 0);
    return read_rdmas(object, member, err);
}

static int read_begin(json_t *object, struct muster_arena *arena,
                      struct muster_hosts_message *message)
{
    const char *key;
    json_t *value, *variables = json_object_get(object, "variables");
    size_t n = json_object_size(variables);
    const char **name = muster_arena_array(arena, n + 1, sizeof *name);
    const char **values = muster_arena_array(arena, n + 1, sizeof *values);
    message->active = json_is_true(json_object_get(object, "active"));
    json_object_foreach(variables, key, value)
    {
        if (!name || !values || !json_is_string(value) || !*key || strchr(key, '='))
            continue;
        name[message->variables] = muster_arena_text(arena, key);
        values[message->variables++] = muster_arena_text(arena, json_string_value(value));
    }
    message->name = name;
    message->value = values;
    return 0;
}

static int read_hello(json_t *object, struct muster_arena *arena,
                      struct muster_hosts_message *message, struct muster_err *err)
{
    const json_t *report = json_object_get(object, "report");
    message->report = report ? text_of_json(report, JSON_COMPACT | JSON_ENCODE_ANY, arena) : "null";
    return read_member(json_object_get(object, "member"), &message->member, err);
}

static int read_reach(json_t *object, struct muster_arena *arena,
                      struct muster_hosts_message *message, struct muster_err *err)
{
    size_t i, n = json_array_size(json_object_get(object, "members"));
    json_t *at;
    if (n > MUSTER_HOSTS_MAX)
        return muster_fail(err, "more than %d hosts", MUSTER_HOSTS_MAX);
    struct muster_hosts_member *members = muster_arena_array(arena, n + 1, sizeof *members);
    message->members = members;
    json_array_foreach(json_object_get(object, "members"), i, at)
    {
        if (members && read_member(at, &members[i], err))
            return -1;
    }
    message->n = (unsigned)n;
    message->timeout_ms =
        (unsigned)number_in(json_object_get(object, "timeout_ms"), 1, 60000, 3000);
    return 0;
}

static int read_reached(json_t *object, struct muster_arena *arena,
                        struct muster_hosts_message *message, struct muster_err *err)
{
    json_t *bytes = json_object_get(object, "frame_bytes");
    size_t n = json_array_size(bytes);
    if (n > MUSTER_HOSTS_MAX)
        return muster_fail(err, "more than %d hosts", MUSTER_HOSTS_MAX);
    unsigned *to = muster_arena_array(arena, n + 1, sizeof *to);
    for (size_t i = 0; to && i < n; i++)
        to[i] = (unsigned)number_in(json_array_get(bytes, i), 0, 65536, 0);
    message->ends = muster_arena_text(arena, text_of(object, "ends"));
    message->frame_ends = muster_arena_text(arena, text_of(object, "frame_ends"));
    message->rdma_ends = muster_arena_text(arena, text_of(object, "rdma_ends"));
    message->frame_bytes = to;
    message->n = (unsigned)n;
    return strlen(message->frame_ends) == n ? 0
                                            : muster_fail(err, "frames of %zu hosts, not of %zu",
                                                          strlen(message->frame_ends), n);
}

static int read_measure(json_t *object, struct muster_arena *arena,
                        struct muster_hosts_message *message, struct muster_err *err)
{
    json_t *rounds = json_object_get(object, "rounds");
    size_t r, n = json_array_size(json_array_get(rounds, 0)), count = json_array_size(rounds);
    json_t *round;
    if (n > MUSTER_HOSTS_MAX || count > 64)
        return muster_fail(err, "%zu rounds of %zu hosts", count, n);
    int *partner = muster_arena_array(arena, n * count + 1, sizeof *partner);
    json_array_foreach(rounds, r, round)
    {
        for (size_t i = 0; partner && i < n; i++)
            partner[r * n + i] = (int)number_in(json_array_get(round, i), 0, (long long)n - 1, -1);
    }
    message->partner = partner;
    message->n = (unsigned)n;
    message->rounds = (unsigned)count;
    message->ms = (unsigned)number_in(json_object_get(object, "ms"), 1, 60000, 1000);
    return 0;
}

static void read_flow(const json_t *at, struct muster_hosts_flow *flow)
{
    enum { FIGURES = 5, MOST = 1 << 30 };
    uint64_t *const figure[FIGURES] = {&flow->retransmitted, &flow->sent, &flow->expected,
                                       &flow->lost, &flow->dropped};
    flow->peer = (unsigned)number_in(json_array_get(at, 0), 0, MUSTER_HOSTS_MAX - 1, 0);
    flow->gbps = json_number_value(json_array_get(at, 1));
    for (size_t i = 0; i < FIGURES; i++)
        *figure[i] = (uint64_t)number_in(json_array_get(at, i + 2), 0, MOST, 0);
}

static int read_measured(json_t *object, struct muster_arena *arena,
                         struct muster_hosts_message *message)
{
    size_t i, n = json_array_size(json_object_get(object, "flows"));
    json_t *at;
    struct muster_hosts_flow *flow = muster_arena_array(arena, n + 1, sizeof *flow);
    json_array_foreach(json_object_get(object, "flows"), i, at)
    {
        if (flow)
            read_flow(at, &flow[i]);
    }
    message->flow = flow;
    message->flows = n;
    return 0;
}

static int read_object(json_t *object, struct muster_arena *arena,
                       struct muster_hosts_message *message, struct muster_err *err)
{
    const char *kind = text_of(object, "kind");
    unsigned at = 0;
    while (at < KINDS && strcmp(kinds[at], kind) != 0)
        at++;
    message->kind = (enum muster_hosts_kind)at;
    switch (at) {
    case MUSTER_HOSTS_BEGIN:
        return read_begin(object, arena, message);
    case MUSTER_HOSTS_HELLO:
        return read_hello(object, arena, message, err);
    case MUSTER_HOSTS_REACH:
        return read_reach(object, arena, message, err);
    case MUSTER_HOSTS_REACHED_ALL:
        return read_reached(object, arena, message, err);
    case MUSTER_HOSTS_MEASURE:
        return read_measure(object, arena, message, err);
    case MUSTER_HOSTS_MEASURED:
        return read_measured(object, arena, message);
    case MUSTER_HOSTS_END:
        return 0;
    case MUSTER_HOSTS_FAILURE:
        message->why = muster_arena_text(arena, text_of(object, "why"));
        return 0;
    default:
        return muster_fail(err, "unknown kind of message \"%.40s\": versions of muster differ?",
                           kind);
    }
}

int muster_hosts_read(const char *text, size_t size, struct muster_arena *arena,
                      struct muster_hosts_message *message, struct muster_err *err)
{
    json_error_t at;
    json_t *object = json_loadb(text, size, JSON_REJECT_DUPLICATES, &at);
    *message = (struct muster_hosts_message){.kind = MUSTER_HOSTS_END};
    if (!object)
        return muster_fail(err, "column %d: %s", at.column, at.text);
    int rc = read_object(object, arena, message, err);
    json_decref(object);
    return rc ? rc : muster_arena_check(arena, err, "a message");
}
