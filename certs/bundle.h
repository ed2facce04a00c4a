/*
 * What the command in a box trusts: the CA, the host's roots and extra ones,
 * certificates only, each once, as a PEM file and as a store for JVMs. Chapter
 * 30 sections 3 and 13.
 */
#ifndef CERTS_BUNDLE_H
#define CERTS_BUNDLE_H

#include <stdbool.h>

#include "base/buf.h"
#include "certs/ca.h"
#include "certs/run_directory.h"

struct bundle {
    struct run_directory ca, trust;
    char *ca_path; /* ca.crt of an ephemeral CA; NULL for a given one */
    char *path;    /* trust-bundle.crt */
    char *store;   /* trust-store.p12, PKCS #12 with the password TRUST_STORE_PASSWORD */
};

/* Writes the files into fresh directories under the temp directory, and clears what killed runs
 * left there. extra: paths, NULL-terminated, or NULL. False with a line in *error, nothing left
 * behind. */
bool bundle_write(struct ca *ca, bool ephemeral, char *const *extra, struct bundle *out,
                  struct buf *error);
/* Removes the files and directories, and frees. */
void bundle_remove(struct bundle *b);

#endif
