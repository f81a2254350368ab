/* What the job printed, where somebody gives it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "doctor/doctor.h"
#include "doctor/rules/job_log.h"

enum { LOG_CHUNK = 1 << 20, LOG_CHUNKS = 64 };

/* Whole lines of `n` bytes are taken, the rest is moved to the front; a line of a whole chunk is
 * cut. */
static size_t take_lines(struct muster_job_log *log, char *text, size_t n)
{
    const char *last = memrchr(text, '\n', n);
    size_t whole = last ? (size_t)(last - text) + 1 : n == LOG_CHUNK ? n : 0;
    muster_job_log_take(log, text, whole);
    memmove(text, text + whole, n - whole);
    return n - whole;
}

static int read_all(const char *path, int fd, struct muster_job_log *log, struct muster_err *err)
{
    char *text = malloc(LOG_CHUNK);
    size_t kept = 0, all = 0;
    ssize_t n = 1;
    if (!text)
        return muster_fail_memory(err, path);
    while (n > 0 && all < (size_t)LOG_CHUNK * LOG_CHUNKS) {
        n = read(fd, text + kept, LOG_CHUNK - kept);
        if (n > 0) {
            all += (size_t)n;
            kept = take_lines(log, text, kept + (size_t)n);
        } else if (n < 0 && errno == EINTR) {
            n = 1;
        }
    }
    muster_job_log_take(log, text, kept);
    log->cut = n > 0 && read(fd, text, 1) == 1;
    free(text);
    return n < 0 ? muster_fail(err, "%s: %s", path, strerror(errno)) : 0;
}

int muster_doctor_log_read(const char *path, struct muster_job_log *log, struct muster_err *err)
{
    if (strcmp(path, "-") == 0)
        return read_all("standard input", STDIN_FILENO, log, err);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return muster_fail(err, "%s: %s", path, strerror(errno));
    int rc = read_all(path, fd, log, err);
    close(fd);
    return rc;
}

/* The NCCL of the job may be another one than this host's loader finds. */
static void take_version(struct muster_doctor *doctor)
{
    const struct muster_job_log *log = doctor->log;
    if (log->version == 0 || muster_doctor_version(doctor) == log->version ||
        doctor->libraries == MUSTER_DOCTOR_LIBRARIES)
        return;
    doctor->loaded = doctor->libraries;
    struct muster_nccl_library *library = &doctor->library[doctor->libraries++];
    snprintf(library->path, sizeof library->path, "the job's log");
    library->version = log->version;
    library->cuda = log->cuda;
}

const char *muster_doctor_setting(const struct muster_doctor *doctor, const char *name)
{
    const char *here = muster_env(name);
    return here || !doctor->log ? here : muster_job_log_value(doctor->log, name);
}

void muster_doctor_log(struct muster_doctor *doctor)
{
    if (!doctor->log)
        return;
    take_version(doctor);
    muster_job_log_checks(doctor->log, doctor->log_name, doctor->checks);
}
