/* The user that this process and everything it starts runs as, when it is not the daemon's. Makes only system calls. */

#ifndef SHELLKEEP_USER_H
#define SHELLKEEP_USER_H

#include <stdint.h>

/* Gives up everything for this user and its only group, which has the same number: no other groups, no capabilities, no
 * privileges from programs. 0, or -1 with the reason in `errno`; a process for which it failed must not go on. */
int user_become(uint32_t number);

#endif
