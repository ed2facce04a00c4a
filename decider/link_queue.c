#include "decider/link_queue.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "decider/frame.h"
#include "decider/message.h"

enum {
    OUTPUT_MAX = 65536,                       /* given out at a time */
    PIECE = OUTPUT_MAX / 4 * 3,               /* of a body, encoded at a time */
    SMALL_BODY = 12288,                       /* is encoded at once, into the bytes around it */
    SEGMENT_MAX = OUTPUT_MAX + 2 * FRAME_MAX, /* one more frame fits behind a full output */
    KEPT_MAX = OUTPUT_MAX                     /* memory of an empty queue */
};

struct link_segment {
    struct link_segment *next;
    struct buf bytes;          /* to be written first */
    struct decider_body *body; /* what follows them, from `at` on, or NULL */
    size_t at;
};

static struct link_segment *append(struct link_queue *q)
{
    struct link_segment *s = mem_alloc(sizeof *s);
    buf_init(&s->bytes, SEGMENT_MAX);
    if (q->last != NULL)
        q->last->next = s;
    else
        q->first = s;
    q->last = s;
    return s;
}

static void drop_first(struct link_queue *q)
{
    struct link_segment *s = q->first;
    q->first = s->next;
    if (q->first == NULL)
        q->last = NULL;
    buf_wipe(&s->bytes);
    decider_body_unref(s->body);
    free(s);
}

void link_queue_free(struct link_queue *q)
{
    while (q->first != NULL)
        drop_first(q);
    *q = (struct link_queue){0};
}

struct buf *link_queue_begin(struct link_queue *q)
{
    struct link_segment *s = q->last;
    if (s == NULL || s->body != NULL || buf_len(&s->bytes) >= OUTPUT_MAX)
        s = append(q);
    q->begun = buf_len(&s->bytes);
    return &s->bytes;
}

void link_queue_commit(struct link_queue *q)
{
    q->size += buf_len(&q->last->bytes) - q->begun;
}

/* n bytes of a body, to the end of a buffer that has room for their base64. */
static void encode(struct buf *out, const uint8_t *p, size_t n)
{
    uint8_t *to = buf_reserve(out, body_base64_size(n));
    assert(to != NULL);
    buf_commit(out, body_base64(to, p, n));
}

void link_queue_body(struct link_queue *q, struct decider_body *body)
{
    size_t n = buf_len(&body->bytes);
    if (n == 0)
        return;
    if (n <= SMALL_BODY) {
        encode(link_queue_begin(q), buf_data(&body->bytes), n);
        link_queue_commit(q);
        return;
    }
    append(q)->body = decider_body_ref(body);
    q->size += body_base64_size(n);
}

static void encode_piece(struct link_segment *s)
{
    size_t left = buf_len(&s->body->bytes) - s->at;
    size_t n = left < PIECE ? left : PIECE;
    encode(&s->bytes, buf_data(&s->body->bytes) + s->at, n);
    s->at += n;
    if (n == left) {
        decider_body_unref(s->body);
        s->body = NULL;
    }
}

const uint8_t *link_queue_output(struct link_queue *q, size_t *n)
{
    *n = 0;
    if (q->size == 0)
        return NULL;
    while (buf_len(&q->first->bytes) == 0 && q->first->body == NULL)
        drop_first(q);
    struct link_segment *s = q->first;
    if (buf_len(&s->bytes) == 0)
        encode_piece(s);
    size_t len = buf_len(&s->bytes);
    *n = len < OUTPUT_MAX ? len : OUTPUT_MAX;
    return buf_data(&s->bytes);
}

void link_queue_written(struct link_queue *q, size_t n)
{
    if (n == 0)
        return;
    struct link_segment *s = q->first;
    assert(s != NULL && n <= buf_len(&s->bytes));
    buf_consume(&s->bytes, n);
    q->size -= n;
    if (buf_len(&s->bytes) == 0 && s->body == NULL && (s->next != NULL || s->bytes.cap > KEPT_MAX))
        drop_first(q);
}
