#include "proxy/egress/answers.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

enum { BUCKETS = ANSWERS_MAX, KEY_MAX = 16384 };

struct kept {
    char *key;
    double until;
    struct kept_answer answer;
    struct kept *chain;           /* of its bucket */
    struct kept *older, *younger; /* all of them */
};

struct answers {
    struct kept *buckets[BUCKETS];
    struct kept *oldest, *youngest;
    size_t count;
};

struct answers *answers_new(void)
{
    return mem_alloc(sizeof(struct answers));
}

/* FNV-1a: keys are short, and whoever picks them picks from few. */
static size_t bucket_of(const char *key)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *key != '\0'; key++)
        hash = (hash ^ (uint8_t)*key) * UINT64_C(1099511628211);
    return (size_t)(hash % BUCKETS);
}

/* Line ends separate, and are in no part of it but the user's name, which is last. */
static void put_key(struct buf *out, const struct answer_key *key)
{
    buf_printf(out, "%s\n%s\n%u\n%s", key->client, key->host, (unsigned)key->port,
               key->user != NULL ? key->user : "");
}

static void kept_remove(struct answers *a, struct kept *k)
{
    struct kept **link = &a->buckets[bucket_of(k->key)];
    while (*link != k)
        link = &(*link)->chain;
    *link = k->chain;
    *(k->older != NULL ? &k->older->younger : &a->oldest) = k->younger;
    *(k->younger != NULL ? &k->younger->older : &a->youngest) = k->older;
    a->count--;
    free(k->key);
    free(k->answer.reason);
    free(k);
}

void answers_clear(struct answers *a)
{
    while (a->oldest != NULL)
        kept_remove(a, a->oldest);
}

void answers_free(struct answers *a)
{
    if (a == NULL)
        return;
    answers_clear(a);
    free(a);
}

static struct kept *find(const struct answers *a, const char *key)
{
    struct kept *k = a->buckets[bucket_of(key)];
    while (k != NULL && strcmp(k->key, key) != 0)
        k = k->chain;
    return k;
}

void answers_put(struct answers *a, const struct answer_key *key, const struct kept_answer *answer,
                 double until)
{
    struct buf text;
    buf_init(&text, KEY_MAX);
    put_key(&text, key);
    struct kept *old = find(a, buf_cstr(&text));
    if (old != NULL)
        kept_remove(a, old);
    if (a->count == ANSWERS_MAX)
        kept_remove(a, a->oldest);

    struct kept *k = mem_alloc(sizeof *k);
    k->key = mem_dup(buf_cstr(&text));
    k->until = until;
    k->answer = *answer;
    k->answer.reason = answer->reason != NULL ? mem_dup(answer->reason) : NULL;
    struct kept **bucket = &a->buckets[bucket_of(k->key)];
    k->chain = *bucket;
    *bucket = k;
    k->older = a->youngest;
    *(k->older != NULL ? &k->older->younger : &a->oldest) = k;
    a->youngest = k;
    a->count++;
    buf_free(&text);
}

const struct kept_answer *answers_find(struct answers *a, const struct answer_key *key, double now)
{
    struct buf text;
    if (a->count == 0)
        return NULL;
    buf_init(&text, KEY_MAX);
    put_key(&text, key);
    struct kept *k = find(a, buf_cstr(&text));
    buf_free(&text);
    if (k == NULL)
        return NULL;
    if (k->until > now)
        return &k->answer;
    kept_remove(a, k);
    return NULL;
}
