/*
 * The CA of a run that terminates TLS, the files that make the command trust
 * it, and those that it must not read. Chapter 30 sections 2, 3 and 13.
 */
#ifndef LAUNCHER_TRUST_H
#define LAUNCHER_TRUST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "certs/bundle.h"
#include "certs/ca.h"
#include "proxy/settings/snapshot.h"

enum { TRUST_KEYS_MAX = 2 };

struct trust {
    struct ca *ca; /* NULL: TLS is passed through */
    struct bundle bundle;
    char *certificate; /* the given file, absolute; NULL: none, or it holds a key */
    /* Absolute, NULL-terminated: files that hold a private key, hidden in the box. */
    char *keys[TRUST_KEYS_MAX + 1];
};

/* Loads or makes the CA, and writes the bundle, where the settings ask for it. Warnings are lines
 * with their newlines. False with a line in *error. trust_remove() in any case. */
bool trust_prepare(struct trust *t, const struct snapshot *s, struct buf *warnings,
                   struct buf *error);
void trust_remove(struct trust *t);

/* Our own files that the command reads whatever the rules hide; at most TRUST_READABLE_MAX of
 * them. Returns how many. */
enum { TRUST_READABLE_MAX = 4 };
size_t trust_readable(const struct trust *t, const char *readable[static TRUST_READABLE_MAX]);

#endif
