#include "run/beside_work.h"

#include <sched.h>

static bool permitted;

void muster_beside_permit(void)
{
    cpu_set_t own;
    permitted = sched_getaffinity(0, sizeof(own), &own) != 0 || CPU_COUNT(&own) > 1;
}

bool muster_beside_is_permitted(void)
{
    return permitted;
}

static void *run(void *arg)
{
    const struct muster_beside *beside = arg;
    beside->work(beside->arg);
    return NULL;
}

void muster_beside_begin(struct muster_beside *beside, void (*work)(void *arg), void *arg)
{
    *beside = (struct muster_beside){.work = work, .arg = arg};
    beside->started = permitted && pthread_create(&beside->thread, NULL, run, beside) == 0;
}

void muster_beside_end(struct muster_beside *beside)
{
    if (beside->started)
        pthread_join(beside->thread, NULL);
    else
        beside->work(beside->arg);
}
