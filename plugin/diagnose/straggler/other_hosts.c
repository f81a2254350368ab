#include "diagnose/straggler/other_hosts.h"

#include "base/hash.h"
#include "diagnose/straggler/hash_index.h"

static bool has_others(const struct muster_graph *graph)
{
    for (size_t g = 1; g < graph->view->gpus; g++)
        if (graph->host[g] != graph->host[0])
            return true;
    return false;
}

static void place(struct muster_other_hosts *hosts, const struct muster_graph *graph)
{
    struct muster_places places = {.memory = graph->memory};
    for (size_t s = 0; s < graph->seats && !graph->memory->failed; s++) {
        const struct muster_seat *seat = &graph->seat[s];
        uint64_t key = muster_hash_number(MUSTER_HASH_SEED, seat->position);
        uint32_t *at = muster_places_at(&places, muster_hash_number(key, graph->host[seat->gpu]));
        if (!*at) {
            struct muster_host_tally *host =
                muster_arena_add(graph->memory, &hosts->host, &hosts->hosts, sizeof *host);
            *host = (struct muster_host_tally){.position = seat->position};
            *at = (uint32_t)hosts->hosts;
        }
        hosts->of_seat[s] = *at - 1;
        hosts->host[*at - 1].seats++;
        hosts->seats[seat->position]++;
    }
}

void muster_other_hosts_make(struct muster_other_hosts *hosts, const struct muster_graph *graph)
{
    struct muster_arena *memory = graph->memory;
    *hosts = (struct muster_other_hosts){0};
    if (memory->failed || !has_others(graph))
        return;
    hosts->of_seat = muster_arena_array(memory, graph->seats + 1, sizeof *hosts->of_seat);
    hosts->seats = muster_arena_array(memory, graph->positions + 1, sizeof *hosts->seats);
    if (!memory->failed)
        place(hosts, graph);
}

void muster_other_hosts_count(struct muster_other_hosts *hosts, const struct muster_graph *graph)
{
    for (size_t h = 0; h < hosts->hosts; h++)
        hosts->host[h].tally = (struct muster_tally){0};
    for (size_t s = 0; s < graph->seats && hosts->of_seat; s++)
        muster_tally_add(&hosts->host[hosts->of_seat[s]].tally, &graph->seat[s]);
}

const struct muster_host_tally *muster_other_hosts_of(const struct muster_other_hosts *hosts,
                                                      size_t seat)
{
    if (!hosts->of_seat)
        return NULL;
    const struct muster_host_tally *host = &hosts->host[hosts->of_seat[seat]];
    bool others = hosts->seats[host->position] >= 2 * host->seats;
    return host->seats > 1 && others ? host : NULL;
}

void muster_tally_add(struct muster_tally *tally, const struct muster_seat *seat)
{
    double count = seat->culprit ? 0 : 1;
    tally->hits += count * seat->hits;
    tally->windows += count * seat->windows;
    tally->slices += count * seat->slices;
    for (unsigned k = 0; k < MUSTER_FARS; k++)
        tally->far[k] += count * seat->far[k];
}

struct muster_tally muster_tally_without(const struct muster_tally *all,
                                         const struct muster_tally *some)
{
    struct muster_tally rest = *all;
    rest.hits -= some->hits;
    rest.windows -= some->windows;
    rest.slices -= some->slices;
    for (unsigned k = 0; k < MUSTER_FARS; k++)
        rest.far[k] -= some->far[k];
    return rest;
}
