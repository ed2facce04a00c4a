#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "decider/decider.h"
#include "proxy/egress/answers.h"
#include "proxy/egress/request.h"
#include "proxy/settings/load.h"

/* A decider that a test plays by hand: it holds one question. */
static struct {
    struct decider decider;
    struct decider_question question;
    decider_answer *answer;
    void *ctx;
    unsigned asked, forgotten;
    bool away;
    char via[16], host[64], client[64], user[64];
    unsigned port;
} d;

static struct worker *w;
static struct client client;
static struct request r;
static struct approvals approved;
static struct {
    unsigned count;
    enum err err;
} decided;

static void copy(char out[64], const char *s)
{
    size_t n = s != NULL ? strlen(s) : 0;
    assert_true(n < 64);
    if (n != 0)
        memcpy(out, s, n);
    out[n] = '\0';
}

static struct decider_question *on_connection(struct decider *self,
                                              const struct decider_connection *c,
                                              decider_answer *answer, void *ctx)
{
    if (d.away)
        return NULL;
    d.asked++;
    d.answer = answer;
    d.ctx = ctx;
    d.question.decider = self;
    d.port = c->port;
    char via[64];
    copy(via, c->via);
    memcpy(d.via, via, sizeof d.via);
    copy(d.host, c->host);
    copy(d.client, c->client);
    copy(d.user, c->user_len < sizeof d.user ? c->user : "(long)");
    return &d.question;
}

static void on_forget(struct decider_question *q)
{
    assert_ptr_equal(q, &d.question);
    d.forgotten++;
}

static const struct decider_ops ops = {.connection = on_connection, .forget = on_forget};

static void answer(const struct decider_verdict *v)
{
    d.answer(d.ctx, v);
}

static void on_decided(void *ctx, enum err err)
{
    assert_ptr_equal(ctx, &r);
    decided.count++;
    decided.err = err;
}

static struct snapshot *settings_of(const char *denied, const char *network)
{
    struct buf text, warnings, error;
    buf_init(&text, 4096);
    buf_init(&warnings, 4096);
    buf_init(&error, 4096);
    buf_printf(
        &text,
        "{\"network\":{\"allowedDomains\":[\"ok.test\"],\"deniedDomains\":[\"no.test\"%s]%s}}",
        denied, network);
    json_t *document = settings_parse(buf_chars(&text), buf_len(&text), &error);
    assert_non_null(document);
    struct snapshot *s = snapshot_build(document, SETTINGS_GATEWAY, false, &warnings, &error);
    assert_non_null(s);
    json_decref(document);
    buf_free(&text);
    buf_free(&warnings);
    buf_free(&error);
    return s;
}

static struct snapshot *settings(const char *network)
{
    return settings_of("", network);
}

static int set_up(void **state)
{
    (void)state;
    w = mem_alloc(sizeof *w);
    w->loop = ev_loop_new(EVFLAG_AUTO);
    w->snapshot = settings("");
    w->violations = violation_store_new();
    memset(&d, 0, sizeof d);
    memset(&decided, 0, sizeof decided);
    memset(&client, 0, sizeof client);
    d.decider = (struct decider){.ops = &ops, .asks = DECIDER_CONNECTIONS};
    w->decider = &d.decider;
    client.worker = w;
    approvals_init(&approved);
    request_begin(&r, &client, VIA_CONNECT);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    request_end(&r, w, ERR_NONE);
    approvals_free(&approved);
    answers_free(w->answers);
    snapshot_unref(w->snapshot);
    violation_store_free(w->violations);
    ev_loop_destroy(w->loop);
    free(w);
    return 0;
}

static enum authorisation authorise(const char *host)
{
    return request_authorise(&r, w, &approved, host, strlen(host), 443, on_decided, &r);
}

static void again(void)
{
    request_end(&r, w, ERR_NONE);
    request_begin(&r, &client, VIA_CONNECT);
}

static void test_rules_come_first(void **state)
{
    (void)state;
    assert_int_equal(authorise("ok.test"), AUTHORISATION_GIVEN);
    assert_int_equal(authorise("no.test"), AUTHORISATION_DENIED);
    assert_int_equal(authorise("a..b"), AUTHORISATION_DENIED);
    assert_int_equal(d.asked, 0);
}

static void test_what_is_asked(void **state)
{
    (void)state;
    request_set_user(&r, "alice", 5);
    r.record.client = CLIENT_LOCAL;
    assert_int_equal(authorise("New.Test."), AUTHORISATION_AWAITED);
    assert_string_equal(d.via, "connect");
    assert_string_equal(d.host, "new.test");
    assert_string_equal(d.client, "local");
    assert_string_equal(d.user, "alice");
    assert_int_equal(d.port, 443);
    assert_int_equal(decided.count, 0);
    answer(&(struct decider_verdict){.action = DECIDER_ALLOW});
    assert_int_equal(decided.count, 1);
    assert_int_equal(decided.err, ERR_NONE);
    assert_true(r.by_decider);
    assert_string_equal(r.record.rule, "decider");
    assert_int_equal(r.record.verdict, RECORD_ALLOW);
}

