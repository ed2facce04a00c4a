#include "proxy/gateway_options.h"

#include <limits.h>
#include <string.h>

#include "decider/remote.h"

const char gateway_usage[] =
    "usage: srt proxy [--settings FILE] [OPTION]...\n"
    "\n"
    "Filters what its clients send out, by the rules of a settings file, by what a\n"
    "decider answers, or by both. Without a settings file a decider is required.\n"
    "\n"
    "  -s, --settings FILE       rules and settings, see srt-settings(5)\n"
    "      --listen ADDRESS      HOST:PORT on this host, or unix:PATH; repeatable\n"
    "      --listen-fd N         accept on this inherited socket; repeatable\n"
    "      --listen-any-interface\n"
    "                            let --listen take addresses that other hosts reach\n"
    "      --port-file FILE      write the addresses listened on to FILE\n"
    "      --log FILE            write records to FILE, - for standard output\n"
    "\n"
    "      --decider-fd N        decider on this inherited stream, both ways\n"
    "      --decider-in N        decider on two inherited streams, read this one\n"
    "      --decider-out N       and write to this one\n"
    "      --decider-exec 'COMMAND ARGUMENT...'\n"
    "                            start a decider, with its standard input and output\n"
    "      --decider-unix PATH   connect to a decider's Unix socket\n"
    "      --decider-proto 1|2   protocol it speaks\n"
    "\n"
    "      --lifeline-fd N       stop when this stream ends\n"
    "      --ca-fd N             read the termination CA, key and certificate\n"
    "      --strip-response-header NAME...\n"
    "                            response headers never passed back; repeatable\n"
    "      --plaintext-header-set\n"
    "                            let the decider set headers in clear text\n"
    "  -d, --debug               log to standard error\n"
    "      --version             print the version and exit, whatever else is given\n"
    "  -h, --help                print this text\n";

enum option_id {
    OPTION_SETTINGS,
    OPTION_LISTEN,
    OPTION_LISTEN_FD,
    OPTION_LISTEN_ANY,
    OPTION_PORT_FILE,
    OPTION_LOG,
    OPTION_DECIDER_FD,
    OPTION_DECIDER_IN,
    OPTION_DECIDER_OUT,
    OPTION_DECIDER_EXEC,
    OPTION_DECIDER_UNIX,
    OPTION_DECIDER_PROTO,
    OPTION_LIFELINE_FD,
    OPTION_CA_FD,
    OPTION_STRIP,
    OPTION_PLAINTEXT,
    OPTION_DEBUG,
    OPTION_VERSION,
    OPTION_HELP
};

static const struct row {
    const char *name; /* "--name" */
    enum option_id id;
    char letter; /* 0: none */
    bool takes_value;
} rows[] = {
    {"--settings", OPTION_SETTINGS, 's', true},
    {"--listen", OPTION_LISTEN, 0, true},
    {"--listen-fd", OPTION_LISTEN_FD, 0, true},
    {"--listen-any-interface", OPTION_LISTEN_ANY, 0, false},
    {"--port-file", OPTION_PORT_FILE, 0, true},
    {"--log", OPTION_LOG, 0, true},
    {"--decider-fd", OPTION_DECIDER_FD, 0, true},
    {"--decider-in", OPTION_DECIDER_IN, 0, true},
    {"--decider-out", OPTION_DECIDER_OUT, 0, true},
    {"--decider-exec", OPTION_DECIDER_EXEC, 0, true},
    {"--decider-unix", OPTION_DECIDER_UNIX, 0, true},
    {"--decider-proto", OPTION_DECIDER_PROTO, 0, true},
    {"--lifeline-fd", OPTION_LIFELINE_FD, 0, true},
    {"--ca-fd", OPTION_CA_FD, 0, true},
    {"--strip-response-header", OPTION_STRIP, 0, true},
    {"--plaintext-header-set", OPTION_PLAINTEXT, 0, false},
    {"--debug", OPTION_DEBUG, 'd', false},
    {"--version", OPTION_VERSION, 0, false},
    {"--help", OPTION_HELP, 'h', false},
};

static const struct row *find_long(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strlen(rows[i].name) == n && memcmp(rows[i].name, name, n) == 0)
            return &rows[i];
    return NULL;
}

static const struct row *find_short(char letter)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (letter != '\0' && rows[i].letter == letter)
            return &rows[i];
    return NULL;
}

