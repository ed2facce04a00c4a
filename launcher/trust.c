#include "launcher/trust.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "certs/file.h"
#include "certs/pem.h"
#include "launcher/path.h"

enum { FILE_MAX = 1 << 20 };

/* Read once more, after it was taken as a certificate; what cannot be read may hold anything. */
static bool holds_key(const char *path)
{
    struct buf content;
    int number = file_read(path, FILE_MAX, true, &content);
    bool holds = number != 0 || pem_names(buf_data(&content), buf_len(&content), "PRIVATE KEY");
    buf_wipe(&content);
    return holds;
}

/* What is no regular file, such as a pipe of the shell's, has nothing left to read. */
static void hide(struct trust *t, const char *path)
{
    struct stat st;
    char *real = realpath(path, NULL);
    size_t count = 0;

    while (t->keys[count] != NULL)
        count++;
    if (real != NULL && stat(real, &st) == 0 && S_ISREG(st.st_mode))
        t->keys[count] = real;
    else
        free(real);
}

static char *absolute(const char *path)
{
    char *directory = path[0] != '/' ? getcwd(NULL, 0) : NULL;
    char *joined = directory != NULL ? path_join(directory, path) : mem_dup(path);
    free(directory);
    return joined;
}

static void take_given(struct trust *t, const struct snapshot *s)
{
    hide(t, s->tls_ca_key);
    if (holds_key(s->tls_ca_certificate))
        hide(t, s->tls_ca_certificate);
    else
        t->certificate = absolute(s->tls_ca_certificate);
}

bool trust_prepare(struct trust *t, const struct snapshot *s, struct buf *warnings,
                   struct buf *error)
{
    bool given = s->tls_ca_certificate != NULL;

    if (!s->tls_terminate)
        return true;
    t->ca = given ? ca_load(s->tls_ca_certificate, s->tls_ca_key, error) : ca_ephemeral(error);
    if (t->ca == NULL)
        return false;
    ca_warnings(t->ca, warnings);
    if (given)
        take_given(t, s);
    return bundle_write(t->ca, !given, s->tls_extra, &t->bundle, error);
}

void trust_remove(struct trust *t)
{
    bundle_remove(&t->bundle);
    ca_unref(t->ca);
    t->ca = NULL;
    MEM_FREE(t->certificate);
    for (size_t i = 0; i < TRUST_KEYS_MAX; i++)
        MEM_FREE(t->keys[i]);
}

size_t trust_readable(const struct trust *t, const char *readable[static TRUST_READABLE_MAX])
{
    const char *const all[TRUST_READABLE_MAX] = {t->bundle.path, t->bundle.store, t->bundle.ca_path,
                                                 t->certificate};
    size_t count = 0;

    for (size_t i = 0; i < TRUST_READABLE_MAX; i++)
        if (all[i] != NULL)
            readable[count++] = all[i];
    return count;
}
