#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "proxy/http/field.h"
#include "proxy/http/target.h"
#include "proxy/policy/address.h"

enum { PORT_MAX = 65535, PORT_HTTP = 80, PORT_HTTPS = 443 };

/* Digits with a value up to 65535; leading zeros are fine. */
static bool port_parse(const char *s, size_t n, uint16_t *port)
{
    unsigned value = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        value = value * 10 + (unsigned)(s[i] - '0');
        if (value > PORT_MAX)
            return false;
    }
    *port = (uint16_t)value;
    return n != 0;
}

/* RFC 4291 text without a zone; a dotted quad alone is none. */
static bool is_ipv6(const char *s, size_t n)
{
    struct address address;
    return memchr(s, ':', n) != NULL && address_parse(s, n, false, &address);
}

/*
 * `host[:port]` or `[ipv6][:port]`. *port_text is what follows the colon, NULL without one.
 * False: no host, brackets around anything but an IPv6 address, or bytes after the bracket.
 */
static bool host_and_port(const char *s, size_t n, struct authority *out, const char **port_text)
{
    const char *end = s + n, *rest;
    out->bracketed = n != 0 && s[0] == '[';
    if (out->bracketed) {
        const char *close = memchr(s, ']', n);
        if (close == NULL || !is_ipv6(s + 1, (size_t)(close - s) - 1))
            return false;
        out->host = s + 1;
        out->host_len = (size_t)(close - s) - 1;
        rest = close + 1;
    } else {
        const char *colon = memchr(s, ':', n);
        rest = colon != NULL ? colon : end;
        out->host = s;
        out->host_len = (size_t)(rest - s);
        if (out->host_len == 0)
            return false;
    }
    *port_text = rest < end ? rest + 1 : NULL;
    return rest == end || *rest == ':';
}

bool authority_parse_connect(const char *s, size_t n, struct authority *out)
{
    const char *port;
    *out = (struct authority){0};
    return host_and_port(s, n, out, &port) && port != NULL &&
           port_parse(port, (size_t)(s + n - port), &out->port) && out->port != 0;
}

/* Length of "http://" or "https://" at the start of s, 0 when it is neither. */
static size_t scheme_length(const char *s, size_t n, bool *https)
{
    static const char http[] = "http://", secure[] = "https://";
    enum { HTTP = sizeof http - 1, SECURE = sizeof secure - 1 };
    *https = n >= SECURE && text_equal_fold(s, SECURE, secure, SECURE);
    if (*https)
        return SECURE;
    return n >= HTTP && text_equal_fold(s, HTTP, http, HTTP) ? HTTP : 0;
}

bool authority_parse_absolute(const char *s, size_t n, struct authority *out)
{
    *out = (struct authority){0};
    size_t at = scheme_length(s, n, &out->https);
    if (at == 0)
        return false;
    size_t scheme = at, host = at;
    for (; at < n && s[at] != '/' && s[at] != '?' && s[at] != '#'; at++) {
        if (byte_is((uint8_t)s[at], BYTE_NO_AUTHORITY))
            return false;
        if (s[at] == '@')
            host = at + 1;
    }
    out->user = host != scheme;
    out->path = at;

    const char *port;
    if (!host_and_port(s + host, at - host, out, &port))
        return false;
    if (!out->bracketed && memchr(out->host, '[', out->host_len) != NULL)
        return false;
    if (!out->bracketed && memchr(out->host, ']', out->host_len) != NULL)
        return false;
    out->port = out->https ? PORT_HTTPS : PORT_HTTP;
    if (port == NULL || port == s + at)
        return true;
    return port_parse(port, (size_t)(s + at - port), &out->port) && out->port != 0;
}

void authority_spelling(struct buf *out, const struct authority *a, bool connect)
{
    struct host host;
    enum host_result result = host_canonicalise(a->host, a->host_len, &host);
    if (connect || (result != HOST_OK && result != HOST_EMPTY_LABEL)) {
        (void)buf_append(out, a->host, a->host_len);
    } else if (host.is_address && host.address.family == 4 &&
               memchr(a->host, ':', a->host_len) != NULL) {
        /* A URL parser keeps an IPv4-mapped address in its IPv6 form. */
        const uint8_t *b = host.address.bytes;
        (void)buf_printf(out, "::ffff:%x:%x", (unsigned)(b[0] << 8 | b[1]),
                         (unsigned)(b[2] << 8 | b[3]));
    } else if (host.is_address) {
        (void)buf_append(out, host.text, host.len);
    } else {
        for (size_t i = 0; i < a->host_len; i++) {
            uint8_t c = text_lower((uint8_t)a->host[i]);
            (void)buf_append(out, &c, 1);
        }
    }
}

void authority_format(struct buf *out, const struct host *host, uint16_t port,
                      uint16_t default_port)
{
    bool ipv6 = host->is_address && host->address.family == 6;
    char text[HOST_MAX + sizeof "[]:65535"];
    size_t n = 0;
    if (ipv6)
        text[n++] = '[';
    memcpy(text + n, host->text, host->len);
    n += host->len;
    if (ipv6)
        text[n++] = ']';
    if (default_port == 0 || port != default_port)
        n += (size_t)snprintf(text + n, sizeof text - n, ":%u", (unsigned)port);
    (void)buf_append(out, text, n);
}

bool authority_is_plain(const struct authority *a)
{
    struct address address;
    if (a->user)
        return false;
    if (a->bracketed)
        return memchr(a->host, ':', a->host_len) != NULL &&
               address_parse(a->host, a->host_len, false, &address);
    size_t n = a->host_len;
    if (n != 0 && a->host[n - 1] == '.')
        n--;
    bool in_label = false;
    for (size_t i = 0; i < n; i++) {
        char c = a->host[i];
        bool dot = c == '.';
        if (dot && !in_label)
            return false;
        if (!dot && c != '-' && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') &&
            !(c >= 'A' && c <= 'Z'))
            return false;
        in_label = !dot;
    }
    return in_label;
}