/* Decimal digits alone. */
static bool take_fd(const struct row *row, const char *text, int *fd, struct buf *error)
{
    long value = 0;
    size_t i = 0;
    for (; text[i] >= '0' && text[i] <= '9' && value <= INT_MAX; i++)
        value = value * 10 + (text[i] - '0');
    if (i == 0 || text[i] != '\0' || value > INT_MAX) {
        buf_printf(error, "%s takes a descriptor number, not %s", row->name, text);
        return false;
    }
    *fd = (int)value;
    return true;
}

static bool take_listener(const struct row *row, const char *value, struct gateway_options *o,
                          struct buf *error)
{
    int fd;
    if (o->listen_count == LISTENERS_MAX) {
        buf_printf(error, "more than %d listeners", LISTENERS_MAX);
        return false;
    }
    struct listen_spec *spec = &o->listen[o->listen_count++];
    if (row->id == OPTION_LISTEN)
        return listen_parse(value, spec, error);
    if (!take_fd(row, value, &fd, error))
        return false;
    listen_inherited(fd, spec);
    return true;
}

static bool take_command(const char *value, struct gateway_options *o, struct buf *error)
{
    struct buf why;
    buf_init(&why, 1024);
    char **words = remote_split_command(value, &why);
    if (words == NULL)
        buf_printf(error, "--decider-exec: %s", buf_cstr(&why));
    remote_free_words(words);
    buf_free(&why);
    o->decider_exec = value;
    return words != NULL;
}

