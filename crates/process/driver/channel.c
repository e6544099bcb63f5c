#include "channel.h"
#include "bash.h"
#include "descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

int control = -1;
HEADER request;
char *rescue_path;

static void rescue(const struct iovec *parts, int count) {
    /* The command closed our socket. The daemon looks here when it finds us gone. */
    int file = rescue_path ? open(rescue_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    for (int i = 0; file >= 0 && i < count; i++)
        if (write(file, parts[i].iov_base, parts[i].iov_len) < 0)
            break;
    _exit(EXIT_CHANNEL);
}

void send_frame(uint32_t kind, const BUFFER *payload) {
    HEADER header = request;
    header.kind = kind;
    header.length = (uint32_t)payload->length;
    struct iovec parts[2] = {{&header, sizeof header}, {payload->bytes, payload->length}};
    struct iovec all[2] = {parts[0], parts[1]};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    size_t left = sizeof header + payload->length;
    while (left) {
        ssize_t sent = sendmsg(control, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EPIPE)
            _exit(EXIT_CHANNEL); /* the daemon is gone, and no one waits for this */
        if (sent < 0)
            rescue(all, 2);
        left -= (size_t)sent;
        for (int i = 0; i < 2; i++) {
            size_t step = (size_t)sent < parts[i].iov_len ? (size_t)sent : parts[i].iov_len;
            parts[i].iov_base = (char *)parts[i].iov_base + step;
            parts[i].iov_len -= step;
            sent -= (ssize_t)step;
        }
    }
}

static void heed_signals(void) {
    if (terminating_signal)
        termsig_handler(terminating_signal);
}

/* Sleeps until there is something to read. Who sleeps in recvmsg itself is woken once more for nothing, when the daemon
 * takes the last answer and the socket has room again. */
static void await_bytes(void) {
    struct pollfd watched = {.fd = control, .events = POLLIN};
    while (poll(&watched, 1, -1) < 0 && errno == EINTR)
        heed_signals();
}

/* Takes the descriptors that came along. The space for them is rounded up, so the kernel can put one more into it. */
static void take_fds(const struct cmsghdr *extra, int *fds, int *fd_count) {
    size_t count = (extra->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(extra) + i * sizeof fd, sizeof fd);
        if (*fd_count != FDS_LOST && *fd_count < MOST_FDS)
            fds[(*fd_count)++] = fd;
        else
            close(fd);
    }
}

/* A session may have allowed itself fewer open files than there are numbers up to the ones that come along. */
static ssize_t receive_message(struct msghdr *message) {
    struct rlimit before;
    int is_lifted = lift_file_limit(&before);
    ssize_t got = recvmsg(control, message, MSG_CMSG_CLOEXEC);
    int why = errno;
    if (is_lifted)
        setrlimit(RLIMIT_NOFILE, &before);
    errno = why;
    return got;
}

size_t receive(unsigned char *into, size_t least, size_t most, int *fds, int *fd_count) {
    union {
        char bytes[CMSG_SPACE(MOST_FDS * sizeof(int))];
        struct cmsghdr align;
    } space;
    size_t total = 0;
    while (total < least) {
        struct iovec part = {into + total, most - total};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space.bytes,
                                 .msg_controllen = sizeof space.bytes};
        await_bytes();
        ssize_t got = receive_message(&message);
        if (got < 0 && errno == EINTR) {
            heed_signals();
            continue;
        }
        if (got <= 0)
            _exit(EXIT_CHANNEL); /* the daemon is gone; everything answered is already with it */
        struct cmsghdr *extra = CMSG_FIRSTHDR(&message);
        if (extra && extra->cmsg_level == SOL_SOCKET && extra->cmsg_type == SCM_RIGHTS)
            take_fds(extra, fds, fd_count);
        if (message.msg_flags & MSG_CTRUNC)
            *fd_count = FDS_LOST;
        total += (size_t)got;
    }
    return total;
}
