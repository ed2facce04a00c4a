/*
 * Files of rules: whatever is taken makes answers that a proxy takes, to every
 * question; what is not says why, in lines of printable text.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "decider/frame.h"
#include "decider/message.h"
#include "decider/reference/rules_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const questions[] = {
    "{\"t\":\"conn\",\"id\":1,\"via\":\"connect\",\"host\":\"a.test\",\"port\":443,"
    "\"client\":\"local\",\"user\":\"u\"}",
    "{\"t\":\"conn\",\"id\":1,\"via\":\"socks\",\"host\":\"::1\",\"port\":1,\"client\":\"local\"}",
    "{\"t\":\"req\",\"id\":1,\"method\":\"GET\",\"host\":\"a.test\",\"port\":443,\"path\":\"/\"}",
    "{\"t\":\"req\",\"id\":1,\"method\":\"POST\",\"host\":\"b.a.test\",\"port\":80,"
    "\"path\":\"/a/b\",\"query\":\"q\",\"headers\":{\"x-a\":[\"1\"],\"x_b\":[]}}",
    "{\"t\":\"req\",\"id\":1,\"method\":\"PUT\",\"host\":\"a.test\",\"port\":443,"
    "\"path\":\"/%2e%2e/x\"}",
    "{\"t\":\"req\",\"id\":1,\"method\":\"PUT\",\"host\":\"..\",\"port\":443,\"path\":\"/\"}",
};

static void check_verdict(const struct decider_verdict *verdict)
{
    struct buf out;
    struct verdict_message m;
    const char *why;
    size_t length;
    buf_init(&out, FRAME_HEAD + FRAME_MAX);
    peer_verdict_write(&out, 1, verdict);
    assert(frame_next(buf_data(&out), buf_len(&out), FRAME_MAX, &length) == FRAME_OK);
    assert(length + FRAME_HEAD == buf_len(&out));
    assert(verdict_read(&m, 2, buf_data(&out) + FRAME_HEAD, length, &why));
    assert(m.id == 1 && m.verdict.action == verdict->action);
    assert(m.verdict.set_count == verdict->set_count);
    assert(m.verdict.removed_count == verdict->removed_count);
    assert(m.verdict.ttl_s == verdict->ttl_s);
    verdict_free(&m);
    buf_free(&out);
}

static void check_decision(const struct decider_rules *rules, const struct rule_decision *decision)
{
    assert(decision->rule < (long)rules->count);
    assert(decision->verdict->action == DECIDER_ALLOW || decision->verdict->action == DECIDER_DENY);
    check_verdict(decision->verdict);
}

static void ask(const struct decider_rules *rules, const char *question)
{
    static const uint8_t body[] = "a body";
    struct peer_message m;
    struct rule_result result;
    const char *why;
    if (!peer_message_read(&m, (const uint8_t *)question, strlen(question), &why))
        abort();
    decider_rules_decide(rules, &m, &result);
    check_decision(rules, &result.decision);
    assert((result.body_max != 0) == (result.candidate_count != 0));
    assert(result.body_max == 0 || m.kind == PEER_REQUEST);
    for (size_t n = 0; n < sizeof body && n <= result.body_max; n++) {
        bool cut = n == result.body_max;
        const struct rule_decision decision =
            decider_rules_decide_body(rules, &result, body, n, cut);
        check_decision(rules, &decision);
    }
    rule_result_free(&result);
    peer_message_free(&m);
}

static void check_hello(const struct decider_rules *rules)
{
    for (unsigned proto = 1; proto <= 2; proto++) {
        struct buf out;
        struct hello hello;
        const char *why;
        buf_init(&out, FRAME_HEAD + FRAME_MAX);
        peer_hello_write(&out, proto, rules->asks, rules->allowed, rules->allowed_count,
                         rules->denied, rules->denied_count);
        assert(hello_read(&hello, proto, buf_data(&out) + FRAME_HEAD, buf_len(&out) - FRAME_HEAD,
                          &why));
        assert(hello.allowed_count == rules->allowed_count);
        assert(hello.denied_count == rules->denied_count);
        assert(hello.asks == (proto == 1 ? (unsigned)DECIDER_REQUESTS : rules->asks));
        hello_free(&hello);
        buf_free(&out);
    }
}

static void check_error(struct buf *error)
{
    const uint8_t *p = buf_data(error);
    size_t n = buf_len(error);
    assert(n > 8 && p[n - 1] == '\n' && memcmp(p, "Error: r", 8) == 0);
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t bytes = text_utf8_decode(p + i, n - i, &code);
        assert(bytes != 0 && (code == '\n' || !text_is_unsafe(code)));
        i += bytes;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf error;
    char *text = mem_dup_n((const char *)data, size);
    buf_init(&error, SIZE_MAX / 2);
    struct decider_rules *rules = decider_rules_parse("r", text, size, &error);
    if (rules == NULL) {
        check_error(&error);
    } else {
        assert(buf_len(&error) == 0);
        check_hello(rules);
        for (size_t i = 0; i < rules->count; i++) {
            check_verdict(&rules->rules[i].request);
            check_verdict(&rules->rules[i].connection);
            assert(rules->rules[i].requests || rules->rules[i].connections);
        }
        for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++)
            ask(rules, questions[i]);
    }
    decider_rules_unref(rules);
    buf_free(&error);
    free(text);
    return 0;
}
