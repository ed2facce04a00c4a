/*
 * What the launcher tells srt-inside, the first process in the box, and what it
 * hears back: one sealed memory file with everything to do, and short messages
 * over a SOCK_SEQPACKET pair. Both ends are ours, of one build; the reader still
 * checks every length.
 */
#ifndef LAUNCHER_ORDERS_H
#define LAUNCHER_ORDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum order_flag {
    ORDER_MOUNT = 1u << 0,         /* apply the mounts here; else bubblewrap has */
    ORDER_ROOT_WRITABLE = 1u << 1, /* start from a writable "/" */
    ORDER_NEW_SESSION = 1u << 2,   /* the command in a session of its own, without a terminal */
    ORDER_COVER_SYSTEM = 1u << 3,  /* /proc and /sys read-only where they change the host */
    ORDER_NO_USER_NAMESPACES = 1u << 4, /* user.max_user_namespaces = 0 */
    ORDER_OBSERVE = 1u << 5,            /* load `observe`, send its descriptor out */
    ORDER_CONSOLE = 1u << 6,            /* /dev/console is standard output's terminal */
    ORDER_NULL_FD = 1u << 7,            /* open /dev/null for reading at null_fd */
    ORDER_KEEP_PROC = 1u << 8,          /* /proc is the host's (weaker nested sandbox) */
    ORDER_TERMINAL = 1u << 9            /* standard input, or output, is the session's own */
};

struct order_mount {
    uint8_t kind;       /* enum mount_kind */
    const char *source; /* "" where there is none */
    const char *place;
};

struct orders {
    uint32_t flags;
    int32_t null_fd;
    uint64_t ignored_signals; /* bit n-1: signal n stays ignored in the command */
    const char *program;      /* absolute path that is executed */
    const char *directory;    /* where the command starts; */
    const char *fallback;     /* where that is not there: home, then "/" */
    const char *const *argv;  /* NULL-terminated */
    const char *const *envp;
    const struct order_mount *mounts;
    size_t mount_count;
    const void *filter; /* struct sock_filter[], bytes; 0: none */
    size_t filter_len;
    const void *observe;
    size_t observe_len;
};

/* One memory file holds no more. */
enum { ORDERS_MAX = 64 << 20 };

/* Appends the encoding, or nothing when it is longer than ORDERS_MAX or than `out` may hold. */
void orders_encode(const struct orders *o, struct buf *out);
/* Pointers of the result lead into p, which stays; *arena owns the arrays: free() it. False when
 * malformed. */
bool orders_decode(const void *p, size_t n, struct orders *o, void **arena);

enum message_kind {
    /* from the box */
    MESSAGE_INIT = 'P',      /* one descriptor: a pidfd of srt-inside */
    MESSAGE_LISTENERS = 'L', /* bytes: one enum listener_port per descriptor */
    MESSAGE_NOTIFY = 'N',    /* one descriptor: the seccomp listener; none: text, why not */
    MESSAGE_STARTED = 'S',   /* the box is built, the command is about to run */
    MESSAGE_FAILED = 'F',    /* text: the box could not be built, or "exec: ...": the program could
                                not be executed; srt-inside ends after it */
    MESSAGE_EXITED = 'E',    /* one byte: exit status of the command */
    MESSAGE_KILLED = 'K',    /* one byte: the signal that ended the command */
    /* to the box */
    /* one or two descriptors: the memory file, and one to keep open until the end, whose lock tells
     * other runs that this box lives */
    MESSAGE_ORDERS = 'O',
    MESSAGE_SIGNAL = 'I' /* one byte: a signal for the command */
};
/* Begins the text of MESSAGE_FAILED when the mount calls are refused as a whole, as a security
 * module may: bubblewrap can still apply the plan. */
#define ORDERS_MOUNTS_REFUSED "mount calls"

enum listener_port { LISTENER_3128 = 1, LISTENER_1080 = 2 };
enum { MESSAGE_MAX = 1024, LISTENERS_PASSED_MAX = 4 };

#endif
