/* The fence around this process and everything it starts: no new privileges, few capabilities, Landlock, and a filter of
 * system calls. Makes only system calls. */

#ifndef SHELLKEEP_FENCE_H
#define SHELLKEEP_FENCE_H

#include <stddef.h>
#include <stdint.h>

/* The steps, in their order; `STEPS` in `src/confine.rs` names them. */
enum {
    FENCE_DONE,
    FENCE_FRAME,
    FENCE_RULE,
    FENCE_NO_NEW_PRIVILEGES,
    FENCE_CAPABILITIES,
    FENCE_LANDLOCK,
    FENCE_SECCOMP,
    FENCE_USER,
    FENCE_ROOM,
};

/* Puts on the filter alone, before the rest is known. */
uint32_t fence_filter(const unsigned char *filter, size_t length);

/* Puts it on. A filter that is there already is not sent again: its length is 0. `fence` is the length of the filter, the filter, and then rules for paths that only this process can open:
 * the rights, and the path with a NUL. It begins where a number of 32 bits may. Gives the step that failed, if one did, and
 * leaves its reason in `errno`. */
uint32_t fence_put_on(const unsigned char *fence, size_t length, int ruleset);

#endif
