#include "launcher/ask_screen.h"

enum { ROWS_UNKNOWN = 100, ROWS_MAX = 1000 };

/* A control string ends by CAN with most terminals. tmux takes that for a part of one, but ST for
 * its end; and one that it was made to pass on may be open in the terminal around it. */
static const char sequence_ends[] = "\030\033\\"
                                    "\033Ptmux;\030\033\033\\\033\\";

static const char modes_undone[] =
    "\033<"                                        /* VT52 mode */
    "\033[!p"                                      /* DECSTR: what it knows of the rest */
    "\033[?69l\033[r\033[?6l"                      /* margins, of which the cursor is free */
    "\033[4l\033[20l\033[?5l\033[?7h\033[?25h"     /* insert, newline, reverse, wrap, cursor */
    "\033(B\033)B\017\033[0m"                      /* characters and their looks */
    "\033]110\a\033]111\a\033]112\a\033]104\a"     /* colours */
    "\033[?9l\033[?1000l\033[?1001l\033[?1002l"    /* the mouse */
    "\033[?1003l\033[?1004l\033[?1005l\033[?1006l" /* ... and focus */
    "\033[?1015l\033[?2004l"                       /* pastes in brackets */
    "\033[>4;0m\033[=0;1u"                         /* keys that are sequences: xterm's, kitty's */
    "\033[?2026l";                                 /* output that waits */

void ask_screen_clear(struct buf *out, unsigned rows)
{
    if (rows == 0)
        rows = ROWS_UNKNOWN;
    if (rows > ROWS_MAX)
        rows = ROWS_MAX;
    buf_append(out, sequence_ends, sizeof sequence_ends - 1);
    buf_append(out, modes_undone, sizeof modes_undone - 1);
    buf_printf(out, "\033[%uH", rows);
    for (unsigned i = 0; i < rows; i++)
        buf_puts(out, "\n");
    /* Where the screen has more lines than it was said to have. */
    buf_puts(out, "\033[H\033[J");
}
