#include "proxy/settings/url.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "proxy/policy/host.h"

struct span {
    const char *p;
    size_t n;
};

static bool is_alpha(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool starts(struct span s, const char *chars)
{
    return s.n != 0 && s.p[0] != '\0' && strchr(chars, s.p[0]) != NULL;
}

static struct span skip(struct span s, size_t n)
{
    return (struct span){s.p + n, s.n - n};
}

/* The longest start of s without any of chars. */
static struct span until(struct span s, const char *chars)
{
    size_t n = 0;
    while (n < s.n && !starts(skip(s, n), chars))
        n++;
    return (struct span){s.p, n};
}

static int hex_digit(char c)
{
    if (is_digit(c))
        return c - '0';
    c = (char)text_lower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static size_t percent_decode(char *s, size_t n)
{
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        int high = i + 2 < n && s[i] == '%' ? hex_digit(s[i + 1]) : -1;
        int low = high >= 0 ? hex_digit(s[i + 2]) : -1;
        if (low >= 0) {
            s[used++] = (char)(high * 16 + low);
            i += 2;
        } else {
            s[used++] = s[i];
        }
    }
    return used;
}

/* "Forbidden domain code point"; without those that only a domain must not have when !domain. */
static bool is_forbidden(unsigned char c, bool domain)
{
    if (c == '\0' || strchr("\t\n\r #/:<>?@[\\]^|", c) != NULL)
        return true;
    return domain && (c < 0x20 || c == '%' || c == 0x7f);
}

/*
 * What the mapping of UTS 46 makes of one code point, as far as it decides
 * whether the host is taken: full-width forms become ASCII, some are ignored
 * (0), some are refused (UINT32_MAX), letters of any script are left alone.
 */
static uint32_t map_code(uint32_t c)
{
    if (c == 0x3002 || c == 0xff61)
        return '.';
    if (c >= 0xff01 && c <= 0xff5e)
        return c - 0xff01 + '!';
    if (c == 0xad || c == 0x200b || c == 0x2060 || c == 0xfeff || (c >= 0xfe00 && c <= 0xfe0f))
        return 0;
    if ((c >= 0x80 && c < 0xa0) || (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
        (c >= 0xe000 && c <= 0xf8ff) || (c & 0xfffe) == 0xfffe || c == 0xfffd || c >= 0xe0000)
        return UINT32_MAX;
    return c;
}

/* Maps a domain in place; every non-ASCII letter becomes the one `u`. False when it is refused. */
static bool map_domain(char *s, size_t *n)
{
    size_t used = 0;
    for (size_t i = 0; i < *n;) {
        uint32_t code;
        size_t length = text_utf8_decode((const uint8_t *)s + i, *n - i, &code);
        if (length == 0)
            return false;
        i += length;
        uint32_t mapped = code < 0x80 ? code : map_code(code);
        if (mapped == UINT32_MAX)
            return false;
        if (mapped == 0 && code != 0)
            continue;
        s[used] = mapped < 0x80 ? (char)mapped : 'u';
        if (is_forbidden((unsigned char)s[used++], true))
            return false;
    }
    *n = used;
    return used != 0;
}

/* The last label, one trailing dot aside, is a number: the host must be an IPv4 address. */
static bool ends_in_number(const char *s, size_t n)
{
    if (n != 0 && s[n - 1] == '.')
        n--;
    const char *dot = memrchr(s, '.', n);
    const char *last = dot != NULL ? dot + 1 : s;
    size_t length = n - (size_t)(last - s), digits = 0, hex = 2;
    while (digits < length && is_digit(last[digits]))
        digits++;
    if (length != 0 && digits == length)
        return true;
    if (length < 2 || last[0] != '0' || text_lower((unsigned char)last[1]) != 'x')
        return false;
    while (hex < length && hex_digit(last[hex]) >= 0)
        hex++;
    return hex == length;
}

static bool domain_parses(struct span host)
{
    char *s = mem_dup_n(host.p, host.n);
    size_t n = percent_decode(s, host.n);
    bool ok = map_domain(s, &n);
    if (ok && ends_in_number(s, n)) {
        struct host canonical;
        ok = host_canonicalise(s, n, &canonical) == HOST_OK && canonical.is_address;
    }
    free(s);
    return ok;
}

static bool host_parses(struct span host, bool special)
{
    struct address ignored;
    if (starts(host, "["))
        return host.p[host.n - 1] == ']' && memchr(host.p, ':', host.n) != NULL &&
               address_parse(host.p + 1, host.n - 2, false, &ignored);
    if (special)
        return domain_parses(host);
    for (size_t i = 0; i < host.n; i++)
        if (is_forbidden((unsigned char)host.p[i], false))
            return false;
    return true;
}

static bool port_parses(struct span port)
{
    unsigned value = 0;
    for (size_t i = 0; i < port.n; i++) {
        if (!is_digit(port.p[i]))
            return false;
        value = value * 10 + (unsigned)(port.p[i] - '0');
        if (value > 65535)
            return false;
    }
    return true;
}

static bool authority_parses(struct span s, bool special)
{
    s = until(s, special ? "/\\?#" : "/?#");
    const char *at = s.n != 0 ? memrchr(s.p, '@', s.n) : NULL;
    if (at != NULL) {
        s = skip(s, (size_t)(at + 1 - s.p));
        if (s.n == 0)
            return false;
    }
    bool bracket = false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '[')
            bracket = true;
        else if (s.p[i] == ']')
            bracket = false;
        else if (s.p[i] == ':' && !bracket)
            return i != 0 && host_parses((struct span){s.p, i}, special) &&
                   port_parses(skip(s, i + 1));
    }
    return s.n == 0 ? !special : host_parses(s, special);
}

