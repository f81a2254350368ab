#include "diagnose/straggler/e_process.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "diagnose/straggler/hash_index.h"

#define FALSE_SHARE 0.01 /* q: of those named at most so many by chance */
#define SPREAD      0.04 /* of the usual own time: GPUs of a kind, over a while */
/* Besides, where a GPU waits for its host and one other alone does the same: by how much hosts
 * differ shows by chance only */
#define HOSTS       0.5
#define RATE_SIGMAS 2.0
#define RATE_MOST   0.9
#define OFTEN       0.5 /* of the bets: late so often is no row */
#define ROWS_MOST   0.8
/* While the job runs: what was seen is too little to show that rows are shorter */
#define ROWS_LEAST 2.0
#define HOST_STAKE 0.25 /* on that a rank is late oftener than those of other hosts */
#define FLOOR_NS   16000
#define WINDOW_NS  200000000ull /* twice what a GPU's clock keeps its state for */
#define SLICE_NS   1000000ull   /* who loses a processor waits about as long: one event */

/* Of the same: twice what a GPU's clock does for a tenth of a second; all of it, so that long
 * delays show among many short ones; and just more than a clock does at all, so that those whose
 * clocks are slow for a while are no excuse for who is later. */
static const double far_shares[MUSTER_FARS] = {0.25, 1, 0.16};

/* Shares of the stake; their mean is an e-value too, whatever the true rate is. */
static const double stakes[] = {0.02, 0.1, 0.3, 0.6};
enum { STAKES = sizeof stakes / sizeof *stakes, ROUNDS = 3 };

int64_t muster_seat_limit_ns(int64_t usual_ns)
{
    return FLOOR_NS + (int64_t)(SPREAD * (double)usual_ns);
}

double muster_slice_limit_ns(double usual_ns, double host_ns)
{
    return FLOOR_NS + far_shares[0] * usual_ns + HOSTS * host_ns;
}

/* The mean of e-values is one. */
static double log_mean(const double *log_e, unsigned n)
{
    double most = -INFINITY, sum = 0;
    for (unsigned i = 0; i < n; i++)
        most = log_e[i] > most ? log_e[i] : most;
    for (unsigned i = 0; i < n; i++)
        sum += exp(log_e[i] - most);
    return most + log(sum / n);
}

/* A share of the stake is bet on the second. */
static double log_mix(double first, double second, double share)
{
    double most = first > second ? first : second;
    return most + log((1 - share) * exp(first - most) + share * exp(second - most));
}

double muster_log_e(double hits, double windows, double p)
{
    double log_e[STAKES];
    for (unsigned i = 0; i < STAKES; i++)
        log_e[i] = hits * log1p(stakes[i] * (1 / p - 1)) + (windows - hits) * log1p(-stakes[i]);
    return log_mean(log_e, STAKES);
}

/* Delays that count as one bet. */
struct rows {
    double far[MUSTER_FARS], hit;
    bool others; /* and those of the others, against whom a rank is held */
};

static bool is_beyond(const struct muster_window *window, double share)
{
    double limit_ns = FLOOR_NS * window->turns + share * window->usual_ns;
    return window->excess_ns > limit_ns + HOSTS * window->host_ns;
}

static void close_slice(struct muster_seat *seat)
{
    /* Where what is usual adds to the limit, most slices are not even beyond the floor. */
    bool within = seat->slice.usual_ns >= 0 && seat->slice.host_ns >= 0 &&
                  seat->slice.excess_ns <= FLOOR_NS * seat->slice.turns;
    for (unsigned k = 0; k < MUSTER_FARS && !within; k++)
        seat->is_far |= (uint8_t)(is_beyond(&seat->slice, far_shares[k]) << k);
    seat->slice.turns = 0;
}

/* One bet. */
static void close_stretch(struct muster_seat *seat)
{
    seat->slices++;
    unsigned far = seat->is_far;
    for (unsigned k = 0; k < MUSTER_FARS && far; k++) {
        seat->far[k] += far >> k & 1;
        seat->far_rows[k] += (far & seat->was_far) >> k & 1;
    }
    seat->was_far = seat->is_far;
    seat->is_far = 0;
    seat->stretch_ns = 0;
}

