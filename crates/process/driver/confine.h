/* Confinement of this shell and everything it starts, before it becomes a session. */

#ifndef SHELLKEEP_CONFINE_H
#define SHELLKEEP_CONFINE_H

#include "wire.h"

/* What came of a confinement. Nothing may be done in a shell for which it failed. */
typedef struct {
    uint32_t step; /* the step of the fence that failed, or FENCE_DONE */
    uint32_t why;
    uint32_t room_step; /* the step of the room that failed, if that was it, and where in the plan */
    uint32_t room_at;
} CONFINED;

/* Does what the frame says, in this order: becomes a user, if it is not 0; settles in the room that it entered ahead, if
 * there is more of the plan; and puts on the fence, if there is one, with the ruleset that came along, or without a ruleset a
 * filter alone. The descriptors are closed. */
CONFINED confine(CURSOR *in, const int *fds, int fd_count);

/* Puts on the filter in the frame, and answers as `confine` does. */
void filter_ahead(CURSOR *in);

/* Enters the room in the frame, or with `is_ahead` the part of it that is no session's own. The descriptors are the user
 * namespace and, if the room has its own network, the network namespace. Gives 1 in a copy of this process inside; this one
 * answers who the copy is, or which step failed, and ends. */
int enter_room(CURSOR *in, const int *fds, int fd_count, int is_ahead);

/* Adds what came of it to an answer. */
void put_confined(BUFFER *, CONFINED);

#endif
