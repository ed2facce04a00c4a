/*
 * What a proxy sends to the reference decider: every answer is one that a proxy
 * takes, and how the bytes arrive changes none of them.
 *
 * Input: each line is the payload of a frame; one that begins with '!' is sent
 * as it is, without a length.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "decider/frame.h"
#include "decider/message.h"
#include "decider/reference/rules_file.h"
#include "decider/reference/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char rules_text[] =
    "{\"allowedDomains\":[\"a.test\"],\"deniedDomains\":[],\"rules\":["
    "{\"via\":[\"socks\"],\"action\":\"deny\",\"reason\":\"no\"},"
    "{\"host\":\"a.test\",\"ttl\":60,\"action\":\"allow\"},"
    "{\"methods\":[\"POST\"],\"body\":{\"max\":10,\"contains\":\"key\"},\"action\":\"deny\"},"
    "{\"methods\":[\"POST\"],\"paths\":[\"/n/**\"],\"action\":\"allow\"},"
    "{\"methods\":[\"GET\"],\"headers\":{\"x-a\":false},\"action\":\"allow\","
    "\"setHeaders\":{\"x-b\":\"1\"}}]}";

static void put_frames(struct buf *in, const uint8_t *p, size_t n)
{
    while (n != 0) {
        const uint8_t *end = memchr(p, '\n', n);
        size_t line = end != NULL ? (size_t)(end - p) : n;
        if (line != 0 && p[0] == '!') {
            buf_append(in, p + 1, line - 1);
        } else {
            size_t begun = frame_begin(in);
            buf_append(in, p, line);
            frame_end(in, begun);
        }
        line += end != NULL;
        p += line;
        n -= line;
    }
}

/* Gives the bytes in steps; the reason why it ended, or NULL. */
static const char *run(struct decider_rules *const *rules, const struct buf *in, size_t step,
                       struct buf *out)
{
    struct session *s = session_new(rules, NULL);
    const char *why = NULL;
    size_t at = 0, given = 0;
    while (why == NULL && given < buf_len(in)) {
        size_t used;
        given = given + step < buf_len(in) ? given + step : buf_len(in);
        bool well = session_answer(s, buf_data(in) + at, given - at, 0, &used, out, &why);
        assert(well == (why == NULL) && used <= given - at);
        at += used;
    }
    session_free(s);
    return why;
}

static void check_answers(const struct buf *out)
{
    const uint8_t *p = buf_data(out);
    size_t n = buf_len(out), length;
    unsigned proto = 0;
    for (size_t i = 0; i < n; i += FRAME_HEAD + length) {
        struct hello hello;
        struct verdict_message m;
        const char *why;
        assert(frame_next(p + i, n - i, FRAME_MAX, &length) == FRAME_OK);
        const uint8_t *payload = p + i + FRAME_HEAD;
        if (i == 0) {
            proto = hello_read(&hello, 1, payload, length, &why) ? 1 : 2;
            if (proto == 2)
                assert(hello_read(&hello, 2, payload, length, &why));
            hello_free(&hello);
            continue;
        }
        assert(verdict_read(&m, proto, payload, length, &why));
        verdict_free(&m);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf error, in, whole, pieces;
    if (size > 65536)
        return 0;
    buf_init(&error, 4096);
    buf_init(&in, 8 * size + 16);
    buf_init(&whole, SESSION_OUTPUT_MAX);
    buf_init(&pieces, SESSION_OUTPUT_MAX);
    struct decider_rules *rules =
        decider_rules_parse("r", rules_text, sizeof rules_text - 1, &error);
    assert(rules != NULL);
    put_frames(&in, data, size);
    const char *why = run(&rules, &in, SIZE_MAX / 2, &whole);
    check_answers(&whole);
    size_t step = size != 0 ? 1 + data[size - 1] % 40U : 1;
    const char *again = run(&rules, &in, step, &pieces);
    if (buf_len(&whole) < SESSION_OUTPUT_ENOUGH) {
        assert(why == again && buf_len(&whole) == buf_len(&pieces));
        assert(buf_len(&whole) == 0 ||
               memcmp(buf_data(&whole), buf_data(&pieces), buf_len(&whole)) == 0);
    }
    decider_rules_unref(rules);
    buf_free(&error);
    buf_free(&in);
    buf_free(&whole);
    buf_free(&pieces);
    return 0;
}
