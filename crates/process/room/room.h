/* Entering a room: a session's own namespaces, with a root directory that has only what the session may see.
 *
 * Used by the driver for shells, by the keeper for services, and by `main.c` for other programs. Everything here is a
 * system call: no memory is allocated, so it may run between fork and exec. */

#ifndef SHELLKEEP_ROOM_H
#define SHELLKEEP_ROOM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The steps, in their order; `STEPS` in `src/confine/room.rs` names them. */
enum {
    ROOM_DONE,
    ROOM_PLAN,
    ROOM_JOIN,
    ROOM_NAMESPACES,
    ROOM_ROOT,
    ROOM_ENTRY,
    ROOM_INIT,
    ROOM_PROC,
    ROOM_PIVOT,
    ROOM_MAIN,
};

/* What a room is made from.
 *
 * The plan is a list of entries: a letter and one or two strings that end in NUL. `src/confine/plan.rs` writes it.
 *   R path          the directory that becomes the root; comes first
 *   r path          from outside at the same path, read-only
 *   o source path   from outside at another path, read-only
 *   w source path   from outside, writable
 *   v path          a device from outside at the same path, of which only the contents can be changed
 *   l path target   a symbolic link
 *   t path options  an empty directory in memory, writable
 *   p path          terminals of its own */
typedef struct {
    const char *plan;
    size_t length;
    int user;   /* the user namespace to join */
    int net;    /* the network namespace to join, or -1 for the one that we are in */
    int parent; /* a handle on our parent, without which the room ends; -1 if it may outlive it */
    int is_ahead; /* whether this is a part of the plan, and `room_settle` comes with the rest */
} ROOM;

/* What came of it. */
typedef struct {
    int32_t main; /* the process that continues inside, as the caller sees it */
    int32_t init; /* the first process of the room, which reaps orphans and ends when everyone else has */
    uint32_t step; /* the step that failed, or ROOM_DONE */
    uint32_t at;   /* where in the plan the entry begins that failed */
    int32_t why;
} ENTERED;

/* Gives 0 in a new process inside the room, which has the same parent as the caller and a session of its own. Gives 1 in
 * the caller, which should pass on the result and end; if a step failed, there is no new process. */
int room_enter(const ROOM *room, ENTERED *result);

/* For a process that entered ahead: brings in the rest of the plan and leaves the old root. Until then it sees the machine. */
void room_settle(const char *plan, size_t length, ENTERED *result);

#endif
