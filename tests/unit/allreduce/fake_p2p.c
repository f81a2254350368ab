/*
 * The made-up driver's way between devices. Kernels are known by name and done on the host.
 *   FAKE_PAIR=A-B   writes of device A to memory of device B go wrong, the other way round does not
 *   FAKE_P2P=mirror    what A's kernels write goes to a mirror that only A sees
 *            flip      A's kernels write a wrong last word
 *            copy      the copy engine loses its last word
 *            hang, hang-copy    the kernel, the copy, never ends
 *            crash     the process dies in A's kernel
 *            refuse    cuMemcpyPeerAsync fails
 *            no-access no device may reach another
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_gpu.h"

int cuDeviceCanAccessPeer(int *can, int device, int peer);
int cuCtxEnablePeerAccess(void *context, unsigned flags);
int cuMemcpyPeerAsync(uint64_t to, void *to_context, uint64_t from, void *from_context,
                      size_t bytes, void *stream);
int cuDeviceGetPCIBusId(char *text, int size, int device);
int cuModuleLoadData(void **module, const void *ptx);
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **params, void **extra);

enum { WRITE = 1, VERIFY };

static bool goes_wrong(const char *how, int from, int to)
{
    const char *pair = getenv("FAKE_PAIR"), *is = getenv("FAKE_P2P");
    int a, b;
    return pair && is && strcmp(is, how) == 0 && sscanf(pair, "%d-%d", &a, &b) == 2 && a == from &&
           b == to;
}

EXPORT int cuDeviceCanAccessPeer(int *can, int device, int peer)
{
    const char *is = getenv("FAKE_P2P");
    *can = device != peer && !(is && strcmp(is, "no-access") == 0);
    return 0;
}

/* A second time is an error, as in the real one. */
EXPORT int cuCtxEnablePeerAccess(void *context, unsigned flags)
{
    static bool enabled[64][64];
    int to = (int)(intptr_t)context - 1, from = fake_current();
    if (flags || to < 0 || from < 0 || to > 63 || from > 63)
        return 1;
    if (enabled[from][to])
        return 704;
    enabled[from][to] = true;
    return 0;
}

EXPORT int cuMemcpyPeerAsync(uint64_t to, void *to_context, uint64_t from, void *from_context,
                             size_t bytes, void *stream)
{
    int a = fake_owner(from), b = fake_owner(to);
    if (!stream || a != (int)(intptr_t)from_context - 1 || b != (int)(intptr_t)to_context - 1)
        return 400;
    if (goes_wrong("refuse", a, b))
        return 719;
    if (goes_wrong("hang-copy", a, b))
        fake_stuck = true;
    const char *source = (const char *)(uintptr_t)from;
    char *target = (char *)(uintptr_t)to;
    if (memcmp(target, source, 4) == 0 && memcmp(target + bytes / 2, source + bytes / 2, 4) == 0)
        return 0; /* what is timed copies the same again */
    memcpy(target, source, bytes - (goes_wrong("copy", a, b) ? 4 : 0));
    return 0;
}

EXPORT int cuDeviceGetPCIBusId(char *text, int size, int device)
{
    snprintf(text, (size_t)size, "0000:%02X:00.0", 0x10 + device);
    return 0;
}

EXPORT int cuModuleLoadData(void **module, const void *ptx)
{
    *module = (void *)(uintptr_t)1;
    return strstr(ptx, ".version") == ptx ? 0 : 218;
}

EXPORT int cuModuleGetFunction(void **function, void *module, const char *name)
{
    int which = strstr(name, "write") ? WRITE : strstr(name, "verify") ? VERIFY : 0;
    *function = (void *)(intptr_t)which;
    return module && which ? 0 : 500;
}

static uint32_t word(uint64_t i, uint32_t seed)
{
    return (uint32_t)i * 0x9e3779b1u + seed;
}

static void write_words(uint64_t to, uint64_t words, uint32_t seed)
{
    int by = fake_current(), owner = fake_owner(to);
    uint32_t *at = (uint32_t *)(uintptr_t)to;
    if (goes_wrong("crash", by, owner))
        abort();
    if (goes_wrong("hang", by, owner))
        fake_stuck = true;
    if (goes_wrong("mirror", by, owner))
        return;
    bool again = at[0] == word(0, seed) && at[words / 2] == word(words / 2, seed);
    for (uint64_t i = 0; i < words && !again; i++) /* what is timed writes the same again */
        at[i] = word(i, seed);
    if (goes_wrong("flip", by, owner))
        at[words - 1] ^= 1;
}

EXPORT int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, void *stream, void **params,
                          void **extra)
{
    uint64_t memory = *(uint64_t *)params[0], words = *(uint64_t *)params[1];
    uint32_t seed = *(uint32_t *)params[2];
    if (!gx || !gy || !gz || !bx || !by || !bz || shared || extra || !stream)
        return 1;
    if ((intptr_t)function == WRITE) {
        write_words(memory, words, seed);
        return 0;
    }
    const uint32_t *at = (const uint32_t *)(uintptr_t)memory;
    uint32_t *wrong = (uint32_t *)(uintptr_t) * (uint64_t *)params[3];
    if (fake_owner(memory) != fake_current())
        return 1; /* who verifies is to be the owner */
    for (uint64_t i = 0; i < words; i++)
        *wrong += at[i] != word(i, seed);
    return 0;
}
