#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decider/decider.h"
#include "proxy/http/target.h"
#include "proxy/settings/load.h"
#include "proxy/settings/schema.h"
#include "proxy/settings/snapshot.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define LISTS "\"allowedDomains\":[\"ok.test\"],\"deniedDomains\":[\"no.test\"]"
#define FILES "\"filesystem\":{\"denyRead\":[],\"allowWrite\":[],\"denyWrite\":[]}"

static struct buf warnings, error;

static int set_up(void **state)
{
    (void)state;
    buf_init(&warnings, 1 << 20);
    buf_init(&error, 1 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_free(&warnings);
    buf_free(&error);
    return 0;
}

/* A document with this network (behind its lists) and this decider, "" for none. */
static json_t *document_of(const char *network, const char *decider)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    buf_printf(&text, "{\"network\":{" LISTS "%s}," FILES "%s%s}", network,
               decider[0] != '\0' ? ",\"decider\":" : "", decider);
    buf_clear(&error);
    buf_clear(&warnings);
    json_t *document = settings_parse(buf_cstr(&text), buf_len(&text), &error);
    if (document == NULL)
        fail_msg("%s: %s", buf_cstr(&text), buf_cstr(&error));
    buf_free(&text);
    return document;
}

static struct snapshot *build(const char *network, const char *decider, enum settings_use use,
                              const struct decider_lists *lists)
{
    struct issues issues;
    json_t *document = document_of(network, decider);
    if (!schema_validate(document, use, &issues))
        fail_msg("%s: %s", issues.list[0].path, issues.list[0].message);
    issues_free(&issues);
    struct snapshot *s = snapshot_build_with(document, use, false, lists, &warnings, &error);
    json_decref(document);
    return s;
}

#define PLACED(rest) "{\"exec\":\"d\",\"placements\":[{" rest "}]}"
#define BAD_HOST                                                                               \
    "decider.placements.0.host: Invalid host. Use one host name in lower case, or an address " \
    "(IPv6 unbracketed), without a port, e.g. \"github.com\"."
#define BAD_USER "decider.placements.0.user: User must not contain \":\" or control characters"

