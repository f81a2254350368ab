/* A YAML document as bytes, from a file or from the environment. */
#ifndef MUSTER_CONFIG_DOCUMENT_H
#define MUSTER_CONFIG_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { MUSTER_DOCUMENT_INLINE = 96 << 10 };

struct muster_document {
    char name[1024]; /* for errors: the path, or the variable */
    char *text;      /* not terminated; NULL: there is none */
    size_t bytes;
    bool is_file;
    int64_t changed_ns; /* of a file: its time of change and length, to notice another one */
    int64_t length;
};

/* At most one byte more than MUSTER_YAML_BYTES is read, so that a parser sees that it is too
 * large. Errors begin with the path. */
int muster_document_read(struct muster_document *document, const char *path,
                         struct muster_err *err);
/* The document with the policy: MUSTER_POLICY_INLINE, else MUSTER_CONFIG's file, else none. */
int muster_document_of_policy(struct muster_document *document, struct muster_err *err);
/* Whether the file is another one by now. */
bool muster_document_is_stale(const struct muster_document *document);
void muster_document_free(struct muster_document *document); /* its text */

#endif
