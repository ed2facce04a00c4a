#include "launcher/prepare.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/executable.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/environment.h"
#include "launcher/locate.h"
#include "launcher/path.h"
#include "launcher/temporary.h"
#include "seccomp/filters.h"

enum { PROXY_PORT = 3128 };

bool prepare_by_bubblewrap(const struct dependencies *d)
{
    const char *forced = getenv("SRT_MOUNTS");
    return d->bwrap_setuid || !d->mount_calls || (forced != NULL && strcmp(forced, "bwrap") == 0);
}

static unsigned filters_for(const struct sandbox_settings *s, const struct dependencies *d)
{
    if (!d->filters)
        return 0;
    if (s->all_unix_sockets)
        return FILTER_TERMINAL;
    return FILTER_TERMINAL | FILTER_SOCKETS | (s->nested_user_namespaces ? 0U : FILTER_NAMESPACES);
}

static bool is_standin(void *ctx, const char *path)
{
    return standins_known(ctx, path);
}

static bool names_temporary(const char *variable)
{
    const char *value = getenv(variable);
    return value != NULL && value[0] != '\0';
}

/* The settings with the keys of the CA that the run has, and the way to its decider, among the
 * denied credentials, whatever a later document says of it. Only the list of these is new; what is
 * in it is borrowed. */
static struct sandbox_settings with_own_hidden(const struct preparation *p)
{
    struct sandbox_settings hiding = *p->settings;
    struct path_list *list = &hiding.credential_denies;
    const struct path_list *given = &p->settings->credential_denies;
    list->entries = mem_array(given->count + TRUST_KEYS_MAX + 1, sizeof list->entries[0]);
    for (size_t i = 0; i < given->count; i++)
        list->entries[i] = given->entries[i];
    for (size_t i = 0; p->trust->keys[i] != NULL; i++)
        list->entries[list->count++] =
            (struct path_entry){.text = p->trust->keys[i], .literal = true};
    if (p->decider_socket != NULL)
        list->entries[list->count++] =
            (struct path_entry){.text = (char *)(uintptr_t)p->decider_socket, .literal = true};
    return hiding;
}

static bool plan_mounts(const struct preparation *p, const char *java_agent,
                        const struct temporary *temporary, struct plan *out, struct buf *error)
{
    const char *readable[TRUST_READABLE_MAX + 2]; /* the agent's jar, and the NULL */
    size_t count = trust_readable(p->trust, readable);
    readable[count++] = java_agent;
    readable[count] = NULL;
    const struct sandbox_settings settings = with_own_hidden(p);
    const struct mounts_options options = {
        .settings = &settings,
        .directory = out->directory,
        .home = path_home(),
        .private_directory = p->records,
        .temporary = temporary->private,
        .readable = readable,
        .protected_files = p->protected_files,
        .is_standin = p->standins != NULL ? is_standin : NULL,
        .standin_ctx = p->standins,
        .stopped = p->stopped,
        .ctx = p->ctx,
    };
    bool done = mounts_plan(&options, &out->mounts, error);
    free(settings.credential_denies.entries);
    return done;
}

static void plan_environment(const struct preparation *p, const char *java_agent,
                             const struct temporary *temporary, struct plan *out)
{
    const struct sandbox_settings *s = p->settings;
    char *connector = locate_connector(&out->mounts);
    const struct environment_options options = {
        .inherited = p->inherited,
        .settings = s,
        .command = p->command,
        .command_len = strlen(p->command),
        .token = p->token,
        .connector = connector,
        .socat = s->socat_path,
        .java_agent = java_agent,
        .trust_bundle = p->trust->bundle.path,
        .trust_store = p->trust->bundle.store,
        .temporary = temporary->path,
        .http_port = s->http_proxy_port != 0 ? s->http_proxy_port : PROXY_PORT,
        .socks_port = s->socks_proxy_port != 0 ? s->socks_proxy_port : PROXY_PORT,
    };
    out->environment = environment_build(&options);
    free(connector);
}

/* What weakens the box, and would not be seen from within. */
static void say_weaknesses(const struct preparation *p, const struct plan *plan)
{
    if (p->settings->weaker_nested)
        log_debug(
            "enableWeakerNestedSandbox: where no new /proc may be mounted the command sees the "
            "host's, and with it the processes of this user");
    if (p->settings->filesystem_disabled && p->trust->keys[0] != NULL)
        log_warning("filesystem.disabled: the command may read %s, the key of the CA",
                    p->trust->keys[0]);
    if (!p->dependencies->filters)
        log_debug("seccomp not available - unix socket access not restricted");
    char *self = realpath("/proc/self/exe", NULL);
    if (self != NULL && paths_cover(&plan->mounts.write_allowed, self) &&
        !paths_cover(&plan->mounts.write_denied, self))
        log_debug("the command may write %s", self);
    free(self);
}

bool prepare_plan(const struct preparation *p, struct plan *out, struct buf *error)
{
    const struct sandbox_settings *s = p->settings;
    struct temporary temporary = {0};
    bool done = false;

    *out = (struct plan){
        .command = p->command,
        .filters = filters_for(s, p->dependencies),
        .observe = p->observe && p->dependencies->filters,
        .by_bubblewrap = prepare_by_bubblewrap(p->dependencies),
        .weaker_nested = s->weaker_nested,
        .nested_namespaces = s->nested_user_namespaces,
    };
    out->own_terminal = p->own_terminal;
    /* The caller's is only given away where its input cannot be written to. */
    out->new_session =
        out->own_terminal || isatty(STDIN_FILENO) == 0 || (out->filters & FILTER_TERMINAL) == 0;
    if (!out->new_session)
        out->filters |= FILTER_GROUP;
    char *java_agent = locate_java_agent(s->java_agent_jar);
    out->shell = executable_find("bash");
    out->directory = getcwd(NULL, 0);
    if (out->shell == NULL) {
        buf_puts(error, "Shell 'bash' not found in PATH");
        goto out;
    }
    if (out->directory == NULL) {
        buf_printf(error, "the working directory cannot be told: %s", strerror(errno));
        goto out;
    }
    if (!s->filesystem_disabled && !names_temporary("CLAUDE_CODE_TMPDIR") &&
        !names_temporary("CLAUDE_TMPDIR"))
        temporary_prepare(&temporary);
    done = plan_mounts(p, java_agent, &temporary, out, error);
    if (done) {
        plan_environment(p, java_agent, &temporary, out);
        say_weaknesses(p, out);
    }
out:
    free(java_agent);
    return done;
}
