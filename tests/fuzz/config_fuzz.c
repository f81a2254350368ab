/* Configuration from hostile bytes: either it is refused with a place and the defaults hold, or
 * what was read is within its ranges. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct muster_settings settings, defaults;
    struct muster_err err = {""};
    memset(&settings, 0, sizeof(settings));
    muster_settings_default(&defaults);
    if (muster_settings_parse(&settings, "fuzz", (const char *)data, size, &err) != 0) {
        require(strncmp(err.text, "fuzz:", 5) == 0 && strlen(err.text) > 7);
        require(strcmp(settings.dir, defaults.dir) == 0);
        require(settings.log_max == defaults.log_max);
        return 0;
    }
    require(err.text[0] == '\0');
    require(strlen(settings.dir) < sizeof(settings.dir));
    require(strlen(settings.segment_dir) < sizeof(settings.segment_dir));
    require(strlen(settings.trace) < sizeof(settings.trace));
    require(settings.timing >= 0 && settings.timing <= MUSTER_TIMING_LIGHT);
    require(settings.log_level >= 0 && settings.log_level <= 3);
    require(settings.log_max >= 64u << 10);
    return 0;
}
