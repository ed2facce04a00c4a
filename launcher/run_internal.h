/* The state of a run. Private to run.c, run_box.c, run_decider.c and orders_make.c. */
#ifndef LAUNCHER_RUN_INTERNAL_H
#define LAUNCHER_RUN_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

#include <ev.h>
#include <jansson.h>

#include "base/buf.h"
#include "launcher/asking.h"
#include "launcher/box.h"
#include "launcher/command_line.h"
#include "launcher/control.h"
#include "launcher/dependencies.h"
#include "launcher/orders.h"
#include "launcher/plan.h"
#include "launcher/run.h"
#include "launcher/sandbox_settings.h"
#include "launcher/signals.h"
#include "launcher/standins.h"
#include "launcher/terminal.h"
#include "launcher/trust.h"
#include "launcher/violations.h"
#include "proxy/acceptor.h"
#include "proxy/core.h"
#include "proxy/forwarder.h"

enum { STATUS_SIGNAL = 128 };

#define NOT_BUILT "bubblewrap ended without building the box and without a word"

struct run {
    const struct command_line *line;
    char *const *environment; /* srt's own */
    struct ev_loop *loop;
    struct sandbox_settings *settings;
    struct snapshot *snapshot; /* until the core has it */
    json_t *document;          /* the settings in force */
    struct dependencies dependencies;
    struct rlimit files, cores; /* as srt was started with */
    struct terminal terminal;
    struct signals *signals;
    struct control *control;
    struct core *core;
    struct trust trust;
    struct secret *token;
    struct buf command;
    struct paths own_files; /* that the command must not write */
    char *records;          /* private directory of the stand-ins */
    struct standins *standins;
    struct plan plan;
    int inside; /* srt-inside */
    struct box *box;
    struct acceptor *acceptors[LISTENERS_PASSED_MAX];
    struct forwarder *forwarders[LISTENERS_PASSED_MAX];
    size_t listeners;
    struct asking *asking;         /* --ask */
    struct decider *decider;       /* of the settings */
    struct decider_said *said;     /* its hello; NULL: none yet */
    char *decider_socket;          /* NULL: it is none */
    char *decider_exec;            /* its command line; NULL: none */
    char *decider_why;             /* it was away last, or NULL */
    double decider_warning;        /* from when it may be warned of again */
    ev_timer decider_late;         /* its first hello */
    struct violation_store *store; /* NULL: nobody asked for violations */
    struct violations *violations;
    const struct violation_filter *ignore; /* in force */
    ev_timer grace;
    int stopped_by;           /* the signal that srt got, 0: none */
    struct buf control_error; /* why the control descriptor cannot be used; empty: it can */
    bool violations_closed;   /* --violations names a descriptor that is not there */
    bool quit;                /* an answer at the terminal ends the command */
    bool started;             /* the command has been ordered */
    bool running;             /* ... and executed */
    bool wrap_again;          /* settings came in while it was being wrapped */
    bool control_failed;      /* before any settings came */
    bool crashed;             /* the command could not tidy up after itself */
    int status;
};

/* "Error: ..." on stderr; the exit status of a failure of ours. */
int run_failed(const struct run *r, const char *message, size_t n);
int run_failure_status(const struct run *r);

/* A signal came before the command ran. */
int run_interrupted(const struct run *r, int number);
/* Prints and empties. */
void run_say(struct buf *text);

/* Starts the command once nothing is waited for any more; what fails ends the loop. */
void run_begin(struct run *r);

/* The document's snapshot, with the lists of the decider; NULL, and the reason is on stderr. quiet:
 * its warnings were printed before. */
struct snapshot *run_snapshot(const struct run *r, const json_t *document, bool quiet);

/* --- run_decider.c: who answers what no rule decides ----------------------------------------- */

/* What has to be known before the box is made: the decider's socket, the terminal for --ask. False
 * with a line in *error. */
bool run_prepare_decider(struct run *r, struct buf *error);
/* False with a line in *error: by these settings the command could stand in for the decider. */
bool run_decider_is_safe(const struct run *r, struct buf *error);
/* Once the core is there. False with a line in *error. */
bool run_open_decider(struct run *r, struct buf *error);
/* The settings name one, and it has not said its hello yet: the command has to wait. */
bool run_awaits_decider(const struct run *r);
/* NULL: none. */
const struct decider_lists *run_decider_lists(const struct run *r);
/* When the core has gone. */
void run_close_decider(struct run *r);

/* --- run_box.c: the run while its box is there ---------------------------------------------- */

bool run_start_box(struct run *r, struct buf *error);
/* Makes the stand-ins, starts the box if it is not there yet, and gives it its orders. */
bool run_start_command(struct run *r, struct buf *error);
void run_on_signal(void *ctx, int number, bool from_terminal);
void run_on_grace_over(struct ev_loop *loop, ev_timer *timer, int revents);
void run_close_listeners(struct run *r);

/* The plan as orders for srt-inside. */
struct orders_made {
    struct orders orders;
    struct order_mount *mounts;
    struct buf filter, observer;
    const char *argv[5];
};
/* False with a line in *error. orders_unmake() in any case. */
bool orders_make(const struct run *r, struct orders_made *made, struct buf *error);
void orders_unmake(struct orders_made *made);

#endif
