/* What makes a terminal fit for a question, whatever was written to it before. Pure. */
#ifndef LAUNCHER_ASK_SCREEN_H
#define LAUNCHER_ASK_SCREEN_H

#include "base/buf.h"

/*
 * Appends what ends an unfinished escape sequence, undoes every mode that could hide, cut or
 * recolour text or make the terminal type by itself, and leaves an empty screen with the cursor at
 * its top: what was there scrolls away. For a terminal that obeys escape sequences. rows: of the
 * screen; 0: not known.
 */
void ask_screen_clear(struct buf *out, unsigned rows);

#endif
