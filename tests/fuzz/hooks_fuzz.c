/* A line of a findings file of any bytes: what is read is a kind that exists, the same line is the
 * same finding, and a claim of it is taken once. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/hook_claim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[64];

static void leave(void)
{
    rmdir(dir);
}

static void expect_one_claim(uint64_t finding, unsigned times)
{
    char path[128];
    bool first = muster_hook_claim(dir, finding, times);
    bool second = muster_hook_claim(dir, finding, times);
    snprintf(path, sizeof path, "%s/.hook-%016llx-%u", dir, (unsigned long long)finding, times);
    if (!first || second || unlink(path) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct muster_hook_line line, again;
    if (!dir[0]) {
        strcpy(dir, "/dev/shm/muster-fuzz-XXXXXX");
        if (!mkdtemp(dir))
            abort();
        atexit(leave);
    }
    if (!muster_hook_line_read(&line, (const char *)data, size))
        return 0;
    if ((unsigned)line.kind >= MUSTER_FINDING_KINDS ||
        !muster_hook_line_read(&again, (const char *)data, size) || again.finding != line.finding)
        abort();
    expect_one_claim(line.finding, (unsigned)size);
    return 0;
}
