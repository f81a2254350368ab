/* Source: the plugin's release notes. A range ends before the release that names the mending, and
 * begins with the one that brought what is broken, or with the first that was reported. */
#include "doctor/rules/known_plugin.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define ALGO   MUSTER_PLUGIN_ALGO_SET
#define DMABUF MUSTER_PLUGIN_DMABUF
#define MANY   MUSTER_PLUGIN_OVER_1000

#define FAILS "init_error hang_dead"
#define HANGS "hang_stuck hang_absent"
#define SLOW  "slow_transfer path_degraded"

const struct muster_known_plugin muster_known_plugin[] = {
    {11300, 12101, 1, 21700, 0, true, FAILS, "is too new for an NCCL before 2.17.1",
     "NCCL 2.17.1 or later, or aws-ofi-nccl 1.12.1"},
    {11000, 11000, 1, 21206, 0, true, HANGS,
     "waits for ever where NCCL before 2.12 opens connections", "upgrade NCCL, or to 1.11.0"},
    {11200, 11200, 0, 0, 0, true, "init_error hang_dead slow_transfer",
     "crashes or is slow with the driver of EFA installer 1.35 and later", "upgrade to 1.12.1"},
    {11300, 11301, 0, 0, DMABUF, true, "init_error hang_dead",
     "uses DMA-BUF, which EFA of the first three generations does badly",
     "upgrade to 1.14.2, or OFI_NCCL_DISABLE_DMABUF=1"},
    {11200, 11900, 0, 0, ALGO, true, "init_error",
     "crashes in its tuner where NCCL_ALGO or NCCL_PROTO is set",
     "unset them, or upgrade to 1.20.0"},
    {11000, 11701, 22803, 22899, 0, false, "init_error",
     "crashes with NCCL 2.28 where libfabric does not start", "upgrade to 1.17.2"},
    {10100, 10899, 0, 0, MANY, true, "init_error", "has room for 4096 communicators",
     "upgrade to 1.9.0"},
    {11901, 11901, 0, 0, 0, false, "wrong_result hang_stuck",
     "receives several messages at once wrongly", "upgrade to 1.19.2"},
    {12000, 12000, 0, 0, 0, false, "hang_stuck",
     "hangs now and then while it receives several small messages", "upgrade to 1.21.0"},
    {11601, 12000, 0, 0, 0, false, "init_error",
     "does not start where no network card is at a GPU's PCI level (\"invalid topo group size\")",
     "upgrade to 1.21.0"},
    {11800, 12000, 0, 0, 0, false, "hang_dead",
     "loses memory of the host with each communicator that ends", "upgrade to 1.21.0"},
    {11700, 11702, 0, 0, 0, false, "hang_dead", "loses memory of the host in long jobs",
     "upgrade to 1.17.3"},
    {10900, 11903, 0, 0, 0, false, HANGS,
     "loses errors of the network card, for which ranks wait then", "upgrade to 1.20.0"},
    {11000, 11699, 0, 0, 0, false, "hang_stuck", "can wait for itself while it registers memory",
     "upgrade to 1.17.0"},
    {10900, 11099, 0, 0, 0, false, "init_error", "crashes on instance types that it does not know",
     "upgrade to 1.11.0"},
    {10900, 10901, 21900, 22099, 0, false, SLOW,
     "does not give NCCL 2.19 and 2.20 its tuner, and slows registered buffers",
     "upgrade to 1.9.2"},
    {10800, 10800, 0, 0, 0, false, "hang_stuck init_error",
     "counts its connections wrongly, and waits for requests that failed", "upgrade to 1.8.1"},
    {10700, 10702, 0, 0, 0, false, SLOW, "keeps NCCL from LL and LL128 on P5", "upgrade to 1.7.3"},
    {10700, 10701, 0, 0, 0, false, "wrong_result hang_dead",
     "registers memory of the program by mistake, which fork() spoils on older kernels",
     "upgrade to 1.7.2"},
    {10600, 10799, 21904, 22099, 0, false, SLOW,
     "sends pieces of NVLSTree that are too large since NCCL 2.19.4", "upgrade to 1.8.0"},
};
const size_t muster_known_plugin_n = sizeof muster_known_plugin / sizeof *muster_known_plugin;

int muster_known_plugin_version(const char *text, size_t size)
{
    static const char mark[] = "aws-ofi-nccl ";
    for (const char *at = text, *end = text + size; at < end;) {
        const char *found = memmem(at, (size_t)(end - at), mark, sizeof mark - 1);
        char number[24] = "";
        unsigned major, minor, patch = 0;
        if (!found)
            return 0;
        at = found + sizeof mark - 1;
        size_t left = (size_t)(end - at);
        memcpy(number, at, left < sizeof number - 1 ? left : sizeof number - 1);
        number[strspn(number, "0123456789.")] = '\0';
        if (isdigit((unsigned char)number[0]) &&
            sscanf(number, "%2u.%2u.%2u", &major, &minor, &patch) >= 2)
            return (int)(major * 10000 + minor * 100 + patch);
    }
    return 0;
}

bool muster_known_plugin_holds(const struct muster_known_plugin *bug, int version, int nccl,
                               unsigned has)
{
    bool beside = bug->nccl_last == 0 || (nccl >= bug->nccl_first && nccl <= bug->nccl_last);
    return version >= bug->first && version <= bug->last && beside && (bug->needs & ~has) == 0;
}

/* Whether one of `words`, which blanks separate, is among `symptoms`. */
static bool meets(const char *words, const char *symptoms)
{
    char text[128], *rest;
    if (!symptoms)
        return true;
    snprintf(text, sizeof text, "%s", words);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        if (strstr(symptoms, word))
            return true;
    return false;
}

const struct muster_known_plugin *muster_known_plugin_pick(int version, int nccl, unsigned has,
                                                           const char *symptoms, bool sure)
{
    const struct muster_known_plugin *best = NULL;
    for (size_t i = 0; i < muster_known_plugin_n; i++) {
        const struct muster_known_plugin *bug = &muster_known_plugin[i];
        if (bug->sure != sure || !muster_known_plugin_holds(bug, version, nccl, has) ||
            !meets(bug->shows, symptoms))
            continue;
        if (!best || bug->last - bug->first < best->last - best->first)
            best = bug;
    }
    return best;
}
