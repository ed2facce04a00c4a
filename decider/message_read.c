#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "decider/entry.h"
#include "decider/header_names.h"
#include "decider/message.h"
#include "decider/message_fields.h"
#include "decider/strict_json.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static int compare_entries(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool holds_twice(const char *const *entries, size_t count)
{
    bool twice = false;
    const char **sorted = mem_array(count, sizeof *sorted);
    memcpy(sorted, entries, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_entries);
    for (size_t i = 1; i < count && !twice; i++)
        twice = strcmp(sorted[i - 1], sorted[i]) == 0;
    free(sorted);
    return twice;
}

/* A list of egress entries, none twice. The array in *entries is the caller's to free, in any case.
 */
static bool read_entries(const json_t *list, const char ***entries, size_t *count)
{
    if (!json_is_array(list))
        return false;
    *count = json_array_size(list);
    if (*count == 0)
        return true;
    *entries = mem_array(*count, sizeof **entries);
    for (size_t i = 0; i < *count; i++) {
        const json_t *entry = json_array_get(list, i);
        if (!json_is_string(entry) ||
            !egress_entry_valid(json_string_value(entry), json_string_length(entry)))
            return false;
        (*entries)[i] = json_string_value(entry);
    }
    return !holds_twice(*entries, *count);
}

/* What a decider of protocol 2 wants to be asked: one or both, none twice. */
static bool read_asks(const json_t *list, unsigned *asks)
{
    if (!json_is_array(list) || json_array_size(list) == 0)
        return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        unsigned bit = message_says(item, "connection") ? DECIDER_CONNECTIONS
                       : message_says(item, "request")  ? DECIDER_REQUESTS
                                                        : 0U;
        if (bit == 0 || (*asks & bit) != 0)
            return false;
        *asks |= bit;
    }
    return true;
}

/* NULL, or what is wrong. */
static const char *read_hello(struct hello *h, unsigned proto)
{
    json_t *t, *version, *asks, *allowed, *denied;
    const struct message_field fields[] = {
        {"t", &t},
        {"proto", &version},
        {"allowedDomains", &allowed},
        {"deniedDomains", &denied},
        {"asks", &asks},
    };
    int64_t number = 0;
    if (!message_fields(h->json, fields, COUNT(fields)))
        return "bad hello: a field that hellos do not have";
    if (!message_says(t, "hello"))
        return "bad hello: t";
    if (!strict_json_integer(version, proto, proto, &number))
        return "bad hello: proto";
    h->asks = proto == 1 ? DECIDER_REQUESTS : 0;
    if (proto == 1 ? asks != NULL : !read_asks(asks, &h->asks))
        return "bad hello: asks";
    if (!read_entries(allowed, &h->allowed, &h->allowed_count))
        return "bad hello: allowedDomains";
    if (!read_entries(denied, &h->denied, &h->denied_count))
        return "bad hello: deniedDomains";
    return NULL;
}

bool hello_read(struct hello *h, unsigned proto, const uint8_t *p, size_t n, const char **why)
{
    *h = (struct hello){.json = strict_json_read(p, n, why)};
    if (h->json == NULL)
        return false;
    const char *wrong = read_hello(h, proto);
    if (wrong == NULL)
        return true;
    hello_free(h);
    *why = wrong;
    return false;
}

void hello_free(struct hello *h)
{
    free(h->allowed);
    free(h->denied);
    json_decref(h->json);
    *h = (struct hello){0};
}

/* The fields of all verdicts. */
struct verdict_fields {
    json_t *t, *id, *action;
    json_t *set, *removed, *cred, *credential, *ttl;
    json_t *status, *reason;
    json_t *max;
};

/* One block: the headers, and behind them the values that they point to. */
static bool read_set(struct verdict_message *m, json_t *set)
{
    size_t values = 0;
    if (!message_headers(set, &values))
        return false;
    size_t count = json_object_size(set);
    m->set = mem_alloc(count * sizeof *m->set + values * sizeof(const char *));
    const char **next = (const char **)(void *)(m->set + count);
    struct decider_header *header = m->set;
    for (void *i = json_object_iter(set); i != NULL; i = json_object_iter_next(set, i)) {
        const json_t *list = json_object_iter_value(i);
        header->name = json_object_iter_key(i);
        header->values = next;
        header->value_count = json_array_size(list);
        if (!header_may_be_set(header->name))
            return false;
        for (size_t j = 0; j < header->value_count; j++)
            *next++ = json_string_value(json_array_get(list, j));
        header++;
    }
    m->verdict.set = m->set;
    m->verdict.set_count = count;
    return true;
}

static bool read_removed(struct verdict_message *m, const json_t *list)
{
    size_t bytes = 0;
    size_t count = json_array_size(list); /* 0 of what is no array */
    if (count == 0 || count > REMOVED_NAMES_MAX)
        return false;
    m->removed = mem_array(count, sizeof *m->removed);
    for (size_t i = 0; i < count; i++) {
        const json_t *name = json_array_get(list, i);
        if (!json_is_string(name))
            return false;
        m->removed[i] = json_string_value(name);
        bytes += json_string_length(name);
        if (!header_name_is_lower(m->removed[i], json_string_length(name)) ||
            !header_may_be_removed(m->removed[i]))
            return false;
    }
    m->verdict.removed = m->removed;
    m->verdict.removed_count = count;
    return bytes <= REMOVED_BYTES_MAX && !holds_twice(m->removed, count);
}

