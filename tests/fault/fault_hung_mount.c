#include "fault_hung_mount.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

enum { REQUEST = 1 << 16 };

/* The kernel waits for this answer before it lets anybody in; the last one that it gets. */
static bool greet(int fd)
{
    static char request[REQUEST];
    struct fuse_in_header asked;
    struct {
        struct fuse_out_header header;
        struct fuse_init_out init;
    } answer = {.init = {.major = 7, .minor = 31, .max_write = 4096}};
    if (read(fd, request, sizeof(request)) < (ssize_t)sizeof(asked))
        return false;
    memcpy(&asked, request, sizeof(asked));
    answer.header.len = sizeof(answer);
    answer.header.unique = asked.unique;
    return asked.opcode == FUSE_INIT && write(fd, &answer, sizeof(answer)) == sizeof(answer);
}

bool hung_mount_open(struct hung_mount *made, const char *place)
{
    char options[64];
    snprintf(made->place, sizeof(made->place), "%s", place);
    made->fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (made->fd < 0)
        return false;
    snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%u,group_id=%u", made->fd,
             (unsigned)getuid(), (unsigned)getgid());
    if (mount("hung", place, "fuse.hung", MS_NOSUID | MS_NODEV, options) != 0) {
        close(made->fd);
        return false;
    }
    if (greet(made->fd))
        return true;
    hung_mount_close(made);
    return false;
}

void hung_mount_close(struct hung_mount *made)
{
    /* First the server's end: what waits for it fails, and the unmount need not. */
    close(made->fd);
    umount2(made->place, MNT_DETACH);
}
