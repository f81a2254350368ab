#include "tune/tune_stats.h"

#include <math.h>

#include "base/sort.h"

/* Two-sided 95 % quantile of Student's t. */
static double quantile(unsigned freedom)
{
    static const double table[] = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646,
                                   2.3060,  2.2622, 2.2281, 2.2010, 2.1788, 2.1604, 2.1448,
                                   2.1314,  2.1199, 2.1098, 2.1009, 2.0930, 2.0860};
    enum { KNOWN = sizeof table / sizeof *table };
    return table[(freedom < KNOWN ? freedom : KNOWN) - 1];
}

void muster_tune_interval(const double *log_ratio, unsigned n,
                          struct muster_tune_interval *interval)
{
    double sum = 0, squares = 0;
    *interval = (struct muster_tune_interval){.ratio = 1, .high = INFINITY, .n = n};
    for (unsigned i = 0; i < n; i++)
        sum += log_ratio[i];
    double mean = n ? sum / n : 0;
    interval->ratio = exp(mean);
    if (n < 2)
        return;
    for (unsigned i = 0; i < n; i++)
        squares += (log_ratio[i] - mean) * (log_ratio[i] - mean);
    double half = quantile(n - 1) * sqrt(squares / (n - 1) / n);
    interval->low = exp(mean - half);
    interval->high = exp(mean + half);
}

double muster_tune_median(double *value, size_t n)
{
    if (!n)
        return 0;
    muster_sort_double(value, n);
    return n % 2 ? value[n / 2] : (value[n / 2 - 1] + value[n / 2]) / 2;
}
