/* Descriptors 0, 1 and 2: each command has its own, and gives them up at its end. */

#ifndef SHELLKEEP_DESCRIPTORS_H
#define SHELLKEEP_DESCRIPTORS_H

#include <stdint.h>
#include <sys/resource.h>

/* What a run brings along. */
enum { RUN_STDIN = 1, RUN_STDOUT = 2, RUN_STDERR = 4, RUN_TTY = 8, RUN_CWD = 16, RUN_UNTIL = 32 };

/* What the daemon must know about how a run went. */
enum {
    DONE_FORKED = 1,
    DONE_EXITING = 2,
    DONE_PROCSUB = 4,
    DONE_STDIN_CHANGED = 8,
    DONE_STDOUT_CHANGED = 16,
    DONE_STDERR_CHANGED = 32,
    DONE_NOEXEC = 64,
    DONE_INTERRUPTED = 128,
    DONE_HOMELESS = 256,
};

/* Remembers the null device, on which all three are while nothing runs. */
void descriptors_begin(void);

/* Puts the given descriptors in place, in the order of the flags. */
void take_descriptors(uint32_t flags, const int *fds, int count);

/* Allows as many open files as may be allowed at all. Gives whether that changed the limit, and what it was. */
int lift_file_limit(struct rlimit *before);

/* Puts the null device in the place of one. */
void close_to_null(int fd);

/* Gives up what the command had, so that only what it left running still holds its output. A pipe that no one else can
 * hold stays for the next command, unless it must not. Tells which the command itself had changed. */
uint32_t drop_descriptors(int must_drop);

#endif
