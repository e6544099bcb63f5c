/* The socket between the daemon and the driver: frames in, with descriptors, and frames out. */

#ifndef SHELLKEEP_CHANNEL_H
#define SHELLKEEP_CHANNEL_H

#include "wire.h"

/* Exit status of a driver that has lost the daemon. */
enum { EXIT_CHANNEL = 97 };
/* The most descriptors that come with a frame; the daemon sends no more. */
enum { MOST_FDS = 5 };
/* The number of descriptors if some came along that could not be opened. */
enum { FDS_LOST = -1 };

/* The socket. */
extern int control;
/* The header of the frame that is being answered; its nonce goes into the answer. */
extern HEADER request;
/* The file that takes an answer when the command has closed the socket. */
extern char *rescue_path;

/* Answers with the nonce of the request. Does not come back if no one listens. */
void send_frame(uint32_t kind, const BUFFER *payload);

/* Reads at least `least` and at most `most` bytes; descriptors sent with them are put into `fds`, as many as
 * `fd_count` says then, which may be FDS_LOST. Does not come back if the daemon is gone. */
size_t receive(unsigned char *into, size_t least, size_t most, int *fds, int *fd_count);

#endif
