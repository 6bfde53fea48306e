/* The test itself as the program that gnf_tune() starts: FAKE_TUNER says how it behaves, FAKE_TUNER_SAID
 * names the file that it adds to what it was given. */
#ifndef FAKE_TUNER_H
#define FAKE_TUNER_H

/* A row of the table in fake_tuner.c, by name; returns the exit status. */
int fake_tuner(int argc, char **argv);

#endif
