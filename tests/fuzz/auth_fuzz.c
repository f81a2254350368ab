/*
 * The Authorization header of whoever asks the agent for its page: the input as it is, and the
 * input as the name and password that a client encoded. Nobody but a user of the configuration may
 * read. bcrypt takes 50 ms by design, so here a password is its own hash.
 */
#include <crypt.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/web_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LONGEST = 511 }; /* name, colon and password */

static const struct muster_web_config web = {
    .user = {{"prometheus", "$2y$10$a"}, {"x", ""}, {"y:", "z"}}, .users = 3};

char *crypt_r(const char *phrase, const char *setting, struct crypt_data *data)
{
    (void)setting;
    if (strlen(phrase) >= sizeof data->output)
        return NULL;
    return strcpy(data->output, phrase);
}

static void require(bool condition)
{
    if (!condition)
        abort();
}

/* "Basic " and the bytes in base64; free() it. */
static char *encode(const uint8_t *from, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *made = calloc(1, strlen("Basic ") + (size + 2) / 3 * 4 + 1), *to = made;
    require(made);
    to = stpcpy(to, "Basic ");
    for (size_t i = 0; i < size; i += 3) {
        size_t n = size - i < 3 ? size - i : 3;
        uint32_t bits = 0;
        for (size_t j = 0; j < 3; j++)
            bits = bits << 8 | (j < n ? from[i + j] : 0);
        for (size_t j = 0; j < 4; j++)
            *to++ = (char)(j <= n ? digits[bits >> (18 - 6 * j) & 63] : '=');
    }
    return made;
}

/* Whether the bytes are a user's name and password: no name holds a colon. */
static bool is_users(const uint8_t *text, size_t size)
{
    for (size_t i = 0; i < web.users; i++) {
        const char *name = web.user[i].name, *password = web.user[i].hash;
        size_t n = strlen(name);
        if (!strchr(name, ':') && size == n + 1 + strlen(password) && memcmp(text, name, n) == 0 &&
            text[n] == ':' && memcmp(text + n + 1, password, size - n - 1) == 0)
            return true;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct muster_web_config open = {.users = 0};
    char *header = strndup((const char *)data, size), *encoded = encode(data, size);
    require(header);
    require(muster_web_may(&open, header) && !muster_web_may(&web, NULL));
    require(!muster_web_may(&web, header) || strncasecmp(header, "Basic ", 6) == 0);
    require(muster_web_may(&web, encoded) == (size <= LONGEST && is_users(data, size)));
    free(header);
    free(encoded);
    return 0;
}
