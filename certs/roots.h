/*
 * Where the host keeps its root certificates: the file and the directories that
 * SSL_CERT_FILE and SSL_CERT_DIR of our own environment name where set, else
 * the system's; and the file that NODE_EXTRA_CA_CERTS names. Chapter 30
 * section 3.
 */
#ifndef CERTS_ROOTS_H
#define CERTS_ROOTS_H

typedef void roots_visit(void *context, const char *path);

/* Calls visit for each regular file, in that order and a directory's by name; a file with several
 * names once. What is in them is not looked at. */
void roots_each_file(roots_visit *visit, void *context);

#endif
