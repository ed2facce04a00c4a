#include "proxy/policy/policy.h"

#include <stdlib.h>

#include "base/mem.h"
#include "proxy/policy/compiled.h"

struct policy *policy_new(void)
{
    struct policy *p = mem_alloc(sizeof *p);
    p->allowed = pattern_list_new(PATTERN_ALLOWED);
    p->denied = pattern_list_new(PATTERN_DENIED);
    p->ranges = address_set_new();
    p->decider_allowed = SIZE_MAX;
    p->decider_denied = SIZE_MAX;
    return p;
}

void policy_free(struct policy *p)
{
    if (p == NULL)
        return;
    for (size_t i = 0; i < pattern_list_count(p->denied); i++)
        free(p->reasons[i]);
    free(p->reasons);
    pattern_list_free(p->allowed);
    pattern_list_free(p->denied);
    address_set_free(p->ranges);
    free(p);
}

void policy_allow(struct policy *p, const char *entry)
{
    pattern_list_add(p->allowed, entry);
}

void policy_deny(struct policy *p, const char *entry, const char *reason)
{
    size_t index = pattern_list_count(p->denied);

    if (index == p->reasons_room) {
        p->reasons_room = p->reasons_room != 0 ? 2 * p->reasons_room : 16;
        p->reasons = mem_resize(p->reasons, p->reasons_room, sizeof *p->reasons);
    }
    p->reasons[index] = reason != NULL ? mem_dup(reason) : NULL;
    pattern_list_add(p->denied, entry);
}

void policy_deny_range(struct policy *p, const struct address_range *range)
{
    address_set_add(p->ranges, range);
}

void policy_set_strict(struct policy *p, bool strict)
{
    p->strict = strict;
}

void policy_begin_decider(struct policy *p)
{
    p->decider_allowed = pattern_list_count(p->allowed);
    p->decider_denied = pattern_list_count(p->denied);
}

void policy_seal(struct policy *p)
{
    pattern_list_seal(p->allowed);
    pattern_list_seal(p->denied);
    address_set_seal(p->ranges);
}

bool policy_denied(const struct policy *policy, const struct host *host, uint16_t port,
                   struct decision *out)
{
    *out = (struct decision){.verdict = VERDICT_ASK};
    long index = policy != NULL ? pattern_list_match(policy->denied, host, port) : -1;
    if (index < 0)
        return false;
    bool ours = (size_t)index < policy->decider_denied;
    const char *reason = policy->reasons[index];
    *out = (struct decision){
        .verdict = VERDICT_DENY,
        .list = ours ? "network.deniedDomains" : "decider.deniedDomains",
        .index = (size_t)index - (ours ? 0 : policy->decider_denied),
        .entry = pattern_list_entry(policy->denied, (size_t)index),
        .reason = reason != NULL ? reason : POLICY_DENY_LISTED,
    };
    return true;
}

/* Allows by the first entry of the list that matches; name is what reports call the list. */
static bool allowed_by(const struct pattern_list *list, const char *name, const struct host *host,
                       uint16_t port, struct decision *out)
{
    long index = pattern_list_match(list, host, port);

    if (index < 0)
        return false;
    *out = (struct decision){
        .verdict = VERDICT_ALLOW,
        .list = name,
        .index = (size_t)index,
        .entry = pattern_list_entry(list, (size_t)index),
    };
    return true;
}

void policy_decide(const struct policy *policy, const char *host, size_t n, uint16_t port,
                   const struct pattern_list *extra, struct host *canonical, struct decision *out)
{
    enum host_result result = host_canonicalise(host, n, canonical);

    *out = (struct decision){.verdict = VERDICT_DENY};
    if (policy == NULL) {
        out->reason = POLICY_UNAVAILABLE;
        return;
    }
    if (result != HOST_OK) {
        out->reason = POLICY_MALFORMED;
        return;
    }
    if (policy_denied(policy, canonical, port, out))
        return;
    if (allowed_by(policy->allowed, "network.allowedDomains", canonical, port, out)) {
        if (out->index >= policy->decider_allowed) {
            out->list = "decider.allowedDomains";
            out->index -= policy->decider_allowed;
        }
        return;
    }
    if (policy->strict) {
        *out = (struct decision){.verdict = VERDICT_DENY, .reason = POLICY_NOT_LISTED};
        return;
    }
    if (extra != NULL && allowed_by(extra, NULL, canonical, port, out))
        return;
    *out = (struct decision){.verdict = VERDICT_ASK};
}
