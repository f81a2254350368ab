/* Security software that takes a host's connections to look into them, also those between its own
 * processes: it knows nothing of NCCL's, and drops or holds what it does not understand. */
#include <string.h>

#include "doctor/doctor.h"
#include "topology/sysfs.h"

/* The module of the kernel or the process that takes them, either alone; "": none that is only
 * there where they are taken. */
static const struct scanner {
    const char *of, *module, *process, *advice;
} scanners[] = {
    {"ESET Web Access Protection", "eset_wap", "wapd",
     "switch Web Access Protection off (its console, or a policy), try the job, then except its "
     "programs and ports"},
    {"Dr.Web SpIDer Gate", "", "drweb-gated",
     "`drweb-ctl cfset LinuxFirewall.OutputDivertEnable No`, InputDivertEnable and "
     "ForwardDivertEnable the same, then try the job"},
    {"Kaspersky Endpoint Security", "", "kesl",
     "stop its Web Threat Protection and Network Threat Protection, try the job, then except its "
     "programs"},
    {"Trend Micro Deep Security", "dsa_filter", "",
     "a policy whose firewall, intrusion prevention and web reputation let pass what the hosts of "
     "the job send each other"},
};
enum { SCANNERS = sizeof scanners / sizeof *scanners };

static bool lists(const char *modules, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = modules; n && *line; line += strspn(line, "\n")) {
        if (strncmp(line, name, n) == 0 && line[n] == ' ')
            return true;
        line += strcspn(line, "\n");
    }
    return false;
}

static const struct scanner *find_module(const struct muster_doctor *doctor, char *text)
{
    if (!text || !muster_doctor_read_proc(doctor, "modules", text))
        return NULL;
    for (int i = 0; i < SCANNERS; i++)
        if (lists(text, scanners[i].module))
            return &scanners[i];
    return NULL;
}

static const struct scanner *find_process(const struct muster_doctor *doctor)
{
    const char *names[SCANNERS + 1] = {NULL};
    char process[24];
    for (int i = 0; i < SCANNERS; i++)
        names[i] = scanners[i].process;
    int found = muster_doctor_process(doctor, names, process);
    return found ? &scanners[found - 1] : NULL;
}

void muster_doctor_scanner(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "net.scanner", "F25");
    const struct scanner *module = find_module(doctor, muster_doctor_room(doctor));
    const struct scanner *at = module ? module : find_process(doctor);
    muster_check_expected(check, "nothing that looks into the job's connections");
    if (!at) {
        muster_check_found(check, "none known was seen");
        return;
    }
    muster_check_found(check, "%s is on this host", at->of);
    muster_check_evidence(check, module ? "/proc/modules has %s" : "%s runs",
                          module ? at->module : at->process);
    muster_check_suspect(check,
                         "%s takes connections to look into them, also those between this host's "
                         "own ranks",
                         at->of);
    muster_check_advice(check, "%s", at->advice);
}