static bool take_socket(const char *value, struct gateway_options *o, struct buf *error)
{
    size_t n = strlen(value);
    o->decider_unix = value;
    if (n != 0 && n < sizeof(((struct sockaddr_un *)0)->sun_path))
        return true;
    buf_printf(error, "--decider-unix takes a path of 1 to %zu bytes",
               sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
    return false;
}

static bool take_proto(const char *value, struct gateway_options *o, struct buf *error)
{
    if (strcmp(value, "1") == 0 || strcmp(value, "2") == 0) {
        o->decider_proto = value[0] == '1' ? 1 : 2;
        return true;
    }
    buf_printf(error, "--decider-proto takes 1 or 2, not %s", value);
    return false;
}

static bool take_strip(const char *value, struct gateway_options *o, struct buf *error)
{
    if (value[0] == '\0') {
        buf_puts(error, "--strip-response-header takes names, not nothing");
        return false;
    }
    if (o->strip_response_header_count == STRIP_NAMES_MAX) {
        buf_printf(error, "--strip-response-header: more than %d names", STRIP_NAMES_MAX);
        return false;
    }
    o->strip_response_headers[o->strip_response_header_count++] = value;
    return true;
}

static void take_flag(const struct row *row, struct gateway_options *o)
{
    switch (row->id) {
    case OPTION_LISTEN_ANY:
        o->listen_any_interface = true;
        break;
    case OPTION_PLAINTEXT:
        o->plaintext_header_set = true;
        break;
    case OPTION_DEBUG:
        o->debug = true;
        break;
    case OPTION_VERSION:
        o->version = true;
        break;
    case OPTION_HELP:
        o->help = true;
        break;
    default:
        break;
    }
}

static bool take_value(const struct row *row, const char *value, struct gateway_options *o,
                       struct buf *error)
{
    switch (row->id) {
    case OPTION_SETTINGS:
        o->settings = value;
        return true;
    case OPTION_LISTEN:
    case OPTION_LISTEN_FD:
        return take_listener(row, value, o, error);
    case OPTION_PORT_FILE:
        o->port_file = value;
        return true;
    case OPTION_LOG:
        o->log = value;
        return true;
    case OPTION_DECIDER_FD:
        return take_fd(row, value, &o->decider_fd, error);
    case OPTION_DECIDER_IN:
        return take_fd(row, value, &o->decider_in, error);
    case OPTION_DECIDER_OUT:
        return take_fd(row, value, &o->decider_out, error);
    case OPTION_DECIDER_EXEC:
        return take_command(value, o, error);
    case OPTION_DECIDER_UNIX:
        return take_socket(value, o, error);
    case OPTION_DECIDER_PROTO:
        return take_proto(value, o, error);
    case OPTION_LIFELINE_FD:
        return take_fd(row, value, &o->lifeline_fd, error);
    case OPTION_CA_FD:
        return take_fd(row, value, &o->ca_fd, error);
    case OPTION_STRIP:
        return take_strip(value, o, error);
    default:
        return false;
    }
}

/* The rest of a command line. */
struct arguments {
    char **next; /* ends with NULL */
};

static bool looks_like_option(const char *argument)
{
    return argument[0] == '-' && argument[1] != '\0';
}

/* A value that is an argument of its own may look like anything. Names of headers go on up to the
 * next option. */
static bool take_argument(const struct row *row, struct arguments *a, struct gateway_options *o,
                          struct buf *error)
{
    if (*a->next == NULL) {
        buf_printf(error, "%s needs a value", row->name);
        return false;
    }
    if (!take_value(row, *a->next++, o, error))
        return false;
    while (row->id == OPTION_STRIP && *a->next != NULL && !looks_like_option(*a->next))
        if (!take_value(row, *a->next++, o, error))
            return false;
    return true;
}

static bool unknown(const char *argument, struct buf *error)
{
    buf_printf(error, "unknown option %s", argument);
    return false;
}

static bool take_long(const char *argument, struct arguments *a, struct gateway_options *o,
                      struct buf *error)
{
    const char *equals = strchr(argument, '=');
    size_t n = equals != NULL ? (size_t)(equals - argument) : strlen(argument);
    const struct row *row = find_long(argument, n);
    if (row == NULL || (equals != NULL && !row->takes_value))
        return unknown(argument, error);
    if (equals != NULL)
        return take_value(row, equals + 1, o, error);
    if (row->takes_value)
        return take_argument(row, a, o, error);
    take_flag(row, o);
    return true;
}

/* "-ds" FILE, "-sFILE" */
static bool take_letters(const char *argument, struct arguments *a, struct gateway_options *o,
                         struct buf *error)
{
    for (const char *letter = argument + 1; *letter != '\0'; letter++) {
        const struct row *row = find_short(*letter);
        if (row == NULL)
            return unknown(argument, error);
        if (row->takes_value)
            return letter[1] != '\0' ? take_value(row, letter + 1, o, error)
                                     : take_argument(row, a, o, error);
        take_flag(row, o);
    }
    return true;
}

bool gateway_options_have_decider(const struct gateway_options *o)
{
    return o->decider_fd >= 0 || o->decider_in >= 0 || o->decider_out >= 0 ||
           o->decider_exec != NULL || o->decider_unix != NULL;
}

static bool check_decider(const struct gateway_options *o, struct buf *error)
{
    int kinds = (o->decider_fd >= 0) + (o->decider_in >= 0 || o->decider_out >= 0) +
                (o->decider_exec != NULL) + (o->decider_unix != NULL);
    if (kinds > 1) {
        buf_puts(error, "more than one decider: give one of --decider-fd, --decider-in with "
                        "--decider-out, --decider-exec and --decider-unix");
        return false;
    }
    if ((o->decider_in >= 0) == (o->decider_out >= 0))
        return true;
    buf_puts(error, GATEWAY_DECIDER_REQUIRED);
    return false;
}

/* Two users of one descriptor would take each other's bytes; only a decider's stream may be given
 * as both of its directions. */
static bool check_descriptors(const struct gateway_options *o, struct buf *error)
{
    int seen[LISTENERS_MAX + 5];
    size_t count = 0;
    for (size_t i = 0; i < o->listen_count; i++)
        seen[count++] = o->listen[i].fd;
    seen[count++] = o->decider_fd;
    seen[count++] = o->decider_in;
    seen[count++] = o->decider_out != o->decider_in ? o->decider_out : -1;
    seen[count++] = o->lifeline_fd;
    seen[count++] = o->ca_fd;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (seen[i] >= 0 && seen[i] == seen[k]) {
                buf_printf(error, "descriptor %d is given twice", seen[i]);
                return false;
            }
    return true;
}

bool gateway_options_parse(int argc, char **argv, struct gateway_options *out, struct buf *error)
{
    *out = (struct gateway_options){
        .decider_fd = -1, .decider_in = -1, .decider_out = -1, .lifeline_fd = -1, .ca_fd = -1};
    /* --version counts wherever it stands, even behind an option that is wrong. */
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--version") == 0)
            out->version = true;
    if (out->version)
        return true;

    struct arguments rest = {.next = argc > 0 ? argv + 1 : argv};
    bool only_operands = false;
    while (*rest.next != NULL) {
        const char *argument = *rest.next++;
        if (only_operands || !looks_like_option(argument)) {
            buf_printf(error, "unexpected argument %s", argument);
            return false;
        }
        if (strcmp(argument, "--") == 0)
            only_operands = true;
        else if (argument[1] == '-' ? !take_long(argument, &rest, out, error)
                                    : !take_letters(argument, &rest, out, error))
            return false;
    }
    return out->help || (check_decider(out, error) && check_descriptors(out, error));
}
