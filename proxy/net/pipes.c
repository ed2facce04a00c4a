#include "proxy/net/pipes.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"

struct pipes {
    struct splice_pipe *idle[PIPES_KEPT];
    unsigned idle_count, total;
};

struct pipes *pipes_new(void)
{
    return mem_alloc(sizeof(struct pipes));
}

static void destroy(struct pipes *p, struct splice_pipe *pipe)
{
    close(pipe->in);
    close(pipe->out);
    free(pipe);
    p->total--;
}

void pipes_free(struct pipes *p)
{
    if (p == NULL)
        return;
    while (p->idle_count != 0)
        destroy(p, p->idle[--p->idle_count]);
    free(p);
}

struct splice_pipe *pipes_take(struct pipes *p)
{
    int fds[2];
    if (p->idle_count != 0)
        return p->idle[--p->idle_count];
    if (p->total == PIPES_MOST || pipe2(fds, O_NONBLOCK | O_CLOEXEC) != 0)
        return NULL;
    /* A smaller one works too. */
    (void)fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES);
    struct splice_pipe *pipe = mem_alloc(sizeof *pipe);
    pipe->out = fds[0];
    pipe->in = fds[1];
    p->total++;
    return pipe;
}

void pipes_give(struct pipes *p, struct splice_pipe *pipe)
{
    if (pipe == NULL)
        return;
    if (pipe->held == 0 && p->idle_count < PIPES_KEPT)
        p->idle[p->idle_count++] = pipe;
    else
        destroy(p, pipe);
}
