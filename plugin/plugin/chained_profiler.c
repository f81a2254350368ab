#include <pthread.h>

#include "base/log.h"
#include "chain/chain.h"
#include "nccl/profiler_hooks.h"

const struct nccl_profiler_beside *muster_plugin_beside(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const struct nccl_profiler_beside *beside;
    static bool decided;
    const struct muster_settings *settings = muster_plugin_settings();
    struct muster_err err;
    pthread_mutex_lock(&lock);
    if (!decided && settings->chain[0] && !(beside = muster_chain_open(settings->chain, &err)))
        muster_log(MUSTER_LOG_WARN, "MUSTER_CHAIN: %s: muster goes on without it", err.text);
    decided = true;
    pthread_mutex_unlock(&lock);
    return beside;
}
