/* Requests: what is recorded of a refusal, under whose name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proxy/egress/request.h"
#include "proxy/settings/load.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define USER(key) ("srt." key), (sizeof("srt." key) - 1)

static struct worker *w;
static struct client client;
static struct request r;

/* The store's newest record, as its subscriber sees it. */
static struct {
    char line[512], encoded[512], command[512];
    size_t count;
} seen;

static void copy(char to[512], const char *from)
{
    memset(to, 0, 512);
    strncpy(to, from != NULL ? from : "(none)", 511);
}

static void on_violations(void *ctx, const struct violation *const *list, size_t count)
{
    (void)ctx;
    seen.count = count;
    if (count == 0)
        return;
    copy(seen.line, list[count - 1]->line);
    copy(seen.encoded, list[count - 1]->encoded_command);
    copy(seen.command, list[count - 1]->command);
}

/* network: more keys of that object; rest: of the document. */
static struct snapshot *settings_of(const char *network, const char *rest)
{
    struct buf text, warnings, error;

    buf_init(&text, 4096);
    buf_init(&warnings, 4096);
    buf_init(&error, 4096);
    buf_printf(&text, "{\"network\":{\"allowedDomains\":[\"ok.test\"],\"deniedDomains\":[]%s}%s}",
               network, rest);
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

static struct snapshot *settings(const char *rest)
{
    return settings_of("", rest);
}

static int set_up(void **state)
{
    (void)state;
    w = mem_alloc(sizeof *w);
    w->loop = ev_loop_new(EVFLAG_AUTO);
    w->snapshot = settings(",\"ignoreViolations\":{\"*\":[\"quiet.test\"],"
                           "\"make it quiet\":[\"deny\"]}");
    w->violations = violation_store_new();
    memset(&seen, 0, sizeof seen);
    violation_store_subscribe(w->violations, on_violations, NULL);
    client.worker = w;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    snapshot_unref(w->snapshot);
    violation_store_free(w->violations);
    ev_loop_destroy(w->loop);
    free(w);
    return 0;
}

/* Nobody is asked here. */
static bool authorised(const char *host, uint16_t port)
{
    enum authorisation given = request_authorise(&r, w, NULL, host, strlen(host), port, NULL, NULL);
    assert_true(given == AUTHORISATION_GIVEN || given == AUTHORISATION_DENIED);
    return given == AUTHORISATION_GIVEN;
}

/* A request to `host` under this user name (NULL: none), denied. */
static void deny(const char *user, size_t n, const char *host)
{
    request_begin(&r, &client, VIA_CONNECT);
    if (user != NULL)
        request_set_user(&r, user, n);
    assert_false(authorised(host, 443));
}

static void end(void)
{
    request_end(&r, w, ERR_POLICY);
    assert_null(r.key);
    assert_null(r.snapshot);
}

static void assert_seen(const char *line, const char *encoded, const char *command)
{
    assert_string_equal(seen.line, line);
    assert_string_equal(seen.encoded, encoded);
    assert_string_equal(seen.command, command);
}

static void test_every_kind_of_refusal_is_recorded(void **state)
{
    struct buf reason;

    (void)state;
    deny(NULL, 0, "no.test");
    assert_seen("deny network-outbound no.test:443 (host is not on the allow list)", "(none)",
                "(none)");
    request_violation_http(&r, w, "GET", 3, "http://no.test/", "why");
    assert_seen("deny http-request GET http://no.test/ (why)", "(none)", "(none)");
    request_violation_socks(&r, w);
    assert_seen("deny socks-tunnel no.test:443 (refuseOpaqueTunnels)", "(none)", "(none)");
    buf_init(&reason, 256);
    request_deny_addresses(&r, w, 1u << ADDRESS_LOOPBACK, &reason);
    assert_string_equal(buf_cstr(&reason), "resolved to a loopback address");
    assert_seen("deny network-outbound no.test:443 (resolved to a loopback address)", "(none)",
                "(none)");
    buf_free(&reason);
    end();
    deny(NULL, 0, "a..b");
    assert_seen("deny network-outbound a..b:443 (malformed host)", "(none)", "(none)");
    end();
    assert_int_equal(violation_store_total(w->violations), 5);
}

static void test_what_is_allowed_is_not(void **state)
{
    (void)state;
    request_begin(&r, &client, VIA_SOCKS5);
    assert_true(authorised("ok.test", 443));
    end();
    assert_int_equal(seen.count, 0);
}

static void test_keys_as_presented(void **state)
{
    (void)state;
    deny(USER("bHM="), "no.test");
    assert_seen("deny network-outbound no.test:443 (host is not on the allow list)", "bHM=", "ls");
    assert_string_equal(r.record.user, "ls");
    end();
    deny(USER("bHM"), "no.test");
    assert_string_equal(seen.encoded, "bHM");
    end();
    deny("srt", 3, "no.test");
    assert_string_equal(seen.encoded, "(none)");
    assert_null(r.record.user);
    end();
}

static void test_those_without_a_key_are_the_commands(void **state)
{
    static const struct {
        const char *user;
        size_t n;
        const char *encoded, *command, *recorded;
    } rows[] = {
        {NULL, 0, "bHMgLWw=", "ls -l", "ls -l"},   {"srt", 3, "bHMgLWw=", "ls -l", "ls -l"},
        {"root", 4, "bHMgLWw=", "ls -l", "ls -l"}, {USER("bHMgLWw"), "bHMgLWw", "ls -l", "ls -l"},
        {USER("bHM="), "bHM=", "ls", "ls"},
    };

    (void)state;
    w->attribution = "ls -l";
    for (size_t i = 0; i < COUNT(rows); i++) {
        deny(rows[i].user, rows[i].n, "no.test");
        assert_string_equal(seen.encoded, rows[i].encoded);
        assert_string_equal(seen.command, rows[i].command);
        assert_string_equal(r.record.user, rows[i].recorded);
        end();
    }
}

/* A key is cut to 100 units, the command it stands for is not. */
static void test_a_long_command(void **state)
{
    char command[301];
    struct buf encoded, user;

    (void)state;
    memset(command, 'x', 300);
    memcpy(command + 200, "make it quiet", 13);
    command[300] = '\0';
    w->attribution = command;
    deny(NULL, 0, "no.test");
    assert_int_equal(strlen(r.record.user), 100);
    end();
    assert_int_equal(seen.count, 0);

    buf_init(&encoded, 1024);
    buf_init(&user, 1024);
    attribution_encode(&encoded, &user, command, strlen(command));
    deny(buf_chars(&user), buf_len(&user), "no.test");
    end();
    assert_int_equal(seen.count, 0);
    buf_free(&encoded);
    buf_free(&user);

    deny(USER("bHM="), "no.test");
    end();
    assert_int_equal(seen.count, 1);
}

static void test_suppression_changes_no_decision(void **state)
{
    (void)state;
    deny(NULL, 0, "quiet.test");
    assert_int_equal(r.record.verdict, RECORD_DENY);
    end();
    assert_int_equal(seen.count, 0);
}

/* The filter is the one the request started under. */
static void test_a_request_keeps_its_settings(void **state)
{
    struct snapshot *old = w->snapshot;

    (void)state;
    request_begin(&r, &client, VIA_CONNECT);
    w->snapshot = settings("");
    snapshot_unref(old);
    assert_false(authorised("quiet.test", 443));
    end();
    assert_int_equal(seen.count, 0);
    deny(NULL, 0, "quiet.test");
    end();
    assert_int_equal(seen.count, 1);
}

static void test_rules_judge_what_the_lists_allow(void **state)
{
    static const struct {
        const char *method, *target;
        enum err err;
        const char *rule, *reason;
    } rows[] = {
        {"GET", "/a", ERR_NONE, "network.allowedDomains[0]", NULL},
        {"PUT", "/a/b", ERR_POLICY, "network.rules[1]", "read only"},
        {"PUT", "/a%2fb", ERR_AMBIGUOUS_TARGET, "network.rules[1]", "ambiguous request-target"},
        {"DELETE", "", ERR_POLICY, "network.rules[2]", REQUEST_DENIED},
        {"PATCH", "*", ERR_NONE, "network.allowedDomains[0]", NULL},
    };
    struct snapshot *old = w->snapshot;

    (void)state;
    w->snapshot = settings_of(
        ",\"rules\":[{\"host\":\"ok.test\",\"methods\":[\"GET\"],\"action\":\"allow\"},"
        "{\"host\":\"*\",\"methods\":[\"PUT\"],\"paths\":[\"/a/*\"],\"action\":\"deny\","
        "\"reason\":\"read only\"},{\"host\":\"ok.test\",\"methods\":[\"DELETE\"],"
        "\"action\":\"deny\"},{\"host\":\"no.test\",\"action\":\"allow\"}]",
        "");
    snapshot_unref(old);
    for (size_t i = 0; i < COUNT(rows); i++) {
        request_begin(&r, &client, VIA_HTTP);
        assert_true(authorised("ok.test", 80));
        assert_int_equal(request_judge(&r, rows[i].method, strlen(rows[i].method), rows[i].target,
                                       strlen(rows[i].target)),
                         rows[i].err);
        assert_int_equal(r.record.verdict, rows[i].err == ERR_NONE ? RECORD_ALLOW : RECORD_DENY);
        assert_string_equal(r.record.rule, rows[i].rule);
        assert_true((r.record.reason == NULL) == (rows[i].reason == NULL));
        if (rows[i].reason != NULL)
            assert_string_equal(r.record.reason, rows[i].reason);
        end();
    }
    /* A rule opens nothing. */
    request_begin(&r, &client, VIA_HTTP);
    assert_false(authorised("no.test", 80));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_kind_of_refusal_is_recorded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_allowed_is_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_keys_as_presented, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_those_without_a_key_are_the_commands, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_long_command, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_suppression_changes_no_decision, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_request_keeps_its_settings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rules_judge_what_the_lists_allow, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
