#include "proxy/egress/answers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { BUCKETS = ANSWERS_MAX };

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

/* Line ends separate, and are in no part of it but the user's name, which is last. The caller frees
 * it. */
static char *key_text(const struct answer_key *key)
{
    static const char format[] = "%s\n%s\n%u\n%s%s";
    const char *mark = key->user != NULL ? "u" : "", *user = key->user != NULL ? key->user : "";
    int n = snprintf(NULL, 0, format, key->client, key->host, (unsigned)key->port, mark, user);
    char *text = mem_alloc((size_t)n + 1);
    snprintf(text, (size_t)n + 1, format, key->client, key->host, (unsigned)key->port, mark, user);
    return text;
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
    char *text = key_text(key);
    struct kept *old = find(a, text);
    if (old != NULL)
        kept_remove(a, old);
    if (a->count == ANSWERS_MAX)
        kept_remove(a, a->oldest);

    struct kept *k = mem_alloc(sizeof *k);
    k->key = text;
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
}

const struct kept_answer *answers_find(struct answers *a, const struct answer_key *key, double now)
{
    if (a->count == 0)
        return NULL;
    char *text = key_text(key);
    struct kept *k = find(a, text);
    free(text);
    if (k == NULL)
        return NULL;
    if (k->until > now)
        return &k->answer;
    kept_remove(a, k);
    return NULL;
}
