#include "launcher/violation_advice.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "proxy/policy/host.h"
#include "proxy/policy/pattern.h"
#include "proxy/policy/policy.h"

static void add(struct paths *list, const char *entry)
{
    if (list->count < ADVICE_MAX && !paths_has(list, entry))
        paths_add(list, mem_dup(entry));
}

static bool equals(struct span s, const char *text)
{
    return s.at != NULL && s.len == strlen(text) && memcmp(s.at, text, s.len) == 0;
}

void violation_advice_network(struct violation_advice *a, const struct violation_record *r)
{
    struct host host;
    struct buf entry;

    if (!r->outbound || r->host.at == NULL || !equals(r->reason, POLICY_NOT_LISTED) ||
        host_canonicalise(r->host.at, r->host.len, &host) != HOST_OK)
        return;
    bool colons = strchr(host.text, ':') != NULL;
    buf_init(&entry, HOST_MAX + 16);
    buf_printf(&entry, "%s%s%s:%u", colons ? "[" : "", host.text, colons ? "]" : "",
               (unsigned)r->port);
    if (pattern_valid(PATTERN_ALLOWED, buf_chars(&entry), buf_len(&entry)))
        add(&a->domains, buf_cstr(&entry));
    buf_free(&entry);
}

/* Calls that change a file that is there, not the directory it is named in. */
static bool changes_file(const char *syscall)
{
    static const char *const names[] = {"open", "creat", "truncate", "ch", "lch", "fch", "utime"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(syscall, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* Cleaning would change it: an entry that is not what it seems is worse than none. */
static bool shows_as_it_is(const char *path)
{
    size_t n = strlen(path);
    struct buf clean;

    if (!text_utf8_valid(path, n))
        return false;
    buf_init(&clean, 3 * n + 16);
    text_clean(&clean, path, n);
    bool same = strcmp(buf_cstr(&clean), path) == 0;
    buf_free(&clean);
    return same;
}

void violation_advice_write(struct violation_advice *a, const char *syscall, const char *path)
{
    if (!shows_as_it_is(path))
        return;
    if (changes_file(syscall)) {
        add(&a->writes, path);
    } else {
        char *parent = path_parent(path);
        add(&a->writes, parent);
        free(parent);
    }
}

/* An entry has to exist to be allowed: the path, or the nearest directory above it. */
static char *nearest(const char *path)
{
    struct stat st;
    char *at = mem_dup(path);

    while (path_depth(at) != 0 && path_lstat(at, &st) != 0) {
        char *parent = path_parent(at);
        free(at);
        at = parent;
    }
    return at;
}

static void put_write(struct buf *out, const char *path)
{
    bool literal = strpbrk(path, "*?[]") != NULL;

    buf_puts(out, literal ? "{\"path\": " : "");
    text_json(out, path, strlen(path));
    buf_puts(out, literal ? ", \"literal\": true}" : "");
}

static void print_domains(const struct paths *domains, struct buf *out)
{
    buf_puts(out, "To allow these destinations, in \"network\" of the settings:\n"
                  "\"allowedDomains\": [");
    for (size_t i = 0; i < domains->count; i++) {
        buf_puts(out, i != 0 ? ", " : "");
        text_json(out, domains->list[i], strlen(domains->list[i]));
    }
    buf_puts(out, "]\n");
}

static void print_writes(const struct paths *writes, struct buf *out)
{
    struct paths entries = {0};

    for (size_t i = 0; i < writes->count; i++) {
        char *entry = nearest(writes->list[i]);
        /* All of the disk is nothing to be recommended. */
        if (path_depth(entry) != 0)
            add(&entries, entry);
        free(entry);
    }
    if (entries.count != 0) {
        buf_puts(out, "To allow these writes, in \"filesystem\" of the settings:\n"
                      "\"allowWrite\": [");
        for (size_t i = 0; i < entries.count; i++) {
            buf_puts(out, i != 0 ? ", " : "");
            put_write(out, entries.list[i]);
        }
        buf_puts(out, "]\n");
    }
    paths_free(&entries);
}

void violation_advice_print(const struct violation_advice *a, struct buf *out)
{
    if (a->domains.count != 0)
        print_domains(&a->domains, out);
    print_writes(&a->writes, out);
}

void violation_advice_free(struct violation_advice *a)
{
    paths_free(&a->domains);
    paths_free(&a->writes);
}
