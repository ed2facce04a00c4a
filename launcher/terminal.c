#include "launcher/terminal.h"

#include <signal.h>
#include <unistd.h>

void terminal_save(struct terminal *t)
{
    *t = (struct terminal){.present = isatty(STDIN_FILENO) != 0, .group = getpgrp()};
    if (!t->present)
        return;
    t->ours = tcgetpgrp(STDIN_FILENO) == t->group;
    t->present = tcgetattr(STDIN_FILENO, &t->modes) == 0;
}

void terminal_restore(const struct terminal *t, bool modes)
{
    sigset_t stopping, before;
    if (!t->present || !t->ours)
        return;
    /* Whoever is not in the foreground is stopped for changing a terminal, unless it blocks that.
     */
    sigemptyset(&stopping);
    sigaddset(&stopping, SIGTTOU);
    sigprocmask(SIG_BLOCK, &stopping, &before);
    if (tcgetpgrp(STDIN_FILENO) != t->group)
        (void)tcsetpgrp(STDIN_FILENO, t->group);
    /* Where lines were not edited when srt was started, somebody else had it, as a pager behind a
     * pipe, and may have gone. */
    if (modes && (t->modes.c_lflag & ICANON) != 0)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &t->modes);
    sigprocmask(SIG_SETMASK, &before, NULL);
}
