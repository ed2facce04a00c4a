/*
 * A DNS server that answers from a script, on the loop of the test: UDP and TCP
 * on one port of 127.0.0.1. What no rule covers does not exist.
 */
#ifndef TESTS_SCRIPTED_DNS_H
#define TESTS_SCRIPTED_DNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ev.h>

enum { QUERY_A = 1, QUERY_AAAA = 28 };
enum { RCODE_OK = 0, RCODE_SERVFAIL = 2, RCODE_NXDOMAIN = 3, RCODE_REFUSED = 5 };

enum dns_trick {
    TRICK_NONE,
    TRICK_SILENT,         /* no answer */
    TRICK_TRUNCATED,      /* an empty truncated answer over UDP, the whole one over TCP */
    TRICK_WRONG_ID,       /* another identifier, then nothing */
    TRICK_WRONG_QUESTION, /* the answer to another question, then nothing */
    TRICK_WRONG_OWNER,    /* records of another name */
    TRICK_GARBAGE,        /* a header, the question and noise */
    TRICK_SHORT,          /* the answer without its last byte */
    TRICK_NOT_A_RESPONSE, /* the QR bit is off */
    TRICK_EMPTY_FIRST,    /* an empty datagram before the answer */
    TRICK_ALIAS_LAST      /* the alias after the addresses it leads to */
};

struct dns_rule {
    const char *name;    /* without a final dot */
    unsigned type;       /* 0: both */
    const char *text;    /* addresses of the type asked, separated by spaces; NULL: none */
    const char *alias;   /* the addresses belong to this name */
    const char *numbers; /* "COUNT": 10.1.0.0 and on, or fd00::1:0 and on */
    int rcode;
    enum dns_trick trick;
    double delay;   /* seconds */
    unsigned times; /* how often it applies; 0: always */
};

struct scripted_dns;
/* The rules are borrowed and end with one without a name. */
struct scripted_dns *scripted_dns_new(struct ev_loop *loop, const struct dns_rule *rules);
void scripted_dns_free(struct scripted_dns *s);
/* "127.0.0.1:PORT" */
char *scripted_dns_address(struct scripted_dns *s);
/* Queries seen for a name (NULL: any) and type (0: any). */
unsigned scripted_dns_seen(const struct scripted_dns *s, const char *name, unsigned type);
/* The names asked, in order, of one type, joined by spaces. */
const char *scripted_dns_names(const struct scripted_dns *s, unsigned type);
unsigned scripted_dns_seen_tcp(const struct scripted_dns *s);

#endif