static void the_schema_is_strict(void **state)
{
    static const struct {
        const char *decider, *issues;
    } rows[] = {
        {"{}", ""},
        {"{\"exec\":\"d\"}", ""},
        {"{\"unix\":\"/run/d.sock\",\"proto\":2.0,\"level\":\"both\",\"timeoutMs\":10,"
         "\"placements\":[]}",
         ""},
        {"{\"proto\":1,\"level\":\"request\",\"timeoutMs\":600000}", ""},
        {"[]", "decider: Expected object, received array"},
        {"null", "decider: Expected object, received null"},
        {"{\"exec\":null}", "decider.exec: Expected string, received null"},
        {"{\"exec\":[\"d\"]}", "decider.exec: Expected string, received array"},
        {"{\"exec\":\" \"}", "decider.exec: Invalid command line: the decider's command is empty"},
        {"{\"exec\":\"d 'x\"}",
         "decider.exec: Invalid command line: the decider's command has an open '"},
        {"{\"exec\":\"d\\u0000\"}", "decider.exec: String must not contain a NUL character"},
        {"{\"exec\":\"d\",\"unix\":\"/d\"}",
         "decider: exec and unix exclude each other: a decider is started or connected to"},
        {"{\"unix\":\"d.sock\"}", "decider.unix: Socket path must be absolute"},
        {"{\"unix\":\"\"}", "decider.unix: Socket path must be absolute"},
        {"{\"unix\":\"/d\\u0000\"}", "decider.unix: String must not contain a NUL character"},
        {"{\"proto\":0}", "decider.proto: Number must be greater than or equal to 1"},
        {"{\"proto\":3}", "decider.proto: Number must be less than or equal to 2"},
        {"{\"proto\":\"2\"}", "decider.proto: Expected number, received string"},
        {"{\"proto\":1,\"level\":\"both\"}", "decider.level: Protocol 1 asks about requests only"},
        {"{\"proto\":1,\"level\":\"connection\"}",
         "decider.level: Protocol 1 asks about requests only"},
        {"{\"level\":\"all\"}", "decider.level: Invalid enum value. Expected 'connection' | "
                                "'request' | 'both', received 'all'"},
        {"{\"timeoutMs\":9}", "decider.timeoutMs: Number must be greater than or equal to 10"},
        {"{\"timeoutMs\":600001}",
         "decider.timeoutMs: Number must be less than or equal to 600000"},
        {"{\"timeoutMs\":10.5}", "decider.timeoutMs: Expected integer, received float"},
        {"{\"command\":\"d\"}", "decider: Unrecognized key(s) in object: 'command'"},
        {"{\"placements\":{}}", "decider.placements: Expected array, received object"},
        {PLACED(""), "decider.placements.0.scheme: Required"},
        {PLACED("\"scheme\":\"bearer\""), ""},
        {PLACED("\"scheme\":\"basic\",\"user\":\"\""), ""},
        {PLACED("\"scheme\":\"basic\",\"user\":\"\\u00fc ser\",\"class\":\"c\",\"host\":\"::1\""),
         ""},
        {PLACED("\"scheme\":\"digest\""), "decider.placements.0.scheme: Invalid enum value. "
                                          "Expected 'bearer' | 'basic', received 'digest'"},
        {PLACED("\"scheme\":\"basic\""),
         "decider.placements.0.user: Required with scheme \"basic\""},
        {PLACED("\"scheme\":\"bearer\",\"user\":\"u\""),
         "decider.placements.0.user: Goes with scheme \"basic\" only"},
        {PLACED("\"scheme\":\"basic\",\"user\":\"a:b\""), BAD_USER},
        {PLACED("\"scheme\":\"basic\",\"user\":\"a\\n\""), BAD_USER},
        {PLACED("\"scheme\":\"basic\",\"user\":\"a\\u0000\""), BAD_USER},
        {PLACED("\"scheme\":\"basic\",\"user\":\"\\u007f\""), BAD_USER},
        {PLACED("\"scheme\":\"basic\",\"user\":\"\\u0085\""), BAD_USER},
        {PLACED("\"scheme\":\"bearer\",\"class\":\"\""),
         "decider.placements.0.class: String must contain at least 1 character(s)"},
        {PLACED("\"scheme\":\"bearer\",\"host\":\"GitHub.com\""), BAD_HOST},
        {PLACED("\"scheme\":\"bearer\",\"host\":\"github.com.\""), BAD_HOST},
        {PLACED("\"scheme\":\"bearer\",\"host\":\"github.com:443\""), BAD_HOST},
        {PLACED("\"scheme\":\"bearer\",\"host\":\"*.github.com\""), BAD_HOST},
        {PLACED("\"scheme\":\"bearer\",\"host\":\"[::1]\""), BAD_HOST},
        {PLACED("\"scheme\":\"bearer\",\"host\":\"127.1\""), BAD_HOST},
        {PLACED("\"scheme\":\"bearer\",\"host\":\"\""), BAD_HOST},
        {PLACED("\"scheme\":\"bearer\",\"port\":1"),
         "decider.placements.0: Unrecognized key(s) in object: 'port'"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct issues issues;
        struct buf got;
        json_t *document = document_of("", rows[i].decider);
        bool valid = schema_validate(document, SETTINGS_GATEWAY, &issues);
        buf_init(&got, 1 << 20);
        for (size_t k = 0; k < issues.count; k++)
            buf_printf(&got, "%s%s: %s", k != 0 ? "; " : "", issues.list[k].path,
                       issues.list[k].message);
        if (strcmp(buf_cstr(&got), rows[i].issues) != 0)
            fail_msg("%s: \"%s\"", rows[i].decider, buf_cstr(&got));
        assert_int_equal(valid, rows[i].issues[0] == '\0');
        issues_free(&issues);
        json_decref(document);
        buf_free(&got);
    }
}

static void a_socket_path_has_to_fit(void **state)
{
    (void)state;
    for (int n = 107; n <= 108; n++) {
        struct issues issues;
        char text[200];
        snprintf(text, sizeof text, "{\"unix\":\"/%0*d\"}", n - 1, 0);
        json_t *document = document_of("", text);
        assert_int_equal(schema_validate(document, SETTINGS_GATEWAY, &issues), n == 107);
        issues_free(&issues);
        json_decref(document);
    }
}

static void a_sandbox_speaks_protocol_2(void **state)
{
    struct issues issues;
    (void)state;
    json_t *document = document_of("", "{\"exec\":\"d\",\"proto\":1}");
    assert_false(schema_validate(document, SETTINGS_SANDBOX, &issues));
    assert_int_equal(issues.count, 1);
    assert_string_equal(issues.list[0].path, "decider.proto");
    assert_string_equal(
        issues.list[0].message,
        "A sandbox speaks protocol 2 with its decider. Protocol 1 is for srt proxy.");
    issues_free(&issues);
    json_decref(document);

    struct snapshot *s = build("", "{\"exec\":\"d\"}", SETTINGS_SANDBOX, NULL);
    assert_int_equal(s->decider_proto, 2);
    snapshot_unref(s);
}

static void a_sandbox_has_no_other_decider(void **state)
{
    (void)state;
    assert_null(build("", "{\"level\":\"both\"}", SETTINGS_SANDBOX, NULL));
    assert_string_equal(
        buf_cstr(&error),
        "Error: decider: exec or unix is needed, to start a decider or to connect to one\n");
    struct snapshot *s = build("", "{\"level\":\"both\"}", SETTINGS_GATEWAY, NULL);
    assert_non_null(s);
    snapshot_unref(s);
}

static void defaults(void **state)
{
    (void)state;
    struct snapshot *s = build("", "", SETTINGS_GATEWAY, NULL);
    assert_int_equal(s->decider_proto, 0);
    assert_null(s->decider_exec);
    assert_null(s->decider_unix);
    assert_int_equal(s->decider_level, 0);
    assert_int_equal(s->decider_timeout_ms, 5000);
    assert_null(s->placements);
    assert_false(s->proxy_only || s->allow_plaintext_header_set);
    assert_int_equal(s->ambiguous_target, TARGET_REFUSE);
    snapshot_unref(s);

    s = build("", "{}", SETTINGS_GATEWAY, NULL);
    assert_int_equal(s->decider_proto, 2);
    assert_int_equal(s->decider_timeout_ms, 5000);
    snapshot_unref(s);
}

static void everything_arrives(void **state)
{
    (void)state;
    struct snapshot *s = build(",\"allowPlaintextHeaderSet\":true",
                               "{\"exec\":\"d -x 'a b'\",\"proto\":1,\"timeoutMs\":1e3,"
                               "\"placements\":[{\"class\":\"c\",\"host\":\"h.test\",\"scheme\":"
                               "\"basic\",\"user\":\"u\"},{\"scheme\":\"bearer\"}]}",
                               SETTINGS_GATEWAY, NULL);
    struct buf value;
    assert_string_equal(s->decider_exec, "d -x 'a b'");
    assert_null(s->decider_unix);
    assert_int_equal(s->decider_proto, 1);
    assert_int_equal(s->decider_timeout_ms, 1000);
    assert_true(s->allow_plaintext_header_set);
    buf_init(&value, 100);
    assert_true(placements_value(&value, s->placements, "c", "x", "h.test"));
    assert_true(placements_value(&value, s->placements, "github", "x", "github.com"));
    assert_string_equal(buf_cstr(&value), "Basic dTp4Bearer x");
    buf_free(&value);
    snapshot_unref(s);

    static const struct {
        const char *level;
        unsigned bits;
    } levels[] = {{"connection", DECIDER_CONNECTIONS},
                  {"request", DECIDER_REQUESTS},
                  {"both", DECIDER_CONNECTIONS | DECIDER_REQUESTS}};
    for (size_t i = 0; i < COUNT(levels); i++) {
        char text[100];
        snprintf(text, sizeof text, "{\"unix\":\"/d\",\"level\":\"%s\"}", levels[i].level);
        s = build("", text, SETTINGS_GATEWAY, NULL);
        assert_string_equal(s->decider_unix, "/d");
        assert_int_equal(s->decider_level, levels[i].bits);
        snapshot_unref(s);
    }

    static const struct {
        const char *name;
        enum target_mode mode;
    } modes[] = {{"refuse", TARGET_REFUSE},
                 {"asSpelled", TARGET_AS_SPELLED},
                 {"normalize", TARGET_NORMALIZE}};
    for (size_t i = 0; i < COUNT(modes); i++) {
        char text[100];
        snprintf(text, sizeof text, ",\"ambiguousRequestTarget\":\"%s\"", modes[i].name);
        s = build(text, "", SETTINGS_GATEWAY, NULL);
        assert_int_equal(s->ambiguous_target, modes[i].mode);
        snapshot_unref(s);
    }
}

static struct decision decide(const struct snapshot *s, const char *name)
{
    struct host host;
    struct decision d;
    policy_decide(s->policy, name, strlen(name), 443, NULL, &host, &d);
    return d;
}

static enum address_class judge(const struct snapshot *s, const char *text)
{
    static const struct host name = {.text = "one.test", .len = 8};
    struct address address;
    assert_true(address_parse(text, strlen(text), false, &address));
    return policy_judge_address(s->policy, &name, 443, &address, NULL);
}

static const char *const allowed[] = {"one.test", "no.test", "10.0.0.9", "*.wide.test:443"};
static const char *const denied[] = {"ok.test", "2001:db8::1"};

static void lists_of_a_hello_come_behind(void **state)
{
    static const struct decider_lists lists = {allowed, denied, COUNT(allowed), COUNT(denied),
                                               false};
    static const struct {
        const char *name, *list;
        size_t index;
    } rows[] = {
        {"one.test", "decider.allowedDomains", 0},   {"a.wide.test", "decider.allowedDomains", 3},
        {"no.test", "network.deniedDomains", 0},     {"ok.test", "decider.deniedDomains", 0},
        {"2001:db8::1", "decider.deniedDomains", 1}, {"other.test", NULL, 0},
    };
    (void)state;
    struct snapshot *s = build("", "", SETTINGS_GATEWAY, &lists);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct decision d = decide(s, rows[i].name);
        if (rows[i].list == NULL) {
            assert_null(d.list);
            continue;
        }
        assert_string_equal(d.list, rows[i].list);
        assert_int_equal(d.index, rows[i].index);
    }
    assert_int_equal(judge(s, "10.0.0.8"), ADDRESS_KEPT);
    assert_false(s->proxy_only);
    snapshot_unref(s);
}

