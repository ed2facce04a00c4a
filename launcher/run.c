#include "launcher/run.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "launcher/box.h"
#include "launcher/control.h"
#include "launcher/dependencies.h"
#include "launcher/locate.h"
#include "launcher/own_files.h"
#include "launcher/prepare.h"
#include "launcher/run_internal.h"
#include "launcher/signals.h"
#include "launcher/standins.h"
#include "proxy/settings/load.h"
#include "proxy/settings/notes.h"

enum {
    TOKEN_BYTES = 16,
    COMMAND_MAX = 131071 /* the kernel's for one argument (MAX_ARG_STRLEN), its NUL left out */
};

/* After a signal to srt, and after a dead control channel, the command has this long. */
static const double GRACE_S = 2.0;

int run_failed(const struct run *r, const char *message, size_t n)
{
    struct buf line;
    buf_init(&line, SIZE_MAX / 2);
    buf_puts(&line, "Error: ");
    settings_line(&line, message, n);
    fd_write_all(STDERR_FILENO, buf_data(&line), buf_len(&line));
    buf_free(&line);
    return run_failure_status(r);
}

int run_failure_status(const struct run *r)
{
    return r->line->strict_exit_codes ? STATUS_STRICT_FAILURE : STATUS_FAILURE;
}

/* --- settings ------------------------------------------------------------------------------ */

/* The document becomes the one that the box is made by. False with a line in *error. */
static bool take_document(struct run *r, const json_t *document, struct buf *error)
{
    struct sandbox_settings *settings = sandbox_settings_new(document, error);
    if (settings == NULL)
        return false;
    sandbox_settings_free(r->settings);
    r->settings = settings;
    return true;
}

void run_say(struct buf *text)
{
    if (buf_len(text) != 0)
        fd_write_all(STDERR_FILENO, buf_data(text), buf_len(text));
    buf_clear(text);
}

struct snapshot *run_snapshot(const struct run *r, const json_t *document, bool quiet)
{
    struct buf warnings, error;
    buf_init(&warnings, SETTINGS_FILE_MAX);
    buf_init(&error, SETTINGS_FILE_MAX);
    struct snapshot *snapshot = snapshot_build_with(document, SETTINGS_SANDBOX, true,
                                                    run_decider_lists(r), &warnings, &error);
    if (snapshot == NULL || !quiet)
        run_say(snapshot != NULL ? &warnings : &error);
    buf_free(&warnings);
    buf_free(&error);
    return snapshot;
}

/* Step 1. */
static bool load_settings(struct run *r)
{
    struct buf error;
    buf_init(&error, SIZE_MAX / 2);
    json_t *document = settings_load(r->line->settings, SETTINGS_SANDBOX, &error);
    if (document == NULL) {
        run_say(&error);
        buf_free(&error);
        return false;
    }
    r->document = document;
    r->snapshot = run_snapshot(r, document, false);
    bool done = r->snapshot != NULL && take_document(r, document, &error);
    if (r->snapshot != NULL && !done)
        run_failed(r, buf_chars(&error), buf_len(&error));
    buf_free(&error);
    return done;
}

/* Step 2. The message is whole, as the contract has it. */
static bool control_channel(struct run *r)
{
    if (buf_len(&r->control_error) == 0)
        return true;
    buf_puts(&r->control_error, "\n");
    run_say(&r->control_error);
    return false;
}

/* A valid line of the control descriptor. */
static void on_document(void *ctx, const json_t *document)
{
    struct run *r = ctx;
    struct buf error;
    struct snapshot *snapshot = run_snapshot(r, document, false);

    if (snapshot == NULL) {
        log_warning("Invalid config on control fd %d: ignored, previous config still in force",
                    r->line->control_fd);
        return;
    }
    buf_init(&error, 4096);
    if (!r->started && take_document(r, document, &error))
        r->wrap_again = true;
    buf_free(&error);
    json_decref(r->document);
    r->document = json_incref((json_t *)(uintptr_t)document);
    core_replace_snapshot(r->core, snapshot);
    r->ignore = core_worker(r->core)->snapshot->ignore_violations;
}

