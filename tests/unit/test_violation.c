#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/policy/violation.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define SPAN(s) (s), sizeof(s) - 1

static void assert_taken(struct buf *out, const char *want)
{
    assert_string_equal(buf_cstr(out), want);
    buf_clear(out);
}

static void lines_have_their_form(void **state)
{
    struct buf out;
    (void)state;
    buf_init(&out, 4096);
    violation_network(&out, SPAN("OK.test."), 443, "host is on the deny list");
    assert_taken(&out, "deny network-outbound OK.test.:443 (host is on the deny list)");
    violation_network(&out, SPAN("[::1]"), 80, "r");
    assert_taken(&out, "deny network-outbound ::1:80 (r)");
    violation_network(&out, SPAN("[x"), 80, "r");
    assert_taken(&out, "deny network-outbound [x:80 (r)");
    violation_network(&out, SPAN(""), 0, "r");
    assert_taken(&out, "deny network-outbound :0 (r)");
    violation_socks(&out, SPAN("ok.test"), 22);
    assert_taken(&out, "deny socks-tunnel ok.test:22 (refuseOpaqueTunnels)");
    violation_request(&out, SPAN("GET"), "http://ok.test/x", "denied by sandbox policy");
    assert_taken(&out, "deny http-request GET http://ok.test/x (denied by sandbox policy)");
    buf_free(&out);
}

