/* Which PyTorch a job has, by what its build left, and what is known of that version. */
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/rules/known_torch.h"
#include "doctor/versions/python_packages.h"

struct found {
    int version;
    char *room, file[PATH_MAX];
};

/* "__version__ = '2.10.0+cu130'" in torch/version.py. */
static bool take_folder(void *to, const char *folder)
{
    static const char mark[] = "__version__ = '";
    struct found *found = to;
    snprintf(found->file, sizeof found->file, "%.4000s/torch/version.py", folder);
    if (!muster_doctor_read_file(found->file, found->room))
        return false;
    const char *at = strstr(found->room, mark);
    found->version = at ? muster_torch_version(at + sizeof mark - 1) : 0;
    return at;
}

static void name_bug(struct muster_check *check, const char *torch,
                     const struct muster_known_torch *bug)
{
    muster_check_advice(check, "%s", bug->fix);
    muster_check_evidence(check, "%s", bug->source);
    if (bug->likely) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check, "%s %s", torch, bug->what);
        check->explains = bug->symptoms;
        return;
    }
    muster_check_suspect(check, "%s %s", torch, bug->what);
    check->suspect_of = bug->symptoms;
    check->suspect_weight = 3; /* before bugs of NCCL of many versions */
}

void muster_doctor_torch(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "version.torch", "F10,F36");
    struct found found = {.room = muster_doctor_room(doctor)};
    char torch[32];
    muster_check_expected(check, "no PyTorch with a known bug that a job here meets");
    muster_python_packages(doctor, take_folder, &found);
    if (!found.version) {
        muster_check_found(check, "no release of PyTorch is seen");
        return;
    }
    muster_check_evidence(check, "%.300s", found.file);
    snprintf(torch, sizeof torch, "PyTorch %d.%d.%d", found.version / 10000,
             found.version / 100 % 100, found.version % 100);
    muster_check_found(check, "%s", torch);
    const struct muster_known_torch *bug = muster_known_torch_find(
        found.version, muster_doctor_is_arm(doctor, found.room), muster_doctor_several_hosts());
    if (bug)
        name_bug(check, torch, bug);
}
