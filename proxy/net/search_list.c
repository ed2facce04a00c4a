#include "proxy/net/search_list.h"

#include <stdio.h>
#include <string.h>

static bool as_is(struct search_walk *w, char candidate[HOST_MAX + 1])
{
    w->tried_as_is = true;
    w->on_domains = false;
    snprintf(candidate, HOST_MAX + 1, "%s", w->name);
    return true;
}

/* The next usable domain of the list; names that become too long are passed over. */
static bool with_domain(struct search_walk *w, char candidate[HOST_MAX + 1])
{
    while (w->next_domain < w->conf->domain_count) {
        const char *domain = w->conf->domains[w->next_domain++];
        if (domain[0] == '\0') {
            if (w->tried_as_is)
                continue;
            as_is(w, candidate);
            w->on_domains = true;
            return true;
        }
        int n = snprintf(candidate, HOST_MAX + 1, "%s.%s", w->name, domain);
        if (n < 0 || n > HOST_MAX)
            continue;
        w->on_domains = true;
        return true;
    }
    return false;
}

static bool last_as_is(struct search_walk *w, char candidate[HOST_MAX + 1])
{
    w->over = true;
    if (w->tried_as_is)
        return false;
    if (w->single_label && w->conf->no_tld_query && w->conf->domain_count > 0)
        return false;
    return as_is(w, candidate);
}

void search_start(struct search_walk *w, const struct resolv_conf *conf, const char *name,
                  char candidate[HOST_MAX + 1])
{
    size_t dots = 0;

    for (const char *p = name; *p != '\0'; p++)
        dots += *p == '.';
    *w = (struct search_walk){.conf = conf, .name = name, .single_label = dots == 0};
    if (dots >= conf->ndots || !with_domain(w, candidate))
        as_is(w, candidate);
}

bool search_next(struct search_walk *w, enum dns_status previous, char candidate[HOST_MAX + 1])
{
    if (w->over || previous == DNS_ADDRESSES || previous == DNS_EMPTY)
        return false;
    /* A failure of the name as it is does not end the walk; one on the search list, other than a
     * server's own, ends the list. */
    if (w->on_domains && (previous == DNS_TIMEOUT || previous == DNS_FAILED))
        return last_as_is(w, candidate);
    return with_domain(w, candidate) || last_as_is(w, candidate);
}
