/* Confinement of this shell and everything it starts, before it becomes a session. */

#ifndef SHELLKEEP_CONFINE_H
#define SHELLKEEP_CONFINE_H

#include "wire.h"

/* Becomes the user in the frame, if it is not 0, and puts on the fence in the frame with the ruleset that came along, if
 * there is one. Gives the step that failed, with the reason in `errno`; nothing may be done then in what is not confined.
 * The descriptors are closed. */
uint32_t confine(CURSOR *in, const int *fds, int fd_count);

/* Enters the room in the frame. The descriptors are the user namespace and, if the room has its own network, the network
 * namespace. Gives 1 in a copy of this process inside; this one answers who the copy is, or which step failed, and ends. */
int enter_room(CURSOR *in, const int *fds, int fd_count);

#endif
