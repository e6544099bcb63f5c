/* The keeper of a service: a small process between the daemon and the service, so that the service outlives the daemon.
 *
 * It starts bash with the driver as the daemon would, writes what the service prints to a bounded log, and when no one
 * of the service is left it notes how its first process ended. The daemon that started it may die at any time, and
 * another may come; neither is needed for any of this.
 *
 * Arguments: directory, bytes of log, bash, soft limit of open files or -, the group's cgroup.kill or -, the service's
 * umask in octal or -, how many descriptors describe its room (none, or a plan and the namespaces to join), and how many
 * after them have texts that the log must not contain (none or one). */

#define _GNU_SOURCE
#include "../room/room.h"
#include "log.h"
#include "mask.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What the daemon gives us; `src/service/keeper.rs` puts it there. Bash gets the first two at the same places. */
enum { CONTROL = 3, OBJECT = 4, STATUS = 5, OUTPUT = 6, ROOM_PLACE = 7, ROOM_USER = 8, ROOM_NET = 9 };
/* What the pipe holds at first. When that was full, we ask for more: fewer switches between the service and us. */
enum { FIRST_PIPE = 64 << 10, LARGE_PIPE = 1 << 20 };
/* How long the last output may take when everyone is gone: someone outside the tree may hold the pipe. */
enum { DRAIN_MS = 50 };
/* Time between two attempts to end what is left; it doubles, for what cannot be ended waits for a disk. */
enum { KILL_PAUSE_MS = 10, LONGEST_KILL_PAUSE_MS = 1000 };

static const char load_driver[] = "enable -f /proc/self/fd/4 shellkeep";

static int directory = -1, signals = -1, output = OUTPUT, word = -1;
static const char *bash_path, *soft_limit, *kill_file, *file_mask;
static int room_descriptors;
static pid_t main_pid;
static int main_status, main_ended, is_patient, is_killing, kill_pause = KILL_PAUSE_MS;
static int64_t kill_again_at;

static int is_given(const char *argument) { return strcmp(argument, "-") != 0; }

/* ---- starting ---- */

/* Enters the room, and goes on in a process inside. Only the first process tells the keeper how it went. */
static void enter(int keeper, int told) {
    struct stat about;
    ENTERED result = {.step = ROOM_PLAN};
    ROOM room = {.user = ROOM_USER, .net = room_descriptors > 2 ? ROOM_NET : -1, .parent = keeper};
    void *plan = MAP_FAILED;
    if (fstat(ROOM_PLACE, &about) == 0)
        plan = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, ROOM_PLACE, 0);
    if (plan == MAP_FAILED) {
        result.why = errno;
    } else {
        room.plan = plan;
        room.length = (size_t)about.st_size;
        if (room_enter(&room, &result) == 0)
            return;
    }
    _exit(write(told, &result, sizeof result) == sizeof result ? 0 : 126);
}

/* Whether bash is still where it was. In a room a session may have put something else there: `/tmp` is its own, and what is
 * started here is not behind a fence yet. */
