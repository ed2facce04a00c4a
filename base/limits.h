/*
 * Every limit and timeout of the proxy: name in the settings, default, bounds,
 * why. The two tables drive `struct limits`, the settings parser
 * (proxy.timeouts.<name>, proxy.limits.<name>), `srt check` and srt-settings(5).
 *
 *   X(field, "settingsKey", default, minimum, maximum, "what it bounds")
 *
 * Timeouts are milliseconds, limits are bytes or counts as the key says.
 * Sources: docs/design.md; RFC 8305 for the two dialling delays.
 */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <stdint.h>

#define TIMEOUTS(X)                                                                          \
    X(first_byte_ms, "firstByteMs", 10000, 10, 3600000,                                      \
      "from accept to the first byte of a client")                                           \
    X(request_head_ms, "requestHeadMs", 60000, 10, 3600000,                                  \
      "from the first byte of a request head to its last")                                   \
    X(request_body_ms, "requestBodyMs", 300000, 10, 86400000,                                \
      "without a byte of progress in a request body, or in an answer inside a tunnel")       \
    X(keep_alive_ms, "keepAliveMs", 6000, 10, 3600000,                                       \
      "idle between two requests of a client connection; the client is told a second less")  \
    X(socks_handshake_ms, "socksHandshakeMs", 10000, 10, 3600000,                            \
      "from the first byte of a SOCKS greeting to the end of its request")                   \
    X(socks_unauthenticated_ms, "socksUnauthenticatedMs", 5000, 10, 3600000,                 \
      "from the selected method to the request, for a client without a token")               \
    X(dial_ms, "dialMs", 30000, 10, 600000,                                                  \
      "name resolution, all connection attempts and a next hop's handshake together")        \
    X(attempt_delay_ms, "attemptDelayMs", 250, 10, 10000,                                    \
      "from one connection attempt to the next (RFC 8305 section 5)")                        \
    X(resolution_delay_ms, "resolutionDelayMs", 50, 0, 10000,                                \
      "that an A answer waits for the AAAA answer (RFC 8305 section 3)")                     \
    X(dns_query_ms, "dnsQueryMs", 2000, 10, 60000, "one try of one DNS query at one server") \
    X(expect_ms, "expectContinueMs", 1000, 10, 60000,                                        \
      "that an upstream has for answering Expect: 100-continue before the client is told")   \
    X(linger_ms, "lingerMs", 1000, 0, 60000,                                                 \
      "that the rest of a refused body, or of a client's bytes, is read before closing")     \
    X(client_hello_ms, "clientHelloMs", 5000, 10, 600000,                                    \
      "that a client has for its whole ClientHello in a tunnel that is terminated")          \
    X(first_request_ms, "firstRequestMs", 10000, 10, 600000,                                 \
      "from the handshake of a terminated tunnel to the end of its first request head")      \
    X(server_first_ms, "serverFirstMs", 1000, 10, 600000,                                    \
      "that a silent client of such a tunnel has before the server is asked to speak first") \
    X(upstream_idle_ms, "upstreamIdleMs", 5000, 10, 3600000,                                 \
      "that an idle connection to a server is kept for the next request")                    \
    X(drain_ms, "drainMs", 5000, 0, 86400000,                                                \
      "from SIGTERM until the connections still open are closed")                            \
    X(dead_peer_ms, "deadPeerMs", 10000, 10, 3600000,                                        \
      "between two looks at connections from which nothing is awaited")                      \
    X(accept_pause_ms, "acceptPauseMs", 100, 10, 60000,                                      \
      "that accepting rests when the process is out of descriptors")

#define LIMITS(X)                                                                                \
    X(request_head_bytes, "requestHeadBytes", 65536, 1024, 16777216,                             \
      "request head, request line included")                                                     \
    X(response_head_bytes, "responseHeadBytes", 65536, 1024, 16777216,                           \
      "response head, and a next hop's answer to CONNECT")                                       \
    X(trailer_bytes, "trailerBytes", 65536, 1024, 16777216, "trailer section of a chunked body") \
    X(early_data_bytes, "earlyDataBytes", 65536, 1024, 1048576,                                  \
      "bytes a client sends before its tunnel is established")                                   \
    X(refused_body_bytes, "refusedBodyBytes", 1048576, 0, 1073741824,                            \
      "body of a refused request that is read and dropped to keep its connection")               \
    X(connections, "connections", 16384, 1, 1000000,                                             \
      "client connections in all; past it accepting rests until one ends")                       \
    X(connections_per_client, "connectionsPerClient", 0, 0, 1000000,                             \
      "connections of one client address; a further one is closed; 0: no limit")                 \
    X(queued_bytes, "queuedBytes", 67108864, 65536, 1073741824,                                  \
      "held for slow peers by all connections, past which each is read in steps of 4 KiB")       \
    X(idle_upstreams, "idleUpstreams", 256, 0, 65536,                                            \
      "idle connections to servers kept in all; 0: none")                                        \
    X(auth_failures, "authFailures", 10, 1, 1000, "407 answers on one connection")               \
    X(interim_responses, "interimResponses", 64, 1, 1000, "1xx answers to one request")          \
    X(dns_addresses, "dnsAddresses", 64, 1, 1024, "addresses of one name that are considered")   \
    X(dns_tries, "dnsTries", 3, 1, 10, "tries of a DNS query over all servers")                  \
    X(dial_attempts, "dialAttempts", 16, 1, 256, "connection attempts of one dial")

struct limits {
#define LIMITS_FIELD(field, key, value, minimum, maximum, why) uint32_t field;
    TIMEOUTS(LIMITS_FIELD) LIMITS(LIMITS_FIELD)
#undef LIMITS_FIELD
};

/* The defaults of the tables above. */
extern const struct limits limits_default;

/* Fixed sizes that no setting changes. */
enum {
    RELAY_CHUNK = 65536,         /* most bytes moved by one read of a relay or a body */
    LISTEN_BACKLOG = 1024,       /* bounded further by net.core.somaxconn */
    ACCEPT_BATCH = 16,           /* connections taken in one wake-up, so that none starves */
    REASON_UNITS = 500,          /* UTF-16 units of a reason shown to a client */
    KEY_UNITS = 100,             /* UTF-16 units of an attribution key */
    SETTINGS_FILE_MAX = 16777216 /* bytes of a settings file */
};

#endif