static void on_control_failed(void *ctx, bool before_any, const char *message)
{
    struct run *r = ctx;
    fprintf(stderr, "%s\n", message);
    if (!before_any)
        return;
    r->control_failed = true;
    if (r->started) {
        box_signal(r->box, SIGTERM);
        ev_timer_start(r->loop, &r->grace);
    }
}

static bool stopped(void *ctx)
{
    struct run *r = ctx;
    return signals_pending(r->signals) != 0;
}

/* --- the steps ----------------------------------------------------------------------------- */

static bool make_token(struct run *r)
{
    uint8_t bytes[TOKEN_BYTES];
    char hex[2 * TOKEN_BYTES + 1];

    /* Who is behind an external HTTP proxy is that proxy's matter. */
    if (r->settings->http_proxy_port != 0)
        return true;
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    r->token = secret_new(hex, sizeof hex - 1);
    explicit_bzero(bytes, sizeof bytes);
    explicit_bzero(hex, sizeof hex);
    return true;
}

static const char *token_of(const struct run *r)
{
    return r->token != NULL ? (const char *)r->token->bytes : NULL;
}

static bool prepare_trust(struct run *r, struct buf *error)
{
    struct buf warnings;
    buf_init(&warnings, 65536);
    bool done = trust_prepare(&r->trust, r->snapshot, &warnings, error);
    run_say(&warnings);
    buf_free(&warnings);
    return done;
}

static bool start_core(struct run *r, struct buf *error)
{
    if (!make_token(r)) {
        buf_puts(error, "no random bytes for the token");
        return false;
    }
    if (!prepare_trust(r, error))
        return false;
    if (r->line->annotate || r->line->violations != NULL)
        r->store = violation_store_new();
    r->ignore = r->snapshot->ignore_violations;
    const char *log = r->line->log != NULL ? r->line->log : r->snapshot->log_file;
    own_files(r->line, &r->dependencies, r->inside, log, r->decider_socket, &r->own_files);
    const struct core_options options = {.loop = r->loop,
                                         .snapshot = r->snapshot,
                                         .log = log,
                                         .log_may_be_planted = true,
                                         .token = token_of(r),
                                         .token_optional = true,
                                         .short_lived = true,
                                         .attribution = buf_cstr(&r->command),
                                         .violations = r->store,
                                         .ca = r->trust.ca};
    r->snapshot = NULL;
    r->core = core_new(&options, error);
    return r->core != NULL && run_open_decider(r, error);
}

/* What is only planned has no terminal opened for it. */
static bool has_own_terminal(const struct run *r)
{
    return r->asking != NULL
               ? asking_has_keys(r->asking)
               : r->line->ask && (isatty(STDIN_FILENO) != 0 || isatty(STDOUT_FILENO) != 0);
}

/* The wrap starts over while settings keep coming in. */
static bool wrap(struct run *r, struct buf *error)
{
    const struct preparation preparation = {.settings = r->settings,
                                            .dependencies = &r->dependencies,
                                            .command = buf_cstr(&r->command),
                                            .inherited = r->environment,
                                            .token = token_of(r),
                                            .trust = &r->trust,
                                            .records = r->records,
                                            .protected_files =
                                                (const char *const *)r->own_files.list,
                                            .standins = r->standins,
                                            .decider_socket = r->decider_socket,
                                            .own_terminal = has_own_terminal(r),
                                            .observe = r->store != NULL,
                                            .stopped = stopped,
                                            .ctx = r};
    struct preparation again = preparation;
    do {
        if (r->control != NULL)
            control_poll(r->control);
        r->wrap_again = false;
        plan_free(&r->plan);
        again.settings = r->settings;
        if (!run_decider_is_safe(r, error) || !prepare_plan(&again, &r->plan, error))
            return false;
        if (r->control != NULL)
            control_poll(r->control);
    } while (r->wrap_again);
    log_debug("%zu mounts by %s, %zu stand-ins", r->plan.mounts.count,
              r->plan.by_bubblewrap ? "bubblewrap" : "srt-inside", r->plan.mounts.standin_count);
    for (size_t i = 0; i < r->plan.mounts.warnings.count; i++)
        log_warning("%s", r->plan.mounts.warnings.list[i]);
    return true;
}

