#include "proxy/egress/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "proxy/http/target.h"

void request_begin(struct request *r, const struct client *c, enum record_via via)
{
    memset(r, 0, sizeof *r);
    r->snapshot = snapshot_ref(c->worker->snapshot);
    record_init(&r->record, ev_now(c->worker->loop));
    r->record.via = (uint8_t)via;
    r->record.client = c->peer.family != 0 ? CLIENT_ADDRESS : CLIENT_UNIX;
    r->record.client_address = c->peer;
    r->record.client_port = c->peer_port;
    if (c->worker->attribution != NULL)
        record_set_key(&r->record, c->worker->attribution, strlen(c->worker->attribution));
}

void request_set_user(struct request *r, const char *user, size_t n)
{
    size_t len;
    free(r->user);
    r->user = mem_dup_n(user, n);
    r->user_len = n;
    const char *encoded = attribution_encoded(user, n, &len);
    if (encoded == NULL)
        return;
    free(r->key);
    r->key = mem_dup_n(encoded, len);
    record_set_user(&r->record, user, n);
}

void request_set_key(struct request *r, const char *key)
{
    struct buf user;
    if (key == NULL)
        return;
    buf_init(&user, strlen(key) + 8);
    buf_printf(&user, "srt.%s", key);
    request_set_user(r, buf_chars(&user), buf_len(&user));
    buf_free(&user);
}

/* Whether a presented key and ours are the same, decoded. */
static bool is_same_key(const char *presented, const struct buf *ours)
{
    struct buf a, b;
    buf_init(&a, 4096);
    buf_init(&b, 4096);
    attribution_decode(&a, presented, strlen(presented));
    attribution_decode(&b, buf_chars(ours), buf_len(ours));
    bool same = buf_len(&a) == buf_len(&b) && memcmp(buf_cstr(&a), buf_cstr(&b), buf_len(&a)) == 0;
    buf_free(&a);
    buf_free(&b);
    return same;
}

/* Section 9: the key as presented, and the text registered for it, else the key's own. */
static void store_violation(const struct request *r, const struct worker *w, const char *line)
{
    struct buf encoded, user;
    const char *key = r->key, *command = r->record.user;
    buf_init(&encoded, 4096);
    buf_init(&user, 4096);
    if (w->attribution != NULL) {
        attribution_encode(&encoded, &user, w->attribution, strlen(w->attribution));
        if (key == NULL || is_same_key(key, &encoded)) {
            key = key != NULL ? key : buf_cstr(&encoded);
            command = w->attribution;
        }
    }
    violation_store_add(w->violations, r->snapshot->ignore_violations, line, key, command,
                        ev_now(w->loop));
    buf_free(&encoded);
    buf_free(&user);
}

static void add_violation(struct request *r, struct worker *w, struct buf *line)
{
    struct buf clean;
    buf_init(&clean, 4 * buf_len(line) + 16);
    text_clean(&clean, buf_chars(line), buf_len(line));
    log_debug("%s", buf_cstr(&clean));
    buf_free(&clean);
    if (w->violations != NULL)
        store_violation(r, w, buf_cstr(line));
}

void request_violation(struct request *r, struct worker *w, const char *host, size_t n,
                       const char *reason)
{
    struct buf line;
    buf_init(&line, 8192);
    violation_network(&line, host, n, r->port, reason);
    add_violation(r, w, &line);
    buf_free(&line);
}

void request_set_destination(struct request *r, const char *host, size_t n, uint16_t port)
{
    r->port = port;
    r->record.port = port;
    free(r->spelled);
    r->spelled = mem_dup_n(host, n);
    record_set_host(&r->record, host, n);
}

