/*
 * What session.c, refuse.c, revocation.c, connect.c, judge.c, admit.c, inquiry.c and forward*.c
 * share.
 * Nothing else may include it.
 *
 * Every function that may end the session returns bool: false means that it is
 * gone (or is a tunnel now) and must not be touched.
 */
#ifndef HTTP_SESSION_INTERNAL_H
#define HTTP_SESSION_INTERNAL_H

#include <stdbool.h>

#include "base/err.h"
#include "proxy/egress/egress.h"
#include "proxy/egress/request.h"
#include "proxy/egress/stall.h"
#include "proxy/http/chunked.h"
#include "proxy/http/head.h"
#include "proxy/http/respond.h"
#include "proxy/http/terminate.h"

enum http_state {
    HTTP_HEAD,    /* bytes of a request head; the idle or the head timer runs */
    HTTP_ASKING,  /* a decider is asked; bytes are the request's body, or early data of a CONNECT */
    HTTP_OPENING, /* CONNECT allowed, being dialled; bytes are the tunnel's early data */
    HTTP_EXCHANGE, /* a request is being forwarded; bytes belong to forward.c */
    HTTP_ANSWERED  /* the last answer is in `out`; the rest of the request's body is dropped */
};

/* What an unfinished head may hold when memory is short. Half heads are the cheapest way to make us
 * hold memory. */
enum { SHORT_HEAD = 8192 };

struct exchange;
struct inquiry;

struct http_session {
    struct client *client;
    struct worker *worker;
    struct snapshot *snapshot; /* whose limits hold for this connection */
    enum http_state state;
    struct buf in;  /* received, not yet used */
    struct buf out; /* to be sent */
    struct head head;
    size_t scanned;
    struct request request;
    struct body_decoder body;  /* of the current request */
    struct inside *inside;     /* of a terminated tunnel; NULL: the proxy's own client */
    struct approvals approved; /* by a decider, for this connection */
    struct buf target;       /* path and query that the filters judged and that go on; else empty */
    struct inquiry *inquiry; /* inquiry.c's: what waits for a decider; NULL: nothing */
    struct egress *egress;
    struct exchange *exchange; /* forward.c's, NULL outside an exchange */
    size_t held;               /* reported to the worker's budget */
    ev_timer timer;
    struct stall stall;     /* inside a tunnel */
    uint64_t sent;          /* bytes the client took */
    enum err timeout_error; /* what the timer's end means */
    uint32_t auth_failures;
    bool connect;      /* the current request is a CONNECT */
    bool head_method;  /* ... a HEAD */
    bool close_after;  /* the client was told, or asked, that the connection ends */
    bool client_ended; /* the client's FIN was read */
    bool asked;        /* a whole request head has come */
    bool refused;      /* the current answer is a refusal of ours */
};

static inline const struct limits *session_limits(const struct http_session *s)
{
    return &s->snapshot->limits;
}

void session_timer(struct http_session *s, uint32_t ms, enum err meaning);
void session_timer_stop(struct http_session *s);

/* Ends the session without another byte; reset: so that a cut answer cannot look complete. */
void session_abort(struct http_session *s, enum err why, bool reset);

/* Frees the session and gives its client back. */
struct client *session_release(struct http_session *s);

/* Seconds told to a client in Keep-Alive: one less than it really has, so that it does not send a
 * request just as we close. */
static inline unsigned keep_alive_seconds(const struct limits *limits)
{
    return limits->keep_alive_ms > 2000 ? (limits->keep_alive_ms - 1000) / 1000 : 1;
}

/* Ends it with an orderly end (close_notify, FIN) and no answer, so that the client's own rules for
 * trying again apply. */
void session_end(struct http_session *s, enum err why);

/* refuse.c. Queues our own answer and its record, and turns the session to HTTP_ANSWERED. */
struct refusal {
    const char *reason; /* phrase of a refused CONNECT and the record's reason, or NULL */
    const char *body;   /* instead of the table's */
    unsigned status;    /* instead of the table's, or 0 */
    const char *mark;   /* X-Proxy-Error instead of the table's */
    const char *second_line;
    const char *detail; /* of an upstream failure, for the log */
    bool close;         /* whatever the table and the client say */
    bool keep;          /* the connection goes on even if the rest of the body is long */
};
void session_refuse(struct http_session *s, enum err err, const struct refusal *how);
/* The same for what authorisation or the dial said no to. */
void session_refuse_policy(struct http_session *s);
void session_refuse_upstream(struct http_session *s, const struct egress_result *r);
/* A head that did not parse, was too long or too late. */
void session_refuse_head(struct http_session *s, enum err err);
/* What is not HTTP. detail: why, for a client inside a tunnel. */
void session_refuse_malformed(struct http_session *s, enum err err, const char *detail);
/* HTTP/1.1 without Host, inside a tunnel. */
void session_refuse_no_host(struct http_session *s);