static void print_plan(struct run *r)
{
    struct buf text;
    buf_init(&text, SIZE_MAX / 2);
    plan_print(&r->plan, r->environment, token_of(r), r->line->json, &text);
    fd_write_all(STDOUT_FILENO, buf_data(&text), buf_len(&text));
    buf_wipe(&text);
}

static bool watch_violations(struct run *r, struct buf *error)
{
    if (r->store == NULL)
        return true;
    if (r->violations_closed) {
        buf_printf(error, "violations %s: not open for writing", r->line->violations);
        return false;
    }
    const struct violations_options options = {.loop = r->loop,
                                               .target = r->line->violations,
                                               .annotate = r->line->annotate,
                                               .command = buf_cstr(&r->command),
                                               .command_len = buf_len(&r->command),
                                               .ignore = &r->ignore,
                                               .write_allowed = &r->plan.mounts.write_allowed,
                                               .write_denied = &r->plan.mounts.write_denied,
                                               .read_hidden = &r->plan.mounts.read_hidden,
                                               .store = r->store};
    r->violations = violations_new(&options, error);
    return r->violations != NULL;
}

static void command_string(struct run *r)
{
    const struct command_line *line = r->line;
    if (line->command != NULL && line->command[0] != '\0')
        buf_puts(&r->command, line->command);
    else
        command_line_quote(line->words, line->word_count, &r->command);
}

/* Steps 2 to 7. */
static bool set_up(struct run *r, struct buf *error)
{
    const struct command_line *line = r->line;

    if (!dependencies_check(r->settings, &r->dependencies, error))
        return false;
    r->inside = locate_inside(error);
    if (r->inside < 0)
        return false;
    r->plan.by_bubblewrap = prepare_by_bubblewrap(&r->dependencies);
    command_string(r);
    if (!run_prepare_decider(r, error))
        return false;
    /* What bubblewrap has to do does not depend on the plan then, and takes as long as all of
     * ours. */
    if (!line->print_plan && line->control_fd < 0 && !r->plan.by_bubblewrap &&
        buf_len(&r->command) != 0 && !run_start_box(r, error))
        return false;
    /* What is written meanwhile is made before the plan, so that the plan can protect it. */
    if (!start_core(r, error) || !watch_violations(r, error))
        return false;
    if (line->control_fd >= 0) {
        const struct control_events events = {
            .document = on_document, .failed = on_control_failed, .ctx = r};
        r->control = control_new(r->loop, line->control_fd, line->control_fd, &events);
    }
    if (buf_len(&r->command) == 0) {
        buf_puts(error, "No command specified. Use -c <command> or provide command arguments.");
        return false;
    }
    if (buf_len(&r->command) > COMMAND_MAX) {
        buf_printf(error,
                   "Sandboxed command is too long for one shell argument even with the mounts "
                   "passed through a file (%zu bytes; the limit here is %d)",
                   buf_len(&r->command), COMMAND_MAX);
        return false;
    }
    if (!r->settings->filesystem_disabled) {
        r->records = standins_directory(error);
        if (r->records == NULL)
            return false;
        r->standins = standins_open(r->records);
    }
    return wrap(r, error);
}

int run_interrupted(const struct run *r, int number)
{
    struct buf line;
    buf_init(&line, 64);
    buf_printf(&line, "interrupted by %s", signals_name(number));
    int status = run_failed(r, buf_chars(&line), buf_len(&line));
    buf_free(&line);
    return r->line->strict_exit_codes ? STATUS_SIGNAL + number : status;
}

/* What `set_up` and `start_command` could not do, in words; the status. */
static int give_up(struct run *r, struct buf *error)
{
    int number = signals_pending(r->signals);
    if (number != 0)
        return run_interrupted(r, number);
    if (r->control_failed)
        return run_failure_status(r);
    int status = run_failed(r, buf_chars(error), buf_len(error));
    if (strstr(buf_cstr(error), "(bwrap) not installed") != NULL)
        fputs("Install the package bubblewrap: apt-get, dnf, pacman, zypper and apk all have it by "
              "that name.\n",
              stderr);
    return status;
}

