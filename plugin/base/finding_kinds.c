#include "base/finding_kinds.h"

#define ROW(kind, name, scope, shown, abort, text, find)                                           \
    {#name, MUSTER_SCOPE_##scope, shown, abort},

const struct muster_finding_row muster_finding_rows[MUSTER_FINDING_KINDS] = {
    MUSTER_FINDING_LIST(ROW)};
