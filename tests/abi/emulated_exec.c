/* Preloaded into the command where an emulator runs it: the command starts itself anew as
 * /proc/self/exe, and the kernel cannot run that. EMULATED_BY is the emulator,
 * EMULATED_ROOT where it finds libraries. */
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_ARGUMENTS = 64 };

typedef int execvp_call(const char *, char *const *);

__attribute__((visibility("default"))) int execvp(const char *file, char *const argument[])
{
    execvp_call *next = NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "execvp");
    char self[PATH_MAX];
    ssize_t length =
        strcmp(file, "/proc/self/exe") == 0 ? readlink(file, self, sizeof self - 1) : -1;
    char *emulator = getenv("EMULATED_BY"), *sysroot = getenv("EMULATED_ROOT");
    if (length < 0 || !emulator || !sysroot)
        return next(file, argument);
    self[length] = '\0';
    char *through[MAX_ARGUMENTS + 1] = {emulator, (char[]){"-L"}, sysroot, self};
    int count = 4;
    for (int i = 1; argument[i] && count < MAX_ARGUMENTS; i++)
        through[count++] = argument[i];
    return next(emulator, through);
}
