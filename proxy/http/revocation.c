/* The revocation list of the CA, for clients that ask for one: chapter 30 section 2.4. */
#include <string.h>

#include "proxy/http/session_internal.h"
#include "proxy/tls/accept.h"

static const char path[] = "/srt.crl";

/* GET, origin form, any query. */
static bool asks_for_it(const struct head *h, const uint8_t *p)
{
    size_t n = sizeof path - 1;
    const uint8_t *target = p + h->target.at;
    return head_method_is(h, p, "GET") && h->target.len >= n && memcmp(target, path, n) == 0 &&
           (h->target.len == n || target[n] == '?');
}

bool revocation_answer(struct http_session *s, const uint8_t *p)
{
    if (s->inside != NULL || s->worker->tls_server == NULL || !asks_for_it(&s->head, p))
        return false;
    const struct buf *list = tls_server_revocations(s->worker->tls_server);
    if (list == NULL) {
        session_refuse(s, ERR_INTERNAL, &(struct refusal){.close = true});
        return true;
    }
    if (!session_drop_body(s) || !body_is_done(&s->body))
        s->close_after = true;
    buf_printf(&s->out,
               "HTTP/1.1 200 OK\r\nContent-Type: application/pkix-crl\r\n"
               "Content-Length: %zu\r\nDate: %s\r\n",
               buf_len(list), worker_date(s->worker));
    respond_connection(&s->out, s->close_after, keep_alive_seconds(session_limits(s)));
    buf_puts(&s->out, "\r\n");
    buf_append(&s->out, buf_data(list), buf_len(list));
    s->request.record.status = 200;
    request_end(&s->request, s->worker, ERR_NONE);
    s->state = HTTP_ANSWERED;
    return true;
}
