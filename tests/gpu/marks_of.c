/*
 * marks_of DIR: completion marks of a run's communicators, also while it runs: a line "PID ID
 * launches marked ended" for each that launched something. A mark is outstanding where `ended` is
 * less than `marked`.
 */
#include <inttypes.h>
#include <stdio.h>

#include "run/run.h"

static void print_marks(const struct muster_process *process)
{
    for (unsigned i = 0; process->segment && i < MUSTER_SEG_COMMS; i++) {
        const struct muster_seg_comm *comm = &process->segment->comm[i];
        uint64_t launches = atomic_load(&comm->launches);
        if (comm->uid != 0 && launches != 0)
            printf("%" PRIu32 " %" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
                   process->identity.pid, comm->id, launches, atomic_load(&comm->launches_probed),
                   atomic_load(&comm->launches_ended));
    }
}

int main(int argc, char **argv)
{
    struct muster_run run;
    struct muster_err err;
    if (argc != 2) {
        fputs("usage: marks_of DIR\n", stderr);
        return 2;
    }
    const char *dir = argv[1];
    struct muster_run_query query = {.run = &dir, .runs = 1};
    if (muster_run_load(&query, &run, &err)) {
        fprintf(stderr, "marks_of: %s\n", err.text);
        return 1;
    }
    for (size_t i = 0; i < run.processes; i++)
        print_marks(&run.process[i]);
    muster_run_free(&run);
    return 0;
}
