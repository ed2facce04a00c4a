/* What no rule decides: put to the decider. Chapter 10 section 5.1, chapter 35 section 7. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "decider/clock.h"
#include "decider/decider.h"
#include "decider/message.h"
#include "decider/strict_json.h"
#include "proxy/egress/answers.h"
#include "proxy/egress/request.h"

enum { REASON_BYTES = 8192, APPROVALS_BYTES = 16384 };

static const char denied_by_user[] = "user denied";

struct asking {
    struct request *request;
    struct worker *worker;
    struct approvals *approved;
    struct decider_question *question;
    request_decided *decided;
    void *ctx;
};

void approvals_init(struct approvals *a)
{
    buf_init(&a->keys, APPROVALS_BYTES);
    a->settled = false;
}

void approvals_free(struct approvals *a)
{
    buf_free(&a->keys);
}

/* The decider that was there, the user, and where to: the caller frees it. */
static char *approval_key(const struct request *r, const struct worker *w)
{
    static const char format[] = "\n%u %s %u %s\n";
    const char *user = r->user != NULL ? r->user : "";
    unsigned word = w->decider_serial, port = r->port;
    int n = snprintf(NULL, 0, format, word, r->host.text, port, user);
    char *key = mem_alloc((size_t)n + 1);
    snprintf(key, (size_t)n + 1, format, word, r->host.text, port, user);
    return key;
}

static void approve(struct approvals *a, const struct request *r, const struct worker *w)
{
    if (a == NULL || a->settled)
        return;
    char *key = approval_key(r, w);
    if (buf_room(&a->keys) < strlen(key))
        buf_clear(&a->keys); /* asked once more: no harm */
    buf_puts(&a->keys, key);
    free(key);
}

static bool is_approved(const struct approvals *a, const struct request *r, const struct worker *w)
{
    if (a == NULL || (buf_len(&a->keys) == 0 && !a->settled))
        return false;
    if (a->settled)
        return true;
    char *key = approval_key(r, w);
    bool found = memmem(buf_data(&a->keys), buf_len(&a->keys), key, strlen(key)) != NULL;
    free(key);
    return found;
}

static const char *via_of(const struct request *r)
{
    switch (r->record.via) {
    case VIA_CONNECT:
    case VIA_HTTPS: /* inside the tunnel of one */
        return "connect";
    case VIA_SOCKS5:
        return "socks";
    default:
        return "http";
    }
}

/* out: ADDRESS_TEXT_MAX bytes. */
static void client_of(const struct request *r, char *out)
{
    if (r->record.client == CLIENT_ADDRESS)
        address_format(&r->record.client_address, out);
    else
        memcpy(out, "local", sizeof "local");
}

static enum authorisation allow(struct request *r)
{
    r->decision = (struct decision){.verdict = VERDICT_ALLOW, .list = DECIDER_LIST};
    r->by_decider = true;
    record_set_decision(&r->record, &r->decision);
    return AUTHORISATION_GIVEN;
}

static enum authorisation deny_as(struct request *r, struct worker *w, const char *list,
                                  const char *reason)
{
    r->decision = (struct decision){.verdict = VERDICT_DENY, .list = list, .reason = reason};
    record_set_decision(&r->record, &r->decision);
    request_violation(r, w, r->spelled, strlen(r->spelled), reason);
    return AUTHORISATION_DENIED;
}

/* reason: as the decider gave it, or NULL. */
static enum authorisation deny(struct request *r, struct worker *w, unsigned status,
                               const char *reason)
{
    struct buf clean;
    buf_init(&clean, REASON_BYTES);
    if (reason != NULL)
        text_clean_reason(&clean, reason, strlen(reason));
    free(r->reason);
    r->reason = mem_dup(buf_len(&clean) != 0 ? buf_cstr(&clean) : denied_by_user);
    buf_free(&clean);
    r->status = status;
    return deny_as(r, w, DECIDER_LIST, r->reason);
}

