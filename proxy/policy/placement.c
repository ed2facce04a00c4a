#include "proxy/policy/placement.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

struct item {
    char *class, *host, *user; /* NULL: any, any, none */
    enum placement_scheme scheme;
};

struct placements {
    struct item *items;
    size_t count;
};

struct placements *placements_new(void)
{
    return mem_alloc(sizeof(struct placements));
}

void placements_free(struct placements *p)
{
    if (p == NULL)
        return;
    for (size_t i = 0; i < p->count; i++) {
        free(p->items[i].class);
        free(p->items[i].host);
        free(p->items[i].user);
    }
    free(p->items);
    free(p);
}

static char *copy(const char *s)
{
    return s != NULL ? mem_dup(s) : NULL;
}

void placements_add(struct placements *p, const struct placement *placement)
{
    p->items = mem_resize(p->items, p->count + 1, sizeof *p->items);
    p->items[p->count++] = (struct item){
        .class = copy(placement->class),
        .host = copy(placement->host),
        .user = placement->scheme == PLACEMENT_BASIC ? copy(placement->user) : NULL,
        .scheme = placement->scheme,
    };
}

static bool takes(const char *wanted, const char *given)
{
    return wanted == NULL || (given != NULL && strcmp(wanted, given) == 0);
}

/* The user for Basic, or NULL for Bearer. */
static const char *user_for(const struct placements *p, const char *class, const char *host)
{
    if (p == NULL)
        return takes("github", class) && takes("github.com", host) ? "x-access-token" : NULL;
    for (size_t i = 0; i < p->count; i++) {
        const struct item *item = &p->items[i];
        if (!takes(item->class, class) || !takes(item->host, host))
            continue;
        if (item->scheme == PLACEMENT_BEARER)
            return NULL;
        return item->user != NULL ? item->user : "";
    }
    return NULL;
}

static bool append_basic(struct buf *out, const char *user, const char *credential)
{
    static const char scheme[] = "Basic ";
    size_t n = strlen(user) + 1 + strlen(credential);
    struct buf pair;
    if (buf_room(out) < sizeof scheme - 1 + (n + 2) / 3 * 4)
        return false;
    buf_init(&pair, n);
    buf_puts(&pair, user);
    buf_puts(&pair, ":");
    buf_puts(&pair, credential);
    buf_puts(out, scheme);
    text_base64(out, buf_data(&pair), n);
    buf_wipe(&pair);
    return true;
}

bool placements_value(struct buf *out, const struct placements *p, const char *class,
                      const char *credential, const char *host)
{
    static const char scheme[] = "Bearer ";
    const char *user = user_for(p, class, host);
    if (user != NULL)
        return append_basic(out, user, credential);
    if (buf_room(out) < sizeof scheme - 1 + strlen(credential))
        return false;
    buf_puts(out, scheme);
    buf_puts(out, credential);
    return true;
}
