#include "proxy/tls/sessions.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"

struct entry {
    char *name;
    uint32_t hash; /* of the name: most comparisons end here */
    uint64_t used; /* the count of uses when it was used last */
    SSL_SESSION *session;
};

struct tls_sessions {
    struct entry entries[TLS_SESSIONS_MAX];
    size_t count;
    uint64_t uses;
};

struct tls_sessions *tls_sessions_new(void)
{
    return mem_alloc(sizeof(struct tls_sessions));
}

/* FNV-1a. A server that found names of one hash would win comparisons of strings, no more. */
static uint32_t hash_name(const char *name)
{
    uint32_t hash = 2166136261U;

    for (; *name != 0; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619U;
    return hash;
}

static struct entry *find(struct tls_sessions *s, const char *name)
{
    uint32_t hash = hash_name(name);

    for (size_t i = 0; i < s->count; i++)
        if (s->entries[i].hash == hash && strcmp(s->entries[i].name, name) == 0)
            return &s->entries[i];
    return NULL;
}

static void clear(struct entry *e)
{
    SSL_SESSION_free(e->session);
    free(e->name);
    *e = (struct entry){0};
}

static struct entry *make_room(struct tls_sessions *s)
{
    struct entry *oldest = &s->entries[0];

    if (s->count < TLS_SESSIONS_MAX)
        return &s->entries[s->count++];
    for (size_t i = 1; i < s->count; i++)
        if (s->entries[i].used < oldest->used)
            oldest = &s->entries[i];
    clear(oldest);
    return oldest;
}

void tls_sessions_put(struct tls_sessions *s, const char *name, SSL_SESSION *session)
{
    struct entry *e = find(s, name);

    if (e != NULL) {
        SSL_SESSION_free(e->session);
    } else {
        e = make_room(s);
        e->name = mem_dup(name);
        e->hash = hash_name(name);
    }
    e->session = session;
    e->used = ++s->uses;
}

static void drop(struct tls_sessions *s, struct entry *e)
{
    struct entry *last = &s->entries[s->count - 1];

    clear(e);
    if (e != last)
        *e = *last;
    *last = (struct entry){0};
    s->count--;
}

SSL_SESSION *tls_sessions_get(struct tls_sessions *s, const char *name)
{
    struct entry *e = find(s, name);

    if (e == NULL)
        return NULL;
    if (!SSL_SESSION_is_resumable(e->session) ||
        time(NULL) - SSL_SESSION_get_time(e->session) >= SSL_SESSION_get_timeout(e->session)) {
        drop(s, e);
        return NULL;
    }
    e->used = ++s->uses;
    return e->session;
}

void tls_sessions_drop(struct tls_sessions *s, const char *name)
{
    struct entry *e = find(s, name);

    if (e != NULL)
        drop(s, e);
}

size_t tls_sessions_count(const struct tls_sessions *s)
{
    return s->count;
}

void tls_sessions_free(struct tls_sessions *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->count; i++)
        clear(&s->entries[i]);
    free(s);
}
