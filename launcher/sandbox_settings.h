/*
 * What a settings document says about the box: the file-system lists, the
 * variables and files that are withheld, and the switches of chapter 50 section
 * 2. The network side is the proxy's snapshot.
 */
#ifndef LAUNCHER_SANDBOX_SETTINGS_H
#define LAUNCHER_SANDBOX_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"

struct path_entry {
    char *text;   /* as written; no NUL, not empty */
    bool literal; /* {"path": ..., "literal": true}: a name whatever it holds */
};
struct path_list {
    struct path_entry *entries;
    size_t count;
};

struct sandbox_settings {
    struct path_list deny_read, allow_read, allow_write, deny_write;
    struct path_list credential_denies; /* credentials.files with mode "deny" */
    char **withheld_variables;          /* credentials.envVars with mode "deny"; NULL-terminated */
    char **git_safe_directories;        /* as written; NULL-terminated */
    char *bwrap_path, *socat_path, *java_agent_jar; /* NULL: not given */
    unsigned search_depth;                          /* 1 to 10 */
    uint16_t http_proxy_port, socks_proxy_port;     /* 0: our own proxy */
    bool filesystem_disabled;
    bool allow_git_config;
    bool weaker_nested;
    bool nested_user_namespaces;
    bool all_unix_sockets;
};

/*
 * From a document that passed schema_validate() for SETTINGS_SANDBOX. NULL with one line in *error,
 * without a newline, for what the schema cannot know (a path that holds a NUL byte).
 */
struct sandbox_settings *sandbox_settings_new(const json_t *document, struct buf *error);
void sandbox_settings_free(struct sandbox_settings *s);

#endif
