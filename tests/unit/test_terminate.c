/* Which tunnels are terminated, and who is told that there are too many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proxy/http/terminate.h"
#include "proxy/settings/load.h"
#include "proxy/settings/schema.h"
#include "proxy/tls/accept.h"

static struct ca *ca;
static struct tls_server *server;
static struct worker *worker;

static int set_up(void **state)
{
    struct buf error;
    (void)state;
    buf_init(&error, 4096);
    ca = ca_create("terminate", &error);
    buf_free(&error);
    server = tls_server_new(ca, true);
    worker = mem_alloc(sizeof *worker);
    worker->loop = ev_loop_new(EVFLAG_AUTO);
    worker->violations = violation_store_new();
    worker->tls_server = server;
    return server == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    worker_forget_told(worker);
    violation_store_free(worker->violations);
    ev_loop_destroy(worker->loop);
    free(worker);
    tls_server_free(server);
    ca_unref(ca);
    return 0;
}

/* tls: the value of network.tlsTerminate, NULL: not there. */
static struct snapshot *settings(const char *tls)
{
    struct buf text, warnings, error;
    struct issues issues;
    buf_init(&text, 4096);
    buf_init(&warnings, 65536);
    buf_init(&error, 65536);
    buf_puts(&text, "{\"network\":{\"allowedDomains\":[\"ok.test\"],\"deniedDomains\":[]");
    if (tls != NULL)
        buf_printf(&text, ",\"tlsTerminate\":%s", tls);
    buf_puts(&text, "},\"filesystem\":{\"denyRead\":[],\"allowWrite\":[],\"denyWrite\":[]}}");
    json_t *document = settings_parse(buf_chars(&text), buf_len(&text), &error);
    assert_non_null(document);
    assert_true(schema_validate(document, SETTINGS_SANDBOX, &issues));
    issues_free(&issues);
    struct snapshot *s = snapshot_build(document, SETTINGS_SANDBOX, false, &warnings, &error);
    assert_non_null(s);
    json_decref(document);
    buf_free(&text);
    buf_free(&warnings);
    buf_free(&error);
    return s;
}

static bool applies(const struct snapshot *s, const char *name)
{
    struct host host;
    assert_int_equal(host_canonicalise(name, strlen(name), &host), HOST_OK);
    return terminate_applies(worker, s, &host);
}

static void test_which_hosts(void **state)
{
    static const struct {
        const char *tls, *host;
        bool terminated;
    } rows[] = {
        {NULL, "ok.test", false},
        {"{}", "ok.test", true},
        {"{}", "127.0.0.1", true},
        {"{\"excludeDomains\":[]}", "ok.test", true},
        {"{\"excludeDomains\":[\"ok.test\"]}", "ok.test", false},
        {"{\"excludeDomains\":[\"ok.test\"]}", "OK.TEST.", false},
        {"{\"excludeDomains\":[\"ok.test\"]}", "a.ok.test", true},
        {"{\"excludeDomains\":[\"*.ok.test\"]}", "a.b.ok.test", false},
        {"{\"excludeDomains\":[\"*.ok.test\"]}", "ok.test", true},
        {"{\"excludeDomains\":[\"127.0.0.1\"]}", "127.1", false},
        {"{\"excludeDomains\":[\"::1\"]}", "::1", false},
        {"{\"onlyHosts\":[]}", "ok.test", false},
        {"{\"onlyHosts\":[\"ok.test\"]}", "ok.test", true},
        {"{\"onlyHosts\":[\"ok.test\"]}", "two.test", false},
        {"{\"onlyHosts\":[\"*.ok.test\"],\"excludeDomains\":[\"b.ok.test\"]}", "b.ok.test", false},
        {"{\"onlyHosts\":[\"*.ok.test\"],\"excludeDomains\":[\"two.test\"]}", "a.ok.test", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct snapshot *s = settings(rows[i].tls);
        if (applies(s, rows[i].host) != rows[i].terminated)
            fail_msg("%s %s", rows[i].tls, rows[i].host);
        snapshot_unref(s);
    }
}

static void test_not_without_an_authority(void **state)
{
    struct snapshot *s = settings("{}");
    (void)state;
    worker->tls_server = NULL;
    assert_false(applies(s, "ok.test"));
    worker->tls_server = server;
    snapshot_unref(s);
}

/* What is fixed at the start, and what a later line changes. */
static void test_live_changes(void **state)
{
    struct snapshot *first = settings("{\"excludeDomains\":[\"ok.test\"],\"maxTunnels\":3,"
                                      "\"handshakeTimeoutMs\":500}");
    struct snapshot *with = settings("{\"excludeDomains\":[\"two.test\"],\"maxTunnels\":7}");
    struct snapshot *without = settings(NULL);
    (void)state;
    assert_int_equal(first->tls_max_tunnels, 3);
    assert_int_equal(first->tls_handshake_ms, 500);
    snapshot_keep_fixed(with, first);
    assert_true(applies(with, "ok.test"));
    assert_false(applies(with, "two.test"));
    assert_int_equal(with->tls_max_tunnels, 7);
    assert_int_equal(with->tls_handshake_ms, 10000);
    snapshot_keep_fixed(without, with);
    assert_true(applies(without, "ok.test"));
    assert_true(applies(without, "two.test"));
    assert_int_equal(without->tls_max_tunnels, 256);
    snapshot_unref(with);
    snapshot_unref(without);
    snapshot_unref(first);
}

static void tell(struct snapshot *s, const char *key)
{
    struct request r = {.snapshot = s, .port = 443, .key = (char *)(uintptr_t)key};
    assert_int_equal(host_canonicalise("ok.test", 7, &r.host), HOST_OK);
    terminate_note_full(worker, &r);
}

static uint64_t told(void)
{
    return violation_store_total(worker->violations);
}

static void test_each_command_is_told_once(void **state)
{
    struct snapshot *s = settings("{\"maxTunnels\":4}");
    (void)state;
    worker->terminated = 3;
    assert_false(terminate_is_full(worker, s));
    worker->terminated = 4;
    assert_true(terminate_is_full(worker, s));
    tell(s, "YQ==");
    tell(s, "YQ==");
    tell(s, NULL);
    tell(s, NULL);
    assert_int_equal(told(), 2);
    for (int i = 0; i < 2 * FULL_TOLD_MAX; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i % (FULL_TOLD_MAX - 2));
        tell(s, key);
    }
    assert_int_equal(told(), FULL_TOLD_MAX);
    tell(s, "one more"); /* the memory is cleared */
    assert_int_equal(told(), FULL_TOLD_MAX + 1);
    tell(s, "YQ==");
    tell(s, "one more");
    assert_int_equal(told(), FULL_TOLD_MAX + 2);
    worker_forget_told(worker);
    tell(s, "YQ==");
    assert_int_equal(told(), FULL_TOLD_MAX + 3);
    worker_forget_told(worker);
    worker->terminated = 0;
    snapshot_unref(s);
}

static void test_nothing_to_free(void **state)
{
    (void)state;
    inside_free(NULL);
    struct inside *in = mem_alloc(sizeof *in);
    in->server_name = mem_dup("ok.test");
    inside_free(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_hosts),     cmocka_unit_test(test_not_without_an_authority),
        cmocka_unit_test(test_live_changes),    cmocka_unit_test(test_each_command_is_told_once),
        cmocka_unit_test(test_nothing_to_free),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
