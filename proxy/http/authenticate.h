/*
 * Proxy-Authorization: the run's token and the attribution key of the user
 * name. Chapter 20 section 2.1, chapter 10 section 9; RFC 7617.
 */
#ifndef HTTP_AUTHENTICATE_H
#define HTTP_AUTHENTICATE_H

#include <stdbool.h>

#include "proxy/egress/record.h"
#include "proxy/http/head.h"

/*
 * True when the first Proxy-Authorization field of the head (at p) holds the token, or when none
 * is required (token NULL). The key that the user name presents, if any, goes into the record.
 */
bool authenticate(const char *token, const struct head *h, const uint8_t *p, struct record *record);

#endif
