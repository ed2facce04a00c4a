/* Serving links until the stream ends or a signal comes. */
#ifndef DECIDER_REFERENCE_SERVE_H
#define DECIDER_REFERENCE_SERVE_H

#include "decider/reference/options.h"
#include "decider/reference/rules.h"

/* Takes the reference to the rules over. The exit status: 0; 1 when the proxy on standard input
 * broke the protocol or its stream failed; 2 when the log or the socket cannot be opened. */
int decider_serve(const struct decider_options *options, struct decider_rules *rules);

#endif
