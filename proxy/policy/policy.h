/*
 * The policy: one immutable object compiled from the lists of the settings, and
 * the one authorisation call of the program. Exact names are found by hash,
 * wildcards by reversed labels, addresses by sorted ranges, so that 10,000
 * entries cost what 10 cost. Pure: no I/O, no globals. Chapter 10 sections 4-6.
 */
#ifndef POLICY_POLICY_H
#define POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/policy/address.h"
#include "proxy/policy/host.h"

struct policy;
struct pattern_list; /* compiled entries of one list, see pattern.h */

struct policy *policy_new(void);
void policy_free(struct policy *p);

/* Builders, before policy_seal(). Entries must have passed pattern_valid(), or
 * egress_entry_valid() for a decider's; the text is copied.
 * Order of calls is list order. reason may be NULL. */
void policy_allow(struct policy *p, const char *entry);
void policy_deny(struct policy *p, const char *entry, const char *reason);
void policy_deny_range(struct policy *p, const struct address_range *range);
void policy_set_strict(struct policy *p, bool strict);
/* What is added from here on comes from a decider's hello: decisions by it name
 * "decider.allowedDomains" and "decider.deniedDomains", counted from here. */
void policy_begin_decider(struct policy *p);
void policy_seal(struct policy *p);

enum verdict { VERDICT_ALLOW, VERDICT_DENY, VERDICT_ASK };

/* What decided. Strings live as long as the policy (or the extra list). */
struct decision {
    enum verdict verdict;
    const char *list;   /* "network.allowedDomains", "decider.deniedDomains" and so on, or NULL */
    size_t index;       /* of the entry in its list, when list is set */
    const char *entry;  /* its text, or NULL */
    const char *reason; /* of a denial, never NULL then: chapter 10 section 5, table */
};

/*
 * The decision for a client's host spelling and a port (1..65535). `policy` NULL
 * is "no policy loaded". `extra` is the allow list registered for the connection
 * (section 5.2), or NULL. VERDICT_ASK means no rule decides: with no ask hook
 * the caller denies with POLICY_NOT_LISTED. *canonical is filled as
 * host_canonicalise() does.
 */
void policy_decide(const struct policy *policy, const char *host, size_t n, uint16_t port,
                   const struct pattern_list *extra, struct host *canonical, struct decision *out);

#define POLICY_NOT_LISTED "host is not on the allow list"
#define POLICY_DENY_LISTED "host is on the deny list"
#define POLICY_MALFORMED "malformed host"
#define POLICY_UNAVAILABLE "sandbox policy unavailable"

/* The first deniedDomains entry that matches a canonical host, as a decision; false when none. */
bool policy_denied(const struct policy *policy, const struct host *host, uint16_t port,
                   struct decision *out);

/* Resolved-address classes in the priority order of section 6.1. ADDRESS_KEPT is not a class. */
enum address_class {
    ADDRESS_KEPT = 0,
    ADDRESS_DENY_LISTED,
    ADDRESS_LOOPBACK,
    ADDRESS_UNSPECIFIED,
    ADDRESS_LINK_LOCAL,
    ADDRESS_MULTICAST,
    ADDRESS_BROADCAST,
    ADDRESS_METADATA,
    ADDRESS_LISTED,
    ADDRESS_LOCAL,
    ADDRESS_NON_LOOPBACK,
    ADDRESS_UNPARSABLE,
    ADDRESS_CLASSES
};

/*
 * Judges one resolved address of a name, on the port to be dialled. `local` is
 * the set of this host's interface addresses (NULL: none known). Never call it
 * for an IP-literal destination: allowing that was explicit.
 */
enum address_class policy_judge_address(const struct policy *policy, const struct host *name,
                                        uint16_t port, const struct address *address,
                                        const struct address_set *local);

/* "a loopback address": the reason text of a class. */
const char *address_class_text(enum address_class c);

/* "resolved to a loopback address / a listed address" for a bit mask (1u << class), into out
 * (cut at size, always NUL-terminated). Returns the length. */
size_t address_reason(unsigned classes, char *out, size_t size);

#endif
