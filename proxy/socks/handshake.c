#include "proxy/socks/handshake.h"

#include <netinet/in.h>
#include <string.h>

#include "base/secret.h"
#include "proxy/policy/address.h"

/* What the next byte is. Every state takes its bytes one by one or in runs, so that any
 * fragmentation of the stream gives the same outcome. */
enum state {
    VERSION,         /* of the greeting: 05, or 04 for a SOCKS4 request */
    METHOD_COUNT,    /* of the greeting */
    METHODS,         /* `left` of them */
    AUTH_VERSION,    /* of the sub-negotiation, any value */
    USER_LENGTH,     /* of the sub-negotiation */
    USER,            /* `left` bytes of it */
    PASSWORD_LENGTH, /* of the sub-negotiation */
    PASSWORD,        /* `left` bytes of it, gathered in `host` until they are judged */
    REQUEST_VERSION, /* any value */
    COMMAND,         /* 01 CONNECT, anything else is refused once the request is in */
    RESERVED,        /* any value */
    ADDRESS_TYPE,    /* 01, 03 or 04 */
    NAME_LENGTH,     /* of an address of type 03 */
    ADDRESS,         /* `left` bytes: name or binary address */
    PORT_HIGH,
    PORT_LOW,
    DONE /* a request or a refusal was returned: nothing is taken any more */
};

enum { OFFERS_NONE = 1, OFFERS_PASSWORD = 2 };

enum { METHOD_NONE = 0, METHOD_PASSWORD = 2, METHOD_UNACCEPTABLE = 0xff };

enum { ATYP_IPV4 = 1, ATYP_NAME = 3, ATYP_IPV6 = 4 };

enum { COMMAND_CONNECT = 1, AUTH_SUCCESS = 0, AUTH_FAILURE = 1 };

void socks_init(struct socks_handshake *s, const char *token, bool optional)
{
    *s = (struct socks_handshake){.token = token, .optional = optional, .state = VERSION};
}

void socks_reply(uint8_t code, uint8_t out[10])
{
    memset(out, 0, 10);
    out[0] = 5;
    out[1] = code;
    out[3] = ATYP_IPV4;
}

static enum socks_step refuse(struct socks_handshake *s, enum err error)
{
    s->state = DONE;
    s->error = error;
    return SOCKS_REFUSED;
}

static void answer(struct socks_handshake *s, uint8_t first, uint8_t second)
{
    s->reply[0] = first;
    s->reply[1] = second;
    s->reply_len = 2;
}

static enum socks_step refuse_version4(struct socks_handshake *s)
{
    memset(s->reply, 0, 8);
    s->reply[1] = 0x5b; /* request rejected or failed */
    s->reply_len = 8;
    return refuse(s, ERR_SOCKS_PROTOCOL);
}

/* Chapter 20 section 5.1, the table of methods. */
static enum socks_step select_method(struct socks_handshake *s)
{
    bool none = (s->offered & OFFERS_NONE) != 0;
    bool password = (s->offered & OFFERS_PASSWORD) != 0;

    if (s->token != NULL && password) {
        answer(s, 5, METHOD_PASSWORD);
        s->state = AUTH_VERSION;
    } else if (none) {
        answer(s, 5, METHOD_NONE);
        s->authenticated = s->token == NULL || s->optional;
        s->anonymous = !s->authenticated;
        s->state = REQUEST_VERSION;
    } else {
        answer(s, 5, METHOD_UNACCEPTABLE);
        return refuse(s, ERR_SOCKS_PROTOCOL);
    }
    s->method_selected = true;
    return SOCKS_MORE;
}

static bool user_is_ours(const struct socks_handshake *s)
{
    return (s->user_len == 3 && memcmp(s->user, "srt", 3) == 0) ||
           (s->user_len >= 4 && memcmp(s->user, "srt.", 4) == 0);
}

static enum socks_step judge_password(struct socks_handshake *s)
{
    bool equal = secret_equal(s->host, s->host_len, s->token, strlen(s->token));
    bool none = s->optional && s->host_len == 0;

    explicit_bzero(s->host, sizeof s->host);
    s->host_len = 0;
    if (!none && (!equal || !user_is_ours(s))) {
        answer(s, 1, AUTH_FAILURE);
        return refuse(s, ERR_SOCKS_PROTOCOL);
    }
    answer(s, 1, AUTH_SUCCESS);
    s->authenticated = true;
    s->state = REQUEST_VERSION;
    return SOCKS_MORE;
}

/* A client that could not authenticate is told nothing about what it asked (section 5.4). */
static enum socks_step refuse_request(struct socks_handshake *s, enum err error)
{
    if (s->authenticated) {
        socks_reply(err_info(error)->socks, s->reply);
        s->reply_len = 10;
    }
    return refuse(s, error);
}

static enum socks_step begin_address(struct socks_handshake *s, uint8_t atyp)
{
    s->atyp = atyp;
    s->host_len = 0;
    s->state = ADDRESS;
    switch (atyp) {
    case ATYP_IPV4:
        s->left = 4;
        return SOCKS_MORE;
    case ATYP_IPV6:
        s->left = 16;
        return SOCKS_MORE;
    case ATYP_NAME:
        s->state = NAME_LENGTH;
        return SOCKS_MORE;
    default:
        /* Where such an address ends is unknown, so the command is judged now, before it. */
        return refuse_request(s, s->command == COMMAND_CONNECT ? ERR_SOCKS_ADDRESS_TYPE
                                                               : ERR_SOCKS_COMMAND);
    }
}

