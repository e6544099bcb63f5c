/* What holds for one call only: its variables, and its directory. */

#ifndef SHELLKEEP_CALL_H
#define SHELLKEEP_CALL_H

/* Sets a variable for good, unless it is readonly. */
void set_exported(char *name, char *value);

/* Sets a variable until the call is undone. */
void set_for_this_call(char *name, char *value);

/* The size of a terminal, which bash puts into two variables, belongs to this call. */
void keep_size_for_this_call(void);

/* Enters a directory as `cd` does, which takes `..` from the name and not from what a link leads to. Gives the name
 * without `.` and `..`, which is the caller's to free; NULL and errno if it cannot be entered. */
char *change_directory(char *cwd);

/* Enters a directory until the call is undone; gives the error if it cannot be entered. */
int enter_for_this_call(char *cwd);

/* Whether the call has a directory of its own, and the session's was removed or moved, or could not be entered. */
int homeless_in_this_call(void);

/* Puts everything back. In a shell that has no directory of its own to go back to, a `cd` of the command stays. */
void undo_this_call(void);

#endif
