/*
 * What a policy is made of. For policy.c, which decides by name, and guard.c,
 * which judges addresses; everyone else sees policy.h.
 */
#ifndef POLICY_COMPILED_H
#define POLICY_COMPILED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/policy/address.h"
#include "proxy/policy/pattern.h"

struct policy {
    struct pattern_list *allowed;
    struct pattern_list *denied;
    char **reasons; /* one an entry of `denied`, NULL where the user gave none */
    size_t reasons_room;
    struct address_set *ranges; /* deniedResolvedAddresses */
    bool strict;
    /* Where a decider's entries start; SIZE_MAX: there is none. */
    size_t decider_allowed, decider_denied;
};

#endif
