/* Which operations get GPU times. The numbers stand in segments and logs: append only. */
#ifndef MUSTER_CONFIG_TIMING_H
#define MUSTER_CONFIG_TIMING_H

enum muster_timing {
    MUSTER_TIMING_AUTO,
    MUSTER_TIMING_FULL,
    MUSTER_TIMING_LIGHT,
    MUSTER_TIMING_CHANNELS
};

#endif
