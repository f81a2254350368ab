#include "topology/hwloc/xml.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

void muster_xml_begin(struct muster_xml *xml, const char *name, const char *data, size_t size)
{
    memset(xml, 0, sizeof *xml);
    xml->name = name;
    xml->next = data;
    xml->end = data + size;
    xml->line = 1;
}

static int fail(const struct muster_xml *xml, struct muster_err *err, const char *what)
{
    return muster_fail(err, "%s:%u: %s", xml->name, xml->line, what);
}

static size_t left(const struct muster_xml *xml)
{
    return (size_t)(xml->end - xml->next);
}

static void step(struct muster_xml *xml, size_t n)
{
    for (; n; n--)
        xml->line += *xml->next++ == '\n';
}

static bool at(const struct muster_xml *xml, const char *word)
{
    size_t n = strlen(word);
    return left(xml) >= n && memcmp(xml->next, word, n) == 0;
}

/* Behind the next `word`; false at the end of the input. */
static bool skip_past(struct muster_xml *xml, const char *word)
{
    while (left(xml) && !at(xml, word))
        step(xml, 1);
    if (!left(xml))
        return false;
    step(xml, strlen(word));
    return true;
}

static void skip_blanks(struct muster_xml *xml)
{
    while (left(xml) && isspace((unsigned char)*xml->next))
        step(xml, 1);
}

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.' || c == ':';
}

static struct muster_xml_span take_name(struct muster_xml *xml)
{
    struct muster_xml_span span = {xml->next, 0};
    while (left(xml) && is_name(*xml->next)) {
        xml->next++;
        span.n++;
    }
    return span;
}

static int take_attribute(struct muster_xml *xml, struct muster_err *err)
{
    struct muster_xml_span key = take_name(xml), value;
    if (key.n == 0)
        return fail(xml, err, "expected an attribute, '/' or '>'");
    skip_blanks(xml);
    if (!at(xml, "="))
        return fail(xml, err, "expected '=' after an attribute's name");
    step(xml, 1);
    skip_blanks(xml);
    if (!at(xml, "\"") && !at(xml, "'"))
        return fail(xml, err, "expected a quoted value");
    char quote = *xml->next;
    step(xml, 1);
    value = (struct muster_xml_span){xml->next, 0};
    while (left(xml) && *xml->next != quote && *xml->next != '<') {
        step(xml, 1);
        value.n++;
    }
    if (!left(xml) || *xml->next != quote)
        return fail(xml, err, "a value is not closed");
    step(xml, 1);
    if (xml->attributes == MUSTER_XML_ATTRIBUTES)
        return fail(xml, err, "an element with more than 48 attributes");
    xml->key[xml->attributes] = key;
    xml->value[xml->attributes++] = value;
    return 0;
}

static int take_open(struct muster_xml *xml, struct muster_err *err)
{
    step(xml, 1);
    xml->element = take_name(xml);
    xml->attributes = 0;
    if (xml->element.n == 0)
        return fail(xml, err, "expected an element's name after '<'");
    if (xml->depth == MUSTER_XML_DEPTH)
        return fail(xml, err, "elements nested deeper than 128");
    for (;;) {
        skip_blanks(xml);
        if (at(xml, ">") || at(xml, "/>"))
            break;
        if (!left(xml))
            return fail(xml, err, "the file ends inside an element");
        if (take_attribute(xml, err))
            return -1;
    }
    xml->closing = at(xml, "/>");
    step(xml, xml->closing ? 2 : 1);
    xml->open[xml->depth++] = xml->element;
    return MUSTER_XML_OPEN;
}

static int take_close(struct muster_xml *xml, struct muster_err *err)
{
    step(xml, 2);
    xml->element = take_name(xml);
    skip_blanks(xml);
    if (!at(xml, ">"))
        return fail(xml, err, "expected '>' after a closing element's name");
    step(xml, 1);
    if (xml->depth == 0)
        return fail(xml, err, "an element is closed that was not opened");
    struct muster_xml_span open = xml->open[xml->depth - 1];
    if (open.n != xml->element.n || memcmp(open.at, xml->element.at, open.n) != 0)
        return fail(xml, err, "another element is closed than was opened last");
    xml->depth--;
    return MUSTER_XML_CLOSE;
}

static bool skip_other(struct muster_xml *xml, bool *ok)
{
    *ok = true;
    if (at(xml, "<?"))
        *ok = skip_past(xml, "?>");
    else if (at(xml, "<!--"))
        *ok = skip_past(xml, "-->");
    else if (at(xml, "<!"))
        *ok = skip_past(xml, ">");
    else
        return false;
    return true;
}

int muster_xml_next(struct muster_xml *xml, struct muster_err *err)
{
    bool ok;
    if (xml->closing) {
        xml->closing = 0;
        xml->depth--;
        return MUSTER_XML_CLOSE;
    }
    while (left(xml) && skip_other(xml, &ok))
        if (!ok)
            return fail(xml, err, "the file ends inside a comment or declaration");
    if (!left(xml))
        return xml->depth ? fail(xml, err, "the file ends inside an element") : MUSTER_XML_END;
    if (*xml->next != '<') {
        xml->text = (struct muster_xml_span){xml->next, 0};
        while (left(xml) && *xml->next != '<') {
            step(xml, 1);
            xml->text.n++;
        }
        return MUSTER_XML_TEXT;
    }
    return at(xml, "</") ? take_close(xml, err) : take_open(xml, err);
}

int muster_xml_is(struct muster_xml_span span, const char *word)
{
    return span.n == strlen(word) && memcmp(span.at, word, span.n) == 0;
}

/* How many bytes of the input stand for one character, which goes to *c. */
static size_t entity(const char *from, size_t n, char *c)
{
    static const struct {
        const char *text;
        char is;
    } known[] = {{"&quot;", '"'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&apos;", '\''}};
    *c = *from;
    for (size_t i = 0; i < sizeof known / sizeof *known && *from == '&'; i++) {
        size_t length = strlen(known[i].text);
        if (n >= length && memcmp(from, known[i].text, length) == 0) {
            *c = known[i].is;
            return length;
        }
    }
    return 1;
}

int muster_xml_get(const struct muster_xml *xml, const char *key, char *value, size_t size)
{
    size_t used = 0;
    value[0] = '\0';
    for (unsigned i = 0; i < xml->attributes; i++) {
        if (!muster_xml_is(xml->key[i], key))
            continue;
        const char *from = xml->value[i].at;
        for (size_t n = xml->value[i].n; n && used + 1 < size;) {
            size_t taken = entity(from, n, &value[used]);
            if (iscntrl((unsigned char)value[used]))
                value[used] = '?';
            used++;
            from += taken;
            n -= taken;
        }
        value[used] = '\0';
        return 1;
    }
    return 0;
}
