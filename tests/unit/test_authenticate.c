/* Proxy-Authorization: who is served, and what a request is attributed to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/text.h"
#include "proxy/http/authenticate.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define TOKEN "0123456789abcdef0123456789abcdef"

/* Judges a head with this field line (NULL: none); the attributed user goes to `user`. */
static bool judge(struct worker *w, const char *line, char user[64])
{
    struct request r = {0};
    struct head head;
    struct buf text;
    size_t scanned = 0;

    buf_init(&text, 4096);
    buf_printf(&text, "GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n%s\r\n",
               line != NULL ? line : "");
    head_init(&head);
    assert_int_equal(head_parse_request(&head, buf_data(&text), buf_len(&text), &scanned, 65536),
                     HEAD_OK);
    bool served = authenticate(w, &head, buf_data(&text), &r);
    user[0] = '\0';
    if (r.record.user != NULL)
        memcpy(user, r.record.user, strlen(r.record.user) + 1);
    record_free(&r.record);
    free(r.key);
    free(r.user);
    head_free(&head);
    buf_free(&text);
    return served;
}

/* The same for `user:password`. */
static bool judge_basic(struct worker *w, const char *credentials, char user[64])
{
    struct buf line;

    buf_init(&line, 4096);
    buf_puts(&line, "Proxy-Authorization: Basic ");
    text_base64(&line, credentials, strlen(credentials));
    buf_puts(&line, "\r\n");
    bool served = judge(w, buf_cstr(&line), user);
    buf_free(&line);
    return served;
}

static void test_credentials(void **state)
{
    static const struct {
        const char *credentials, *user;
        bool required; /* served when the token is required or optional */
        bool none;     /* served when there is no token */
    } rows[] = {
        {"srt:" TOKEN, "", true, true},     {"srt.bHM=:" TOKEN, "ls", true, true},
        {"anybody:" TOKEN, "", true, true}, {"srt.bHM=:wrong", "ls", false, true},
        {"srt:", "", false, true},          {"srt:" TOKEN "0", "", false, true},
        {":" TOKEN, "", false, true},       {"srt", "", false, true},
    };
    struct worker *w = mem_alloc(sizeof *w);
    char user[64];

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        w->token = TOKEN;
        w->token_optional = false;
        assert_int_equal(judge_basic(w, rows[i].credentials, user), rows[i].required);
        assert_string_equal(user, rows[i].required ? rows[i].user : "");
        /* What is presented has to be right, also where nothing need be presented. */
        w->token_optional = true;
        assert_int_equal(judge_basic(w, rows[i].credentials, user), rows[i].required);
        assert_string_equal(user, rows[i].required ? rows[i].user : "");
        w->token = NULL;
        w->token_optional = false;
        assert_int_equal(judge_basic(w, rows[i].credentials, user), rows[i].none);
        assert_string_equal(user, rows[i].user);
    }
    free(w);
}

static void test_without_credentials(void **state)
{
    static const char *const other[] = {
        "Proxy-Authorization: Bearer " TOKEN "\r\n", "Proxy-Authorization:\r\n",
        "Proxy-Authorization: Basic\r\n", "Proxy-Authorization: Basic !\r\n"};
    struct worker *w = mem_alloc(sizeof *w);
    char user[64];

    (void)state;
    assert_true(judge(w, NULL, user));
    w->token = TOKEN;
    assert_false(judge(w, NULL, user));
    w->token_optional = true;
    assert_true(judge(w, NULL, user));
    for (size_t i = 0; i < COUNT(other); i++)
        assert_false(judge(w, other[i], user));
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_credentials),
        cmocka_unit_test(test_without_credentials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
