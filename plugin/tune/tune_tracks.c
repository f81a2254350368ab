#include "tune/tune_tracks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"

int muster_tune_tracks_begin(struct muster_tune_tracks *tracks,
                             const struct muster_tune_sample *base)
{
    tracks->track = calloc(base->points + 1, sizeof *tracks->track);
    tracks->n = tracks->track ? base->points : 0;
    for (size_t i = 0; i < tracks->n; i++) {
        tracks->track[i].class = base->point[i].class;
        tracks->track[i].base = base->point[i].choice;
        tracks->track[i].ops = base->point[i].ops;
    }
    if (tracks->track)
        muster_tune_add_base(tracks, base);
    return tracks->track ? 0 : -1;
}

void muster_tune_tracks_free(struct muster_tune_tracks *tracks)
{
    free(tracks->track);
    *tracks = (struct muster_tune_tracks){.track = NULL};
}

void muster_tune_add_base(struct muster_tune_tracks *tracks, const struct muster_tune_sample *base)
{
    for (size_t i = 0; i < tracks->n; i++) {
        struct muster_tune_track *track = &tracks->track[i];
        const struct muster_tune_point *point = muster_tune_find(base, &track->class);
        if (point && track->bases < MUSTER_TUNE_BASES)
            track->base_us[track->bases++] = point->us;
        if (point && point->beat_us > 0 && track->base_beats < MUSTER_TUNE_BASES)
            track->base_beat_us[track->base_beats++] = point->beat_us;
    }
}

static double median_of(const double *value, unsigned n)
{
    double sorted[MUSTER_TUNE_BASES];
    memcpy(sorted, value, n * sizeof *sorted);
    return muster_tune_median(sorted, n);
}

static bool same(const struct muster_tune_choice *a, const struct muster_tune_choice *b)
{
    return a->algo == b->algo && a->proto == b->proto && a->channels == b->channels;
}

/* Whether the operations ran as the rule wants them, and not as they do without it. How many
 * channels NCCL makes of a wish is its own affair. */
static bool took_effect(const struct muster_tune_track *track,
                        const struct muster_tune_choice *wanted,
                        const struct muster_tune_choice *ran)
{
    if (same(ran, &track->base))
        return false;
    uint8_t algo = wanted->algo ? wanted->algo : track->base.algo;
    uint8_t proto = wanted->proto ? wanted->proto : track->base.proto;
    return ran->algo == algo && ran->proto == proto;
}

static double point_us(const struct muster_tune_point *point, enum muster_measure by)
{
    return by == MUSTER_MEASURE_BEAT ? point->beat_us : point->us;
}

/* The median of the runs without a policy so far. */
static double base_us(const struct muster_tune_track *track, enum muster_measure by)
{
    return by == MUSTER_MEASURE_BEAT ? median_of(track->base_beat_us, track->base_beats)
                                     : median_of(track->base_us, track->bases);
}

static double screened_ratio(const struct muster_tune_track *track,
                             const struct muster_tune_lane *lane)
{
    return lane->screened_us / base_us(track, lane->by);
}

/* Into its place among the best; one that does the same by fewer words stays. */
static void offer(struct muster_tune_track *track, const struct muster_tune_lane *option)
{
    for (unsigned i = 0; i < MUSTER_TUNE_LANES; i++) {
        struct muster_tune_lane *lane = &track->lane[i];
        bool used = lane->choice.algo || lane->choice.channels;
        if (used && same(&lane->ran, &option->ran))
            return;
        if (used && screened_ratio(track, lane) <= screened_ratio(track, option))
            continue;
        memmove(lane + 1, lane, (MUSTER_TUNE_LANES - 1 - i) * sizeof *lane);
        *lane = *option;
        return;
    }
}

/* What a run showed of a class that ran as the candidate wants. */
static void evaluate(struct muster_tune_screened *seen, struct muster_tune_track *track,
                     const struct muster_tune_choice *wanted, const struct muster_tune_point *point)
{
    bool beats = track->base_beats && point->beat_us > 0;
    struct muster_tune_lane option = {
        .choice = *wanted,
        .ran = point->choice,
        .by = muster_measure_of(beats, track->base.algo, point->choice.algo)};
    seen->ran++;
    if (option.by == MUSTER_MEASURE_NONE) {
        track->unevaluated = true;
        return;
    }
    option.screened_us = point_us(point, option.by);
    double ratio = screened_ratio(track, &option);
    seen->evaluated++;
    seen->quicker += ratio < 1;
    if (ratio < seen->best) {
        seen->best = ratio;
        seen->best_class = track->class;
    }
    offer(track, &option);
}

