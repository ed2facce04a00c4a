/*
 * What an SSH client that cannot authenticate to the proxy is told: an SSH
 * banner and one unencrypted SSH_MSG_DISCONNECT packet with the reason. Pure.
 * RFC 4253 sections 4.2, 6, 11.1; chapter 20 section 5.4 of the contract.
 */
#ifndef SOCKS_SSH_REFUSAL_H
#define SOCKS_SSH_REFUSAL_H

#include "base/buf.h"

/* reason NULL: the text for a client that offered no authentication. */
void ssh_refusal(struct buf *out, const char *reason);

#endif
