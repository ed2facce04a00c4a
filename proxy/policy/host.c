#include "proxy/policy/host.h"

#include <stdint.h>
#include <string.h>

#include "base/text.h"

/* Drops one pair of brackets around the whole, and nothing when only one is there. */
static void strip_brackets(const char **s, size_t *n)
{
    if (*n >= 2 && (*s)[0] == '[' && (*s)[*n - 1] == ']') {
        *s += 1;
        *n -= 2;
    }
}

static bool is_name(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = text_lower((unsigned char)s[i]);
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-')
            return false;
    }
    return n != 0;
}

bool host_valid(const char *s, size_t n)
{
    struct address ignored;

    if (n < 1 || n > HOST_MAX)
        return false;
    strip_brackets(&s, &n);
    return is_name(s, n) || address_parse(s, n, false, &ignored);
}

static int digit_value(char c)
{
    unsigned char lower = text_lower((unsigned char)c);
    if (lower >= '0' && lower <= '9')
        return lower - '0';
    return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 36;
}

static bool has_hex_prefix(const char *s, size_t n)
{
    return n >= 2 && s[0] == '0' && text_lower((unsigned char)s[1]) == 'x';
}

static bool all_digits(const char *s, size_t n, int radix)
{
    for (size_t i = 0; i < n; i++) {
        if (digit_value(s[i]) >= radix)
            return false;
    }
    return true;
}

/* True when resolvers may read a name with this last part as an IPv4 address. */
static bool is_number_part(const char *s, size_t n)
{
    if (has_hex_prefix(s, n))
        return all_digits(s + 2, n - 2, 16);
    return n != 0 && all_digits(s, n, 10);
}

/* One part of a number form; false for a digit outside its radix and above 32 bits. */
static bool part_value(const char *s, size_t n, uint64_t *value)
{
    int radix = 10;

    *value = 0;
    if (has_hex_prefix(s, n)) {
        radix = 16;
        s += 2;
        n -= 2;
    } else if (n >= 2 && s[0] == '0') {
        radix = 8;
    }
    for (size_t i = 0; i < n; i++) {
        int digit = digit_value(s[i]);
        if (digit >= radix)
            return false;
        *value = *value * (unsigned)radix + (unsigned)digit;
        if (*value > UINT32_MAX)
            return false;
    }
    return true;
}

/* The IPv4 address of a number form (one trailing dot already dropped). */
static bool parse_number_form(const char *s, size_t n, struct address *out)
{
    uint64_t values[4] = {0};
    size_t count = 0;

    *out = (struct address){.family = 4};
    for (size_t i = 0;;) {
        const char *dot = memchr(s + i, '.', n - i);
        size_t end = dot != NULL ? (size_t)(dot - s) : n;
        if (count == 4 || end == i || !part_value(s + i, end - i, &values[count++]))
            return false;
        if (dot == NULL)
            break;
        i = end + 1;
    }
    for (size_t i = 0; i + 1 < count; i++) {
        if (values[i] > 255)
            return false;
        out->bytes[i] = (uint8_t)values[i];
    }
    uint64_t last = values[count - 1];
    if (last >> 8 * (5 - count) != 0)
        return false;
    for (size_t i = 4; i-- > count - 1; last >>= 8)
        out->bytes[i] = (uint8_t)(last & 0xFF);
    return true;
}

static void set_address(struct host *out, const struct address *a)
{
    out->is_address = true;
    out->address = *a;
    out->len = address_format(a, out->text);
}

static bool has_empty_label(const char *s, size_t n)
{
    bool after_dot = true;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '.' && after_dot)
            return true;
        after_dot = s[i] == '.';
    }
    return after_dot;
}

enum host_result host_canonicalise(const char *s, size_t n, struct host *out)
{
    struct address a;

    memset(out, 0, sizeof *out);
    if (!host_valid(s, n))
        return HOST_INVALID;
    strip_brackets(&s, &n);
    if (!is_name(s, n)) {
        address_parse(s, n, false, &a);
        set_address(out, &a);
        return HOST_OK;
    }
    if (s[n - 1] == '.')
        n--;
    const char *dot = n != 0 ? memrchr(s, '.', n) : NULL;
    size_t last = dot != NULL ? (size_t)(dot - s) + 1 : 0;
    if (is_number_part(s + last, n - last)) {
        if (!parse_number_form(s, n, &a))
            return HOST_NO_CANONICAL;
        set_address(out, &a);
        return HOST_OK;
    }
    for (size_t i = 0; i < n; i++)
        out->text[i] = (char)text_lower((unsigned char)s[i]);
    out->len = n;
    return has_empty_label(s, n) ? HOST_EMPTY_LABEL : HOST_OK;
}

bool host_is_localhost(const struct host *h)
{
    static const char suffix[] = ".localhost";
    const size_t size = sizeof suffix - 1;

    if (strcmp(h->text, suffix + 1) == 0)
        return true;
    return h->len > size && memcmp(h->text + h->len - size, suffix, size) == 0;
}
