#include "decider/entry.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#include "base/text.h"

enum { NAME_MAX_LENGTH = 253, LABEL_MAX_LENGTH = 63 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return c >= 'a' && c <= 'z';
}

/* A literal of this family, in a spelling of RFC 4291 section 2.2 or dotted decimal. */
static bool is_address(int family, const char *s, size_t n)
{
    char text[INET6_ADDRSTRLEN];
    unsigned char address[sizeof(struct in6_addr)];
    if (n == 0 || n >= sizeof text || memchr(s, 0, n) != NULL)
        return false;
    memcpy(text, s, n);
    text[n] = 0;
    return inet_pton(family, text, address) == 1;
}

/* An IPv6 literal, perhaps with a zone (RFC 4007 section 11). */
static bool is_address6(const char *s, size_t n)
{
    const char *zone = memchr(s, '%', n);
    size_t address = zone != NULL ? (size_t)(zone - s) : n;
    for (size_t i = address + 1; i < n; i++)
        if (!is_digit(s[i]) && !is_letter((char)text_lower((unsigned char)s[i])) && s[i] != '-' &&
            s[i] != '.' && s[i] != ':')
            return false;
    return address + 1 != n && is_address(AF_INET6, s, address);
}

/* 1 to 65535 without a leading zero. */
static bool is_port(const char *s, size_t n)
{
    unsigned value = 0;
    if (n == 0 || n > 5 || s[0] == '0')
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(s[i]))
            return false;
        value = value * 10 + (unsigned)(s[i] - '0');
    }
    return value <= 65535;
}

static bool is_label(const char *s, size_t n)
{
    if (n == 0 || n > LABEL_MAX_LENGTH || s[0] == '-' || s[n - 1] == '-')
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_letter(s[i]) && !is_digit(s[i]) && s[i] != '-')
            return false;
    return true;
}

/* Labels joined by dots, `least` or more. The last one begins with a letter, so that no spelling of
 * an address is a name. */
static bool is_name(const char *s, size_t n, size_t least)
{
    size_t labels = 0;
    size_t begin = 0;
    if (n > NAME_MAX_LENGTH)
        return false;
    for (;;) {
        const char *dot = begin < n ? memchr(s + begin, '.', n - begin) : NULL;
        size_t end = dot != NULL ? (size_t)(dot - s) : n;
        if (!is_label(s + begin, end - begin))
            return false;
        labels++;
        if (dot == NULL)
            return labels >= least && is_letter(s[begin]);
        begin = end + 1;
    }
}

static bool is_bracketed(const char *s, size_t n)
{
    const char *close = memchr(s, ']', n);
    if (close == NULL)
        return false;
    size_t end = (size_t)(close - s);
    if (!is_address6(s + 1, end - 1))
        return false;
    return end + 1 == n || (s[end + 1] == ':' && is_port(s + end + 2, n - end - 2));
}

bool egress_entry_valid(const char *s, size_t n)
{
    if (n == 0)
        return false;
    if (s[0] == '[')
        return is_bracketed(s, n);
    if (is_address6(s, n))
        return true;
    const char *colon = memchr(s, ':', n);
    size_t host = colon != NULL ? (size_t)(colon - s) : n;
    if (colon != NULL && !is_port(colon + 1, n - host - 1))
        return false;
    if (host > 2 && s[0] == '*' && s[1] == '.')
        return is_name(s + 2, host - 2, 2);
    return is_address(AF_INET, s, host) || is_name(s, host, 1);
}
