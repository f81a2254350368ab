/*
 * The part of XML that hwloc writes: elements with attributes and text, no namespaces. A pull
 * reader over bytes in memory; it never allocates and never reads past `size`. Comments, processing
 * instructions and the document type are skipped.
 */
#ifndef MUSTER_TOPOLOGY_HWLOC_XML_H
#define MUSTER_TOPOLOGY_HWLOC_XML_H

#include <stddef.h>

#include "base/err.h"

enum { MUSTER_XML_ATTRIBUTES = 48, MUSTER_XML_DEPTH = 128 };

enum muster_xml_event {
    MUSTER_XML_OPEN,  /* <name a="b">, and <name/>, which is followed by its CLOSE */
    MUSTER_XML_CLOSE, /* </name> */
    MUSTER_XML_TEXT,
    MUSTER_XML_END,
};

/* Bytes of the input, not terminated; entities are not replaced. */
struct muster_xml_span {
    const char *at;
    size_t n;
};

struct muster_xml {
    const char *name; /* of the file, for errors */
    const char *next, *end;
    unsigned line, depth;
    struct muster_xml_span open[MUSTER_XML_DEPTH]; /* names of the elements around */
    int closing;                                   /* a CLOSE is due for <name/> */
    /* of the last event */
    struct muster_xml_span element, text;
    unsigned attributes;
    struct muster_xml_span key[MUSTER_XML_ATTRIBUTES], value[MUSTER_XML_ATTRIBUTES];
};

void muster_xml_begin(struct muster_xml *xml, const char *name, const char *data, size_t size);
/* The next event, or -1 with "NAME:LINE: what is wrong". */
int muster_xml_next(struct muster_xml *xml, struct muster_err *err);
int muster_xml_is(struct muster_xml_span span, const char *word);
/* The value of an attribute of the last OPEN with the five entities replaced; "" if there is none.
 * Cut at size - 1 bytes. Returns whether there is one. */
int muster_xml_get(const struct muster_xml *xml, const char *key, char *value, size_t size);

#endif
