#include "doctor/rules/gpu_code.h"

#include <stdint.h>
#include <string.h>

#include "base/text.h"

/* A CUDA binary as nvcc writes it since CUDA 4: a header of 16 bytes with the length of what
 * follows, which is entries, each with its kind, the length of its header and of its content, and
 * its architecture. */
enum {
    BINARY_HEADER = 16,
    ENTRY_LEAST = 32,
    ENTRY_MOST = 4096,
    PTX = 1,
    MACHINE_CODE = 2,
    BINARIES = 64, /* a library has one a source file, alike */
    ARCHITECTURE_LEAST = 20,
    ARCHITECTURE_MOST = 999,
};

static uint32_t word(const char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t long_word(const char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static void add(struct muster_gpu_code *code, int architecture)
{
    int at = code->n;
    for (int i = 0; i < code->n; i++)
        if (code->at[i] == architecture)
            return;
    if (code->n == MUSTER_GPU_CODES)
        return;
    for (; at > 0 && code->at[at - 1] > architecture; at--)
        code->at[at] = code->at[at - 1];
    code->at[at] = architecture;
    code->n++;
}

static void read_entries(const char *at, size_t left, struct muster_gpu_code *code)
{
    while (left >= ENTRY_LEAST) {
        uint32_t kind = word(at) & 0xffff, header = word(at + 4), architecture = word(at + 28);
        uint64_t content = long_word(at + 8);
        bool known = architecture >= ARCHITECTURE_LEAST && architecture <= ARCHITECTURE_MOST;
        if (header < ENTRY_LEAST || header > ENTRY_MOST || header > left || content > left - header)
            return;
        if (known && kind == MACHINE_CODE)
            add(code, (int)architecture);
        if (known && kind == PTX && (!code->ptx || (int)architecture < code->ptx))
            code->ptx = (int)architecture;
        at += header + content;
        left -= header + (size_t)content;
    }
}

void muster_gpu_code_read(const char *bytes, size_t n, struct muster_gpu_code *code)
{
    static const char magic[] = {'\x50', '\xed', '\x55', '\xba'};
    size_t at = 0;
    *code = (struct muster_gpu_code){.n = 0};
    for (int seen = 0; seen < BINARIES && at < n; seen++) {
        const char *hit = memmem(bytes + at, n - at, magic, sizeof magic);
        if (!hit)
            return;
        at = (size_t)(hit - bytes);
        size_t left = n - at;
        bool whole = left >= BINARY_HEADER && word(hit + 4) == (BINARY_HEADER << 16 | 1) &&
                     long_word(hit + 8) <= left - BINARY_HEADER;
        if (whole)
            read_entries(hit + BINARY_HEADER, (size_t)long_word(hit + 8), code);
        at += whole ? BINARY_HEADER + (size_t)long_word(hit + 8) : sizeof magic;
    }
}

bool muster_gpu_code_runs(const struct muster_gpu_code *code, int major, int minor)
{
    for (int i = 0; i < code->n; i++)
        if (code->at[i] / 10 == major && code->at[i] % 10 <= minor)
            return true;
    return code->ptx && code->ptx <= major * 10 + minor;
}

void muster_gpu_code_text(const struct muster_gpu_code *code, char *to, size_t size)
{
    struct muster_text text = muster_text_begin(to, size);
    for (int i = 0; i < code->n; i++)
        muster_text_add(&text, "%s%d", muster_text_join((size_t)i, (size_t)code->n, " and "),
                        code->at[i]);
}
