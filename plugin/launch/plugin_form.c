#include "launch/plugin_form.h"

#include <string.h>

#include "launch/nccl_files.h"

/* Versions from here on, until the next row. */
static const struct {
    uint32_t from;
    size_t longest; /* path; 0: names only */
} forms[] = {
    {0, 0},        /* not known */
    {22304, 4095}, /* the first with profilers: dlopen as given */
    {22602, 254},  /* copied into 255 bytes, and cut */
    {22703,
     0}, /* "lib*.so" as given, from anything else it makes libnccl-profiler-<it>.so (#1732) */
    {22705, 254},
};

bool muster_plugin_by_path(uint32_t version, size_t length)
{
    size_t row = sizeof forms / sizeof *forms - 1;
    while (version < forms[row].from)
        row--;
    return length <= forms[row].longest && length > 0;
}

void muster_plugin_ask(void *question, const char *libnccl)
{
    struct muster_plugin_question *all = question;
    all->asked++;
    all->take += muster_plugin_by_path(muster_nccl_version_by_name(libnccl), all->length);
}

const char *muster_plugin_word(const char *path)
{
    struct muster_plugin_question question = {.length = strlen(path)};
    const char *slash = strrchr(path, '/');
    muster_nccl_files(muster_plugin_ask, &question);
    return !slash || (question.asked && question.take == question.asked) ? path : slash + 1;
}
