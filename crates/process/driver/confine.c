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

/* The user, the length of the fence, the fence, and what is left of the plan. Without a ruleset, what is there of a fence is the
 * filter alone. */
static void do_as_said(CURSOR *in, const int *fds, int fd_count, CONFINED *result) {
    uint32_t user = get_u32(in), length = get_u32(in);
    result->step = FENCE_FRAME;
    if (in->bad || length > in->left || fd_count > (length > 0) || (!user && fd_count == 0))
        return;
    const char *plan = (const char *)in->at + length;
    size_t plan_length = in->left - length;
    ENTERED settled = {0};
    result->step = user ? become_user(user) : FENCE_DONE;
    if (!result->step && plan_length > 0) {
        room_settle(plan, plan_length, &settled);
        result->step = settled.step ? FENCE_ROOM : FENCE_DONE;
        result->room_step = settled.step;
        result->room_at = settled.at;
        errno = settled.why;
    }
    if (!result->step && length > 0)
        result->step = fd_count > 0 ? fence_put_on(in->at, length, fds[0]) : fence_filter(in->at, length);
}

CONFINED confine(CURSOR *in, const int *fds, int fd_count) {
    CONFINED result = {.step = FENCE_FRAME};
    uint32_t length = get_u32(in);
    errno = EINVAL;
    if (!in->bad && length == 0 && fd_count == 0) {
        result.step = FENCE_DONE;
    } else if (!in->bad && length <= in->left) {
        CURSOR part = *in;
        part.left = length;
        in->at += length;
        in->left -= length;
        do_as_said(&part, fds, fd_count, &result);
    }
    result.why = result.step ? (uint32_t)errno : 0;
    close_all(fds, fd_count);
    return result;
}

void put_confined(BUFFER *out, CONFINED result) {
    put_u32(out, result.step);
    put_u32(out, result.why);
    put_u32(out, result.room_step);
    put_u32(out, result.room_at);
}

void filter_ahead(CURSOR *in) {
    BUFFER out = {0};
    CONFINED result = {.step = fence_filter(in->at, in->left)};
    result.why = result.step ? (uint32_t)errno : 0;
    put_confined(&out, result);
    send_frame(FRAME_FILTER, &out);
    free(out.bytes);
}

/* What bash noted when it started is not true of its copy in another namespace. */
static void begin_inside(void) {
    dollar_dollar_pid = getpid();
    shell_pgrp = dollar_dollar_pid;
    if (set_ppid)
        set_ppid();
}

int enter_room(CURSOR *in, const int *fds, int fd_count, int is_ahead) {
    BUFFER out = {0};
    ENTERED result = {.step = ROOM_PLAN, .why = EINVAL};
    ROOM room = {
        .plan = (const char *)in->at,
        .length = in->left,
        .user = fd_count > 0 ? fds[0] : -1,
        .net = fd_count > 1 ? fds[1] : -1,
        .parent = -1,
        .is_ahead = is_ahead,
    };
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
