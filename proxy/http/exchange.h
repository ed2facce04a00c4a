/*
 * One forwarded request and its response: the state that forward.c (opening,
 * ending), forward_request.c (client to upstream) and forward_response.c
 * (upstream to client) share. Nothing outside these three may include it.
 */
#ifndef HTTP_EXCHANGE_H
#define HTTP_EXCHANGE_H

#include "decider/body.h"
#include "proxy/egress/pool.h"
#include "proxy/http/headers.h"
#include "proxy/http/session_internal.h"

enum exchange_state {
    EXCHANGE_DIALLING, /* no upstream yet; the request's head waits in up_out */
    EXCHANGE_HEAD,     /* connected; the response's head is awaited */
    EXCHANGE_BODY      /* the response's head is on its way to the client */
};

struct exchange {
    struct http_session *session;
    enum exchange_state state;
    struct stream *upstream;
    struct pool_connection connection; /* what is kept of it when it can be used again */
    struct buf replay; /* the head as sent on a reused connection, until an answer begins */
    struct buf up_out; /* to the upstream: head, then encoded body */
    struct decider_body *shown; /* the body's beginning, as a decider saw it; NULL: none left */
    size_t shown_sent;          /* bytes of it that are in up_out */
    struct buf rest;            /* what was read behind it */
    struct buf up_in;           /* from the upstream: what follows its head, raw */
    struct head head;           /* of the response */
    size_t scanned;
    struct body_decoder body;          /* of the response */
    enum out_framing request_framing;  /* as sent upstream */
    enum out_framing response_framing; /* as sent to the client */
    uint32_t interims;
    ev_timer expect;
    bool https;         /* an absolute https:// target */
    bool absolute;      /* the upstream is a next hop that gets the absolute form */
    bool one_time;      /* ... and no second request: the MITM socket */
    bool reused;        /* it came from the pool and has not answered yet */
    bool decided;       /* a decider allowed this request */
    bool idempotent;    /* the method may be repeated (RFC 9110 section 9.2.2) */
    bool moved;         /* the last request_pump() wrote something upstream */
    bool body_taken;    /* bytes of the request's body were read */
    bool request_ended; /* the end of the request's body is in up_out */
    bool request_dead;  /* the upstream takes no more of it */
    bool upgrade;       /* the client's Upgrade went upstream */
    bool client_waits;  /* for 100 Continue */
    bool upstream_ended;
    bool excess; /* it sent more than its answer: no more requests to it */
};

/* A failure of the upstream: an answer of ours when none has begun, else the connection's end.
 * False when the session is gone. */
bool exchange_fail(struct exchange *x, enum err err);

/* The response is complete: the record is written, the session goes on with the next request. */
void exchange_finish(struct exchange *x);

/* 101: both sides become a tunnel, the session is gone. */
void exchange_upgrade(struct exchange *x);

/* Arms the upstream for what the session's exchange can do next, if one is under way. */
void exchange_want(const struct http_session *s);

/* forward_request.c. `may_read`: the client's socket is readable. False: the session is gone. */
bool request_pump(struct exchange *x, bool may_read);

/* forward_response.c: the upstream is readable, or the client took bytes. False: as above. */
bool response_pump(struct exchange *x);
/* 100 Continue of our own, when the upstream may not know Expect. */
void response_continue(struct exchange *x);

#endif
