#include "certs/ca_command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"
#include "certs/ca_internal.h"
#include "certs/ca_show.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
enum { PEM_MAX = 65536, TEXT_MAX = 1 << 20, NAME_MAX_BYTES = 200 };

static const char usage[] =
    "usage: srt ca create --out DIR [--name TEXT]\n"
    "       srt ca show FILE\n"
    "\n"
    "create makes a certification authority for network.tlsTerminate: DIR/ca.crt, and\n"
    "DIR/ca.key, which only its owner can read. Neither file may be there already.\n"
    "TEXT is the name that it shows, else \"srt CA\".\n"
    "show says whom a certificate names, how long it is valid, and whether it can\n"
    "serve as a certification authority.\n";

static const char certificate_file[] = "ca.crt";
static const char key_file[] = "ca.key";

static int usage_error(const char *what, const char *argument)
{
    log_error("%s%s%s", what, argument != NULL ? " " : "", argument != NULL ? argument : "");
    fputs(usage, stderr);
    return EXIT_USAGE;
}

/* Nothing may be there, not even a link that leads nowhere. */
static bool write_file(int directory, const char *name, mode_t mode, const struct buf *text)
{
    int fd =
        openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & 0600);

    if (fd < 0)
        return false;
    bool ok =
        fd_write_all(fd, buf_data(text), buf_len(text)) && fsync(fd) == 0 && fchmod(fd, mode) == 0;
    int number = errno;
    close(fd);
    if (!ok)
        unlinkat(directory, name, 0);
    errno = number;
    return ok;
}

static bool write_pair(int directory, const char *path, const struct buf *certificate,
                       const struct buf *key)
{
    const char *name = key_file;
    bool ok = write_file(directory, key_file, 0600, key);

    if (ok) {
        name = certificate_file;
        ok = write_file(directory, certificate_file, 0644, certificate);
        int number = errno;
        if (!ok)
            unlinkat(directory, key_file, 0);
        errno = number;
    }
    if (!ok && errno == EEXIST)
        log_error("%s/%s is there already: it is left as it is", path, name);
    else if (!ok)
        log_error("%s/%s: %s", path, name, strerror(errno));
    return ok;
}

static void explain(const char *path)
{
    char *absolute = realpath(path, NULL);
    struct buf file;
    struct buf out;

    buf_init(&file, TEXT_MAX);
    buf_init(&out, TEXT_MAX);
    buf_puts(&out, "Made a certification authority. In the settings:\n\n"
                   "  \"network\": {\n    \"tlsTerminate\": {\n      \"caCertPath\": ");
    buf_printf(&file, "%s/%s", absolute != NULL ? absolute : path, certificate_file);
    text_json(&out, buf_chars(&file), buf_len(&file));
    buf_puts(&out, ",\n      \"caKeyPath\": ");
    buf_clear(&file);
    buf_printf(&file, "%s/%s", absolute != NULL ? absolute : path, key_file);
    text_json(&out, buf_chars(&file), buf_len(&file));
    buf_puts(&out, "\n    }\n  }\n\n"
                   "Clients that are to trust it need ca.crt. Whoever has ca.key can pose as any\n"
                   "server to them: keep it to yourself.\n");
    fwrite(buf_data(&out), 1, buf_len(&out), stdout);
    buf_free(&file);
    buf_free(&out);
    free(absolute);
}

static int create_in(const char *path, const char *name)
{
    struct buf certificate;
    struct buf key;
    struct buf error;
    struct ca *ca = NULL;
    int status = EXIT_FAILED;
    int directory = -1;

    buf_init(&certificate, PEM_MAX);
    buf_init(&key, PEM_MAX);
    buf_init(&error, PEM_MAX);
    if (mkdir(path, 0755) == 0 || errno == EEXIST)
        directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) {
        log_error("%s: %s", path, strerror(errno));
        goto out;
    }
    ca = ca_create(name, &error);
    if (ca == NULL) {
        log_error("%s", buf_cstr(&error));
        goto out;
    }
    /* All at once: growing would leave a part of the key behind. */
    buf_reserve(&key, PEM_MAX);
    if (!ca_certificates_pem(ca, &certificate) || !ca_key_pem(ca, &key)) {
        log_error("the authority cannot be written down");
        goto out;
    }
    if (write_pair(directory, path, &certificate, &key)) {
        explain(path);
        status = EXIT_OK;
    }
out:
    if (directory >= 0)
        close(directory);
    ca_unref(ca);
    buf_free(&certificate);
    buf_wipe(&key);
    buf_free(&error);
    return status;
}

static bool name_ok(const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
            return false;
    return n != 0 && n <= NAME_MAX_BYTES && text_utf8_valid(name, n);
}

static bool is_option(const char *argument, const char *name)
{
    size_t n = strlen(name);

    return strncmp(argument, name, n) == 0 && (argument[n] == '\0' || argument[n] == '=');
}

/* Behind the equals sign, or the argument that follows; NULL when there is none. */
static const char *option_value(int argc, char **argv, int *i)
{
    const char *equals = strchr(argv[*i], '=');

    if (equals != NULL)
        return equals + 1;
    return *i + 1 < argc ? argv[++*i] : NULL;
}

static int create(int argc, char **argv)
{
    const char *out = NULL;
    const char *name = "srt CA";

    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        const char **value = is_option(argument, "--out")    ? &out
                             : is_option(argument, "--name") ? &name
                                                             : NULL;
        if (value == NULL)
            return usage_error("unknown argument", argument);
        *value = option_value(argc, argv, &i);
        if (*value == NULL)
            return usage_error("a value is missing behind", argument);
    }
    if (out == NULL || out[0] == '\0')
        return usage_error("--out DIR is missing", NULL);
    if (!name_ok(name))
        return usage_error("--name takes 1 to 200 bytes of UTF-8 without control characters", NULL);
    return create_in(out, name);
}

static int show(int argc, char **argv)
{
    struct buf text;
    struct buf error;

    if (argc != 2 || argv[1][0] == '\0')
        return usage_error("show takes one FILE", NULL);
    buf_init(&text, TEXT_MAX);
    buf_init(&error, TEXT_MAX);
    bool ok = ca_show(argv[1], &text, &error);
    if (ok)
        fwrite(buf_data(&text), 1, buf_len(&text), stdout);
    else
        log_error("%s", buf_cstr(&error));
    buf_free(&text);
    buf_free(&error);
    return ok ? EXIT_OK : EXIT_FAILED;
}

int ca_main(int argc, char **argv)
{
    int status = EXIT_OK;

    log_set_program("srt ca");
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(usage, stdout);
            return EXIT_OK;
        }
    if (argc < 2)
        return usage_error("create or show is missing", NULL);
    if (strcmp(argv[1], "create") == 0)
        status = create(argc - 1, argv + 1);
    else if (strcmp(argv[1], "show") == 0)
        status = show(argc - 1, argv + 1);
    else
        return usage_error("unknown command", argv[1]);
    if (fflush(stdout) != 0 && status == EXIT_OK)
        status = EXIT_FAILED;
    return status;
}
