#include "base/pcie.h"

#include <stddef.h>
#include <string.h>

const char *muster_p2p_name(int p2p)
{
    static const char *const words[MUSTER_P2P_WORDS] = {
        "unknown",
        "ok",
        "chipset not supported",
        "GPU not supported",
        "IO hub topology not supported",
        "disabled by registry key",
        "not supported",
        "refused for an unknown reason",
    };
    return p2p >= 0 && p2p < MUSTER_P2P_WORDS ? words[p2p] : words[0];
}

const char *muster_path_class_name(unsigned class)
{
    static const char *const words[MUSTER_PATH_CLASSES] = {
        [MUSTER_PATH_SELF] = "X",  [MUSTER_PATH_NVLINK] = "NV", [MUSTER_PATH_PIX] = "PIX",
        [MUSTER_PATH_PXB] = "PXB", [MUSTER_PATH_PHB] = "PHB",   [MUSTER_PATH_NODE] = "NODE",
        [MUSTER_PATH_SYS] = "SYS", [MUSTER_PATH_UNKNOWN] = "?",
    };
    return class < MUSTER_PATH_CLASSES ? words[class] : words[MUSTER_PATH_UNKNOWN];
}

enum muster_path_class muster_path_level(const char *word)
{
    static const struct {
        const char *word;
        enum muster_path_class class;
    } levels[] = {
        {"LOC", MUSTER_PATH_SELF},   {"NVL", MUSTER_PATH_NVLINK}, {"NVB", MUSTER_PATH_NVLINK},
        {"C2C", MUSTER_PATH_NVLINK}, {"PIX", MUSTER_PATH_PIX},    {"PXB", MUSTER_PATH_PXB},
        {"P2C", MUSTER_PATH_PXB},    {"PXN", MUSTER_PATH_PXB},    {"PHB", MUSTER_PATH_PHB},
        {"SYS", MUSTER_PATH_SYS},
    };
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (strcmp(word, levels[i].word) == 0)
            return levels[i].class;
    return MUSTER_PATH_UNKNOWN;
}