enum authorisation request_authorise(struct request *r, struct worker *w,
                                     struct approvals *approved, const char *host, size_t n,
                                     uint16_t port, request_decided *decided, void *ctx)
{
    struct decision *d = &r->decision;
    request_set_destination(r, host, n, port);
    policy_decide(r->snapshot->policy, host, n, port, NULL, &r->host, d);
    if (r->host.len != 0)
        record_set_host(&r->record, r->host.text, r->host.len);
    if (d->verdict == VERDICT_ASK)
        return request_ask(r, w, approved, decided, ctx);
    record_set_decision(&r->record, d);
    if (d->verdict == VERDICT_ALLOW)
        return AUTHORISATION_GIVEN;
    request_violation(r, w, host, n, d->reason);
    return AUTHORISATION_DENIED;
}

enum err request_judge(struct request *r, const char *method, size_t method_len, const char *target,
                       size_t target_len)
{
    struct rule_match match;
    if (r->snapshot->request_rules == NULL)
        return ERR_NONE;
    enum rule_verdict verdict =
        request_rules_decide(r->snapshot->request_rules, &r->host, r->port, method, method_len,
                             target, target_len, &match);
    if (verdict == RULE_NONE || verdict == RULE_ALLOW)
        return ERR_NONE;
    bool ambiguous = verdict == RULE_AMBIGUOUS;
    r->decision = (struct decision){
        .verdict = VERDICT_DENY,
        .list = "network.rules",
        .index = match.index,
        .entry = match.host,
        .reason = ambiguous              ? err_info(ERR_AMBIGUOUS_TARGET)->body
                  : match.reason != NULL ? match.reason
                                         : REQUEST_DENIED,
    };
    record_set_decision(&r->record, &r->decision);
    return ambiguous ? ERR_AMBIGUOUS_TARGET : ERR_POLICY;
}

void request_deny_addresses(struct request *r, struct worker *w, unsigned classes,
                            struct buf *reason)
{
    char text[512];
    size_t n = address_reason(classes, text, sizeof text);
    buf_append(reason, text, n);
    r->record.verdict = RECORD_DENY;
    r->record.address_classes = classes;
    request_violation(r, w, r->host.text, r->host.len, text);
}

void request_violation_http(struct request *r, struct worker *w, const char *method, size_t n,
                            const char *url, const char *reason)
{
    struct buf line;
    buf_init(&line, n + strlen(url) + 1024);
    violation_request(&line, method, n, url, reason);
    add_violation(r, w, &line);
    buf_free(&line);
}

void request_violation_socks(struct request *r, struct worker *w)
{
    struct buf line;
    buf_init(&line, 8192);
    violation_socks(&line, r->spelled, strlen(r->spelled), r->port);
    add_violation(r, w, &line);
    buf_free(&line);
}

void request_refused(struct request *r, enum err err, unsigned status, const char *reason)
{
    r->record.status = (int16_t)status;
    if (reason != NULL)
        record_set_reason(&r->record, reason);
    if (err_is_upstream(err))
        r->record.error = (uint8_t)err;
    /* Trouble after an allow does not make it a denial. */
    else if (err_is_refusal(err) || r->record.verdict != RECORD_ALLOW) {
        /* The rule in the record is one that allowed it. */
        if (r->record.verdict == RECORD_ALLOW && r->record.reason == NULL)
            record_set_reason(&r->record, err_info(err)->sentence);
        r->record.verdict = RECORD_DENY;
    }
}

/* Lets go of all but the record and the settings. */
static void forget(struct request *r)
{
    request_stop_asking(r);
    free(r->spelled);
    free(r->key);
    free(r->user);
    free(r->reason);
    memset(r, 0, sizeof *r);
}

void request_hand_over(struct request *r, struct record *record, struct snapshot **snapshot)
{
    *record = r->record;
    *snapshot = r->snapshot;
    forget(r);
}

void request_end(struct request *r, struct worker *w, enum err close)
{
    if (r->snapshot == NULL)
        return;
    record_finish(&r->record, w->log, close, ev_now(w->loop));
    snapshot_unref(r->snapshot);
    forget(r);
}
