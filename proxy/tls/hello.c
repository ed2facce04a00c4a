#include "proxy/tls/hello.h"

#include <string.h>

#include "base/text.h"

enum {
    RECORD_HEADER = 5,
    RECORD_MAX = 16384,
    CONTENT_HANDSHAKE = 22,
    HANDSHAKE_HEADER = 4,
    CLIENT_HELLO = 1,
    LEAST_READABLE = RECORD_HEADER + HANDSHAKE_HEADER,
    VERSION_AND_RANDOM = 34,
    LABEL_MAX = 63,
    EXTENSION_SERVER_NAME = 0,
    EXTENSION_SIGNATURE_ALGORITHMS = 13,
    EXTENSION_ALPN = 16,
    EXTENSION_SUPPORTED_VERSIONS = 43,
    TLS13 = 0x0304
};

/* What is left to read of a run of bytes. */
struct cursor {
    const uint8_t *p;
    size_t n;
};

/* Takes n bytes into *out. False, with nothing taken, when there are fewer. */
static bool take(struct cursor *c, size_t n, struct cursor *out)
{
    if (n > c->n)
        return false;
    *out = (struct cursor){c->p, n};
    c->p += n;
    c->n -= n;
    return true;
}

static bool take_number(struct cursor *c, size_t bytes, size_t *out)
{
    struct cursor number;
    if (!take(c, bytes, &number))
        return false;
    *out = 0;
    for (size_t i = 0; i < bytes; i++)
        *out = *out << 8 | number.p[i];
    return true;
}

/* Takes a vector with a length of `bytes` bytes in front. */
static bool take_vector(struct cursor *c, size_t bytes, struct cursor *out)
{
    size_t n;
    return take_number(c, bytes, &n) && take(c, n, out);
}

enum hello_sniff hello_sniff(const uint8_t *p, size_t n)
{
    if (n < HELLO_SNIFF_BYTES)
        return SNIFF_MORE;
    return p[0] == CONTENT_HANDSHAKE && p[1] == 3 && p[2] <= 3 ? SNIFF_TLS : SNIFF_NOT_TLS;
}

/* The handshake message, put together from the records that carry it. */
struct message {
    uint8_t bytes[HELLO_MAX];
    size_t len;
    bool ended; /* further input changes nothing */
    bool cut;   /* the input stops inside a record */
};

/* Whether the message so far needs no more records. */
static bool is_over(const struct message *m)
{
    struct cursor c = {m->bytes, m->len};
    size_t type, length;
    if (!take_number(&c, 1, &type))
        return false;
    return type != CLIENT_HELLO || (take_number(&c, 3, &length) && c.n >= length);
}

/* A first record is read for what it is worth; one that goes on with the message must be valid, or
 * no TLS library will go on with it either. */
static bool may_continue(const uint8_t *header, size_t length)
{
    return header[0] == CONTENT_HANDSHAKE && header[1] == 3 && length != 0 && length <= RECORD_MAX;
}

static void collect(const uint8_t *p, size_t n, struct message *m)
{
    struct cursor input = {p, n < HELLO_MAX ? n : HELLO_MAX}, header, payload;
    m->len = 0;
    m->cut = false;
    m->ended = n >= HELLO_MAX || (n != 0 && p[0] != CONTENT_HANDSHAKE);
    if (n != 0 && p[0] != CONTENT_HANDSHAKE)
        return;
    for (bool first = true; take(&input, RECORD_HEADER, &header); first = false) {
        size_t length = (size_t)header.p[3] << 8 | header.p[4];
        if (first ? length == 0 : !may_continue(header.p, length)) {
            m->ended = true;
            return;
        }
        m->cut = !take(&input, length, &payload);
        if (m->cut && !take(&input, input.n, &payload))
            return;
        if (payload.n != 0)
            memcpy(m->bytes + m->len, payload.p, payload.n);
        m->len += payload.n;
        if (is_over(m) && (!m->cut || m->bytes[0] != CLIENT_HELLO))
            m->ended = true;
        if (m->cut || m->ended)
            return;
    }
}

bool hello_complete(const uint8_t *p, size_t n)
{
    struct message m;
    collect(p, n, &m);
    return m.ended;
}

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Labels of letters, digits and inner hyphens. name: in lower case. */
static bool name_valid(const char *name, size_t n)
{
    for (size_t i = 0, label = 0; i <= n; i++) {
        if (i != n && name[i] != '.') {
            if (!is_letter_or_digit(name[i]) && name[i] != '-')
                return false;
            continue;
        }
        if (i == label || i - label > LABEL_MAX || name[label] == '-' || name[i - 1] == '-')
            return false;
        label = i + 1;
    }
    return true;
}

/* The one host_name entry of a server_name extension (RFC 6066 section 3). */
static bool read_name(struct cursor body, struct client_hello *out)
{
    struct cursor list, name;
    size_t type;
    if (!take_vector(&body, 2, &list) || body.n != 0 || !take_number(&list, 1, &type) ||
        type != 0 || !take_vector(&list, 2, &name) || list.n != 0 || name.n > HELLO_NAME_MAX)
        return false;
    char text[HELLO_NAME_MAX + 1] = "";
    for (size_t i = 0; i < name.n; i++)
        text[i] = (char)text_lower(name.p[i]);
    if (!name_valid(text, name.n))
        return false;
    memcpy(out->name, text, sizeof text);
    out->name_len = name.n;
    return true;
}

