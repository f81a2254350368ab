#include "demo/demo_recording.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* The assembler puts the files in: the same for every compiler and target, with no generated
 * source in between. */
#define RECORDING(rank)                                                                            \
    __asm__(".pushsection .rodata\n"                                                               \
            "muster_demo_rank" #rank ":\n"                                                         \
            ".incbin \"" MUSTER_DEMO_RECORDING "/rank-" #rank ".jsonl.xz\"\n"                      \
            "muster_demo_rank" #rank "_end:\n"                                                     \
            ".popsection\n");                                                                      \
    extern const unsigned char muster_demo_rank##rank[], muster_demo_rank##rank##_end[]

RECORDING(0);
RECORDING(1);
RECORDING(2);
RECORDING(3);

static const struct {
    const unsigned char *begin, *end;
} recordings[MUSTER_DEMO_RANKS] = {
    {muster_demo_rank0, muster_demo_rank0_end},
    {muster_demo_rank1, muster_demo_rank1_end},
    {muster_demo_rank2, muster_demo_rank2_end},
    {muster_demo_rank3, muster_demo_rank3_end},
};

static int write_file(const char *path, const unsigned char *begin, const unsigned char *end,
                      struct muster_err *err)
{
    const size_t bytes = (size_t)(end - begin);
    FILE *file = fopen(path, "wxe");
    if (!file)
        return muster_fail(err, "%s: %s", path, strerror(errno));
    size_t written = fwrite(begin, 1, bytes, file);
    if (fclose(file) || written != bytes)
        return muster_fail(err, "%s: %s", path, strerror(errno));
    return 0;
}

int muster_demo_recording_write(const char *folder, struct muster_err *err)
{
    char path[PATH_MAX];
    for (int rank = 0; rank < MUSTER_DEMO_RANKS; rank++) {
        int n = snprintf(path, sizeof path, "%s/rank-%d.jsonl.xz", folder, rank);
        if (n < 0 || (size_t)n >= sizeof path)
            return muster_fail(err, "%s: the name is too long", folder);
        if (write_file(path, recordings[rank].begin, recordings[rank].end, err))
            return -1;
    }
    return 0;
}
