/* What was seen at the last capture: a fingerprint for every name. */

#ifndef SHELLKEEP_SEEN_H
#define SHELLKEEP_SEEN_H

#include "bash.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *name;
    uint64_t print;   /* fingerprint of the value, 0 if gone */
    uint32_t round;   /* the capture that last saw it */
    uint32_t is_base; /* a bare bash has it */
} ENTRY;

typedef struct {
    ENTRY **entries; /* each on its own, so that it stays where it is when the table grows */
    size_t capacity; /* a power of two */
    size_t used;
    size_t present; /* entries that are not gone */
    size_t seen;    /* entries seen in this round; as many as are present means that none is missing */
} TABLE;

/* Mixes a number into a fingerprint. */
uint64_t mix(uint64_t hash, uint64_t word);

/* Mixes a string into a fingerprint; no string is not the empty one. */
uint64_t print_bytes(uint64_t hash, const char *text);

/* Mixes the value of a variable into a fingerprint, which is never 0. */
uint64_t print_value(uint64_t hash, const SHELL_VAR *);

/* A fingerprint of the options that bash switches without rewriting its lists: for a variable (`GLOBIGNORE`,
 * `BASH_COMPAT`, `IGNOREEOF`), and for the posix mode. */
uint64_t print_switches(void);

/* The entry of a name, new if there is none. */
ENTRY *entry_for(TABLE *, const char *name);

#endif