struct muster_tune_screened muster_tune_screen(struct muster_tune_tracks *tracks,
                                               const struct muster_tune_sample *sample,
                                               const struct muster_tune_rule *rule, size_t rules)
{
    struct muster_tune_screened seen = {.best = INFINITY};
    for (size_t i = 0, r = 0; i < tracks->n && r < rules; i++) {
        struct muster_tune_track *track = &tracks->track[i];
        if (!muster_tune_same_class(&rule[r].class, &track->class))
            continue;
        const struct muster_tune_choice *wanted = &rule[r++].choice;
        const struct muster_tune_point *point = muster_tune_find(sample, &track->class);
        if (point && took_effect(track, wanted, &point->choice))
            evaluate(&seen, track, wanted, point);
    }
    return seen;
}

void muster_tune_settle(struct muster_tune_tracks *tracks)
{
    for (size_t i = 0; i < tracks->n; i++) {
        struct muster_tune_track *track = &tracks->track[i];
        for (unsigned l = 0; l < MUSTER_TUNE_LANES; l++)
            track->lane[l].out |= !(screened_ratio(track, &track->lane[l]) < 1);
    }
}

size_t muster_tune_unevaluated(const struct muster_tune_tracks *tracks)
{
    size_t n = 0;
    for (size_t i = 0; i < tracks->n; i++)
        n += tracks->track[i].unevaluated;
    return n;
}

bool muster_tune_any_ran(const struct muster_tune_sample *sample, uint32_t combinations)
{
    for (size_t i = 0; i < sample->points; i++) {
        const struct muster_tune_choice *ran = &sample->point[i].choice;
        if (muster_policy_combination(ran->algo, ran->proto) & combinations)
            return true;
    }
    return false;
}

/* ---- rules ---- */

static bool has(const struct muster_tune_track *track, const struct muster_tune_choice *choice)
{
    return muster_policy_available(track->class.func) &
           muster_policy_combination(choice->algo, choice->proto);
}

size_t muster_tune_rules_forced(const struct muster_tune_tracks *tracks,
                                const struct muster_tune_choice *choice,
                                struct muster_tune_rule *rule)
{
    size_t n = 0;
    for (size_t i = 0; i < tracks->n; i++) {
        const struct muster_tune_track *track = &tracks->track[i];
        bool own = track->base.algo == choice->algo && track->base.proto == choice->proto;
        if (has(track, choice) && !own)
            rule[n++] = (struct muster_tune_rule){.class = track->class, .choice = *choice};
    }
    return n;
}

size_t muster_tune_rules_halved(const struct muster_tune_tracks *tracks,
                                const struct muster_tune_sample *sample, bool own,
                                struct muster_tune_rule *rule)
{
    size_t n = 0;
    for (size_t i = 0; i < tracks->n; i++) {
        const struct muster_tune_track *track = &tracks->track[i];
        const struct muster_tune_point *point = muster_tune_find(sample, &track->class);
        if (!point || point->choice.channels < 2 || (!own && same(&point->choice, &track->base)))
            continue;
        struct muster_tune_choice choice = {.channels = point->choice.channels / 2};
        if (!own) {
            choice.algo = point->choice.algo;
            choice.proto = point->choice.proto;
        }
        rule[n++] = (struct muster_tune_rule){.class = track->class, .choice = choice};
    }
    return n;
}

static bool is_used(const struct muster_tune_lane *lane)
{
    return (lane->choice.algo || lane->choice.channels) && !lane->out;
}

size_t muster_tune_rules_lane(const struct muster_tune_tracks *tracks, unsigned lane,
                              struct muster_tune_rule *rule)
{
    size_t n = 0;
    for (size_t i = 0; i < tracks->n; i++) {
        const struct muster_tune_track *track = &tracks->track[i];
        if (is_used(&track->lane[lane])) {
            rule[n++] = (struct muster_tune_rule){.class = track->class,
                                                  .choice = track->lane[lane].choice};
        }
    }
    return n;
}