static int is_in_place(int bash) {
    struct stat ours, there;
    return fstat(bash, &ours) == 0 && stat(bash_path, &there) == 0 && ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

static void in_child(pid_t keeper, int handle, int told) {
    sigset_t none;
    sigemptyset(&none);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper)
        _exit(127);
    /* Opened here: the room may not have the directory that it is in. */
    int bash = open(bash_path, O_PATH | O_CLOEXEC);
    if (bash < 0)
        return;
    if (room_descriptors)
        enter(handle, told);
    else
        setsid();
    struct rlimit limit;
    if (is_given(soft_limit) && getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = strtoull(soft_limit, NULL, 10);
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (is_given(file_mask))
        umask((mode_t)strtoul(file_mask, NULL, 8));
    /* Where there is no group, what we look after is known by a mark of its own. */
    char mark[512];
    const char *label = getenv("SHELLKEEP_KEEPS");
    snprintf(mark, sizeof mark, "SHELLKEEP_CAGE=%s", label ? label : "");
    char *environment[] = {is_given(kill_file) ? NULL : mark, NULL};
    char *arguments[] = {"bash", "--noprofile", "--norc", "-c", (char *)load_driver, NULL};
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (!room_descriptors || is_in_place(bash))
        execve(bash_path, arguments, environment);
    else
        syscall(SYS_execveat, bash, "", arguments, environment, AT_EMPTY_PATH);
}

/* What is known of a service that was started; the same as `Answer` in `src/service/keeper.rs` reads. */
typedef struct {
    ENTERED room;
    int32_t main;
    int32_t why;
} STARTED;

/* Who is in the room, or which step failed. */
static void hear_of_room(int told, STARTED *started) {
    if (read(told, &started->room, sizeof started->room) != sizeof started->room)
        started->room = (ENTERED){.step = ROOM_PLAN, .why = ECHILD};
    started->main = started->room.main;
    started->why = started->room.why;
}

/* Starts bash and reports its pid to the daemon, or why there is none. */
static int start(void) {
    int failure[2], told[2];
    STARTED started = {0};
    if (pipe2(failure, O_CLOEXEC) != 0 || pipe2(told, O_CLOEXEC) != 0)
        return 0;
    pid_t keeper = getpid();
    int handle = (int)syscall(SYS_pidfd_open, keeper, 0);
    started.main = fork();
    if (started.main == 0) {
        in_child(keeper, handle, told[1]);
        int32_t why = errno;
        if (write(failure[1], &why, sizeof why) < 0)
            _exit(126);
        _exit(127);
    }
    if (started.main < 0) {
        started.main = 0;
        started.why = errno;
    }
    close(failure[1]);
    close(told[1]);
    if (room_descriptors && started.main)
        hear_of_room(told[0], &started);
    if (started.main && read(failure[0], &started.why, sizeof started.why) > 0)
        started.main = 0;
    main_pid = started.main;
    /* If the daemon is gone, bash finds its socket closed and ends. */
    ssize_t said = write(STATUS, &started, sizeof started);
    (void)said;
    close(failure[0]);
    close(told[0]);
    close(handle);
    close(CONTROL);
    close(OBJECT);
    close(STATUS);
    for (int i = 0; i < room_descriptors; i++)
        close(ROOM_PLACE + i);
    return main_pid != 0;
}

/* ---- the end ---- */

/* Written ahead, so that a full disk cannot keep us from leaving word. */
static void prepare_word(void) {
    static const char room[64] = "                                                               ";
    word = openat(directory, "exit.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (word >= 0 && write(word, room, sizeof room) < 0) {
        close(word);
        word = -1;
    }
}

static void leave_word(void) {
    struct timespec now;
    char text[64];
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t at = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    int is_signal = WIFSIGNALED(main_status);
    int number = is_signal ? WTERMSIG(main_status) : WEXITSTATUS(main_status);
    int length = snprintf(text, sizeof text, "%s %d %" PRIu64 "\n", is_signal ? "signalled" : "exited", number, at);
    if (word < 0)
        prepare_word();
    if (word >= 0 && pwrite(word, text, (size_t)length, 0) == length && ftruncate(word, length) == 0)
        renameat(directory, "exit.new", directory, "exit");
}

/* ---- who is left ---- */

static pid_t parent_of(const char *number) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%s/stat", number);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t length = read(file, line, sizeof line - 1);
    close(file);
    line[length > 0 ? length : 0] = '\0';
    /* The name stands in parentheses and may hold any byte; then come the state and the parent. */
    char *rest = strrchr(line, ')');
    int parent = 0;
    return rest && sscanf(rest + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* Everyone who lost his parent is our child, so ending our children until there are none ends everyone. A number cannot
 * be given away before we have waited for its process. */
static void kill_children(void) {
    pid_t own = getpid();
    DIR *listing = opendir("/proc");
    for (struct dirent *entry; listing && (entry = readdir(listing));)
        if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9' && parent_of(entry->d_name) == own)
            kill(atoi(entry->d_name), SIGKILL);
    if (listing)
        closedir(listing);
}

static int kill_group(void) {
    int file = is_given(kill_file) ? open(kill_file, O_WRONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return 0;
    int is_done = write(file, "1", 1) == 1;
    close(file);
    return is_done;
}

static void kill_rest(void) {
    if (is_killing || !kill_group())
        kill_children();
    is_killing = 1;
    kill_again_at = now_ms() + kill_pause;
    kill_pause = kill_pause * 2 < LONGEST_KILL_PAUSE_MS ? kill_pause * 2 : LONGEST_KILL_PAUSE_MS;
}

/* Whether anybody is left. */
static int reap(void) {
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid <= 0)
            return pid == 0;
        if (pid == main_pid && !main_ended) {
            main_ended = 1;
            main_status = status;
            /* On success it put itself into the background and continues. Otherwise, what it leaves is useless. */
            if (status != 0 && !is_patient)
                kill_rest();
        } else if (is_killing) {
            /* Those whose parent has just gone are ours now. */
            kill_again_at = now_ms();
        }
    }
}

/* ---- the loop ---- */

static void take_output(void) {
    static int is_large;
    ssize_t length = log_take(output);
    if (length >= FIRST_PIPE && !is_large) {
        is_large = 1;
        fcntl(output, F_SETPIPE_SZ, LARGE_PIPE);
    } else if (length == 0) {
        close(output);
        output = -1;
    }
}

/* The daemon asks everyone to end and gives each its time; it ends the rest itself. */
static void take_signals(void) {
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == sizeof info)
        if (info.ssi_signo == SIGUSR1)
            is_patient = 1;
}

