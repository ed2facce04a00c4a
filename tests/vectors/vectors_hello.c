/* Chapter 30 section 4.1: what a ClientHello says, and the name its certificate gets. */
#include "tests/vectors/vectors.h"

#include <string.h>

#include "proxy/tls/hello.h"

static const char *const kinds[] = {
    [HELLO_NAME] = "name", [HELLO_ABSENT] = "absent", [HELLO_UNREADABLE] = "unreadable"};

static unsigned digit(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void from_hex(struct buf *out, const char *hex, size_t n)
{
    buf_init(out, n);
    for (size_t i = 0; i + 1 < n; i += 2) {
        uint8_t byte = (uint8_t)(digit(hex[i]) << 4 | digit(hex[i + 1]));
        buf_append(out, &byte, 1);
    }
}

static bool expect(bool ok, struct buf *why, const char *what, const char *got)
{
    if (!ok)
        buf_printf(why, "%s: got %s; ", what, got);
    return ok;
}

/* leaf: null when the bytes are not TLS, else the two names a certificate may get. */
static bool leaf_agrees(const json_t *row, const struct client_hello *hello)
{
    const json_t *leaf = json_object_get(row, "leaf");
    if (!json_is_object(leaf))
        return true;
    const char *target = json_string_value(json_object_get(row, "target"));
    const char *name = hello->state == HELLO_NAME ? hello->name : target;
    return strcmp(json_string_value(json_object_get(leaf, "pinned")), target) == 0 &&
           strcmp(json_string_value(json_object_get(leaf, "free")), name) == 0;
}

static bool hello_row(const json_t *row, struct buf *why)
{
    const json_t *record = json_object_get(row, "record"), *sni = json_object_get(row, "sni");
    const char *kind = json_string_value(json_object_get(sni, "kind"));
    const char *name = json_string_value(json_object_get(sni, "name"));
    struct buf bytes;
    struct client_hello hello;
    from_hex(&bytes, json_string_value(record), json_string_length(record));
    bool tls = hello_sniff(buf_data(&bytes), buf_len(&bytes)) == SNIFF_TLS;
    client_hello_read(buf_data(&bytes), buf_len(&bytes), &hello);
    buf_free(&bytes);
    bool ok = expect(tls == json_is_true(json_object_get(row, "looksTls")), why, "looksTls",
                     tls ? "true" : "false");
    ok &= expect(kind != NULL && strcmp(kind, kinds[hello.state]) == 0, why, "kind",
                 kinds[hello.state]);
    ok &= expect(strcmp(name != NULL ? name : "", hello.name) == 0, why, "name", hello.name);
    ok &= expect(leaf_agrees(row, &hello), why, "leaf", hello.name);
    return ok;
}

const struct vector_file vectors_hello[] = {
    {"tls-client-hello", hello_row},
    {NULL, NULL},
};
