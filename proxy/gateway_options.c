#include "proxy/gateway_options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

const char gateway_usage[] =
    "usage: srt proxy --settings FILE [--listen HOST:PORT|unix:PATH]... [--listen-fd N]...\n"
    "                 [--listen-any-interface] [--log FILE|-] [--port-file FILE]\n"
    "                 [-d|--debug] [--version] [--help]\n";

enum {
    OPTION_LISTEN = 256,
    OPTION_LISTEN_FD,
    OPTION_LISTEN_ANY,
    OPTION_LOG,
    OPTION_PORT_FILE,
    OPTION_VERSION,
    OPTION_HELP
};

static const struct option options[] = {
    {"settings", required_argument, NULL, 's'},
    {"listen", required_argument, NULL, OPTION_LISTEN},
    {"listen-fd", required_argument, NULL, OPTION_LISTEN_FD},
    {"listen-any-interface", no_argument, NULL, OPTION_LISTEN_ANY},
    {"log", required_argument, NULL, OPTION_LOG},
    {"port-file", required_argument, NULL, OPTION_PORT_FILE},
    {"debug", no_argument, NULL, 'd'},
    {"version", no_argument, NULL, OPTION_VERSION},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static bool parse_fd(const char *text, int *fd)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != 0 || text[0] < '0' || text[0] > '9' || n > INT_MAX)
        return false;
    *fd = (int)n;
    return true;
}

/* Room for one more listener. */
static struct listen_spec *next_listener(struct gateway_options *out, struct buf *error)
{
    if (out->listen_count == LISTENERS_MAX) {
        buf_printf(error, "more than %d listeners", LISTENERS_MAX);
        return NULL;
    }
    return &out->listen[out->listen_count++];
}

static bool take(int option, struct gateway_options *out, struct buf *error)
{
    struct listen_spec *spec;
    int fd;
    switch (option) {
    case 's':
        out->settings = optarg;
        return true;
    case OPTION_LISTEN:
        spec = next_listener(out, error);
        return spec != NULL && listen_parse(optarg, spec, error);
    case OPTION_LISTEN_FD:
        spec = next_listener(out, error);
        if (spec == NULL)
            return false;
        if (!parse_fd(optarg, &fd)) {
            buf_printf(error, "--listen-fd takes a descriptor number, not %s", optarg);
            return false;
        }
        listen_inherited(fd, spec);
        return true;
    case OPTION_LISTEN_ANY:
        out->listen_any_interface = true;
        return true;
    case OPTION_LOG:
        out->log = optarg;
        return true;
    case OPTION_PORT_FILE:
        out->port_file = optarg;
        return true;
    case 'd':
        out->debug = true;
        return true;
    case OPTION_VERSION:
        out->version = true;
        return true;
    case OPTION_HELP:
        out->help = true;
        return true;
    default:
        return false;
    }
}

bool gateway_options_parse(int argc, char **argv, struct gateway_options *out, struct buf *error)
{
    memset(out, 0, sizeof *out);
    /* --version counts wherever it stands, even behind an option that is wrong. */
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--version") == 0)
            out->version = true;
    if (out->version)
        return true;
    optind = 0;
    for (;;) {
        int option = getopt_long(argc, argv, "+:s:d", options, NULL);
        if (option == -1)
            break;
        if (option == ':') {
            buf_printf(error, "%s needs a value", argv[optind - 1]);
            return false;
        }
        if (option == '?') {
            buf_printf(error, "unknown option %s", argv[optind - 1]);
            return false;
        }
        if (!take(option, out, error))
            return false;
    }
    if (optind < argc) {
        buf_printf(error, "unexpected argument %s", argv[optind]);
        return false;
    }
    return true;
}
