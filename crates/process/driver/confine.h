/* Confinement of this shell and everything it starts, before it becomes a session. */

#ifndef SHELLKEEP_CONFINE_H
#define SHELLKEEP_CONFINE_H

#include "wire.h"

/* Applies the ruleset that came along and the filter in the frame, and answers which step failed, if one did. The daemon
 * ends a shell that answers anything but success. */
void confine(CURSOR *in, const int *fds, int fd_count);

#endif
