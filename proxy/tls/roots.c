#include "proxy/tls/roots.h"

#include <openssl/err.h>
#include <openssl/x509.h>

#include "certs/roots.h"

struct load {
    X509_LOOKUP *lookup;
    size_t count;
};

/* Certificates alone are taken from a file, whatever else is in it. */
static void load_file(void *context, const char *path)
{
    struct load *load = context;
    int count = X509_load_cert_file(load->lookup, path, X509_FILETYPE_PEM);

    ERR_clear_error();
    if (count > 0)
        load->count += (size_t)count;
}

size_t tls_roots_load(X509_STORE *store)
{
    struct load load = {.lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file())};

    if (load.lookup != NULL)
        roots_each_file(load_file, &load);
    return load.count;
}
