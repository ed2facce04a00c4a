#include "proxy/http/chunked.h"

#include <string.h>

#include "proxy/http/field.h"

enum state {
    WHOLE,           /* not chunked: `left` bytes, or until close */
    SIZE,            /* hex digits of a chunk size; then ';', a blank or CR */
    EXT_BLANK,       /* blanks; then ';' */
    EXT_NAME_FIRST,  /* after ';': blanks; then a token */
    EXT_NAME,        /* in it; then '=', ';', a blank or CR */
    EXT_NAME_BLANK,  /* blanks after it; then '=' or ';' */
    EXT_VALUE_FIRST, /* after '=': blanks; then a token or '"' */
    EXT_VALUE,       /* in a token; then ';', a blank or CR */
    EXT_QUOTED,      /* in a quoted string */
    EXT_ESCAPED,     /* after its backslash */
    EXT_QUOTED_END,  /* after its closing quote: ';', a blank or CR */
    SIZE_LF,         /* LF that ends the line of a chunk size */
    DATA,            /* `left` bytes of a chunk */
    DATA_CR,         /* CR after a chunk */
    DATA_LF,         /* LF after it */
    LAST,            /* first byte after the last chunk: CR, or a trailer field */
    TRAILER_START,   /* first byte of a further trailer line: CR, or a field */
    TRAILER_LINE,    /* in a trailer line, up to CR */
    TRAILER_LF,      /* LF that ends a trailer line */
    END_LF,          /* LF of the empty line */
    DONE,            /* nothing more is taken */
    BAD              /* for good */
};

enum { SIZE_DIGITS_MAX = 16, NOT_HEX = 16 };

void body_decoder_init(struct body_decoder *d, enum head_framing framing, uint64_t length,
                       size_t trailer_limit)
{
    *d = (struct body_decoder){.framing = framing, .allowance = CHUNK_EXTENSIONS_FREE};
    buf_init(&d->trailers, trailer_limit);
    switch (framing) {
    case BODY_NONE:
        d->state = DONE;
        break;
    case BODY_LENGTH:
        d->left = length;
        d->state = length != 0 ? WHOLE : DONE;
        break;
    case BODY_CHUNKED:
        d->state = SIZE;
        break;
    case BODY_CLOSE:
        d->state = WHOLE;
        break;
    }
}

void body_decoder_free(struct body_decoder *d)
{
    buf_free(&d->trailers);
}

bool body_is_done(const struct body_decoder *d)
{
    return d->state == DONE;
}

static unsigned hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : NOT_HEX;
}

/* After the LF of a size line. */
static enum state size_line_end(struct body_decoder *d)
{
    d->digits = 0;
    d->line = 0;
    if (d->left == 0)
        return LAST;
    uint64_t more = d->left < CHUNK_EXTENSIONS_SAVED_MAX / CHUNK_EXTENSIONS_PER_BYTE
                        ? d->left * CHUNK_EXTENSIONS_PER_BYTE
                        : CHUNK_EXTENSIONS_SAVED_MAX;
    more += d->allowance;
    d->allowance = more < CHUNK_EXTENSIONS_SAVED_MAX ? (uint32_t)more : CHUNK_EXTENSIONS_SAVED_MAX;
    return DATA;
}

static enum state size_digit(struct body_decoder *d, uint8_t c)
{
    unsigned value = hex_value(c);
    if (value == NOT_HEX) {
        if (d->digits == 0 || d->left > INT64_MAX)
            return BAD;
        return c == '\r' ? SIZE_LF : c == ';' ? EXT_NAME_FIRST : byte_is_blank(c) ? EXT_BLANK : BAD;
    }
    if (d->digits++ == SIZE_DIGITS_MAX)
        return BAD;
    d->left = (d->left << 4) | value;
    return SIZE;
}

/* After the name or the value of an extension; `blank` is the state for blanks there. */
static enum state extension_end(uint8_t c, enum state blank)
{
    return c == '\r' ? SIZE_LF : c == ';' ? EXT_NAME_FIRST : byte_is_blank(c) ? blank : BAD;
}

/* RFC 9112 section 7.1.1. */
static enum state extension_next(enum state state, uint8_t c)
{
    switch (state) {
    case EXT_BLANK:
        return byte_is_blank(c) ? EXT_BLANK : c == ';' ? EXT_NAME_FIRST : BAD;
    case EXT_NAME_FIRST:
        return byte_is_blank(c) ? EXT_NAME_FIRST : byte_is(c, BYTE_TOKEN) ? EXT_NAME : BAD;
    case EXT_NAME:
        if (byte_is(c, BYTE_TOKEN))
            return EXT_NAME;
        return c == '=' ? EXT_VALUE_FIRST : extension_end(c, EXT_NAME_BLANK);
    case EXT_NAME_BLANK:
        if (byte_is_blank(c))
            return EXT_NAME_BLANK;
        return c == '=' ? EXT_VALUE_FIRST : c == ';' ? EXT_NAME_FIRST : BAD;
    case EXT_VALUE_FIRST:
        if (byte_is_blank(c))
            return EXT_VALUE_FIRST;
        return c == '"' ? EXT_QUOTED : byte_is(c, BYTE_TOKEN) ? EXT_VALUE : BAD;
    case EXT_VALUE:
        return byte_is(c, BYTE_TOKEN) ? EXT_VALUE : extension_end(c, EXT_BLANK);
    case EXT_QUOTED:
        if (!byte_is(c, BYTE_TEXT))
            return BAD;
        return c == '"' ? EXT_QUOTED_END : c == '\\' ? EXT_ESCAPED : EXT_QUOTED;
    case EXT_ESCAPED:
        return byte_is(c, BYTE_TEXT) ? EXT_QUOTED : BAD;
    case EXT_QUOTED_END:
        return extension_end(c, EXT_BLANK);
    default:
        return BAD;
    }
}

