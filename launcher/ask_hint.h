/* What a person should know about a destination before letting anybody reach it. */
#ifndef LAUNCHER_ASK_HINT_H
#define LAUNCHER_ASK_HINT_H

/* A line without newline, or NULL: nothing special. host: canonical. Looks at the addresses of this
 * machine, resolves no name. */
const char *ask_hint(const char *host);

#endif
