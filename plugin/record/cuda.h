/*
 * The CUDA driver's functions that timing needs, looked up in the running process (plugin/
 * nccl_process.c) or made by a test. All return 0 for success.
 */
#ifndef MUSTER_RECORD_CUDA_H
#define MUSTER_RECORD_CUDA_H

enum {
    MUSTER_CUDA_NOT_READY = 600,
    MUSTER_CUDA_EVENT_DEFAULT = 0,
    MUSTER_CUDA_EVENT_DISABLE_TIMING = 2,
    MUSTER_CUDA_CAPTURE_RELAXED = 2,
    MUSTER_CUDA_NOT_CAPTURING = 0,
};

struct muster_cuda {
    int (*ctx_get_current)(void **context);
    int (*ctx_set_current)(void *context);
    /* Differs after cudaDeviceReset, where the pointer stays the same (CUDA 12.0). */
    int (*ctx_get_id)(void *context, unsigned long long *id);
    int (*event_create)(void **event, unsigned flags);
    int (*event_record)(void *event, void *stream);
    int (*event_query)(void *event);                       /* 600: not over yet */
    int (*event_elapsed)(float *ms, void *from, void *to); /* 600: one is not over yet */
    int (*stream_is_capturing)(void *stream, int *status);
    int (*exchange_capture_mode)(int *mode);
};

#endif
