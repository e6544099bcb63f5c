/* What holds for one call only: its variables, and its directory. */

#ifndef SHELLKEEP_CALL_H
#define SHELLKEEP_CALL_H

#include "wire.h"

/* Why a command or service is not begun, and the frame that says so. No reason if it is begun. */
typedef struct {
    uint32_t kind;
    const char *why;
} REFUSAL;

/* Reads the directory, if there is one, and the variables of a call out of its frame, and puts them in force until the
 * call is undone. */
REFUSAL begin_call(CURSOR *, int has_cwd);

/* The same for good. */
REFUSAL begin_service(CURSOR *, int has_cwd);

/* The size of a terminal, which bash puts into two variables, belongs to this call. */
void keep_size_for_this_call(void);

/* Whether the call has a directory of its own, and the session's was removed or moved, or could not be entered. */
int homeless_in_this_call(void);

/* Keeps the traps on ERR, DEBUG and RETURN, which are the session's, from running for the rest of the call. Only this of
 * the three is called by a handler of a signal. */
void prepare_silence(void);
void silence_step_traps(void);
void bring_back_step_traps(void);

/* Puts everything back. In a shell that has no directory of its own to go back to, a `cd` of the command stays. */
void undo_this_call(void);

#endif
