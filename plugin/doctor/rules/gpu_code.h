/*
 * For which GPUs a library holds code: the headers of the CUDA binaries in its bytes. These name an
 * architecture (90: compute capability 9.0) and whether it is code of that one or PTX, which the
 * driver compiles for any later one. Pure.
 */
#ifndef MUSTER_DOCTOR_RULES_GPU_CODE_H
#define MUSTER_DOCTOR_RULES_GPU_CODE_H

#include <stdbool.h>
#include <stddef.h>

enum { MUSTER_GPU_CODES = 32 };

struct muster_gpu_code {
    int at[MUSTER_GPU_CODES]; /* ascending */
    int n;
    int ptx; /* the lowest of which there is PTX; 0: none */
};

/* Of a whole file. `code->n` and `ptx` 0: there is none, or it is written as nobody knows. */
void muster_gpu_code_read(const char *bytes, size_t n, struct muster_gpu_code *code);
/* Whether a GPU of a compute capability can run it: code of its major version, not of a later minor
 * one, or PTX of an earlier one. */
bool muster_gpu_code_runs(const struct muster_gpu_code *code, int major, int minor);
/* "70, 80 and 90"; "" where there is none. */
void muster_gpu_code_text(const struct muster_gpu_code *code, char *to, size_t size);

#endif