static enum state extension_byte(struct body_decoder *d, uint8_t c)
{
    if (d->line == CHUNK_EXTENSION_LINE_MAX || d->allowance == 0)
        return BAD;
    d->line++;
    d->allowance--;
    return extension_next((enum state)d->state, c);
}

/* Takes bytes of a trailer line up to its CR or the end of the input; returns how many. */
static size_t trailer_line(struct body_decoder *d, const uint8_t *p, size_t n)
{
    const uint8_t *cr = memchr(p, '\r', n);
    size_t len = cr != NULL ? (size_t)(cr - p) + 1 : n;
    bool ok = memchr(p, '\n', len) == NULL && buf_append(&d->trailers, p, len);
    d->state = !ok ? BAD : cr != NULL ? TRAILER_LF : TRAILER_LINE;
    return len;
}

/* A byte in one of the states from SIZE to END_LF that take one byte at a time. */
static enum state framing_byte(struct body_decoder *d, uint8_t c)
{
    switch ((enum state)d->state) {
    case SIZE:
        return size_digit(d, c);
    case SIZE_LF:
        return c == '\n' ? size_line_end(d) : BAD;
    case DATA_CR:
        return c == '\r' ? DATA_LF : BAD;
    case DATA_LF:
        return c == '\n' ? SIZE : BAD;
    case LAST:
        return c == '\r' ? END_LF : TRAILER_LINE;
    case TRAILER_START:
        if (c != '\r')
            return TRAILER_LINE;
        return buf_append(&d->trailers, &c, 1) ? END_LF : BAD;
    case TRAILER_LF:
        return c == '\n' && buf_append(&d->trailers, &c, 1) ? TRAILER_START : BAD;
    case END_LF:
        if (c != '\n' || (buf_len(&d->trailers) != 0 && !buf_append(&d->trailers, &c, 1)))
            return BAD;
        return DONE;
    default:
        return extension_byte(d, c);
    }
}

/*
 * Chunks of one digit that lie in p[*at..n) whole, as a sender of tiny chunks makes them: the same
 * as the state machine does, several times faster.
 */
static void small_chunks(struct body_decoder *d, uint8_t *p, size_t n, size_t *at, size_t *out)
{
    size_t i = *at, o = *out;
    while (n - i >= 6 && p[i + 1] == '\r' && p[i + 2] == '\n') {
        size_t len = hex_value(p[i]);
        if (len == 0 || len == NOT_HEX || n - i < len + 5 || p[i + len + 3] != '\r' ||
            p[i + len + 4] != '\n')
            break;
        for (size_t k = 0; k < len; k++)
            p[o++] = p[i + 3 + k];
        i += len + 5;
        if (d->allowance < CHUNK_EXTENSIONS_SAVED_MAX) {
            d->left = len;
            size_line_end(d);
            d->left = 0;
        }
    }
    *at = i;
    *out = o;
}

/* Moves body bytes from p[at..n) to p[out...); returns how many. */
static size_t body_bytes(struct body_decoder *d, uint8_t *p, size_t n, size_t at, size_t out)
{
    size_t len = n - at;
    if (d->framing != BODY_CLOSE) {
        if (d->left < len)
            len = (size_t)d->left;
        d->left -= len;
    }
    if (out != at)
        memmove(p + out, p + at, len);
    return len;
}

enum body_result body_decode(struct body_decoder *d, uint8_t *p, size_t n, size_t *used,
                             size_t *out)
{
    size_t i = 0, o = 0, len;
    while (i < n && d->state != DONE && d->state != BAD) {
        switch ((enum state)d->state) {
        case WHOLE:
            len = body_bytes(d, p, n, i, o);
            i += len;
            o += len;
            if (d->framing == BODY_LENGTH && d->left == 0)
                d->state = DONE;
            break;
        case DATA:
            len = body_bytes(d, p, n, i, o);
            i += len;
            o += len;
            if (d->left == 0)
                d->state = DATA_CR;
            break;
        case TRAILER_LINE:
            i += trailer_line(d, p + i, n - i);
            break;
        case SIZE:
            if (d->digits == 0)
                small_chunks(d, p, n, &i, &o);
            if (i < n)
                d->state = (uint8_t)framing_byte(d, p[i++]);
            break;
        case LAST:
        case TRAILER_START:
            d->state = (uint8_t)framing_byte(d, p[i]);
            /* The first byte of a field is taken with the rest of its line. */
            if (d->state != TRAILER_LINE)
                i++;
            break;
        default:
            d->state = (uint8_t)framing_byte(d, p[i++]);
            break;
        }
    }
    *used = i;
    *out = o;
    return d->state == DONE ? BODY_DONE : d->state == BAD ? BODY_BAD : BODY_MORE;
}

bool trailers_parse(struct head *h, const uint8_t *p, size_t n)
{
    h->count = 0;
    h->length = 0;
    if (n == 0)
        return true;
    if (n < 2 || n > UINT32_MAX || p[n - 2] != '\r' || p[n - 1] != '\n')
        return false;
    h->length = (uint32_t)n;
    return fields_parse(h, p, 0, n - 2);
}
