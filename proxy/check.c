#include "proxy/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/secret.h"
#include "decider/decider.h"
#include "proxy/check_lines.h"
#include "proxy/net/listen.h"
#include "proxy/settings/notes.h"
#include "proxy/settings/snapshot.h"

enum { EXIT_OK = 0, EXIT_INVALID = 1, EXIT_USAGE = 2 };

static const char usage[] =
    "usage: srt check [-s FILE | --settings FILE] [--show] [HOST:PORT ...]\n"
    "       srt check [-s FILE | --settings FILE] --json FILE\n"
    "\n"
    "Validates a settings file. With HOST:PORT arguments, says what decides about\n"
    "each; with --json, answers JSON lines {\"host\":...,\"port\":...} from FILE, or from\n"
    "standard input for -. --show prints every limit and timeout.\n";

struct options {
    const char *settings; /* NULL: the default file */
    const char *json;     /* NULL: no */
    bool show, help;
    char **hosts;
    int host_count;
};

static int usage_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int usage_error(const char *fmt, ...)
{
    struct buf text, line;
    va_list ap;
    buf_init(&text, SETTINGS_FILE_MAX);
    buf_init(&line, SETTINGS_FILE_MAX);
    buf_puts(&text, "srt check: ");
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    settings_line(&line, buf_cstr(&text), buf_len(&text));
    fputs(buf_cstr(&line), stderr);
    buf_free(&text);
    buf_free(&line);
    return EXIT_USAGE;
}

/* The value of the option argv[*i], `--name VALUE` or `--name=VALUE`; NULL when it has none. */
static const char *option_value(int argc, char **argv, int *i)
{
    const char *equals = strchr(argv[*i], '=');
    if (argv[*i][1] == '-' && equals != NULL)
        return equals + 1;
    return *i + 1 < argc ? argv[++*i] : NULL;
}

static bool is_option(const char *argument, const char *name)
{
    size_t n = strlen(name);
    return strncmp(argument, name, n) == 0 && (argument[n] == '\0' || argument[n] == '=');
}

/* Options may stand before, between and after the destinations, which are gathered at the start of
 * argv; "--" ends the options. */
static int parse_options(int argc, char **argv, struct options *o)
{
    bool only_hosts = false;
    *o = (struct options){.hosts = argv};
    for (int i = 1; i < argc; i++) {
        char *name = argv[i];
        const char **value = NULL;
        if (only_hosts || name[0] != '-')
            o->hosts[o->host_count++] = name;
        else if (strcmp(name, "--") == 0)
            only_hosts = true;
        else if (strcmp(name, "-s") == 0 || is_option(name, "--settings"))
            value = &o->settings;
        else if (is_option(name, "--json"))
            value = &o->json;
        else if (strcmp(name, "--show") == 0)
            o->show = true;
        else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
            o->help = true;
        else
            return usage_error("unknown option %s", name);
        if (value != NULL && (*value = option_value(argc, argv, &i)) == NULL)
            return usage_error("%s needs a value", name);
    }
    if (o->json != NULL && (o->host_count != 0 || o->show))
        return usage_error("--json goes with neither HOST:PORT nor --show");
    return EXIT_OK;
}

/* `HOST:PORT` or `[IPV6]:PORT`; the host is any text without a further colon. */
static bool parse_destination(const char *s, size_t *host, uint16_t *port)
{
    const char *colon = strrchr(s, ':');
    unsigned value = 0;
    if (colon == NULL || colon == s)
        return false;
    *host = (size_t)(colon - s);
    if (memchr(s, ':', *host) != NULL && (s[0] != '[' || s[*host - 1] != ']'))
        return false;
    const char *p = colon + 1;
    if (*p < '1' || *p > '9')
        return false;
    for (; *p >= '0' && *p <= '9' && value <= 65535; p++)
        value = value * 10 + (unsigned)(*p - '0');
    *port = (uint16_t)value;
    return *p == '\0' && value <= 65535;
}

/* What becomes of a destination that no rule of the settings decides. */
static const char *undecided(const struct snapshot *s)
{
    if (s->decider_proto == 0)
        return "no rule decides; denied where nobody can be asked";
    if (s->decider_proto == 1 || s->decider_level == DECIDER_REQUESTS)
        return "no rule here decides; denied unless the decider's own lists allow it";
    return "no rule here decides; the decider would be asked, unless its own lists decide";
}

/* One line for a person: verdict, destination, rule, reason. */
static void show_decision(const struct snapshot *s, const char *argument, size_t n, uint16_t port)
{
    static const char *const names[] = {
        [VERDICT_ALLOW] = "allow", [VERDICT_DENY] = "deny", [VERDICT_ASK] = "ask"};
    struct host canonical;
    struct decision d;
    struct buf text, line;
    buf_init(&text, 2 * SETTINGS_FILE_MAX);
    buf_init(&line, SIZE_MAX / 2);
    policy_decide(s->policy, argument, n, port, NULL, &canonical, &d);

    buf_printf(&text, "%-5s  %s", names[d.verdict], argument);
    if (d.list != NULL)
        buf_printf(&text, "  %s[%zu] \"%s\"", d.list, d.index, d.entry);
    if (d.verdict == VERDICT_DENY)
        buf_printf(&text, "  %s", d.reason);
    else if (d.verdict == VERDICT_ASK)
        buf_printf(&text, "  %s", undecided(s));
    settings_line(&line, buf_cstr(&text), buf_len(&text));
    fwrite(buf_data(&line), 1, buf_len(&line), stdout);
    buf_free(&text);
    buf_free(&line);
}

