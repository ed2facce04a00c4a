/* What waits for a decider: a request's head and, when the decider asks for it, the beginning of
 * its body. Chapter 35 sections 3 and 4. */
#include "decider/decider.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "proxy/http/edits.h"
#include "proxy/http/session_internal.h"
#include "proxy/http/target.h"

enum { READ_SIZE = 16384, WHY_MAX = 1024 };

struct inquiry {
    struct authority authority;
    struct decider_question *question; /* about the request; NULL: it is its connection's turn */
    struct decider_body *body;         /* what the decider is to see; NULL: it did not ask */
    struct buf rest;                   /* decoded behind that */
    uint32_t max;                      /* of what it sees */
    bool reading;                      /* more of the body is awaited for it */
    bool hidden; /* the method has no body: whether there is one all the same is looked at */
    size_t head_len;
    uint8_t head[]; /* `in` goes on with what follows it */
};

static const char continue_head[] = "HTTP/1.1 100 Continue\r\n\r\n";

void inquiry_keep(struct http_session *s, const uint8_t *p, const struct authority *a)
{
    struct inquiry *q = s->inquiry = mem_alloc(sizeof *q + s->head.length);
    const char *begin = (const char *)p, *end = begin + s->head.length;
    q->head_len = s->head.length;
    memcpy(q->head, p, q->head_len);
    buf_init(&q->rest, RELAY_CHUNK);
    q->authority = *a;
    /* Inside a tunnel the host is the tunnel's. */
    if (a->host >= begin && a->host < end)
        q->authority.host = (const char *)q->head + (a->host - begin);
    /* Many may wait, and most have nothing behind their heads. */
    if (buf_len(&s->in) == 0)
        buf_free(&s->in);
}

const uint8_t *inquiry_head(const struct http_session *s, struct authority *a)
{
    *a = s->inquiry->authority;
    return s->inquiry->head;
}

void inquiry_free(struct http_session *s)
{
    struct inquiry *q = s->inquiry;
    if (q == NULL)
        return;
    s->inquiry = NULL;
    if (q->question != NULL)
        decider_forget(q->question);
    decider_body_unref(q->body);
    buf_wipe(&q->rest);
    explicit_bzero(q->head, q->head_len); /* heads may carry credentials */
    free(q);
}

size_t inquiry_held(const struct http_session *s)
{
    return s->inquiry != NULL ? s->inquiry->head_len + s->inquiry->rest.cap : 0;
}

/* Recorded, and answered. reason: of the body and the record. The question is gone or forgotten. */
static void refuse(struct http_session *s, enum err err, unsigned status, const char *reason)
{
    struct inquiry *q = s->inquiry;
    const struct err_info *info = err_info(err);
    const char *text = reason != NULL ? reason : info->body;
    if (q->question != NULL)
        decider_forget(q->question);
    q->question = NULL;
    s->request.decision =
        (struct decision){.verdict = VERDICT_DENY, .list = DECIDER_LIST, .reason = text};
    record_set_decision(&s->request.record, &s->request.decision);
    judge_record(s, q->head, &q->authority, text);
    session_refuse(s, err, &(struct refusal){.status = status, .reason = text, .body = text});
}

static void refuse_unavailable(struct http_session *s, const char *why)
{
    struct buf text;
    buf_init(&text, WHY_MAX);
    buf_puts(&text, "request decider: ");
    buf_puts(&text, why);
    refuse(s, ERR_DECIDER, 0, buf_cstr(&text));
    buf_free(&text);
}

/* --- the answer ---------------------------------------------------------------------------- */

static struct edits *edits_of(const struct http_session *s, const struct decider_verdict *v)
{
    const struct request *r = &s->request;
    struct edits *e = edits_new();
    for (size_t i = 0; i < v->removed_count; i++)
        edits_remove(e, v->removed[i]);
    for (size_t i = 0; i < v->set_count; i++) {
        edits_remove(e, v->set[i].name);
        for (size_t k = 0; k < v->set[i].value_count; k++)
            edits_set(e, v->set[i].name, v->set[i].values[k]);
    }
    if (v->credential != NULL) {
        struct buf value;
        buf_init(&value, 4 * strlen(v->credential) + 4096);
        if (placements_value(&value, r->snapshot->placements, v->credential_class, v->credential,
                             r->host.text))
            edits_set_credential(e, buf_cstr(&value));
        buf_wipe(&value);
    }
    return e;
}

