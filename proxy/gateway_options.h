/* The command line of `srt proxy`. */
#ifndef PROXY_GATEWAY_OPTIONS_H
#define PROXY_GATEWAY_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "proxy/net/listen.h"

enum { LISTENERS_MAX = 64 };

struct gateway_options {
    const char *settings;  /* NULL: none given */
    const char *log;       /* NULL: as the settings say */
    const char *port_file; /* NULL: none */
    struct listen_spec listen[LISTENERS_MAX];
    size_t listen_count;
    bool listen_any_interface;
    bool debug;
    bool help, version;
};

/* False with the complaint in *error. */
bool gateway_options_parse(int argc, char **argv, struct gateway_options *out, struct buf *error);

extern const char gateway_usage[];

#endif
