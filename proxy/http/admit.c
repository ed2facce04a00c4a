/* A request from its head to its exchange: authorisation, rules, and whatever of that a decider has
 * to answer. Chapter 20 sections 6, 9 to 11. */
#include <stdlib.h>
#include <string.h>

#include "decider/decider.h"
#include "proxy/http/session_internal.h"
#include "proxy/http/target.h"

/* It may go where it wants: now what it says is judged. */
static void authorised(struct http_session *s, const uint8_t *p, const struct authority *a)
{
    if (!judge_request(s, p, a))
        return;
    if (!judge_by_decider(s)) {
        forward_begin(s, p, a, NULL, NULL, NULL);
        return;
    }
    if (s->inquiry == NULL)
        inquiry_keep(s, p, a);
    if (inquiry_ask(s))
        s->state = HTTP_ASKING;
}

void admit_resume(struct http_session *s)
{
    if (s->state != HTTP_ASKING)
        inquiry_free(s);
    if (s->state == HTTP_EXCHANGE && !forward_open(s))
        return;
    session_advance(s);
}

bool admit_still_there(struct http_session *s)
{
    /* Its end was read, and the body that it declared cannot come any more. */
    bool cut = s->client_ended && s->body.framing == BODY_LENGTH && s->body.left > buf_len(&s->in);
    /* While bytes are awaited its end shows by itself. */
    bool watched = (s->client->stream->wanted & STREAM_READ) != 0;
    if (!cut && (watched || !stream_is_dead(s->client->stream)))
        return true;
    session_abort(s, ERR_CLIENT_GONE, true);
    return false;
}

static void on_authorisation(void *ctx, enum err err)
{
    struct http_session *s = ctx;
    struct authority a;
    if (!admit_still_there(s))
        return;
    const uint8_t *p = inquiry_head(s, &a);
    if (err == ERR_NONE)
        authorised(s, p, &a);
    else if (err == ERR_POLICY)
        session_refuse_policy(s);
    else
        session_refuse(s, err, &(struct refusal){0});
    admit_resume(s);
}

void admit_begin(struct http_session *s, const uint8_t *p)
{
    struct request *r = &s->request;
    struct authority a;

    record_set_method(&r->record, (const char *)p + s->head.method.at, s->head.method.len);
    buf_clear(&s->target);
    if (!judge_target(s, p, &a))
        return;
    struct buf spelled;
    buf_init(&spelled, s->head.target.len + ADDRESS_TEXT_MAX);
    authority_spelling(&spelled, &a, false);
    switch (request_authorise(r, s->worker, &s->approved, buf_chars(&spelled), buf_len(&spelled),
                              a.port, on_authorisation, s)) {
    case AUTHORISATION_GIVEN:
        authorised(s, p, &a);
        break;
    case AUTHORISATION_DENIED:
        session_refuse_policy(s);
        break;
    case AUTHORISATION_AWAITED:
        inquiry_keep(s, p, &a);
        s->state = HTTP_ASKING;
        break;
    case AUTHORISATION_UNKNOWN:
        session_refuse(s, ERR_DECIDER, &(struct refusal){0});
        break;
    }
    buf_free(&spelled);
    if (s->state != HTTP_ASKING)
        inquiry_free(s);
}