static void close_window(struct muster_seat *seat)
{
    bool hit = is_beyond(&seat->window, SPREAD);
    seat->windows++;
    seat->hits += hit;
    seat->hit_rows += hit && seat->was_hit;
    seat->was_hit = hit;
    seat->window.turns = 0;
}

static void extend(struct muster_window *window, uint64_t begin_ns, int64_t own_ns,
                   int64_t excess_ns, bool host)
{
    double excess = (double)excess_ns, usual = (double)(own_ns - excess_ns);
    if (window->turns == 0) {
        *window = (struct muster_window){begin_ns, excess, usual, host ? usual : 0, 1};
        return;
    }
    window->excess_ns += excess;
    window->usual_ns += usual;
    window->host_ns += host ? usual : 0;
    window->turns++;
}

/* While the job runs, what a GPU does again and again at one position with nothing between is one
 * bet: where calls are alike it stands inside one step, whose pace they share. */
static void extend_stretch(const struct muster_graph *graph, struct muster_seat *seat,
                           uint64_t begin_ns, bool again)
{
    if (seat->slice.turns && begin_ns - seat->slice.since_ns >= SLICE_NS) {
        bool window = graph->view->window > 0;
        close_slice(seat);
        if (!window || !again || begin_ns - seat->stretch_ns >= WINDOW_NS)
            close_stretch(seat);
    }
    seat->stretch_ns = seat->stretch_ns ? seat->stretch_ns : begin_ns;
}

/* What units are counted by. */
struct counting {
    uint32_t *of_program; /* of each program how many GPUs have it */
    uint32_t *last;       /* of each GPU its last seat, + 1; 0: none */
};

static void add_unit(struct muster_graph *graph, const struct counting *counting, uint32_t u)
{
    const struct muster_unit *unit = &graph->unit[u];
    struct muster_seat *seat = &graph->seat[unit->seat];
    bool again = counting->last[seat->gpu] == unit->seat + 1;
    counting->last[seat->gpu] = unit->seat + 1;
    if (!unit->evaluated)
        return;
    uint64_t begin_ns = muster_unit_begin_ns(graph, unit);
    int64_t own_ns = muster_unit_own_ns(graph, unit);
    int64_t excess_ns = muster_unit_excess_ns(graph, unit);
    extend_stretch(graph, seat, begin_ns, again);
    if (seat->window.turns && begin_ns - seat->window.since_ns >= WINDOW_NS)
        close_window(seat);
    bool host = counting->of_program[graph->program[muster_unit_gpu(graph, unit)]] <= 2 &&
                muster_unit_waited_for_call(graph, unit);
    extend(&seat->slice, begin_ns, own_ns, excess_ns, host);
    extend(&seat->window, begin_ns, own_ns, excess_ns, host);
    seat->turns++;
    seat->excess_ns += excess_ns > 0 ? (double)excess_ns : 0;
    seat->late += excess_ns > muster_seat_limit_ns(own_ns - excess_ns);
}

static void count_windows(struct muster_graph *graph)
{
    size_t gpus = graph->view->gpus;
    struct counting counting = {
        .of_program = muster_arena_array(graph->memory, gpus + 1, sizeof *counting.of_program),
        .last = muster_arena_array(graph->memory, gpus + 1, sizeof *counting.last)};
    if (graph->memory->failed)
        return;
    for (size_t g = 0; g < gpus; g++)
        counting.of_program[graph->program[g]]++;
    struct muster_walk walk = {0};
    for (uint32_t u; (u = muster_walk_next(graph, &walk)) != MUSTER_NO_UNIT;)
        add_unit(graph, &counting, u);
    for (size_t s = 0; s < graph->seats; s++) {
        if (graph->seat[s].window.turns) {
            close_slice(&graph->seat[s]);
            close_stretch(&graph->seat[s]);
            close_window(&graph->seat[s]);
        }
    }
}