static void test_a_denial_has_its_reason_and_status(void **state)
{
    static const struct {
        const char *given, *told;
    } rows[] = {
        {"not on a Friday", "not on a Friday"},
        {NULL, "user denied"},
        {"  ", "user denied"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(authorise("new.test"), AUTHORISATION_AWAITED);
        answer(&(struct decider_verdict){
            .action = DECIDER_DENY, .status = 451, .reason = rows[i].given});
        assert_int_equal(decided.err, ERR_POLICY);
        assert_string_equal(r.decision.reason, rows[i].told);
        assert_string_equal(r.record.reason, rows[i].told);
        assert_int_equal(r.status, 451);
        assert_int_equal(violation_store_total(w->violations), i + 1);
        again();
    }
}

static void test_no_answer_is_no_permission(void **state)
{
    (void)state;
    assert_int_equal(authorise("new.test"), AUTHORISATION_AWAITED);
    answer(&(struct decider_verdict){.action = DECIDER_UNAVAILABLE, .why = "it died"});
    assert_int_equal(decided.err, ERR_DECIDER);
    assert_false(r.by_decider);
    assert_int_not_equal(r.record.verdict, RECORD_ALLOW);
    again();
    d.away = true;
    assert_int_equal(authorise("new.test"), AUTHORISATION_UNKNOWN);
    assert_null(r.asking);
}

static void test_nobody_to_ask(void **state)
{
    (void)state;
    d.decider.asks = DECIDER_REQUESTS;
    assert_int_equal(authorise("new.test"), AUTHORISATION_DENIED);
    assert_string_equal(r.decision.reason, POLICY_NOT_LISTED);
    w->decider = NULL;
    assert_int_equal(authorise("new.test"), AUTHORISATION_DENIED);
    assert_int_equal(d.asked, 0);
}

static void test_a_strict_list_is_not_asked_about(void **state)
{
    struct snapshot *old = w->snapshot;
    (void)state;
    w->snapshot = settings(",\"strictAllowlist\":true");
    snapshot_unref(old);
    again();
    assert_int_equal(authorise("new.test"), AUTHORISATION_DENIED);
    assert_int_equal(d.asked, 0);
}

static void test_a_request_that_ends_asks_no_more(void **state)
{
    (void)state;
    assert_int_equal(authorise("new.test"), AUTHORISATION_AWAITED);
    request_end(&r, w, ERR_CLIENT_GONE);
    assert_int_equal(d.forgotten, 1);
    assert_int_equal(decided.count, 0);
    request_begin(&r, &client, VIA_CONNECT);
}

static void test_a_connection_is_asked_once_a_host(void **state)
{
    (void)state;
    assert_int_equal(authorise("new.test"), AUTHORISATION_AWAITED);
    answer(&(struct decider_verdict){.action = DECIDER_ALLOW});
    again();
    assert_int_equal(authorise("new.test"), AUTHORISATION_GIVEN);
    assert_true(r.by_decider);
    again();
    assert_int_equal(authorise("newer.test"), AUTHORISATION_AWAITED);
    answer(&(struct decider_verdict){.action = DECIDER_DENY, .status = 403});
    again();
    assert_int_equal(authorise("newer.test"), AUTHORISATION_AWAITED);
    assert_int_equal(d.asked, 3);
}

static void test_an_answer_for_a_while(void **state)
{
    (void)state;
    assert_int_equal(authorise("new.test"), AUTHORISATION_AWAITED);
    answer(&(struct decider_verdict){.action = DECIDER_ALLOW, .ttl_s = 60});
    assert_int_equal(authorise("bad.test"), AUTHORISATION_AWAITED);
    answer(&(struct decider_verdict){.action = DECIDER_DENY,
                                     .status = 429,
                                     .reason = "never",
                                     .ttl_s = (uint32_t)DECIDER_TTL_RUN});
    again();
    approvals_free(&approved); /* as on another connection */
    assert_int_equal(authorise("new.test"), AUTHORISATION_GIVEN);
    assert_int_equal(authorise("bad.test"), AUTHORISATION_DENIED);
    assert_string_equal(r.decision.reason, "never");
    assert_int_equal(r.status, 429);
    again();
    request_set_user(&r, "somebody", 8);
    approvals_free(&approved);
    assert_int_equal(authorise("new.test"), AUTHORISATION_AWAITED);
    assert_int_equal(d.asked, 3);
}

static void test_approvals_are_bounded(void **state)
{
    char name[32];
    (void)state;
    for (unsigned i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "h%u.test", i);
        assert_int_equal(authorise(name), AUTHORISATION_AWAITED);
        answer(&(struct decider_verdict){.action = DECIDER_ALLOW});
        assert_true(buf_len(&approved.keys) <= 16384);
    }
    assert_int_equal(authorise("h1999.test"), AUTHORISATION_GIVEN);
    assert_int_equal(authorise("h0.test"), AUTHORISATION_AWAITED);
}

