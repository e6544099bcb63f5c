#define _GNU_SOURCE
#include "capabilities.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

int capabilities_keep(uint32_t kept) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct held[2];
    if (syscall(SYS_capget, &header, held) != 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        uint32_t keep = i == 0 ? kept : 0;
        held[i].effective &= keep;
        held[i].permitted &= keep;
        held[i].inheritable &= keep;
    }
    return (int)syscall(SYS_capset, &header, held);
}