/* Delays come in rows, as hosts and clocks keep their state: how many in a row count as one bet, of
 * all seats that are late now and then. (1 + r) / (1 - r) with the correlation r of neighbours. */
static double row_length(double together, double apart)
{
    double r = apart > 0 ? together / apart : 0;
    r = r < 0 ? 0 : r > ROWS_MOST ? ROWS_MOST : r;
    return (1 + r) / (1 - r);
}

static void add_rows(double hits, double rows, double n, double *together, double *apart)
{
    double rate = n > 0 ? hits / n : 1;
    if (rate < OFTEN) {
        *together += rows - rate * hits;
        *apart += hits * (1 - rate);
    }
}

/* Of neighbours, over some seats: how far they are late together, and how far each is. */
struct alike {
    double far[MUSTER_FARS][2], hit[2];
};

static void add_alike(struct alike *alike, const struct muster_seat *seat)
{
    for (unsigned k = 0; k < MUSTER_FARS; k++)
        add_rows(seat->far[k], seat->far_rows[k], seat->slices, &alike->far[k][0],
                 &alike->far[k][1]);
    add_rows(seat->hits, seat->hit_rows, seat->windows, &alike->hit[0], &alike->hit[1]);
}

static void take_off(struct alike *from, const struct alike *some)
{
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned k = 0; k < MUSTER_FARS; k++)
            from->far[k][i] -= some->far[k][i];
        from->hit[i] -= some->hit[i];
    }
}

/* Delays in a row, of each GPU by the others and by those of other hosts, culprits left out: that
 * it was late for a while, or its host, is no excuse of its own. */
struct all_rows {
    struct alike *by_gpu, *by_host;
    struct rows *others, *other_hosts;
};

static void make_rows(struct all_rows *rows, const struct muster_graph *graph)
{
    struct muster_arena *memory = graph->memory;
    size_t n = graph->view->gpus + 1;
    rows->by_gpu = muster_arena_array(memory, n, sizeof *rows->by_gpu);
    rows->by_host = muster_arena_array(memory, n, sizeof *rows->by_host);
    rows->others = muster_arena_array(memory, n, sizeof *rows->others);
    rows->other_hosts = muster_arena_array(memory, n, sizeof *rows->other_hosts);
}

static struct rows rows_without(const struct alike *all, const struct alike *some, bool window)
{
    struct rows rows = {.others = window};
    struct alike rest = *all;
    double least = window ? ROWS_LEAST : 1;
    take_off(&rest, some);
    for (unsigned k = 0; k < MUSTER_FARS; k++)
        rows.far[k] = fmax(least, row_length(rest.far[k][0], rest.far[k][1]));
    rows.hit = fmax(least, row_length(rest.hit[0], rest.hit[1]));
    return rows;
}

static void set_rows(const struct muster_graph *graph, struct all_rows *rows)
{
    size_t gpus = graph->view->gpus;
    bool window = graph->view->window > 0;
    struct alike all = {0};
    memset(rows->by_gpu, 0, gpus * sizeof *rows->by_gpu);
    memset(rows->by_host, 0, gpus * sizeof *rows->by_host);
    for (size_t s = 0; s < graph->seats; s++) {
        const struct muster_seat *seat = &graph->seat[s];
        if (!seat->culprit) {
            add_alike(&rows->by_gpu[seat->gpu], seat);
            add_alike(&rows->by_host[graph->host[seat->gpu]], seat);
            add_alike(&all, seat);
        }
    }
    for (size_t g = 0; g < gpus; g++) {
        rows->others[g] = rows_without(&all, &rows->by_gpu[g], window);
        rows->other_hosts[g] = rows_without(&all, &rows->by_host[graph->host[g]], window);
    }
}

double muster_rate_most(double hits, double n)
{
    double rate = (hits + 0.5 + RATE_SIGMAS * sqrt(hits)) / (n + 1);
    return rate < RATE_MOST ? rate : RATE_MOST;
}

