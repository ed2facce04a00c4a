/*
 * A remote decider on a real loop, what it told, and the means to play its other
 * end from the test itself.
 */
#ifndef TESTS_REMOTE_FIXTURE_H
#define TESTS_REMOTE_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>

#include <ev.h>

#include "decider/remote.h"

enum { ANSWERS_MAX = 4096, TEXT_MAX = 1200 };

struct told {
    unsigned answers;
    enum decider_action action;
    uint16_t status;
    char text[TEXT_MAX]; /* reason, or why */
    double at;           /* seconds */
};

struct fixture {
    struct ev_loop *loop;
    struct remote_options o;
    struct decider *d;
    struct buf error;
    unsigned ready, away;
    unsigned hello_asks;
    char hello_allowed[64];
    char why[512]; /* the last away */
    bool final;
    struct told told[ANSWERS_MAX];
    ev_timer guard;
};
extern struct fixture t;

/* With options of no kind yet: protocol 1, 5 s. */
int remote_setup(void **state);
/* Frees it; no child may be left. */
int remote_teardown(void **state);

void begin(void);
/* Runs the loop until what is pointed to has this value or more. */
void run_until(const unsigned *counter, unsigned value);
void run_for(double seconds);
void turn(void); /* one, without waiting */
double seconds_now(void);

/* Answers to the entry of t.told that ctx is. */
decider_answer note_answer;
/* Questions with their entry of t.told; NULL as the decider gives it. */
struct decider_question *ask_request(unsigned n);
struct decider_question *ask_connection(unsigned n);
void assert_told(unsigned n, enum decider_action action);

/* The other end: whole frames as text. receive() runs the loop till one has come and returns it
 * until the next call. */
void send_text(int fd, const char *text);
void send_allow(int fd, unsigned id);
const char *receive(int fd);
void play_hello(int in, int out);

#endif
