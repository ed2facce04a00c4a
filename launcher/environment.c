#include "launcher/environment.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "certs/trust_store.h"
#include "launcher/ssh_command.h"
#include "proxy/policy/violation.h"

enum {
    PROXY_PORT_HTTP = 3128, /* inside the box, whatever stands behind it */
    PROXY_PORT_SOCKS = 1080,
    USER_MAX = 255,
    SAFE_DIRECTORIES_MAX = 8,
    VALUE_MAX = 4 * 1024 * 1024 /* more than the kernel takes for one variable */
};

struct build {
    const struct environment_options *o;
    char **list;
    size_t count, room;
    struct buf user, escaped; /* proxy user name: raw, and as a URL has it */
};

/* Index of the entry for a name, or count. */
static size_t find(const struct build *b, const char *name, size_t n)
{
    size_t i = 0;
    while (i < b->count && (strncmp(b->list[i], name, n) != 0 || b->list[i][n] != '='))
        i++;
    return i;
}

static const char *get(const struct build *b, const char *name)
{
    size_t n = strlen(name), i = find(b, name, n);
    return i < b->count ? b->list[i] + n + 1 : NULL;
}

/* Takes over `entry`, "name=value". */
static void add(struct build *b, char *entry)
{
    if (b->count + 1 >= b->room) {
        b->room = b->room != 0 ? 2 * b->room : 64;
        b->list = mem_resize(b->list, b->room, sizeof b->list[0]);
    }
    b->list[b->count++] = entry;
    b->list[b->count] = NULL;
}

static void wipe(char *entry)
{
    explicit_bzero(entry, strlen(entry));
    free(entry);
}

/* In the place of the inherited one, or at the end. */
static void set(struct build *b, const char *name, const char *value)
{
    size_t n = strlen(name), i = find(b, name, n), size = n + strlen(value) + 2;
    char *entry = mem_alloc(size);
    snprintf(entry, size, "%s=%s", name, value);
    if (i < b->count) {
        wipe(b->list[i]);
        b->list[i] = entry;
    } else {
        add(b, entry);
    }
}

static void set_all(struct build *b, const char *const *names, const char *value)
{
    for (size_t i = 0; names[i] != NULL; i++)
        set(b, names[i], value);
}

static void set_number(struct build *b, const char *name, unsigned long number)
{
    char text[24];
    struct buf out;
    buf_init(&out, sizeof text);
    buf_printf(&out, "%lu", number);
    set(b, name, buf_cstr(&out));
    buf_free(&out);
}

static void drop(struct build *b, const char *name)
{
    size_t i = find(b, name, strlen(name));
    if (i == b->count)
        return;
    wipe(b->list[i]);
    memmove(&b->list[i], &b->list[i + 1], (b->count - i) * sizeof b->list[0]);
    b->count--;
}

/* Of two entries for a name the first stays, the one that getenv() gives; what is no assignment
 * is left out. */
static void inherit(struct build *b)
{
    for (char *const *e = b->o->inherited; e != NULL && *e != NULL; e++) {
        const char *equals = strchr(*e, '=');
        if (equals != NULL && equals != *e && find(b, *e, (size_t)(equals - *e)) == b->count)
            add(b, mem_dup(*e));
    }
}

static void withhold(struct build *b)
{
    char **names = b->o->settings->withheld_variables;
    for (size_t i = 0; names != NULL && names[i] != NULL; i++)
        drop(b, names[i]);
}

/* A directory as safe.directory wants it; false for one that names nothing: git takes an empty
 * value to mean that the list starts anew. */
static bool safe_directory(const char *text, struct buf *out)
{
    for (const char *c = text; *c != 0; c++)
        buf_append(out, *c == '\\' ? "/" : c, 1);
    while (buf_len(out) > 1 && buf_chars(out)[buf_len(out) - 1] == '/')
        out->end--;
    return buf_len(out) != 0;
}

static void free_texts(char **texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(texts[i]);
    free(texts);
}

