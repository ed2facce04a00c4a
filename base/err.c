#include "base/err.h"

#include <assert.h>
#include <errno.h>

#define ALLOWLIST "blocked-by-allowlist"
#define SANDBOX "blocked-by-sandbox-runtime"
#define TARGET_BODY "malformed request-target"

static const struct err_info table[ERR_COUNT] = {
    [ERR_NONE] = {"done", 0, 0, 0, 0, 0, "done"},
    [ERR_POLICY] = {"policy", 403, 2, ALLOWLIST, "host_not_allowed",
                    "Connection blocked by network allowlist", "blocked by policy"},
    [ERR_ADDRESS] = {"address", 403, 2, SANDBOX, "address_not_allowed", 0,
                     "the name resolves only to addresses that are not allowed"},
    [ERR_OPAQUE_TUNNEL] = {"opaque-tunnel", 403, 1, SANDBOX, "opaque_tunnel",
                           "this proxy does not tunnel CONNECTs it cannot inspect",
                           "a tunnel that cannot be inspected"},
    [ERR_MISDIRECTED] = {"misdirected", 421, 2, SANDBOX, "misdirected", 0,
                         "Host does not name the destination"},
    [ERR_METHOD] = {"method", 405, 2, SANDBOX, "method_refused", 0,
                    "a method that makes servers send the request back"},
    [ERR_DENIED] = {"denied", 403, 2, SANDBOX, "decider", "denied by sandbox policy",
                    "denied by the decider"},
    [ERR_PLAINTEXT_SET] = {"plaintext-header-set", 403, 2, SANDBOX, "plaintext_header_set",
                           "the allow decision sets headers, and headers are not set on "
                           "plain-HTTP requests unless plaintext header sets are enabled; nothing "
                           "was forwarded",
                           "the decider sets headers of a request in clear text"},
    [ERR_HIDDEN_BODY] = {"bodyless-method-body", 403, 2, SANDBOX, "bodyless_method_body",
                         "the decider asked for the body of a request whose method has none, and "
                         "this one has",
                         "a body that the decider cannot be shown"},
    [ERR_DECIDER] = {"decider-unavailable", 503, 1, "decider-unavailable", "decider_unavailable",
                     "request decider unavailable", "no answer from the decider"},
    [ERR_AUTH] = {"auth", 407, 1, 0, 0, 0, "proxy credentials missing or wrong"},
    [ERR_TUNNELS] = {"too-many-tunnels", 503, 1, "too-many-tunnels", "too_many_tunnels",
                     "too many TLS-terminated tunnels at once",
                     "network.tlsTerminate.maxTunnels is reached"},

    [ERR_BAD_REQUEST] = {"bad-request", 400, 1, 0, "bad_request", 0, "request does not parse"},
    [ERR_BAD_AUTHORITY] = {"bad-authority", 400, 1, 0, "bad_request", 0,
                           "CONNECT target is not host:port"},
    [ERR_BAD_TARGET] = {"bad-target", 400, 1, SANDBOX, "bad_request", TARGET_BODY,
                        "request-target is not an absolute http or https URL"},
    [ERR_BAD_HOST] = {"bad-host", 400, 1, SANDBOX, "bad_request",
                      "destination host is not plain ASCII", "destination host is not plain ASCII"},
    [ERR_UNASKABLE] = {"unaskable", 400, 1, SANDBOX, "bad_request",
                       "request the decider cannot be asked about",
                       "a request that the decider cannot be asked about"},
    [ERR_AMBIGUOUS_TARGET] = {"ambiguous-target", 400, 1, "ambiguous-request-target", "bad_request",
                              "ambiguous request-target",
                              "request-target that a rule cannot judge"},
    [ERR_NO_HOST] = {"no-host", 400, 1, 0, "bad_request", 0, "HTTP/1.1 request without Host"},
    [ERR_EXPECTATION] = {"expectation", 417, 1, 0, "bad_request", 0,
                         "Expect other than 100-continue"},
    [ERR_HEAD_TOO_LARGE] = {"head-too-large", 431, 1, 0, "bad_request", 0,
                            "request head over its limit"},
    [ERR_HEAD_TIMEOUT] = {"head-timeout", 400, 1, 0, "bad_request", 0,
                          "request head not complete in time"},
    [ERR_BODY_TIMEOUT] = {"body-timeout", 400, 1, 0, "bad_request", 0,
                          "request body stopped moving"},

    [ERR_SOCKS_COMMAND] = {"socks-command", 0, 7, 0, 0, 0, "SOCKS command other than CONNECT"},
    [ERR_SOCKS_ADDRESS_TYPE] = {"socks-address-type", 0, 8, 0, 0, 0, "unknown SOCKS address type"},
    [ERR_SOCKS_PROTOCOL] = {"socks-protocol", 0, 1, 0, 0, 0, "not an acceptable SOCKS5 handshake"},
    [ERR_SOCKS_TIMEOUT] = {"socks-timeout", 0, 4, 0, 0, 0, "SOCKS handshake not done in time"},

    [ERR_UPSTREAM_DNS] = {"upstream-dns", 502, 4, "upstream-dns", "bad_gateway", "Bad Gateway",
                          "the name does not resolve"},
    [ERR_UPSTREAM_REFUSED] = {"upstream-refused", 502, 5, "upstream-refused", "bad_gateway",
                              "Bad Gateway", "connection refused"},
    [ERR_UPSTREAM_UNREACHABLE] = {"upstream-unreachable", 502, 3, "upstream-unreachable",
                                  "bad_gateway", "Bad Gateway", "network unreachable"},
    [ERR_UPSTREAM_HOST_UNREACHABLE] = {"upstream-unreachable", 502, 4, "upstream-unreachable",
                                       "bad_gateway", "Bad Gateway", "host unreachable"},
    [ERR_UPSTREAM_TIMEOUT] = {"upstream-timeout", 502, 4, "upstream-timeout", "bad_gateway",
                              "Bad Gateway", "no connection in time"},
    [ERR_UPSTREAM_TLS] = {"upstream-tls", 502, 4, "upstream-tls", "bad_gateway", "Bad Gateway",
                          "TLS handshake with the upstream failed"},
    [ERR_UPSTREAM_CERTIFICATE] = {"upstream-certificate", 502, 4, "upstream-certificate",
                                  "bad_gateway", "Bad Gateway",
                                  "the upstream's certificate does not verify"},
    [ERR_UPSTREAM_PROTOCOL] = {"upstream-protocol", 502, 4, "upstream-protocol", "bad_gateway",
                               "Bad Gateway", "the upstream's answer is not valid HTTP"},
    [ERR_UPSTREAM_PARENT] = {"upstream-parent", 502, 4, "upstream-parent", "bad_gateway",
                             "Bad Gateway", "the next hop refused or failed"},
    [ERR_UPSTREAM_BROKEN] = {"upstream-broken", 0, 4, 0, 0, 0,
                             "the upstream broke off in the middle of its answer"},

    [ERR_FIRST_BYTE_TIMEOUT] = {"first-byte-timeout", 0, 4, 0, 0, 0, "no first byte in time"},
    [ERR_CLIENT_TLS] = {"client-tls", 0, 4, 0, 0, 0, "the client's TLS handshake failed"},
    [ERR_CLIENT_TLS_TIMEOUT] = {"client-tls-timeout", 0, 4, 0, 0, 0,
                                "the client's TLS handshake was not done in time"},
    [ERR_IDLE_TIMEOUT] = {"idle", 0, 4, 0, 0, 0, "idle between requests"},
    [ERR_STALLED] = {"stalled", 0, 4, 0, 0, 0, "bytes waited too long for a side that took none"},
    [ERR_EARLY_DATA] = {"early-data", 0, 4, 0, 0, 0, "too much data before the tunnel was open"},
    [ERR_CLIENT_GONE] = {"client-gone", 0, 4, 0, 0, 0, "the client went away"},
    [ERR_SHUTDOWN] = {"shutdown", 0, 4, 0, 0, 0, "srt is stopping"},
    [ERR_OVERLOADED] = {"overloaded", 503, 4, "overloaded", 0, "this proxy is out of resources",
                        "out of descriptors, or of memory for slow peers"},
    [ERR_INTERNAL] = {"internal", 500, 4, 0, "bad_gateway", "Internal Server Error",
                      "internal error"},
};

