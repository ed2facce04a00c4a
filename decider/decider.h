/*
 * Whoever answers what static rules leave open: a process at the other end of
 * a link, or a person at the terminal. The proxy knows no more than this.
 *
 * A question is answered by calls of its `answer`, never from inside a call of
 * the functions below; after any answer but DECIDER_NEED_BODY it is gone. No
 * answer but DECIDER_ALLOW lets anything out.
 */
#ifndef DECIDER_DECIDER_H
#define DECIDER_DECIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decider/body.h"

/* What is asked: bits. */
enum { DECIDER_CONNECTIONS = 1, DECIDER_REQUESTS = 2 };

enum decider_action {
    DECIDER_ALLOW,
    DECIDER_DENY,
    DECIDER_NEED_BODY,  /* of a request, once: decider_hold(), then decider_body() */
    DECIDER_UNAVAILABLE /* no answer came: 503 */
};

/* A header name, lower-case, and its values, in order; NUL-terminated, without control characters.
 */
struct decider_header {
    const char *name;
    const char *const *values;
    size_t value_count; /* may be 0: the header is removed */
};

/* Valid during the call that brings it. */
struct decider_verdict {
    enum decider_action action;

    /* DECIDER_ALLOW, of a request */
    const struct decider_header *set;
    size_t set_count;
    const char *const *removed; /* lower-case names */
    size_t removed_count;
    const char *credential_class, *credential; /* both or neither */

    /* DECIDER_ALLOW or, from a person, DECIDER_DENY of a connection: for how many seconds the same
     * answer holds for the same client, host and port; 0: for this one alone. */
    uint32_t ttl_s;

    /* DECIDER_DENY */
    uint16_t status;    /* 400 to 599 */
    const char *reason; /* NULL: none given */

    /* DECIDER_NEED_BODY */
    uint32_t max; /* bytes of it, 1 to DECIDER_BODY_MAX */

    const char *why; /* DECIDER_UNAVAILABLE: for people and logs */
};

enum { DECIDER_TTL_RUN = UINT32_MAX }; /* ttl_s: as long as the process runs */

typedef void decider_answer(void *ctx, const struct decider_verdict *v);

/* What is asked about a connection. Strings are borrowed for the call. */
struct decider_connection {
    const char *via;  /* "connect", "socks" or "http" */
    const char *host; /* canonical */
    uint16_t port;
    const char *client; /* its address, or "local" */
    const char *user;   /* proxy user name as presented, without its password; NULL: none */
    size_t user_len;
};

struct decider_field {
    const char *name;
    size_t name_len;
    const char *value;
    size_t value_len;
};

/* What is asked about a request. Bytes are the client's, and any. */
struct decider_request {
    const char *method;
    size_t method_len;
    const char *host; /* canonical */
    uint16_t port;
    const char *server_name; /* lower-cased; NULL: none */
    const char *target;      /* path and query as they will be forwarded */
    size_t target_len;
    const struct decider_field *fields; /* all of them, Host too, as the client spelled them */
    size_t field_count;
};

struct decider;

/* The head of every implementation's question. */
struct decider_question {
    struct decider *decider;
};

struct decider_ops {
    struct decider_question *(*connection)(struct decider *d, const struct decider_connection *c,
                                           decider_answer *answer, void *ctx);
    struct decider_question *(*request)(struct decider *d, const struct decider_request *r,
                                        const char **refused, decider_answer *answer, void *ctx);
    bool (*hold)(struct decider_question *q, uint64_t length);
    void (*body)(struct decider_question *q, struct decider_body *body, bool cut);
    void (*forget)(struct decider_question *q);
};

/* The head of every implementation. */
struct decider {
    const struct decider_ops *ops;
    unsigned asks; /* bits: what may be asked of it. Stays what it was while it is away. */
};

/* NULL: it is away. */
static inline struct decider_question *decider_ask_connection(struct decider *d,
                                                              const struct decider_connection *c,
                                                              decider_answer *answer, void *ctx)
{
    return d->ops->connection(d, c, answer, ctx);
}

/* NULL: it is away, or, with the reason in *refused (else NULL), it cannot be asked about such a
 * request: 400. */
static inline struct decider_question *decider_ask_request(struct decider *d,
                                                           const struct decider_request *r,
                                                           const char **refused,
                                                           decider_answer *answer, void *ctx)
{
    return d->ops->request(d, r, refused, answer, ctx);
}

/* After DECIDER_NEED_BODY, before any of the body is read for it: length, UINT64_MAX when it is not
 * known, is what the client declared. False: too much is held for it already; the question is gone,
 * and the answer is 503. From here on only a DECIDER_DENY or DECIDER_UNAVAILABLE may come until the
 * body was given. */
static inline bool decider_hold(struct decider_question *q, uint64_t length)
{
    return q->decider->ops->hold(q, length);
}

/* The first bytes of the body, a reference of its own is taken; cut: there was more. */
static inline void decider_give_body(struct decider_question *q, struct decider_body *body,
                                     bool cut)
{
    q->decider->ops->body(q, body, cut);
}

/* Nobody waits for the answer any more: the question is gone. */
static inline void decider_forget(struct decider_question *q)
{
    q->decider->ops->forget(q);
}

#endif
