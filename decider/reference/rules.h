/*
 * The rules of the reference decider: what they say about a connection or a
 * request. The first rule that applies decides. Pure. Their file is read by
 * rules_file.h; what it may hold stands in srt-decider(8).
 */
#ifndef DECIDER_REFERENCE_RULES_H
#define DECIDER_REFERENCE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "decider/decider.h"
#include "decider/peer_message.h"
#include "proxy/policy/path_pattern.h"
#include "proxy/policy/pattern.h"

enum { DECIDER_RULES_MAX = 1000 };

enum rule_via { RULE_CONNECT = 1, RULE_SOCKS = 2, RULE_HTTP = 4 };

struct rule_header {
    char *name; /* folded */
    bool present;
};

/* What a rule says about the first `max` bytes of a body; max 0: nothing. */
struct rule_body {
    uint32_t max;
    const char *contains; /* NULL: any byte at all will do, or, with `longer`, none */
    bool longer;          /* the body goes on past them */
};

struct decider_rule {
    size_t host;                /* index of its pattern among the distinct ones */
    bool connections, requests; /* what it applies to */

    const char **methods;
    size_t method_count; /* 0: every method */
    struct path_pattern **paths;
    size_t path_count; /* 0: every path */
    bool needs_query;  /* of its path patterns, one asks for a query */
    struct rule_header *headers;
    size_t header_count;
    struct rule_body body;

    unsigned via;     /* enum rule_via, bits; 0: every way */
    const char *user; /* NULL: with any or none */

    /* The answers. What they point to is the rule's. */
    struct decider_verdict connection, request;
    struct decider_header *set;
    char **removed;
};

struct decider_rules {
    unsigned refs;
    json_t *document; /* strings are borrowed from it */
    unsigned asks;    /* bits, of protocol 2 */
    const char **allowed, **denied;
    size_t allowed_count, denied_count;

    struct decider_rule *rules;
    size_t count;
    struct pattern_list *all;    /* the host pattern of each rule: where to begin */
    struct pattern_list **hosts; /* the distinct ones, a list each: asked once a question */
    size_t host_count;
    struct decider_verdict otherwise; /* when no rule applies */
};

struct decider_rules *decider_rules_ref(struct decider_rules *rules);
void decider_rules_unref(struct decider_rules *rules); /* NULL is fine */

/* Folded form of a header name: lower case, '_' and '.' read as '-'. In place. */
void rule_fold_name(char *name);

enum { RULE_NONE_APPLIED = -1, RULE_NOT_ASKED = -2 };

struct rule_decision {
    const struct decider_verdict *verdict; /* lives as long as the rules */
    long rule; /* its index; RULE_NONE_APPLIED, or RULE_NOT_ASKED when none could judge it */
};

/*
 * What came of a question. With body_max 0 it is decided. Otherwise that many bytes of the body
 * have to be seen: `candidates` are the rules that could apply by everything else, and `decision`
 * is what holds when none of them does.
 */
struct rule_result {
    struct rule_decision decision;
    uint32_t body_max;
    uint16_t *candidates;
    size_t candidate_count;
};

/* m: PEER_CONNECTION or PEER_REQUEST. */
void decider_rules_decide(const struct decider_rules *rules, const struct peer_message *m,
                          struct rule_result *result);
/* cut: the body goes on. */
struct rule_decision decider_rules_decide_body(const struct decider_rules *rules,
                                               const struct rule_result *result,
                                               const uint8_t *body, size_t n, bool cut);
void rule_result_free(struct rule_result *result);

#endif
