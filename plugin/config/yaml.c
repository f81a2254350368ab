#include "config/yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/text.h"

struct reader {
    yaml_parser_t parser;
    struct muster_arena *memory;
    const char *file;
    const char *yaml;
    size_t bytes;
    unsigned depth;
    unsigned nodes;
    struct muster_err *err;
};

static int read_node(struct reader *reader, const yaml_event_t *event,
                     struct muster_yaml_node **slot);

int muster_yaml_fail(struct muster_err *err, const char *file, struct muster_yaml_place place,
                     const char *fmt, ...)
{
    enum { NAME_MAX_SHOWN = 100 };
    char text[400];
    size_t length = strlen(file);
    const char *name = length > NAME_MAX_SHOWN ? file + length - NAME_MAX_SHOWN : file;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    muster_text_copy(text, sizeof(text), text); /* keys may hold control characters */
    return muster_fail(err, "%s:%u:%u: %s", name, place.line, place.column, text);
}

static struct muster_yaml_place place_of(yaml_mark_t mark)
{
    return (struct muster_yaml_place){(unsigned)mark.line + 1, (unsigned)mark.column + 1};
}

static int fail_at(struct reader *reader, const yaml_event_t *event, const char *problem)
{
    return muster_yaml_fail(reader->err, reader->file, place_of(event->start_mark), "%s", problem);
}

static int fail_memory(struct reader *reader)
{
    return muster_fail_memory(reader->err, reader->file);
}

/* libyaml gives a byte offset where it cannot decode a character. */
static struct muster_yaml_place place_of_byte(const struct reader *reader, size_t offset)
{
    struct muster_yaml_place place = {1, 1};
    for (size_t i = 0; i < offset && i < reader->bytes; i++) {
        if (reader->yaml[i] == '\n') {
            place.line++;
            place.column = 1;
        } else if ((reader->yaml[i] & 0xc0) != 0x80) {
            place.column++;
        }
    }
    return place;
}

static bool is_tab(const struct reader *reader, struct muster_yaml_place place)
{
    unsigned line = 1, column = 1;
    for (size_t i = 0; i < reader->bytes && line <= place.line; i++) {
        if (line == place.line && column == place.column && reader->yaml[i] == '\t')
            return true;
        column = reader->yaml[i] == '\n' ? 1 : column + ((reader->yaml[i] & 0xc0) != 0x80);
        line += reader->yaml[i] == '\n';
    }
    return false;
}

static int fail_parser(struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    struct muster_yaml_place place = place_of(parser->problem_mark);
    /* Some allocations of libyaml 0.2.5 fail without a word; everything else has a problem. */
    if (parser->error == YAML_MEMORY_ERROR || !parser->problem)
        return fail_memory(reader);
    if (parser->error == YAML_READER_ERROR)
        place = place_of_byte(reader, parser->problem_offset);
    if (parser->error == YAML_SCANNER_ERROR && is_tab(reader, place))
        return muster_yaml_fail(reader->err, reader->file, place,
                                "found a tab: YAML is indented with spaces");
    if (parser->context)
        return muster_yaml_fail(reader->err, reader->file, place, "%s, %s", parser->problem,
                                parser->context);
    return muster_yaml_fail(reader->err, reader->file, place, "%s", parser->problem);
}

static int next_event(struct reader *reader, yaml_event_t *event)
{
    if (!yaml_parser_parse(&reader->parser, event))
        return fail_parser(reader);
    return 0;
}

/* Without the NUL characters that check_event refuses. */
static const char *copy_scalar(struct reader *reader, const yaml_event_t *event)
{
    return muster_arena_text(reader->memory, (const char *)event->data.scalar.value);
}

/* What no node may have, key or value. */
static int check_event(struct reader *reader, const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        if (memchr(event->data.scalar.value, '\0', event->data.scalar.length))
            return fail_at(reader, event, "a NUL character is not allowed");
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        break;
    default:
        return fail_at(reader, event, "aliases are not allowed, write the value out");
    }
    if (anchor)
        return fail_at(reader, event, "anchors are not allowed, write the value out");
    if (tag)
        return fail_at(reader, event, "tags are not allowed");
    return 0;
}

static int check_duplicate(struct reader *reader, const struct muster_yaml_node *map,
                           const yaml_event_t *event)
{
    const char *key = (const char *)event->data.scalar.value;
    unsigned members = 0;
    for (const struct muster_yaml_node *n = map->first; n; n = n->next, members++)
        if (strcmp(n->key, key) == 0)
            return muster_yaml_fail(reader->err, reader->file, place_of(event->start_mark),
                                    "duplicate key '%.80s', first at line %u", key,
                                    n->key_place.line);
    if (members >= MUSTER_YAML_MEMBERS)
        return fail_at(reader, event, "too many keys in one mapping");
    return 0;
}

static int read_member(struct reader *reader, struct muster_yaml_node *map,
                       struct muster_yaml_node **slot, const yaml_event_t *key)
{
    yaml_event_t value;
    if (key->type != YAML_SCALAR_EVENT && key->type != YAML_ALIAS_EVENT)
        return fail_at(reader, key, "a key must be text");
    if (check_event(reader, key) != 0 || check_duplicate(reader, map, key) != 0)
        return -1;
    if (next_event(reader, &value) != 0)
        return -1;
    int failed = read_node(reader, &value, slot);
    yaml_event_delete(&value);
    if (failed)
        return -1;
    (*slot)->key = copy_scalar(reader, key);
    (*slot)->key_place = place_of(key->start_mark);
    return 0;
}

