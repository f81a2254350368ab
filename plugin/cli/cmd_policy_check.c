/* `muster policy check`. */
#include "base/terminal.h"
#include "cli/cmd_policy.h"

static void put_summary(const struct muster_policy_file *file, FILE *out)
{
    char hex[MUSTER_POLICY_HEX];
    unsigned rules = file->policy->rules;
    fprintf(out, "%s: %u rule%s %s fine", file->document.name, rules, rules == 1 ? "" : "s",
            rules == 1 ? "is" : "are");
    if (file->warnings)
        fprintf(out, ", %u warning%s", file->warnings, file->warnings == 1 ? "" : "s");
    muster_policy_hex(hex, file->policy->sha256);
    fprintf(out, "\nMUSTER_POLICY_SHA256=%s\n", hex);
}

static void warn_of_size(struct muster_policy_file *file, FILE *out)
{
    if (file->document.bytes <= MUSTER_DOCUMENT_INLINE)
        return;
    fprintf(out,
            "%s: warning: larger than %d KiB: it does not fit the environment, and has to be named "
            "in MUSTER_CONFIG on every host\n",
            file->document.name, MUSTER_DOCUMENT_INLINE >> 10);
    file->warnings++;
}

static int check(const struct muster_cmd *self, int argc, char **argv)
{
    struct muster_policy_file file;
    int status;
    int at = muster_opt_parse_one(self, argc, argv, NULL, "file", &status);
    if (at < 0)
        return status;
    struct muster_terminal_page page;
    muster_terminal_page_begin(&page);
    status = muster_policy_file_open(self, argv[at], page.out, &file);
    if (status == MUSTER_STATUS_OK) {
        warn_of_size(&file, page.out);
        put_summary(&file, page.out);
    } else if (status == MUSTER_STATUS_FINDING) {
        fprintf(page.out, "%s: %u error%s: the policy would be off as a whole\n", argv[at],
                file.errors, file.errors == 1 ? "" : "s");
    }
    muster_terminal_page_end(&page);
    muster_policy_file_close(&file);
    return status;
}

const struct muster_cmd muster_cmd_policy_check = {
    .name = "policy check",
    .summary = "look for errors in a policy and the rest of its file",
    .usage = "FILE",
    .about = "Prints file:line:column: error|warning: text, then how many rules are fine and the\n"
             "SHA-256 that MUSTER_POLICY_SHA256 is compared with. Exit status: 0, with warnings\n"
             "too; 1 with errors; 2 if the file cannot be read.\n",
    .examples = "  muster policy check policy.yaml && muster run --policy policy.yaml -- ./train\n",
    .run = check,
};
