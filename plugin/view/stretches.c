#include "view/stretches.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum {
    BLOCK_OPS = 64, /* as `auto` times: record/sampling.h */
    KEPT = 64,      /* stretches of the run: what came and went between two is not seen */
};

struct choosing {
    struct muster_stretches *stretches;
    const struct muster_view *view;
    uint32_t process;
    uint32_t uid, own; /* the member that `uid` is */
    bool no_memory;
};

static struct muster_stretch_block block_of(const struct muster_view_member *member,
                                            const struct muster_op *op)
{
    struct muster_stretch_block key;
    memset(&key, 0, sizeof key);
    bool sends = op->func == MUSTER_FUNC_SEND, p2p = muster_func_is_p2p(op->func);
    key.comm = member->comm;
    key.graph = (op->flags & MUSTER_OP_GRAPH) != 0;
    key.from = !p2p ? -1 : sends ? member->rank : op->peer;
    key.to = !p2p ? -1 : sends ? op->peer : member->rank;
    key.block = op->number / BLOCK_OPS;
    return key;
}

/* Its place, or SIZE_MAX. */
static size_t find(struct muster_stretches *stretches, const struct muster_stretch_block *key)
{
    size_t at =
        (key->comm * 31u + (uint32_t)key->from * 7u + (uint32_t)key->to) % MUSTER_STRETCH_CACHE;
    if (stretches->cache[at].known && memcmp(&stretches->cache[at].key, key, sizeof *key) == 0)
        return stretches->cache[at].block;
    size_t block = muster_hashmap_find(&stretches->at, key);
    stretches->cache[at].key = *key;
    stretches->cache[at].block = block;
    stretches->cache[at].known = block != SIZE_MAX;
    return block;
}

static bool note_op(struct choosing *choosing, const struct muster_op *op)
{
    struct muster_stretches *stretches = choosing->stretches;
    const struct muster_view *view = choosing->view;
    const struct muster_view_member *member = &view->member[choosing->own];
    struct muster_stretch_block key = block_of(member, op);
    if (find(stretches, &key) != SIZE_MAX)
        return true;
    if (!muster_reserve(&stretches->first_ns, &stretches->room, stretches->blocks + 1,
                        sizeof *stretches->first_ns) ||
        !muster_hashmap_put(&stretches->at, &key, stretches->blocks))
        return false;
    stretches->first_ns[stretches->blocks++] =
        op->enqueue_ns + (uint64_t)view->gpu[member->gpu].unix_ns;
    return true;
}

static bool note_ops(void *to, const struct muster_op *op, size_t n)
{
    struct choosing *choosing = to;
    for (size_t i = 0; i < n && !choosing->no_memory; i++) {
        if (op[i].comm != choosing->uid || choosing->own == MUSTER_VIEW_NONE) {
            const struct muster_view_member *own =
                muster_view_member_of(choosing->view, choosing->process, op[i].comm);
            choosing->own = own ? (uint32_t)(own - choosing->view->member) : MUSTER_VIEW_NONE;
            choosing->uid = op[i].comm;
        }
        if (choosing->own != MUSTER_VIEW_NONE)
            choosing->no_memory = !note_op(choosing, &op[i]);
    }
    return !choosing->no_memory;
}

/* From when each block began to whether it is kept. */
static void choose(struct muster_stretches *stretches)
{
    uint64_t first = UINT64_MAX, last = 0;
    for (size_t i = 0; i < stretches->blocks; i++) {
        first = stretches->first_ns[i] < first ? stretches->first_ns[i] : first;
        last = stretches->first_ns[i] > last ? stretches->first_ns[i] : last;
    }
    uint64_t length = (last - first) / (KEPT * stretches->every) + 1;
    for (size_t i = 0; i < stretches->blocks; i++) {
        uint64_t at = (stretches->first_ns[i] - first) / length;
        stretches->first_ns[i] =
            at % stretches->every == stretches->every - 1 || at == (last - first) / length;
    }
}

int muster_stretches_choose(struct muster_stretches *stretches, const struct muster_view *view,
                            uint64_t most, struct muster_err *err)
{
    const struct muster_run *run = view->run;
    uint64_t ops = 0;
    memset(stretches, 0, sizeof *stretches);
    stretches->at.key_bytes = sizeof(struct muster_stretch_block);
    for (size_t p = 0; p < run->processes; p++)
        ops += run->process[p].log_ops + run->process[p].ops;
    stretches->every = ops / (most + 1) + 1;
    if (stretches->every == 1)
        return 0;
    struct choosing choosing = {.stretches = stretches, .view = view};
    for (uint32_t p = 0; p < run->processes; p++) {
        choosing.process = p;
        choosing.own = MUSTER_VIEW_NONE;
        int rc = muster_process_read_ops(&run->process[p], note_ops, &choosing, err);
        if (rc == 0 && choosing.no_memory)
            rc = muster_fail_memory(err, "choosing what is compared");
        if (rc != 0) {
            muster_stretches_free(stretches);
            return -1;
        }
    }
    choose(stretches);
    return 0;
}

bool muster_stretches_keep(struct muster_stretches *stretches, const struct muster_view *view,
                           uint32_t member, const struct muster_op *op)
{
    if (stretches->every == 1 || member >= view->members)
        return true;
    struct muster_stretch_block key = block_of(&view->member[member], op);
    size_t block = find(stretches, &key);
    return block == SIZE_MAX || stretches->first_ns[block];
}

void muster_stretches_free(struct muster_stretches *stretches)
{
    muster_hashmap_free(&stretches->at);
    free(stretches->first_ns);
    memset(stretches, 0, sizeof *stretches);
}
