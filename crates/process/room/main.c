/* What the daemon needs done in namespaces that it cannot enter itself, because it has threads:
 *
 *   namespaces own|host
 *       Makes a user namespace in which our user is itself, and for `own` a network namespace with a loopback device.
 *       Descriptor 3 is a socket that gets the answer and the namespaces.
 *   sockets COUNT
 *       Makes TCP sockets in the network namespace 5, which belongs to the user namespace 4. Descriptor 3 gets them.
 *   listen tcp|udp:ADDRESS:PORT…
 *       Makes sockets there that others connect or send to. Descriptor 3 gets them.
 *   run STATUS PLAN FENCE RULESET ENVIRONMENT USER NET DIRECTORY PROGRAM ARGUMENT…
 *       Becomes a program inside a room, behind a fence. The words in capitals up to NET are descriptors; NET is -1 for our
 *       own network. STATUS gets an `ENTERED`, then the step of the fence that failed, if one did. ENVIRONMENT has what the
 *       program starts with, of which this program has nothing: a session chose it, and our own loader would obey
 *       LD_PRELOAD and the like out here.
 *   try FILE PID SOCKET PORT
 *       Tries to break out: to read and write a file, to trace any process and to signal this one, to connect to this
 *       abstract socket and to this port of loopback, to mount, and to make a user namespace. Prints an error number for
 *       each, 0 where it succeeded. */

#define _GNU_SOURCE
#include "fence.h"
#include "room.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { ANSWER = 3, USER = 4, NET = 5 };
/* The most descriptors in an answer; the daemon asks for no more. */
enum { MOST = 16 };
/* Exit status of a program that was not started; the same as bash's. */
enum { NOT_STARTED = 127 };

/* Sends the reason, 0 for success, and what was made. */
static int answer(int why, const int *made, int count) {
    union {
        char bytes[CMSG_SPACE(MOST * sizeof(int))];
        struct cmsghdr align;
    } space = {0};
    int32_t text = why;
    struct iovec part = {&text, sizeof text};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = space.bytes;
        message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *extra = CMSG_FIRSTHDR(&message);
        extra->cmsg_level = SOL_SOCKET;
        extra->cmsg_type = SCM_RIGHTS;
        extra->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(extra), made, (size_t)count * sizeof(int));
    }
    return sendmsg(ANSWER, &message, MSG_NOSIGNAL) == sizeof text && !why ? 0 : 1;
}

/* ---- namespaces ---- */

static int write_file(const char *path, const char *text) {
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    ssize_t written = write(file, text, strlen(text));
    int why = errno;
    close(file);
    errno = why;
    return written < 0 ? -1 : 0;
}

/* One number inside that is the same outside: whoever made a file there owns it here too. */
static int map(const char *path, unsigned number) {
    char line[64];
    snprintf(line, sizeof line, "%u %u 1", number, number);
    return write_file(path, line);
}

static int raise_loopback(void) {
    struct ifreq request = {.ifr_name = "lo"};
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (any < 0)
        return -1;
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    int result = ioctl(any, SIOCSIFFLAGS, &request);
    close(any);
    return result;
}

/* Leaves those in our namespace a part of what a user of the machine may have: the daemon and other sessions are the same
 * user. Where `/proc/sys` cannot be written to, as in some containers, there is no such limit. */
static void limit_part(const char *whole, const char *ours, unsigned long least) {
    enum { PARTS = 8 };
    char text[32] = {0};
    int file = open(whole, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    unsigned long part = got > 0 ? strtoul(text, NULL, 10) / PARTS : 0;
    snprintf(text, sizeof text, "%lu", part > least ? part : least);
    write_file(ours, text);
}

static int make_namespaces(int has_net) {
    uid_t user = geteuid();
    gid_t group = getegid();
    if (unshare(CLONE_NEWUSER | (has_net ? CLONE_NEWNET : 0)) != 0)
        return answer(errno, NULL, 0);
    if (write_file("/proc/self/setgroups", "deny") != 0 || map("/proc/self/uid_map", user) != 0 ||
        map("/proc/self/gid_map", group) != 0 || (has_net && raise_loopback() != 0))
        return answer(errno, NULL, 0);
    limit_part("/proc/sys/fs/inotify/max_user_instances", "/proc/sys/user/max_inotify_instances", 16);
    limit_part("/proc/sys/fs/inotify/max_user_watches", "/proc/sys/user/max_inotify_watches", 8192);
    int made[2] = {open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC),
                   has_net ? open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC) : -1};
    if (made[0] < 0 || (has_net && made[1] < 0))
        return answer(errno, NULL, 0);
    return answer(0, made, has_net ? 2 : 1);
}

