#include "cli/tune_tracks.h"

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
    if (tracks->track) {
        muster_tune_add_base(tracks, base);
    }
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
        if (point && track->bases < MUSTER_TUNE_BASES) {
            track->base_us[track->bases++] = point->us;
        }
        if (point && point->beat_us > 0 && track->base_beats < MUSTER_TUNE_BASES) {
            track->base_beat_us[track->base_beats++] = point->beat_us;
        }
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
    if (same(ran, &track->base)) {
        return false;
    }
    uint8_t algo = wanted->algo ? wanted->algo : track->base.algo;
    uint8_t proto = wanted->proto ? wanted->proto : track->base.proto;
    return ran->algo == algo && ran->proto == proto;
}

/* Into its place among the best; one that does the same by fewer words stays. */
static void offer(struct muster_tune_track *track, const struct muster_tune_lane *option)
{
    for (unsigned i = 0; i < MUSTER_TUNE_LANES; i++) {
        struct muster_tune_lane *lane = &track->lane[i];
        bool used = lane->choice.algo || lane->choice.channels;
        if (used && same(&lane->ran, &option->ran)) {
            return;
        }
        if (used && lane->screened <= option->screened) {
            continue;
        }
        memmove(lane + 1, lane, (MUSTER_TUNE_LANES - 1 - i) * sizeof *lane);
        *lane = *option;
        return;
    }
}

/* Of one run to those without a policy. Operations that only seem quicker count as slow as they
 * make the job. */
static double screened_ratio(const struct muster_tune_track *track,
                             const struct muster_tune_point *point)
{
    double ratio = point->us / median_of(track->base_us, track->bases);
    if (point->beat_us > 0 && track->base_beats) {
        double beat = point->beat_us / median_of(track->base_beat_us, track->base_beats);
        if (beat > MUSTER_TUNE_BEAT && beat > ratio) {
            return beat;
        }
    }
    return ratio;
}

struct muster_tune_screened muster_tune_screen(struct muster_tune_tracks *tracks,
                                               const struct muster_tune_sample *sample,
                                               const struct muster_tune_rule *rule, size_t rules)
{
    struct muster_tune_screened seen = {.best = INFINITY};
    for (size_t i = 0, r = 0; i < tracks->n && r < rules; i++) {
        struct muster_tune_track *track = &tracks->track[i];
        if (!muster_tune_same_class(&rule[r].class, &track->class)) {
            continue;
        }
        struct muster_tune_lane option = {.choice = rule[r++].choice};
        const struct muster_tune_point *point = muster_tune_find(sample, &track->class);
        if (!point || !took_effect(track, &option.choice, &point->choice)) {
            continue;
        }
        seen.ran++;
        option.ran = point->choice;
        option.screened = screened_ratio(track, point);
        if (option.screened < seen.best) {
            seen.best = option.screened;
            seen.best_class = track->class;
        }
        if (option.screened < 1) {
            seen.quicker++;
            offer(track, &option);
        }
    }
    return seen;
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
        if (has(track, choice) && !own) {
            rule[n++] = (struct muster_tune_rule){.class = track->class, .choice = *choice};
        }
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
        if (!point || point->choice.channels < 2 || (!own && same(&point->choice, &track->base))) {
            continue;
        }
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
                     .before_us = median_of(track->base_us, track->bases),
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
        for (unsigned l = 0; l < MUSTER_TUNE_LANES; l++) {
            struct muster_tune_interval interval;
            if (!is_proven(&track->lane[l], &interval) || interval.ratio >= best) {
                continue;
            }
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
    struct muster_tune_interval interval, beat;
    lane->ran = with->choice;
    lane->with_us[lane->n] = with->us;
    lane->log_ratio[lane->n++] = log(with->us / without->us);
    if (without->beat_us > 0 && with->beat_us > 0) {
        lane->log_beat[lane->beats++] = log(with->beat_us / without->beat_us);
    }
    muster_tune_interval(lane->log_ratio, lane->n, &interval);
    muster_tune_interval(lane->log_beat, lane->beats, &beat);
    lane->out =
        lane->n >= MUSTER_TUNE_PAIRS &&
        (interval.low >= MUSTER_TUNE_WORTH || (lane->beats >= MUSTER_TUNE_PAIRS && beat.low > 1));
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
        if (is_used(own) && own->n < MUSTER_TUNE_ROUNDS && a && b && a->us > 0 && b->us > 0 &&
            took_effect(track, &own->choice, &b->choice)) {
            add_pair(own, a, b);
        }
    }
}

void muster_tune_drop(struct muster_tune_tracks *tracks, unsigned lane)
{
    for (size_t i = 0; i < tracks->n; i++) {
        tracks->track[i].lane[lane].out = true;
    }
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
