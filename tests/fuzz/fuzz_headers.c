/* Rewritten heads parse again, hold no hop-by-hop field, say the framing that was asked for, and
 * have the edits that were asked for. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proxy/http/chunked.h"
#include "proxy/http/headers.h"

enum { LIMIT = 65536, ROOM = 1 << 20 };

static const char *const strip[] = {"x-secret", NULL};

static bool lists(const char *list, size_t n, const char *name, size_t name_len)
{
    for (size_t i = 0; i <= n; i++) {
        size_t from = i;
        while (i < n && list[i] != ',')
            i++;
        size_t to = i;
        while (from < to && (list[from] == ' ' || list[from] == '\t'))
            from++;
        while (from < to && (list[to - 1] == ' ' || list[to - 1] == '\t'))
            to--;
        if (to - from == name_len && strncasecmp(list + from, name, name_len) == 0)
            return true;
    }
    return false;
}

/* Names the input's Connection lists, and proxy-authorization however spelled, are gone. */
static void check_gone(const struct head *in, const uint8_t *p, const struct head *out,
                       const uint8_t *q)
{
    for (uint32_t i = 0; i < out->count; i++) {
        const struct field *f = &out->fields[i];
        const char *name = (const char *)q + f->name.at;
        char folded[64] = "";
        if (f->name.len < sizeof folded) {
            fold_name(folded, name, f->name.len);
            assert(strcmp(folded, "proxy-authorization") != 0);
            assert(strcmp(folded, "x-secret") != 0 || in->status == 0);
        }
        if (f->id != FIELD_OTHER)
            continue;
        size_t len;
        const char *list;
        for (uint32_t k = 0; (list = head_find(in, p, "connection", k, &len)) != NULL; k++)
            assert(!lists(list, len, name, f->name.len));
    }
}

static const char *const hop_by_hop[] = {
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
};

/* With folded_hop_by_hop: no spelling of such a name, and of none that Connection lists, is left
 * but for the fields of our own. */
static void check_gone_folded(const struct head *in, const uint8_t *p, const struct head *out,
                              const uint8_t *q)
{
    for (uint32_t i = 0; i < out->count; i++) {
        const struct field *f = &out->fields[i];
        char folded[64] = "", item[64];
        size_t len;
        const char *list;
        if (f->id != FIELD_OTHER || f->name.len >= sizeof folded)
            continue;
        fold_name(folded, (const char *)q + f->name.at, f->name.len);
        for (size_t k = 0; k < sizeof hop_by_hop / sizeof hop_by_hop[0]; k++)
            assert(strcmp(folded, hop_by_hop[k]) != 0);
        for (uint32_t k = 0; (list = head_find(in, p, "connection", k, &len)) != NULL; k++) {
            if (len >= sizeof item)
                continue;
            fold_name(item, list, len);
            assert(!lists(item, len, folded, f->name.len));
        }
    }
}

static void check_once(const struct head *h)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < h->count; i++) {
        if (h->fields[i].id != FIELD_ONCE)
            continue;
        uint32_t bit = UINT32_C(1) << h->fields[i].once;
        assert((seen & bit) == 0);
        seen |= bit;
    }
}

static uint32_t count_id(const struct head *h, unsigned id)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < h->count; i++)
        count += h->fields[i].id == id;
    return count;
}

/* Edits of which the names and values come from the input's fields: every third is removed, every
 * third set to a value of its own. What was asked for is kept to compare with. */
enum { EDITS_MAX = 24, NAME_MAX_LENGTH = 40 };

struct asked {
    char names[EDITS_MAX][NAME_MAX_LENGTH]; /* folded */
    bool set[EDITS_MAX];
    size_t count;
    bool credential;
};

static const char *const untouchable[] = {
    "host", "connection", "keep-alive", "proxy-connection", "transfer-encoding",
    "te",   "trailer",    "upgrade",    "content-length",
};

static bool is_untouchable(const char *folded)
{
    for (size_t i = 0; i < sizeof untouchable / sizeof untouchable[0]; i++)
        if (strcmp(folded, untouchable[i]) == 0)
            return true;
    return false;
}

/* Names that other rules remove or count whatever the edits say. */
static bool is_ours(const char *folded)
{
    return is_untouchable(folded) || strncmp(folded, "proxy-auth", 10) == 0;
}

