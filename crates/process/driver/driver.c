/* The driver: the loop that runs a session's commands inside bash.
 *
 * It is a loadable builtin whose load function never returns: `enable -f` maps it, and the loop runs from there, so
 * the builtin itself is never entered into bash's tables and leaves no name behind. Each command goes through the same
 * function, with the same arguments, as the text of `bash -c`; there is no eval, no loop and no function around it that
 * a command could see, break out of, or redefine.
 *
 * Commands come in and results go out on one socket that no child inherits. See docs/design/driver.md. */

#include "bash.h"
#include "call.h"
#include "channel.h"
#include "confine.h"
#include "descriptors.h"
#include "locale.h"
#include "state.h"
#include "wire.h"
#include "zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Where the daemon puts our socket and our own object file before it starts bash. */
enum { CONTROL_AT_START = 3, OBJECT_AT_START = 4 };
/* Where the socket is kept: above what people use by hand, below what would make every fork copy a large table. */
enum { CONTROL_HOME = 1010 };
/* The signal with which the daemon asks for an interruption. Bash gives it no meaning. */
enum { INTERRUPT_SIGNAL = 60 };
/* Exit status of a driver that cannot work; another is in channel.h. */
enum { EXIT_UNSUPPORTED = 96 };
/* What bash says of a text that it cannot parse, and of a command that was interrupted. */
enum { EXIT_SYNTAX = 2, EXIT_INTERRUPTED = 128 + SIGINT };

static pid_t shell_pid;
static volatile sig_atomic_t busy, interrupted, forked;
/* A request to interrupt that came before its command. */
static volatile sig_atomic_t early, came_early;
static void *procsub_before;

/* ---- interruption ---- */

static int has_trap(int number) {
    return number > 0 && number < SIGNALS && trap_list[number] != (char *)SIG_DFL && trap_list[number] != (char *)SIG_IGN;
}

/* The value that comes along with the signal: which run it is for, and the signal that someone sent to the command. The
 * same as `LiveShell::ask` makes it. */
static int is_for_this_run(int value) {
    const unsigned char *nonce = (const unsigned char *)&request;
    return (uint32_t)value >> 8 == (uint32_t)(nonce[0] << 16 | nonce[1] << 8 | nonce[2]);
}

static int signal_in(int value) { return (signed char)(value & 0xff); }

/* Bash unwinds at its next check. The builtin `wait` has its own, which looks for a signal that it received. */
static void interrupt(void) {
    silence_step_traps();
    interrupted = 1;
    interrupt_state = 1;
    if (wait_intr_flag && this_shell_builtin == wait_builtin)
        wait_signal_received = SIGINT;
}

/* If the command has a trap for the signal, it gets the signal and deals with it; else it is interrupted, or nothing
 * happens if the number is negative. */
static void act_on(int wanted) {
    int number = wanted < 0 ? -wanted : wanted;
    if (has_trap(number)) {
        kill(shell_pid, number);
        return;
    }
    if (wanted < 0)
        return;
    /* Bash would report the death of the children that the daemon is ending; no one asked it. */
    if (!interrupted)
        close_to_null(2);
    interrupt();
}

/* A request that is older than the running command must not hit it, and one that is there before its command must not be
 * lost: the command would keep running as if no one had asked. Without a value, where the user's queue of signals is full,
 * it interrupts whatever runs; the daemon asks again later. */
static void on_interrupt(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    int before = errno;
    int value = info->si_value.sival_int;
    if (info->si_code != SI_QUEUE) {
        if (busy)
            act_on(0);
    } else if (!busy) {
        early = value;
        came_early = 1;
    } else if (is_for_this_run(value)) {
        act_on(signal_in(value));
    }
    errno = before;
}

/* Ctrl-C at a terminal: the kernel sends SIGINT to everything in front of it, which includes us, as no command has a group
 * of its own. Bash asks this handler only if the program that it waits for has died of the signal, so one that handles
 * Ctrl-C continues. Without a handler bash would end, and with it the session's shell. */
static void on_terminal_interrupt(int number) {
    if (getpid() != shell_pid) {
        signal(number, SIG_DFL);
        raise(number);
    } else if (busy) {
        interrupt();
    }
}

static int terminal_interrupts_us(void) {
    struct sigaction now;
    return sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == on_terminal_interrupt;
}

static struct sigaction before_terminal;

/* A trap of the session comes first, and so does what it ignores. */
static void listen_to_terminal(void) {
    struct sigaction action = {.sa_handler = on_terminal_interrupt};
    if (trap_list[SIGINT] == (char *)SIG_DFL)
        sigaction(SIGINT, &action, &before_terminal);
}

