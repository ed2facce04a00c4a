#include "proxy/net/hosts_file.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "proxy/net/system_file.h"
#include "proxy/policy/host.h"

/* What is read of a file: block lists of a million lines fit. */
enum { HOSTS_FILE_MAX = 64 * 1024 * 1024 };

struct entry {
    uint32_t hash;
    uint32_t name; /* offset in names */
    uint32_t length;
    uint32_t address; /* index in addresses */
};

struct hosts_table {
    char *names; /* lower case, one after the other */
    size_t names_len;
    struct address *addresses;
    size_t address_count, address_cap;
    struct entry *entries; /* by hash, then in file order */
    size_t entry_count, entry_cap;
};

struct hosts_file {
    struct system_file file;
    struct hosts_table *table;
};

static uint32_t hash_name(const char *s, size_t n)
{
    uint32_t h = 2166136261u; /* FNV-1a */

    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* The next word of a line; false at its end. */
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

static void add_address(struct hosts_table *t, const struct address *a)
{
    if (t->address_count == t->address_cap) {
        t->address_cap = t->address_cap == 0 ? 16 : t->address_cap * 2;
        t->addresses = mem_resize(t->addresses, t->address_cap, sizeof(*t->addresses));
    }
    t->addresses[t->address_count++] = *a;
}

/* names has room: it is as long as the text. The address is the one added last. */
static void add_name(struct hosts_table *t, const char *name, size_t n)
{
    char *copy = t->names + t->names_len;

    if (name[n - 1] == '.')
        n--;
    if (n == 0 || n > HOST_MAX)
        return;
    for (size_t i = 0; i < n; i++)
        copy[i] = (char)text_lower((unsigned char)name[i]);
    if (t->entry_count == t->entry_cap) {
        t->entry_cap = t->entry_cap == 0 ? 16 : t->entry_cap * 2;
        t->entries = mem_resize(t->entries, t->entry_cap, sizeof(*t->entries));
    }
    t->entries[t->entry_count++] = (struct entry){.hash = hash_name(copy, n),
                                                  .name = (uint32_t)t->names_len,
                                                  .length = (uint32_t)n,
                                                  .address = (uint32_t)(t->address_count - 1)};
    t->names_len += n;
}

static void add_line(struct hosts_table *t, const char *line, size_t n)
{
    const char *comment = memchr(line, '#', n);
    const char *end = comment == NULL ? line + n : comment;
    const char *word;
    size_t length;
    struct address address;

    if (!next_word(&line, end, &word, &length) || !address_parse(word, length, true, &address))
        return;
    add_address(t, &address);
    while (next_word(&line, end, &word, &length))
        add_name(t, word, length);
}

static int by_hash(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return 0;
}

struct hosts_table *hosts_table_new(const char *text, size_t n)
{
    struct hosts_table *t = mem_alloc(sizeof(*t));

    if (n > HOSTS_FILE_MAX)
        n = HOSTS_FILE_MAX;
    if (n == 0)
        return t;
    t->names = mem_alloc(n);
    for (size_t at = 0; at < n;) {
        const char *newline = memchr(text + at, '\n', n - at);
        size_t length = newline == NULL ? n - at : (size_t)(newline - (text + at));
        add_line(t, text + at, length);
        at += length + 1;
    }
    if (t->entry_count > 0)
        qsort(t->entries, t->entry_count, sizeof(*t->entries), by_hash);
    return t;
}

void hosts_table_free(struct hosts_table *t)
{
    if (t == NULL)
        return;
    free(t->names);
    free(t->addresses);
    free(t->entries);
    free(t);
}

size_t hosts_table_find(const struct hosts_table *t, const char *name, size_t n,
                        struct address *out, size_t max)
{
    uint32_t hash = hash_name(name, n);
    size_t low = 0, high = t->entry_count, count = 0;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->entries[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < t->entry_count && t->entries[low].hash == hash && count < max; low++) {
        const struct entry *e = &t->entries[low];
        if (e->length == n && memcmp(t->names + e->name, name, n) == 0)
            out[count++] = t->addresses[e->address];
    }
    return count;
}

struct hosts_file *hosts_file_new(const char *path)
{
    struct hosts_file *h = mem_alloc(sizeof(*h));

    system_file_init(&h->file, path);
    return h;
}

void hosts_file_free(struct hosts_file *h)
{
    if (h == NULL)
        return;
    system_file_free(&h->file);
    hosts_table_free(h->table);
    free(h);
}

size_t hosts_file_find(struct hosts_file *h, const char *name, size_t n, struct address *out,
                       size_t max)
{
    if (system_file_changed(&h->file)) {
        struct buf text;
        buf_init(&text, HOSTS_FILE_MAX);
        system_file_read(&h->file, &text);
        hosts_table_free(h->table);
        h->table = hosts_table_new(buf_cstr(&text), buf_len(&text));
        buf_free(&text);
    }
    return hosts_table_find(h->table, name, n, out, max);
}
