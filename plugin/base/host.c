#include "base/host.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/text.h"

/* The beginning of a small file, terminated; "" if it cannot be read. */
static void read_small_file(const char *path, char *text, size_t size)
{
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && n < size - 1) {
        ssize_t got = read(fd, text + n, size - 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    if (fd >= 0)
        close(fd);
    text[n] = '\0';
}

static void make_stem(char *stem, size_t size, const char *from)
{
    size_t n = 0;
    for (; n < size - 1 && from[n]; n++) {
        unsigned char c = (unsigned char)from[n];
        bool allowed = c < 0x80 && (isalnum(c) || c == '_' || (n > 0 && (c == '.' || c == '-')));
        stem[n] = (char)(allowed ? c : '_');
    }
    stem[n] = '\0';
}

/* An identity that does not fit keeps its beginning, and a hash distinguishes it from its like. */
static void make_id(char *id, size_t size, const char *from)
{
    muster_text_copy(id, size, from);
    size_t bytes = strlen(from);
    if (bytes < size)
        return;
    char tail[18];
    snprintf(tail, sizeof(tail), "#%016" PRIx64, muster_hash(MUSTER_HASH_SEED, from, bytes));
    memcpy(id + size - sizeof(tail), tail, sizeof(tail));
}

void muster_host_read(struct muster_host *host, const char *given)
{
    char hostname[256] = "";
    char boot_id[64];
    struct stat shm;
    memset(host, 0, sizeof(*host));

    if (gethostname(hostname, sizeof(hostname) - 1) != 0 || !hostname[0])
        strcpy(hostname, "unknown");
    muster_text_copy(host->name, sizeof(host->name), hostname);

    read_small_file("/proc/sys/kernel/random/boot_id", boot_id, sizeof(boot_id));
    boot_id[strcspn(boot_id, "\n")] = '\0';
    if (boot_id[0])
        host->boot_hash = muster_hash(MUSTER_HASH_SEED, boot_id, strlen(boot_id));

    if (given && given[0]) {
        make_id(host->id, sizeof(host->id), given);
        make_stem(host->stem, sizeof(host->stem), given);
        return;
    }
    unsigned long device = stat("/dev/shm", &shm) == 0 ? (unsigned long)shm.st_dev : 0;
    char whole[384];
    snprintf(whole, sizeof(whole), "%s %s %lx", hostname, boot_id[0] ? boot_id : "unknown", device);
    make_id(host->id, sizeof(host->id), whole);
    make_stem(host->stem, sizeof(host->stem), hostname);
}

uint64_t muster_stat_start_ticks(const char *stat)
{
    enum { STATE_FIELD = 3, START_FIELD = 22 };
    const char *at = strrchr(stat, ')');
    if (!at)
        return 0;
    at++;
    for (int field = STATE_FIELD; field < START_FIELD; field++) {
        at += strspn(at, " ");
        at += strcspn(at, " ");
    }
    at += strspn(at, " ");
    char digits[24];
    size_t n = strcspn(at, " \n");
    if (n >= sizeof(digits))
        return 0;
    memcpy(digits, at, n);
    digits[n] = '\0';
    uint64_t ticks;
    return muster_text_u64(digits, &ticks) ? ticks : 0;
}

uint64_t muster_process_start_ticks(pid_t pid)
{
    char path[64];
    char stat[1024];
    if (pid == 0)
        snprintf(path, sizeof(path), "/proc/self/stat");
    else
        snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    read_small_file(path, stat, sizeof(stat));
    return muster_stat_start_ticks(stat);
}