static void urls_show_no_query(void **state)
{
    static const struct {
        const char *target, *want;
    } cases[] = {
        {"/x", "http://ok.test/x"},
        {"/x?token=1", "http://ok.test/x?\xE2\x80\xA6"},
        {"/x?", "http://ok.test/x?\xE2\x80\xA6"},
        {"/x#a?b", "http://ok.test/x#\xE2\x80\xA6"},
        {"", "http://ok.test"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf out;
        buf_init(&out, 4096);
        violation_url(&out, "http", "ok.test", cases[i].target, strlen(cases[i].target));
        assert_string_equal(buf_cstr(&out), cases[i].want);
        buf_free(&out);
    }
}

static void keys_are_cut_and_encoded(void **state)
{
    char text[200], want[140];
    struct buf encoded, user;
    (void)state;
    buf_init(&encoded, 4096);
    buf_init(&user, 4096);
    attribution_encode(&encoded, &user, SPAN("ls"));
    assert_taken(&encoded, "bHM=");
    assert_taken(&user, "srt.bHM=");
    attribution_encode(&encoded, &user, SPAN(""));
    assert_taken(&encoded, "");
    assert_taken(&user, "srt");
    attribution_encode(&encoded, &user, SPAN("a\xFF"));
    assert_taken(&encoded, "Ye+/vQ==");
    assert_taken(&user, "srt.Ye+/vQ==");

    memset(text, 'k', sizeof text);
    attribution_encode(&encoded, &user, text, sizeof text);
    assert_int_equal(buf_len(&encoded), 136); /* of 100 bytes */
    snprintf(want, sizeof want, "%s", buf_cstr(&encoded));
    buf_clear(&encoded);
    text[150] = 'x'; /* a common start shares the key */
    attribution_encode(&encoded, &user, text, sizeof text);
    assert_taken(&encoded, want);
    buf_free(&encoded);
    buf_free(&user);
}

static void a_user_name_over_255_bytes_is_plain(void **state)
{
    char text[300];
    struct buf encoded, user;
    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "\xE6\x97\xA5"[i % 3];
    buf_init(&encoded, 4096);
    buf_init(&user, 4096);
    attribution_encode(&encoded, &user, text, 186); /* 248 characters of base64 */
    assert_int_equal(buf_len(&encoded), 248);
    assert_int_equal(buf_len(&user), 252);
    buf_clear(&user);
    buf_clear(&encoded);
    attribution_encode(&encoded, &user, text, 189); /* 252 */
    assert_int_equal(buf_len(&encoded), 252);
    assert_taken(&user, "srt");
    buf_free(&encoded);
    buf_free(&user);
}

static void user_names_present_a_key_or_none(void **state)
{
    char user[300];
    size_t n;
    (void)state;
    assert_null(attribution_encoded(SPAN("srt"), &n));
    assert_null(attribution_encoded(SPAN("srt."), &n));
    assert_null(attribution_encoded(SPAN("SRT.YQ=="), &n));
    assert_null(attribution_encoded(SPAN("xsrt.YQ=="), &n));
    assert_null(attribution_encoded(SPAN(""), &n));
    assert_ptr_equal(attribution_encoded("srt.YQ==", 8, &n)[3], '=');
    assert_int_equal(n, 4);
    memset(user, 'A', sizeof user);
    for (size_t i = 0; i < 4; i++)
        user[i] = "srt."[i];
    assert_non_null(attribution_encoded(user, 255, &n));
    assert_int_equal(n, 251);
    assert_null(attribution_encoded(user, 256, &n));
    assert_int_equal(n, 0);
}

static void decoding_is_lenient(void **state)
{
    static const struct {
        const char *encoded, *key;
    } cases[] = {
        {"YQ==", "a"},
        {"YQ", "a"},
        {"YQ=", "a"},
        {"Y", ""},
        {"YWJjZ", "abc"},
        {"!!!!", ""},
        {"Y Q", "a"},
        {"YQ==YQ", "a"},
        {"Pz8_Pj4-", "???"
                     ">>>"},
        {"/w==", "\xEF\xBF\xBD"},
        {"Y2Fmw6k=", "caf\xC3\xA9"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf key;
        buf_init(&key, 4096);
        attribution_decode(&key, cases[i].encoded, strlen(cases[i].encoded));
        assert_string_equal(buf_cstr(&key), cases[i].key);
        buf_free(&key);
    }
}

static void suppression_follows_command_and_text(void **state)
{
    static const struct {
        const char *line, *command;
        bool suppressed;
    } cases[] = {
        {"deny network-outbound telemetry.test:443 (x)", NULL, true},
        {"deny network-outbound telemetry.test:443 (x)", "anything", true},
        {"deny network-outbound registry.test:443 (x)", "npm install", true},
        {"deny network-outbound registry.test:443 (x)", "pip install", false},
        {"deny network-outbound registry.test:443 (x)", NULL, false},
        {"deny network-outbound other.test:443 (x)", "run npm install", false},
        {"deny network-outbound TELEMETRY.test:443 (x)", NULL, false},
    };
    struct violation_filter *f = violation_filter_new();
    (void)state;
    violation_filter_add(f, "*", "telemetry.test");
    violation_filter_add(f, "npm install", "nothing");
    violation_filter_add(f, "npm install", "registry.test");
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (violation_suppressed(f, cases[i].line, cases[i].command) != cases[i].suppressed)
            fail_msg("%s", cases[i].line);
    }
    assert_false(violation_suppressed(NULL, "telemetry.test", NULL));
    violation_filter_free(f);
    violation_filter_free(NULL);
}

struct seen {
    unsigned calls;
    size_t count;
    char first[64], last[64];
};

static void note(void *ctx, const struct violation *const *list, size_t count)
{
    struct seen *seen = ctx;
    seen->calls++;
    seen->count = count;
    if (count != 0) {
        snprintf(seen->first, sizeof seen->first, "%s", list[0]->line);
        snprintf(seen->last, sizeof seen->last, "%s", list[count - 1]->line);
    }
}

static void the_store_keeps_the_last_hundred(void **state)
{
    struct violation_store *s = violation_store_new();
    struct seen early = {0}, late = {0};
    char line[32];
    (void)state;
    violation_store_subscribe(s, note, &early);
    assert_int_equal(early.calls, 1);
    assert_int_equal(early.count, 0);
    for (int i = 0; i < 105; i++) {
        snprintf(line, sizeof line, "line %d", i);
        violation_store_add(s, NULL, line, NULL, NULL, 1.5);
    }
    assert_int_equal(early.calls, 106);
    assert_int_equal(early.count, 100);
    assert_string_equal(early.first, "line 5");
    assert_string_equal(early.last, "line 104");
    assert_int_equal(violation_store_total(s), 105);
    violation_store_subscribe(s, note, &late);
    assert_int_equal(late.count, 100);
    violation_store_clear(s);
    assert_int_equal(early.count, 0);
    assert_int_equal(late.calls, 2);
    assert_int_equal(violation_store_total(s), 105);
    violation_store_free(s);
    violation_store_free(NULL);
}

static void keep_record(void *ctx, const struct violation *const *list, size_t count)
{
    const struct violation **out = ctx;
    *out = count != 0 ? list[count - 1] : NULL;
}

static void records_hold_the_cleaned_line_and_the_key_as_presented(void **state)
{
    struct violation_store *s = violation_store_new();
    const struct violation *record = NULL;
    struct buf line;
    (void)state;
    violation_store_subscribe(s, keep_record, &record);
    buf_init(&line, 4096);
    violation_network(&line, SPAN("no.test\0\0.ok.test"), 443, "malformed <host>\n");
    violation_store_add(s, NULL, buf_cstr(&line), "bHM", "ls", 12.25);
    assert_string_equal(record->line,
                        "deny network-outbound no.test .ok.test:443 (malformed host )");
    assert_string_equal(record->encoded_command, "bHM");
    assert_string_equal(record->command, "ls");
    assert_true(record->time > 12.2 && record->time < 12.3);
    buf_free(&line);
    violation_store_free(s);
}

static void a_suppressed_record_leaves_no_trace(void **state)
{
    struct violation_store *s = violation_store_new();
    struct violation_filter *f = violation_filter_new();
    struct seen seen = {0};
    (void)state;
    violation_filter_add(f, "*", "<raw>"); /* compared before cleaning */
    violation_store_subscribe(s, note, &seen);
    violation_store_add(s, f, "deny <raw> x", NULL, NULL, 0);
    assert_int_equal(seen.calls, 1);
    assert_int_equal(violation_store_total(s), 0);
    violation_store_add(s, f, "deny raw x", NULL, NULL, 0);
    assert_int_equal(seen.count, 1);
    violation_filter_free(f);
    violation_store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_have_their_form),
        cmocka_unit_test(urls_show_no_query),
        cmocka_unit_test(keys_are_cut_and_encoded),
        cmocka_unit_test(a_user_name_over_255_bytes_is_plain),
        cmocka_unit_test(user_names_present_a_key_or_none),
        cmocka_unit_test(decoding_is_lenient),
        cmocka_unit_test(suppression_follows_command_and_text),
        cmocka_unit_test(the_store_keeps_the_last_hundred),
        cmocka_unit_test(records_hold_the_cleaned_line_and_the_key_as_presented),
        cmocka_unit_test(a_suppressed_record_leaves_no_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
