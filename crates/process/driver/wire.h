/* Bytes between the daemon and the driver: a growing buffer to write into, a cursor to read from. Numbers are in the
 * machine's own order, because both ends are on one machine. A string is its length and its bytes. */

#ifndef SHELLKEEP_WIRE_H
#define SHELLKEEP_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum { NONCE_BYTES = 16 };

typedef struct {
    unsigned char nonce[NONCE_BYTES];
    uint32_t kind;
    uint32_t length;
} HEADER;

/* Kinds of frames. */
enum {
    FRAME_HELLO = 1,    /* driver: here I am */
    FRAME_RESTORE = 2,  /* daemon: become this session; driver: which step of its confinement failed, what did not work */
    FRAME_RUN = 3,      /* daemon: run this; driver: done */
    FRAME_BAD_CWD = 4,  /* driver: not run, the directory for this call cannot be entered */
    FRAME_SERVICE = 5,  /* daemon: become this service; driver: I will, and this is my last word */
    FRAME_TOO_LATE = 6, /* driver: not run, its deadline has passed */
    FRAME_FORK = 7,     /* daemon: fork a shell; driver: this is its number, or why there is none */
    FRAME_FILTER = 8,   /* daemon: put on this filter ahead; driver: whether a step failed */
    FRAME_REFUSED = 9,  /* driver: not run, for another reason than its directory */
    FRAME_ROOM = 17,    /* daemon: enter this room; driver: my copy is inside, or which step failed */
    FRAME_ROOM_AHEAD = 18, /* the same for the part of a room that is no session's own; the rest comes with the state */
};

/* Kinds of facts in a state. */
enum {
    FACT_SCALAR = 'V',
    FACT_ARRAY = 'A',
    FACT_MAP = 'H',
    FACT_DECLARED = 'd',
    FACT_TOO_LARGE = 'X',
    FACT_REMOVED = 'U', /* a variable that a bare bash has is gone */
    FACT_FORGOTTEN = 'u', /* a variable of the session is gone */
    FACT_FUNCTION = 'F',
    FACT_FUNCTION_GONE = 'f',
    FACT_ALIASES = 'L',
    FACT_SET_OPTIONS = 'O',
    FACT_SHOPT_OPTIONS = 'P',
    FACT_TRAPS = 'T',
    FACT_DIRECTORIES = 'D',
    FACT_UMASK = 'M',
    FACT_LIMITS = 'R',
    FACT_POSITIONAL = 'S',
    FACT_ARGV0 = 'Z',
    FACT_DISABLED_BUILTINS = 'B',
    FACT_STATUS = '?',
};

typedef struct {
    unsigned char *bytes;
    size_t length;
    size_t capacity;
} BUFFER;

typedef struct {
    const unsigned char *at;
    size_t left;
    int bad; /* something did not fit; every later read gives nothing */
} CURSOR;

void put_bytes(BUFFER *, const void *, size_t);
void put_u8(BUFFER *, unsigned);
void put_u32(BUFFER *, uint32_t);
void put_u64(BUFFER *, uint64_t);
void put_string(BUFFER *, const char *);
/* Leaves room for a number that is known later, and fills it in. */
size_t put_hole(BUFFER *);
void fill_hole(BUFFER *, size_t, uint32_t);

unsigned get_u8(CURSOR *);
uint32_t get_u32(CURSOR *);
uint64_t get_u64(CURSOR *);
/* A copy that ends in NUL and is bash's to free. */
char *get_string(CURSOR *);

#endif
