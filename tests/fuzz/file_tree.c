#include "file_tree.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char made[64];

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    (void)type;
    (void)where;
    return remove(path);
}

static void leave(void)
{
    nftw(made, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void file_tree_make(char root[static 64], const char *const *files, int n, int *fd)
{
    char path[256];
    strcpy(root, "/dev/shm/muster-fuzz-XXXXXX");
    if (!mkdtemp(root))
        abort();
    strcpy(made, root);
    atexit(leave);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", root, files[i]);
        for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
            *slash = '\0';
            mkdir(path, 0700);
            *slash = '/';
        }
        if ((fd[i] = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)) < 0)
            abort();
    }
}