/* Placed in a header as it is: printable ASCII without blanks. */
static bool is_credential(const char *s)
{
    for (; *s != 0; s++)
        if (*s < 0x21 || *s > 0x7e)
            return false;
    return true;
}

/* The readers of verdicts: NULL, or what is wrong. The texts name no value, which may be secret. */

static const char *read_credential(struct decider_verdict *v, const struct verdict_fields *f)
{
    if (!message_optional_string(f->cred, SIZE_MAX, &v->credential_class))
        return "bad verdict frame: cred";
    if (!message_optional_string(f->credential, CREDENTIAL_MAX, &v->credential) ||
        (v->credential != NULL && !is_credential(v->credential)))
        return "bad verdict frame: credential";
    if ((v->credential_class == NULL) != (v->credential == NULL))
        return "bad verdict frame: cred and credential come together";
    return NULL;
}

static const char *read_allow(struct verdict_message *m, unsigned proto,
                              const struct verdict_fields *f)
{
    struct decider_verdict *v = &m->verdict;
    int64_t ttl = 0;
    if (f->status != NULL || f->reason != NULL || f->max != NULL)
        return "bad verdict frame: allow with status, reason or max";
    if (f->ttl != NULL && (proto < 2 || !strict_json_integer(f->ttl, 1, TTL_MAX, &ttl)))
        return "bad verdict frame: ttl";
    v->action = DECIDER_ALLOW;
    v->ttl_s = (uint32_t)ttl;
    if (f->set != NULL && !read_set(m, f->set))
        return "bad verdict frame: setHeaders";
    if (f->removed != NULL && !read_removed(m, f->removed))
        return "bad verdict frame: removeHeaders";
    return read_credential(v, f);
}

static bool has_fields_of_allow(const struct verdict_fields *f)
{
    return f->set != NULL || f->removed != NULL || f->cred != NULL || f->credential != NULL ||
           f->ttl != NULL;
}

static const char *read_deny(struct decider_verdict *v, const struct verdict_fields *f)
{
    int64_t status = 0;
    if (has_fields_of_allow(f) || f->max != NULL)
        return "bad verdict frame: deny with fields of another action";
    if (!strict_json_integer(f->status, 400, 599, &status))
        return "bad verdict frame: status";
    if (!message_optional_string(f->reason, REASON_BYTES_MAX, &v->reason) ||
        (v->reason != NULL && !strict_text_valid(v->reason, strlen(v->reason))))
        return "bad verdict frame: reason";
    v->action = DECIDER_DENY;
    v->status = (uint16_t)status;
    return NULL;
}

static const char *read_need_body(struct decider_verdict *v, const struct verdict_fields *f)
{
    int64_t max = 0;
    if (has_fields_of_allow(f) || f->status != NULL || f->reason != NULL)
        return "bad verdict frame: need_body with fields of another action";
    if (!strict_json_integer(f->max, 1, DECIDER_BODY_MAX, &max))
        return "bad verdict frame: max";
    v->action = DECIDER_NEED_BODY;
    v->max = (uint32_t)max;
    return NULL;
}

static const char *read_verdict(struct verdict_message *m, unsigned proto)
{
    struct verdict_fields f;
    const struct message_field fields[] = {
        {"t", &f.t},
        {"id", &f.id},
        {"action", &f.action},
        {"setHeaders", &f.set},
        {"removeHeaders", &f.removed},
        {"cred", &f.cred},
        {"credential", &f.credential},
        {"ttl", &f.ttl},
        {"status", &f.status},
        {"reason", &f.reason},
        {"max", &f.max},
    };
    if (!message_fields(m->json, fields, COUNT(fields)))
        return "bad verdict frame: a field that verdicts do not have";
    if (!message_says(f.t, "verdict"))
        return "bad verdict frame: t";
    if (!strict_json_integer(f.id, 1, MESSAGE_ID_MAX, &m->id))
        return "bad verdict frame: id";
    if (message_says(f.action, "allow"))
        return read_allow(m, proto, &f);
    if (message_says(f.action, "deny"))
        return read_deny(&m->verdict, &f);
    if (message_says(f.action, "need_body"))
        return read_need_body(&m->verdict, &f);
    return "bad verdict frame: action";
}

bool verdict_read(struct verdict_message *m, unsigned proto, const uint8_t *p, size_t n,
                  const char **why)
{
    *m = (struct verdict_message){.json = strict_json_read(p, n, why)};
    if (m->json == NULL)
        return false;
    const char *wrong = read_verdict(m, proto);
    if (wrong == NULL)
        return true;
    verdict_free(m);
    *why = wrong;
    return false;
}

void verdict_free(struct verdict_message *m)
{
    const json_t *credential = json_object_get(m->json, "credential");
    /* Nobody else holds the value, and it is freed next. */
    if (json_is_string(credential))
        explicit_bzero((char *)(uintptr_t)json_string_value(credential),
                       json_string_length(credential));
    free(m->set);
    free(m->removed);
    json_decref(m->json);
    *m = (struct verdict_message){0};
}
