/* Who answers what no rule decides: a person at the terminal, or the decider of the settings. */
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "decider/remote.h"
#include "launcher/run_internal.h"
#include "proxy/egress/answers.h"

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

bool run_prepare_decider(struct run *r, struct buf *error)
{
    const json_t *network = json_object_get(r->document, "network");

    if (r->snapshot->decider_unix != NULL)
        r->decider_socket = mem_dup(r->snapshot->decider_unix);
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
    r->asking = asking_new(r->loop, r->line->ask_timeout_s, error);
    return r->asking != NULL;
}

/* --- a decider ----------------------------------------------------------------------------- */

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

static void on_ready(void *ctx, const struct hello *hello)
{
    struct run *r = ctx;
    bool first = ev_is_active(&r->decider_late);

    keep_said(r, hello);
    struct snapshot *snapshot = run_snapshot(r, r->document, true);
    if (snapshot == NULL) {
        if (first)
            fail(r, "its lists cannot be used");
        return;
    }
    core_replace_snapshot(r->core, snapshot);
    r->ignore = core_worker(r->core)->snapshot->ignore_violations;
    r->decider_warning = 0;
    if (first) {
        ev_timer_stop(r->loop, &r->decider_late);
        run_begin(r);
    }
}

static void on_away(void *ctx, const char *why, bool final)
{
    struct run *r = ctx;
    struct worker *w = core_worker(r->core);
    (void) final; /* of inherited descriptors alone */

    /* What it promised for a while was its word, not its successor's. */
    if (w->answers != NULL)
        answers_clear(w->answers);
    if (ev_is_active(&r->decider_late)) {
        free(r->decider_why);
        r->decider_why = mem_dup(why);
        /* A program that does not run will not the next time; what listens may yet come up. */
        if (r->decider_socket == NULL)
            fail(r, why);
        return;
    }
    if (ev_now(r->loop) < r->decider_warning)
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
    free(r->decider_why);
}
