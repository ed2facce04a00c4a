/* Who answers what no rule decides: a person at the terminal, or the decider of the settings. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/executable.h"
#include "base/log.h"
#include "base/mem.h"
#include "decider/remote.h"
#include "launcher/path.h"
#include "launcher/run_internal.h"
#include "launcher/writable.h"

static const double WARNING_PAUSE_S = 10.0;

/* Its lists, and the hello that they are in. */
struct decider_said {
    struct decider_lists lists;
    char **entries;
    size_t count;
};

/* --- a person ------------------------------------------------------------------------------ */

static bool names_decider(const struct snapshot *s)
{
    return s->decider_exec != NULL || s->decider_unix != NULL;
}

/* Questions are denied from here on; what is left of the command ends when the grace does. */
static void on_quit(void *ctx)
{
    struct run *r = ctx;

    r->quit = true;
    if (!asking_interrupt(r->asking))
        box_signal(r->box, SIGINT);
    if (!ev_is_active(&r->grace))
        ev_timer_start(r->loop, &r->grace);
}

static bool start_asking(struct run *r, struct buf *error)
{
    const struct asking_options options = {.loop = r->loop,
                                           .timeout_s = r->line->ask_timeout_s,
                                           .command = buf_cstr(&r->command),
                                           .quit = on_quit,
                                           .ctx = r};
    const struct {
        const char *option, *target;
    } logs[] = {{"--log", r->line->log},
                {"proxy.log", r->line->log == NULL ? r->snapshot->log_file : NULL},
                {"--violations", r->line->violations}};

    r->asking = asking_new(&options, error);
    if (r->asking == NULL)
        return false;
    for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++) {
        if (logs[i].target == NULL || !asking_is_terminal(r->asking, logs[i].target))
            continue;
        buf_printf(error, "--ask: %s %s would write over the questions", logs[i].option,
                   logs[i].target);
        return false;
    }
    return true;
}

bool run_prepare_decider(struct run *r, struct buf *error)
{
    const json_t *network = json_object_get(r->document, "network");

    if (r->snapshot->decider_unix != NULL)
        r->decider_socket = mem_dup(r->snapshot->decider_unix);
    if (r->snapshot->decider_exec != NULL)
        r->decider_exec = mem_dup(r->snapshot->decider_exec);
    if (!r->line->ask)
        return true;
    if (names_decider(r->snapshot)) {
        buf_puts(error, "--ask: the settings name a decider, and only one can answer");
        return false;
    }
    if (json_is_true(json_object_get(network, "strictAllowlist")))
        log_warning("--ask: with network.strictAllowlist nothing is ever asked");
    if (r->line->print_plan)
        return true;
    return start_asking(r, error);
}

/* --- a decider ----------------------------------------------------------------------------- */

static bool within_reach(const struct run *r, const char *path)
{
    char *directory = getcwd(NULL, 0);
    char *full = path_spell(path, directory != NULL ? directory : "/", path_home());
    bool reached = full != NULL && writable_by_command(r->settings, full);
    free(full);
    free(directory);
    return reached;
}

/* Its program, and the files that it is given: whoever can write one decides, outside of the box.
 */
static bool program_is_safe(const struct run *r, struct buf *error)
{
    char **words = remote_split_command(r->decider_exec, error);
    bool safe = words != NULL;
    for (char **word = words; safe && *word != NULL; word++) {
        bool named = word == words && strchr(*word, '/') == NULL;
        char *path = named ? executable_find(*word) : mem_dup(*word);
        struct stat st;
        safe =
            path == NULL || stat(path, &st) != 0 || S_ISDIR(st.st_mode) || !within_reach(r, path);
        if (!safe)
            buf_printf(error, "decider.exec: the command may write %s, and could decide for itself",
                       path);
        free(path);
    }
    remote_free_words(words);
    return safe;
}

/* A decider that is started again has a new node, which nothing hides from a box that is there. */
bool run_decider_is_safe(const struct run *r, struct buf *error)
{
    if (r->decider_exec != NULL)
        return program_is_safe(r, error);
    if (r->decider_socket == NULL)
        return true;
    if (r->settings->all_unix_sockets) {
        buf_puts(error, "decider.unix: with network.allowAllUnixSockets the command could reach "
                        "the decider itself");
        return false;
    }
    char *real = path_canonical(r->decider_socket);
    char *named = path_parent(r->decider_socket), *led_to = path_parent(real);
    bool safe =
        !writable_by_command(r->settings, named) && !writable_by_command(r->settings, led_to);
    if (!safe)
        buf_printf(error,
                   "decider.unix: the command may write where %s is, and could put itself "
                   "in the decider's place",
                   r->decider_socket);
    free(real);
    free(named);
    free(led_to);
    return safe;
}

static void forget_said(struct run *r)
{
    if (r->said == NULL)
        return;
    for (size_t i = 0; i < r->said->count; i++)
        free(r->said->entries[i]);
    free(r->said->entries);
    MEM_FREE(r->said);
}

