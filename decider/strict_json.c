#include "decider/strict_json.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

enum { DEPTH_MAX = 32 }; /* no message has more than three levels */

static const char NOT_UTF8[] = "frame is not UTF-8";
static const char NOT_JSON[] = "frame is not valid JSON";
static const char NOT_OBJECT[] = "frame is not one JSON object";
static const char LONE_SURROGATE[] = "lone surrogate in frame";
static const char DUPLICATE_KEY[] = "duplicate key in frame";
static const char HOLDS_NULL[] = "null in frame";

/* What is left of the text. */
struct reader {
    const char *p, *end;
    unsigned depth;
    const char *why; /* NOT_JSON unless something else is known to be wrong */
};

/* A string as it was read: the text itself, or, where it had escapes, what they stand for. */
struct string {
    const char *s;
    size_t n;
    char *decoded; /* NULL: none. Wiped before it is freed: it may be a credential */
    size_t decoded_size;
};

static void string_free(struct string *t)
{
    if (t->decoded != NULL)
        explicit_bzero(t->decoded, t->decoded_size);
    free(t->decoded);
}

static void skip_blanks(struct reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
        r->p++;
}

/* Takes c when it comes next. */
static bool take(struct reader *r, char c)
{
    if (r->p == r->end || *r->p != c)
        return false;
    r->p++;
    return true;
}

