#include "proxy/check_lines.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/text.h"

enum {
    LINE_MAX_BYTES = 1 << 20, /* of a question; a longer one is an error */
    CHUNK = 1 << 16,
    /* An answer repeats parts of its question and an entry of the settings, escaped again. */
    OUTPUT_MAX = 1 << 28
};

struct checker {
    const struct policy *policy;
    int out;
    struct buf answers; /* not written yet */
};

static bool flush(struct checker *c)
{
    while (buf_len(&c->answers) != 0) {
        ssize_t n = write(c->out, buf_data(&c->answers), buf_len(&c->answers));
        if (n >= 0)
            buf_consume(&c->answers, (size_t)n);
        else if (errno != EINTR)
            return false;
    }
    return true;
}

static void put(struct checker *c, const char *s)
{
    buf_puts(&c->answers, s);
}

static void put_text(struct checker *c, const char *s, size_t n)
{
    text_json(&c->answers, s, n);
}

static void put_text_or_null(struct checker *c, const char *s)
{
    if (s != NULL)
        put_text(c, s, strlen(s));
    else
        put(c, "null");
}

static void put_error(struct checker *c, const char *why)
{
    put(c, "{\"error\":");
    put_text_or_null(c, why);
    put(c, "}\n");
}

/* A question taken apart; borrowed from its JSON. */
struct question {
    const json_t *host;
    uint16_t port;
    const json_t *addresses, *local; /* NULL: absent */
};

static bool is_string_list(const json_t *list)
{
    if (!json_is_array(list))
        return false;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_string(json_array_get(list, i)))
            return false;
    return true;
}

/* NULL when it is a question, else what is wrong with it. */
static const char *read_question(const json_t *line, struct question *q)
{
    const json_t *port = json_object_get(line, "port");
    double number = json_number_value(port);
    if (!json_is_object(line))
        return "not a JSON object";
    q->host = json_object_get(line, "host");
    q->addresses = json_object_get(line, "addresses");
    q->local = json_object_get(line, "localAddresses");
    if (!json_is_string(q->host))
        return "host: a string is needed";
    if (!json_is_number(port) || number < 1 || number > 65535 || (double)(uint16_t)number != number)
        return "port: an integer from 1 to 65535 is needed";
    if (q->addresses != NULL && !is_string_list(q->addresses))
        return "addresses: a list of strings is needed";
    if (q->local != NULL && !is_string_list(q->local))
        return "localAddresses: a list of strings is needed";
    q->port = (uint16_t)number;
    return NULL;
}

static void put_verdict(struct checker *c, const struct decision *d)
{
    static const char *const names[] = {
        [VERDICT_ALLOW] = "allow", [VERDICT_DENY] = "deny", [VERDICT_ASK] = "ask"};
    buf_printf(&c->answers, ",\"verdict\":\"%s\",\"rule\":", names[d->verdict]);
    if (d->list != NULL)
        buf_printf(&c->answers, "\"%s[%zu]\"", d->list, d->index);
    else
        put(c, "null");
    put(c, ",\"entry\":");
    put_text_or_null(c, d->entry);
    put(c, ",\"reason\":");
    put_text_or_null(c, d->verdict == VERDICT_DENY ? d->reason : NULL);
}

/* Addresses of this host's interfaces; what is no address is skipped. */
static struct address_set *local_set(const json_t *list)
{
    struct address_set *set = address_set_new();
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *text = json_array_get(list, i);
        struct address a;
        if (address_parse(json_string_value(text), json_string_length(text), true, &a))
            address_set_add(set, &(struct address_range){a, a});
    }
    address_set_seal(set);
    return set;
}

static enum address_class judge(const struct checker *c, const struct question *q,
                                const struct host *name, const json_t *text,
                                const struct address_set *local)
{
    struct address a;
    if (name->is_address) /* an address that was asked for by itself is not resolved */
        return ADDRESS_KEPT;
    if (!address_parse(json_string_value(text), json_string_length(text), true, &a))
        return ADDRESS_UNPARSABLE;
    return policy_judge_address(c->policy, name, q->port, &a, local);
}

