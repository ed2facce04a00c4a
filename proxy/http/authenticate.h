/*
 * Proxy-Authorization: the run's token and the attribution key of the user
 * name. Chapter 20 section 2.1, chapter 10 section 9; RFC 7617.
 */
#ifndef HTTP_AUTHENTICATE_H
#define HTTP_AUTHENTICATE_H

#include <stdbool.h>

#include "proxy/egress/request.h"
#include "proxy/http/head.h"

/*
 * True when the first Proxy-Authorization field of the head (at p) holds the worker's token, when
 * the worker has none, or when there is no such field and the token is optional. The key that an
 * accepted user name presents, if any, goes into the request.
 */
bool authenticate(const struct worker *w, const struct head *h, const uint8_t *p,
                  struct request *r);

#endif