/* ---- hosts differ by nature: where GPUs wait for them, who calls late oftener than the others
 * must do so beyond how far the others are apart ---- */

enum {
    BETS = 1 + MUSTER_FARS, /* kinds of bets */
    APART_LEAST = 3,        /* ranks: fewer do not tell how far hosts are apart */
};

/* How often each rank at a position won, over ranks that are no culprits. */
struct rates {
    double ranks, sum, squares;
    double chance;  /* sum of what their squares are by chance alone */
    double most[2]; /* the two highest */
};

static double bets_of(const struct muster_seat *seat, unsigned bet, double *won)
{
    *won = bet ? seat->far[bet - 1] : seat->hits;
    return bet ? seat->slices : seat->windows;
}

static void rates_add(struct rates *rates, double rate, double bets, double sign)
{
    rates->ranks += sign;
    rates->sum += sign * rate;
    rates->squares += sign * rate * rate;
    rates->chance += sign * rate * (1 - rate) / bets;
}

static void rates_count(struct rates rates[BETS], const struct muster_seat *seat)
{
    for (unsigned b = 0; b < BETS && !seat->culprit; b++) {
        double won, bets = bets_of(seat, b, &won), rate = won / bets;
        if (bets > 0) {
            rates_add(&rates[b], rate, bets, 1);
            rates[b].most[1] = fmax(rates[b].most[1], fmin(rate, rates[b].most[0]));
            rates[b].most[0] = fmax(rates[b].most[0], rate);
        }
    }
}

/* Standard deviation of the other ranks' rates, beyond chance. The highest is left out: it may be
 * that of another one who is late. 0: of too few. */
static double apart(const struct rates *rates, const struct muster_seat *seat, unsigned bet)
{
    double won, bets = bets_of(seat, bet, &won);
    struct rates rest = *rates;
    if (bets == 0 || rest.ranks < APART_LEAST + 2)
        return 0;
    if (!seat->culprit)
        rates_add(&rest, won / bets, bets, -1);
    bool is_most = !seat->culprit && won / bets >= rest.most[0];
    rates_add(&rest, rest.most[is_most], bets, -1);
    double mean = rest.sum / rest.ranks;
    double square = (rest.squares - rest.sum * mean) / (rest.ranks - 1) - rest.chance / rest.ranks;
    return square > 0 ? sqrt(square) : 0;
}

/* Against the rate of others; of them so many count as one. `rates`: how far those are apart counts
 * as well; NULL: it does not. */
static double log_e_against(const struct muster_seat *seat, const struct muster_tally *others,
                            const struct rows *rows, double together, const struct rates *rates)
{
    double log_e[BETS], more[BETS] = {0};
    for (unsigned b = 0; b < BETS && rates; b++)
        more[b] = RATE_SIGMAS * apart(&rates[b], seat, b);
    double row = together * (rows->others ? rows->hit : 1);
    double p =
        fmin(RATE_MOST, more[0] + muster_rate_most(others->hits / row, others->windows / row));
    log_e[0] = muster_log_e(seat->hits / rows->hit, seat->windows / rows->hit, p);
    for (unsigned k = 0; k < MUSTER_FARS; k++) {
        row = together * (rows->others ? rows->far[k] : 1);
        p = fmin(RATE_MOST,
                 more[1 + k] + muster_rate_most(others->far[k] / row, others->slices / row));
        log_e[1 + k] = muster_log_e(seat->far[k] / rows->far[k], seat->slices / rows->far[k], p);
    }
    return log_mean(log_e, BETS);
}

/* ---- at each position the bets of the ranks of one host together: who is late there with its
 * whole host is held against the ranks of other hosts ---- */

/* The seats of one host at one position. */
struct host_tally {
    struct muster_tally tally; /* of those that are no culprits */
    uint32_t position, seats;
};

struct hosts {
    uint32_t *of_seat; /* of each seat its place in `host`; NULL: there is one host */
    struct host_tally *host;
    size_t hosts;
    uint32_t *seats;             /* of each position */
    struct rates (*rates)[BETS]; /* of each position */
};

