#include "launcher/sandbox_settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { SEARCH_DEPTH_DEFAULT = 3 };

/* A copy of a JSON string. False, with a line in *error naming the key, when it holds a NUL. */
static bool copy_text(const json_t *value, const char *key, char **out, struct buf *error)
{
    const char *text = json_string_value(value);
    size_t n = json_string_length(value);
    if (memchr(text, 0, n) != NULL) {
        buf_printf(error,
                   "Sandbox profile contains a path with a NUL byte, which no path can hold (%s)",
                   key);
        return false;
    }
    *out = mem_dup_n(text, n);
    return true;
}

static bool optional_text(const json_t *object, const char *key, char **out, struct buf *error)
{
    const json_t *value = json_object_get(object, key);
    return value == NULL || copy_text(value, key, out, error);
}

static bool add_entry(struct path_list *list, const json_t *text, bool literal, const char *key,
                      struct buf *error)
{
    struct path_entry entry = {.literal = literal};
    if (!copy_text(text, key, &entry.text, error))
        return false;
    list->entries[list->count++] = entry;
    return true;
}

static bool read_list(const json_t *filesystem, const char *key, const char *shown,
                      struct path_list *list, struct buf *error)
{
    const json_t *array = json_object_get(filesystem, key);
    size_t count = json_array_size(array);
    list->entries = mem_array(count + 1, sizeof list->entries[0]);
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_array_get(array, i);
        bool literal = json_is_object(entry);
        if (!add_entry(list, literal ? json_object_get(entry, "path") : entry, literal, shown,
                       error))
            return false;
    }
    return true;
}

static bool has_mode(const json_t *entry, const char *mode)
{
    return strcmp(json_string_value(json_object_get(entry, "mode")), mode) == 0;
}

static bool read_filesystem(struct sandbox_settings *s, const json_t *document, struct buf *error)
{
    const json_t *filesystem = json_object_get(document, "filesystem");
    s->filesystem_disabled = json_is_true(json_object_get(filesystem, "disabled"));
    s->allow_git_config = json_is_true(json_object_get(filesystem, "allowGitConfig"));
    if (s->filesystem_disabled) /* none of the lists is in force, nor looked at */
        return true;
    return read_list(filesystem, "denyRead", "filesystem.denyRead", &s->deny_read, error) &&
           read_list(filesystem, "allowRead", "filesystem.allowRead", &s->allow_read, error) &&
           read_list(filesystem, "allowWrite", "filesystem.allowWrite", &s->allow_write, error) &&
           read_list(filesystem, "denyWrite", "filesystem.denyWrite", &s->deny_write, error);
}

static bool read_credential_files(struct sandbox_settings *s, const json_t *credentials,
                                  struct buf *error)
{
    const json_t *files = json_object_get(credentials, "files");
    size_t count = json_array_size(files);
    if (s->filesystem_disabled)
        return true;
    s->credential_denies.entries = mem_array(count + 1, sizeof(struct path_entry));
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_array_get(files, i);
        if (has_mode(entry, "deny") &&
            !add_entry(&s->credential_denies, json_object_get(entry, "path"), false,
                       "credentials.files", error))
            return false;
    }
    return true;
}

/* Masked variables are withheld like denied ones: what is inherited is the real value, and a
 * stand-in is put in its place afterwards, if at all. */
static void read_credential_variables(struct sandbox_settings *s, const json_t *credentials)
{
    const json_t *variables = json_object_get(credentials, "envVars");
    size_t count = json_array_size(variables);
    s->withheld_variables = mem_array(count + 1, sizeof s->withheld_variables[0]);
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_array_get(variables, i);
        s->withheld_variables[i] = mem_dup(json_string_value(json_object_get(entry, "name")));
    }
}

static bool read_git(struct sandbox_settings *s, const json_t *document, struct buf *error)
{
    const json_t *list = json_object_get(json_object_get(document, "git"), "safeDirectories");
    size_t count = json_array_size(list);
    s->git_safe_directories = mem_array(count + 1, sizeof s->git_safe_directories[0]);
    for (size_t i = 0; i < count; i++)
        if (!copy_text(json_array_get(list, i), "git.safeDirectories", &s->git_safe_directories[i],
                       error))
            return false;
    return true;
}

static bool read_programs(struct sandbox_settings *s, const json_t *document, struct buf *error)
{
    return optional_text(document, "bwrapPath", &s->bwrap_path, error) &&
           optional_text(document, "socatPath", &s->socat_path, error) &&
           optional_text(document, "javaAgentJarPath", &s->java_agent_jar, error);
}

/* A number that the schema found to be whole and in range; 3.0 is one too. */
static unsigned whole(const json_t *object, const char *key, unsigned otherwise)
{
    const json_t *value = json_object_get(object, key);
    return value != NULL ? (unsigned)json_number_value(value) : otherwise;
}

static void read_switches(struct sandbox_settings *s, const json_t *document)
{
    const json_t *network = json_object_get(document, "network");
    s->search_depth = whole(document, "mandatoryDenySearchDepth", SEARCH_DEPTH_DEFAULT);
    s->weaker_nested = json_is_true(json_object_get(document, "enableWeakerNestedSandbox"));
    s->nested_user_namespaces =
        json_is_true(json_object_get(document, "allowNestedUserNamespaces"));
    s->all_unix_sockets = json_is_true(json_object_get(network, "allowAllUnixSockets"));
    s->http_proxy_port = (uint16_t)whole(network, "httpProxyPort", 0);
    s->socks_proxy_port = (uint16_t)whole(network, "socksProxyPort", 0);
}

struct sandbox_settings *sandbox_settings_new(const json_t *document, struct buf *error)
{
    struct sandbox_settings *s = mem_alloc(sizeof *s);
    const json_t *credentials = json_object_get(document, "credentials");
    read_switches(s, document);
    read_credential_variables(s, credentials);
    if (read_filesystem(s, document, error) && read_credential_files(s, credentials, error) &&
        read_git(s, document, error) && read_programs(s, document, error))
        return s;
    sandbox_settings_free(s);
    return NULL;
}

static void free_list(struct path_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->entries[i].text);
    free(list->entries);
}

static void free_texts(char **texts)
{
    for (size_t i = 0; texts != NULL && texts[i] != NULL; i++)
        free(texts[i]);
    free(texts);
}

void sandbox_settings_free(struct sandbox_settings *s)
{
    if (s == NULL)
        return;
    free_list(&s->deny_read);
    free_list(&s->allow_read);
    free_list(&s->allow_write);
    free_list(&s->deny_write);
    free_list(&s->credential_denies);
    free_texts(s->withheld_variables);
    free_texts(s->git_safe_directories);
    free(s->bwrap_path);
    free(s->socat_path);
    free(s->java_agent_jar);
    free(s);
}
