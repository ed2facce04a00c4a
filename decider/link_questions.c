#include "decider/link_questions.h"

#include <stdlib.h>

#include "base/mem.h"

enum { BUCKETS_FIRST = 64 };

/* Ids come one after the other: their low bits spread them evenly. */
static struct link_question **bucket(const struct link_questions *t, int64_t id)
{
    return &t->buckets[(uint64_t)id & (t->size - 1)];
}

static void put(struct link_questions *t, struct link_question *q)
{
    struct link_question **b = bucket(t, q->id);
    q->chained = *b;
    *b = q;
}

static void grow(struct link_questions *t)
{
    struct link_question **old = t->buckets;
    size_t old_size = t->size;

    t->size = old_size != 0 ? old_size * 2 : BUCKETS_FIRST;
    t->buckets = mem_array(t->size, sizeof(struct link_question *));
    for (size_t i = 0; i < old_size; i++) {
        struct link_question *next;
        for (struct link_question *q = old[i]; q != NULL; q = next) {
            next = q->chained;
            put(t, q);
        }
    }
    free(old);
}

static void release(struct link_questions *t)
{
    MEM_FREE(t->buckets);
    t->size = 0;
}

void link_questions_free(struct link_questions *t)
{
    for (size_t i = 0; i < t->size; i++) {
        struct link_question *next;
        for (struct link_question *q = t->buckets[i]; q != NULL; q = next) {
            next = q->chained;
            free(q);
        }
    }
    release(t);
    *t = (struct link_questions){0};
}

struct link_question *link_questions_add(struct link_questions *t, int64_t id)
{
    struct link_question *q = mem_alloc(sizeof *q);

    if (t->count == t->size)
        grow(t);
    q->id = id;
    put(t, q);
    t->count++;
    return q;
}

struct link_question *link_questions_find(const struct link_questions *t, int64_t id)
{
    if (t->size == 0)
        return NULL;
    struct link_question *q = *bucket(t, id);
    while (q != NULL && q->id != id)
        q = q->chained;
    return q;
}

void link_questions_drop(struct link_questions *t, struct link_question *q)
{
    struct link_question **at = bucket(t, q->id);
    while (*at != q)
        at = &(*at)->chained;
    *at = q->chained;
    link_questions_stop(t, q);
    free(q);
    t->count--;
    /* A burst is over: its table goes, the small one of quiet times stays. */
    if (t->count == 0 && t->size > BUCKETS_FIRST)
        release(t);
}

void link_questions_start(struct link_questions *t, struct link_question *q, double deadline)
{
    q->deadline = deadline;
    q->timed = true;
    q->sooner = t->latest;
    q->later = NULL;
    if (t->latest != NULL)
        t->latest->later = q;
    else
        t->soonest = q;
    t->latest = q;
}

void link_questions_stop(struct link_questions *t, struct link_question *q)
{
    if (!q->timed)
        return;
    if (q->sooner != NULL)
        q->sooner->later = q->later;
    else
        t->soonest = q->later;
    if (q->later != NULL)
        q->later->sooner = q->sooner;
    else
        t->latest = q->sooner;
    q->sooner = q->later = NULL;
    q->timed = false;
}

static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t *link_questions_ids(const struct link_questions *t)
{
    if (t->count == 0)
        return NULL;
    int64_t *ids = mem_array(t->count, sizeof *ids);
    size_t n = 0;
    for (size_t i = 0; i < t->size; i++)
        for (const struct link_question *q = t->buckets[i]; q != NULL; q = q->chained)
            ids[n++] = q->id;
    qsort(ids, n, sizeof *ids, compare_ids);
    return ids;
}
