/* What the commands of `muster policy` share. */
#ifndef MUSTER_CLI_CMD_POLICY_H
#define MUSTER_CLI_CMD_POLICY_H

#include <stdint.h>
#include <stdio.h>

#include "base/json.h"
#include "cli/cmd.h"
#include "config/document.h"
#include "policy/policy.h"

extern const struct muster_cmd muster_cmd_policy_check;
extern const struct muster_cmd muster_cmd_policy_explain;
extern const struct muster_cmd muster_cmd_policy_simulate;
extern const struct muster_cmd muster_cmd_policy_show;
extern const struct muster_cmd muster_cmd_policy_schema;

enum { MUSTER_POLICY_AS_TEXT, MUSTER_POLICY_AS_JSON };
extern const char *const muster_policy_formats[];

struct muster_policy_file {
    struct muster_document document;
    struct muster_policy *policy;
    unsigned errors, warnings; /* those that were printed */
};

/* Reads a policy and prints what was found in it to `messages`. Not readable: reported on standard
 * error, MUSTER_STATUS_USAGE; with errors: MUSTER_STATUS_FINDING, and *file holds the document
 * only; else 0. `file` is to be closed in any case. */
int muster_policy_file_open(const struct muster_cmd *self, const char *path, FILE *messages,
                            struct muster_policy_file *file);
void muster_policy_file_close(struct muster_policy_file *file);

/* {"version", "muster", "file", "sha256": opened; the caller adds to it and ends it. */
void muster_policy_json_begin(struct muster_json *json, const struct muster_policy_file *file,
                              FILE *out);
/* name, line, column, match, action of rule i as members of the open object. */
void muster_policy_json_rule(struct muster_json *json, const struct muster_policy_file *file,
                             unsigned i);
/* Member "communicator": ranks, nodes, nvlink_domains; null for NULL. */
void muster_policy_json_comm(struct muster_json *json, const struct muster_query *comm);
/* "16 ranks on 2 nodes, 1 NVLink domain" */
void muster_policy_put_shape(FILE *out, const struct muster_query *comm);
/* Whether a communicator like this can be: nodes and domains at most ranks. Prints what is wrong.
 */
int muster_policy_check_shape(const struct muster_cmd *self, const struct muster_query *comm);

#endif