/* Several may share a connection to a gateway. */
static void test_an_approval_is_its_users(void **state)
{
    (void)state;
    request_set_user(&r, "a", 1);
    assert_int_equal(authorise("new.test"), AUTHORISATION_AWAITED);
    answer(&(struct decider_verdict){.action = DECIDER_ALLOW});
    again();
    request_set_user(&r, "b", 1);
    assert_int_equal(authorise("new.test"), AUTHORISATION_AWAITED);
    again();
    assert_int_equal(authorise("new.test"), AUTHORISATION_AWAITED);
    again();
    request_set_user(&r, "a", 1);
    assert_int_equal(authorise("new.test"), AUTHORISATION_GIVEN);
}

static void test_the_word_of_a_decider_goes_with_it(void **state)
{
    (void)state;
    assert_int_equal(authorise("new.test"), AUTHORISATION_AWAITED);
    answer(&(struct decider_verdict){.action = DECIDER_ALLOW, .ttl_s = 60});
    again();
    worker_decider_lost(w);
    assert_int_equal(authorise("new.test"), AUTHORISATION_AWAITED);
    answer(&(struct decider_verdict){.action = DECIDER_DENY, .status = 403});
    assert_int_equal(decided.err, ERR_POLICY);
    again();
    d.away = true;
    assert_int_equal(authorise("new.test"), AUTHORISATION_UNKNOWN);
}

/* It was asked about as a whole. */
static void test_a_tunnel_is_settled(void **state)
{
    (void)state;
    approved.settled = true;
    worker_decider_lost(w);
    d.away = true;
    assert_int_equal(authorise("new.test"), AUTHORISATION_GIVEN);
    assert_int_equal(authorise("no.test"), AUTHORISATION_DENIED);
}

/* Nobody is taken for somebody else, or for nobody. */
static void test_users_that_cannot_be_named(void **state)
{
    char *longest = mem_alloc(20000);
    const struct {
        const char *user;
        size_t n;
    } rows[] = {{"evil\0u", 6}, {"a\nb", 3}, {"b\xff", 2}, {longest, 8193}, {longest, 20000}};
    (void)state;
    memset(longest, 'u', 20000);
    assert_int_equal(authorise("new.test"), AUTHORISATION_AWAITED);
    answer(&(struct decider_verdict){.action = DECIDER_ALLOW, .ttl_s = 60});
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        again();
        approvals_free(&approved);
        request_set_user(&r, rows[i].user, rows[i].n);
        assert_int_equal(authorise("new.test"), AUTHORISATION_DENIED);
        assert_int_equal(authorise("ok.test"), AUTHORISATION_GIVEN);
    }
    again();
    request_set_user(&r, longest, 8192);
    assert_int_equal(authorise("new.test"), AUTHORISATION_AWAITED);
    assert_int_equal(d.asked, 2);
    free(longest);
}

/* A user's name is no way to another's answer, however long it is. */
static void test_long_users_have_answers_of_their_own(void **state)
{
    char *longest = mem_alloc(8192);
    (void)state;
    memset(longest, 'u', 8192);
    request_set_user(&r, longest, 8192);
    assert_int_equal(authorise("new.test"), AUTHORISATION_AWAITED);
    answer(&(struct decider_verdict){.action = DECIDER_ALLOW, .ttl_s = 60});
    approvals_free(&approved);
    assert_int_equal(authorise("new.test"), AUTHORISATION_GIVEN);
    assert_int_equal(authorise("evil.test"), AUTHORISATION_AWAITED);
    again();
    assert_int_equal(authorise("new.test"), AUTHORISATION_AWAITED);
    free(longest);
}

static void replace(struct snapshot *s)
{
    snapshot_unref(w->snapshot);
    w->snapshot = s;
}

static void test_settings_that_come_meanwhile(void **state)
{
    static const struct {
        const char *host;
        enum err err;
    } rows[] = {{"new.test", ERR_NONE}, {"late.test", ERR_POLICY}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        replace(settings(""));
        again();
        assert_int_equal(authorise(rows[i].host), AUTHORISATION_AWAITED);
        replace(settings_of(",\"late.test\"", ""));
        answer(&(struct decider_verdict){.action = DECIDER_ALLOW});
        assert_int_equal(decided.err, rows[i].err);
        assert_ptr_equal(r.snapshot, w->snapshot);
        assert_int_equal(r.record.verdict, rows[i].err == ERR_NONE ? RECORD_ALLOW : RECORD_DENY);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_rules_come_first),
        TEST(test_what_is_asked),
        TEST(test_a_denial_has_its_reason_and_status),
        TEST(test_no_answer_is_no_permission),
        TEST(test_nobody_to_ask),
        TEST(test_a_strict_list_is_not_asked_about),
        TEST(test_a_request_that_ends_asks_no_more),
        TEST(test_a_connection_is_asked_once_a_host),
        TEST(test_an_answer_for_a_while),
        TEST(test_approvals_are_bounded),
        TEST(test_an_approval_is_its_users),
        TEST(test_the_word_of_a_decider_goes_with_it),
        TEST(test_a_tunnel_is_settled),
        TEST(test_users_that_cannot_be_named),
        TEST(test_long_users_have_answers_of_their_own),
        TEST(test_settings_that_come_meanwhile),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
