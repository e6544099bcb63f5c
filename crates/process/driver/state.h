/* The state of a shell as facts: reading it out of a running bash, and putting it into a bare one. */

#ifndef SHELLKEEP_STATE_H
#define SHELLKEEP_STATE_H

#include "bash.h"
#include "wire.h"

/* Whether umask or resource limits may have changed since the last capture. Only the kernel knows them, and asking it
 * after every command would cost more than running a small one. */
extern int limits_touched;

/* Remembers the bare shell, from which only differences are ever written. Once, before anything else. */
void capture_baseline(void);

/* Writes every fact that is not as it was at the last capture. */
void capture_changes(BUFFER *);

/* Forgets what differs, because the daemon knows it already (it has just put it there). */
void capture_forget(void);

/* Writes one variable as it is now, a nameref as itself; FACT_FORGOTTEN if there is none. For putting it back later. */
void capture_variable(BUFFER *, const char *name);

/* Puts facts into the shell. What did not work is written as pairs of strings: what, and why. Returns how many. */
uint32_t restore_facts(CURSOR *, BUFFER *problems);

/* Does what every restore does, for a shell that has no session yet: the kernel maps and copies the pages that it touches,
 * and nobody waits for that. Nothing of it can be told from a shell that was just restored. */
void rehearse(void);

/* Whether the directory of the state could not be entered: this shell only runs what brings a directory along. */
extern int homeless;

/* Puts one variable back as capture_variable wrote it. */
void restore_variable(CURSOR *);

#endif
