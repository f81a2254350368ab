#include "base/pages.h"

#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    AT_ONCE = 256, /* pages that are asked about in one call */
    SMALL = 4096,  /* of pages of 64 KiB the big ones have 512 MiB */
    BIG = 2 << 20,
    BIG_LEAST = 4 << 20,
    ASIDE = 32, /* of what is mapped malloc takes no more for itself */
    APART_LEAST = 1 << 20,
};

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static char *page_at_or_after(char *at)
{
    return at + (page_bytes() - (uintptr_t)at % page_bytes()) % page_bytes();
}

/* What is given back reads as zeros again, so that nobody has to look into it. */
void muster_pages_clear(void *from, size_t bytes)
{
    char *begin = from, *end = begin + bytes;
    char *first = page_at_or_after(begin), *last = end - (uintptr_t)end % page_bytes();
    if (first >= last || madvise(first, (size_t)(last - first), MADV_DONTNEED) != 0) {
        memset(begin, 0, bytes);
        return;
    }
    memset(begin, 0, (size_t)(first - begin));
    memset(last, 0, (size_t)(end - last));
}

bool muster_is_zero(const void *data, size_t bytes)
{
    const char *byte = data;
    return bytes == 0 || (byte[0] == 0 && memcmp(byte, byte + 1, bytes - 1) == 0);
}

static void trim_pages(char *page, size_t n, size_t bytes)
{
    unsigned char there[AT_ONCE];
    if (mincore(page, n * bytes, there) != 0)
        memset(there, 1, n);
    /* Neighbours at once: a call costs more than a page. */
    for (size_t i = 0, zeros; i < n; i += zeros + 1, page += (zeros + 1) * bytes) {
        zeros = 0;
        while (i + zeros < n && (there[i + zeros] & 1) &&
               muster_is_zero(page + zeros * bytes, bytes))
            zeros++;
        if (zeros)
            madvise(page, zeros * bytes, MADV_DONTNEED);
    }
}

void muster_pages_trim(void *from, size_t bytes)
{
    char *end = (char *)from + bytes, *page = page_at_or_after(from);
    size_t size = page_bytes(), left = page < end ? (size_t)(end - page) / size : 0;
    while (left > 0) {
        size_t n = left < AT_ONCE ? left : AT_ONCE;
        trim_pages(page, n, size);
        page += n * size;
        left -= n;
    }
}

size_t muster_pages_whole(size_t bytes)
{
    if (bytes < BIG_LEAST || bytes > SIZE_MAX / 2 || page_bytes() != SMALL)
        return bytes;
    return (bytes + ASIDE + BIG - 1) / BIG * BIG - ASIDE;
}

/* Of all that was mapped for it: what is half of one kind and half of another cannot grow by moving
 * its pages, and is copied. */
void muster_pages_ask_big(void *from, size_t bytes)
{
    size_t before = (uintptr_t)from % SMALL;
    if (bytes >= BIG_LEAST && page_bytes() == SMALL)
        (void)madvise((char *)from - before, before + muster_pages_whole(bytes), MADV_HUGEPAGE);
}

/* Else malloc raises the limit to what was freed last, up to 32 MiB. */
void muster_pages_keep_apart(void)
{
    mallopt(M_MMAP_THRESHOLD, APART_LEAST);
}
