#include "diagnose/evidence_wait.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"

enum { PEER = 64, ESTABLISHED = 1 };

/* System calls whose first argument is the descriptor that they wait for. */
static const struct {
    long number;
    const char *name;
} waits[] = {
    {SYS_read, "read"},       {SYS_write, "write"},       {SYS_readv, "readv"},
    {SYS_writev, "writev"},   {SYS_recvfrom, "recvfrom"}, {SYS_sendto, "sendto"},
    {SYS_recvmsg, "recvmsg"}, {SYS_sendmsg, "sendmsg"},   {SYS_pread64, "pread64"},
    {SYS_connect, "connect"}, {SYS_fsync, "fsync"},       {SYS_flock, "flock"},
    {SYS_accept4, "accept4"},
};

bool muster_wait_parse_syscall(const char *text, unsigned long *number, uint64_t *first)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    *number = strtoul(text, &end, 10);
    *first = strtoull(end, NULL, 16);
    return true;
}

/* Four or sixteen bytes in words as the kernel stores them. */
static bool put_address(const char *hex, size_t digits, char *to, size_t size)
{
    unsigned char bytes[16];
    for (size_t i = 0; i < digits / 8; i++) {
        char word[9] = "";
        memcpy(word, hex + 8 * i, 8);
        uint32_t value = (uint32_t)strtoul(word, NULL, 16);
        memcpy(bytes + 4 * i, &value, sizeof value);
    }
    return inet_ntop(digits == 8 ? AF_INET : AF_INET6, bytes, to, (socklen_t)size) != NULL;
}

/* "  0: 0100007F:1F90 0500000A:733C 01 00000000:00000000 00:00000000 00000000  1000  0 12345 ...".
 */
bool muster_wait_parse_tcp(const char *row, uint64_t inode, char *peer, size_t size)
{
    char remote[40], address[INET6_ADDRSTRLEN];
    unsigned port, state;
    uint64_t own;
    if (sscanf(row, " %*d: %*[0-9A-Fa-f]:%*x %33[0-9A-Fa-f]:%x %x %*s %*s %*s %*u %*u %" SCNu64,
               remote, &port, &state, &own) != 4)
        return false;
    size_t digits = strlen(remote);
    if (own != inode || state != ESTABLISHED || port > 65535 || (digits != 8 && digits != 32) ||
        !put_address(remote, digits, address, sizeof address))
        return false;
    snprintf(peer, size, digits == 8 ? "%s:%u" : "[%s]:%u", address, port);
    return true;
}

static bool find_row(const char *path, uint64_t inode, char *peer, size_t size)
{
    char row[512];
    FILE *rows = fopen(path, "re");
    bool found = false;
    while (rows && !found && fgets(row, sizeof row, rows))
        found = muster_wait_parse_tcp(row, inode, peer, size);
    if (rows)
        fclose(rows);
    return found;
}

/* What a descriptor is: the peer of a TCP connection, else a file's name. */
static void describe_fd(const struct muster_evidence_roots *roots, uint32_t pid, uint64_t fd,
                        char *to, size_t size)
{
    char path[PATH_MAX], target[PATH_MAX], peer[PEER];
    uint64_t inode;
    snprintf(path, sizeof path, "%s/%" PRIu32 "/fd/%" PRIu64, roots->proc, pid, fd);
    ssize_t n = readlink(path, target, sizeof target - 1);
    to[0] = '\0';
    if (n <= 0)
        return;
    target[n] = '\0';
    if (sscanf(target, "socket:[%" SCNu64 "]", &inode) != 1) {
        muster_text_clean(target, sizeof target);
        snprintf(to, size, " of %.120s", target);
        return;
    }
    static const char *const tables[] = {"tcp", "tcp6"};
    for (int i = 0; i < 2 && !to[0]; i++) {
        snprintf(path, sizeof path, "%s/%" PRIu32 "/net/%s", roots->proc, pid, tables[i]);
        if (find_row(path, inode, peer, sizeof peer))
            snprintf(to, size,
                     " of a TCP connection to %s (the store if that is MASTER_ADDR, Gloo if it is "
                     "another rank)",
                     peer);
    }
    if (!to[0])
        snprintf(to, size, " of a socket that is no TCP connection");
}

static bool read_syscall(const struct muster_evidence_roots *roots, uint32_t pid,
                         unsigned long *number, uint64_t *first)
{
    char path[PATH_MAX], text[256] = "";
    snprintf(path, sizeof path, "%s/%" PRIu32 "/syscall", roots->proc, pid);
    FILE *in = fopen(path, "re");
    bool seen = in && fgets(text, sizeof text, in);
    if (in)
        fclose(in);
    return seen && muster_wait_parse_syscall(text, number, first);
}

void muster_wait_describe(const struct muster_evidence_roots *roots, uint32_t pid, int32_t rank,
                          struct muster_finding_lines *lines)
{
    unsigned long number;
    uint64_t first;
    char what[256] = "";
    if (!read_syscall(roots, pid, &number, &first))
        return;
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        if ((unsigned long)waits[i].number != number)
            continue;
        describe_fd(roots, pid, first, what, sizeof what);
        muster_finding_line(lines, "rank %" PRId32 "'s main thread is in %s%s", rank, waits[i].name,
                            what);
    }
}
