/* The command's environment, chapter 50 section 11. Pure but for files that are looked for. */
#ifndef LAUNCHER_ENVIRONMENT_H
#define LAUNCHER_ENVIRONMENT_H

#include <stddef.h>

#include "base/buf.h"
#include "launcher/sandbox_settings.h"

struct environment_options {
    char *const *inherited; /* srt's own environment */
    const struct sandbox_settings *settings;
    const char *command; /* what requests are attributed to */
    size_t command_len;
    const char *token;        /* NULL: no credential (an external HTTP proxy) */
    const char *connector;    /* a path of srt that the box can execute; NULL: socat is used */
    const char *socat;        /* socat's path or name; NULL: "socat" */
    const char *java_agent;   /* path of the jar; NULL: none */
    const char *trust_bundle; /* PEM file of what the command is to trust; NULL: as it is */
    const char *trust_store;  /* the same for JVMs, PKCS #12; NULL: none */
    const char *temporary;    /* TMPDIR when no CLAUDE_* variable names one */
    unsigned http_port, socks_port; /* CLAUDE_CODE_HOST_*: 3128, or the external ones */
};

/* NULL-terminated, in a stable order; free with environment_free(), which wipes. */
char **environment_build(const struct environment_options *o);
void environment_free(char **environment);

/* "srt.<base64>" or "srt": the proxy user name of a command. */
void environment_user(struct buf *out, const char *command, size_t n);

#endif
