/* `srt proxy`: a shared egress gateway that runs by its settings. docs/srt-proxy.8. */
#ifndef PROXY_GATEWAY_H
#define PROXY_GATEWAY_H

/* argv[0] is the name it was called by. Returns the exit status. */
int gateway_main(int argc, char **argv);

#endif