static void ignore_terminal(void) {
    if (terminal_interrupts_us())
        sigaction(SIGINT, &before_terminal, NULL);
}

/* ---- running ---- */

static void report(int status, uint32_t flags) {
    static BUFFER out;
    busy = 0;
    ignore_terminal();
    bring_back_step_traps();
    int was_homeless = homeless_in_this_call();
    undo_this_call();
    if (read_but_dont_execute) {
        read_but_dont_execute = 0;
        set_shellopts();
        flags |= DONE_NOEXEC;
    }
    if (forked) {
        flags |= DONE_FORKED;
        limits_touched = 1; /* a child may have called prlimit on us */
    }
    if (interrupted)
        flags |= DONE_INTERRUPTED;
    if (was_homeless)
        flags |= DONE_HOMELESS;
    if (last_procsub_child && last_procsub_child != procsub_before)
        flags |= DONE_PROCSUB;
    uint32_t changed = drop_descriptors(forked || (flags & DONE_EXITING));
    /* An interruption takes standard error away itself. */
    flags |= interrupted ? changed & ~(uint32_t)DONE_STDERR_CHANGED : changed;
    out.length = 0;
    put_u32(&out, (uint32_t)status);
    put_u32(&out, flags);
    capture_changes(&out);
    send_frame(FRAME_RUN, &out);
}

/* Bash leaves by many doors (exit, errexit, a failed exec, an expansion error); all of them lead here. */
static void at_exit(void) {
    if (getpid() == shell_pid && busy)
        report(last_command_exit_value, DONE_EXITING);
}

/* Whether the text had no command in it: bash says that all is well, and leaves `$?` to the command before it. */
static int has_run_nothing(int result, int before) { return result == 0 && last_command_exit_value == before; }

static int execute(char *command) {
    /* One level above the text, so that bash does not replace itself with the last command; and as few plus signs in
     * a trace as `bash -c` prints. */
    parse_and_execute_level = 1;
    indirection_level = 0;
    int code = sigsetjmp(top_level, 0);
    if (code == 0) {
        int before = last_command_exit_value;
        int result = parse_and_execute(command, "-c", SEVAL_NOHIST | SEVAL_RESETLINE | SEVAL_NOOPTIMIZE);
        if (has_run_nothing(result, before))
            return 0;
        /* Like `bash -c`, which looks at the last status; numbers beyond a byte are bash's own and mean that it was not
         * run. After some syntax errors bash leaves a status that is not 0 as it was; there it is of another command. */
        int is_old = result == EXIT_SYNTAX && last_command_exit_value == before;
        if (last_command_exit_value > 255 || is_old)
            last_command_exit_value = result;
        return last_command_exit_value;
    }
    if (code == JUMP_FORCE_EOF)
        last_command_exit_value = 127;
    if (code == JUMP_DISCARD)
        last_command_exit_value = 1;
    if (getpid() == shell_pid && (code == JUMP_DISCARD || (interrupted && variable_context == 0)))
        return last_command_exit_value;
    exit_shell(last_command_exit_value);
}

static void refuse(REFUSAL refusal) {
    BUFFER why = {0};
    put_string(&why, refusal.why);
    send_frame(refusal.kind, &why);
    free(why.bytes);
}

/* The daemon may have been stopped after it decided that the command may begin. Only a look at the clock as the last thing
 * before the command can tell. The clock counts while the machine is suspended. */