static void a_strict_list_is_not_widened(void **state)
{
    static const struct decider_lists lists = {allowed, denied, COUNT(allowed), COUNT(denied),
                                               true};
    (void)state;
    struct snapshot *s = build(",\"strictAllowlist\":true", "", SETTINGS_GATEWAY, &lists);
    assert_int_equal(decide(s, "one.test").verdict, VERDICT_DENY);
    assert_int_equal(decide(s, "ok.test").verdict, VERDICT_DENY);
    assert_int_equal(judge(s, "10.0.0.9"), ADDRESS_LISTED);
    snapshot_unref(s);
}

static void who_decides_everything_opens_no_private_network(void **state)
{
    static const struct decider_lists lists = {allowed, denied, COUNT(allowed), COUNT(denied),
                                               true};
    static const char *const listed[] = {"10.0.0.8", "172.31.255.255", "192.168.1.1",
                                         "100.127.255.255", "fd12:3456:789a::1"};
    (void)state;
    struct snapshot *s = build("", "", SETTINGS_GATEWAY, &lists);
    assert_true(s->proxy_only);
    for (size_t i = 0; i < COUNT(listed); i++)
        assert_int_equal(judge(s, listed[i]), ADDRESS_LISTED);
    assert_int_equal(judge(s, "10.0.0.9"), ADDRESS_KEPT);
    assert_int_equal(judge(s, "172.32.0.1"), ADDRESS_KEPT);
    assert_int_equal(judge(s, "100.128.0.1"), ADDRESS_KEPT);
    assert_int_equal(judge(s, "2001:db8::1"), ADDRESS_DENY_LISTED);
    snapshot_unref(s);
}

