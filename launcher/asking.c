#include "launcher/asking.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "launcher/ask.h"
#include "launcher/ask_terminal.h"
#include "launcher/box_terminal.h"

struct asking {
    struct decider *decider;
    struct ask_terminal *terminal; /* NULL once the command is over */
    struct box_terminal *box;      /* NULL: the box has nothing to do with the terminal */
    void (*quit)(void *ctx);
    void *ctx;
};

static bool on_begin(void *ctx)
{
    struct asking *a = ctx;
    if (a->box != NULL)
        box_terminal_show(a->box);
    if (!ask_terminal_begin(a->terminal))
        return false;
    if (a->box != NULL)
        box_terminal_hold(a->box, true);
    if (ask_terminal_is(a->terminal, STDERR_FILENO))
        log_hold(true);
    return true;
}

static void on_show(void *ctx, const char *text, size_t n)
{
    struct asking *a = ctx;
    ask_terminal_show(a->terminal, text, n);
}

static void on_prompt(void *ctx, const char *text, size_t n)
{
    struct asking *a = ctx;
    ask_terminal_prompt(a->terminal, text, n);
}

static void on_end(void *ctx)
{
    struct asking *a = ctx;
    ask_terminal_end(a->terminal);
    log_hold(false);
    if (a->box != NULL) {
        box_terminal_hold(a->box, false);
        box_terminal_redraw(a->box);
    }
}

static void on_quit(void *ctx)
{
    struct asking *a = ctx;
    a->quit(a->ctx);
}

static void on_keys(void *ctx, const uint8_t *p, size_t n)
{
    struct asking *a = ctx;
    box_terminal_keys(a->box, p, n);
}

static void on_line(void *ctx, const char *line, size_t n)
{
    struct asking *a = ctx;
    ask_line(a->decider, line, n);
}

static void on_lost(void *ctx)
{
    struct asking *a = ctx;
    ask_refuse_all(a->decider, "srt has lost its terminal, and cannot ask");
}

static void on_taken(void *ctx)
{
    struct asking *a = ctx;
    if (a->box != NULL)
        box_terminal_taken(a->box);
}

static void on_resized(void *ctx)
{
    struct asking *a = ctx;
    if (a->box != NULL)
        box_terminal_resized(a->box);
}

struct asking *asking_new(const struct asking_options *o, struct buf *error)
{
    struct asking *a = mem_alloc(sizeof *a);
    const struct ask_terminal_events events = {.keys = on_keys,
                                               .line = on_line,
                                               .lost = on_lost,
                                               .taken = on_taken,
                                               .resized = on_resized,
                                               .ctx = a};
    const struct ask_options options = {.loop = o->loop,
                                        .timeout_s = o->timeout_s,
                                        .command = o->command,
                                        .screen = {.begin = on_begin,
                                                   .show = on_show,
                                                   .prompt = on_prompt,
                                                   .end = on_end,
                                                   .ctx = a},
                                        .quit = on_quit};

    a->quit = o->quit;
    a->ctx = o->ctx;
    a->terminal = ask_terminal_open(o->loop, &events, error);
    if (a->terminal != NULL)
        a->box = box_terminal_new(o->loop, a->terminal, error);
    if (buf_len(error) != 0) {
        asking_free(a);
        return NULL;
    }
    a->decider = ask_new(&options);
    return a;
}

struct decider *asking_decider(struct asking *a)
{
    return a->decider;
}

int asking_stdio(const struct asking *a, int n)
{
    return a->box != NULL ? box_terminal_stdio(a->box, n) : -1;
}

bool asking_has_keys(const struct asking *a)
{
    return a->box != NULL && box_terminal_has_keys(a->box);
}

void asking_started(struct asking *a)
{
    if (a->box != NULL)
        box_terminal_started(a->box);
}

bool asking_signal(struct asking *a, int number)
{
    bool passed = asking_has_keys(a);

    /* First of all, so that the command does not go on by a refusal before it ends by the key. */
    if (passed)
        box_terminal_signal(a->box, number);
    ask_refuse_all(a->decider, NULL);
    return passed;
}

bool asking_interrupt(struct asking *a)
{
    if (!asking_has_keys(a))
        return false;
    box_terminal_interrupt(a->box);
    return true;
}

bool asking_is_terminal(const struct asking *a, const char *log)
{
    if (strcmp(log, "-") == 0)
        return ask_terminal_is(a->terminal, STDOUT_FILENO);
    if (strncmp(log, "fd:", 3) == 0)
        return ask_terminal_is(a->terminal, (int)strtol(log + 3, NULL, 10));
    int fd = open(log, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    bool is = fd >= 0 && ask_terminal_is(a->terminal, fd);
    if (fd >= 0)
        close(fd);
    return is;
}

void asking_finish(struct asking *a)
{
    if (a->terminal == NULL)
        return;
    ask_stop(a->decider);
    if (a->box != NULL)
        box_terminal_drain(a->box);
    box_terminal_free(a->box);
    a->box = NULL;
    ask_terminal_free(a->terminal);
    a->terminal = NULL;
}

void asking_free(struct asking *a)
{
    if (a == NULL)
        return;
    if (a->decider != NULL)
        asking_finish(a);
    ask_free(a->decider);
    box_terminal_free(a->box);
    ask_terminal_free(a->terminal);
    free(a);
}
