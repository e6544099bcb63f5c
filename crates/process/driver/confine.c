#define _GNU_SOURCE
#include "confine.h"

#include "../room/fence.h"
#include "../room/room.h"
#include "../room/user.h"
#include "bash.h"
#include "channel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void close_all(const int *fds, int count) {
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

/* Sets a variable that bash computes once and lets nobody change. */
static void set_computed(const char *name, uint32_t number) {
    char text[16];
    SHELL_VAR *variable = find_variable(name);
    if (!variable)
        return;
    snprintf(text, sizeof text, "%u", number);
    variable->value = copied(text);
}

/* Becomes another user. What bash noted of its user when it started is not true any more; the name is looked up when it is
 * needed. */
static uint32_t become_user(uint32_t number) {
    if (user_become(number) != 0)
        return FENCE_USER;
    if (&current_user)
        current_user = (struct user_info){.uid = number, .euid = number, .gid = number, .egid = number};
    set_computed("UID", number);
    set_computed("EUID", number);
    return FENCE_DONE;
}

/* What is in the frame about it: the user, and the fence. */
static uint32_t put_on(CURSOR *in, const int *fds, int fd_count) {
    uint32_t user = get_u32(in);
    int has_fence = in->left > 0;
    if (in->bad || (!user && !has_fence) || fd_count != has_fence)
        return FENCE_FRAME;
    uint32_t failed = user ? become_user(user) : FENCE_DONE;
    return failed || !has_fence ? failed : fence_put_on(in->at, in->left, fds[0]);
}

uint32_t confine(CURSOR *in, const int *fds, int fd_count) {
    uint32_t length = get_u32(in), failed = FENCE_FRAME;
    errno = EINVAL;
    if (!in->bad && length == 0 && fd_count == 0)
        return FENCE_DONE;
    if (!in->bad && length <= in->left) {
        CURSOR part = *in;
        part.left = length;
        in->at += length;
        in->left -= length;
        failed = put_on(&part, fds, fd_count);
    }
    int why = errno;
    close_all(fds, fd_count);
    errno = why;
    return failed;
}

/* What bash noted when it started is not true of its copy in another namespace. */
static void begin_inside(void) {
    dollar_dollar_pid = getpid();
    shell_pgrp = dollar_dollar_pid;
    if (set_ppid)
        set_ppid();
}

int enter_room(CURSOR *in, const int *fds, int fd_count) {
    BUFFER out = {0};
    ENTERED result = {.step = ROOM_PLAN, .why = EINVAL};
    ROOM room = {(const char *)in->at, in->left, fd_count > 0 ? fds[0] : -1, fd_count > 1 ? fds[1] : -1, -1};
    int is_outside = fd_count > 0 ? room_enter(&room, &result) : 1;
    close_all(fds, fd_count);
    if (!is_outside) {
        begin_inside();
        return 1;
    }
    put_u32(&out, (uint32_t)result.main);
    put_u32(&out, (uint32_t)result.init);
    put_u32(&out, result.step);
    put_u32(&out, result.at);
    put_u32(&out, (uint32_t)result.why);
    send_frame(FRAME_ROOM, &out);
    /* The copy goes on in our place. */
    _exit(result.step ? EXIT_CHANNEL : 0);
}
