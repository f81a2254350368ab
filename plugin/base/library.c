#include "base/library.h"

#include <dlfcn.h>

void muster_library_forget(void)
{
    /* The first call takes the message, the second frees it. */
    (void)dlerror();
    (void)dlerror();
}
