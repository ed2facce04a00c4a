/*
 * The host's root certificates, read once: the file and the directories that
 * SSL_CERT_FILE and SSL_CERT_DIR name where set, else the system's; and the
 * file that NODE_EXTRA_CA_CERTS names. All in memory, so that a worker needs no
 * file later and no verification waits for a disk. Chapter 30 sections 3 and 7.
 */
#ifndef TLS_ROOTS_H
#define TLS_ROOTS_H

#include <stddef.h>

#include <openssl/x509_vfy.h>

/* Returns how many certificates were read; those given twice count twice. */
size_t tls_roots_load(X509_STORE *store);

#endif
