/* Forking shells: a shell that has run nothing is copied, instead of starting and loading another one. */

#ifndef SHELLKEEP_ZYGOTE_H
#define SHELLKEEP_ZYGOTE_H

#include "wire.h"

/* Forks a shell that is born in a group and has its own socket, and answers with its number or the reason why there is
 * none. The frame has the locale that most sessions use, or nothing. The descriptors are the new shell's socket, the
 * directory of its group, and the list of tasks of its group of version 1, if it has one. Gives 1 in the new shell and 0 in
 * this one; the descriptors are closed in both. */
int fork_shell(CURSOR *in, const int *fds, int count);

#endif
