/* `srt check`: validates settings and says which rule decides, and why. */
#ifndef PROXY_CHECK_H
#define PROXY_CHECK_H

/* argv[0] is "check". Returns the exit status. */
int check_main(int argc, char **argv);

#endif
