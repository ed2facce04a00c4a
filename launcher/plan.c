#include "launcher/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "launcher/environment.h"
#include "seccomp/filters.h"

static const char *const kinds[] = {
    [MOUNT_READ_ONLY] = "read-only",
    [MOUNT_WRITABLE] = "writable",
    [MOUNT_HIDE_DIRECTORY] = "hidden-directory",
    [MOUNT_HIDE_FILE] = "hidden-file",
    [MOUNT_PIN_LINK] = "link",
};
static const char *const reasons[] = {
    [REASON_ALLOW_WRITE] = "filesystem.allowWrite",
    [REASON_DENY_WRITE] = "filesystem.denyWrite",
    [REASON_MANDATORY] = "always protected",
    [REASON_PIN] = "keeps a protected path in its place",
    [REASON_DENY_READ] = "filesystem.denyRead",
    [REASON_CREDENTIAL] = "credentials.files",
    [REASON_ALLOW_READ] = "filesystem.allowRead",
    [REASON_OWN] = "built in",
};

/* Calls fn for each thing that is on, by name. */
typedef void name_fn(void *ctx, const char *name);

static void each_namespace(name_fn *fn, void *ctx)
{
    static const char *const names[] = {"user", "mount", "pid", "net", "ipc", "uts", "cgroup"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        fn(ctx, names[i]);
}

static void each_filter(const struct plan *p, name_fn *fn, void *ctx)
{
    if (p->filters & FILTER_TERMINAL)
        fn(ctx, "terminal");
    if (p->filters & FILTER_SOCKETS)
        fn(ctx, "sockets");
    if (p->filters & FILTER_NAMESPACES)
        fn(ctx, "namespaces");
    if (p->filters & FILTER_GROUP)
        fn(ctx, "group");
    if (p->observe)
        fn(ctx, "observer");
}

static bool is_inherited(char *const *inherited, const char *variable)
{
    for (char *const *v = inherited; *v != NULL; v++)
        if (strcmp(*v, variable) == 0)
            return true;
    return false;
}

/* The name of an inherited variable is not in the new environment. */
static bool is_removed(char *const *environment, const char *variable, size_t name_len)
{
    for (char *const *v = environment; *v != NULL; v++)
        if (strncmp(*v, variable, name_len + 1) == 0)
            return false;
    return true;
}

/* The value with the token masked. */
static void shown_value(struct buf *out, const char *value, const char *token)
{
    const char *at;
    while (token != NULL && (at = strstr(value, token)) != NULL) {
        buf_append(out, value, (size_t)(at - value));
        buf_puts(out, "TOKEN");
        value = at + strlen(token);
    }
    buf_puts(out, value);
}

/* --- JSON ---------------------------------------------------------------------------------- */

struct json_list {
    struct buf *out;
    bool any;
};

static void json_item(struct json_list *list)
{
    buf_puts(list->out, list->any ? "," : "");
    list->any = true;
}

static void json_text(struct buf *out, const char *s)
{
    text_json(out, s, strlen(s));
}

static void json_name(void *ctx, const char *name)
{
    struct json_list *list = ctx;
    json_item(list);
    json_text(list->out, name);
}

static void json_member(struct buf *out, const char *key, const char *value)
{
    json_text(out, key);
    buf_puts(out, ":");
    json_text(out, value);
}

static void json_mounts(struct buf *out, const struct mounts *mounts)
{
    buf_puts(out, ",\"mounts\":[{");
    json_member(out, "kind", mounts->root_writable ? "writable" : "read-only");
    buf_puts(out, ",\"source\":\"/\",\"place\":\"/\",\"reason\":\"built in\"}");
    for (size_t i = 0; i < mounts->count; i++) {
        const struct mount *m = &mounts->list[i];
        buf_puts(out, ",{");
        json_member(out, "kind", kinds[m->kind]);
        if (m->source != NULL) {
            buf_puts(out, ",");
            json_member(out, "source", m->source);
        }
        buf_puts(out, ",");
        json_member(out, "place", m->place);
        buf_puts(out, ",");
        json_member(out, "reason", reasons[m->reason]);
        buf_puts(out, "}");
    }
    buf_puts(out, "],\"standIns\":[");
    for (size_t i = 0; i < mounts->standin_count; i++) {
        buf_puts(out, i != 0 ? ",{" : "{");
        json_member(out, "path", mounts->standins[i].path);
        buf_puts(out, ",");
        json_member(out, "kind", mounts->standins[i].directory ? "directory" : "socket");
        buf_puts(out, "}");
    }
    buf_puts(out, "]");
}

static void json_environment(struct buf *out, const struct plan *p, char *const *inherited,
                             const char *token)
{
    struct json_list list = {.out = out};
    struct buf value;

    buf_init(&value, SIZE_MAX / 2);
    buf_puts(out, ",\"environment\":{\"set\":{");
    for (char **v = p->environment; *v != NULL; v++) {
        const char *equals = strchr(*v, '=');
        if (equals == NULL || is_inherited(inherited, *v))
            continue;
        json_item(&list);
        text_json(out, *v, (size_t)(equals - *v));
        buf_puts(out, ":");
        buf_clear(&value);
        shown_value(&value, equals + 1, token);
        text_json(out, buf_chars(&value), buf_len(&value));
    }
    buf_puts(out, "},\"removed\":[");
    list.any = false;
    for (char *const *v = inherited; *v != NULL; v++) {
        const char *equals = strchr(*v, '=');
        if (equals == NULL || !is_removed(p->environment, *v, (size_t)(equals - *v)))
            continue;
        json_item(&list);
        text_json(out, *v, (size_t)(equals - *v));
    }
    buf_puts(out, "]}");
    buf_wipe(&value);
}

static void print_json(const struct plan *p, char *const *inherited, const char *token,
                       struct buf *out)
{
    struct json_list list = {.out = out};

    buf_puts(out, "{\"argv\":[");
    json_name(&list, p->shell);
    json_name(&list, "-c");
    json_name(&list, "--");
    json_name(&list, p->command);
    buf_puts(out, "],");
    json_member(out, "directory", p->directory);
    buf_puts(out, ",");
    json_member(out, "mountsBy", p->by_bubblewrap ? "bubblewrap" : "srt-inside");
    buf_puts(out, ",");
    json_member(out, "proc", p->weaker_nested ? "the host's" : "new");
    buf_puts(out, p->new_session ? ",\"newSession\":true" : ",\"newSession\":false");
    buf_puts(out, p->nested_namespaces ? ",\"nestedUserNamespaces\":true"
                                       : ",\"nestedUserNamespaces\":false");
    buf_puts(out, ",\"namespaces\":[");
    list.any = false;
    each_namespace(json_name, &list);
    buf_puts(out, "],\"filters\":[");
    list.any = false;
    each_filter(p, json_name, &list);
    buf_puts(out, "]");
    json_mounts(out, &p->mounts);
    json_environment(out, p, inherited, token);
    buf_puts(out, ",\"warnings\":[");
    list.any = false;
    for (size_t i = 0; i < p->mounts.warnings.count; i++)
        json_name(&list, p->mounts.warnings.list[i]);
    buf_puts(out, "]}\n");
}

/* --- text ---------------------------------------------------------------------------------- */

/* Quoted as JSON when it holds what could be mistaken for the end of a line or steer a terminal. */
static void plain(struct buf *out, const char *s)
{
    for (const char *c = s; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            json_text(out, s);
            return;
        }
    }
    buf_puts(out, s);
}

