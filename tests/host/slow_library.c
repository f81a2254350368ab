/*
 * A library that a program can watch being loaded: where SLOW_LIBRARY holds the address of an
 * atomic int of the process, that is 1 while it loads, which takes 300 ms, and then 2.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void loads(void)
{
    const char *text = getenv("SLOW_LIBRARY");
    if (!text)
        return;
    _Atomic int *state = (_Atomic int *)(uintptr_t)strtoull(text, NULL, 16);
    atomic_store(state, 1);
    usleep(300000);
    atomic_store(state, 2);
}