/* The settings' directories in canonical spelling, each once. */
static char **safe_directories(char **given, size_t *count)
{
    size_t most = 0;
    while (given != NULL && given[most] != NULL)
        most++;
    char **out = mem_array(most, sizeof out[0]);
    *count = 0;
    for (size_t i = 0; i < most; i++) {
        struct buf text;
        buf_init(&text, strlen(given[i]) + 1);
        bool known = !safe_directory(given[i], &text);
        for (size_t j = 0; j < *count && !known; j++)
            known = strcmp(out[j], buf_cstr(&text)) == 0;
        if (!known)
            out[(*count)++] = mem_dup(buf_cstr(&text));
        buf_free(&text);
    }
    return out;
}

static void set_safe_directory(struct build *b, unsigned long number, const char *value,
                               const char *end)
{
    struct buf name, text;
    buf_init(&name, 64);
    buf_init(&text, strlen(value) + strlen(end) + 1);
    buf_printf(&name, "GIT_CONFIG_KEY_%lu", number);
    set(b, buf_cstr(&name), "safe.directory");
    buf_clear(&name);
    buf_printf(&name, "GIT_CONFIG_VALUE_%lu", number);
    buf_puts(&text, value);
    buf_puts(&text, end);
    set(b, buf_cstr(&name), buf_cstr(&text));
    buf_free(&name);
    buf_free(&text);
}

/* How many pairs of GIT_CONFIG_KEY_n there are already; what is no number, git refuses anyway, so
 * that counting starts anew. */
static unsigned long git_count(const char *text)
{
    unsigned long n = 0;
    for (const char *c = text; *c != 0; c++) {
        if (*c < '0' || *c > '9')
            return 0;
        if (n <= INT_MAX)
            n = 10 * n + (unsigned long)(*c - '0');
    }
    return n;
}

/* Section 11.2. */
static void set_git_configuration(struct build *b)
{
    const char *inherited = get(b, "GIT_CONFIG_COUNT");
    unsigned long n = inherited != NULL ? git_count(inherited) : 0;
    size_t count;
    char **directories = safe_directories(b->o->settings->git_safe_directories, &count);
    bool opted_out = inherited != NULL && strcmp(inherited, "0") == 0;
    /* git takes no count past INT_MAX. */
    if (count == 0 || opted_out || n > INT_MAX - 2 * SAFE_DIRECTORIES_MAX)
        goto out;
    if (count > SAFE_DIRECTORIES_MAX) {
        set_safe_directory(b, n++, "*", "");
    } else {
        for (size_t i = 0; i < count; i++) {
            set_safe_directory(b, n++, directories[i], "");
            set_safe_directory(b, n++, directories[i],
                               strcmp(directories[i], "/") == 0 ? "*" : "/*");
        }
    }
    set_number(b, "GIT_CONFIG_COUNT", n);
out:
    free_texts(directories, count);
}

static bool filled(const char *value)
{
    return value != NULL && value[0] != 0;
}

/* zsh has a variable of its own for here-documents, and it is the start of names, not a
 * directory. */
static void set_temporary(struct build *b)
{
    static const char *const names[] = {"TMPDIR", "TMP", "TEMP", NULL};
    if (b->o->settings->filesystem_disabled)
        return;
    const char *directory = get(b, "CLAUDE_CODE_TMPDIR");
    if (!filled(directory))
        directory = get(b, "CLAUDE_TMPDIR");
    if (!filled(directory))
        directory = b->o->temporary != NULL ? b->o->temporary : "/tmp/claude";

    struct buf prefix;
    size_t n = strlen(directory);
    buf_init(&prefix, n + sizeof "/zsh");
    buf_append(&prefix, directory, n);
    buf_puts(&prefix, n != 0 && directory[n - 1] == '/' ? "zsh" : "/zsh");
    set_all(b, names, directory);
    set(b, "TMPPREFIX", buf_cstr(&prefix));
    buf_free(&prefix);
}

/* "scheme://USER:TOKEN@localhost:PORT". Memory is asked for at once: nothing is left behind by
 * growing. */