/* What a violation line shows of a request. */
struct head_text {
    const char *method;
    size_t method_len;
    const char *target; /* path and query */
    size_t target_len;
};
/* Inside a tunnel: recorded, answered with the text, and the last one. */
void session_refuse_inside(struct http_session *s, enum err err, const struct head_text *head,
                           const char *text);

/* Drops what is at hand of the request's body. False: it is malformed. */
bool session_drop_body(struct http_session *s);

/* revocation.c: answers GET /srt.crl. False: the request is not for it. */
bool revocation_answer(struct http_session *s, const uint8_t *p);

/* judge.c, on a request whose head is at p. */
struct authority;
/* Where it goes. Inside a terminated tunnel that is settled: the target is a path, byte for byte,
 * or an absolute URI of which the path alone counts; a->path is 0 for the former. False: refused.
 */
bool judge_target(struct http_session *s, const uint8_t *p, struct authority *a);
/* Once it is authorised: the forms of its target where anything judges them, requireHostMatch,
 * TRACE, network.rules. False: refused. */
bool judge_request(struct http_session *s, const uint8_t *p, const struct authority *a);
/* Whether a decider judges every request that can be read. */
bool judge_by_decider(const struct http_session *s);
/* Its URL as violation lines show it, recorded with the reason. */
void judge_record(struct http_session *s, const uint8_t *p, const struct authority *a,
                  const char *reason);

/* admit.c: an authenticated request, from its head to its exchange. Leaves the session in
 * HTTP_ANSWERED (refused), HTTP_ASKING or HTTP_EXCHANGE (forward_open() is next). */
void admit_begin(struct http_session *s, const uint8_t *p);
/* Goes on after an answer of the decider; s may be gone afterwards. */
void admit_resume(struct http_session *s);
/* Before anything is dialled for a client that had to wait: whether it can still be served. False:
 * it is gone, and the session with it. */
bool admit_still_there(struct http_session *s);

/* inquiry.c. A head that has to wait: copied from p, with its authority. */
void inquiry_keep(struct http_session *s, const uint8_t *p, const struct authority *a);
const uint8_t *inquiry_head(const struct http_session *s, struct authority *a);
/* Asks the decider about the request that is kept. False: refused. */
bool inquiry_ask(struct http_session *s);
void inquiry_free(struct http_session *s);
size_t inquiry_held(const struct http_session *s);
int inquiry_wanted(const struct http_session *s);
/* The client is readable. False: the session is gone. */
bool inquiry_readable(struct http_session *s);
bool inquiry_timeout(struct http_session *s);

/* Moves on from HTTP_HEAD or HTTP_ANSWERED as far as the bytes at hand allow, and arms events. */
void session_advance(struct http_session *s);

/* Writes what is queued. False when the client is gone (the session with it). */
bool session_flush(struct http_session *s);

/* connect.c: an authenticated CONNECT; p: the bytes of its head. False: the session is gone. */
bool connect_begin(struct http_session *s, const uint8_t *p);
int connect_wanted(const struct http_session *s);
/* Bytes or an end came while it is being dialled. */
bool connect_readable(struct http_session *s);

/* forward.c: a request that may go, as it came but for its target and the edits of
 * the decider that allowed it (NULL: none was asked). body,
 * rest: what was read of its body already, the two in this order; taken over. */
struct edits;
struct decider_body;
void forward_begin(struct http_session *s, const uint8_t *p, const struct authority *a,
                   const struct edits *edits, struct decider_body *body, struct buf *rest);
/* Its head is used up: a kept connection is taken, or a new one dialled. */
bool forward_open(struct http_session *s);
bool forward_client_readable(struct http_session *s);
bool forward_client_writable(struct http_session *s);
bool forward_body_timeout(struct http_session *s);
int forward_wanted(const struct http_session *s);
void forward_free(struct http_session *s);
/* Bytes that its buffers hold. */
size_t forward_held(const struct http_session *s);

#endif
