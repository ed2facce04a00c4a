#include "proxy/net/resolv_conf.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Bounds of resolv.conf(5). */
enum { NDOTS_DEFAULT = 1, NDOTS_MAX = 15, TIMEOUT_MAX_S = 30, ATTEMPTS_MAX = 5 };
enum { DOMAIN_MAX = 253, LABEL_MAX = 63 };

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Digits alone; larger than max is max. */
static bool parse_number(const char *s, size_t n, unsigned max, unsigned *out)
{
    unsigned value = 0;

    if (n == 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        value = value * 10 + (unsigned)(s[i] - '0');
        if (value > max)
            value = max;
    }
    *out = value;
    return true;
}

static bool parse_port(const char *s, size_t n, uint16_t *out)
{
    unsigned port;

    if (n > 5 || !parse_number(s, n, 65536, &port) || port == 0 || port > 65535)
        return false;
    *out = (uint16_t)port;
    return true;
}

bool dns_server_parse(const char *s, size_t n, struct dns_server *out)
{
    const char *end = s + n;

    *out = (struct dns_server){.port = DNS_PORT};
    if (n > 0 && s[0] == '[') {
        const char *close = memchr(s, ']', n);
        if (close == NULL || !address_parse(s + 1, (size_t)(close - s - 1), true, &out->address) ||
            memchr(s, ':', (size_t)(close - s)) == NULL)
            return false;
        if (close + 1 == end)
            return true;
        return close[1] == ':' && parse_port(close + 2, (size_t)(end - close - 2), &out->port);
    }
    if (address_parse(s, n, true, &out->address))
        return true;
    const char *colon = memchr(s, ':', n);
    return colon != NULL && address_parse(s, (size_t)(colon - s), false, &out->address) &&
           parse_port(colon + 1, (size_t)(end - colon - 1), &out->port);
}

static bool next_word(const char **p, const char *end, const char **word, size_t *n)
{
    while (*p < end && is_blank(**p))
        (*p)++;
    *word = *p;
    while (*p < end && !is_blank(**p))
        (*p)++;
    *n = (size_t)(*p - *word);
    return *n > 0;
}

static bool word_is(const char *word, size_t n, const char *literal)
{
    return n == strlen(literal) && memcmp(word, literal, n) == 0;
}

static void add_server(struct resolv_conf *c, const struct dns_server *server)
{
    c->servers = mem_resize(c->servers, c->server_count + 1, sizeof(*c->servers));
    c->servers[c->server_count++] = *server;
}

static void clear_domains(struct resolv_conf *c)
{
    for (size_t i = 0; i < c->domain_count; i++)
        free(c->domains[i]);
    MEM_FREE(c->domains);
    c->domain_count = 0;
}

/* Whether queries can be made of it at all. */
static bool domain_valid(const char *s, size_t n)
{
    size_t label = 0;

    if (n > DOMAIN_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (c == '.') {
            if (label == 0)
                return false;
            label = 0;
            continue;
        }
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-' || c == '_') ||
            ++label > LABEL_MAX)
            return false;
    }
    return n == 0 || label > 0;
}

static void add_domain(struct resolv_conf *c, const char *s, size_t n)
{
    if (n > 0 && s[n - 1] == '.')
        n--;
    if (!domain_valid(s, n) || c->domain_count == RESOLV_DOMAINS_MAX)
        return;
    c->domains = mem_resize(c->domains, c->domain_count + 1, sizeof(*c->domains));
    c->domains[c->domain_count++] = mem_dup_n(s, n);
}

static void read_nameserver(struct resolv_conf *c, const char *p, const char *end)
{
    struct dns_server server;
    const char *word;
    size_t n;

    if (c->server_count == RESOLV_SERVERS_MAX || !next_word(&p, end, &word, &n))
        return;
    for (size_t i = 0; i < n; i++) {
        if (word[i] == ';' || word[i] == '#')
            n = i;
    }
    if (dns_server_parse(word, n, &server))
        add_server(c, &server);
}

/* The last search or domain line wins; an empty one changes nothing. */
static void read_search(struct resolv_conf *c, const char *p, const char *end, size_t max)
{
    const char *word;
    size_t n;
    bool first = true;

    for (; max > 0 && next_word(&p, end, &word, &n); max--) {
        if (first)
            clear_domains(c);
        first = false;
        add_domain(c, word, n);
    }
}

