/*
 * The decision log: one JSON line for each connection or request, saying who
 * asked for what, what decided, and how it ended. Never a URL, a header or a
 * resolved address. A record is small, since each idle tunnel carries one.
 * Fields and their meaning: srt-proxy(8).
 */
#ifndef EGRESS_RECORD_H
#define EGRESS_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/line_log.h"
#include "proxy/policy/policy.h"

/* How the request came in. */
enum record_via {
    VIA_NONE,    /* over before that was known */
    VIA_CONNECT, /* "connect": an HTTP CONNECT, tunnelled or about to be terminated */
    VIA_HTTP,    /* "http": a plain request */
    VIA_HTTPS,   /* "https": a request inside a terminated tunnel */
    VIA_SOCKS5   /* "socks5" */
};

enum record_verdict { RECORD_UNDECIDED, RECORD_ALLOW, RECORD_DENY };

enum record_client { CLIENT_LOCAL, CLIENT_UNIX, CLIENT_ADDRESS };

enum { RECORD_NO_STATUS = -1 };

/* Plain fields are set directly, the pointers only by the calls below: they are owned, cleaned and
 * cut. */
struct record {
    double started; /* Unix seconds */
    uint64_t bytes_up, bytes_down;
    char *host;
    char *user;   /* decoded attribution key */
    char *method; /* of a plain or decrypted request */
    char *rule;   /* "network.allowedDomains[3]" */
    char *entry;
    char *reason;
    struct address client_address;
    uint32_t address_classes; /* bit mask 1u << enum address_class of the refused addresses */
    uint16_t client_port;
    uint16_t port;
    int16_t status;  /* HTTP status or SOCKS reply that was sent */
    uint8_t client;  /* enum record_client */
    uint8_t via;     /* enum record_via */
    uint8_t verdict; /* enum record_verdict */
    uint8_t error;   /* enum err: an upstream failure */
    uint8_t close;   /* enum err: how it ended, ERR_NONE in order */
};

void record_init(struct record *r, double now);
/* Frees what the record owns and makes it empty. The one to call between two requests of a
 * connection is record_next(), which keeps client and user. */
void record_free(struct record *r);
void record_next(struct record *r, double now);

/* The peer's address as accept gave it; a Unix peer by its family. */
void record_set_client(struct record *r, const struct sockaddr_storage *peer);
/* A proxy user name as presented: keeps the attribution key in it, if there is one. */
void record_set_user(struct record *r, const char *user, size_t n);
/* The text of an attribution key, decoded already. */
void record_set_key(struct record *r, const char *key, size_t n);
/* Canonical, or as the client spelled it when there is no canonical form: any bytes. */
void record_set_host(struct record *r, const char *host, size_t n);
void record_set_method(struct record *r, const char *method, size_t n);
void record_set_reason(struct record *r, const char *reason);
/* Verdict, rule, entry and reason. VERDICT_ASK is recorded as a denial: nothing allowed it. */
void record_set_decision(struct record *r, const struct decision *d);

/* Appends the line and its newline. */
void record_format(struct buf *out, const struct record *r, double now);

/* The end of a request: its line goes to the log (NULL: none), and to the debug log in words; the
 * record is empty then. */
void record_finish(struct record *r, struct line_log *log, enum err close, double now);
/* Its line alone. Every field of a record is cut, so that it always fits. */
void record_log(struct line_log *log, const struct record *r, double now);

#endif
