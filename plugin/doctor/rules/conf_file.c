#include "doctor/rules/conf_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
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

int muster_conf_paths(const char *root, char path[MUSTER_CONF_FILES][MUSTER_CONF_PATH])
{
    const char *given = muster_env("NCCL_CONF_FILE"), *home = muster_env("HOME");
    int n = 0;
    if (given)
        snprintf(path[n++], MUSTER_CONF_PATH, "%s", given);
    else if (home)
        snprintf(path[n++], MUSTER_CONF_PATH, "%s/.nccl.conf", home);
    snprintf(path[n++], MUSTER_CONF_PATH, "%s/etc/nccl.conf", root);
    return n;
}

bool muster_conf_load(struct muster_conf *conf, const char *path)
{
    enum { CONF_MAX = 64 << 10 };
    *conf = (struct muster_conf){.n = 0};
    char *text = malloc(CONF_MAX);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 && text ? read(fd, text, CONF_MAX) : -1;
    if (fd >= 0)
        close(fd);
    if (n > 0)
        muster_conf_parse(conf, text, (size_t)n);
    free(text);
    return n > 0;
}
