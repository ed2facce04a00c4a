/* What the command line and the settings of `srt proxy` say together. Chapter 35 sections 5 to 7.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "proxy/gateway_internal.h"
#include "proxy/settings/load.h"
#include "proxy/settings/notes.h"

enum {
    MESSAGES_MAX = 1 << 20,
    PEM_MAX = 1 << 20,
    PROXY_ONLY_HEAD_MAX = 2097152 /* above what a decider is shown, so that it is the bound */
};

static enum settings_use use_of(const struct gateway *g)
{
    return g->options->ca_fd >= 0 ? SETTINGS_GATEWAY_CA : SETTINGS_GATEWAY;
}

static json_t *load(const struct gateway *g, struct buf *error)
{
    if (g->options->settings != NULL)
        return settings_load(g->options->settings, use_of(g), error);
    return json_pack("{s:{s:[],s:[]}}", "network", "allowedDomains", "deniedDomains");
}

/* The rest of a descriptor, which may be a pipe that is still being written. */
static bool read_all(int fd, struct buf *out)
{
    for (;;) {
        uint8_t *p = buf_reserve(out, 4096);
        if (p == NULL)
            return false;
        ssize_t n = read(fd, p, 4096);
        if (n < 0 && errno == EAGAIN)
            (void)poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
        else if (n < 0 && errno != EINTR)
            return false;
        else if (n > 0)
            buf_commit(out, (size_t)n);
        else if (n == 0)
            return true;
    }
}

static bool load_inherited_ca(struct gateway *g, struct buf *error)
{
    struct buf pem;
    int fd = g->options->ca_fd;
    buf_init(&pem, PEM_MAX);
    if (!read_all(fd, &pem))
        buf_printf(error, "--ca-fd %d: %s", fd, strerror(errno != 0 ? errno : EFBIG));
    else
        g->ca = ca_load_pem(buf_data(&pem), buf_len(&pem), error);
    close(fd);
    buf_wipe(&pem);
    return g->ca != NULL;
}

static bool load_ca(struct gateway *g, struct buf *warnings, struct buf *error)
{
    const struct snapshot *s = g->snapshot;
    if (g->options->ca_fd < 0 && s->tls_terminate)
        g->ca = ca_load(s->tls_ca_certificate, s->tls_ca_key, error);
    if (g->ca != NULL)
        ca_warnings(g->ca, warnings);
    return g->ca != NULL || g->options->ca_fd >= 0 || !s->tls_terminate;
}

/* The decider of the settings, or one that the command line brings, and its protocol: what asks for
 * protocol 2 is said, or a decider in the settings. */
static bool choose_decider(struct gateway *g, struct buf *error)
{
    const struct gateway_options *o = g->options;
    const struct snapshot *s = g->snapshot;
    bool ours = gateway_options_have_decider(o);
    bool settings = s->decider_exec != NULL || s->decider_unix != NULL;
    const json_t *key = json_object_get(g->document, "decider");
    bool asked = json_object_get(key, "proto") != NULL || json_object_get(key, "level") != NULL;

    if (ours && settings) {
        buf_puts(error, "decider: the command line names one, and the settings another");
        return false;
    }
    if (!ours && !settings && s->decider_proto != 0) {
        buf_puts(error, "decider: exec or unix is needed in the settings, or a decider on the "
                        "command line");
        return false;
    }
    if (ours || settings)
        g->proto = o->decider_proto != 0 ? o->decider_proto : ours && !asked ? 1 : s->decider_proto;
    g->proxy_only = g->proto == 1;
    return true;
}

/* What a decider of protocol 1 brings with it: sections 6 and 12. */
static void make_proxy_only(struct snapshot *s)
{
    s->refuse_opaque_tunnels = s->require_host_match = true;
    if (s->limits.request_head_bytes < PROXY_ONLY_HEAD_MAX)
        s->limits.request_head_bytes = PROXY_ONLY_HEAD_MAX;
}

struct snapshot *gateway_snapshot(const struct gateway *g, const struct decider_lists *lists,
                                  struct buf *warnings, struct buf *error)
{
    const struct gateway_options *o = g->options;
    struct decider_lists with = {.proxy_only = g->proxy_only};
    /* A host that hands out descriptors means them, and not what its own environment says. */
    bool environment = o->settings != NULL || !g->proxy_only;
    if (lists != NULL) {
        with = *lists;
        with.proxy_only = g->proxy_only;
    }
    struct snapshot *s = snapshot_build_with(g->document, use_of(g), environment,
                                             g->proto != 0 ? &with : NULL, warnings, error);
    if (s == NULL)
        return NULL;
    if (g->proxy_only)
        make_proxy_only(s);
    s->tls_terminate |= o->ca_fd >= 0;
    s->allow_plaintext_header_set |= o->plaintext_header_set;
    snapshot_strip_headers(s, o->strip_response_headers, o->strip_response_header_count);
    return s;
}

/* In two steps: which protocol the decider speaks is in the settings. */
static bool build(struct gateway *g, struct buf *warnings, struct buf *error, struct buf *usage)
{
    struct buf ignored;
    buf_init(&ignored, MESSAGES_MAX);
    g->snapshot = gateway_snapshot(g, NULL, warnings, error);
    bool ok = g->snapshot != NULL && choose_decider(g, usage);
    if (ok && g->proto != 0) {
        snapshot_unref(g->snapshot);
        g->snapshot = gateway_snapshot(g, NULL, &ignored, error);
    }
    buf_free(&ignored);
    return ok;
}

int gateway_configure(struct gateway *g)
{
    struct buf warnings, error, usage;
    int status = STATUS_SETTINGS;

    buf_init(&warnings, MESSAGES_MAX);
    buf_init(&error, MESSAGES_MAX);
    buf_init(&usage, MESSAGES_MAX);
    g->document = load(g, &error);
    if (g->document != NULL && build(g, &warnings, &error, &usage)) {
        struct buf why;
        buf_init(&why, 8192);
        if (!load_ca(g, &warnings, &why)) {
            buf_puts(&error, "Error: ");
            settings_line(&error, buf_cstr(&why), buf_len(&why));
        } else if (g->options->ca_fd < 0 || load_inherited_ca(g, &usage)) {
            status = STATUS_OK;
        }
        buf_free(&why);
    }
    if (status != STATUS_OK && buf_len(&usage) != 0) {
        log_error("%s", buf_cstr(&usage));
        status = STATUS_USAGE;
    } else {
        struct buf *said = status == STATUS_OK ? &warnings : &error;
        fd_write_all(STDERR_FILENO, buf_data(said), buf_len(said));
    }
    buf_free(&warnings);
    buf_free(&error);
    buf_free(&usage);
    return status;
}