/* ---- sockets ---- */

static int make_sockets(int count) {
    int made[MOST];
    if (count < 1 || count > MOST)
        return answer(EINVAL, NULL, 0);
    if (setns(USER, CLONE_NEWUSER) != 0 || setns(NET, CLONE_NEWNET) != 0)
        return answer(errno, NULL, 0);
    for (int i = 0; i < count; i++) {
        made[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (made[i] < 0)
            return answer(errno, NULL, 0);
    }
    return answer(0, made, count);
}

static int make_listener(const char *word) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    char kind, host[16];
    unsigned port;
    errno = EINVAL;
    if (sscanf(word, "%c%*[a-z]:%15[0-9.]:%u", &kind, host, &port) != 3 || inet_aton(host, &address.sin_addr) == 0)
        return -1;
    address.sin_port = htons((uint16_t)port);
    int type = kind == 't' ? SOCK_STREAM : SOCK_DGRAM;
    int made = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0 || bind(made, (struct sockaddr *)&address, sizeof address) != 0)
        return -1;
    return kind == 't' && listen(made, SOMAXCONN) != 0 ? -1 : made;
}

static int make_listeners(char **words, int count) {
    int made[MOST];
    if (count > MOST)
        return answer(EINVAL, NULL, 0);
    if (setns(USER, CLONE_NEWUSER) != 0 || setns(NET, CLONE_NEWNET) != 0)
        return answer(errno, NULL, 0);
    for (int i = 0; i < count; i++) {
        made[i] = make_listener(words[i]);
        if (made[i] < 0)
            return answer(errno, NULL, 0);
    }
    return answer(0, made, count);
}

/* ---- programs ---- */

static const void *contents(int file, size_t *length) {
    struct stat about;
    if (fstat(file, &about) != 0 || about.st_size <= 0)
        return NULL;
    *length = (size_t)about.st_size;
    void *bytes = mmap(NULL, *length, PROT_READ, MAP_PRIVATE, file, 0);
    return bytes == MAP_FAILED ? NULL : bytes;
}

/* The entries of an environment, each of which ends in NUL, as a program gets them. */
static char **entries(int file) {
    struct stat about;
    size_t length = 0, count = 0;
    if (fstat(file, &about) != 0)
        return NULL;
    const char *bytes = about.st_size > 0 ? contents(file, &length) : NULL;
    if (about.st_size > 0 && (!bytes || bytes[length - 1] != '\0'))
        return NULL;
    for (size_t at = 0; at < length; at++)
        count += bytes[at] == '\0';
    char **list = calloc(count + 1, sizeof *list);
    for (size_t i = 0; list && i < count; i++) {
        list[i] = (char *)(uintptr_t)bytes;
        bytes += strlen(bytes) + 1;
    }
    return list;
}

static void say(int status, const void *what, size_t length) {
    if (write(status, what, length) < 0)
        _exit(NOT_STARTED);
}

/* The process that is not in the room answers first, and then ends. */
static void wait_for_turn(int turn[2]) {
    char nothing;
    close(turn[1]);
    if (read(turn[0], &nothing, 1) != 0)
        _exit(NOT_STARTED);
    close(turn[0]);
}