/* Replaces the binary address gathered in `host` by its canonical text. */
static void format_address(struct socks_handshake *s)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct address address = {0};
    char text[ADDRESS_TEXT_MAX];
    uint16_t port;

    if (s->atyp == ATYP_IPV4) {
        memcpy(&v4.sin_addr, s->host, 4);
        address_from_sockaddr((const struct sockaddr *)&v4, &address, &port);
    } else {
        memcpy(&v6.sin6_addr, s->host, 16);
        address_from_sockaddr((const struct sockaddr *)&v6, &address, &port);
    }
    size_t n = address_format(&address, text);
    memset(s->host, 0, sizeof s->host);
    memcpy(s->host, text, n);
    s->host_len = (uint8_t)n;
}

static enum socks_step finish_request(struct socks_handshake *s)
{
    if (s->command != COMMAND_CONNECT)
        return refuse_request(s, ERR_SOCKS_COMMAND);
    if (s->atyp != ATYP_NAME)
        format_address(s);
    s->state = DONE;
    return SOCKS_REQUEST;
}

/* The end of a field of announced length: what follows it. */
static enum socks_step end_field(struct socks_handshake *s)
{
    switch ((enum state)s->state) {
    case METHODS:
        return select_method(s);
    case USER:
        s->user_known = true;
        s->state = PASSWORD_LENGTH;
        return SOCKS_MORE;
    case PASSWORD:
        return judge_password(s);
    default:
        s->state = PORT_HIGH;
        return SOCKS_MORE;
    }
}

static void begin_field(struct socks_handshake *s, enum state state, uint8_t length)
{
    s->state = (uint8_t)state;
    s->left = length;
}

/* Stores a run of bytes of the current field; returns how many were taken. */
static size_t take_run(struct socks_handshake *s, const uint8_t *p, size_t n)
{
    size_t run = n < s->left ? n : s->left;

    if (run == 0)
        return 0;
    if (s->state == METHODS) {
        for (size_t i = 0; i < run; i++) {
            if (p[i] == METHOD_NONE)
                s->offered |= OFFERS_NONE;
            else if (p[i] == METHOD_PASSWORD)
                s->offered |= OFFERS_PASSWORD;
        }
    } else if (s->state == USER) {
        memcpy(s->user + s->user_len, p, run);
        s->user_len = (uint8_t)(s->user_len + run);
    } else {
        memcpy(s->host + s->host_len, p, run);
        s->host_len = (uint8_t)(s->host_len + run);
    }
    s->left = (uint8_t)(s->left - run);
    return run;
}

static bool in_field(const struct socks_handshake *s)
{
    return s->state == METHODS || s->state == USER || s->state == PASSWORD || s->state == ADDRESS;
}

/* One byte in a state that is not a field of announced length. */
static enum socks_step take_byte(struct socks_handshake *s, uint8_t c)
{
    switch ((enum state)s->state) {
    case VERSION:
        s->version = c;
        if (c == 4)
            return refuse_version4(s);
        if (c != 5)
            return refuse(s, ERR_SOCKS_PROTOCOL);
        s->state = METHOD_COUNT;
        break;
    case METHOD_COUNT:
        if (c == 0)
            return refuse(s, ERR_SOCKS_PROTOCOL);
        begin_field(s, METHODS, c);
        break;
    case AUTH_VERSION:
        s->state = USER_LENGTH;
        break;
    case USER_LENGTH:
        begin_field(s, USER, c);
        break;
    case PASSWORD_LENGTH:
        begin_field(s, PASSWORD, c);
        break;
    case REQUEST_VERSION:
        s->state = COMMAND;
        break;
    case COMMAND:
        s->command = c;
        s->state = RESERVED;
        break;
    case RESERVED:
        s->state = ADDRESS_TYPE;
        break;
    case ADDRESS_TYPE:
        return begin_address(s, c);
    case NAME_LENGTH:
        begin_field(s, ADDRESS, c);
        break;
    case PORT_HIGH:
        s->port = (uint16_t)(c << 8);
        s->state = PORT_LOW;
        break;
    case PORT_LOW:
        s->port = (uint16_t)(s->port | c);
        return finish_request(s);
    case METHODS:
    case USER:
    case PASSWORD:
    case ADDRESS:
    case DONE:
        return refuse(s, ERR_INTERNAL);
    }
    return SOCKS_MORE;
}

enum socks_step socks_feed(struct socks_handshake *s, const uint8_t *p, size_t n, size_t *used)
{
    enum socks_step step = SOCKS_MORE;
    size_t i = 0;

    s->reply_len = 0;
    /* A reply ends a message: it has to go out before the next one is looked at. */
    while (i < n && step == SOCKS_MORE && s->reply_len == 0) {
        if (!in_field(s))
            step = take_byte(s, p[i++]);
        if (step == SOCKS_MORE && in_field(s)) {
            i += take_run(s, p + i, n - i);
            if (s->left == 0)
                step = end_field(s);
        }
    }
    *used = step == SOCKS_REFUSED ? n : i;
    return step;
}
