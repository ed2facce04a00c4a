/*
 * Where clients come in: listeners from HOST:PORT, [V6]:PORT, localhost:PORT,
 * unix:PATH, an inherited descriptor, or socket activation. Accepted TCP
 * sockets have TCP_NODELAY from their listener. Chapter 20 section 1, chapter
 * 35 section 5 of the contract.
 */
#ifndef NET_LISTEN_H
#define NET_LISTEN_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/buf.h"
#include "proxy/policy/address.h"

enum listen_kind { LISTEN_TCP, LISTEN_UNIX, LISTEN_INHERITED };

enum { LISTEN_SPEC_MAX = 300 };

struct listen_spec {
    enum listen_kind kind;
    char text[LISTEN_SPEC_MAX];                             /* as written, for messages */
    struct address address;                                 /* LISTEN_TCP; localhost is 127.0.0.1 */
    uint16_t port;                                          /* LISTEN_TCP; 0: the system picks */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* LISTEN_UNIX */
    int fd;                                                 /* LISTEN_INHERITED */
};

/* False with a message that starts with the text in *error. */
bool listen_parse(const char *text, struct listen_spec *out, struct buf *error);
/* False, with the message that listener_open() has for it, when others than this host could reach
 * it and LISTEN_ANY_INTERFACE is not among the flags. */
bool listen_permitted(const struct listen_spec *spec, unsigned flags, struct buf *error);

/* The spec of an inherited descriptor. */
void listen_inherited(int fd, struct listen_spec *out);

/*
 * Socket activation (sd_listen_fds(3)): the number of descriptors from LISTEN_FDS_FIRST on that
 * were passed to this very process, made close-on-exec; 0 when none. Its variables are removed
 * from the environment in any case.
 */
enum { LISTEN_FDS_FIRST = 3, LISTEN_FDS_MAX = 64 };
int listen_activated(void);

enum {
    LISTEN_ANY_INTERFACE = 1, /* addresses other than loopback are fine */
    LISTEN_REUSE_PORT = 2     /* SO_REUSEPORT: one socket a worker */
};

struct listener {
    int fd;        /* listening, non-blocking, close-on-exec */
    char *address; /* "127.0.0.1:3128", "[::1]:3128", "unix:/run/srt.sock", "fd 3" */
    bool is_unix;  /* no client address */
    bool loopback; /* only this host can connect: a loopback address or a Unix socket */
    uint16_t port; /* that it has; 0 for Unix */
    char *path;    /* of a Unix socket we made, else NULL */
    dev_t device;  /* of path, to know it again */
    ino_t inode;
    pid_t owner; /* the process that made path: a child must not remove it */
};

/* NULL with a message that starts with the spec in *error. Takes over an inherited descriptor only
 * when it succeeds. */
struct listener *listener_open(const struct listen_spec *spec, unsigned flags, struct buf *error);

/*
 * The same for a listening TCP socket that another process made and passed on, possibly in another
 * network namespace: named by its own address, and taken for one that only this host can reach.
 * NULL with errno when it is none, and still the caller's.
 */
struct listener *listener_adopt(int fd);

/* Closes *l if there is one and clears it. The socket file goes too when it is still the one this
 * process made. */
void listener_close(struct listener **l);

/* A connection, non-blocking and close-on-exec, with its peer's address; -1 with errno, EAGAIN when
 * there is none. Connections that failed before they were taken are skipped. */
int listener_accept(const struct listener *l, struct sockaddr_storage *peer);

#endif
