#include "certs/pem.h"

#include <string.h>

#include <openssl/crypto.h>
#include <openssl/err.h>

#include "base/text.h"

enum { LABEL_MAX = 64, LINE_BYTES = 48 };

static const char begin[] = "-----BEGIN ";
static const char end[] = "-----END ";
static const char dashes[] = "-----";

static bool starts(const char *p, const char *limit, const char *with, size_t n)
{
    return (size_t)(limit - p) >= n && memcmp(p, with, n) == 0;
}

static bool is_label_byte(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == ' ';
}

/* The label that begins at p, if it ends in dashes; its length, 0 for none. */
static size_t label_length(const char *p, const char *limit)
{
    size_t n = 0;

    while (n <= LABEL_MAX && p + n < limit && is_label_byte(p[n]))
        n++;
    return n <= LABEL_MAX && starts(p + n, limit, dashes, strlen(dashes)) ? n : 0;
}

void pem_start(struct pem *pem, const void *text, size_t n)
{
    const char *at = n != 0 ? text : "";
    *pem = (struct pem){.at = at, .end = at + n};
}

/* Moves to the next begin line and behind its label. */
static bool next_label(struct pem *pem, const char **label, size_t *n)
{
    while (pem->at < pem->end) {
        const char *line = memmem(pem->at, (size_t)(pem->end - pem->at), begin, strlen(begin));
        if (line == NULL)
            break;
        pem->at = *label = line + strlen(begin);
        *n = label_length(*label, pem->end);
        if (*n != 0) {
            pem->at += *n + strlen(dashes);
            return true;
        }
    }
    return false;
}

/* A body holds no five dashes: the next ones have to be its end line. This keeps the scan linear.
 */
bool pem_next(struct pem *pem, struct pem_block *block)
{
    while (next_label(pem, &block->label, &block->label_len)) {
        block->body = pem->at;
        const char *line = memmem(pem->at, (size_t)(pem->end - pem->at), dashes, strlen(dashes));
        if (line == NULL)
            return false;
        block->body_len = (size_t)(line - block->body);
        pem->at = line;
        if (!starts(line, pem->end, end, strlen(end)))
            continue;
        line += strlen(end);
        size_t n = label_length(line, pem->end);
        if (n != block->label_len || memcmp(line, block->label, n) != 0)
            continue;
        pem->at = line + n + strlen(dashes);
        return true;
    }
    return false;
}

bool pem_is(const struct pem_block *block, const char *label)
{
    return strlen(label) == block->label_len && memcmp(label, block->label, block->label_len) == 0;
}

bool pem_is_certificate(const struct pem_block *block)
{
    return pem_is(block, "CERTIFICATE") || pem_is(block, "X509 CERTIFICATE");
}

bool pem_names(const void *text, size_t n, const char *word)
{
    size_t length = strlen(word);
    struct pem pem;
    const char *label;
    size_t label_len;

    pem_start(&pem, text, n);
    while (next_label(&pem, &label, &label_len)) {
        if (label_len < length || memcmp(label + label_len - length, word, length) != 0)
            continue;
        size_t i = 0;
        while (i < label_len && (label[i] < '0' || label[i] > '9'))
            i++;
        if (i == label_len)
            return true;
    }
    return false;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Behind the empty line that ends the headers. */
static const char *behind_headers(const char *p, const char *limit)
{
    if (memchr(p, ':', (size_t)(limit - p)) == NULL)
        return p;
    bool empty = false; /* the line so far, if a line end has been seen */
    for (; p < limit; p++) {
        if (*p == '\n' && empty)
            return p;
        if (*p == '\n')
            empty = true;
        else if (!is_blank(*p))
            empty = false;
    }
    return limit;
}

bool pem_decode(const struct pem_block *block, struct buf *der)
{
    const char *limit = block->body + block->body_len;
    struct buf compact;
    bool ok = false;

    buf_init(&compact, block->body_len + 1);
    /* Both are reserved at once: growing would leave a copy behind. */
    char *to = (char *)buf_reserve(&compact, block->body_len + 1);
    size_t n = 0;
    for (const char *p = behind_headers(block->body, limit); p < limit; p++)
        if (!is_blank(*p))
            to[n++] = *p;
    if (n != 0 && buf_reserve(der, n) != NULL)
        ok = text_base64_decode(der, to, n) && buf_len(der) != 0;
    buf_commit(&compact, n);
    buf_wipe(&compact);
    return ok;
}

X509 *pem_certificate(const struct pem_block *block)
{
    X509 *certificate = NULL;
    struct buf der;

    buf_init(&der, block->body_len);
    if (pem_decode(block, &der)) {
        const unsigned char *p = buf_data(&der);
        certificate = d2i_X509(NULL, &p, (long)buf_len(&der));
        if (certificate != NULL && p != buf_data(&der) + buf_len(&der)) {
            X509_free(certificate);
            certificate = NULL;
        }
    }
    ERR_clear_error();
    buf_free(&der);
    return certificate;
}

bool pem_append(struct buf *out, const char *label, const void *der, size_t n)
{
    const uint8_t *p = der;

    /* Asked for before the first byte: what is appended is whole. */
    if (buf_reserve(out, 2 * (strlen(begin) + strlen(label) + 6) + n / 3 * 4 + n / LINE_BYTES +
                             8) == NULL)
        return false;
    buf_printf(out, "%s%s%s\n", begin, label, dashes);
    for (size_t i = 0; i < n; i += LINE_BYTES) {
        text_base64(out, p + i, n - i < LINE_BYTES ? n - i : LINE_BYTES);
        buf_puts(out, "\n");
    }
    return buf_printf(out, "%s%s%s\n", end, label, dashes);
}

bool pem_append_certificate(struct buf *out, X509 *certificate)
{
    unsigned char *der = NULL;
    int n = i2d_X509(certificate, &der);
    bool ok = n > 0 && pem_append(out, "CERTIFICATE", der, (size_t)n);

    OPENSSL_free(der);
    return ok;
}
