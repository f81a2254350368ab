#include "config/settings.h"
#include "config/settings_table.h"

void muster_settings_help(FILE *out)
{
    static const char row[] = "%-20s %-19s %-9s %s\n";
    fprintf(out, row, "key", "variable", "default", "meaning");
    for (size_t i = 0; i < muster_settings_count; i++) {
        const struct muster_setting *setting = &muster_settings_table[i];
        const char *fallback = setting->fallback[0] ? setting->fallback : "unset";
        fprintf(out, row, setting->key, setting->short_variable, fallback, setting->help);
        if (setting->type == MUSTER_SETTING_WORD || setting->type == MUSTER_SETTING_SIZE) {
            char expected[128];
            muster_setting_expected(setting, expected, sizeof(expected));
            fprintf(out, row, "", "", "", expected);
        }
    }
}

const char *const muster_settings_more =
    "\nMUSTER_CONFIG=FILE names a YAML file that begins with 'muster: 1'; a key a.b stands "
    "as\n'b: value' inside 'a:'. Variables win over the file. Each key also has its long\n"
    "variable, capture.timing MUSTER_CAPTURE_TIMING; the short one wins over it. An empty\n"
    "variable counts as not set. An error is one line, and the other settings hold, of a\n"
    "file with an error none; where a directory or a policy may be meant, the job runs\n"
    "unrecorded.\n"
    "\nMUSTER_POLICY_INLINE holds a whole document whose 'policy:' replaces the file's;\n"
    "MUSTER_POLICY_SHA256 refuses a policy from a document with another hash.\n";
