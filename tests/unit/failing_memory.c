#include "failing_memory.h"

#include <errno.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_reallocarray(void *old, size_t n, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_reallocarray(void *old, size_t n, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *memory);

static long left = -1; /* allocations until they fail; negative: none does */
static bool refused, once;
static long live;

void failing_memory_begin(long n)
{
    left = n;
    refused = once = false;
}

void failing_memory_once(long n)
{
    failing_memory_begin(n);
    once = true;
}

bool failing_memory_end(void)
{
    left = -1;
    return refused;
}

long failing_memory_live(void)
{
    return live;
}

static bool refuse(void)
{
    if (left < 0)
        return false;
    if (left > 0) {
        left--;
        return false;
    }
    refused = true;
    left = once ? -1 : 0;
    errno = ENOMEM;
    return true;
}

static void *counted(void *memory)
{
    live += memory != NULL;
    return memory;
}

void *failing_memory_spare(size_t size)
{
    return counted(__real_malloc(size));
}

void *__wrap_malloc(size_t size)
{
    return refuse() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return refuse() ? NULL : counted(__real_calloc(n, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    if (refuse())
        return NULL;
    void *memory = __real_realloc(old, size);
    live += !old && memory;
    return memory;
}

void *__wrap_reallocarray(void *old, size_t n, size_t size)
{
    if (refuse())
        return NULL;
    void *memory = __real_reallocarray(old, n, size);
    live += !old && memory;
    return memory;
}

char *__wrap_strdup(const char *text)
{
    return refuse() ? NULL : counted(__real_strdup(text));
}

void __wrap_free(void *memory)
{
    live -= memory != NULL;
    __real_free(memory);
}