static int is_past(uint64_t deadline) {
    struct timespec now;
    return deadline && clock_gettime(CLOCK_BOOTTIME, &now) == 0 &&
           (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec >= deadline;
}

static void refuse_late(void) {
    static const BUFFER nothing;
    send_frame(FRAME_TOO_LATE, &nothing);
}

static void run(CURSOR *in, const int *fds, int fd_count) {
    uint32_t flags = get_u32(in);
    uint64_t deadline = (flags & RUN_UNTIL) ? get_u64(in) : 0;
    take_descriptors(flags, fds, fd_count);
    if (flags & RUN_TTY) {
        keep_size_for_this_call();
        listen_to_terminal();
    }
    REFUSAL refused = begin_call(in, flags & RUN_CWD);
    int is_late = !refused.why && is_past(deadline);
    if (refused.why || is_late) {
        ignore_terminal();
        undo_this_call();
        drop_descriptors(0);
        is_late ? refuse_late() : refuse(refused);
        return;
    }
    char *command = get_string(in);
    interrupted = 0;
    /* A terminal is never kept for the next command, as if something else held it. */
    forked = (flags & RUN_TTY) != 0;
    procsub_before = last_procsub_child;
    prepare_silence();
    busy = 1;
    if (came_early && is_for_this_run(early))
        act_on(signal_in(early));
    came_early = 0;
    if (interrupted)
        last_command_exit_value = EXIT_INTERRUPTED;
    int status = interrupted ? EXIT_INTERRUPTED : execute(command);
    /* Interrupted between a fork and the wait for it, bash would make up for the wait after the next command, and take the
     * child's status for that command's. */
    stop_making_children();
    interrupt_state = 0;
    /* One that came as a `wait` ended would end the next one. */
    wait_signal_received = 0;
    report(status, 0);
}

/* The text, as `bash -c` runs it: the last command may take the place of this process, and there is no one to report
 * to. */
static void execute_for_good(char *command) {
    struct sigaction action = {.sa_handler = SIG_DFL};
    close(control);
    control = -1;
    sigaction(INTERRUPT_SIGNAL, &action, NULL);
    startup_state = STARTED_WITH_COMMAND;
    parse_and_execute_level = 0;
    indirection_level = 0;
    int code = sigsetjmp(top_level, 0);
    if (code == 0) {
        int before = last_command_exit_value;
        int result = parse_and_execute(command, "-c", SEVAL_NOHIST | SEVAL_RESETLINE);
        int is_old = result == EXIT_SYNTAX && last_command_exit_value == before;
        if (last_command_exit_value > 255 || is_old || has_run_nothing(result, before))
            last_command_exit_value = result;
    }
    if (code == JUMP_FORCE_EOF)
        last_command_exit_value = 127;
    if (code == JUMP_DISCARD)
        last_command_exit_value = 1;
    exit_shell(last_command_exit_value);
}

/* Directory and variables hold for good: this shell is used for nothing else. */
static void become_service(CURSOR *in, const int *fds, int fd_count) {
    static const BUFFER nothing;
    uint32_t flags = get_u32(in);
    uint64_t deadline = (flags & RUN_UNTIL) ? get_u64(in) : 0;
    take_descriptors(flags, fds, fd_count);
    REFUSAL refused = begin_service(in, flags & RUN_CWD);
    if (refused.why) {
        refuse(refused);
        return;
    }
    if (is_past(deadline)) {
        refuse_late();
        return;
    }
    char *command = get_string(in);
    send_frame(FRAME_SERVICE, &nothing);
    execute_for_good(command);
}

static uint32_t take_state(CURSOR *in, BUFFER *problems) {
    free(rescue_path);
    rescue_path = get_string(in);
    char *locale = get_string(in);
    locale_begin(locale);
    free(locale);
    uint32_t count = restore_facts(in, problems);
    capture_forget();
    return count;
}

/* The daemon ends a shell that answers that it is not confined. */
static void become(CURSOR *in, const int *fds, int fd_count) {
    BUFFER problems = {0};
    BUFFER out = {0};
    CONFINED confined = confine(in, fds, fd_count);
    put_confined(&out, confined);
    uint32_t count = confined.step ? 0 : take_state(in, &problems);
    put_u32(&out, count);
    put_bytes(&out, problems.bytes, problems.length);
    send_frame(FRAME_RESTORE, &out);
    free(problems.bytes);
    free(out.bytes);
}

/* The daemon takes it that we have the pipes which it sent. Without them the output would be lost, of this command and of
 * the next ones; a new shell has room for them. */
static void refuse_for_good(void) {
    if (request.kind == FRAME_RUN || request.kind == FRAME_SERVICE)
        refuse((REFUSAL){FRAME_REFUSED, "its shell may open too few files (`ulimit -n`) to be given its output"});
    _exit(EXIT_CHANNEL);
}

/* The daemon never sends a second frame before the first is answered, so a read never takes more than one. */
static void serve(void) {
    static unsigned char *frame;
    static size_t capacity = 4096;
    frame = xmalloc(capacity);
    for (;;) {
        int fds[MOST_FDS], fd_count = 0;
        size_t got = receive(frame, sizeof request, capacity, fds, &fd_count);
        memcpy(&request, frame, sizeof request);
        size_t length = sizeof request + request.length;
        if (length > capacity) {
            frame = xrealloc(frame, length);
            capacity = length;
        }
        if (got < length)
            receive(frame + got, length - got, length - got, fds, &fd_count);
        if (fd_count == FDS_LOST)
            refuse_for_good();
        CURSOR in = {frame + sizeof request, request.length, 0};
        if (request.kind == FRAME_RUN)
            run(&in, fds, fd_count);
        else if (request.kind == FRAME_RESTORE)
            become(&in, fds, fd_count);
        else if (request.kind == FRAME_SERVICE)
            become_service(&in, fds, fd_count);
        else if (request.kind == FRAME_FORK && fork_shell(&in, fds, fd_count))
            shell_pid = getpid();
        else if (request.kind == FRAME_ROOM && enter_room(&in, fds, fd_count, 0))
            shell_pid = getpid();
        else if (request.kind == FRAME_ROOM_AHEAD && enter_room(&in, fds, fd_count, 1))
            shell_pid = getpid();
        else if (request.kind == FRAME_FILTER)
            filter_ahead(&in);
    }
}

/* ---- starting ---- */

static void before_fork(void) { forked = 1; }

/* A command that was interrupted just before it forked starts nothing. Once bash has unwound, traps may. */
static void in_child(void) {
    if (busy && interrupted && interrupt_state && getppid() == shell_pid)
        _exit(EXIT_INTERRUPTED);
    if (control >= 0)
        close(control);
    control = -1;
    busy = 0;
}

static int first_element_is_major_version(ARRAY_ELEMENT *element, void *version) {
    if (element->index == 0 && element->value && atoi(element->value) == atoi(version))
        *(char *)version = '\0';
    return -1;
}

/* Looks at things whose shape is known, before anything depends on the shape. */
static int shape_is_known(void) {
    SHELL_VAR *version = find_variable("BASH_VERSION"), *parts = find_variable("BASH_VERSINFO");
    if (version == NULL || parts == NULL || strcmp(version->name, "BASH_VERSION") != 0 || version->value == NULL)
        return 0;
    if (!(parts->attributes & ATT_ARRAY) || !(parts->attributes & ATT_READONLY) || version->attributes & ATT_ARRAY)
        return 0;
    char copy[64];
    snprintf(copy, sizeof copy, "%s", version->value);
    array_walk((ARRAY *)parts->value, first_element_is_major_version, copy);
    return copy[0] == '\0' && find_variable("SHELLOPTS") && find_variable("BASHOPTS") && global_variables && global_variables == shell_variables &&
           strcmp(dollar_vars[0], "bash") == 0;
}

/* A process list should show a shell, not how it was started. The kernel shows the memory where the arguments were. */
static void hide_arguments(void) {
    unsigned long start = 0, end = 0;
    FILE *stat = fopen("/proc/self/stat", "r");
    if (stat == NULL)
        return;
    char line[2048];
    char *rest = fgets(line, sizeof line, stat) ? strrchr(line, ')') : NULL;
    fclose(stat);
    /* Fields 48 and 49, counted from the process id; the name in parentheses is the second. */
    for (int field = 2; rest && field < 48; field++)
        rest = strchr(rest + 1, ' ');
    if (rest && sscanf(rest, "%lu %lu", &start, &end) == 2 && start && end > start + sizeof "bash")
        memset((char *)start + sizeof "bash", 0, end - start - sizeof "bash");
}

static void take_over(void) {
    hide_arguments();
    /* From here on there is nothing above us to return to. */
    clear_unwind_protect_list(0);
    startup_state = 0;
    executing_builtin = 0;
    this_shell_builtin = NULL;
    last_command_exit_value = 0;
    unbind_variable_noref("BASH_EXECUTION_STRING");
    unbind_variable_noref("_");
}

static void take_control(void) {
    struct rlimit limit;
    int home = CONTROL_HOME;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur <= CONTROL_HOME + 8)
        home = (int)limit.rlim_cur - 8;
    close(OBJECT_AT_START);
    /* Whatever the daemon was started with is not the session's. */
    syscall(SYS_close_range, OBJECT_AT_START, ~0U, 0);
    control = fcntl(CONTROL_AT_START, F_DUPFD_CLOEXEC, home);
    if (control < 0)
        _exit(EXIT_CHANNEL);
    close(CONTROL_AT_START);
    descriptors_begin();
}

/* Bash looks for this, but never gets to use it. */
__attribute__((visibility("default"))) struct builtin shellkeep_struct = {"shellkeep", NULL, 0, NULL, NULL, NULL};

__attribute__((visibility("default"))) int shellkeep_builtin_load(char *name) {
    (void)name;
    if (!shape_is_known())
        _exit(EXIT_UNSUPPORTED);
    shell_pid = getpid();
    take_control();
    take_over();
    pthread_atfork(before_fork, NULL, in_child);
    atexit(at_exit);
    struct sigaction action = {.sa_sigaction = on_interrupt, .sa_flags = SA_SIGINFO};
    sigaction(INTERRUPT_SIGNAL, &action, NULL);
    capture_baseline();
    rehearse();
    BUFFER hello = {0};
    put_string(&hello, find_variable("BASH_VERSION")->value);
    send_frame(FRAME_HELLO, &hello);
    free(hello.bytes);
    serve();
    return 0;
}
