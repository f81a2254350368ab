/* The variables that Google's network plugins bring as a script for the job to source: without them
 * the plugin refuses to start, or is not used at all. */
#include <string.h>

#include "base/env.h"
#include "doctor/doctor.h"

/* Whether one of the variables that a script exports is set; which of several branches counts on
 * this kind of machine only the script knows. */
static bool has_one(const struct muster_doctor *doctor, const char *script, int *exported)
{
    static const char mark[] = "export NCCL_";
    for (const char *at = strstr(script, mark); at; at = strstr(at + 1, mark)) {
        char name[64];
        const char *from = at + strlen("export ");
        size_t n = strspn(from, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        if (n >= sizeof name || from[n] != '=')
            continue;
        memcpy(name, from, n);
        name[n] = '\0';
        ++*exported;
        if (strcmp(name, "NCCL_DEBUG") != 0 && strcmp(name, "NCCL_SOCKET_IFNAME") != 0 &&
            muster_doctor_setting(doctor, name))
            return true;
    }
    return false;
}

void muster_doctor_profile(const struct muster_doctor *doctor, struct muster_check *check)
{
    static const char *const scripts[] = {"/usr/local/gib/scripts/set_nccl_env.sh",
                                          "/usr/local/nvidia/lib64/nccl-env-profile.sh",
                                          "/var/lib/tcpxo/lib64/nccl-env-profile.sh"};
    enum { MANY = 3 };
    char path[PATH_MAX], *text = muster_doctor_room(doctor);
    if (!text || !muster_doctor_several_hosts())
        return;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        int exported = 0;
        snprintf(path, sizeof path, "%s%s", doctor->root, scripts[i]);
        if (!muster_doctor_read_file(path, text) || has_one(doctor, text, &exported) ||
            exported < MANY)
            continue;
        muster_check_suspect(check,
                             "the job has none of the variables that this cloud's network plugin "
                             "asks for (%s)",
                             scripts[i]);
        muster_check_advice(
            check,
            "source %s before the job on every host, last, and its library's folder "
            "in LD_LIBRARY_PATH (aicr#422, llm-d#1033)",
            scripts[i]);
        check->suspect_of = "init_error hang_stuck slow_transfer path_missing";
        check->suspect_weight = 5; /* before bugs of NCCL that few jobs meet */
        return;
    }
}