static void allow(struct http_session *s, const struct decider_verdict *v)
{
    struct inquiry *q = s->inquiry;
    struct edits *edits = edits_of(s, v);
    if (s->inside == NULL && edits_sets_any(edits) &&
        !s->request.snapshot->allow_plaintext_header_set) {
        refuse(s, ERR_PLAINTEXT_SET, 0, NULL);
    } else {
        struct decider_body *body = q->body;
        struct buf rest = q->rest;
        q->body = NULL;
        buf_init(&q->rest, 0);
        forward_begin(s, q->head, &q->authority, edits, body, &rest);
    }
    edits_free(edits);
}

static bool has_no_body_by_method(const struct http_session *s, const uint8_t *p)
{
    return head_method_is(&s->head, p, "GET") || head_method_is(&s->head, p, "HEAD") ||
           head_method_is(&s->head, p, "OPTIONS");
}

static bool pump(struct http_session *s);

/* False: the session is gone. */
static bool need_body(struct http_session *s, uint32_t max)
{
    struct inquiry *q = s->inquiry;
    bool declared = !body_is_done(&s->body);
    uint64_t length = s->body.framing == BODY_LENGTH ? s->body.left : UINT64_MAX;

    q->hidden = declared && has_no_body_by_method(s, q->head);
    if (q->hidden && s->body.framing == BODY_LENGTH) {
        refuse(s, ERR_HIDDEN_BODY, 0, NULL);
        return true;
    }
    /* Bodies that were allowed and have not gone are among the queued bytes. */
    bool short_of_memory = declared && budget_is_short(&s->worker->budget);
    if (short_of_memory || !decider_hold(q->question, declared && !q->hidden ? length : 0)) {
        if (!short_of_memory)
            q->question = NULL;
        refuse_unavailable(s, "too many request bodies are held for inspection");
        return true;
    }
    q->max = max;
    q->body = decider_body_new(max);
    q->reading = true;
    if (declared && s->head.expect_continue && s->head.minor >= 1 && buf_len(&s->in) == 0) {
        buf_puts(&s->out, continue_head);
        if (!session_flush(s))
            return false;
    }
    if (declared)
        session_timer(s, session_limits(s)->request_body_ms, ERR_BODY_TIMEOUT);
    return pump(s);
}

static void on_answer(void *ctx, const struct decider_verdict *v)
{
    struct http_session *s = ctx;
    struct inquiry *q = s->inquiry;

    if (v->action == DECIDER_NEED_BODY) {
        if (need_body(s, v->max))
            admit_resume(s);
        return;
    }
    q->question = NULL;
    session_timer_stop(s);
    if (!admit_still_there(s))
        return;
    switch (v->action) {
    case DECIDER_ALLOW:
        allow(s, v);
        break;
    case DECIDER_DENY:
        refuse(s, ERR_DENIED, v->status, v->reason);
        break;
    default:
        refuse_unavailable(s, v->why);
        break;
    }
    admit_resume(s);
}

/* --- the question -------------------------------------------------------------------------- */

/* Lower-cased; NULL: none was sent, or none that could be read. */
static char *server_name_of(const struct http_session *s)
{
    if (s->inside == NULL || s->inside->server_name == NULL)
        return NULL;
    char *name = mem_dup(s->inside->server_name);
    for (char *c = name; *c != '\0'; c++)
        *c = (char)text_lower((uint8_t)*c);
    return name;
}

