#include "launch/job_policy.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/env.h"
#include "config/document.h"
#include "config/settings.h"
#include "policy/policy.h"

/* `to`: what whoever reads the settings prints of the same file, and is not printed twice; or NULL.
 */
static void report(void *to, const struct muster_policy_message *message)
{
    char text[1700], place[400];
    const struct muster_err *known = to;
    snprintf(place, sizeof place, "%s:%u:%u: ", message->file, message->line, message->column);
    if (known && strncmp(known->text, place, strlen(place)) == 0)
        return;
    muster_policy_message_print(text, sizeof text, message);
    fprintf(stderr, "%s\n", text);
}

/* The hash of a policy with rules; -1 with errors, which are printed but for the one that is
 * `known`; 1 without rules. */
static int read_policy(const struct muster_document *document, struct muster_err *known,
                       char hex[MUSTER_POLICY_HEX])
{
    struct muster_policy *policy = NULL;
    if (muster_policy_parse(&policy, document->name, document->text, document->bytes, report,
                            known)) {
        return -1;
    }
    muster_policy_hex(hex, policy->sha256);
    bool rules = policy->rules > 0;
    muster_policy_free(policy);
    return rules ? 0 : 1;
}

static int check_size(const struct muster_document *document, const char *hex,
                      struct muster_err *err)
{
    if (document->bytes <= MUSTER_DOCUMENT_INLINE)
        return 0;
    return muster_fail(err,
                       "%s: %zu bytes do not fit the environment, which carries %d KiB; put the "
                       "file where every rank sees it, name it with MUSTER_CONFIG, and set "
                       "MUSTER_POLICY_SHA256=%s",
                       document->name, document->bytes, MUSTER_DOCUMENT_INLINE >> 10, hex);
}

static int check_hash(const struct muster_document *document, const char *hex,
                      struct muster_err *err)
{
    const char *expected = muster_env("MUSTER_POLICY_SHA256");
    if (!expected || strcasecmp(expected, hex) == 0)
        return 0;
    return muster_fail(err, "%s: its SHA-256 is %s, MUSTER_POLICY_SHA256 is %.64s", document->name,
                       hex, expected);
}

int muster_steer_add_text(struct muster_environment *environment, const char *text,
                          struct muster_err *err)
{
    return muster_environment_add_long(environment, "MUSTER_POLICY_INLINE", text, err) ||
                   muster_environment_add(environment, "NCCL_TUNER_PLUGIN", MUSTER_TUNER_LIBRARY,
                                          err)
               ? -1
               : 0;
}

/* The environment takes the text over. */
static int carry(struct muster_environment *environment, const struct muster_document *document,
                 struct muster_err *err)
{
    environment->owned = malloc(document->bytes + 1);
    if (!environment->owned)
        return muster_fail_memory(err, document->name);
    memcpy(environment->owned, document->text, document->bytes);
    environment->owned[document->bytes] = '\0';
    return muster_steer_add_text(environment, environment->owned, err);
}

static int add_file(struct muster_environment *environment, const char *file,
                    struct muster_err *err)
{
    struct muster_document document;
    char hex[MUSTER_POLICY_HEX];
    if (muster_document_read(&document, file, err))
        return -1;
    int rc = read_policy(&document, NULL, hex);
    if (rc < 0) {
        muster_fail(err, "%s: the policy has errors, nothing was started", file);
    } else if (rc > 0) {
        fprintf(stderr, "%s: warning: no rules: the tuner is not loaded\n", file);
        rc = 0;
    } else if (check_size(&document, hex, err) || check_hash(&document, hex, err) ||
               carry(environment, &document, err)) {
        rc = -1;
    }
    muster_document_free(&document);
    return rc;
}

int muster_steer_add(struct muster_environment *environment, const char *file, const char *config,
                     struct muster_err *err)
{
    struct muster_document document = {.text = NULL};
    const char *text = muster_env("MUSTER_POLICY_INLINE");
    char hex[MUSTER_POLICY_HEX];
    struct muster_err wrong = {.text = ""};
    if (file)
        return add_file(environment, file, err);
    /* What cannot be read here is reported by who reads the configuration. */
    int rc = config && !text ? muster_document_read(&document, config, NULL)
                             : muster_document_of_policy(&document, NULL);
    if (rc == 0 && document.text) {
        struct muster_settings settings;
        (void)muster_settings_parse(&settings, document.name, document.text, document.bytes,
                                    &wrong);
    }
    if (rc == 0 && document.text && read_policy(&document, &wrong, hex) == 0)
        rc = muster_environment_add(environment, "NCCL_TUNER_PLUGIN", MUSTER_TUNER_LIBRARY, err);
    else
        rc = 0;
    muster_document_free(&document);
    return rc;
}

unsigned muster_steer_missed(const struct muster_run *run)
{
    unsigned n = 0;
    for (size_t i = 0; i < run->processes; i++) {
        const struct muster_process *process = &run->process[i];
        const struct muster_seg_policy *policy = &process->segment->policy;
        n += policy->configured && policy->tuner_api == 0;
    }
    return n;
}