static struct edits *make_edits(const struct head *h, const uint8_t *p, bool credential,
                                struct asked *asked)
{
    struct edits *e = edits_new();
    asked->count = 0;
    asked->credential = credential;
    for (uint32_t i = 0; i < h->count && asked->count < EDITS_MAX; i++) {
        const struct field *f = &h->fields[i];
        char name[NAME_MAX_LENGTH] = "", value[8];
        if (f->name.len >= sizeof name || i % 3 == 2)
            continue;
        memcpy(name, p + f->name.at, f->name.len);
        char *folded = asked->names[asked->count];
        memset(folded, 0, NAME_MAX_LENGTH);
        fold_name(folded, name, f->name.len);
        bool set = i % 3 == 0 && !is_ours(folded);
        if (set) {
            value[0] = (char)('a' + asked->count);
            value[1] = 0;
            edits_set(e, name, value);
        } else {
            edits_remove(e, name);
        }
        asked->set[asked->count++] = set;
    }
    if (credential)
        edits_set_credential(e, "Bearer c");
    return e;
}

static bool folds_to(const struct head *h, const uint8_t *p, uint32_t i, const char *folded)
{
    char name[NAME_MAX_LENGTH] = "";
    const struct field *f = &h->fields[i];
    if (f->name.len >= sizeof name)
        return false;
    fold_name(name, (const char *)p + f->name.at, f->name.len);
    return strcmp(name, folded) == 0;
}

static bool takes_credential(const char *folded)
{
    return strcmp(folded, "authorization") == 0 || strcmp(folded, "cookie") == 0 ||
           strcmp(folded, "x-api-key") == 0;
}

/* Of each name edited just what was set is there, each value once and in order. */
static void check_edits(const struct asked *asked, const struct head *out, const uint8_t *q)
{
    for (size_t i = 0; i < asked->count; i++) {
        const char *folded = asked->names[i];
        if (is_ours(folded))
            continue;
        char values[EDITS_MAX + 2] = "", seen[EDITS_MAX + 2] = "";
        size_t want = 0, have = 0;
        bool credential = asked->credential && takes_credential(folded);
        for (size_t k = 0; k < asked->count && !credential; k++)
            if (asked->set[k] && strcmp(asked->names[k], folded) == 0)
                values[want++] = (char)('a' + k);
        if (credential && strcmp(folded, "authorization") == 0)
            values[want++] = 'B';
        for (uint32_t k = 0; k < out->count; k++) {
            if (!folds_to(out, q, k, folded))
                continue;
            assert(have < sizeof seen - 1 && out->fields[k].value.len != 0);
            seen[have++] = (char)q[out->fields[k].value.at];
        }
        assert(strcmp(values, seen) == 0);
    }
    size_t len;
    const char *value = head_find(out, q, "authorization", 0, &len);
    if (asked->credential)
        assert(value != NULL && len == 8 && memcmp(value, "Bearer c", 8) == 0);
}

/* With edits: they hold, and framing and Host are what they were without. */
static void check_edited(const struct head *h, const uint8_t *p, const struct request_out *plain,
                         bool credential)
{
    struct request_out how = *plain;
    struct asked asked;
    struct edits *edits = make_edits(h, p, credential, &asked);
    struct buf out;
    struct head again;
    size_t scanned = 0;
    how.edits = edits;
    buf_init(&out, ROOM);
    head_init(&again);
    assert(headers_write_request(&out, h, p, &how));
    assert(head_parse_request(&again, buf_data(&out), buf_len(&out), &scanned, LIMIT * 2) ==
           HEAD_OK);
    assert(again.length == buf_len(&out) && again.host_count == 1);
    assert(again.framing == (how.framing == OUT_NONE     ? BODY_NONE
                             : how.framing == OUT_LENGTH ? BODY_LENGTH
                                                         : BODY_CHUNKED));
    assert(again.content_length == how.length);
    assert(again.connection_upgrade == (how.upgrade && headers_may_upgrade(h, p)));
    check_edits(&asked, &again, buf_data(&out));
    edits_free(edits);
    buf_free(&out);
    head_free(&again);
}

