/*
 * Who is late more often than chance lets the others be. For each rank at each position of the step
 * a bet is made in every window of time: that it is not late oftener than the other ranks are
 * there. What the bets win is evidence (an e-value): if the rank is like the others it exceeds x
 * with a probability of at most 1 / x, at any time, however often one looks (Ramdas et al.,
 * "Game-theoretic statistics and safe anytime-valid inference", 2023). e-BH over all of them keeps
 * the share of false ones below q under any dependence (Wang and Ramdas, 2022).
 */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_E_PROCESS_H
#define MUSTER_DIAGNOSE_STRAGGLER_E_PROCESS_H

#include "diagnose/straggler/job_graph.h"

/* Sets hits, windows, log_e and culprit of all seats. */
void muster_seats_evaluate(struct muster_graph *graph);

/* From how much on a unit is late: beyond what GPUs of a kind, and clocks, differ by. */
int64_t muster_seat_limit_ns(int64_t usual_ns);
/* The delay of one unit that is evidence by itself; host_ns: of its usual time, where its GPU
 * waited for its host. */
double muster_slice_limit_ns(double usual_ns, double host_ns);

/* log of the e-value of so many hits in so many windows, if p is the rate of the others. */
double muster_log_e(double hits, double windows, double p);

/* The rate of so many hits in n windows, at its highest that so few do not speak against. */
double muster_rate_most(double hits, double n);

/* The share of false ones among those named. Window k of a run that goes on may spend 1 / (k (k +
 * 1)) of it: so all of them, however many the job lives through, spend it once. Of a part that was
 * chosen by what it shows it is the part's share: whoever was not chosen is not late either. */
double muster_false_share(const struct muster_view *view);

/* e-BH: those of n whose log e-value is as high as this are named, the most of whom `false_share`
 * is kept; INFINITY: none. Sorts them. */
double muster_least_e(double *log_e, size_t n, double false_share);

#endif
