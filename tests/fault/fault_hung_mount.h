/* A mounted file system that answers nobody: a FUSE one whose server stopped reading. */
#ifndef MUSTER_TESTS_FAULT_FAULT_HUNG_MOUNT_H
#define MUSTER_TESTS_FAULT_FAULT_HUNG_MOUNT_H

#include <stdbool.h>

struct hung_mount {
    int fd; /* the server's end */
    char place[128];
};

/* False: this machine has no FUSE, or this process may not mount. Whoever touches `place` from now
 * on waits until it is killed, or until the close. */
bool hung_mount_open(struct hung_mount *mount, const char *place);
void hung_mount_close(struct hung_mount *mount);

#endif
