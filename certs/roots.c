#include "certs/roots.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/x509.h>

#include "base/buf.h"
#include "base/mem.h"

enum { PATH_ROOM = 4096 };

/* Directories hold each certificate under several names, as links to one file. */
struct walk {
    roots_visit *visit;
    void *context;
    struct file {
        dev_t device;
        ino_t inode;
    } * files;
    size_t count, room;
};

static bool is_new(struct walk *walk, const struct stat *st)
{
    for (size_t i = 0; i < walk->count; i++)
        if (walk->files[i].inode == st->st_ino && walk->files[i].device == st->st_dev)
            return false;
    if (walk->count == walk->room) {
        walk->room = walk->room != 0 ? 2 * walk->room : 256;
        walk->files = mem_resize(walk->files, walk->room, sizeof *walk->files);
    }
    walk->files[walk->count++] = (struct file){.device = st->st_dev, .inode = st->st_ino};
    return true;
}

static void visit_file(struct walk *walk, const char *path)
{
    struct stat st;

    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && is_new(walk, &st))
        walk->visit(walk->context, path);
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void visit_directory(struct walk *walk, const char *path)
{
    struct dirent **entries = NULL;
    struct buf file;
    int count = scandir(path, &entries, is_shown, by_name);

    buf_init(&file, PATH_ROOM);
    for (int i = 0; i < count; i++) {
        buf_clear(&file);
        if (buf_printf(&file, "%s/%s", path, entries[i]->d_name))
            visit_file(walk, buf_cstr(&file));
        free(entries[i]);
    }
    free(entries);
    buf_free(&file);
}

/* A list of directories, separated by colons. */
static void visit_directories(struct walk *walk, const char *list)
{
    while (*list != 0) {
        size_t n = strcspn(list, ":");
        char *path = mem_dup_n(list, n);
        if (n != 0)
            visit_directory(walk, path);
        free(path);
        list += n + (list[n] == ':');
    }
}

/* The library's own, or where it names a file that its distribution does not have, the one that
 * the distribution's tools use. */
static const char *system_bundle(void)
{
    static const char *const others[] = {"/etc/ssl/certs/ca-certificates.crt",
                                         "/etc/pki/tls/certs/ca-bundle.crt",
                                         "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};
    const char *own = X509_get_default_cert_file();

    if (access(own, R_OK) == 0)
        return own;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (access(others[i], R_OK) == 0)
            return others[i];
    return own;
}

void roots_each_file(roots_visit *visit, void *context)
{
    const char *file = secure_getenv(X509_get_default_cert_file_env());
    const char *directories = secure_getenv(X509_get_default_cert_dir_env());
    const char *extra = secure_getenv("NODE_EXTRA_CA_CERTS");
    struct walk walk = {.visit = visit, .context = context};

    visit_file(&walk, file != NULL ? file : system_bundle());
    visit_directories(&walk, directories != NULL ? directories : X509_get_default_cert_dir());
    if (extra != NULL)
        visit_file(&walk, extra);
    free(walk.files);
}
