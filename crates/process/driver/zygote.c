/* Forking shells.
 *
 * The daemon keeps one bash that has loaded the driver and runs nothing: the zygote. A copy of it is a shell that has
 * just started, except for what bash noted at its own start: its process id, its group, the time, the seed of RANDOM.
 * Those are set anew. The parent of the copy is the daemon, as if the daemon had started it. */

#define _GNU_SOURCE
#include "zygote.h"

#include "bash.h"
#include "channel.h"
#include "locale.h"
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Older headers do not have these. */
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef PR_GET_TID_ADDRESS
#define PR_GET_TID_ADDRESS 40
#endif
#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif

/* Where in the descriptors each one is; the last ones are lists of tasks. */
enum { SOCKET, GROUP, TASKS };

/* As the kernel wants it. */
typedef struct {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
} CLONE;

/* Since bash 5.1. */
extern struct timeval shellstart __attribute__((weak));

/* Not `fork`: the child is the daemon's and not ours, and is born in its group; to move it there afterwards takes
 * milliseconds. The exit signal is inherited. Where the kernel says where glibc keeps the thread's number, that is set as
 * `fork` would. */
static pid_t copy_this_process(int group) {
    CLONE birth = {.flags = CLONE_PARENT | CLONE_INTO_CGROUP, .cgroup = (uint64_t)group};
    int *thread_number = NULL;
    if (prctl(PR_GET_TID_ADDRESS, &thread_number) == 0 && thread_number) {
        birth.flags |= CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID;
        birth.child_tid = (uint64_t)(uintptr_t)thread_number;
    }
    return (pid_t)syscall(SYS_clone3, &birth, sizeof birth);
}

/* Every shell gets other numbers. The assignment leaves a value that a shell that has just started does not list. */
static void seed_random(void) {
    uint32_t seed;
    char text[16];
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        seed = (uint32_t)getpid() ^ (uint32_t)time(NULL);
    snprintf(text, sizeof text, "%u", (unsigned)seed);
    SHELL_VAR *random = bind_variable("RANDOM", text, 0);
    if (random) {
        free(random->value);
        random->value = NULL;
    }
}

static void begin_life(const int *fds, int count) {
    /* In a group's list, 0 is the writer itself. */
    for (int i = TASKS; i < count; i++)
        if (write(fds[i], "0", 1) != 1)
            _exit(EXIT_CHANNEL);
    if (setsid() < 0 || dup3(fds[SOCKET], control, O_CLOEXEC) < 0)
        _exit(EXIT_CHANNEL);
    dollar_dollar_pid = getpid();
    shell_pgrp = dollar_dollar_pid;
    shell_start_time = time(NULL);
    if (&shellstart)
        gettimeofday(&shellstart, NULL);
    seed_random();
    prctl(PR_SET_DUMPABLE, 1);
    rehearse();
}

int fork_shell(CURSOR *in, const int *fds, int count) {
    BUFFER answer = {0};
    char *locale = get_string(in);
    locale_prepare(locale);
    free(locale);
    /* Commands run as our user. None may trace the process that all later shells are copies of. */
    prctl(PR_SET_DUMPABLE, 0);
    errno = EINVAL;
    pid_t pid = count > GROUP ? copy_this_process(fds[GROUP]) : -1;
    int why = pid < 0 ? errno : 0;
    if (pid == 0)
        begin_life(fds, count);
    for (int i = 0; i < count; i++)
        close(fds[i]);
    if (pid == 0)
        return 1;
    put_u32(&answer, pid < 0 ? 0 : (uint32_t)pid);
    put_u32(&answer, (uint32_t)why);
    send_frame(FRAME_FORK, &answer);
    free(answer.bytes);
    return 0;
}
