/* A log of bounded size, in segments. A segment is named by the absolute offset of its first byte, so that every offset
 * can be found without an index, and the end is where the last segment ends. `src/service/log.rs` reads it. */

#ifndef SHELLKEEP_LOG_H
#define SHELLKEEP_LOG_H

#include <stdint.h>
#include <sys/types.h>

/* Milliseconds on a clock that is never set. */
int64_t now_ms(void);

/* Continues where an earlier life ended. Never more than `limit` bytes are kept. */
void log_begin(int directory, uint64_t limit);

/* Moves what is in the pipe now to the log, or a part of it. What cannot be written is dropped, but counted: what comes
 * later still has its true offset. Returns how much it was; 0 if no one can write to the pipe; -1 if there was
 * nothing. */
ssize_t log_take(int pipe);

/* Writes what was held back. There is no more output. */
void log_end(void);

#endif
