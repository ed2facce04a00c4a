/*
 * The command line of `srt proxy`: that of the peer's proxy-only mode (chapter
 * 35 section 5), and ours. Strings are borrowed from argv.
 */
#ifndef PROXY_GATEWAY_OPTIONS_H
#define PROXY_GATEWAY_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "proxy/net/listen.h"

enum { LISTENERS_MAX = 64, STRIP_NAMES_MAX = 256 };

struct gateway_options {
    const char *settings;  /* NULL: none given */
    const char *log;       /* NULL: as the settings say */
    const char *port_file; /* NULL: none */
    struct listen_spec listen[LISTENERS_MAX];
    size_t listen_count;
    bool listen_any_interface;

    /* The decider, of one kind at most; descriptors are -1 when not given. */
    int decider_fd;
    int decider_in, decider_out; /* both or neither */
    const char *decider_exec, *decider_unix;
    unsigned decider_proto; /* 1, 2, or 0: not given */

    int lifeline_fd, ca_fd;                              /* -1: not given */
    const char *strip_response_headers[STRIP_NAMES_MAX]; /* as written, not empty */
    size_t strip_response_header_count;
    bool plaintext_header_set;
    bool debug;
    bool help, version;
};

/* False with the complaint in *error. */
bool gateway_options_parse(int argc, char **argv, struct gateway_options *out, struct buf *error);

/* The command line brings a decider. */
bool gateway_options_have_decider(const struct gateway_options *o);

#define GATEWAY_DECIDER_REQUIRED \
    "a decider is required (--decider-fd, or --decider-in and --decider-out)"

extern const char gateway_usage[];

#endif
