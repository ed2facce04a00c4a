/* `srt ca`: makes a CA to keep, and says what a CA file is good for. */
#ifndef CERTS_CA_COMMAND_H
#define CERTS_CA_COMMAND_H

/* argv[0] is "ca". Returns the exit status: 0 done, 1 failed, 2 wrong usage. */
int ca_main(int argc, char **argv);

#endif
