#include "record/blocks.h"

#include <stddef.h>

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static uint64_t draw(uint64_t comm_id, uint64_t turn)
{
    return mix(comm_id + turn * 0x9e3779b97f4a7c15ull);
}

static uint64_t turn_of(uint64_t number)
{
    return number / MUSTER_BLOCK / MUSTER_BLOCKS_A_TURN;
}

bool muster_block_timed(uint64_t comm_id, uint64_t number)
{
    uint64_t turn = turn_of(number);
    uint64_t place = turn == 0 ? 0 : draw(comm_id, turn) % MUSTER_BLOCKS_A_TURN;
    return number / MUSTER_BLOCK % MUSTER_BLOCKS_A_TURN == place;
}

bool muster_block_starts(uint64_t comm_id, uint64_t number, uint32_t comms_alive)
{
    if (comms_alive > MUSTER_ARMING_COMMS || !muster_block_timed(comm_id, number))
        return false;
    uint32_t one_in = 1;
    while (one_in < comms_alive)
        one_in *= 2;
    uint64_t turn = turn_of(number);
    return turn == 0 || (draw(comm_id, turn) >> 40) % one_in == 0;
}

int muster_arming_mask(const struct muster_arming *arming)
{
    return muster_arming_on(arming) ? arming->timing : arming->resting;
}

void muster_arming_write(const struct muster_arming *arming, int *mask)
{
    int wanted = muster_arming_mask(arming);
    int written;
    if (!mask)
        return;
    do {
        written = wanted;
        /* Two threads may change the state at once. The fences (before: what this thread changed;
         * after: what it reads again) let the one whose store comes last see the other's change: a
         * mask that contradicts the state would stay for a whole block. NCCL reads it relaxed. */
        atomic_thread_fence(memory_order_seq_cst);
        __atomic_store_n(mask, written, __ATOMIC_RELAXED);
        atomic_thread_fence(memory_order_seq_cst);
        wanted = muster_arming_mask(arming);
    } while (wanted != written);
}

static void write_mask(const struct muster_arming *arming)
{
    muster_arming_write(arming, arming->mask);
}

static void set_wants(struct muster_arming *arming, struct muster_block_state *state, bool wants)
{
    if (atomic_exchange_explicit(&state->wants, wants, memory_order_relaxed) == wants)
        return;
    atomic_fetch_add_explicit(&arming->wanting, wants ? 1 : UINT32_MAX, memory_order_relaxed);
    write_mask(arming);
}

void muster_arming_turn(struct muster_arming *arming, struct muster_block_state *state,
                        uint64_t comm_id, uint64_t next, uint32_t comms_alive)
{
    bool starts = muster_block_starts(comm_id, next, comms_alive);
    if (starts) {
        int32_t share = (int32_t)(comms_alive > 1 ? comms_alive : 1);
        atomic_store_explicit(&arming->budget, 2 * share * MUSTER_BLOCK, memory_order_relaxed);
    }
    set_wants(arming, state, starts);
}

void muster_arming_spend(struct muster_arming *arming)
{
    if (!arming->always && atomic_fetch_sub_explicit(&arming->budget, 1, memory_order_relaxed) == 1)
        write_mask(arming);
}

void muster_arming_leave(struct muster_arming *arming, struct muster_block_state *state)
{
    set_wants(arming, state, false);
}

void muster_arming_forbid(struct muster_arming *arming)
{
    atomic_store_explicit(&arming->forbidden, true, memory_order_relaxed);
    atomic_store_explicit(&arming->stopped, true, memory_order_relaxed);
    write_mask(arming);
}

void muster_arming_stop(struct muster_arming *arming)
{
    if (!arming->always && !atomic_exchange_explicit(&arming->stopped, true, memory_order_relaxed))
        write_mask(arming);
}
