#include "decider/reference/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "decider/frame.h"
#include "decider/message.h"
#include "decider/peer_message.h"

/* Beside its data, what a body frame has. */
enum { BODY_FRAME_ROOM = 200 };

/* A request whose body is awaited. */
struct waiting {
    int64_t id;
    struct decider_rules *rules; /* by which it was looked at */
    struct rule_result result;
    char *method, *host, *path;
    uint16_t port;
};

struct session {
    struct decider_rules *const *rules;
    struct line_log *log;
    bool greeted;
    unsigned asks;     /* bits of the hello that was sent */
    int64_t newest;    /* id of the last question */
    int64_t forgotten; /* the largest id that was dropped while its body was awaited */
    uint32_t body_max; /* most bytes of a body that were asked for */

    struct waiting *waiting; /* in order of their ids */
    size_t waiting_count;
};

struct session *session_new(struct decider_rules *const *rules, struct line_log *log)
{
    struct session *s = mem_alloc(sizeof *s);
    s->rules = rules;
    s->log = log;
    return s;
}

static void free_waiting(struct waiting *w)
{
    decider_rules_unref(w->rules);
    rule_result_free(&w->result);
    free(w->method);
    free(w->host);
    free(w->path);
}

void session_free(struct session *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->waiting_count; i++)
        free_waiting(&s->waiting[i]);
    free(s->waiting);
    free(s);
}

static void drop_waiting(struct session *s, size_t index)
{
    free_waiting(&s->waiting[index]);
    s->waiting_count--;
    memmove(s->waiting + index, s->waiting + index + 1,
            (s->waiting_count - index) * sizeof *s->waiting);
}

static char *copy_cut(const char *s, size_t max)
{
    return mem_dup_n(s, text_cut(s, strlen(s), max));
}

/* Takes the result over. */
static void add_waiting(struct session *s, const struct peer_message *m, struct rule_result *result)
{
    /* A client that went away leaves its request here: the proxy does not tell. */
    if (s->waiting_count == SESSION_WAITING_MAX) {
        s->forgotten = s->waiting[0].id;
        drop_waiting(s, 0);
    }
    if (s->waiting == NULL)
        s->waiting = mem_array(SESSION_WAITING_MAX, sizeof *s->waiting);
    s->waiting[s->waiting_count++] = (struct waiting){
        .id = m->id,
        .rules = decider_rules_ref(*s->rules),
        .result = *result,
        .method = copy_cut(m->method, LOGGED_METHOD_MAX),
        .host = mem_dup(m->host),
        .path = copy_cut(m->path, LOGGED_PATH_MAX),
        .port = m->port,
    };
    *result = (struct rule_result){0};
}

/* Its index, or waiting_count. */
static size_t find_waiting(const struct session *s, int64_t id)
{
    size_t low = 0, high = s->waiting_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->waiting[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->waiting_count && s->waiting[low].id == id ? low : s->waiting_count;
}

static const char *greet(struct session *s, const struct peer_message *m, struct buf *out)
{
    const struct decider_rules *rules = *s->rules;
    if (s->greeted)
        return "a second hello";
    s->greeted = true;
    s->asks = m->proto == 1 ? DECIDER_REQUESTS : rules->asks;
    peer_hello_write(out, m->proto, s->asks, rules->allowed, rules->allowed_count, rules->denied,
                     rules->denied_count);
    return NULL;
}

static const char *answer_question(struct session *s, const struct peer_message *m, double now,
                                   struct buf *out)
{
    struct rule_result result;
    bool connection = m->kind == PEER_CONNECTION;
    if ((s->asks & (connection ? DECIDER_CONNECTIONS : DECIDER_REQUESTS)) == 0)
        return "a question that the hello did not ask for";
    if (m->id <= s->newest)
        return "an id that is not above the last one";
    s->newest = m->id;
    decider_rules_decide(*s->rules, m, &result);
    if (result.body_max != 0) {
        const struct decider_verdict need = {.action = DECIDER_NEED_BODY, .max = result.body_max};
        peer_verdict_write(out, m->id, &need);
        if (result.body_max > s->body_max)
            s->body_max = result.body_max;
        add_waiting(s, m, &result);
        return NULL;
    }
    const struct logged_question logged = {.id = m->id,
                                           .connection = connection,
                                           .how = connection ? m->via : m->method,
                                           .host = m->host,
                                           .port = m->port,
                                           .path = connection ? NULL : m->path};
    decision_log(s->log, now, &logged, &result.decision);
    peer_verdict_write(out, m->id, result.decision.verdict);
    return NULL;
}

static const struct decider_verdict too_late = {
    .action = DECIDER_DENY,
    .status = 503,
    .reason = "too many requests came before the body of this one"};

static const char *judge_body(struct session *s, const struct waiting *w,
                              const struct peer_message *m, double now, struct buf *out)
{
    struct buf body;
    const char *why = NULL;
    buf_init(&body, w->result.body_max);
    if (text_base64_decode(&body, m->data, strlen(m->data))) {
        const struct rule_decision decision = decider_rules_decide_body(
            w->rules, &w->result, buf_data(&body), buf_len(&body), m->cut);
        const struct logged_question logged = {
            .id = w->id, .how = w->method, .host = w->host, .port = w->port, .path = w->path};
        decision_log(s->log, now, &logged, &decision);
        peer_verdict_write(out, w->id, decision.verdict);
    } else {
        why = "more of a body than was asked for";
    }
    buf_wipe(&body);
    return why;
}

static const char *take_body(struct session *s, const struct peer_message *m, double now,
                             struct buf *out)
{
    size_t index = find_waiting(s, m->id);
    if (index == s->waiting_count && m->id <= s->forgotten) {
        peer_verdict_write(out, m->id, &too_late);
        return NULL;
    }
    if (index == s->waiting_count)
        return "a body that was not asked for";
    const char *why = judge_body(s, &s->waiting[index], m, now, out);
    drop_waiting(s, index);
    return why;
}

static const char *take_message(struct session *s, const struct peer_message *m, size_t length,
                                double now, struct buf *out)
{
    if (m->kind == PEER_HELLO)
        return greet(s, m, out);
    if (!s->greeted)
        return "no hello first";
    if (m->kind == PEER_BODY)
        return take_body(s, m, now, out);
    return length > FRAME_MAX ? "a frame that is too large" : answer_question(s, m, now, out);
}

static const char *take_frame(struct session *s, const uint8_t *p, size_t n, double now,
                              struct buf *out)
{
    struct peer_message message;
    const char *why;
    if (!peer_message_read(&message, p, n, &why))
        return why;
    why = take_message(s, &message, n, now, out);
    peer_message_free(&message);
    return why;
}

bool session_answer(struct session *s, const uint8_t *p, size_t n, double now, size_t *used,
                    struct buf *out, const char **why)
{
    size_t length;
    *why = NULL;
    for (*used = 0; buf_len(out) < SESSION_OUTPUT_ENOUGH;) {
        size_t body = s->body_max != 0 ? body_base64_size(s->body_max) + BODY_FRAME_ROOM : 0;
        size_t max = body > FRAME_MAX ? body : FRAME_MAX;
        enum frame_result found = frame_next(p + *used, n - *used, max, &length);
        if (found == FRAME_MORE)
            return true;
        *why = found == FRAME_TOO_LARGE ? "a frame that is too large"
                                        : take_frame(s, p + *used + FRAME_HEAD, length, now, out);
        if (*why != NULL)
            return false;
        *used += FRAME_HEAD + length;
    }
    return true;
}