static void set_proxies(struct build *b, const char *const *names, const char *scheme, int port)
{
    struct buf url;
    size_t most = buf_len(&b->escaped) + strlen(b->o->token != NULL ? b->o->token : "") + 64;
    buf_init(&url, most);
    buf_reserve(&url, most);
    buf_printf(&url, "%s://", scheme);
    if (b->o->token != NULL) {
        buf_append(&url, buf_data(&b->escaped), buf_len(&b->escaped));
        buf_printf(&url, ":%s@", b->o->token);
    }
    buf_printf(&url, "localhost:%d", port);
    set_all(b, names, buf_cstr(&url));
    buf_wipe(&url);
}

static void set_ssh(struct build *b)
{
    const struct environment_options *o = b->o;
    const char *socat = o->socat != NULL ? o->socat : o->settings->socat_path;
    struct buf command;
    buf_init(&command, VALUE_MAX);
    buf_reserve(&command, 2048);
    if (o->connector == NULL || !ssh_command_connector(&command, o->connector))
        ssh_command_socat(&command, socat, buf_cstr(&b->user), o->token);
    set(b, "GIT_SSH_COMMAND", buf_cstr(&command));
    buf_wipe(&command);
}

static void set_cloudsdk(struct build *b)
{
    set(b, "CLOUDSDK_PROXY_TYPE", "http");
    set(b, "CLOUDSDK_PROXY_ADDRESS", "localhost");
    set_number(b, "CLOUDSDK_PROXY_PORT", PROXY_PORT_HTTP);
    if (b->o->token != NULL) {
        set(b, "CLOUDSDK_PROXY_USERNAME", buf_cstr(&b->user));
        set(b, "CLOUDSDK_PROXY_PASSWORD", b->o->token);
    }
}

/* Chapter 30 sections 3 and 13: each replaces, or adds to, what a tool trusts. */
static void set_trust(struct build *b)
{
    static const char *const names[] = {"NODE_EXTRA_CA_CERTS",
                                        "SSL_CERT_FILE",
                                        "CURL_CA_BUNDLE",
                                        "REQUESTS_CA_BUNDLE",
                                        "PIP_CERT",
                                        "GIT_SSL_CAINFO",
                                        "AWS_CA_BUNDLE",
                                        "CARGO_HTTP_CAINFO",
                                        "DENO_CERT",
                                        "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
                                        "NIX_SSL_CERT_FILE",
                                        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
                                        "HTTPLIB2_CA_CERTS",
                                        "BUNDLE_SSL_CA_CERT",
                                        "npm_config_cafile",
                                        "HEX_CACERTS_PATH",
                                        "PERL_LWP_SSL_CA_FILE",
                                        NULL};
    if (b->o->trust_bundle != NULL)
        set_all(b, names, b->o->trust_bundle);
}

/*
 * Clients that do not look at HTTPS_PROXY: Node's own fetch and http ask for a switch, Yarn 2 and
 * later for names of their own. There is no YARN_NO_PROXY: Yarn refuses settings it does not know.
 */
