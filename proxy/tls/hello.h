/*
 * The server name and a few facts of a ClientHello, read before any TLS library
 * sees it. Pure. Chapter 30 sections 4.1, 5 (step 4) and 13 (item 9).
 */
#ifndef TLS_HELLO_H
#define TLS_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HELLO_MAX = 16384 + 5, HELLO_SNIFF_BYTES = 3, HELLO_NAME_MAX = 253 };

enum hello_sniff { SNIFF_MORE, SNIFF_TLS, SNIFF_NOT_TLS };
/* By the first three bytes. */
enum hello_sniff hello_sniff(const uint8_t *p, size_t n);

enum hello_name { HELLO_NAME, HELLO_ABSENT, HELLO_UNREADABLE };
struct client_hello {
    enum hello_name state;
    char name[HELLO_NAME_MAX + 1]; /* lower case, with HELLO_NAME */
    size_t name_len;
    bool ecdsa;  /* signature_algorithms lists ECDSA that a P-256 key can make, and the cipher
                    suites use it; or this cannot be told */
    bool alpn;   /* the extension is there */
    bool http11; /* and lists http/1.1 */
    bool h2;     /* and lists h2 */
    bool tls13;  /* supported_versions lists TLS 1.3 */
};

/* True once p[0..n) holds the whole ClientHello (all of its records, at most HELLO_MAX bytes), or
 * can no longer become one: then client_hello_read() says what there is. */
bool hello_complete(const uint8_t *p, size_t n);
/* Judges what there is; the client may have stopped. Reassembles a message split over records. */
void client_hello_read(const uint8_t *p, size_t n, struct client_hello *out);

#endif