static void keep(void) {
    for (;;) {
        struct pollfd ready[2] = {{.fd = signals, .events = POLLIN}, {.fd = output, .events = POLLIN}};
        int64_t left = kill_again_at - now_ms();
        int events = poll(ready, 2, !is_killing ? -1 : left > 0 ? (int)left : 0);
        if (events > 0 && ready[1].revents)
            take_output();
        if (is_killing && now_ms() >= kill_again_at)
            kill_rest();
        if (events > 0 && ready[0].revents) {
            take_signals();
            if (!reap())
                return;
        }
    }
}

static void drain(void) {
    int64_t until = now_ms() + DRAIN_MS;
    while (output >= 0) {
        int64_t left = until - now_ms();
        struct pollfd ready = {.fd = output, .events = POLLIN};
        if (left <= 0 || poll(&ready, 1, (int)left) == 0)
            return;
        take_output();
    }
}

int main(int count, char **arguments) {
    if (count != 9)
        return 2;
    uint64_t log_bytes = strtoull(arguments[2], NULL, 10);
    bash_path = arguments[3];
    soft_limit = arguments[4];
    kill_file = arguments[5];
    file_mask = arguments[6];
    room_descriptors = atoi(arguments[7]);
    int masked = ROOM_PLACE + room_descriptors, is_masked = atoi(arguments[8]);
    syscall(SYS_close_range, masked + is_masked, ~0U, 0);
    for (int fd = STATUS; fd < masked + is_masked; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    prctl(PR_SET_NAME, "shellkeep-keep");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t all, heard;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&heard);
    sigaddset(&heard, SIGCHLD);
    sigaddset(&heard, SIGUSR1);
    signals = signalfd(-1, &heard, SFD_NONBLOCK | SFD_CLOEXEC);
    directory = open(arguments[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (signals < 0 || directory < 0 || (is_masked && !mask_load(masked))) {
        STARTED nothing = {.why = errno};
        return write(STATUS, &nothing, sizeof nothing) < 0 ? 3 : 1;
    }
    if (is_masked)
        close(masked);
    fcntl(OUTPUT, F_SETFL, O_NONBLOCK);
    log_begin(directory, log_bytes);
    prepare_word();
    if (!start())
        return 1;
    keep();
    drain();
    log_end();
    leave_word();
    return 0;
}