static void set_network(struct build *b)
{
    static const char *const bypass[] = {"NO_PROXY", "no_proxy", NULL};
    static const char *const web[] = {"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy",
                                      NULL};
    static const char *const all[] = {"ALL_PROXY", "all_proxy", "GRPC_PROXY", "grpc_proxy", NULL};
    static const char *const ftp[] = {"FTP_PROXY", "ftp_proxy", NULL};
    static const char *const own_names[] = {"DOCKER_HTTP_PROXY", "DOCKER_HTTPS_PROXY",
                                            "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY", NULL};
    set_all(b, bypass,
            "localhost,127.0.0.1,::1,169.254.0.0/16,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16");
    set_proxies(b, web, "http", PROXY_PORT_HTTP);
    if (b->o->token != NULL)
        set(b, "GIT_CONFIG_PARAMETERS", "'http.proxyAuthMethod=basic'");
    set_proxies(b, all, "http", PROXY_PORT_HTTP);
    set_ssh(b);
    set_proxies(b, ftp, "socks5h", PROXY_PORT_SOCKS);
    set(b, "RSYNC_PROXY", "localhost:1080");
    set_proxies(b, own_names, "http", PROXY_PORT_HTTP);
    set(b, "NODE_USE_ENV_PROXY", "1");
    set_cloudsdk(b);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool needs_quotes(const char *path)
{
    for (; *path != 0; path++)
        if (is_space(*path) || *path == '"' || *path == '\'')
            return true;
    return false;
}

/* As the JVM splits the variable: white space outside quotes, of either kind, without escapes. */
static void put_option(struct buf *out, const char *option, const char *path)
{
    bool quoted = needs_quotes(path);
    buf_puts(out, quoted ? "\"" : "");
    buf_puts(out, option);
    for (; *path != 0; path++) {
        if (*path == '"')
            buf_puts(out, "\"'\"'\"");
        else
            buf_append(out, path, 1);
    }
    if (quoted)
        buf_puts(out, "\"");
}

/* A '=' in the path would end it: the agent's options follow there. */
static const char *java_agent(const struct build *b)
{
    const char *jar = b->o->settings->java_agent_jar;
    if (jar == NULL || access(jar, F_OK) != 0)
        jar = b->o->java_agent;
    return jar == NULL || strchr(jar, '=') != NULL ? NULL : jar;
}

/* Section 11.4, and chapter 30 section 13. Of two values for a property the JVM takes the last: a
 * store that is inherited must not be read by half of our options. */
static void set_java(struct build *b)
{
    const char *jar = java_agent(b), *store = b->o->trust_store;
    const char *inherited = get(b, "JAVA_TOOL_OPTIONS");
    struct buf value;
    if (jar == NULL && store == NULL)
        return;
    buf_init(&value, VALUE_MAX);
    if (jar != NULL)
        put_option(&value, "-javaagent:", jar);
    if (filled(inherited)) {
        buf_puts(&value, buf_len(&value) != 0 ? " " : "");
        buf_puts(&value, inherited);
    }
    if (store != NULL) {
        buf_puts(&value, buf_len(&value) != 0 ? " " : "");
        put_option(&value, "-Djavax.net.ssl.trustStore=", store);
        buf_puts(&value, " -Djavax.net.ssl.trustStoreType=PKCS12"
                         " -Djavax.net.ssl.trustStorePassword=" TRUST_STORE_PASSWORD);
    }
    set(b, "JAVA_TOOL_OPTIONS", buf_cstr(&value));
    buf_wipe(&value);
}

static void escape(struct buf *out, const char *user)
{
    for (; *user != 0; user++) {
        if (*user == '=' || *user == '+' || *user == '/')
            buf_printf(out, "%%%02X", (unsigned char)*user);
        else
            buf_append(out, user, 1);
    }
}

char **environment_build(const struct environment_options *o)
{
    struct build b = {.o = o, .room = 64};
    b.list = mem_array(b.room, sizeof b.list[0]);
    buf_init(&b.user, USER_MAX + 1);
    buf_init(&b.escaped, 3 * USER_MAX);
    environment_user(&b.user, o->command, o->command_len);
    escape(&b.escaped, buf_cstr(&b.user));

    inherit(&b);
    withhold(&b);
    set_git_configuration(&b);
    set(&b, "SANDBOX_RUNTIME", "1");
    set_temporary(&b);
    set_trust(&b);
    set_network(&b);
    set_java(&b);
    set_number(&b, "CLAUDE_CODE_HOST_HTTP_PROXY_PORT", o->http_port);
    set_number(&b, "CLAUDE_CODE_HOST_SOCKS_PROXY_PORT", o->socks_port);
    drop(&b, "SRT_ALLOW_NESTED_USERNS");
    drop(&b, "SRT_OBSERVE_SOCK");
    drop(&b, "SRT_ENCODED_CMD");

    buf_free(&b.user);
    buf_free(&b.escaped);
    return b.list;
}

void environment_free(char **environment)
{
    for (size_t i = 0; environment != NULL && environment[i] != NULL; i++)
        wipe(environment[i]);
    free(environment);
}

void environment_user(struct buf *out, const char *command, size_t n)
{
    enum { ENCODED_MAX = 1024 }; /* base64 of 100 UTF-16 units */
    struct buf encoded;
    buf_init(&encoded, ENCODED_MAX);
    attribution_encode(&encoded, out, command, n);
    buf_free(&encoded);
}