/* The 4 hex digits at p, or -1. */
static int32_t hex4(const char *p, size_t n)
{
    int32_t value = 0;
    if (n < 4)
        return -1;
    for (size_t i = 0; i < 4; i++) {
        unsigned char c = text_lower((unsigned char)p[i]);
        if (c >= '0' && c <= '9')
            value = value * 16 + (c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value * 16 + (c - 'a' + 10);
        else
            return -1;
    }
    return value;
}

/* The character that \u and what follows stand for; its length at p, 0: none. NUL is none. */
static size_t decode_unicode(const char *p, size_t n, uint32_t *code)
{
    int32_t unit = n >= 2 && p[0] == '\\' && p[1] == 'u' ? hex4(p + 2, n - 2) : -1;
    if (unit <= 0 || (unit >= 0xdc00 && unit <= 0xdfff))
        return 0;
    *code = (uint32_t)unit;
    if (unit < 0xd800 || unit > 0xdfff)
        return 6;
    int32_t low = n >= 8 && p[6] == '\\' && p[7] == 'u' ? hex4(p + 8, n - 8) : -1;
    if (low < 0xdc00 || low > 0xdfff)
        return 0;
    *code = 0x10000 + (((uint32_t)unit - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
    return 12;
}

/* The same for every escape. */
static size_t decode_escape(const char *p, size_t n, uint32_t *code)
{
    static const char LETTERS[] = "\"\\/bfnrt";
    static const char MEANT[] = "\"\\/\b\f\n\r\t";
    if (n < 2)
        return 0;
    const char *letter = memchr(LETTERS, p[1], sizeof LETTERS - 1);
    if (letter == NULL)
        return decode_unicode(p, n, code);
    *code = (unsigned char)MEANT[letter - LETTERS];
    return 2;
}

static char *put_utf8(char *to, uint32_t code)
{
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
    } else {
        if (code < 0x10000) {
            *to++ = (char)(0xe0 | code >> 12);
        } else {
            *to++ = (char)(0xf0 | code >> 18);
            *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        }
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
    }
    *to++ = (char)(0x80 | (code & 0x3f));
    return to;
}

/* Length of the one character or escape at r->p, 0 when there is no good one. */
static size_t character_length(const struct reader *r)
{
    size_t n = (size_t)(r->end - r->p);
    unsigned char c = (unsigned char)*r->p;
    uint32_t code = 0;
    if (c == '\\')
        return decode_escape(r->p, n, &code);
    if (c >= 0x80)
        return text_utf8_decode((const uint8_t *)r->p, n, &code);
    return c >= 0x20 ? 1 : 0;
}

static bool is_surrogate(const struct reader *r)
{
    return r->end - r->p >= 6 && r->p[1] == 'u' && (hex4(r->p + 2, 4) & 0xf800) == 0xd800;
}

/* Escapes are never shorter than what they stand for. */
static void decode_string(struct string *t)
{
    t->decoded_size = t->n;
    t->decoded = mem_alloc(t->n);
    char *to = t->decoded;
    for (const char *p = t->s, *end = t->s + t->n; p < end;) {
        uint32_t code = 0;
        if (*p == '\\') {
            p += decode_escape(p, (size_t)(end - p), &code);
            to = put_utf8(to, code);
        } else {
            *to++ = *p++;
        }
    }
    t->s = t->decoded;
    t->n = (size_t)(to - t->decoded);
}

/* True: t is the caller's to free. */
static bool read_string(struct reader *r, struct string *t)
{
    bool escapes = false;
    *t = (struct string){0};
    if (!take(r, '"'))
        return false;
    t->s = r->p;
    for (;;) {
        r->p += strict_text_plain(r->p, (size_t)(r->end - r->p));
        if (r->p == r->end)
            return false;
        if (*r->p == '"')
            break;
        escapes = escapes || *r->p == '\\';
        size_t length = character_length(r);
        if (length == 0) {
            if (is_surrogate(r))
                r->why = LONE_SURROGATE;
            return false;
        }
        r->p += length;
    }
    t->n = (size_t)(r->p - t->s);
    r->p++;
    if (escapes)
        decode_string(t);
    return true;
}

static json_t *read_string_value(struct reader *r)
{
    struct string t;
    if (!read_string(r, &t))
        return NULL;
    json_t *value = json_stringn_nocheck(t.s, t.n);
    string_free(&t);
    return value;
}

static bool skip_digits(struct reader *r)
{
    const char *begin = r->p;
    while (r->p < r->end && *r->p >= '0' && *r->p <= '9')
        r->p++;
    return r->p != begin;
}

static json_t *read_number(struct reader *r)
{
    const char *begin = r->p;
    bool minus = take(r, '-');
    const char *digits = r->p;
    if (!take(r, '0') && !skip_digits(r))
        return NULL;
    size_t count = (size_t)(r->p - digits);
    bool integer = true;
    if (take(r, '.')) {
        integer = false;
        if (!skip_digits(r))
            return NULL;
    }
    if (take(r, 'e') || take(r, 'E')) {
        integer = false;
        if (!take(r, '+'))
            take(r, '-');
        if (!skip_digits(r))
            return NULL;
    }
    /* Numbers with a fraction, and those that may not fit, are seldom: the library knows. */
    if (!integer || count > 18)
        return json_loadb(begin, (size_t)(r->p - begin), JSON_DECODE_ANY, NULL);
    json_int_t value = 0;
    for (size_t i = 0; i < count; i++)
        value = value * 10 + (digits[i] - '0');
    return json_integer(minus ? -value : value);
}

static json_t *read_word(struct reader *r, const char *word, json_t *value)
{
    size_t n = strlen(word);
    if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0)
        return NULL;
    r->p += n;
    return value;
}

static json_t *read_value(struct reader *r);

static bool read_items(struct reader *r, json_t *array)
{
    skip_blanks(r);
    if (take(r, ']'))
        return true;
    do {
        json_t *item = read_value(r);
        if (item == NULL || json_array_append_new(array, item) != 0)
            return false;
        skip_blanks(r);
    } while (take(r, ','));
    return take(r, ']');
}

static bool read_member(struct reader *r, json_t *object)
{
    struct string key;
    bool well = false;
    skip_blanks(r);
    if (!read_string(r, &key))
        return false;
    skip_blanks(r);
    json_t *value = take(r, ':') ? read_value(r) : NULL;
    if (value != NULL) {
        size_t before = json_object_size(object);
        well = json_object_setn_new_nocheck(object, key.s, key.n, value) == 0;
        if (well && json_object_size(object) == before) {
            r->why = DUPLICATE_KEY;
            well = false;
        }
    }
    string_free(&key);
    return well;
}

static bool read_members(struct reader *r, json_t *object)
{
    skip_blanks(r);
    if (take(r, '}'))
        return true;
    do {
        if (!read_member(r, object))
            return false;
        skip_blanks(r);
    } while (take(r, ','));
    return take(r, '}');
}

static json_t *read_container(struct reader *r)
{
    if (r->depth == DEPTH_MAX)
        return NULL;
    r->depth++;
    bool is_object = *r->p++ == '{';
    json_t *value = is_object ? json_object() : json_array();
    if (!(is_object ? read_members(r, value) : read_items(r, value))) {
        json_decref(value);
        return NULL;
    }
    r->depth--;
    return value;
}

static json_t *read_value(struct reader *r)
{
    skip_blanks(r);
    if (r->p == r->end)
        return NULL;
    switch (*r->p) {
    case '{':
    case '[':
        return read_container(r);
    case '"':
        return read_string_value(r);
    case 't':
        return read_word(r, "true", json_true());
    case 'f':
        return read_word(r, "false", json_false());
    case 'n':
        if (read_word(r, "null", json_null()) != NULL)
            r->why = HOLDS_NULL;
        return NULL;
    default:
        return read_number(r);
    }
}

json_t *strict_json_read(const uint8_t *p, size_t n, const char **why)
{
    struct reader r = {.p = (const char *)p, .end = (const char *)p + n, .why = NOT_JSON};
    json_t *value = read_value(&r);
    *why = NULL;
    skip_blanks(&r);
    if (value != NULL && r.p == r.end && json_is_object(value))
        return value;
    if (value != NULL && r.p == r.end)
        r.why = NOT_OBJECT;
    *why = text_utf8_valid((const char *)p, n) ? r.why : NOT_UTF8;
    json_decref(value);
    return NULL;
}

bool strict_json_integer(const json_t *value, int64_t least, int64_t most, int64_t *out)
{
    int64_t integer;
    if (json_is_integer(value)) {
        integer = json_integer_value(value);
    } else if (json_is_real(value)) {
        double real = json_real_value(value);
        /* Past 2^53 a double is no longer one integer; also keeps the conversion defined. */
        if (!(real >= -9007199254740992.0 && real <= 9007199254740992.0))
            return false;
        integer = (int64_t)real;
        if ((double)integer != real)
            return false;
    } else {
        return false;
    }
    if (integer < least || integer > most)
        return false;
    *out = integer;
    return true;
}