static void an_update_changes_no_decider(void **state)
{
    static const struct decider_lists lists = {allowed, denied, COUNT(allowed), COUNT(denied),
                                               false};
    (void)state;
    struct snapshot *first =
        build(",\"allowPlaintextHeaderSet\":true,\"ambiguousRequestTarget\":\"normalize\"",
              "{\"exec\":\"first\",\"level\":\"both\",\"timeoutMs\":77,\"placements\":"
              "[{\"scheme\":\"basic\",\"user\":\"u\"}]}",
              SETTINGS_GATEWAY, NULL);
    struct snapshot *second = build("",
                                    "{\"unix\":\"/second\",\"level\":\"connection\",\"proto\":2,"
                                    "\"placements\":[]}",
                                    SETTINGS_GATEWAY, &lists);
    struct buf value;
    first->proxy_only = true;
    snapshot_keep_fixed(second, first);
    snapshot_unref(first);
    assert_string_equal(second->decider_exec, "first");
    assert_null(second->decider_unix);
    assert_int_equal(second->decider_level, DECIDER_CONNECTIONS | DECIDER_REQUESTS);
    assert_int_equal(second->decider_timeout_ms, 77);
    assert_true(second->allow_plaintext_header_set && second->proxy_only);
    assert_int_equal(second->ambiguous_target, TARGET_NORMALIZE);
    buf_init(&value, 100);
    assert_true(placements_value(&value, second->placements, "c", "x", "h.test"));
    assert_string_equal(buf_cstr(&value), "Basic dTp4");
    buf_free(&value);
    assert_string_equal(decide(second, "one.test").list, "decider.allowedDomains");
    snapshot_unref(second);
}