static int check_hosts(const struct snapshot *s, const struct options *o)
{
    int status = EXIT_OK;
    for (int i = 0; i < o->host_count; i++) {
        size_t n;
        uint16_t port;
        if (parse_destination(o->hosts[i], &n, &port))
            show_decision(s, o->hosts[i], n, port);
        else
            status = usage_error("%s is not HOST:PORT, as in www.example.com:443", o->hosts[i]);
    }
    return status;
}

static int check_json(const struct policy *policy, const char *name)
{
    int in = strcmp(name, "-") == 0 ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (in < 0)
        return usage_error("%s: %s", name, strerror(errno));
    bool ok = check_lines(policy, in, STDOUT_FILENO);
    int number = errno;
    if (in != STDIN_FILENO)
        close(in);
    if (ok)
        return EXIT_OK;
    usage_error("%s: %s", name, strerror(number));
    return EXIT_INVALID;
}

static void show_limits(const struct limits *l)
{
#define SHOW(object, field, name, value, minimum, maximum, why)                                \
    printf("proxy.%s.%-24s %10u  default %d, %d to %d: %s\n", object, name, l->field, (value), \
           (minimum), (maximum), why);
#define SHOW_TIMEOUT(field, name, value, minimum, maximum, why) \
    SHOW("timeouts", field, name, value, minimum, maximum, why)
#define SHOW_LIMIT(field, name, value, minimum, maximum, why) \
    SHOW("limits", field, name, value, minimum, maximum, why)
    TIMEOUTS(SHOW_TIMEOUT)
    LIMITS(SHOW_LIMIT)
#undef SHOW_LIMIT
#undef SHOW_TIMEOUT
#undef SHOW
}

/* One line for a person: which decider, and what it is asked about. */
static void show_decider(const struct snapshot *s)
{
    static const char *const levels[] = {[0] = "what its hello asks for",
                                         [DECIDER_CONNECTIONS] = "connections",
                                         [DECIDER_REQUESTS] = "requests",
                                         [DECIDER_CONNECTIONS | DECIDER_REQUESTS] =
                                             "connections and requests"};
    const char *level = levels[s->decider_proto == 1 ? DECIDER_REQUESTS : s->decider_level];
    struct buf text, line;
    buf_init(&text, SETTINGS_FILE_MAX + 1000);
    buf_init(&line, SIZE_MAX / 2);
    if (s->decider_exec != NULL)
        buf_printf(&text, "decider: exec %s", s->decider_exec);
    else if (s->decider_unix != NULL)
        buf_printf(&text, "decider: unix %s", s->decider_unix);
    else
        buf_puts(&text, "decider: from the command line");
    buf_printf(&text, ", protocol %u, asked about %s, %u ms for each verdict", s->decider_proto,
               level, s->decider_timeout_ms);
    if (s->decider_proto == 1)
        buf_puts(&text, "; it decides everything, and every tunnel is opened");
    settings_line(&line, buf_cstr(&text), buf_len(&text));
    fwrite(buf_data(&line), 1, buf_len(&line), stdout);
    buf_free(&text);
    buf_free(&line);
}

/* What a gateway would stumble over at its start, behind the schema. */
static bool check_gateway(const struct snapshot *s)
{
    unsigned flags = s->listen_any_interface || s->token_file != NULL ? LISTEN_ANY_INTERFACE : 0;
    struct buf error;
    bool ok = true;
    buf_init(&error, 4096);
    if (s->token_file != NULL) {
        struct secret *token = secret_read_file(s->token_file, SECRET_TOKEN_MAX, &error);
        ok = token != NULL;
        secret_free(token);
    }
    for (char **text = s->listen; ok && text != NULL && *text != NULL; text++) {
        struct listen_spec spec;
        ok = listen_parse(*text, &spec, &error) && listen_permitted(&spec, flags, &error);
    }
    if (!ok)
        fprintf(stderr, "srt check: %s\n", buf_cstr(&error));
    buf_free(&error);
    return ok;
}

static int check(const struct snapshot *snapshot, const struct options *o)
{
    if (o->json != NULL)
        return check_json(snapshot->policy, o->json);
    if (o->show)
        show_limits(&snapshot->limits);
    if (o->host_count != 0)
        return check_hosts(snapshot, o);
    if (!check_gateway(snapshot))
        return EXIT_INVALID;
    if (snapshot->decider_proto != 0)
        show_decider(snapshot);
    if (!o->show)
        puts("ok");
    return EXIT_OK;
}

int check_main(int argc, char **argv)
{
    struct options options;
    int status = parse_options(argc, argv, &options);
    if (status != EXIT_OK)
        return status;
    if (options.help) {
        fputs(usage, stdout);
        return EXIT_OK;
    }

    struct buf warnings, error;
    buf_init(&warnings, SIZE_MAX / 2);
    buf_init(&error, SIZE_MAX / 2);
    struct snapshot *snapshot =
        snapshot_load(options.settings, SETTINGS_CHECK, false, &warnings, &error);
    fputs(buf_cstr(&warnings), stderr);
    fputs(buf_cstr(&error), stderr);
    status = snapshot != NULL ? check(snapshot, &options) : EXIT_INVALID;
    snapshot_unref(snapshot);
    buf_free(&warnings);
    buf_free(&error);
    if (fflush(stdout) != 0 && status == EXIT_OK)
        status = EXIT_INVALID;
    return status;
}
