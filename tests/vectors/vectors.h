/* Vector runners: one function a file of vectors, each judging one row. */
#ifndef TESTS_VECTORS_H
#define TESTS_VECTORS_H

#include <stdbool.h>

#include <jansson.h>

#include "base/buf.h"

/* True when the row passes; else *why says what was got and wanted. */
typedef bool vector_row(const json_t *row, struct buf *why);

struct vector_file {
    const char *name; /* "host-canonical" */
    vector_row *run;
};

/* Each ends with a {NULL, NULL}. */
extern const struct vector_file vectors_policy[];   /* vectors_policy.c */
extern const struct vector_file vectors_http[];     /* vectors_http.c */
extern const struct vector_file vectors_settings[]; /* vectors_settings.c */
extern const struct vector_file vectors_tls[];      /* vectors_tls.c */
extern const struct vector_file vectors_hello[];    /* vectors_hello.c */

#endif