static void names_to_strip_are_added(void **state)
{
    static const char *const names[] = {"X_Trace.Id", "b"};
    (void)state;
    struct snapshot *s = build("", "", SETTINGS_GATEWAY, NULL);
    snapshot_strip_headers(s, NULL, 0);
    assert_null(s->strip_response_headers);
    snapshot_strip_headers(s, names, 1);
    snapshot_strip_headers(s, names + 1, 1);
    assert_string_equal(s->strip_response_headers[0], "x-trace-id");
    assert_string_equal(s->strip_response_headers[1], "b");
    assert_null(s->strip_response_headers[2]);
    snapshot_unref(s);
}

static void the_ca_may_come_from_elsewhere(void **state)
{
    (void)state;
    assert_null(build(",\"tlsTerminate\":{}", "", SETTINGS_GATEWAY, NULL));
    struct snapshot *s = build(",\"tlsTerminate\":{}", "", SETTINGS_GATEWAY_CA, NULL);
    assert_non_null(s);
    assert_true(s->tls_terminate);
    snapshot_unref(s);
}

static void requests_that_cannot_be_seen_are_warned_of(void **state)
{
#define UNSEEN                                                                                 \
    "srt: warning: decider.level: only plain HTTP requests can be asked about, since nothing " \
    "opens tunnels (network.tlsTerminate) or refuses them (network.refuseOpaqueTunnels)\n"
    static const struct {
        const char *network, *decider, *warnings;
    } rows[] = {
        {"", "{\"exec\":\"d\"}", ""},
        {"", "{\"exec\":\"d\",\"level\":\"connection\"}", ""},
        {"", "{\"exec\":\"d\",\"level\":\"request\"}", UNSEEN},
        {"", "{\"exec\":\"d\",\"level\":\"both\"}", UNSEEN},
        {"", "{\"exec\":\"d\",\"level\":\"request\",\"proto\":1}", ""},
        {",\"refuseOpaqueTunnels\":true", "{\"exec\":\"d\",\"level\":\"both\"}", ""},
        {",\"tlsTerminate\":{}", "{\"exec\":\"d\",\"level\":\"both\"}", ""},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct snapshot *s = build(rows[i].network, rows[i].decider, SETTINGS_GATEWAY_CA, NULL);
        assert_string_equal(buf_cstr(&warnings), rows[i].warnings);
        snapshot_unref(s);
    }
#undef UNSEEN
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_schema_is_strict),
        cmocka_unit_test(a_socket_path_has_to_fit),
        cmocka_unit_test(a_sandbox_speaks_protocol_2),
        cmocka_unit_test(a_sandbox_has_no_other_decider),
        cmocka_unit_test(defaults),
        cmocka_unit_test(everything_arrives),
        cmocka_unit_test(lists_of_a_hello_come_behind),
        cmocka_unit_test(a_strict_list_is_not_widened),
        cmocka_unit_test(who_decides_everything_opens_no_private_network),
        cmocka_unit_test(an_update_changes_no_decider),
        cmocka_unit_test(names_to_strip_are_added),
        cmocka_unit_test(the_ca_may_come_from_elsewhere),
        cmocka_unit_test(requests_that_cannot_be_seen_are_warned_of),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