static void check_request(const struct head *h, const uint8_t *p, unsigned variant)
{
    bool upgrade = (variant & 1) != 0, folded = (variant & 2) != 0;
    struct buf out;
    struct head again;
    uint64_t length;
    size_t scanned = 0;
    struct request_out how = {.target = "/t", .target_len = 2, .host = "h.test"};
    how.framing = request_framing(h, p, &length);
    how.length = length;
    how.upgrade = upgrade;
    how.folded_hop_by_hop = folded;
    buf_init(&out, ROOM);
    head_init(&again);
    assert(headers_write_request(&out, h, p, &how));
    enum head_result result =
        head_parse_request(&again, buf_data(&out), buf_len(&out), &scanned, LIMIT * 2);
    const uint8_t *q = buf_data(&out);
    assert(result == HEAD_OK && again.length == buf_len(&out));
    assert(again.host_count == 1 && again.minor == 1);
    assert(again.framing == (how.framing == OUT_NONE     ? BODY_NONE
                             : how.framing == OUT_LENGTH ? BODY_LENGTH
                                                         : BODY_CHUNKED));
    assert(again.content_length == length);
    assert(h->framing == BODY_NONE || again.framing != BODY_NONE);
    bool may = upgrade && headers_may_upgrade(h, p);
    assert((count_id(&again, FIELD_UPGRADE) != 0) == may && again.connection_upgrade == may);
    for (unsigned id = FIELD_KEEP_ALIVE; id < FIELD_UPGRADE; id++)
        assert(id == FIELD_TRANSFER_ENCODING || count_id(&again, id) == 0);
    assert(count_id(&again, FIELD_COOKIE) <= 1);
    check_once(&again);
    check_gone(h, p, &again, q);
    if (folded)
        check_gone_folded(h, p, &again, q);
    check_edited(h, p, &how, (variant & 4) != 0);
    buf_free(&out);
    head_free(&again);
}

static void check_response(const struct head *h, const uint8_t *p, unsigned framing)
{
    struct buf out;
    struct head again;
    size_t scanned = 0;
    struct response_out how = {.framing = (enum out_framing)(framing % 5),
                               .length = 7,
                               .keep_alive = true,
                               .keep_alive_seconds = 5,
                               .strip = strip,
                               .date = "Sun, 06 Nov 1994 08:49:37 GMT"};
    buf_init(&out, ROOM);
    head_init(&again);
    assert(headers_write_response(&out, h, p, &how));
    assert(head_parse_response(&again, buf_data(&out), buf_len(&out), &scanned, LIMIT * 2) ==
           HEAD_OK);
    const uint8_t *q = buf_data(&out);
    assert(again.length == buf_len(&out) && again.status == h->status);
    assert(again.reason.len == h->reason.len);
    if (how.framing == OUT_LENGTH)
        assert(again.framing == BODY_LENGTH && again.content_length == 7);
    else if (how.framing == OUT_CHUNKED)
        assert(again.framing == BODY_CHUNKED);
    else if (how.framing != OUT_KEEP)
        assert(again.framing == BODY_CLOSE);
    assert(count_id(&again, FIELD_DATE) >= 1 && count_id(&again, FIELD_UPGRADE) == 0);
    assert(count_id(&again, FIELD_CONNECTION) == 1 && count_id(&again, FIELD_KEEP_ALIVE) == 1);
    assert(count_id(&again, FIELD_PROXY_AUTHENTICATE) == 0);
    check_once(&again);
    check_gone(h, p, &again, q);
    buf_clear(&out);
    assert(headers_write_interim(&out, h, p, strip));
    scanned = 0;
    assert(head_parse_response(&again, buf_data(&out), buf_len(&out), &scanned, LIMIT * 2) ==
           HEAD_OK);
    assert(again.framing == BODY_CLOSE && count_id(&again, FIELD_CONNECTION) == 0);
    buf_free(&out);
    head_free(&again);
}

static void check_trailers(const uint8_t *p, size_t n)
{
    struct head h, again;
    struct buf out;
    head_init(&h);
    head_init(&again);
    buf_init(&out, ROOM);
    if (trailers_parse(&h, p, n)) {
        assert(headers_write_trailers(&out, &h, p, strip));
        assert(trailers_parse(&again, buf_data(&out), buf_len(&out)));
        assert(again.count <= h.count);
        for (unsigned id = FIELD_CONNECTION; id <= FIELD_SET_COOKIE; id++)
            assert(count_id(&again, id) == 0);
        check_once(&again);
    }
    buf_free(&out);
    head_free(&h);
    head_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte chooses the variant, the rest is a head. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const uint8_t *p = data + 1;
    size_t n = size - 1, scanned = 0;
    struct head h;
    head_init(&h);
    enum head_result result = head_parse_request(&h, p, n, &scanned, LIMIT);
    if ((result == HEAD_OK || result == HEAD_NO_HOST) && !head_method_is(&h, p, "CONNECT"))
        check_request(&h, p, data[0]);
    scanned = 0;
    if (head_parse_response(&h, p, n, &scanned, LIMIT) == HEAD_OK)
        check_response(&h, p, data[0]);
    check_trailers(p, n);
    head_free(&h);
    return 0;
}
