/* Passwords of those who may read. */
#include <crypt.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/web_config.h"

enum { TEXT_BYTES = 512 };

/* Decodes base64 without line ends; false where it is none, or too long. */
static bool decode(const char *from, char to[static TEXT_BYTES])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    unsigned held = 0;
    size_t n = 0;
    for (; *from && *from != '='; from++) {
        const char *digit = strchr(digits, *from);
        if (!digit || n == TEXT_BYTES - 1)
            return false;
        bits = bits << 6 | (uint32_t)(digit - digits);
        held += 6;
        if (held < 8)
            continue;
        held -= 8;
        to[n++] = (char)(bits >> held & 0xff);
    }
    to[n] = 0;
    return strspn(from, "=") == strlen(from) && strlen(to) == n;
}

static bool same(const char *a, const char *b)
{
    size_t n = strlen(a);
    unsigned char differ = n != strlen(b);
    for (size_t i = 0; !differ && i < n; i++)
        differ |= (unsigned char)(a[i] ^ b[i]);
    return !differ;
}

static bool fits(const char *password, const char *hash)
{
    struct crypt_data *data = calloc(1, sizeof *data);
    const char *made = data ? crypt_r(password, hash, data) : NULL;
    bool good = made && same(made, hash);
    if (data)
        explicit_bzero(data, sizeof *data);
    free(data);
    return good;
}

bool muster_web_may(const struct muster_web_config *web, const char *authorization)
{
    char text[TEXT_BYTES];
    if (web->users == 0)
        return true;
    if (!authorization || strncasecmp(authorization, "Basic ", strlen("Basic ")) != 0 ||
        !decode(authorization + strlen("Basic "), text))
        return false;
    char *colon = strchr(text, ':');
    if (!colon)
        return false;
    *colon = 0;
    /* Whoever is not known costs as much as whoever is. */
    const struct muster_web_user *user = NULL;
    for (size_t i = 0; i < web->users; i++)
        if (strcmp(web->user[i].name, text) == 0)
            user = &web->user[i];
    bool good = fits(colon + 1, (user ? user : &web->user[0])->hash) && user;
    explicit_bzero(text, sizeof text);
    return good;
}
