#include "base/finding_kinds.h"

#include <string.h>

#define ROW(kind, name, scope, shown, abort, text, find)                                           \
    {#name, MUSTER_SCOPE_##scope, shown, abort},

const struct muster_finding_row muster_finding_rows[MUSTER_FINDING_KINDS] = {
    MUSTER_FINDING_LIST(ROW)};

enum muster_finding_kind muster_finding_kind_of(const char *name, size_t length)
{
    unsigned kind = 0;
    while (kind < MUSTER_FINDING_KINDS &&
           (strlen(muster_finding_rows[kind].name) != length ||
            memcmp(muster_finding_rows[kind].name, name, length) != 0))
        kind++;
    return (enum muster_finding_kind)kind;
}
