/* Sockets as everything here wants them. */
#ifndef NET_SOCKET_OPEN_H
#define NET_SOCKET_OPEN_H

/* A non-blocking, close-on-exec socket, or -1 with errno. */
int socket_open(int family, int type, int protocol);

#endif
