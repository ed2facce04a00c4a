/*
 * Settings as the proxy uses them: one immutable, reference-counted object
 * compiled from a file that passed the schema. A request keeps the snapshot it
 * started with. Chapter 10 sections 1 and 2; our own keys: srt-settings(5).
 */
#ifndef SETTINGS_SNAPSHOT_H
#define SETTINGS_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/limits.h"
#include "proxy/policy/pattern.h"
#include "proxy/policy/placement.h"
#include "proxy/policy/policy.h"
#include "proxy/policy/request_rules.h"
#include "proxy/policy/route.h"
#include "proxy/policy/violation.h"

struct snapshot {
    unsigned refs;
    struct snapshot *first; /* whose fixed fields these are (snapshot_keep_fixed()), or NULL */
    struct policy *policy;
    struct request_rules *request_rules; /* NULL: none */
    struct limits limits;
    struct routes *routes;
    struct violation_filter *ignore_violations; /* NULL: none */

    bool refuse_opaque_tunnels;
    bool require_host_match;
    bool allow_plaintext_header_set;
    uint8_t ambiguous_target; /* network.ambiguousRequestTarget: enum target_mode */
    bool proxy_only;          /* chapter 35 section 6: a decider of protocol 1 decides everything */
    char **strip_response_headers; /* folded, NULL-terminated; NULL: none */

    char *mitm_socket;                 /* NULL: none */
    struct pattern_list *mitm_domains; /* NULL: none */

    /* network.tlsTerminate */
    bool tls_terminate;
    struct pattern_list *tls_exclude, *tls_only; /* NULL: none, all */
    uint32_t tls_max_tunnels, tls_handshake_ms;
    char *tls_ca_certificate, *tls_ca_key; /* paths; NULL: a CA of this run alone */
    char **tls_extra;                      /* extraCaCertPaths; NULL: none */

    /* "decider" key, ours */
    char *decider_exec, *decider_unix; /* NULL, both: no decider by the settings */
    unsigned decider_proto;            /* 1 or 2; 0: there is no such key */
    unsigned decider_level;            /* enum of decider/decider.h, bits; 0: what its hello asks */
    uint32_t decider_timeout_ms;       /* for each verdict */
    struct placements *placements;     /* of credentials; NULL: the default ones */

    bool mask_credentials; /* any credentials entry with mode mask */

    /* "proxy" key, ours */
    char **listen;             /* HOST:PORT or unix:PATH, NULL-terminated; NULL: none */
    bool listen_any_interface; /* proxy.listenAnyInterface */
    char *token_file;          /* proxy.auth.tokenFile, NULL: none */
    char *log_file;            /* proxy.log, "-" stdout, NULL: none */
    char **dns_servers;        /* proxy.dns.servers, NULL: the system's */
    bool dns_hosts;            /* proxy.dns.hostsFile, default true */
};

/* What a decider's hello adds to the settings; borrowed. */
struct decider_lists {
    const char *const *allowed, *const *denied; /* valid by egress_entry_valid() */
    size_t allowed_count, denied_count;
    bool proxy_only; /* it decides everything: names lead to no private address either */
};

/* Which file is being read: what must be there differs (filesystem is needed by a sandbox). */
enum settings_use {
    SETTINGS_SANDBOX,    /* the whole schema of the peer */
    SETTINGS_GATEWAY,    /* `srt proxy`: filesystem may be absent */
    SETTINGS_GATEWAY_CA, /* the same, and the CA for tlsTerminate comes from elsewhere */
    SETTINGS_CHECK       /* `srt check`: filesystem may be absent when there is a "proxy" key */
};

/*
 * settings_load(), compiled. environment: whether parents come from the environment too. On failure
 * returns NULL and *error holds the lines to be shown (with their newlines). Warnings, each a line
 * with its newline, go to *warnings.
 */
struct snapshot *snapshot_load(const char *path, enum settings_use use, bool environment,
                               struct buf *warnings, struct buf *error);
/* The same from a document that passed schema_validate() for this use; *error then names the
 * settings at fault, a line each. */
struct snapshot *snapshot_build(const json_t *document, enum settings_use use, bool environment,
                                struct buf *warnings, struct buf *error);
/* The same with a decider's lists (NULL: none) behind those of the document. Its allowed entries
 * count nothing under strictAllowlist. */
struct snapshot *snapshot_build_with(const json_t *document, enum settings_use use,
                                     bool environment, const struct decider_lists *lists,
                                     struct buf *warnings, struct buf *error);
/*
 * Makes the fields of `s`, which nobody uses yet, that chapter 10 section 1 lists as fixed at start
 * those of `present`: all but the policy, the request rules, the violation filter and the MITM
 * socket with its domains.
 */
void snapshot_keep_fixed(struct snapshot *s, struct snapshot *present);
/* Adds names to strip_response_headers, as the user wrote them. For a snapshot nobody uses yet. */
void snapshot_strip_headers(struct snapshot *s, const char *const *names, size_t count);
struct snapshot *snapshot_ref(struct snapshot *s);
void snapshot_unref(struct snapshot *s);

#endif