static int run(char **words) {
    enum { STATUS, PLAN, FENCE, RULESET, ENVIRONMENT, JOIN_USER, JOIN_NET, DESCRIPTORS };
    int fds[DESCRIPTORS];
    size_t length = 0;
    ENTERED result = {0};
    int turn[2];
    for (int i = 0; i < DESCRIPTORS; i++) {
        fds[i] = atoi(words[i]);
        if (fds[i] >= 0)
            fcntl(fds[i], F_SETFD, FD_CLOEXEC);
    }
    char *directory = words[DESCRIPTORS], *program = words[DESCRIPTORS + 1], **arguments = words + DESCRIPTORS + 2;
    ROOM room = {.user = fds[JOIN_USER], .net = fds[JOIN_NET], .parent = -1};
    room.plan = contents(fds[PLAN], &room.length);
    const unsigned char *fence = contents(fds[FENCE], &length);
    char **environment = entries(fds[ENVIRONMENT]);
    if (!room.plan || !fence || !environment)
        return NOT_STARTED;
    if (pipe2(turn, O_CLOEXEC) != 0)
        return NOT_STARTED;
    if (room_enter(&room, &result) != 0) {
        say(fds[STATUS], &result, sizeof result);
        return 0;
    }
    wait_for_turn(turn);
    /* What cannot be entered says so below: the program is not there either. */
    int where = chdir(directory);
    uint32_t failed[2] = {fence_put_on(fence, length, fds[RULESET]), 0};
    failed[1] = failed[0] ? (uint32_t)errno : 0;
    say(fds[STATUS], failed, sizeof failed);
    if (failed[0])
        return NOT_STARTED;
    if (where == 0)
        execve(program, arguments, environment);
    fprintf(stderr, "%s: %s: %s\n", program, where == 0 ? "cannot be started in the room" : "its directory is not in the room",
            strerror(errno));
    return NOT_STARTED;
}

/* ---- attempts ---- */

static int error_of(long result) { return result < 0 ? errno : 0; }

static int try_open(const char *path, int flags) {
    int file = open(path, flags | O_CLOEXEC);
    int error = error_of(file);
    if (file >= 0)
        close(file);
    return error;
}

static int try_connect(int family, const void *address, socklen_t length) {
    int any = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error = error_of(any);
    if (any >= 0) {
        error = error_of(connect(any, address, length));
        close(any);
    }
    return error;
}

static int try_abstract(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    if (length >= sizeof address.sun_path)
        return EINVAL;
    memcpy(address.sun_path + 1, name, length);
    return try_connect(AF_UNIX, &address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length));
}

static int try_loopback(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return try_connect(AF_INET, &address, sizeof address);
}

/* No process has this number, so without a filter the answer is that there is none. */
static int try_trace(void) {
    int error = error_of(ptrace(PTRACE_ATTACH, INT_MAX, 0, 0));
    return error == ESRCH ? 0 : error;
}

/* On nothing, because it is tried outside too: without a filter the answer is that there is no such directory. */
static int try_mount(void) {
    int error = error_of(syscall(SYS_mount, "none", "", "tmpfs", 0, NULL));
    return error == ENOENT ? 0 : error;
}

static int try_all(char **words) {
    int found[] = {
        try_open(words[0], O_RDONLY),
        try_open(words[0], O_WRONLY),
        try_trace(),
        error_of(kill(atoi(words[1]), 0)),
        try_abstract(words[2]),
        try_loopback(atoi(words[3])),
        try_mount(),
        error_of(unshare(CLONE_NEWUSER)),
    };
    for (size_t i = 0; i < sizeof found / sizeof *found; i++)
        printf("%d ", found[i]);
    return 0;
}

int main(int count, char **words) {
    if (count == 3 && strcmp(words[1], "namespaces") == 0)
        return make_namespaces(strcmp(words[2], "own") == 0);
    if (count == 3 && strcmp(words[1], "sockets") == 0)
        return make_sockets(atoi(words[2]));
    if (count >= 3 && strcmp(words[1], "listen") == 0)
        return make_listeners(words + 2, count - 2);
    if (count >= 12 && strcmp(words[1], "run") == 0)
        return run(words + 2);
    if (count == 6 && strcmp(words[1], "try") == 0)
        return try_all(words + 2);
    return 2;
}