static void read_option(struct resolv_conf *c, const char *word, size_t n)
{
    static const char ndots[] = "ndots:", timeout[] = "timeout:", attempts[] = "attempts:";
    const size_t ndots_n = sizeof(ndots) - 1, timeout_n = sizeof(timeout) - 1,
                 attempts_n = sizeof(attempts) - 1;

    if (n > ndots_n && memcmp(word, ndots, ndots_n) == 0) {
        parse_number(word + ndots_n, n - ndots_n, NDOTS_MAX, &c->ndots);
    } else if (n > timeout_n && memcmp(word, timeout, timeout_n) == 0) {
        if (parse_number(word + timeout_n, n - timeout_n, TIMEOUT_MAX_S, &c->timeout_s) &&
            c->timeout_s == 0)
            c->timeout_s = 1;
    } else if (n > attempts_n && memcmp(word, attempts, attempts_n) == 0) {
        if (parse_number(word + attempts_n, n - attempts_n, ATTEMPTS_MAX, &c->attempts) &&
            c->attempts == 0)
            c->attempts = 1;
    } else if (word_is(word, n, "rotate")) {
        c->rotate = true;
    } else if (word_is(word, n, "use-vc")) {
        c->use_tcp = true;
    } else if (word_is(word, n, "no-tld-query")) {
        c->no_tld_query = true;
    }
}

static void read_options(struct resolv_conf *c, const char *p, const char *end)
{
    const char *word;
    size_t n;

    while (next_word(&p, end, &word, &n))
        read_option(c, word, n);
}

static void read_line(struct resolv_conf *c, const char *line, const char *end)
{
    const char *keyword = line;
    const char *p = line;

    while (p < end && !is_blank(*p))
        p++;
    size_t n = (size_t)(p - keyword);
    if (word_is(keyword, n, "nameserver"))
        read_nameserver(c, p, end);
    else if (word_is(keyword, n, "search"))
        read_search(c, p, end, RESOLV_DOMAINS_MAX);
    else if (word_is(keyword, n, "domain"))
        read_search(c, p, end, 1);
    else if (word_is(keyword, n, "options"))
        read_options(c, p, end);
}

static struct resolv_conf *new_conf(void)
{
    struct resolv_conf *c = mem_alloc(sizeof(*c));

    c->users = 1;
    c->ndots = NDOTS_DEFAULT;
    return c;
}

static void apply_environment(struct resolv_conf *c, const struct resolv_environment *e)
{
    const char *dot = e->host_name == NULL ? NULL : strchr(e->host_name, '.');

    if (c->domain_count == 0 && dot != NULL && dot[1] != '\0')
        add_domain(c, dot + 1, strlen(dot + 1));
    if (e->local_domain != NULL) {
        clear_domains(c);
        read_search(c, e->local_domain, e->local_domain + strlen(e->local_domain),
                    RESOLV_DOMAINS_MAX);
    }
    if (e->options != NULL)
        read_options(c, e->options, e->options + strlen(e->options));
}

struct resolv_conf *resolv_conf_parse(const char *text, size_t n,
                                      const struct resolv_environment *environment)
{
    struct resolv_conf *c = new_conf();

    for (size_t at = 0; at < n;) {
        const char *line = text + at;
        const char *newline = memchr(line, '\n', n - at);
        const char *end = newline == NULL ? text + n : newline;
        at += (size_t)(end - line) + 1;
        if (end > line && end[-1] == '\r')
            end--;
        read_line(c, line, end);
    }
    if (environment != NULL)
        apply_environment(c, environment);
    if (c->server_count == 0) {
        struct dns_server local = {.address = {.family = 4, .bytes = {127, 0, 0, 1}},
                                   .port = DNS_PORT};
        add_server(c, &local);
    }
    return c;
}

struct resolv_conf *resolv_conf_from_servers(const struct dns_server *servers, size_t count)
{
    struct resolv_conf *c = new_conf();

    for (size_t i = 0; i < count; i++)
        add_server(c, &servers[i]);
    return c;
}

struct resolv_conf *resolv_conf_hold(struct resolv_conf *c)
{
    c->users++;
    return c;
}

void resolv_conf_release(struct resolv_conf *c)
{
    if (c == NULL || --c->users > 0)
        return;
    clear_domains(c);
    free(c->servers);
    free(c);
}
