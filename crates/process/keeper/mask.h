/* Texts that must not get into the log, and their search in output that comes in pieces. */

#ifndef SHELLKEEP_MASK_H
#define SHELLKEEP_MASK_H

#include <stddef.h>

/* The longest text: the daemon cuts longer ones (`forms_of` in the crate `redact`). And the longest piece of output. */
enum { LONGEST_MASKED = 511, MOST_PIECE = 64 << 10 };

/* Reads the texts from a file: of each its length in four bytes, then the text. Returns whether that worked. */
int mask_load(int file);

int mask_is_on(void);

/* Masks a piece of output. What may be the beginning of a text is held back until the next piece; with `is_last`, nothing
 * is. `out` has room for `length` and LONGEST_MASKED bytes more. Returns how much is there. */
size_t mask_piece(const unsigned char *piece, size_t length, unsigned char *out, int is_last);

#endif
