#include "proxy/http/authenticate.h"

#include <string.h>

#include "base/secret.h"
#include "base/text.h"

static const struct field *find_field(const struct head *h)
{
    for (uint32_t i = 0; i < h->count; i++)
        if (h->fields[i].id == FIELD_PROXY_AUTHORIZATION)
            return &h->fields[i];
    return NULL;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* The base64 run of `Basic <run>`; false when the value has another shape. */
static bool basic_credentials(const char *s, size_t n, const char **run, size_t *length)
{
    static const char scheme[] = "basic";
    size_t at = sizeof scheme - 1;
    if (n <= at || !text_equal_fold(s, at, scheme, at) || !is_blank(s[at]))
        return false;
    while (at < n && is_blank(s[at]))
        at++;
    *run = s + at;
    *length = n - at;
    return *length != 0;
}

bool authenticate(const struct worker *w, const struct head *h, const uint8_t *p, struct request *r)
{
    const struct field *field = find_field(h);
    const char *run;
    size_t length;
    const char *token = w->token;
    bool ok = token == NULL;
    if (field == NULL)
        return ok || w->token_optional;
    if (!basic_credentials((const char *)p + field->value.at, field->value.len, &run, &length))
        return ok;
    struct buf plain;
    buf_init(&plain, length);
    if (text_base64_decode(&plain, run, length) && buf_len(&plain) != 0) {
        const char *user = buf_chars(&plain);
        const char *colon = memchr(user, ':', buf_len(&plain));
        if (colon != NULL && colon != user) {
            size_t user_len = (size_t)(colon - user);
            const char *password = colon + 1;
            size_t password_len = buf_len(&plain) - user_len - 1;
            if (token != NULL)
                ok = secret_equal(password, password_len, token, strlen(token));
            if (ok)
                request_set_user(r, user, user_len);
        }
    }
    buf_wipe(&plain);
    return ok;
}