static void plain_name(void *ctx, const char *name)
{
    buf_printf(ctx, " %s", name);
}

static void print_mounts(struct buf *out, const struct mounts *mounts)
{
    buf_printf(out, "mounts\n  %-16s /\n", mounts->root_writable ? "writable" : "read-only");
    for (size_t i = 0; i < mounts->count; i++) {
        const struct mount *m = &mounts->list[i];
        buf_printf(out, "  %-16s ", kinds[m->kind]);
        plain(out, m->place);
        if (m->source != NULL && strcmp(m->source, m->place) != 0) {
            buf_puts(out, " from ");
            plain(out, m->source);
        }
        buf_printf(out, "  (%s)\n", reasons[m->reason]);
    }
    if (mounts->standin_count != 0)
        buf_puts(out, "made on the host while the command runs\n");
    for (size_t i = 0; i < mounts->standin_count; i++) {
        buf_printf(out, "  %-16s ", mounts->standins[i].directory ? "directory" : "socket");
        plain(out, mounts->standins[i].path);
        buf_puts(out, "\n");
    }
}

static void print_environment(struct buf *out, const struct plan *p, char *const *inherited,
                              const char *token)
{
    struct buf value;
    buf_init(&value, SIZE_MAX / 2);
    buf_puts(out, "environment\n");
    for (char **v = p->environment; *v != NULL; v++) {
        if (is_inherited(inherited, *v))
            continue;
        buf_clear(&value);
        shown_value(&value, *v, token);
        buf_puts(out, "  ");
        plain(out, buf_cstr(&value));
        buf_puts(out, "\n");
    }
    for (char *const *v = inherited; *v != NULL; v++) {
        const char *equals = strchr(*v, '=');
        if (equals != NULL && is_removed(p->environment, *v, (size_t)(equals - *v)))
            buf_printf(out, "  (without %.*s)\n", (int)(equals - *v), *v);
    }
    buf_wipe(&value);
}

static void print_text(const struct plan *p, char *const *inherited, const char *token,
                       struct buf *out)
{
    buf_printf(out, "runs        %s -c -- ", p->shell);
    plain(out, p->command);
    buf_puts(out, "\nin          ");
    plain(out, p->directory);
    buf_printf(out, "\nmounts by   %s\nnamespaces ",
               p->by_bubblewrap ? "bubblewrap" : "srt-inside");
    each_namespace(plain_name, out);
    buf_puts(out, "\nfilters    ");
    each_filter(p, plain_name, out);
    const char *terminal = p->own_terminal ? "its own" : p->new_session ? "none" : "the caller's";
    buf_printf(out, "\nterminal    %s\n/proc       %s\n", terminal,
               p->weaker_nested ? "the host's" : "new");
    print_mounts(out, &p->mounts);
    print_environment(out, p, inherited, token);
    for (size_t i = 0; i < p->mounts.warnings.count; i++) {
        buf_puts(out, "warning     ");
        plain(out, p->mounts.warnings.list[i]);
        buf_puts(out, "\n");
    }
}

void plan_print(const struct plan *p, char *const *inherited, const char *token, bool json,
                struct buf *out)
{
    if (json)
        print_json(p, inherited, token, out);
    else
        print_text(p, inherited, token, out);
}

void plan_free(struct plan *p)
{
    mounts_free(&p->mounts);
    if (p->environment != NULL)
        environment_free(p->environment);
    p->environment = NULL;
    MEM_FREE(p->shell);
    MEM_FREE(p->directory);
}
