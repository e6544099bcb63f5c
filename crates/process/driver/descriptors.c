#include "descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    dev_t device;
    ino_t inode;
} FILE_ID;

static FILE_ID null_id, given[3];
static int has_tty;

static FILE_ID identify(int fd) {
    struct stat about;
    if (fstat(fd, &about) != 0)
        return (FILE_ID){0, 0};
    return (FILE_ID){about.st_dev, about.st_ino};
}

static int same(FILE_ID a, FILE_ID b) { return a.device == b.device && a.inode == b.inode; }

int lift_file_limit(struct rlimit *before) {
    if (getrlimit(RLIMIT_NOFILE, before) != 0 || before->rlim_cur >= before->rlim_max)
        return 0;
    struct rlimit lifted = {before->rlim_max, before->rlim_max};
    return setrlimit(RLIMIT_NOFILE, &lifted) == 0;
}

static int open_null(void) {
    struct rlimit before;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 && errno == EMFILE && lift_file_limit(&before)) {
        null = open("/dev/null", O_RDWR | O_CLOEXEC);
        setrlimit(RLIMIT_NOFILE, &before);
    }
    return null;
}

/* A limit of 2 or less forbids even these numbers. */
static void put_in_place(int from, int place) {
    struct rlimit before;
    if (dup2(from, place) < 0 && lift_file_limit(&before)) {
        dup2(from, place);
        setrlimit(RLIMIT_NOFILE, &before);
    }
}

void close_to_null(int fd) {
    int null = open_null();
    if (null < 0)
        return;
    /* The command may have closed the very number, which open then gives us. */
    if (null == fd) {
        fcntl(fd, F_SETFD, 0);
    } else {
        put_in_place(null, fd);
        close(null);
    }
    given[fd] = null_id;
}

void take_descriptors(uint32_t flags, const int *fds, int count) {
    static const uint32_t bits[3] = {RUN_STDIN, RUN_STDOUT, RUN_STDERR};
    int next = 0;
    for (int i = 0; i < 3; i++) {
        if (!(flags & bits[i]) || next >= count)
            continue;
        put_in_place(fds[next], i);
        close(fds[next++]);
        given[i] = identify(i);
    }
    has_tty = (flags & RUN_TTY) && ioctl(0, TIOCSCTTY, 0) == 0;
}

/* A session leader that leaves its terminal gets SIGHUP; that is not meant for us. */
static void leave_terminal(void) {
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    if (!has_tty)
        return;
    has_tty = 0;
    sigaction(SIGHUP, &ignore, &before);
    int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    ioctl(terminal, TIOCNOTTY, 0);
    close(terminal);
    sigaction(SIGHUP, &before, NULL);
}

uint32_t drop_descriptors(int must_drop) {
    static const uint32_t bits[3] = {DONE_STDIN_CHANGED, DONE_STDOUT_CHANGED, DONE_STDERR_CHANGED};
    uint32_t changed = 0;
    fflush(stdout);
    fflush(stderr);
    leave_terminal();
    for (int i = 0; i < 3; i++) {
        int is_changed = !same(identify(i), given[i]);
        if (is_changed)
            changed |= bits[i];
        int is_idle_null = !is_changed && same(given[i], null_id);
        if (is_changed || (!is_idle_null && (i == 0 || must_drop)))
            close_to_null(i);
    }
    return changed;
}

void descriptors_begin(void) {
    null_id = identify(0);
    for (int i = 0; i < 3; i++)
        given[i] = null_id;
}
