/*
 * As much of a CUDA driver as event timing can notice, on no GPU: contexts that are reset under the
 * same address, streams that take time, events that order, fail and die as CUDA's do. Built as
 * libcuda.so.1; the program that plays the job reaches the job's side of it, below, by dlsym of
 * `fake_driver`.
 *
 * What a real driver answers with a crash ends the process with a line and FAKE_DRIVER_CRASH: an
 * event or a stream that was destroyed, or that died with its context. So does what would spoil
 * somebody else's work: a call that a capture in progress does not stand, an event recorded into a
 * graph.
 *
 * Times are the host's monotonic clock: work of `ns` on a stream ends ns after the later of its
 * launch and the stream's earlier work.
 */
#ifndef MUSTER_TESTS_HOST_CUDA_FAKE_DRIVER_H
#define MUSTER_TESTS_HOST_CUDA_FAKE_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

enum { FAKE_DRIVER_CRASH = 98 };

/* CUDA's codes, as far as they are given here. */
enum fake_driver_code {
    FAKE_OK = 0,
    FAKE_INVALID_VALUE = 1,
    FAKE_NO_CONTEXT = 201,
    FAKE_INVALID_HANDLE = 400,
    FAKE_NOT_READY = 600,
    FAKE_CAPTURE_IMPLICIT = 906, /* asked about the legacy stream while another is captured */
    FAKE_ASSERT = 710,           /* sticky: every later call in that context gives it */
};

struct fake_driver_use {
    uint64_t events_alive, created, recorded, queried, elapsed;
    uint64_t recorded_on[16]; /* by device */
};

struct fake_driver {
    /* A device's context, made at the first call; becomes the thread's current one. */
    void *(*use_device)(unsigned device);
    /* cudaDeviceReset: everything in the context dies; its address stays, its id does not. */
    void (*reset)(unsigned device);
    /* A device-side assertion: from now on every call in the context fails. */
    void (*assert_on)(unsigned device);
    void *(*stream_create)(unsigned device);
    void (*stream_destroy)(void *stream);
    void (*launch)(void *stream, uint64_t ns); /* nothing while the stream is being captured */
    void (*sync)(void *stream);                /* until all of that is over */
    void (*capture)(void *stream, bool on);    /* begins or ends one, in the global mode */
    /* The next `times` calls of the driver function of this name give `code`. */
    void (*fail_next)(const char *function, int code, unsigned times);
    struct fake_driver_use (*use)(void);
};

#endif
