#include "certs/bundle.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "certs/certificate_set.h"
#include "certs/file.h"
#include "certs/roots.h"
#include "certs/trust_store.h"

enum { FILE_MAX = 16 << 20, BUNDLE_MAX = 64 << 20 };

struct contents {
    struct certificate_set *set;
    struct buf text;
};

/* Appends the certificates of a file; a file without any is passed over. */
static void add_file(void *context, const char *path)
{
    struct contents *contents = context;
    struct buf content;
    int number = file_read(path, FILE_MAX, true, &content);

    if (number != 0)
        log_debug("certificates of %s are left out: %s", path, strerror(number));
    else if (certificate_set_add_pem(contents->set, buf_data(&content), buf_len(&content),
                                     &contents->text) == 0)
        log_debug("certificates of %s are left out: it has none", path);
    buf_wipe(&content);
}

static bool collect(const struct ca *ca, char *const *extra, struct contents *contents)
{
    struct buf own;

    buf_init(&own, BUNDLE_MAX);
    bool ok =
        ca_certificates_pem(ca, &own) &&
        certificate_set_add_pem(contents->set, buf_data(&own), buf_len(&own), &contents->text) != 0;
    buf_free(&own);
    roots_each_file(add_file, contents);
    for (; extra != NULL && *extra != NULL; extra++)
        add_file(contents, *extra);
    return ok;
}

static bool write_files(struct bundle *b, const struct contents *contents, const struct buf *store,
                        struct buf *error)
{
    if (!run_directory_make(&b->trust, error))
        return false;
    b->path = run_directory_write(&b->trust, "trust-bundle.crt", &contents->text, error);
    if (b->path == NULL)
        return false;
    b->store = run_directory_write(&b->trust, "trust-store.p12", store, error);
    return b->store != NULL;
}

static bool write_authority(struct bundle *b, const struct buf *own, struct buf *error)
{
    if (!run_directory_make(&b->ca, error))
        return false;
    b->ca_path = run_directory_write(&b->ca, "ca.crt", own, error);
    return b->ca_path != NULL;
}

bool bundle_write(struct ca *ca, bool ephemeral, char *const *extra, struct bundle *out,
                  struct buf *error)
{
    struct contents contents = {.set = certificate_set_new()};
    struct buf own;
    struct buf store;
    bool ok = false;

    *out = (struct bundle){0};
    buf_init(&contents.text, BUNDLE_MAX);
    buf_init(&own, BUNDLE_MAX);
    buf_init(&store, BUNDLE_MAX);
    run_directory_clear_stale();
    if (!ca_certificates_pem(ca, &own) || !collect(ca, extra, &contents) ||
        !trust_store_make(certificate_set_all(contents.set), &store)) {
        buf_puts(error, "tlsTerminate: the certificates to trust cannot be written down");
        goto out;
    }
    ok = (!ephemeral || write_authority(out, &own, error)) &&
         write_files(out, &contents, &store, error);
out:
    certificate_set_free(contents.set);
    buf_free(&contents.text);
    buf_free(&own);
    buf_free(&store);
    if (!ok)
        bundle_remove(out);
    return ok;
}

void bundle_remove(struct bundle *b)
{
    run_directory_remove(&b->ca);
    run_directory_remove(&b->trust);
    MEM_FREE(b->ca_path);
    MEM_FREE(b->path);
    MEM_FREE(b->store);
}
