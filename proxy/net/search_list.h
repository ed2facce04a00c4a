/*
 * The walk over the names a look-up asks for one after the other: the name as
 * it is and with each domain of the search list, in the order and with the ends
 * of the C library's resolver. Pure.
 */
#ifndef NET_SEARCH_LIST_H
#define NET_SEARCH_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "proxy/net/dns_answer.h"
#include "proxy/net/resolv_conf.h"
#include "proxy/policy/host.h"

struct search_walk {
    const struct resolv_conf *conf; /* borrowed */
    const char *name;               /* borrowed */
    size_t next_domain;
    bool single_label;
    bool tried_as_is;
    bool on_domains; /* the candidate at hand came from the search list */
    bool over;
};

/* Starts the walk and gives the first candidate; there always is one. */
void search_start(struct search_walk *w, const struct resolv_conf *conf, const char *name,
                  char candidate[HOST_MAX + 1]);

/* The candidate after one that gave no address; false when the walk ends with that one. */
bool search_next(struct search_walk *w, enum dns_status previous, char candidate[HOST_MAX + 1]);

#endif