static bool is_proven(const struct muster_tune_lane *lane, struct muster_tune_interval *interval)
{
    muster_tune_interval(lane->log_ratio, lane->n, interval);
    return is_used(lane) && lane->n >= MUSTER_TUNE_PAIRS && interval->high < MUSTER_TUNE_WORTH;
}

static struct muster_tune_rule proven_rule(const struct muster_tune_track *track,
                                           const struct muster_tune_lane *lane,
                                           const struct muster_tune_interval *interval)
{
    return (struct muster_tune_rule){
        .class = track->class,
        .choice = lane->choice,
        .proven = true,
        .evidence = {.before = track->base,
                     .after = lane->ran,
                     .by = lane->by,
                     .before_us = base_us(track, lane->by),
                     .after_us = median_of(lane->with_us, lane->n),
                     .ops = track->ops,
                     .interval = *interval},
    };
}

size_t muster_tune_rules_proven(const struct muster_tune_tracks *tracks,
                                struct muster_tune_rule *rule)
{
    size_t n = 0;
    for (size_t i = 0; i < tracks->n; i++) {
        const struct muster_tune_track *track = &tracks->track[i];
        double best = INFINITY;
        for (unsigned l = 0; l < MUSTER_TUNE_LANES && !track->harms; l++) {
            struct muster_tune_interval interval;
            if (!is_proven(&track->lane[l], &interval) || interval.ratio >= best)
                continue;
            n -= best < INFINITY; /* a better one takes the place */
            rule[n++] = proven_rule(track, &track->lane[l], &interval);
            best = interval.ratio;
        }
    }
    return n;
}

/* ---- pairs ---- */

static void add_pair(struct muster_tune_lane *lane, const struct muster_tune_point *without,
                     const struct muster_tune_point *with)
{
    struct muster_tune_interval interval;
    lane->ran = with->choice;
    lane->with_us[lane->n] = point_us(with, lane->by);
    lane->log_ratio[lane->n++] = log(point_us(with, lane->by) / point_us(without, lane->by));
    muster_tune_interval(lane->log_ratio, lane->n, &interval);
    lane->out = lane->n >= MUSTER_TUNE_PAIRS && interval.low >= MUSTER_TUNE_WORTH;
}

/* Whether both show the time that the lane is evaluated by. */
static bool comparable(const struct muster_tune_lane *lane, const struct muster_tune_point *without,
                       const struct muster_tune_point *with)
{
    return muster_measure_of(lane->by == MUSTER_MEASURE_BEAT, without->choice.algo,
                             with->choice.algo) == lane->by &&
           point_us(without, lane->by) > 0 && point_us(with, lane->by) > 0;
}

void muster_tune_pair(struct muster_tune_tracks *tracks, unsigned lane,
                      const struct muster_tune_sample *without,
                      const struct muster_tune_sample *with)
{
    for (size_t i = 0; i < tracks->n; i++) {
        struct muster_tune_track *track = &tracks->track[i];
        struct muster_tune_lane *own = &track->lane[lane];
        const struct muster_tune_point *a = muster_tune_find(without, &track->class);
        const struct muster_tune_point *b = muster_tune_find(with, &track->class);
        if (is_used(own) && own->n < MUSTER_TUNE_ROUNDS && a && b && comparable(own, a, b) &&
            took_effect(track, &own->choice, &b->choice)) {
            add_pair(own, a, b);
        }
    }
}

void muster_tune_forbid(struct muster_tune_tracks *tracks, const struct muster_tune_class *class)
{
    for (size_t i = 0; i < tracks->n; i++)
        tracks->track[i].harms |= muster_tune_same_class(&tracks->track[i].class, class);
}

void muster_tune_drop(struct muster_tune_tracks *tracks, unsigned lane)
{
    for (size_t i = 0; i < tracks->n; i++)
        tracks->track[i].lane[lane].out = true;
}

size_t muster_tune_open(const struct muster_tune_tracks *tracks, unsigned lane)
{
    size_t n = 0;
    for (size_t i = 0; i < tracks->n; i++) {
        struct muster_tune_interval interval;
        const struct muster_tune_lane *own = &tracks->track[i].lane[lane];
        n += is_used(own) && !is_proven(own, &interval) && own->n < MUSTER_TUNE_ROUNDS;
    }
    return n;
}