static bool file_parses(struct span s)
{
    if (!starts(s, "/\\") || !starts(skip(s, 1), "/\\"))
        return true;
    struct span host = until(skip(s, 2), "/\\?#");
    bool drive = host.n == 2 && is_alpha(host.p[0]) && (host.p[1] == ':' || host.p[1] == '|');
    return host.n == 0 || drive || host_parses(host, true);
}

static bool is_special(struct span scheme)
{
    static const char *const names[] = {"http", "https", "ws", "wss", "ftp"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (text_equal_fold(scheme.p, scheme.n, names[i], strlen(names[i])))
            return true;
    return false;
}

/* s: without white space around it, tabs and line ends. */
static bool parses(struct span s)
{
    size_t n = 0;
    if (s.n == 0 || !is_alpha(s.p[0]))
        return false;
    while (n < s.n && (is_alpha(s.p[n]) || is_digit(s.p[n]) || starts(skip(s, n), "+.-")))
        n++;
    if (n == s.n || s.p[n] != ':')
        return false;
    struct span scheme = {s.p, n}, rest = skip(s, n + 1);
    if (text_equal_fold(scheme.p, scheme.n, "file", 4))
        return file_parses(rest);
    if (is_special(scheme)) {
        while (starts(rest, "/\\"))
            rest = skip(rest, 1);
        return authority_parses(rest, true);
    }
    if (rest.n >= 2 && rest.p[0] == '/' && rest.p[1] == '/')
        return authority_parses(skip(rest, 2), false);
    return true;
}

bool url_parses(const char *s, size_t n)
{
    while (n != 0 && (unsigned char)s[0] <= 0x20) {
        s++;
        n--;
    }
    while (n != 0 && (unsigned char)s[n - 1] <= 0x20)
        n--;
    char *clean = mem_alloc(n);
    size_t used = 0;
    for (size_t i = 0; i < n; i++)
        if (s[i] != '\t' && s[i] != '\n' && s[i] != '\r')
            clean[used++] = s[i];
    bool ok = parses((struct span){clean, used});
    free(clean);
    return ok;
}
