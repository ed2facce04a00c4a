/* Bytes as a settings file: parse, validate for every use, compile what is valid. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/settings/load.h"
#include "proxy/settings/schema.h"
#include "proxy/settings/snapshot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_one_line(const struct buf *text)
{
    return buf_len(text) == 0 || memchr(buf_chars(text), '\n', buf_len(text)) == NULL;
}

static bool are_lines(const struct buf *text)
{
    if (buf_len(text) == 0)
        return true;
    for (size_t i = 0; i < buf_len(text); i++)
        if (buf_data(text)[i] < 0x20 && buf_data(text)[i] != '\n')
            return false;
    return buf_data(text)[buf_len(text) - 1] == '\n';
}

static void compile(const json_t *document, enum settings_use use)
{
    struct buf warnings, error;
    struct host canonical;
    struct decision decision;
    buf_init(&warnings, 1 << 24);
    buf_init(&error, 1 << 24);
    struct snapshot *s = snapshot_build(document, use, false, &warnings, &error);
    assert((s == NULL) == (buf_len(&error) != 0));
    assert(are_lines(&warnings) && are_lines(&error));
    if (s != NULL) {
        policy_decide(s->policy, "a.test", 6, 443, NULL, &canonical, &decision);
        assert(decision.verdict != VERDICT_DENY || decision.reason != NULL);
    }
    snapshot_unref(s);
    buf_free(&warnings);
    buf_free(&error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum settings_use uses[] = {SETTINGS_SANDBOX, SETTINGS_GATEWAY, SETTINGS_CHECK};
    struct buf error;
    buf_init(&error, 4096);
    json_t *document = settings_parse((const char *)data, size, &error);
    assert((document == NULL) == (buf_len(&error) != 0));
    assert(document != NULL || is_one_line(&error));
    for (size_t i = 0; document != NULL && i < sizeof uses / sizeof uses[0]; i++) {
        struct issues issues;
        bool valid = schema_validate(document, uses[i], &issues);
        assert(valid == (issues.count == 0));
        for (size_t k = 0; k < issues.count; k++)
            assert(issues.list[k].path != NULL && issues.list[k].message[0] != '\0');
        issues_free(&issues);
        if (valid)
            compile(document, uses[i]);
    }
    json_decref(document);
    buf_free(&error);
    return 0;
}