static void put_addresses(struct checker *c, const struct question *q, const struct host *name)
{
    struct address_set *local = local_set(q->local);
    unsigned dropped = 0;
    bool any = false;
    put(c, ",\"kept\":[");
    for (size_t i = 0; i < json_array_size(q->addresses); i++) {
        const json_t *text = json_array_get(q->addresses, i);
        enum address_class class = judge(c, q, name, text, local);
        if (class != ADDRESS_KEPT) {
            dropped |= 1u << class;
            continue;
        }
        if (any)
            put(c, ",");
        any = true;
        put_text(c, json_string_value(text), json_string_length(text));
    }
    put(c, "],\"addressReason\":");
    char reason[512];
    if (!any && dropped != 0) {
        address_reason(dropped, reason, sizeof reason);
        put_text_or_null(c, reason);
    } else {
        put(c, "null");
    }
    address_set_free(local);
}

static void answer(struct checker *c, const struct question *q)
{
    struct host canonical, again;
    struct decision decision;
    const char *host = json_string_value(q->host);
    size_t n = json_string_length(q->host);
    policy_decide(c->policy, host, n, q->port, NULL, &canonical, &decision);

    put(c, "{\"host\":");
    put_text(c, host, n);
    buf_printf(&c->answers, ",\"port\":%u,\"canonical\":", q->port);
    /* Only a lone dot has an empty canonical form; else empty says that there is none. */
    if (canonical.len != 0 || host_canonicalise(host, n, &again) == HOST_EMPTY_LABEL)
        put_text(c, canonical.text, canonical.len);
    else
        put(c, "null");
    put_verdict(c, &decision);
    if (q->addresses != NULL)
        put_addresses(c, q, &canonical);
    put(c, "}\n");
}

static bool is_blank(const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

static bool take_line(struct checker *c, const char *line, size_t n)
{
    struct question question;
    json_error_t error;
    if (is_blank(line, n))
        return true;
    /* jansson passes over one that follows a number. */
    bool nul = memchr(line, '\0', n) != NULL;
    json_t *document =
        nul ? NULL
            : json_loadb(line, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL,
                         &error);
    const char *why = nul                ? "a NUL byte"
                      : document == NULL ? error.text
                                         : read_question(document, &question);
    if (why != NULL)
        put_error(c, why);
    else
        answer(c, &question);
    json_decref(document);
    return buf_len(&c->answers) < CHUNK || flush(c);
}

/* Takes the whole lines out of the input. *skipping: the rest of a line that was too long is to be
 * passed over. */
static bool take_lines(struct checker *c, struct buf *input, bool *skipping)
{
    const char *end;
    while (buf_len(input) != 0 && (end = memchr(buf_chars(input), '\n', buf_len(input))) != NULL) {
        size_t n = (size_t)(end - buf_chars(input));
        if (!*skipping && n > LINE_MAX_BYTES)
            put_error(c, "line too long");
        else if (!*skipping && !take_line(c, buf_chars(input), n))
            return false;
        *skipping = false;
        buf_consume(input, n + 1);
    }
    if (buf_len(input) > LINE_MAX_BYTES) {
        if (!*skipping)
            put_error(c, "line too long");
        *skipping = true;
    }
    if (*skipping)
        buf_consume(input, buf_len(input));
    return true;
}

/* Answers wait for company while there is more to read, not while somebody thinks. */
static bool would_wait(int in)
{
    struct pollfd p = {.fd = in, .events = POLLIN};
    return poll(&p, 1, 0) == 0;
}

bool check_lines(const struct policy *policy, int in, int out)
{
    struct checker c = {.policy = policy, .out = out};
    struct buf input;
    bool skipping = false, ok = false;
    buf_init(&c.answers, OUTPUT_MAX);
    buf_init(&input, LINE_MAX_BYTES + CHUNK);

    for (;;) {
        if (would_wait(in) && !flush(&c))
            break;
        ssize_t n = read(in, buf_reserve(&input, CHUNK), CHUNK);
        if (n > 0) {
            buf_commit(&input, (size_t)n);
            if (!take_lines(&c, &input, &skipping))
                break;
        } else if (n == 0) {
            ok = (buf_len(&input) == 0 || take_line(&c, buf_chars(&input), buf_len(&input))) &&
                 flush(&c);
            break;
        } else if (errno != EINTR) {
            break;
        }
    }
    int number = errno;
    buf_free(&input);
    buf_free(&c.answers);
    errno = number;
    return ok;
}
