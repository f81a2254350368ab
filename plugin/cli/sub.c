/* Commands of a command: `muster policy check`. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/cmd.h"

enum { SUBS_MAX = 16 };

const char *muster_cmd_name(const struct muster_cmd *cmd)
{
    const char *blank = strrchr(cmd->name, ' ');
    return blank ? blank + 1 : cmd->name;
}

static int unknown(const struct muster_cmd *self, const char *word)
{
    const char *words[SUBS_MAX], *near;
    char list[256];
    struct muster_text text = muster_text_begin(list, sizeof list);
    size_t n = 0;
    for (; n < SUBS_MAX && self->subs[n]; n++)
        words[n] = muster_cmd_name(self->subs[n]);
    for (size_t i = 0; i < n; i++)
        muster_text_add(&text, "%s%s", muster_text_join(i, n, " or "), words[i]);
    if (!word)
        return muster_opt_wrong(self, "%s?", list);
    near = muster_text_nearest(word, words, n);
    return near ? muster_opt_wrong(self, "\"%s\" is not %s, did you mean %s?", word, list, near)
                : muster_opt_wrong(self, "\"%s\" is not %s", word, list);
}

int muster_cmd_run_sub(const struct muster_cmd *self, int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    if (word && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
        muster_opt_help(self, stdout);
        return MUSTER_STATUS_OK;
    }
    for (const struct muster_cmd *const *sub = self->subs; word && *sub; sub++)
        if (strcmp(word, muster_cmd_name(*sub)) == 0)
            return (*sub)->run(*sub, argc - 1, argv + 1);
    return unknown(self, word);
}
