#include "decider/reference/options.h"

#include <getopt.h>
#include <stddef.h>

const char decider_usage[] = "usage: srt-decider [--log FILE|-] [--listen PATH] RULES.json\n"
                             "       srt-decider --check RULES.json\n"
                             "       srt-decider --version | --help\n";

enum { OPTION_CHECK = 256, OPTION_LOG, OPTION_LISTEN, OPTION_VERSION, OPTION_HELP };

static const struct option options[] = {
    {"check", no_argument, NULL, OPTION_CHECK},
    {"log", required_argument, NULL, OPTION_LOG},
    {"listen", required_argument, NULL, OPTION_LISTEN},
    {"version", no_argument, NULL, OPTION_VERSION},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static void take(int option, struct decider_options *out)
{
    switch (option) {
    case OPTION_CHECK:
        out->check = true;
        break;
    case OPTION_LOG:
        out->log = optarg;
        break;
    case OPTION_LISTEN:
        out->listen = optarg;
        break;
    case OPTION_VERSION:
        out->version = true;
        break;
    default:
        out->help = true;
        break;
    }
}

bool decider_options_parse(int argc, char **argv, struct decider_options *out, struct buf *error)
{
    int option;
    *out = (struct decider_options){0};
    optind = 0;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (option == ':') {
            buf_printf(error, "%s needs a value", argv[optind - 1]);
            return false;
        }
        if (option == '?') {
            buf_printf(error, "unknown option %s", argv[optind - 1]);
            return false;
        }
        take(option, out);
    }
    if (out->version || out->help)
        return true;
    if (optind == argc)
        buf_puts(error, "a file of rules is required");
    else if (optind + 1 < argc)
        buf_printf(error, "unexpected argument %s", argv[optind + 1]);
    else if (out->check && (out->log != NULL || out->listen != NULL))
        buf_puts(error, "--check takes no other option");
    else
        out->rules = argv[optind];
    return out->rules != NULL;
}
