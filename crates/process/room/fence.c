#define _GNU_SOURCE
#include "fence.h"

#include "capabilities.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_landlock_add_rule
#define SYS_landlock_add_rule 445
#endif
#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif

/* What root keeps, for its own files: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE. The
 * same set as `KEPT_CAPABILITIES` in `src/confine/apply.rs`. */
static const uint32_t kept_capabilities = 1u << 0 | 1u << 1 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 6 | 1u << 7 | 1u << 10;

/* What may be done below a path, which may be one that only this process can open. */
static int add_rule(int ruleset, const char *path, uint64_t access) {
    struct landlock_path_beneath_attr rule = {.allowed_access = access};
    rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
    if (rule.parent_fd < 0)
        return -1;
    int result = (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    int why = errno;
    close(rule.parent_fd);
    errno = why;
    return result;
}

static uint32_t add_rules(int ruleset, const char *rules, size_t length) {
    while (length > 0) {
        uint64_t access;
        const char *end = length > sizeof access ? memchr(rules + sizeof access, '\0', length - sizeof access) : NULL;
        errno = EINVAL;
        if (!end)
            return FENCE_FRAME;
        memcpy(&access, rules, sizeof access);
        if (add_rule(ruleset, rules + sizeof access, access) != 0)
            return FENCE_RULE;
        length -= (size_t)(end + 1 - rules);
        rules = end + 1;
    }
    return FENCE_DONE;
}

/* Whether this process has put on the filter. */
static int has_filter;

uint32_t fence_filter(const unsigned char *filter, size_t length) {
    struct sock_fprog program = {(unsigned short)(length / sizeof(struct sock_filter)), (struct sock_filter *)(uintptr_t)filter};
    errno = EINVAL;
    if (length == 0 || length % sizeof(struct sock_filter) != 0)
        return FENCE_FRAME;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return FENCE_NO_NEW_PRIVILEGES;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
        return FENCE_SECCOMP;
    has_filter = 1;
    return FENCE_DONE;
}

static uint32_t restrict_self(int ruleset) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return FENCE_NO_NEW_PRIVILEGES;
    /* In a room every user has all capabilities at first; only root is used to having some. */
    if (capabilities_keep(geteuid() == 0 ? kept_capabilities : 0) != 0)
        return FENCE_CAPABILITIES;
    return syscall(SYS_landlock_restrict_self, ruleset, 0) != 0 ? FENCE_LANDLOCK : FENCE_DONE;
}

uint32_t fence_put_on(const unsigned char *fence, size_t length, int ruleset) {
    uint32_t bytes;
    errno = EINVAL;
    if (length < sizeof bytes)
        return FENCE_FRAME;
    memcpy(&bytes, fence, sizeof bytes);
    fence += sizeof bytes;
    length -= sizeof bytes;
    if (bytes > length || (bytes == 0 && !has_filter))
        return FENCE_FRAME;
    uint32_t failed = add_rules(ruleset, (const char *)fence + bytes, length - bytes);
    if (!failed)
        failed = restrict_self(ruleset);
    return failed || bytes == 0 ? failed : fence_filter(fence, bytes);
}
