#include "doctor/rules/conf_file.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

static void take_line(struct muster_conf *conf, const char *line, size_t n, unsigned number)
{
    const char *equals = memchr(line, '=', n);
    char text[256];
    if (n == 0 || *line == '#' || !equals)
        return;
    if (conf->n == MUSTER_CONF_LINES) {
        conf->dropped++;
        return;
    }
    size_t name = (size_t)(equals - line), value = n - name - 1;
    snprintf(text, sizeof text, "%.*s", (int)(name < 127 ? name : 127), line);
    muster_text_copy(conf->at[conf->n].name, sizeof conf->at[conf->n].name, text);
    snprintf(text, sizeof text, "%.*s", (int)(value < 255 ? value : 255), equals + 1);
    muster_text_copy(conf->at[conf->n].value, sizeof conf->at[conf->n].value, text);
    conf->at[conf->n++].line = number;
}

void muster_conf_parse(struct muster_conf *conf, const char *text, size_t size)
{
    unsigned number = 0;
    memset(conf, 0, sizeof *conf);
    while (size) {
        const char *end = memchr(text, '\n', size);
        size_t n = end ? (size_t)(end - text) : size, length = n;
        if (length && text[length - 1] == '\r')
            length--;
        take_line(conf, text, length, ++number);
        text += n + (end != NULL);
        size -= n + (end != NULL);
    }
}
