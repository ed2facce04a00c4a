#include "proxy/tls/roots.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <openssl/err.h>
#include <openssl/x509.h>

#include "base/buf.h"
#include "base/mem.h"

enum { PATH_ROOM = 4096 };

/* Directories hold each certificate under several names, as links to one file. */
struct seen {
    struct file {
        dev_t device;
        ino_t inode;
    } * files;
    size_t count, room;
};

static bool is_new(struct seen *seen, const struct stat *st)
{
    for (size_t i = 0; i < seen->count; i++)
        if (seen->files[i].inode == st->st_ino && seen->files[i].device == st->st_dev)
            return false;
    if (seen->count == seen->room) {
        seen->room = seen->room != 0 ? 2 * seen->room : 256;
        seen->files = mem_resize(seen->files, seen->room, sizeof *seen->files);
    }
    seen->files[seen->count++] = (struct file){.device = st->st_dev, .inode = st->st_ino};
    return true;
}

/* Certificates alone are taken from a file, whatever else is in it. */
static size_t load_file(X509_LOOKUP *lookup, struct seen *seen, const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || !is_new(seen, &st))
        return 0;
    int count = X509_load_cert_file(lookup, path, X509_FILETYPE_PEM);
    ERR_clear_error();
    return count > 0 ? (size_t)count : 0;
}

static size_t load_directory(X509_LOOKUP *lookup, struct seen *seen, const char *path)
{
    DIR *directory = opendir(path);
    const struct dirent *entry;
    struct buf file;
    size_t count = 0;

    if (directory == NULL)
        return 0;
    buf_init(&file, PATH_ROOM);
    while ((entry = readdir(directory)) != NULL) {
        buf_clear(&file);
        if (entry->d_name[0] != '.' && buf_printf(&file, "%s/%s", path, entry->d_name))
            count += load_file(lookup, seen, buf_cstr(&file));
    }
    buf_free(&file);
    closedir(directory);
    return count;
}

/* A list of directories, separated by colons. */
static size_t load_directories(X509_LOOKUP *lookup, struct seen *seen, const char *list)
{
    size_t count = 0;

    while (*list != 0) {
        size_t n = strcspn(list, ":");
        char *path = mem_dup_n(list, n);
        if (n != 0)
            count += load_directory(lookup, seen, path);
        free(path);
        list += n + (list[n] == ':');
    }
    return count;
}

static const char *from_environment(const char *name, const char *otherwise)
{
    const char *value = secure_getenv(name);

    return value != NULL ? value : otherwise;
}

size_t tls_roots_load(X509_STORE *store)
{
    X509_LOOKUP *lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());
    const char *extra = secure_getenv("NODE_EXTRA_CA_CERTS");
    struct seen seen = {0};
    size_t count = 0;

    if (lookup == NULL)
        return 0;
    count +=
        load_file(lookup, &seen,
                  from_environment(X509_get_default_cert_file_env(), X509_get_default_cert_file()));
    count += load_directories(
        lookup, &seen,
        from_environment(X509_get_default_cert_dir_env(), X509_get_default_cert_dir()));
    if (extra != NULL)
        count += load_file(lookup, &seen, extra);
    free(seen.files);
    return count;
}
