/* Which of some programs runs on the host. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "doctor/doctor.h"
#include "topology/sysfs.h"

enum { NAME_BYTES = 15 }; /* to which the kernel cuts them */

int muster_doctor_process(const struct muster_doctor *doctor, const char *const *names,
                          char process[24])
{
    char name[32];
    int found = 0;
    DIR *dir = opendir(doctor->procfs);
    for (struct dirent *entry; dir && !found && (entry = readdir(dir));) {
        if (!isdigit((unsigned char)entry->d_name[0]) ||
            !muster_sysfs_line(doctor->procfs, name, sizeof name, "%.20s/comm", entry->d_name))
            continue;
        for (int i = 0; names[i] && !found; i++)
            found = *names[i] && strncmp(name, names[i], NAME_BYTES) == 0 ? i + 1 : 0;
        snprintf(process, 24, "%.20s", entry->d_name);
    }
    if (dir)
        closedir(dir);
    return found;
}
