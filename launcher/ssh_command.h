/*
 * GIT_SSH_COMMAND: ssh through the proxy, chapter 50 section 11.3. The text is
 * read by the shell that git starts, by ssh, and by the shell that ssh starts.
 */
#ifndef LAUNCHER_SSH_COMMAND_H
#define LAUNCHER_SSH_COMMAND_H

#include <stdbool.h>

#include "base/buf.h"

/* With our own connector, an absolute path. False, with nothing appended, when the path holds a
 * character that does not come through all three readers, whatever the user's shell is. */
bool ssh_command_connector(struct buf *out, const char *path);

/* With socat, by path or name (NULL, or one that cannot be written safely: "socat"). token NULL: no
 * credential. */
void ssh_command_socat(struct buf *out, const char *socat, const char *user, const char *token);

#endif
