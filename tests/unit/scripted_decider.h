/* A decider as a program of its own: what it does is named by a word. */
#ifndef TESTS_SCRIPTED_DECIDER_H
#define TESTS_SCRIPTED_DECIDER_H

/*
 * On standard input and output, until their end unless it says otherwise:
 *
 *   allow     says hello and allows everything
 *   tell      says hello and denies, the reason being what it finds in its process
 *   mute      says nothing
 *   hold      says hello and answers nothing
 *   early     ends at once
 *   late      ends after its hello
 *   half      ends in the middle of its first answer
 *   stubborn  says something wrong after its hello, and lives on whatever happens
 *   own WORD  the same as `allow` for connections alone, protocol 2; WORD is ignored
 *
 * Returns its exit status.
 */
int scripted_decider(int argc, char **argv);

#endif