static void keep_answer(const struct asking *a, const struct decider_verdict *v)
{
    const struct request *r = a->request;
    struct worker *w = a->worker;
    char client[ADDRESS_TEXT_MAX];
    if (v->ttl_s == 0)
        return;
    client_of(r, client);
    if (w->answers == NULL)
        w->answers = answers_new();
    answers_put(w->answers,
                &(struct answer_key){
                    .client = client, .user = r->user, .host = r->host.text, .port = r->port},
                &(struct kept_answer){.allow = v->action == DECIDER_ALLOW,
                                      .status = v->status,
                                      .reason = (char *)(uintptr_t)v->reason},
                v->ttl_s == (uint32_t)DECIDER_TTL_RUN ? (double)INFINITY : clock_now() + v->ttl_s);
}

/* Settings that came while the question was open: what they deny stays denied. */
static bool still_undenied(struct request *r, struct worker *w)
{
    struct host host;
    if (r->snapshot == w->snapshot)
        return true;
    snapshot_unref(r->snapshot);
    r->snapshot = snapshot_ref(w->snapshot);
    policy_decide(r->snapshot->policy, r->spelled, strlen(r->spelled), r->port, NULL, &host,
                  &r->decision);
    if (r->decision.verdict != VERDICT_DENY)
        return true;
    record_set_decision(&r->record, &r->decision);
    request_violation(r, w, r->spelled, strlen(r->spelled), r->decision.reason);
    return false;
}

static void on_answer(void *ctx, const struct decider_verdict *v)
{
    struct asking *a = ctx;
    struct request *r = a->request;
    request_decided *decided = a->decided;
    void *decided_ctx = a->ctx;
    enum err err = ERR_NONE;

    if (v->action == DECIDER_ALLOW) {
        keep_answer(a, v);
        approve(a->approved, r, a->worker);
        if (still_undenied(r, a->worker))
            (void)allow(r);
        else
            err = ERR_POLICY;
    } else if (v->action == DECIDER_DENY) {
        keep_answer(a, v);
        (void)deny(r, a->worker, v->status, v->reason);
        err = ERR_POLICY;
    } else {
        record_set_reason(&r->record, v->why);
        err = ERR_DECIDER;
    }
    r->asking = NULL;
    free(a);
    decided(decided_ctx, err);
}

enum authorisation request_ask(struct request *r, struct worker *w, struct approvals *approved,
                               request_decided *decided, void *ctx)
{
    char client[ADDRESS_TEXT_MAX];
    if (w->decider == NULL || (w->decider->asks & DECIDER_CONNECTIONS) == 0)
        return deny_as(r, w, NULL, POLICY_NOT_LISTED);
    if (r->user != NULL &&
        (r->user_len > NAME_BYTES_MAX || !strict_text_valid(r->user, r->user_len)))
        return deny_as(r, w, NULL, "a proxy user name that no decider can be asked about");
    if (is_approved(approved, r, w))
        return allow(r);

    client_of(r, client);
    const struct answer_key key = {
        .client = client, .user = r->user, .host = r->host.text, .port = r->port};
    const struct kept_answer *kept =
        w->answers != NULL ? answers_find(w->answers, &key, clock_now()) : NULL;
    if (kept != NULL && kept->allow)
        return allow(r);
    if (kept != NULL)
        return deny(r, w, kept->status, kept->reason);

    struct asking *a = mem_alloc(sizeof *a);
    *a = (struct asking){
        .request = r, .worker = w, .approved = approved, .decided = decided, .ctx = ctx};
    a->question = decider_ask_connection(w->decider,
                                         &(struct decider_connection){.via = via_of(r),
                                                                      .host = r->host.text,
                                                                      .port = r->port,
                                                                      .client = client,
                                                                      .user = r->user,
                                                                      .user_len = r->user_len},
                                         on_answer, a);
    if (a->question == NULL) {
        free(a);
        return AUTHORISATION_UNKNOWN;
    }
    r->asking = a;
    return AUTHORISATION_AWAITED;
}

void request_stop_asking(struct request *r)
{
    if (r->asking == NULL)
        return;
    decider_forget(r->asking->question);
    free(r->asking);
    r->asking = NULL;
}
