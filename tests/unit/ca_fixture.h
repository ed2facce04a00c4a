/*
 * Certification authorities of every kind for tests, made on the spot, files in
 * a directory that goes away, and programs to be run.
 */
#ifndef TESTS_CA_FIXTURE_H
#define TESTS_CA_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/buf.h"

enum fixture_kind {
    FIXTURE_EC,
    FIXTURE_RSA,
    FIXTURE_RSA_1024,
    FIXTURE_ED25519,
    FIXTURE_ED448 /* of a kind that nobody signs leaves with */
};

struct fixture_options {
    enum fixture_kind kind;
    const char *name;      /* NULL: "fixture" */
    int begin_days;        /* from now */
    int end_days;          /* from now; 0: a year */
    bool no_ca;            /* basicConstraints CA:FALSE */
    bool no_key_id;        /* neither subjectKeyIdentifier nor authorityKeyIdentifier */
    bool no_signing_usage; /* keyUsage without keyCertSign */
};

struct fixture {
    EVP_PKEY *key;
    X509 *certificate;
};

EVP_PKEY *fixture_key(enum fixture_kind kind);
/* issuer NULL: self-signed. */
struct fixture fixture_make(const struct fixture *issuer, const struct fixture_options *options);
void fixture_free(struct fixture *f);

void fixture_certificate_pem(struct buf *out, X509 *x);
/* PKCS #8. password NULL: in the clear. */
void fixture_key_pem(struct buf *out, EVP_PKEY *key, const char *password);
/* The older forms, "RSA PRIVATE KEY" and "EC PRIVATE KEY". */
void fixture_old_key_pem(struct buf *out, EVP_PKEY *key, const char *password);

/* Group set-up and tear-down: a directory, which TMPDIR then names. */
int fixture_directory_make(void **state);
int fixture_directory_remove(void **state);
extern char fixture_directory[64];

/* "<directory>/<name>"; one of a few buffers that are used in turn. */
const char *fixture_path(const char *name);
const char *fixture_write(const char *name, const struct buf *text);
void fixture_read(const char *path, struct buf *out);

/* Runs a program and gives its exit status; what it says on stdout and stderr is appended to *out,
 * NULL: goes nowhere. */
int fixture_run(const char *const *argv, struct buf *out);
/* The same with the function's result as the status. */
int fixture_call(int (*function)(int, char **), int argc, char **argv, struct buf *out);

#endif
