#define _GNU_SOURCE
#include "room.h"

#include "capabilities.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Older headers do not have these; `sys/mount.h` cannot be included next to `linux/mount.h`. */
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef PR_GET_TID_ADDRESS
#define PR_GET_TID_ADDRESS 40
#endif
enum { DETACH = 2 };

/* Enough for the directories of a root and no more: what is written there is kept in memory. */
static const char root_options[] = "mode=0755,size=1m,nr_inodes=4096";
static const char terminal_options[] = "newinstance,ptmxmode=0666,mode=0620";
/* The second process of a namespace; init makes none before it. */
enum { MAIN_INSIDE = 2 };

/* As the kernel wants it. */
typedef struct {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
} CLONE;

/* A copy of this process with the same parent. Where the kernel says where glibc keeps the thread's number, that is set as
 * `fork` would. */
static pid_t copy_this_process(void) {
    CLONE birth = {.flags = CLONE_PARENT};
    int *thread_number = NULL;
    if (prctl(PR_GET_TID_ADDRESS, &thread_number) == 0 && thread_number) {
        birth.flags |= CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID;
        birth.child_tid = (uint64_t)(uintptr_t)thread_number;
    }
    return (pid_t)syscall(SYS_clone3, &birth, sizeof birth);
}

/* The parent's number cannot be seen from inside, so whether it has ended already is asked of a handle. */
static void end_with(int parent) {
    struct pollfd ended = {.fd = parent, .events = POLLIN};
    if (parent < 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (poll(&ended, 1, 0) != 0)
        _exit(127);
}

/* ---- the root ---- */

static int mount_at(const char *type, const char *path, unsigned long flags, const char *options) {
    return (int)syscall(SYS_mount, "shellkeep", path, type, flags, options);
}

/* Paths of the plan are absolute; the root is the working directory while it is made. */
static const char *inside(const char *path) { return path[0] == '/' && path[1] ? path + 1 : "."; }

/* The directory at a path below the root, made where it is missing. Never through a link: parts of the root are a session's
 * own, and its links would lead anywhere on the machine, of which we still have the root. */
static int open_directory(const char *path) {
    enum { HOW = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
    struct open_how how = {.flags = HOW, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    char name[NAME_MAX + 1];
    int at = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    if (at >= 0 || errno != ENOENT)
        return at;
    for (at = open(".", HOW); at >= 0 && *path; path += strspn(path, "/")) {
        size_t length = strcspn(path, "/");
        errno = ENAMETOOLONG;
        int next = -1;
        if (length <= NAME_MAX) {
            memcpy(name, path, length);
            name[length] = '\0';
            errno = EINVAL;
            if (strcmp(name, "..") != 0 && (mkdirat(at, name, 0755) == 0 || errno == EEXIST))
                next = openat(at, name, HOW);
        }
        int why = errno;
        close(at);
        errno = why;
        at = next;
        path += length;
    }
    return at;
}

/* The directory above a path, made where it is missing, and the last name of the path. */
static int open_parent(const char *path, const char **name) {
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    *name = slash ? slash + 1 : path;
    if (length >= sizeof parent) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(parent, path, length);
    parent[length] = '\0';
    return open_directory(length ? parent : ".");
}

/* Something to mount a file on. */
static int open_file(const char *path) {
    struct stat about;
    const char *name;
    int parent = open_parent(path, &name);
    if (parent < 0)
        return -1;
    int made = openat(parent, name, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (made >= 0)
        close(made);
    int file = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    close(parent);
    if (file >= 0 && fstat(file, &about) == 0 && S_ISLNK(about.st_mode)) {
        close(file);
        errno = ELOOP;
        return -1;
    }
    return file;
}

/* What is at a path of the machine. Those of directories and files are real paths: a link there was put in the place of one
 * later, by somebody who may write to a directory above it, and leads anywhere. What was there is gone. */
static int open_tree_at(const char *path, uint64_t resolve) {
    enum { HOW = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH };
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = resolve};
    int source = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    if (source < 0) {
        errno = errno == ELOOP ? ENOENT : errno;
        return -1;
    }
    int tree = (int)syscall(SYS_open_tree, source, "", HOW), why = errno;
    close(source);
    errno = why;
    return tree;
}

/* Recursively: the kernel does not let a namespace look below what is mounted on a directory. */
static int bring_in(const char *source, const char *path, uint64_t resolve, uint64_t attributes) {
    int tree = open_tree_at(source, resolve);
    struct mount_attr wanted = {.attr_set = attributes};
    struct stat about;
    int result = -1, place = -1;
    if (tree < 0)
        return -1;
    if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &wanted, sizeof wanted) == 0 &&
        fstat(tree, &about) == 0)
        place = S_ISDIR(about.st_mode) ? open_directory(path) : open_file(path);
    if (place >= 0)
        result = (int)syscall(SYS_move_mount, tree, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
    int why = errno;
    close(tree);
    if (place >= 0)
        close(place);
    errno = why;
    return result;
}

static int mount_new(const char *type, const char *path, unsigned long flags, const char *options) {
    int place = open_directory(path);
    if (place < 0)
        return -1;
    close(place);
    return mount_at(type, path, flags, options);
}

static int link_at(const char *path, const char *target) {
    const char *name;
    int parent = open_parent(path, &name);
    if (parent < 0)
        return -1;
    int result = symlinkat(target, parent, name), why = errno;
    close(parent);
    errno = why;
    return result;
}

static int begin_root(const char *path) {
    if (syscall(SYS_mount, NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return -1;
    if (mount_at("tmpfs", path, MS_NOSUID | MS_NODEV, root_options) != 0)
        return -1;
    return chdir(path) != 0 || mkdir("proc", 0755) != 0 ? -1 : 0;
}

static int do_entry(char kind, const char *first, const char *second) {
    enum { PLAIN = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };
    switch (kind) {
    case 'R':
        return begin_root(first);
    case 'r':
        /* A file of the system may have gone since the plan was made. */
        if (bring_in(first, inside(first), RESOLVE_NO_SYMLINKS, MOUNT_ATTR_RDONLY | PLAIN) != 0)
            return errno == ENOENT ? 0 : -1;
        return 0;
    case 'o':
        return bring_in(first, inside(second), RESOLVE_NO_SYMLINKS, MOUNT_ATTR_RDONLY | PLAIN);
    case 'w':
        return bring_in(first, inside(second), RESOLVE_NO_SYMLINKS, PLAIN);
    case 'v':
        /* It can be written to all the same, and nobody changes its owner, permissions or times: root would be the machine's. On
         * some machines one of them is a link to another. */
        return bring_in(first, inside(first), 0, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    case 'l':
        return link_at(inside(first), second);
    case 't':
        return mount_new("tmpfs", inside(first), MS_NOSUID | MS_NODEV, second);
    case 'p':
        return mount_new("devpts", inside(first), MS_NOSUID | MS_NOEXEC, terminal_options);
    default:
        errno = EINVAL;
        return -1;
    }
}

/* The string at `*at`, which ends in NUL; moves behind it. */
static const char *next_string(const char *plan, size_t length, size_t *at) {
    const char *text = plan + *at;
    const char *end = *at < length ? memchr(text, '\0', length - *at) : NULL;
    if (end)
        *at += (size_t)(end - text) + 1;
    return end ? text : NULL;
}

static uint32_t make_root(const char *plan, size_t length, ENTERED *result) {
    for (size_t at = 0; at < length;) {
        result->at = (uint32_t)at;
        char kind = plan[at++];
        const char *first = next_string(plan, length, &at);
        const char *second = kind && strchr("owlt", kind) ? next_string(plan, length, &at) : "";
        errno = EINVAL;
        if (!first || !second)
            return ROOM_PLAN;
        if (do_entry(kind, first, second) != 0)
            return kind == 'R' ? ROOM_ROOT : ROOM_ENTRY;
    }
    return ROOM_DONE;
}

/* Our root is now the parent of nothing that was outside. */
static int leave_old_root(void) {
    struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};
    if (syscall(SYS_pivot_root, ".", ".") != 0 || syscall(SYS_umount2, ".", DETACH) != 0 || chdir("/") != 0)
        return -1;
    return (int)syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &read_only, sizeof read_only);
}

/* ---- the first process ---- */

/* Reaps until there is nobody left to reap. */
static int has_children(void) {
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid <= 0)
            return pid == 0;
    }
}

/* The parent of the main process is outside, so it is watched by a handle. */
static void keep_room(int signals, int main_process) {
    struct pollfd ready[2] = {{.fd = signals, .events = POLLIN}, {.fd = main_process, .events = POLLIN}};
    struct signalfd_siginfo news;
    for (;;) {
        if (!has_children() && ready[1].fd < 0)
            _exit(0);
        if (poll(ready, 2, -1) < 0)
            continue;
        if (ready[0].revents && read(signals, &news, sizeof news) < 0 && errno != EAGAIN && errno != EINTR)
            _exit(1);
        if (ready[1].fd >= 0 && ready[1].revents)
            ready[1].fd = -1;
    }
}

/* Everyone who loses a parent in the room becomes a child of this process. It has no files but these three, and no rights. */
static void be_init(void) {
    enum { LINK = 0 };
    sigset_t all, child;
    int why = 0;
    char go;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    syscall(SYS_close_range, LINK + 1, ~0U, 0);
    if (mount_at("proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
        why = errno;
    if (write(LINK, &why, sizeof why) != sizeof why || why || read(LINK, &go, 1) != 1)
        _exit(1);
    int main_process = (int)syscall(SYS_pidfd_open, MAIN_INSIDE, 0);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    int signals = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
    prctl(PR_SET_NAME, "shellkeep-init");
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (main_process < 0 || signals < 0 || capabilities_keep(0) != 0 || setsid() < 0 || chdir("/") != 0)
        _exit(1);
    close(LINK);
    keep_room(signals, main_process);
}

/* Makes the first process and has it mount `/proc`, which shows the processes of the one who mounts it. */
static uint32_t begin_init(const ROOM *room, int *link, ENTERED *result) {
    int ends[2], why = 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return ROOM_INIT;
    pid_t init = copy_this_process();
    if (init == 0) {
        end_with(room->parent);
        dup2(ends[1], 0);
        be_init();
    }
    int failed = errno;
    close(ends[1]);
    *link = ends[0];
    errno = failed;
    if (init < 0)
        return ROOM_INIT;
    result->init = init;
    ssize_t got;
    do
        got = read(*link, &why, sizeof why);
    while (got < 0 && errno == EINTR);
    if (got != sizeof why) {
        errno = ECHILD;
        return ROOM_INIT;
    }
    errno = why;
    return why ? ROOM_PROC : ROOM_DONE;
}

static uint32_t join(const ROOM *room) {
    if (setns(room->user, CLONE_NEWUSER) != 0 || (room->net >= 0 && setns(room->net, CLONE_NEWNET) != 0))
        return ROOM_JOIN;
    if (unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS) != 0)
        return ROOM_NAMESPACES;
    return ROOM_DONE;
}

int room_enter(const ROOM *room, ENTERED *result) {
    int link = -1;
    memset(result, 0, sizeof *result);
    result->step = join(room);
    if (!result->step)
        result->step = make_root(room->plan, room->length, result);
    if (!result->step)
        result->step = begin_init(room, &link, result);
    if (!result->step && !room->is_ahead && leave_old_root() != 0)
        result->step = ROOM_PIVOT;
    pid_t main_process = result->step ? -1 : copy_this_process();
    if (main_process == 0) {
        close(link);
        end_with(room->parent);
        setsid();
        return 0;
    }
    if (!result->step && main_process < 0)
        result->step = ROOM_MAIN;
    if (!result->step && write(link, "", 1) != 1)
        result->step = ROOM_INIT;
    result->main = main_process > 0 ? main_process : 0;
    result->why = result->step ? errno : 0;
    /* Without us it ends, if it has nobody to look after. */
    if (link >= 0)
        close(link);
    return 1;
}

void room_settle(const char *plan, size_t length, ENTERED *result) {
    memset(result, 0, sizeof *result);
    result->step = make_root(plan, length, result);
    if (!result->step && leave_old_root() != 0)
        result->step = ROOM_PIVOT;
    result->why = result->step ? errno : 0;
}
