#define _GNU_SOURCE
#include "user.h"

#include "capabilities.h"

#include <errno.h>
#include <grp.h>
#include <linux/keyctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Keys of whoever started the daemon stay with him. Where keys are not to be had, there are none to leave. */
static int leave_keys(void) {
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0)
        return 0;
    return errno == ENOSYS || errno == EPERM || errno == EOPNOTSUPP ? 0 : -1;
}

int user_become(uint32_t number) {
    int with_parent = 0;
    /* The kernel forgets it when the user changes. */
    if (prctl(PR_GET_PDEATHSIG, &with_parent, 0, 0, 0) != 0)
        return -1;
    if (leave_keys() != 0)
        return -1;
    if (setgroups(0, NULL) != 0 || setresgid(number, number, number) != 0 || setresuid(number, number, number) != 0)
        return -1;
    /* They go with the user, unless whoever started the daemon asked the kernel to leave them. */
    if (capabilities_keep(0) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    if (with_parent && prctl(PR_SET_PDEATHSIG, with_parent, 0, 0, 0) != 0)
        return -1;
    /* Otherwise what it opens by its own entries in /proc, such as /dev/stdout, would be root's. */
    return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}