const struct err_info *err_info(enum err e)
{
    assert(e < ERR_COUNT);
    return &table[e];
}

bool err_is_refusal(enum err e)
{
    return e >= ERR_POLICY && e <= ERR_AUTH;
}

bool err_is_upstream(enum err e)
{
    return e >= ERR_UPSTREAM_DNS && e <= ERR_UPSTREAM_BROKEN;
}

enum err err_from_errno(int number)
{
    switch (number) {
    case ECONNREFUSED:
        return ERR_UPSTREAM_REFUSED;
    case ENETUNREACH:
    case ENETDOWN:
        return ERR_UPSTREAM_UNREACHABLE;
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
    case EACCES:
    case EPERM:
        return ERR_UPSTREAM_HOST_UNREACHABLE;
    case ETIMEDOUT:
        return ERR_UPSTREAM_TIMEOUT;
    default:
        return ERR_UPSTREAM_PROTOCOL;
    }
}

const char *err_phrase(unsigned status)
{
    static const struct {
        uint16_t status;
        const char *phrase;
    } phrases[] = {
        {100, "Continue"},
        {101, "Switching Protocols"},
        {102, "Processing"},
        {103, "Early Hints"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {203, "Non-Authoritative Information"},
        {204, "No Content"},
        {205, "Reset Content"},
        {206, "Partial Content"},
        {207, "Multi-Status"},
        {208, "Already Reported"},
        {226, "IM Used"},
        {300, "Multiple Choices"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {305, "Use Proxy"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {402, "Payment Required"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {407, "Proxy Authentication Required"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Payload Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {418, "I'm a Teapot"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Entity"},
        {423, "Locked"},
        {424, "Failed Dependency"},
        {425, "Too Early"},
        {426, "Upgrade Required"},
        {428, "Precondition Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {451, "Unavailable For Legal Reasons"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {506, "Variant Also Negotiates"},
        {507, "Insufficient Storage"},
        {508, "Loop Detected"},
        {509, "Bandwidth Limit Exceeded"},
        {510, "Not Extended"},
        {511, "Network Authentication Required"},
    };
    for (unsigned i = 0; i < sizeof phrases / sizeof phrases[0]; i++)
        if (phrases[i].status == status)
            return phrases[i].phrase;
    return "Unknown";
}
