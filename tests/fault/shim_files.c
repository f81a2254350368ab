/* The file operations that muster uses, failing by plan. */

/* Fortified headers define inline what is defined here. */
#undef _FORTIFY_SOURCE
#include "shim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* Calls that a signal can interrupt. */
static bool interruptible(const char *call)
{
    static const char *const calls[] = {"open",   "openat", "read",      "write",          "pread",
                                        "pwrite", "close",  "ftruncate", "posix_fallocate"};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (strcmp(call, calls[i]) == 0)
            return true;
    return false;
}

/* Calls that a full disk does not disturb. */
static bool needs_no_room(const char *call)
{
    return strncmp(call, "unlink", 6) == 0;
}

/* Whether the call fails with errno set. */
static bool refused(const char *call)
{
    int error;
    if (fault_cuts() || !fault_now(FAULT_FILES, call, &error))
        return false;
    if ((error == EINTR && !interruptible(call)) || (error == ENOSPC && needs_no_room(call)))
        return false;
    errno = error;
    return true;
}

/* How many bytes a read or write may do. */
static size_t allowed(const char *call, size_t bytes)
{
    int error;
    if (!fault_cuts() || bytes < 2 || !fault_now(FAULT_FILES, call, &error))
        return bytes;
    return bytes / 2;
}

/* Defines the function with its failure. `type name parameters`, the call's arguments, what it
 * works on, and what it gives when it fails. */
#define FAILING(type, name, parameters, arguments, where, failure)                                 \
    EXPORT type name parameters                                                                    \
    {                                                                                              \
        static type(*next) parameters;                                                             \
        if (!next) {                                                                               \
            void *function = fault_next(#name);                                                    \
            memcpy(&next, &function, sizeof(next));                                                \
        }                                                                                          \
        where;                                                                                     \
        return refused(#name) ? (failure) : next arguments;                                        \
    }

#define PATH(path) fault_hold_path(__func__, path)
#define FD(fd)     fault_hold_fd(__func__, fd)
#define NOTHING

FAILING(int, access, (const char *path, int mode), (path, mode), PATH(path), -1)
FAILING(int, fstat, (int fd, struct stat *st), (fd, st), FD(fd), -1)
FAILING(int, stat, (const char *path, struct stat *st), (path, st), PATH(path), -1)
FAILING(int, lstat, (const char *path, struct stat *st), (path, st), PATH(path), -1)
FAILING(int, fstatat, (int dir, const char *path, struct stat *st, int flags),
        (dir, path, st, flags), FD(dir), -1)
FAILING(int, fstatfs, (int fd, struct statfs *fs), (fd, fs), FD(fd), -1)
FAILING(int, statvfs, (const char *path, struct statvfs *fs), (path, fs), PATH(path), -1)
FAILING(int, ftruncate, (int fd, off_t size), (fd, size), FD(fd), -1)
FAILING(int, mkdir, (const char *path, mode_t mode), (path, mode), PATH(path), -1)
FAILING(int, rename, (const char *from, const char *to), (from, to), PATH(from), -1)
FAILING(int, renameat, (int from_dir, const char *from, int to_dir, const char *to),
        (from_dir, from, to_dir, to), FD(from_dir), -1)
FAILING(int, unlink, (const char *path), (path), PATH(path), -1)
FAILING(int, unlinkat, (int dir, const char *path, int flags), (dir, path, flags), FD(dir), -1)
FAILING(int, posix_fallocate, (int fd, off_t from, off_t bytes), (fd, from, bytes), FD(fd), errno)
FAILING(int, madvise, (void *at, size_t bytes, int advice), (at, bytes, advice), NOTHING, -1)
FAILING(void *, mmap, (void *at, size_t bytes, int prot, int flags, int fd, off_t offset),
        (at, bytes, prot, flags, fd, offset), NOTHING, MAP_FAILED)
FAILING(ssize_t, readlinkat, (int dir, const char *path, char *to, size_t size),
        (dir, path, to, size), FD(dir), -1)
FAILING(off_t, lseek, (int fd, off_t offset, int from), (fd, offset, from), FD(fd), -1)
FAILING(DIR *, opendir, (const char *path), (path), PATH(path), NULL)
FAILING(FILE *, fopen, (const char *path, const char *mode), (path, mode), PATH(path), NULL)
FAILING(char *, getcwd, (char *to, size_t size), (to, size), NOTHING, NULL)

#define NEXT(function, name)                                                                       \
    if (!function) {                                                                               \
        void *address = fault_next(name);                                                          \
        memcpy(&function, &address, sizeof(function));                                             \
    }

/* Closed all the same, as Linux does. */
EXPORT int close(int fd)
{
    static int (*next)(int);
    NEXT(next, "close")
    FD(fd);
    bool fails = refused("close");
    int error = errno, rc = next(fd);
    if (fails)
        errno = error;
    return fails ? -1 : rc;
}

/* Pipes between muster's own processes do not fail. */
static bool is_file(int fd)
{
    static int (*next)(int, struct stat *);
    struct stat st;
    NEXT(next, "fstat")
    return next(fd, &st) == 0 && S_ISREG(st.st_mode);
}

EXPORT ssize_t read(int fd, void *to, size_t bytes)
{
    static ssize_t (*next)(int, void *, size_t);
    NEXT(next, "read")
    FD(fd);
    if (!is_file(fd))
        return next(fd, to, bytes);
    return refused("read") ? -1 : next(fd, to, allowed("read", bytes));
}

/* Standard error is where a failure is said. */
EXPORT ssize_t write(int fd, const void *from, size_t bytes)
{
    static ssize_t (*next)(int, const void *, size_t);
    NEXT(next, "write")
    FD(fd);
    if (fd == STDERR_FILENO || !is_file(fd))
        return next(fd, from, bytes);
    return refused("write") ? -1 : next(fd, from, allowed("write", bytes));
}

EXPORT ssize_t pread(int fd, void *to, size_t bytes, off_t at)
{
    static ssize_t (*next)(int, void *, size_t, off_t);
    NEXT(next, "pread")
    FD(fd);
    return refused("pread") ? -1 : next(fd, to, allowed("pread", bytes), at);
}

EXPORT ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at)
{
    static ssize_t (*next)(int, const void *, size_t, off_t);
    NEXT(next, "pwrite")
    FD(fd);
    return refused("pwrite") ? -1 : next(fd, from, allowed("pwrite", bytes), at);
}

static mode_t mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

EXPORT int open(const char *path, int flags, ...)
{
    static int (*next)(const char *, int, ...);
    va_list args;
    NEXT(next, "open")
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    PATH(path);
    return refused("open") ? -1 : next(path, flags, mode);
}

EXPORT int openat(int dir, const char *path, int flags, ...)
{
    static int (*next)(int, const char *, int, ...);
    va_list args;
    NEXT(next, "openat")
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    FD(dir);
    return refused("openat") ? -1 : next(dir, path, flags, mode);
}

EXPORT int fcntl(int fd, int command, ...)
{
    static int (*next)(int, int, ...);
    va_list args;
    NEXT(next, "fcntl")
    va_start(args, command);
    void *argument = va_arg(args, void *);
    va_end(args);
    return refused("fcntl") ? -1 : next(fd, command, argument);
}
