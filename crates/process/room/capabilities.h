/* The capabilities of this process. Makes only system calls. */

#ifndef SHELLKEEP_CAPABILITIES_H
#define SHELLKEEP_CAPABILITIES_H

#include <stdint.h>

/* Drops all but these, of the first 32. Without new privileges, they do not come back with the next program. 0, or -1 with the
 * reason in `errno`. */
int capabilities_keep(uint32_t kept);

#endif