static bool start(struct run *r, struct buf *error)
{
    r->started = run_start_command(r, error);
    return r->started;
}

void run_begin(struct run *r)
{
    struct buf error;
    buf_init(&error, SIZE_MAX / 2);
    /* What a decider listens at may have come since the plan was made. */
    bool again = r->wrap_again || r->decider_socket != NULL;
    if (r->control_failed || (again && !wrap(r, &error)) || !start(r, &error)) {
        r->status = give_up(r, &error);
        ev_break(r->loop, EVBREAK_ALL);
    }
    buf_free(&error);
}

static int run(struct run *r)
{
    struct buf error;
    buf_init(&error, SIZE_MAX / 2);

    bool ready = set_up(r, &error) && !r->control_failed && signals_pending(r->signals) == 0;
    if (ready && r->line->print_plan) {
        print_plan(r);
        r->status = 0;
    } else if (ready && (run_awaits_decider(r) || start(r, &error))) {
        signals_watch(r->signals, r->loop, run_on_signal, r);
        ev_run(r->loop, 0);
        if (r->asking != NULL)
            asking_finish(r->asking);
        if (r->violations != NULL)
            violations_finish(r->violations);
    } else {
        r->status = give_up(r, &error);
    }
    buf_free(&error);
    return r->status;
}

static void release(struct run *r)
{
    bool gone = box_free(r->box);
    if (r->asking != NULL)
        asking_finish(r->asking);
    /* With --ask the command had another terminal. */
    terminal_restore(&r->terminal, r->crashed && r->asking == NULL);
    if (gone) {
        standins_close(r->standins);
    } else {
        log_warning(
            "processes of the box are still there: what stands in for protected names stays "
            "until the next run");
        standins_abandon(r->standins);
    }
    control_free(r->control);
    ev_timer_stop(r->loop, &r->grace);
    run_close_listeners(r);
    violations_free(r->violations);
    core_free(r->core);
    run_close_decider(r);
    trust_remove(&r->trust);
    violation_store_free(r->store);
    snapshot_unref(r->snapshot);
    json_decref(r->document);
    sandbox_settings_free(r->settings);
    secret_free(r->token);
    plan_free(&r->plan);
    dependencies_free(&r->dependencies);
    signals_free(r->signals);
    buf_wipe(&r->command);
    buf_free(&r->control_error);
    paths_free(&r->own_files);
    free(r->records);
    if (r->inside >= 0)
        close(r->inside);
    ev_loop_destroy(r->loop);
    free(r);
}

/* False for fd:N that leads nowhere. */
static bool violations_target_open(const char *target)
{
    static const char prefix[] = "fd:";
    if (target == NULL || strncmp(target, prefix, sizeof prefix - 1) != 0)
        return true;
    long fd = strtol(target + sizeof prefix - 1, NULL, 10);
    return fd >= 0 && fd <= INT_MAX && fcntl((int)fd, F_GETFD) >= 0;
}

int run_main(const struct command_line *line, char *const *environment)
{
    struct run *r = mem_alloc(sizeof *r);
    int status;

    r->line = line;
    r->environment = environment;
    r->inside = -1;
    /* Looked at before anything of ours takes the number of one that is not there; said when its
     * turn comes. */
    buf_init(&r->control_error, 4096);
    if (line->control_fd >= 0)
        (void)control_usable(line->control_fd, &r->control_error);
    r->violations_closed = !violations_target_open(line->violations);
    buf_init(&r->command, SIZE_MAX / 2);
    getrlimit(RLIMIT_NOFILE, &r->files);
    getrlimit(RLIMIT_CORE, &r->cores);
    terminal_save(&r->terminal);
    r->signals = signals_new();
    r->loop = ev_default_loop(EVFLAG_AUTO);
    ev_timer_init(&r->grace, run_on_grace_over, GRACE_S, 0);
    r->grace.data = r;
    core_prepare_process();
    if (line->option_after_words)
        log_warning("an option of srt stands after the command's first word, and is srt's: put -- "
                    "before the command to leave its options alone");
    status = r->signals == NULL || !load_settings(r) || !control_channel(r) ? run_failure_status(r)
                                                                            : run(r);
    release(r);
    return status;
}
