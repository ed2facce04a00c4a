#include "proxy/net/dns_answer.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#include "base/text.h"

enum {
    HEADER_SIZE = 12,
    NAME_MAX_WIRE = 255, /* with the root's length byte */
    LABEL_MAX = 63,
    POINTER = 0xc0,
    JUMPS_MAX = 127, /* of one name: as many as it can have labels */
    CLASS_IN = 1,
    PASSES_MAX = 8 /* over records that are not in the order of their aliases */
};
enum {
    RCODE_NO_ERROR = 0,
    RCODE_SERVER_FAILURE = 2,
    RCODE_NO_NAME = 3,
    RCODE_NOT_IMPLEMENTED = 4,
    RCODE_REFUSED = 5
};

struct wire_name {
    uint8_t bytes[NAME_MAX_WIRE]; /* length-prefixed labels, lower case, uncompressed */
    size_t n;
};

struct message {
    const uint8_t *p;
    size_t n;
};

static unsigned get_u16(const uint8_t *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

static bool name_equal(const struct wire_name *a, const struct wire_name *b)
{
    return a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0;
}

static bool name_from_text(const char *s, struct wire_name *out)
{
    out->n = 0;
    while (*s != '\0') {
        size_t label = strcspn(s, ".");
        if (label == 0 || label > LABEL_MAX || out->n + label + 2 > NAME_MAX_WIRE)
            return false;
        out->bytes[out->n++] = (uint8_t)label;
        for (size_t i = 0; i < label; i++)
            out->bytes[out->n++] = text_lower((unsigned char)s[i]);
        s += label;
        if (*s == '.')
            s++;
    }
    out->bytes[out->n++] = 0;
    return true;
}

/* Reads the name at *at and moves *at behind it. A pointer must lead further back than every one
 * before it, so that names end. */
static bool name_read(const struct message *m, size_t *at, struct wire_name *out)
{
    size_t pos = *at, lowest = *at;
    unsigned jumps = 0;

    out->n = 0;
    while (pos < m->n) {
        size_t c = m->p[pos];
        if ((c & POINTER) == POINTER) {
            if (pos + 1 >= m->n)
                return false;
            size_t target = get_u16(m->p + pos) & 0x3fff;
            if (jumps == 0)
                *at = pos + 2;
            if (target >= lowest || ++jumps > JUMPS_MAX)
                return false;
            lowest = pos = target;
            continue;
        }
        if (c > LABEL_MAX || c >= m->n - pos || out->n + 1 + c > NAME_MAX_WIRE)
            return false;
        out->bytes[out->n++] = (uint8_t)c;
        for (size_t i = 1; i <= c; i++)
            out->bytes[out->n++] = text_lower(m->p[pos + i]);
        pos += 1 + c;
        if (c == 0) {
            if (jumps == 0)
                *at = pos;
            return true;
        }
    }
    return false;
}

static void address_from_record(const uint8_t *data, unsigned type, struct address *out)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    uint16_t port;

    if (type == DNS_TYPE_A) {
        memcpy(&v4.sin_addr, data, sizeof(v4.sin_addr));
        address_from_sockaddr((const struct sockaddr *)&v4, out, &port);
    } else {
        memcpy(&v6.sin6_addr, data, sizeof(v6.sin6_addr));
        address_from_sockaddr((const struct sockaddr *)&v6, out, &port);
    }
}

/* What one walk over the answer section knows. */
struct walk {
    struct message message;
    struct wire_name wanted; /* the name asked, then what its aliases say */
    unsigned type;
    bool moved; /* an alias was followed in this pass */
    struct address *out;
    size_t max, count;
};

static bool read_record(struct walk *w, size_t *at)
{
    const struct message *m = &w->message;
    const size_t address_size = w->type == DNS_TYPE_A ? 4 : 16;
    struct wire_name owner;

    if (!name_read(m, at, &owner) || m->n - *at < 10)
        return false;
    const uint8_t *fixed = m->p + *at;
    unsigned type = get_u16(fixed), class = get_u16(fixed + 2);
    size_t length = get_u16(fixed + 8), data = *at + 10;
    if (m->n - data < length)
        return false;
    *at = data + length;
    if (class != CLASS_IN || !name_equal(&owner, &w->wanted))
        return true;
    if (type == DNS_TYPE_CNAME) {
        size_t end = data;
        if (!name_read(m, &end, &w->wanted) || end != data + length)
            return false;
        w->moved = true;
    } else if (type == w->type) {
        if (length != address_size)
            return false;
        if (w->count < w->max)
            address_from_record(m->p + data, type, &w->out[w->count++]);
    }
    return true;
}

static bool read_answers(struct walk *w, size_t at, unsigned records)
{
    unsigned passes = 0;

    do {
        size_t pos = at;
        w->moved = false;
        for (unsigned i = 0; i < records; i++) {
            if (!read_record(w, &pos))
                return false;
        }
    } while (w->moved && w->count == 0 && ++passes < PASSES_MAX);
    return true;
}

static enum dns_status read_code(unsigned code)
{
    switch (code) {
    case RCODE_NO_ERROR:
        return DNS_NO_DATA;
    case RCODE_NO_NAME:
        return DNS_NO_NAME;
    case RCODE_SERVER_FAILURE:
    case RCODE_NOT_IMPLEMENTED:
    case RCODE_REFUSED:
        return DNS_SERVER_FAILED;
    default:
        return DNS_FAILED;
    }
}

enum dns_status dns_answer_read(const uint8_t *message, size_t n, const char *name, unsigned type,
                                struct address *out, size_t max, size_t *count)
{
    struct walk w = {.message = {message, n}, .type = type, .out = out, .max = max};
    struct wire_name question;
    size_t at = HEADER_SIZE;

    *count = 0;
    if (n < HEADER_SIZE || (message[2] & 0x80) == 0 || !name_from_text(name, &w.wanted))
        return DNS_FAILED;
    enum dns_status status = read_code(message[3] & 0x0f);
    unsigned questions = get_u16(message + 4), answers = get_u16(message + 6);
    if (status != DNS_NO_DATA || answers == 0)
        return status;
    for (unsigned i = 0; i < questions; i++) {
        if (!name_read(&w.message, &at, &question) || n - at < 4)
            return DNS_FAILED;
        at += 4;
    }
    if (!read_answers(&w, at, answers))
        return DNS_FAILED;
    *count = w.count;
    return w.count > 0 ? DNS_ADDRESSES : DNS_EMPTY;
}
