/*
 * One enum for everything that ends a request or a connection, and one table
 * that says how each shows: HTTP answer, SOCKS reply, headers, log token and
 * sentence. Nobody writes a status line by hand. Source: chapter 20 sections 3
 * and 5.2 of the contract, RFC 9110, RFC 1928 section 6.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdbool.h>
#include <stdint.h>

enum err {
    ERR_NONE = 0,

    /* Refusals: the policy, not the network. */
    ERR_POLICY,        /* denied by the lists */
    ERR_ADDRESS,       /* every resolved address is denied */
    ERR_OPAQUE_TUNNEL, /* refuseOpaqueTunnels */
    ERR_MISDIRECTED,   /* requireHostMatch */
    ERR_METHOD,        /* TRACE, TRACK */
    ERR_DENIED,        /* a decider's no to a request */
    ERR_PLAINTEXT_SET, /* a decider's headers for a request in clear text */
    ERR_HIDDEN_BODY,   /* a body that a decider cannot be shown: of GET, HEAD, OPTIONS */
    ERR_DECIDER,       /* the decider is away, late, or broke its protocol */
    ERR_AUTH,          /* token missing or wrong */
    ERR_TUNNELS,       /* tlsTerminate.maxTunnels */

    /* The client's fault. */
    ERR_BAD_REQUEST,      /* does not parse */
    ERR_BAD_AUTHORITY,    /* CONNECT target malformed */
    ERR_BAD_TARGET,       /* request-target malformed */
    ERR_BAD_HOST,         /* destination host is not plain ASCII, where it must be */
    ERR_UNASKABLE,        /* a request that no decider can be asked about */
    ERR_AMBIGUOUS_TARGET, /* request-target that a rule cannot judge */
    ERR_NO_HOST,          /* HTTP/1.1 without Host */
    ERR_EXPECTATION,      /* Expect other than 100-continue */
    ERR_HEAD_TOO_LARGE,   /* request head over its limit */
    ERR_HEAD_TIMEOUT,     /* request head not in within its time */
    ERR_BODY_TIMEOUT,     /* request body stopped moving */

    /* SOCKS alone. */
    ERR_SOCKS_COMMAND,      /* BIND, UDP ASSOCIATE, unknown */
    ERR_SOCKS_ADDRESS_TYPE, /* unknown ATYP */
    ERR_SOCKS_PROTOCOL,     /* not SOCKS5, no method, wrong password */
    ERR_SOCKS_TIMEOUT,      /* handshake not done in time */

    /* Upstream trouble: the network, not the policy. */
    ERR_UPSTREAM_DNS,
    ERR_UPSTREAM_REFUSED,
    ERR_UPSTREAM_UNREACHABLE,      /* the network */
    ERR_UPSTREAM_HOST_UNREACHABLE, /* the host, or why is not known */
    ERR_UPSTREAM_TIMEOUT,
    ERR_UPSTREAM_TLS,
    ERR_UPSTREAM_CERTIFICATE,
    ERR_UPSTREAM_PROTOCOL,
    ERR_UPSTREAM_PARENT,
    ERR_UPSTREAM_BROKEN, /* after the response head: reset, short or malformed body */

    /* Ends that are nobody's fault, for the log. */
    ERR_FIRST_BYTE_TIMEOUT,
    ERR_CLIENT_TLS,         /* a client's handshake with us failed */
    ERR_CLIENT_TLS_TIMEOUT, /* ... was not done in its time, or never begun */
    ERR_IDLE_TIMEOUT,
    ERR_STALLED,     /* inside a tunnel: bytes waited too long for a side that took none */
    ERR_EARLY_DATA,  /* too many bytes before the tunnel was there */
    ERR_CLIENT_GONE, /* reset or closed before its answer */
    ERR_SHUTDOWN,    /* srt is stopping */
    ERR_OVERLOADED,  /* out of descriptors, or of memory for slow peers */
    ERR_INTERNAL,    /* a bug of ours */

    ERR_COUNT
};

struct err_info {
    const char *token;       /* log: "policy", "upstream-refused", ... */
    uint16_t status;         /* HTTP status, 0: nothing is written, only closed */
    uint8_t socks;           /* SOCKS5 reply code */
    const char *proxy_error; /* X-Proxy-Error, NULL: none */
    const char *deny_reason; /* X-Deny-Reason of proxy mode, NULL: none */
    const char *body;        /* body of the HTTP answer, NULL: empty or made by the caller */
    const char *sentence;    /* for people */
};

const struct err_info *err_info(enum err e);

/* Standard reason phrase of an HTTP status (RFC 9110 section 15), "Unknown" for others. */
const char *err_phrase(unsigned status);

/* True for the first group: the policy said no. */
bool err_is_refusal(enum err e);

/* True for the upstream group: the fault of the network. */
bool err_is_upstream(enum err e);

/* The upstream error that an errno of connect, read or write stands for. */
enum err err_from_errno(int number);

#endif
