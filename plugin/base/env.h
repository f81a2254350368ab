/* Environment variables. Not while another thread may change them. */
#ifndef MUSTER_BASE_ENV_H
#define MUSTER_BASE_ENV_H

#include <stdlib.h>

/* Its value; NULL where it is not set or empty: shells make it hard to remove one for a command. */
static inline const char *muster_env(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

#endif
