/*
 * `srt connect HOST PORT`: standard input and output through an HTTP CONNECT of
 * the proxy that the environment names, for ssh's ProxyCommand. On refusal the
 * proxy's reason is printed on stderr. srt(1).
 */
#ifndef LAUNCHER_CONNECT_H
#define LAUNCHER_CONNECT_H

/* argv[0] is "connect". Returns the exit status. */
int connect_main(int argc, char **argv);

#endif
