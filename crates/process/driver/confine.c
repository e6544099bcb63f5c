#include "confine.h"
#include "bash.h"
#include "channel.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif

/* The steps, in their order; `STEPS` in `src/confine.rs` names them. */
enum { STEP_NONE, STEP_FRAME, STEP_NO_NEW_PRIVILEGES, STEP_CAPABILITIES, STEP_LANDLOCK, STEP_SECCOMP };

/* What root keeps, for its own files: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE. The
 * same set as `KEPT_CAPABILITIES` in `src/confine/apply.rs`. */
static const uint32_t kept_capabilities = 1u << 0 | 1u << 1 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 6 | 1u << 7 | 1u << 10;

/* Without new privileges, what is dropped here does not come back with the next program. */
static int drop_capabilities(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct held[2];
    if (syscall(SYS_capget, &header, held) != 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        uint32_t kept = i == 0 ? kept_capabilities : 0;
        held[i].effective &= kept;
        held[i].permitted &= kept;
        held[i].inheritable &= kept;
    }
    return (int)syscall(SYS_capset, &header, held);
}

static uint32_t apply(int ruleset, struct sock_fprog *filter) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return STEP_NO_NEW_PRIVILEGES;
    if (drop_capabilities() != 0)
        return STEP_CAPABILITIES;
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
        return STEP_LANDLOCK;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, filter) != 0)
        return STEP_SECCOMP;
    return STEP_NONE;
}

void confine(CURSOR *in, const int *fds, int fd_count) {
    BUFFER out = {0};
    uint32_t length = get_u32(in), failed = STEP_FRAME;
    int why = EINVAL;
    if (!in->bad && length == in->left && length % sizeof(struct sock_filter) == 0 && fd_count == 1) {
        struct sock_filter *steps = xmalloc(length + 1);
        memcpy(steps, in->at, length);
        struct sock_fprog filter = {(unsigned short)(length / sizeof *steps), steps};
        failed = apply(fds[0], &filter);
        why = failed ? errno : 0;
        free(steps);
    }
    for (int i = 0; i < fd_count; i++)
        close(fds[i]);
    put_u32(&out, failed);
    put_u32(&out, (uint32_t)why);
    send_frame(FRAME_CONFINE, &out);
    free(out.bytes);
}
