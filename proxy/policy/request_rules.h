/*
 * Request rules: which requests may be made to a host that the lists allow. For
 * requests whose method and path can be read, never for tunnels. Pure.
 *
 * A rule applies to a request when its host pattern, its methods and its paths
 * do (those it has). The first that applies decides; when none does, the request
 * is allowed, as it is without rules. A rule opens no host that the lists deny.
 *
 * A host gets a default of its own by a last rule without methods and paths.
 * Fetching from a git host, but not pushing to it:
 *
 *   {"host": "git.test", "methods": ["GET"], "action": "allow",
 *    "paths": ["(**)/info/refs?service=git-upload-pack"]},
 *   {"host": "git.test", "methods": ["POST"], "action": "allow",
 *    "paths": ["(**)/git-upload-pack"]},
 *   {"host": "git.test", "action": "deny", "reason": "read only"}
 *
 * where (**) is a slash and two stars. What a push needs, the service
 * git-receive-pack, no rule allows.
 */
#ifndef POLICY_REQUEST_RULES_H
#define POLICY_REQUEST_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/policy/host.h"

enum {
    REQUEST_RULES_MAX = 1000,
    REQUEST_RULE_METHODS_MAX = 100,
    REQUEST_RULE_PATHS_MAX = 100,
    REQUEST_METHOD_MAX = 64,
    REQUEST_REASON_MAX = 1000
};

/* A token (RFC 9110 section 9.1) of at most REQUEST_METHOD_MAX bytes. */
bool request_method_valid(const char *s, size_t n);

struct request_rule {
    const char *host; /* valid for PATTERN_DENIED: a pattern with or without a port, also "*" */
    const char *const *methods; /* compared without regard to case */
    size_t method_count;        /* 0: every method */
    const char *const *paths;   /* see path_pattern.h */
    size_t path_count;          /* 0: every path, as with a slash and two stars among them */
    bool allow;
    const char *reason; /* told to clients; NULL: none */
};

struct request_rules;
struct request_rules *request_rules_new(void);
void request_rules_free(struct request_rules *rules);
/* Before the seal, at most REQUEST_RULES_MAX; everything is copied. */
void request_rules_add(struct request_rules *rules, const struct request_rule *rule);
void request_rules_seal(struct request_rules *rules);

/* Whether any rule names this host and port. */
bool request_rules_concern(const struct request_rules *rules, const struct host *host,
                           uint16_t port);

enum rule_verdict {
    RULE_NONE, /* no rule applies */
    RULE_ALLOW,
    RULE_DENY,
    RULE_AMBIGUOUS /* whether a rule applies depends on how the target is read: to be refused */
};

/* Which rule decided, or could not. Strings live as long as the rules. */
struct rule_match {
    size_t index;
    const char *host;   /* its pattern */
    const char *reason; /* NULL: none given */
};

/*
 * host: canonical; target: path and query as the client spelled them (empty: "/"; "*" of OPTIONS
 * has no path). *out is filled but for RULE_NONE. Rules of other hosts cost next to nothing; the
 * target is read once, and compared with each path pattern that host and method leave.
 */
enum rule_verdict request_rules_decide(const struct request_rules *rules, const struct host *host,
                                       uint16_t port, const char *method, size_t method_len,
                                       const char *target, size_t target_len,
                                       struct rule_match *out);

#endif
