/*
 * The terminal that the command is given: its modes and its foreground group are
 * put back when the command leaves them changed. Chapter 50 section 18.
 */
#ifndef LAUNCHER_TERMINAL_H
#define LAUNCHER_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

struct terminal {
    bool present; /* standard input is one */
    bool ours;    /* srt was in its foreground */
    pid_t group;  /* srt's */
    struct termios modes;
};

void terminal_save(struct terminal *t);
/* modes: also undo what the command did to them, since it could not. */
void terminal_restore(const struct terminal *t, bool modes);

#endif
