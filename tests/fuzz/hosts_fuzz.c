/* What comes over the launcher's output: lines, messages, names of hosts. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/hosts/hosts.h"
#include "doctor/hosts/hosts_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMBERS = 3 };

static void fuzz_message(const char *text, size_t size)
{
    struct muster_arena arena = {0};
    struct muster_hosts_message message, again;
    struct muster_err err;
    if (muster_hosts_read(text, size, &arena, &message, &err) == 0) {
        const char *written = muster_hosts_write(&message, &arena);
        if (*written && muster_hosts_read(written, strlen(written), &arena, &again, &err))
            abort(); /* what was understood can be passed on */
        for (unsigned t = 0; t < muster_hosts_targets(&message.member); t++) {
            struct sockaddr_storage to;
            socklen_t to_size;
            muster_hosts_target(&message.member, t, &to, &to_size);
        }
    }
    muster_arena_free(&arena);
}

static void fuzz_stream(const char *bytes, size_t size)
{
    struct muster_hosts_stream stream = {.n = 0};
    struct muster_hosts_text text[MEMBERS] = {{0}};
    if (muster_hosts_stream_add(&stream, bytes, size)) {
        int member;
        while ((member = muster_hosts_stream_take(&stream, text, MEMBERS)) >= 0)
            fuzz_message(text[member].bytes, text[member].n);
    }
    for (size_t i = 0; i < MEMBERS; i++)
        free(text[i].bytes);
    muster_hosts_stream_free(&stream);
}

static void fuzz_meeting(const char *text)
{
    char host[256], line[160];
    unsigned member = MEMBERS;
    uint16_t port;
    struct muster_err err;
    muster_hosts_meet_place(text, host, &port, &err);
    if (muster_hosts_meet_read(text, "job", MEMBERS, &member)) {
        muster_hosts_meet_line("job", member, line);
        if (member >= MEMBERS || strncmp(line, text, strlen(text)) != 0)
            abort(); /* one line for each member */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct muster_arena arena = {0};
    struct muster_err err;
    const char *const *names;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    fuzz_message(text, size);
    fuzz_stream(text, size);
    fuzz_meeting(text);
    muster_hosts_names(text, &arena, &names, &err);
    muster_arena_free(&arena);
    free(text);
    return 0;
}