/* A copy: settings that come later are combined with it. */
static void keep_said(struct run *r, const struct hello *hello)
{
    struct decider_said *said = mem_alloc(sizeof *said);

    forget_said(r);
    said->count = hello->allowed_count + hello->denied_count;
    said->entries = mem_array(said->count + 1, sizeof said->entries[0]);
    for (size_t i = 0; i < hello->allowed_count; i++)
        said->entries[i] = mem_dup(hello->allowed[i]);
    for (size_t i = 0; i < hello->denied_count; i++)
        said->entries[hello->allowed_count + i] = mem_dup(hello->denied[i]);
    const char *const *entries = (const char *const *)said->entries;
    said->lists = (struct decider_lists){.allowed = entries,
                                         .allowed_count = hello->allowed_count,
                                         .denied = entries + hello->allowed_count,
                                         .denied_count = hello->denied_count};
    r->said = said;
}

const struct decider_lists *run_decider_lists(const struct run *r)
{
    return r->said != NULL ? &r->said->lists : NULL;
}

/* Nothing was started. */
static void fail(struct run *r, const char *why)
{
    struct buf line;
    ev_timer_stop(r->loop, &r->decider_late);
    buf_init(&line, 4096);
    buf_printf(&line, "decider: %s", why);
    r->status = run_failed(r, buf_chars(&line), buf_len(&line));
    buf_free(&line);
    ev_break(r->loop, EVBREAK_ALL);
}

static bool use_lists(struct run *r)
{
    struct snapshot *snapshot = run_snapshot(r, r->document, true);
    if (snapshot == NULL)
        return false;
    core_replace_snapshot(r->core, snapshot);
    r->ignore = core_worker(r->core)->snapshot->ignore_violations;
    return true;
}

/* What it allowed by its hello it would be asked about now. What it denied stays denied. */
static void forget_allowed(struct run *r)
{
    if (r->said == NULL || r->said->lists.allowed_count == 0)
        return;
    r->said->lists.allowed_count = 0;
    use_lists(r);
}

static void on_ready(void *ctx, const struct hello *hello)
{
    struct run *r = ctx;
    bool first = ev_is_active(&r->decider_late);

    keep_said(r, hello);
    if (!use_lists(r)) {
        if (first)
            fail(r, "its lists cannot be used");
        return;
    }
    r->decider_warning = 0;
    if (first) {
        ev_timer_stop(r->loop, &r->decider_late);
        run_begin(r);
    }
}

static void on_away(void *ctx, const char *why, bool final)
{
    struct run *r = ctx;
    (void) final; /* of inherited descriptors alone */

    worker_decider_lost(core_worker(r->core));
    forget_allowed(r);
    if (ev_is_active(&r->decider_late)) {
        free(r->decider_why);
        r->decider_why = mem_dup(why);
        /* A program that does not run will not the next time; what listens may yet come up. */
        if (r->decider_socket == NULL)
            fail(r, why);
        return;
    }
    /* Without a first hello nothing runs: that has been said. */
    if (r->said == NULL || ev_now(r->loop) < r->decider_warning)
        return;
    log_warning("decider: %s; what no rule decides is refused while it is away", why);
    r->decider_warning = ev_now(r->loop) + WARNING_PAUSE_S;
}

static void on_late(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct run *r = timer->data;
    (void)loop;
    (void)revents;
    fail(r, r->decider_why != NULL ? r->decider_why : "no hello came in time");
}

bool run_open_decider(struct run *r, struct buf *error)
{
    struct worker *w = core_worker(r->core);
    const struct snapshot *s = w->snapshot;

    if (r->asking != NULL)
        w->decider = asking_decider(r->asking);
    if (!names_decider(s) || r->line->print_plan)
        return true;
    const struct remote_options options = {.loop = r->loop,
                                           .proto = s->decider_proto,
                                           .level = s->decider_level,
                                           .timeout_ms = s->decider_timeout_ms,
                                           .fd_in = -1,
                                           .fd_out = -1,
                                           .exec = s->decider_exec,
                                           .unix_path = s->decider_unix,
                                           .files = &r->files,
                                           .ready = on_ready,
                                           .away = on_away,
                                           .ctx = r};
    r->decider = remote_new(&options, error);
    w->decider = r->decider;
    if (r->decider == NULL)
        return false;
    ev_timer_init(&r->decider_late, on_late, REMOTE_HELLO_MS / 1e3, 0);
    r->decider_late.data = r;
    ev_timer_start(r->loop, &r->decider_late);
    return true;
}

bool run_awaits_decider(const struct run *r)
{
    return r->decider != NULL && r->said == NULL;
}

void run_close_decider(struct run *r)
{
    ev_timer_stop(r->loop, &r->decider_late);
    remote_free(r->decider);
    asking_free(r->asking);
    forget_said(r);
    free(r->decider_socket);
    free(r->decider_exec);
    free(r->decider_why);
}