bool inquiry_ask(struct http_session *s)
{
    struct inquiry *q = s->inquiry;
    const struct request *r = &s->request;
    const char *p = (const char *)q->head, *refused = NULL;
    struct decider_field *fields = mem_array(s->head.count + 1, sizeof *fields);
    size_t count = 0;
    char *server_name = server_name_of(s);

    for (uint32_t i = 0; i < s->head.count; i++) {
        const struct field *f = &s->head.fields[i];
        /* Our own token is nobody else's business. */
        if (f->id != FIELD_PROXY_AUTHORIZATION || s->worker->token == NULL)
            fields[count++] =
                (struct decider_field){p + f->name.at, f->name.len, p + f->value.at, f->value.len};
    }
    q->question = decider_ask_request(s->worker->decider,
                                      &(struct decider_request){.method = p + s->head.method.at,
                                                                .method_len = s->head.method.len,
                                                                .host = r->host.text,
                                                                .port = r->port,
                                                                .server_name = server_name,
                                                                .target = buf_chars(&s->target),
                                                                .target_len = buf_len(&s->target),
                                                                .fields = fields,
                                                                .field_count = count},
                                      &refused, on_answer, s);
    free(fields);
    free(server_name);
    if (q->question != NULL)
        return true;
    if (refused != NULL)
        refuse(s, ERR_UNASKABLE, 0, refused);
    else
        refuse_unavailable(s, "it is not there");
    return false;
}

/* --- the body ------------------------------------------------------------------------------ */

static bool has_all(const struct http_session *s)
{
    const struct inquiry *q = s->inquiry;
    if (body_is_done(&s->body))
        return true;
    /* A declared length tells that there is more; otherwise only more does. */
    return buf_len(&q->rest) != 0 ||
           (s->body.framing == BODY_LENGTH && buf_len(&q->body->bytes) == q->max);
}

/* n decoded bytes. */
static void keep(struct inquiry *q, const uint8_t *p, size_t n)
{
    size_t shown = buf_room(&q->body->bytes) < n ? buf_room(&q->body->bytes) : n;
    buf_append(&q->body->bytes, p, shown);
    buf_append(&q->rest, p + shown, n - shown);
}

/* Takes what is at hand of the body. False: the session is gone. */
static bool pump(struct http_session *s)
{
    struct inquiry *q = s->inquiry;
    while (!has_all(s) && buf_len(&s->in) != 0) {
        size_t n = buf_len(&s->in) < RELAY_CHUNK ? buf_len(&s->in) : RELAY_CHUNK, used, out;
        if (body_decode(&s->body, buf_data(&s->in), n, &used, &out) == BODY_BAD) {
            session_refuse_malformed(s, ERR_BAD_REQUEST, "its body is not framed as it says");
            return true;
        }
        keep(q, buf_data(&s->in), out);
        buf_consume(&s->in, used);
        if (q->hidden && out != 0) {
            refuse(s, ERR_HIDDEN_BODY, 0, NULL);
            return true;
        }
    }
    if (has_all(s)) {
        q->reading = false;
        session_timer_stop(s);
        decider_give_body(q->question, q->body, !body_is_done(&s->body) || buf_len(&q->rest) != 0);
    } else if (s->client_ended) {
        session_abort(s, ERR_CLIENT_GONE, true);
        return false;
    }
    return true;
}

int inquiry_wanted(const struct http_session *s)
{
    const struct inquiry *q = s->inquiry;
    if (s->client_ended)
        return 0;
    if (q->reading)
        return STREAM_READ;
    /* Nothing is needed, but a client that goes away should be noticed. */
    return buf_len(&s->in) < budget_read_size(&s->worker->budget, READ_SIZE) ? STREAM_READ : 0;
}

bool inquiry_readable(struct http_session *s)
{
    size_t most = budget_read_size(&s->worker->budget, READ_SIZE);
    ssize_t n = stream_read(s->client->stream, s->worker->scratch, most);
    if (n < 0 && stream_would_block(n, errno))
        return true;
    if (n < 0) {
        session_abort(s, ERR_CLIENT_GONE, true);
        return false;
    }
    if (n == 0)
        s->client_ended = true;
    else
        buf_append(&s->in, s->worker->scratch, (size_t)n);
    if (!s->inquiry->reading)
        return true;
    if (!pump(s))
        return false;
    if (s->state != HTTP_ASKING)
        inquiry_free(s);
    return true;
}

bool inquiry_timeout(struct http_session *s)
{
    inquiry_free(s);
    if (s->inside != NULL) {
        session_abort(s, ERR_BODY_TIMEOUT, true);
        return false;
    }
    session_refuse(s, ERR_BODY_TIMEOUT, &(struct refusal){.close = true});
    return true;
}