/* What decides whether the client can verify a signature by a P-256 key. */
struct abilities {
    bool suites;     /* a cipher suite with ECDSA authentication; TLS 1.3 has no such thing */
    bool schemes;    /* signature_algorithms was read */
    bool p256;       /* it lists ecdsa_secp256r1_sha256 */
    bool any_sha256; /* or ECDSA with another hash as good, which TLS 1.2 binds to no curve */
};

static bool is_ecdsa_suite(size_t suite)
{
    static const uint16_t suites[] = {
        0xC008, 0xC009, 0xC00A, 0xC023, 0xC024, 0xC02B, 0xC02C, 0xC05C,
        0xC05D, 0xC072, 0xC073, 0xC0AC, 0xC0AD, 0xC0AE, 0xC0AF, 0xCCA9,
    };
    for (size_t i = 0; i < sizeof suites / sizeof suites[0]; i++)
        if (suites[i] == suite)
            return true;
    return false;
}

static void read_suites(struct cursor suites, struct abilities *a)
{
    size_t suite;
    while (take_number(&suites, 2, &suite))
        a->suites |= is_ecdsa_suite(suite);
}

/* RFC 8446 section 4.2.3. */
static void read_schemes(struct cursor body, struct abilities *a)
{
    struct cursor list;
    size_t scheme;
    if (!take_vector(&body, 2, &list))
        return;
    a->schemes = true;
    while (take_number(&list, 2, &scheme)) {
        a->p256 |= scheme == 0x0403;
        a->any_sha256 |= scheme == 0x0503 || scheme == 0x0603;
    }
}

/* RFC 7301 section 3.1. */
static void read_alpn(struct cursor body, struct client_hello *out)
{
    struct cursor list, protocol;
    out->alpn = true;
    if (!take_vector(&body, 2, &list))
        return;
    while (take_vector(&list, 1, &protocol)) {
        out->http11 |= protocol.n == 8 && memcmp(protocol.p, "http/1.1", 8) == 0;
        out->h2 |= protocol.n == 2 && memcmp(protocol.p, "h2", 2) == 0;
    }
}

/* RFC 8446 section 4.2.1. */
static void read_versions(struct cursor body, struct client_hello *out)
{
    struct cursor list;
    size_t version;
    if (!take_vector(&body, 1, &list))
        return;
    while (take_number(&list, 2, &version))
        out->tls13 |= version == TLS13;
}

/* How far the extensions could be read. */
enum reach {
    REACH_END,  /* all of them */
    REACH_CUT,  /* the input, or a stray byte or two at the end of the list, ended it before */
    REACH_WRONG /* an extension overruns the list */
};

static enum reach read_extensions(struct cursor list, bool whole, struct client_hello *out,
                                  struct abilities *a)
{
    bool named = false;
    size_t type, length;
    struct cursor body;
    while (list.n >= 4) {
        take_number(&list, 2, &type);
        take_number(&list, 2, &length);
        if (!take(&list, length, &body))
            return whole ? REACH_WRONG : REACH_CUT;
        switch (type) {
        case EXTENSION_SERVER_NAME:
            out->state = !named && read_name(body, out) ? HELLO_NAME : HELLO_UNREADABLE;
            named = true;
            break;
        case EXTENSION_SIGNATURE_ALGORITHMS:
            read_schemes(body, a);
            break;
        case EXTENSION_ALPN:
            read_alpn(body, out);
            break;
        case EXTENSION_SUPPORTED_VERSIONS:
            read_versions(body, out);
            break;
        default:
            break;
        }
    }
    return whole && list.n == 0 ? REACH_END : REACH_CUT;
}

/* RFC 8446 section 4.1.2. Sets the state. */
static enum reach read_message(const struct message *m, struct client_hello *out,
                               struct abilities *a)
{
    struct cursor c = {m->bytes, m->len}, ignored, suites, list;
    size_t type, length;
    out->state = HELLO_UNREADABLE;
    /* Its own length is not looked at: the records say where it ends. */
    if (!take_number(&c, 1, &type) || type != CLIENT_HELLO || !take(&c, 3, &ignored) ||
        !take(&c, VERSION_AND_RANDOM, &ignored) || !take_vector(&c, 1, &ignored) ||
        !take_vector(&c, 2, &suites))
        return REACH_CUT;
    read_suites(suites, a);
    if (!take_vector(&c, 1, &ignored))
        return REACH_CUT;
    if (c.n == 0 && !m->cut) {
        out->state = HELLO_ABSENT;
        return REACH_END;
    }
    if (!take_number(&c, 2, &length))
        return REACH_CUT;
    bool whole = take(&c, length, &list);
    out->state = HELLO_ABSENT;
    enum reach reach = read_extensions(whole ? list : c, whole, out, a);
    if (reach == REACH_WRONG || (reach == REACH_CUT && out->state == HELLO_ABSENT))
        out->state = HELLO_UNREADABLE;
    return reach;
}

/* Where it cannot be told, the key that nearly every client takes. */
static bool can_ecdsa(const struct abilities *a, bool tls13, enum reach reach)
{
    if (!a->schemes)
        return reach != REACH_END;
    return tls13 ? a->p256 : a->suites && (a->p256 || a->any_sha256);
}

void client_hello_read(const uint8_t *p, size_t n, struct client_hello *out)
{
    struct message m;
    struct abilities abilities = {0};
    enum reach reach = REACH_CUT;
    *out = (struct client_hello){.state = HELLO_UNREADABLE};
    collect(p, n, &m);
    if (n >= LEAST_READABLE)
        reach = read_message(&m, out, &abilities);
    out->ecdsa = can_ecdsa(&abilities, out->tls13, reach);
    if (out->state != HELLO_NAME) {
        memset(out->name, 0, sizeof out->name);
        out->name_len = 0;
    }
}
