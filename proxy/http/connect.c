/* CONNECT: chapter 20 section 4. */
#include <string.h>

#include "proxy/egress/tunnel.h"
#include "proxy/http/session_internal.h"
#include "proxy/http/target.h"

enum { READ_SIZE = 4096 };

static const char established[] = "HTTP/1.1 200 Connection Established\r\n\r\n";

static void become_tunnel(struct http_session *s, struct egress_result *r)
{
    struct request request = s->request;
    struct buf ahead = s->in, answer = s->out;

    memset(&s->request, 0, sizeof s->request);
    buf_init(&s->in, 0);
    buf_init(&s->out, 0);
    request.record.status = 200;
    buf_puts(&answer, established);
    tunnel_start(session_release(s), r->stream, ahead, answer, r->early, &request);
}

static void on_egress(void *ctx, struct egress_result *r)
{
    struct http_session *s = ctx;
    s->egress = NULL;
    if (r->err == ERR_NONE) {
        become_tunnel(s, r);
        return;
    }
    session_refuse_upstream(s, r);
    session_advance(s);
}

int connect_wanted(const struct http_session *s)
{
    return budget_may_hold(&s->worker->budget, buf_len(&s->in)) ? STREAM_READ : 0;
}

/* A client that ended its side with its request gets nothing, not even a verdict. False: the
 * session is gone. */
static bool still_there(struct http_session *s)
{
    size_t before;
    do {
        before = buf_len(&s->in);
        if (!connect_readable(s))
            return false;
    } while (buf_len(&s->in) != before && connect_wanted(s) != 0);
    return true;
}

/* False: the session is gone. */
static bool terminate(struct http_session *s)
{
    struct request *r = &s->request;
    if (terminate_is_full(s->worker, r->snapshot)) {
        terminate_note_full(s->worker, r);
        session_refuse(s, ERR_TUNNELS, &(struct refusal){.close = true});
        return true;
    }
    struct request request = *r;
    struct buf ahead = s->in;
    memset(r, 0, sizeof *r);
    buf_init(&s->in, 0);
    terminate_start(session_release(s), &ahead, &request);
    return false;
}

/* It may go there. False: the session is gone. */
static bool authorised(struct http_session *s)
{
    struct request *r = &s->request;
    if (terminate_applies(s->worker, r->snapshot, &r->host))
        return terminate(s);
    if (r->snapshot->refuse_opaque_tunnels) {
        struct buf url;
        buf_init(&url, HOST_MAX + 16);
        authority_format(&url, &r->host, r->port, 0);
        request_violation_http(r, s->worker, "CONNECT", strlen("CONNECT"), buf_cstr(&url),
                               err_info(ERR_OPAQUE_TUNNEL)->body);
        buf_free(&url);
        session_refuse(s, ERR_OPAQUE_TUNNEL, &(struct refusal){0});
        return true;
    }
    s->state = HTTP_OPENING;
    s->egress =
        egress_start(s->worker, r->snapshot, &r->host, r->port, EGRESS_TUNNEL, on_egress, s);
    return true;
}

static void on_authorisation(void *ctx, enum err err)
{
    struct http_session *s = ctx;
    if (!admit_still_there(s))
        return;
    if (err == ERR_POLICY)
        session_refuse_policy(s);
    else if (err != ERR_NONE)
        session_refuse(s, err, &(struct refusal){0});
    else if (!authorised(s))
        return;
    session_advance(s);
}

/* False: the session is gone. */
static bool open_tunnel(struct http_session *s, const struct authority *a)
{
    switch (request_authorise(&s->request, s->worker, NULL, a->host, a->host_len, a->port,
                              on_authorisation, s)) {
    case AUTHORISATION_GIVEN:
        return authorised(s);
    case AUTHORISATION_DENIED:
        session_refuse_policy(s);
        break;
    case AUTHORISATION_AWAITED:
        s->state = HTTP_ASKING;
        break;
    case AUTHORISATION_UNKNOWN:
        session_refuse(s, ERR_DECIDER, &(struct refusal){0});
        break;
    }
    return true;
}

bool connect_begin(struct http_session *s, const uint8_t *p)
{
    struct request *r = &s->request;
    struct authority a;
    r->record.via = VIA_CONNECT;
    /* The target is copied: looking for the client's end may overwrite the head. */
    struct buf target;
    buf_init(&target, s->head.target.len);
    buf_append(&target, p + s->head.target.at, s->head.target.len);
    if (!still_there(s)) {
        buf_free(&target);
        return false;
    }
    bool there = true;
    if (!authority_parse_connect(buf_chars(&target), buf_len(&target), &a) ||
        (r->snapshot->proxy_only && !authority_is_plain(&a)))
        session_refuse(s, ERR_BAD_AUTHORITY, &(struct refusal){0});
    else
        there = open_tunnel(s, &a);
    buf_free(&target);
    return there;
}

bool connect_readable(struct http_session *s)
{
    size_t limit = session_limits(s)->early_data_bytes;
    if (buf_len(&s->in) > limit) {
        session_abort(s, ERR_EARLY_DATA, true);
        return false;
    }
    /* One byte more than allowed, so that the excess can be seen. */
    size_t room = limit + 1 - buf_len(&s->in);
    if (room > READ_SIZE)
        room = READ_SIZE;
    /* Mostly there is nothing: the scratch costs no memory to find that out. */
    ssize_t n = stream_read(s->client->stream, s->worker->scratch, room);
    if (n < 0 && stream_would_block(n, errno))
        return true;
    if (n <= 0) {
        session_abort(s, ERR_CLIENT_GONE, n < 0);
        return false;
    }
    buf_append(&s->in, s->worker->scratch, (size_t)n);
    if (buf_len(&s->in) <= limit)
        return true;
    session_abort(s, ERR_EARLY_DATA, true);
    return false;
}