static int read_children(struct reader *reader, struct muster_yaml_node *parent)
{
    struct muster_yaml_node **slot = &parent->first;
    bool map = parent->kind == MUSTER_YAML_MAP;
    yaml_event_type_t end = map ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
    for (;;) {
        yaml_event_t event;
        if (next_event(reader, &event) != 0)
            return -1;
        bool ended = event.type == end;
        int failed = 0;
        if (!ended)
            failed =
                map ? read_member(reader, parent, slot, &event) : read_node(reader, &event, slot);
        yaml_event_delete(&event);
        if (ended || failed)
            return failed;
        slot = &(*slot)->next;
    }
}

/* *slot is NULL before. */
static int read_node(struct reader *reader, const yaml_event_t *event,
                     struct muster_yaml_node **slot)
{
    if (check_event(reader, event) != 0)
        return -1;
    if (++reader->nodes > MUSTER_YAML_NODES)
        return fail_at(reader, event, "too many values in one file");
    struct muster_yaml_node *node = muster_arena_array(reader->memory, 1, sizeof(*node));
    if (!node)
        return -1;
    node->place = place_of(event->start_mark);
    *slot = node;

    if (event->type == YAML_SCALAR_EVENT) {
        node->kind = MUSTER_YAML_SCALAR;
        node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        node->text = copy_scalar(reader, event);
        return 0;
    }
    node->kind = event->type == YAML_MAPPING_START_EVENT ? MUSTER_YAML_MAP : MUSTER_YAML_LIST;
    if (reader->depth == MUSTER_YAML_DEPTH)
        return fail_at(reader, event, "nested too deeply");
    reader->depth++;
    int failed = read_children(reader, node);
    reader->depth--;
    return failed;
}

static int make_empty(struct reader *reader, struct muster_yaml_node **root)
{
    struct muster_yaml_node *node = muster_arena_array(reader->memory, 1, sizeof(*node));
    if (!node)
        return -1;
    *root = node;
    node->plain = true;
    node->place = (struct muster_yaml_place){1, 1};
    node->text = "";
    return 0;
}

/* Events of a stream: its start; per document a start, one node and an end; its end. */
static int read_stream(struct reader *reader, struct muster_yaml_node **root)
{
    for (;;) {
        yaml_event_t event;
        if (next_event(reader, &event) != 0)
            return -1;
        bool ended = event.type == YAML_STREAM_END_EVENT;
        int failed = 0;
        if (event.type == YAML_DOCUMENT_START_EVENT && *root)
            failed = fail_at(reader, &event, "only one document is allowed");
        else if (!ended && event.type != YAML_STREAM_START_EVENT &&
                 event.type != YAML_DOCUMENT_START_EVENT && event.type != YAML_DOCUMENT_END_EVENT)
            failed = read_node(reader, &event, root);
        yaml_event_delete(&event);
        if (failed)
            return failed;
        if (ended)
            return *root ? 0 : make_empty(reader, root);
    }
}

/* Before libyaml sees them: it takes time quadratic in the number of %TAG lines. A line may also
 * begin after one of Unicode's line breaks, by their last bytes. */
static int check_directives(struct reader *reader)
{
    static const char directive[] = "%TAG";
    const char *at = reader->yaml, *end = reader->yaml + reader->bytes;
    while ((at = memmem(at, (size_t)(end - at), directive, sizeof(directive) - 1))) {
        if (at == reader->yaml || memchr("\n\r\x85\xa8\xa9", at[-1], 5)) {
            size_t offset = (size_t)(at - reader->yaml);
            return muster_yaml_fail(reader->err, reader->file, place_of_byte(reader, offset),
                                    "tags are not allowed");
        }
        at++;
    }
    return 0;
}

int muster_yaml_parse(struct muster_yaml_node **root, struct muster_arena *memory, const char *file,
                      const char *yaml, size_t bytes, struct muster_err *err)
{
    struct reader reader = {
        .memory = memory, .file = file, .yaml = yaml, .bytes = bytes, .err = err};
    struct muster_yaml_node *tree = NULL;
    if (bytes > MUSTER_YAML_BYTES)
        return muster_fail(err, "%s: larger than %d MiB", file, MUSTER_YAML_BYTES >> 20);
    if (bytes > 0 && check_directives(&reader) != 0)
        return -1;
    if (!yaml_parser_initialize(&reader.parser))
        return fail_memory(&reader);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)yaml, bytes);
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    int failed = read_stream(&reader, &tree);
    yaml_parser_delete(&reader.parser);
    if (memory->failed)
        return fail_memory(&reader);
    if (failed == 0)
        *root = tree;
    return failed;
}

bool muster_yaml_is_null(const struct muster_yaml_node *node)
{
    if (node->kind != MUSTER_YAML_SCALAR || !node->plain)
        return false;
    return !node->text[0] || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0;
}

void muster_yaml_describe(const struct muster_yaml_node *node, char *to, size_t size)
{
    if (node->kind == MUSTER_YAML_MAP)
        muster_text_copy(to, size, node->first ? "a mapping" : "an empty mapping");
    else if (node->kind == MUSTER_YAML_LIST)
        muster_text_copy(to, size, node->first ? "a list" : "an empty list");
    else if (muster_yaml_is_null(node))
        muster_text_copy(to, size, "no value");
    else
        snprintf(to, size, "'%.60s'", node->text);
}
