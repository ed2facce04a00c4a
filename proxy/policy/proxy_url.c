#include "proxy/policy/proxy_url.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

/* Length of the scheme when the value starts with one and "://", else 0. */
static size_t scheme_length(const char *s)
{
    size_t n = 0;
    for (;; n++) {
        unsigned char c = text_lower((unsigned char)s[n]);
        bool letter = c >= 'a' && c <= 'z';
        bool later = (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
        if (!letter && !(n != 0 && later))
            break;
    }
    return strncmp(s + n, "://", 3) == 0 ? n : 0;
}

static int hex_digit(char c)
{
    unsigned char lower = text_lower((unsigned char)c);
    if (lower >= '0' && lower <= '9')
        return lower - '0';
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Appends s with its escapes resolved; false when one is malformed. */
static bool percent_decode(struct buf *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (c == '%') {
            int high = i + 1 < n ? hex_digit(s[i + 1]) : -1;
            int low = i + 2 < n ? hex_digit(s[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        }
        buf_append(out, &c, 1);
    }
    return true;
}

/* "Basic ..." for the userinfo of a URL, or NULL when it holds nothing. */
static char *basic_authorization(const char *userinfo, size_t n)
{
    const char *colon = memchr(userinfo, ':', n);
    size_t user = colon != NULL ? (size_t)(colon - userinfo) : n;
    size_t password = colon != NULL ? n - user - 1 : 0;
    const char *secret = userinfo + n - password;
    struct buf plain, header;
    char *result = NULL;

    if (user == 0 && password == 0)
        return NULL;
    buf_init(&plain, n + 2);
    buf_init(&header, 2 * n + 16);
    bool decoded = percent_decode(&plain, userinfo, user);
    buf_puts(&plain, ":");
    if (!decoded || !percent_decode(&plain, secret, password)) {
        buf_clear(&plain);
        buf_append(&plain, userinfo, user);
        buf_puts(&plain, ":");
        buf_append(&plain, secret, password);
    }
    buf_puts(&header, "Basic ");
    text_base64(&header, buf_data(&plain), buf_len(&plain));
    result = mem_dup(buf_cstr(&header));
    buf_wipe(&plain);
    buf_wipe(&header);
    return result;
}

/* The address between the brackets, compressed and with a mapped address left as it is. */
static char *ipv6_host(const char *s, size_t n)
{
    char text[ADDRESS_TEXT_MAX] = {0};
    struct address a = {.family = 6};

    if (n >= sizeof text || memchr(s, 0, n) != NULL)
        return NULL;
    memcpy(text, s, n);
    if (inet_pton(AF_INET6, text, a.bytes) != 1)
        return NULL;
    address_format(&a, text);
    return mem_dup(text);
}

/* A name or an IPv4 address in any spelling, as a URL parser reads it. */
static char *named_host(const char *s, size_t n)
{
    struct buf decoded, made;
    struct host host;
    char *result = NULL;

    buf_init(&decoded, n + 1);
    buf_init(&made, HOST_MAX + 1);
    if (!percent_decode(&decoded, s, n))
        goto out;
    const char *text = buf_cstr(&decoded);
    size_t len = buf_len(&decoded);
    if (len == 0 || memchr(text, '[', len) != NULL || memchr(text, ':', len) != NULL)
        goto out;
    if (host_canonicalise(text, len, &host) != HOST_OK)
        goto out;
    buf_append(&made, host.text, host.len);
    if (!host.is_address && text[len - 1] == '.')
        buf_puts(&made, "."); /* an absolute name stays one: no search list for it */
    result = mem_dup(buf_cstr(&made));
out:
    buf_free(&decoded);
    buf_free(&made);
    return result;
}

/* What follows the host: nothing, ":" or ":" and a port. */
static bool parse_port(const char *s, size_t n, uint16_t *port)
{
    unsigned value = 0;
    if (n == 0)
        return true;
    if (s[0] != ':')
        return false;
    for (size_t i = 1; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        value = value * 10 + (unsigned)(s[i] - '0');
        if (value > 65535)
            return false;
    }
    if (n > 1)
        *port = (uint16_t)value;
    return *port != 0;
}

static bool parse_host_port(const char *s, size_t n, struct parent_proxy *out)
{
    const char *end = n != 0 ? memchr(s, s[0] == '[' ? ']' : ':', n) : NULL;

    if (n != 0 && s[0] == '[') {
        if (end == NULL || !parse_port(end + 1, n - (size_t)(end - s) - 1, &out->port))
            return false;
        out->host = ipv6_host(s + 1, (size_t)(end - s) - 1);
    } else {
        size_t len = end != NULL ? (size_t)(end - s) : n;
        if (!parse_port(s + len, n - len, &out->port))
            return false;
        out->host = named_host(s, len);
    }
    return out->host != NULL;
}

bool proxy_url_parse(const char *value, struct parent_proxy *out)
{
    size_t scheme = scheme_length(value);
    const char *s = value;

    *out = (struct parent_proxy){.port = 80};
    for (const char *p = value; *p != 0; p++) {
        if ((unsigned char)*p <= 0x20 || *p == 0x7F)
            return false;
    }
    if (scheme != 0) {
        out->tls = text_equal_fold(value, scheme, "https", 5);
        if (!out->tls && !text_equal_fold(value, scheme, "http", 4))
            return false;
        out->port = out->tls ? 443 : 80;
        s += scheme + 3;
    }
    s += strspn(s, "/\\"); /* a URL parser ignores further slashes here */
    size_t n = strcspn(s, "/\\?#");
    const char *at = memrchr(s, '@', n);
    const char *host = at != NULL ? at + 1 : s;
    if (!parse_host_port(host, n - (size_t)(host - s), out))
        return false;
    if (at != NULL)
        out->authorization = basic_authorization(s, (size_t)(at - s));
    return true;
}

void proxy_url_clear(struct parent_proxy *p)
{
    if (p->authorization != NULL)
        explicit_bzero(p->authorization, strlen(p->authorization));
    MEM_FREE(p->authorization);
    MEM_FREE(p->host);
}

void proxy_url_redact(struct buf *out, const char *value)
{
    size_t scheme = scheme_length(value), kept = scheme != 0 ? scheme + 3 : 0;
    /* Up to the last "@" of all: an unescaped "/" or "?" in a password ends the authority early. */
    const char *at = strrchr(value, '@');
    struct buf shown;

    buf_init(&shown, strlen(value) + 16);
    if (at != NULL && at >= value + kept) {
        buf_append(&shown, value, kept);
        buf_puts(&shown, "***:***");
        buf_puts(&shown, at);
    } else {
        buf_puts(&shown, value);
    }
    text_clean_reason(out, buf_cstr(&shown), buf_len(&shown));
    buf_wipe(&shown);
}
