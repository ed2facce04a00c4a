#include "proxy/http/respond.h"

#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "proxy/http/target.h"

static unsigned status_of(const struct answer *a)
{
    return a->status != 0 ? a->status : err_info(a->err)->status;
}

/* Says that the answer is ours, and why. Trouble of the network is no denial. */
static void respond_mark(struct buf *out, const struct answer *a, const char *mark)
{
    const char *code = err_info(a->err)->deny_reason;
    if (a->deny_codes && !err_is_upstream(a->err))
        buf_printf(out, "X-Deny-Reason: %s\r\n", code != NULL ? code : "denied");
    else if (mark != NULL)
        buf_printf(out, "X-Proxy-Error: %s\r\n", mark);
}

/* Nothing but the answer's own lines: a client that reads raw sees just these. */
static void respond_connect(struct buf *out, const struct answer *a, const char *body)
{
    /* It comes and goes with the tunnels of others: said, so that clients try again. */
    bool says_close = a->err == ERR_TUNNELS || a->deny_codes;

    buf_printf(out, "HTTP/1.1 %u ", status_of(a));
    if (a->reason != NULL)
        text_phrase(out, a->reason, strlen(a->reason));
    else
        buf_puts(out, err_phrase(status_of(a)));
    buf_puts(out, "\r\n");
    if (body != NULL)
        buf_puts(out, "Content-Type: text/plain\r\n");
    respond_mark(out, a, err_info(a->err)->proxy_error);
    if (says_close)
        buf_puts(out, "Connection: close\r\n");
    buf_puts(out, "\r\n");
    if (body == NULL)
        return;
    buf_puts(out, body);
    if (a->second_line != NULL)
        buf_printf(out, "\n%s", a->second_line);
}

void respond_connection(struct buf *out, bool close, unsigned keep_alive_s)
{
    if (close)
        buf_puts(out, "Connection: close\r\n");
    else
        buf_printf(out, "Connection: keep-alive\r\nKeep-Alive: timeout=%u\r\n", keep_alive_s);
}

static void respond_challenge(struct buf *out, const struct answer *a)
{
    buf_puts(out, "HTTP/1.1 407 Proxy Authentication Required\r\n"
                  "Proxy-Authenticate: Basic realm=\"srt\"\r\n"
                  "Content-Length: 0\r\n");
    if (!a->connect)
        buf_printf(out, "Date: %s\r\n", a->date);
    if (!a->connect || a->close)
        respond_connection(out, a->close, a->keep_alive_s);
    buf_puts(out, "\r\n");
}

/* Parse errors get the bare minimum: the client may not even be speaking HTTP. */
static void respond_bare(struct buf *out, const struct answer *a)
{
    buf_printf(out, "HTTP/1.1 %u %s\r\n", status_of(a), err_phrase(status_of(a)));
    respond_mark(out, a, NULL);
    buf_puts(out, "Connection: close\r\n\r\n");
}

void respond(struct buf *out, const struct answer *a)
{
    const struct err_info *info = err_info(a->err);
    const char *body = a->body != NULL ? a->body : info->body;
    const char *mark = a->mark != NULL ? a->mark : info->proxy_error;
    const char *newline = err_is_upstream(a->err) || a->err == ERR_INTERNAL ? "" : "\n";

    if (a->err == ERR_AUTH) {
        respond_challenge(out, a);
        return;
    }
    if (a->connect) {
        respond_connect(out, a, err_is_upstream(a->err) ? NULL : body);
        return;
    }
    if (body == NULL) {
        respond_bare(out, a);
        return;
    }
    size_t length = strlen(body) + strlen(newline);
    if (a->second_line != NULL)
        length += strlen(a->second_line) + 1;
    buf_printf(out, "HTTP/1.1 %u %s\r\nContent-Type: text/plain\r\n", status_of(a),
               err_phrase(status_of(a)));
    respond_mark(out, a, mark);
    buf_printf(out, "Content-Length: %zu\r\nDate: %s\r\n", length, a->date);
    respond_connection(out, a->close, a->keep_alive_s);
    buf_puts(out, "\r\n");
    if (a->head_method)
        return;
    buf_printf(out, "%s%s", body, newline);
    if (a->second_line != NULL)
        buf_printf(out, "%s\n", a->second_line);
}

static void refusal_tail(struct buf *out, const char *rule)
{
    buf_printf(out, " is blocked by policy, not by a network fault (%s); do not retry", rule);
}

void refusal_request_line(struct buf *out, const char *method, size_t n, const char *url,
                          const char *rule)
{
    buf_puts(out, "srt: ");
    buf_append(out, method, n);
    buf_puts(out, " ");
    text_clean(out, url, strlen(url));
    refusal_tail(out, rule);
}

void refusal_line(struct buf *out, const char *spelled, size_t n, const struct host *canonical,
                  uint16_t port, const char *rule)
{
    buf_puts(out, "srt: ");
    if (canonical->len != 0) {
        authority_format(out, canonical, port, 0);
    } else {
        text_clean_reason(out, spelled, n);
        buf_printf(out, ":%u", (unsigned)port);
    }
    refusal_tail(out, rule);
}

void refusal_rule(struct buf *out, const struct decision *d)
{
    if (d->list != NULL && d->entry != NULL)
        buf_printf(out, "%s entry \"%s\"", d->list, d->entry);
    else if (d->list != NULL)
        buf_printf(out, "%s: %s", d->list, d->reason);
    else if (strcmp(d->reason, POLICY_NOT_LISTED) == 0)
        buf_puts(out, "no entry of network.allowedDomains allows it");
    else
        buf_puts(out, d->reason);
}
