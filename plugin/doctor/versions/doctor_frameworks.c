/* TensorFlow and JAX in one process: TensorFlow has an NCCL of its own beside JAX's, which then
 * does not know its communicators (jax#39167, jax#34918, flax#4942), and each of them takes the
 * GPUs' memory in advance (JAX's page on GPU memory allocation). */
#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/rules/proc_text.h"
#include "doctor/versions/python_packages.h"

enum { LOOK_NS = 300 * 1000 * 1000 }; /* in maps of all processes of a large host */

struct found {
    bool torch; /* stands beside both */
    char folder[PATH_MAX];
};

/* Before JAX had plugins its own library held CUDA, and its version has that. */
static bool has_jax(const char *folder)
{
    return muster_python_has(folder, "jax_plugins/xla_cuda*") ||
           muster_python_has(folder, "jaxlib-*+cuda*") ||
           (muster_python_has(folder, "jaxlib") && !muster_python_has(folder, "jaxlib-*-info"));
}

static bool take_folder(void *to, const char *folder)
{
    struct found *found = to;
    if (!muster_python_has(folder, "tensorflow") || muster_python_has(folder, "tensorflow_cpu-*") ||
        !has_jax(folder))
        return false;
    muster_text_copy_path(found->folder, sizeof found->folder, folder);
    found->torch = muster_python_has(folder, "torch");
    return true;
}

static bool maps_both(const struct muster_doctor *doctor, const char *pid)
{
    char file[PATH_MAX], line[1024], path[256];
    bool flow = false, jax = false;
    snprintf(file, sizeof file, "%s/%.20s/maps", doctor->procfs, pid);
    FILE *maps = fopen(file, "re");
    while (maps && !(flow && jax) && fgets(line, sizeof line, maps)) {
        flow = flow || muster_proc_mapped(line, "libtensorflow_", path, sizeof path) ||
               muster_proc_mapped(line, "_pywrap_tensorflow", path, sizeof path);
        jax = jax || muster_proc_mapped(line, "xla_cuda_plugin.so", path, sizeof path) ||
              muster_proc_mapped(line, "xla_extension.so", path, sizeof path);
    }
    if (maps)
        fclose(maps);
    return flow && jax;
}

/* The number of a process that has both; "": none is seen. */
static void find_process(const struct muster_doctor *doctor, char process[24])
{
    uint64_t end = muster_now_ns() + LOOK_NS;
    DIR *dir = opendir(doctor->procfs);
    *process = '\0';
    for (struct dirent *entry; dir && !*process && (entry = readdir(dir)) && muster_now_ns() < end;)
        if (isdigit((unsigned char)entry->d_name[0]) && maps_both(doctor, entry->d_name))
            snprintf(process, 24, "%.20s", entry->d_name);
    if (dir)
        closedir(dir);
}

static void suspect_both(const struct muster_doctor *doctor, struct muster_check *check)
{
    struct found found = {.torch = false};
    char process[24];
    muster_python_packages(doctor, take_folder, &found);
    find_process(doctor, process);
    if (!found.folder[0] && !*process)
        return;
    if (found.folder[0])
        muster_check_evidence(check, "both in %.300s", found.folder);
    if (*process)
        muster_check_evidence(check, "process %s has both", process);
    muster_check_suspect(check,
                         "TensorFlow and JAX are %s: there they have two NCCLs, and each "
                         "takes the GPUs' memory in advance",
                         *process ? "in one process" : "here for one process");
    muster_check_advice(check,
                        "tensorflow-cpu where TensorFlow only reads data; else hide the GPUs from "
                        "it: tf.config.set_visible_devices([], \"GPU\"), and jax.devices() before "
                        "import tensorflow. For memory alone XLA_PYTHON_CLIENT_PREALLOCATE=false "
                        "and TF_FORCE_GPU_ALLOW_GROWTH=true");
    if (found.torch && !*process) { /* images of notebooks have all three */
        check->suspect_of = "init_error hang_stuck wrong_result";
        check->suspect_weight = 2;
    }
}

/* JAX takes that much of a GPU at its start, and NCCL's buffers have to fit beside it. */
static void suspect_fraction(struct muster_check *check)
{
    enum { PERCENT_MAX = 90 }; /* jax#4950: 0.85 cured a default of 0.9 */
    static const char *const names[] = {"XLA_CLIENT_MEM_FRACTION",
                                        "XLA_PYTHON_CLIENT_MEM_FRACTION"};
    const char *before = muster_env("XLA_PYTHON_CLIENT_PREALLOCATE");
    bool grows = before && (strcmp(before, "false") == 0 || strcmp(before, "0") == 0);
    const char *unified = muster_env("TF_FORCE_UNIFIED_MEMORY");
    bool spills = unified && strcmp(unified, "0") != 0; /* into memory of the host */
    for (size_t i = 0; i < sizeof names / sizeof *names && !check->suspect[0] && !grows; i++) {
        const char *text = muster_env(names[i]);
        double share = text ? strtod(text, NULL) : 0;
        if (share * 100 < PERCENT_MAX || (share > 1 && spills))
            continue;
        muster_check_suspect(check,
                             share > 1 ? "%s=%.20s is no per cent but a share of 1: JAX asks for "
                                         "more than a GPU has (jax#17426)"
                                       : "%s=%.20s: JAX takes so much of each GPU that NCCL's "
                                         "buffers may find no room",
                             names[i], text);
        muster_check_advice(check, "%s=0.8, or less", names[i]);
        check->suspect_of = "init_error hang_stuck";
        check->suspect_weight = 5; /* before bugs of NCCL that few jobs meet */
    }
}

void muster_doctor_frameworks(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "job.frameworks", "F11,F34");
    muster_check_expected(check, "one framework that takes the GPUs");
    muster_check_found(check, "no two are seen");
    suspect_both(doctor, check);
    suspect_fraction(check);
}
