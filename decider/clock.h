/* The clock of links: it goes on evenly when the time of day is set. */
#ifndef DECIDER_CLOCK_H
#define DECIDER_CLOCK_H

#include <time.h>

/* Seconds since some point in the past. */
static inline double clock_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

#endif
