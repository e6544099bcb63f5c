/* A log of bounded size, in segments. A segment is named by the absolute offset of its first byte, so that every offset
 * can be found without an index, and the end is where the last segment ends. `src/service/log.rs` reads it. */

#ifndef SHELLKEEP_LOG_H
#define SHELLKEEP_LOG_H

#include <stddef.h>
#include <stdint.h>

/* Milliseconds on a clock that is never set. */
int64_t now_ms(void);

/* Goes on where an earlier life ended. Never more than `limit` bytes are kept. */
void log_begin(int directory, uint64_t limit);

/* Appends. What cannot be written is dropped, but counted: what comes later still has its true offset. */
void log_append(const unsigned char *bytes, size_t length);

#endif