/* Adds a seat that is no culprit. */
static void tally_add(struct muster_tally *tally, const struct muster_seat *seat)
{
    double count = seat->culprit ? 0 : 1;
    tally->hits += count * seat->hits;
    tally->windows += count * seat->windows;
    tally->slices += count * seat->slices;
    for (unsigned k = 0; k < MUSTER_FARS; k++)
        tally->far[k] += count * seat->far[k];
}

static struct muster_tally tally_without(const struct muster_tally *all,
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

static void place(struct hosts *hosts, const struct muster_graph *graph)
{
    struct muster_places places = {.memory = graph->memory};
    for (size_t s = 0; s < graph->seats && !graph->memory->failed; s++) {
        const struct muster_seat *seat = &graph->seat[s];
        uint64_t key = muster_hash_number(MUSTER_HASH_SEED, seat->position);
        uint32_t *at = muster_places_at(&places, muster_hash_number(key, graph->host[seat->gpu]));
        if (!*at) {
            struct host_tally *host =
                muster_arena_add(graph->memory, &hosts->host, &hosts->hosts, sizeof *host);
            *host = (struct host_tally){.position = seat->position};
            *at = (uint32_t)hosts->hosts;
        }
        if (!hosts->host) /* no memory for the first */
            return;
        hosts->of_seat[s] = *at - 1;
        hosts->host[*at - 1].seats++;
        hosts->seats[seat->position]++;
    }
}

/* Of a graph whose seats are counted, in its memory. Fails with it. */
static void make_hosts(struct hosts *hosts, const struct muster_graph *graph)
{
    struct muster_arena *memory = graph->memory;
    *hosts = (struct hosts){
        .rates = muster_arena_array(memory, graph->positions + 1, sizeof *hosts->rates)};
    if (memory->failed || !muster_graph_spans_hosts(graph))
        return;
    hosts->of_seat = muster_arena_array(memory, graph->seats + 1, sizeof *hosts->of_seat);
    hosts->seats = muster_arena_array(memory, graph->positions + 1, sizeof *hosts->seats);
    if (!memory->failed)
        place(hosts, graph);
}

/* Counts anew, as culprits are now. */
static void count_hosts(struct hosts *hosts, const struct muster_graph *graph)
{
    memset(hosts->rates, 0, graph->positions * sizeof *hosts->rates);
    for (size_t s = 0; s < graph->seats; s++)
        rates_count(hosts->rates[graph->seat[s].position], &graph->seat[s]);
    for (size_t h = 0; h < hosts->hosts; h++)
        hosts->host[h].tally = (struct muster_tally){0};
    for (size_t s = 0; s < graph->seats && hosts->of_seat; s++)
        tally_add(&hosts->host[hosts->of_seat[s]].tally, &graph->seat[s]);
}

/* Those of its host at a seat's position; NULL where it is alone there, or other hosts have fewer
 * ranks there than its own. */
static const struct host_tally *host_of(const struct hosts *hosts, size_t seat)
{
    if (!hosts->of_seat)
        return NULL;
    const struct host_tally *host = &hosts->host[hosts->of_seat[seat]];
    bool others = hosts->seats[host->position] >= 2 * host->seats;
    return host->seats > 1 && others ? host : NULL;
}

/* ---- evidence ---- */

/* Of stages that no other rank is like: of all, and of each GPU. */
struct stages {
    struct muster_tally all, *of_gpu;
};

static void count_stages(const struct muster_graph *graph, struct stages *stages)
{
    stages->all = (struct muster_tally){0};
    for (size_t g = 0; g < graph->view->gpus; g++)
        stages->of_gpu[g] = (struct muster_tally){0};
    for (size_t s = 0; s < graph->seats; s++) {
        const struct muster_seat *seat = &graph->seat[s];
        if (seat->stage) {
            tally_add(&stages->all, seat);
            tally_add(&stages->of_gpu[seat->gpu], seat);
        }
    }
}

/* Against all others at the position, and against those of other hosts where there are: who shares
 * a host that is late as a whole is late, too, and hides it. Culprits are no others. */
static double log_e_of(const struct muster_graph *graph, const struct hosts *hosts,
                       const struct stages *stages, size_t s, const struct all_rows *rows)
{
    const struct muster_seat *seat = &graph->seat[s];
    const struct muster_tally *all = &graph->position[seat->position].tally;
    struct muster_tally own = {0}, others;
    if (seat->stage) {
        others = tally_without(&stages->all, &stages->of_gpu[seat->gpu]);
        return log_e_against(seat, &others, &rows->others[seat->gpu], 1, NULL);
    }
    tally_add(&own, seat);
    others = tally_without(all, &own);
    const struct rates *rates = hosts->rates[seat->position];
    if (!muster_position_waits_for_host(&graph->position[seat->position]))
        rates = NULL;
    double log_e = log_e_against(seat, &others, &rows->others[seat->gpu], 1, rates);
    const struct host_tally *host = host_of(hosts, s);
    if (!host)
        return log_e;
    others = tally_without(all, &host->tally);
    const struct rows *other = &rows->other_hosts[seat->gpu];
    return log_mix(log_e, log_e_against(seat, &others, other, host->seats, NULL), HOST_STAKE);
}

static void set_evidence(struct muster_graph *graph, struct hosts *hosts, struct stages *stages,
                         const struct all_rows *rows)
{
    count_stages(graph, stages);
    for (size_t p = 0; p < graph->positions; p++)
        graph->position[p].tally = (struct muster_tally){0};
    for (size_t s = 0; s < graph->seats; s++)
        tally_add(&graph->position[graph->seat[s].position].tally, &graph->seat[s]);
    count_hosts(hosts, graph);
    for (size_t s = 0; s < graph->seats; s++)
        graph->seat[s].log_e = log_e_of(graph, hosts, stages, s, rows);
}

static int by_evidence(const void *left, const void *right)
{
    const double *a = left, *b = right;
    return *a > *b ? -1 : *a < *b;
}

double muster_least_e(double *log_e, size_t n, double false_share)
{
    double least = INFINITY;
    qsort(log_e, n, sizeof *log_e, by_evidence);
    for (size_t k = n; k > 0 && least == INFINITY; k--) {
        double demand = log((double)n / (false_share * (double)k));
        least = log_e[k - 1] >= demand ? log_e[k - 1] : least;
    }
    return least;
}

double muster_false_share(const struct muster_view *view)
{
    double k = (double)view->window;
    double share = view->window ? FALSE_SHARE / (k * (k + 1)) : FALSE_SHARE;
    bool chosen = view->chosen_of > view->gpus;
    return chosen ? share * (double)view->gpus / (double)view->chosen_of : share;
}

static void name_culprits(struct muster_graph *graph, double *sorted)
{
    size_t n = 0;
    for (size_t s = 0; s < graph->seats; s++)
        if (graph->seat[s].windows)
            sorted[n++] = graph->seat[s].log_e;
    double least = muster_least_e(sorted, n, muster_false_share(graph->view));
    for (size_t s = 0; s < graph->seats; s++)
        graph->seat[s].culprit = graph->seat[s].windows && graph->seat[s].log_e >= least;
}

void muster_seats_evaluate(struct muster_graph *graph)
{
    struct hosts hosts;
    struct all_rows rows;
    size_t gpus = graph->view->gpus;
    struct stages stages = {.of_gpu =
                                muster_arena_array(graph->memory, gpus + 1, sizeof *stages.of_gpu)};
    double *sorted = muster_arena_array(graph->memory, graph->seats + 1, sizeof *sorted);
    count_windows(graph);
    make_hosts(&hosts, graph);
    make_rows(&rows, graph);
    if (graph->memory->failed)
        return;
    for (unsigned round = 0; round < ROUNDS; round++) {
        set_rows(graph, &rows);
        set_evidence(graph, &hosts, &stages, &rows);
        name_culprits(graph, sorted);
    }
}
