#include "accuracy_options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static bool is_allowed(const char *allowed, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = allowed; (at = strstr(at, name)); at += n)
        if ((at == allowed || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

int options_parse(int argc, char **argv, const char *allowed, struct options *options)
{
    static const struct option all[] = {
        {"models", required_argument, NULL, 'm'}, {"from", required_argument, NULL, 'f'},
        {"to", required_argument, NULL, 't'},     {"cases", required_argument, NULL, 'c'},
        {"reach", no_argument, NULL, 'r'},        {"large", no_argument, NULL, 'l'},
        {"say", no_argument, NULL, 's'},          {"evidence", no_argument, NULL, 'e'},
    };
    enum { ALL = sizeof all / sizeof *all };
    struct option known[ALL + 1] = {{0}};
    for (unsigned i = 0, n = 0; i < ALL; i++)
        if (is_allowed(allowed, all[i].name))
            known[n++] = all[i];
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (c) {
        case 'm':
            options->models = optarg;
            break;
        case 'f':
            options->from = strtoull(optarg, NULL, 10);
            break;
        case 't':
            options->to = strtoull(optarg, NULL, 10);
            break;
        case 'c':
            options->cases = strtoull(optarg, NULL, 10);
            break;
        case 'l':
            options->large = true;
            break;
        case 's':
            options->explain = true;
            break;
        case 'r':
            options->reach = true;
            break;
        case 'e':
            options->evidence = true;
            break;
        default:
            return -1;
        }
    }
    bool models = options->models || !is_allowed(allowed, "models");
    return models && options->from <= options->to ? 0 : -1;
}
