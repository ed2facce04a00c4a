/* CONNECT: chapter 20 section 4. */
#include <string.h>

#include "proxy/egress/tunnel.h"
#include "proxy/http/session_internal.h"
#include "proxy/http/target.h"

static const char established[] = "HTTP/1.1 200 Connection Established\r\n\r\n";

static void become_tunnel(struct http_session *s, struct egress_result *r)
{
    struct stream *client = s->client->stream;
    struct request request = s->request;
    struct buf up = s->in, down;
    size_t length = sizeof established - 1;

    memset(&s->request, 0, sizeof s->request);
    request.record.status = 200;
    buf_init(&s->in, 0);
    ssize_t n = stream_write(client, established, length);
    size_t sent = n > 0 ? (size_t)n : 0;
    buf_init(&down, length + buf_len(&r->early));
    buf_append(&down, established + sent, length - sent);
    buf_append(&down, buf_data(&r->early), buf_len(&r->early));
    buf_free(&r->early);
    if (buf_len(&up) == 0)
        buf_free(&up);
    if (buf_len(&down) == 0)
        buf_free(&down);
    stream_want(client, 0);
    tunnel_start(session_release(s), r->stream, &up, &down, &request);
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

void connect_begin(struct http_session *s)
{
    struct request *r = &s->request;
    struct authority a;
    r->record.via = VIA_CONNECT;
    if (!authority_parse_connect((const char *)buf_data(&s->in) + s->head.target.at,
                                 s->head.target.len, &a)) {
        session_refuse(s, ERR_BAD_AUTHORITY, &(struct refusal){0});
        return;
    }
    if (!request_authorise(r, s->worker, a.host, a.host_len, a.port)) {
        session_refuse_policy(s);
        return;
    }
    if (r->snapshot->refuse_opaque_tunnels) {
        request_violation_connect(r, s->worker, err_info(ERR_OPAQUE_TUNNEL)->body);
        session_refuse(s, ERR_OPAQUE_TUNNEL, &(struct refusal){0});
        return;
    }
    s->state = HTTP_OPENING;
    s->egress =
        egress_start(s->worker, r->snapshot, &r->host, r->port, EGRESS_TUNNEL, on_egress, s);
}

bool connect_readable(struct http_session *s)
{
    size_t limit = session_limits(s)->early_data_bytes;
    /* One byte more than allowed, so that the excess can be seen. */
    size_t room = limit + 1 - buf_len(&s->in);
    size_t most = budget_read_size(&s->worker->budget, RELAY_CHUNK);
    if (room > most)
        room = most;
    ssize_t n = stream_read(s->client->stream, buf_reserve(&s->in, room), room);
    if (n < 0 && stream_would_block(n, errno))
        return true;
    if (n <= 0) {
        session_abort(s, ERR_CLIENT_GONE, n < 0);
        return false;
    }
    buf_commit(&s->in, (size_t)n);
    if (buf_len(&s->in) > limit) {
        session_abort(s, ERR_EARLY_DATA, true);
        return false;
    }
    return true;
}
