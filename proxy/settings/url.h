/* Whether a string is a URL: what the parser of the WHATWG URL standard takes without a base. */
#ifndef SETTINGS_URL_H
#define SETTINGS_URL_H

#include <stdbool.h>
#include <stddef.h>

/* s: UTF-8, any bytes. */
bool url_parses(const char *s, size_t n);

#endif
