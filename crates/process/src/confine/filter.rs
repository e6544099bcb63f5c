//! The system calls that a confined process is refused: those that reach other processes, change what the machine is, or
//! open a large part of the kernel that a shell's programs do not need. Each fails with `EPERM`.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// Refused whatever their arguments are.
const REFUSED: &[i64] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // System calls that this filter would not see.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_setns,
    // Files by a number instead of a path.
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // Parts of the kernel.
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_fanotify_init,
    // The machine.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Flags of `clone` and `unshare` that make a namespace.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];
/// Makes a namespace too, but only for `unshare`; in `clone` it is part of a signal's number.
const NEW_TIME: u64 = 0x80;
/// The kinds of sockets that programs need. Others reach parts of the kernel, or of a hypervisor, that they do not.
const FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// The part of a socket's type that is not a flag.
const TYPE_BITS: u64 = 0xf;
/// A type of socket that sees all packets, as raw ones do; old, and not in libc.
const SOCK_PACKET: libc::c_int = 10;
/// Puts characters into a terminal's input, or reads the console's screen.
const TERMINAL_TRICKS: [u64; 2] = [0x5412, 0x541c];

const LOAD_WORD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const ERRNO: u32 = 0x0005_0000;
#[cfg(target_arch = "x86_64")]
const JUMP_IF_AT_LEAST: u16 = 0x35;
/// From here on numbers are those of another calling convention, with the same calls behind them.
#[cfg(target_arch = "x86_64")]
const FIRST_X32: u32 = 0x4000_0000;

/// The filter, ready for the kernel; `None` on a processor for which there is none.
pub(super) fn compile() -> Option<Vec<libc::sock_filter>> {
    let target = TargetArch::try_from(std::env::consts::ARCH).ok()?;
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules()?, SeccompAction::Allow, refuse, target).ok()?;
    let program = BpfProgram::try_from(filter).ok()?;
    let rest = program.into_iter().map(|step| instruction(step.code, step.jt, step.jf, step.k));
    Some(first_steps().into_iter().chain(rest).collect())
}

/// Answers as a kernel that does not know these calls: programs then use `clone`, whose flags a filter can read.
fn first_steps() -> Vec<libc::sock_filter> {
    let unknown = instruction(RETURN, 0, 0, ERRNO | libc::ENOSYS as u32);
    let mut steps = vec![instruction(LOAD_WORD, 0, 0, 0)];
    #[cfg(target_arch = "x86_64")]
    steps.extend([instruction(JUMP_IF_AT_LEAST, 0, 1, FIRST_X32), unknown]);
    steps.extend([instruction(JUMP_IF_EQUAL, 0, 1, libc::SYS_clone3 as u32), unknown]);
    steps
}

fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

fn rules() -> Option<BTreeMap<i64, Vec<SeccompRule>>> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let has_flag = |flag: u64| rule(&[(0, MaskedEq(flag), flag)]);
    let namespaces = || NAMESPACES.iter().map(|flag| has_flag(*flag as u32 as u64));
    rules.insert(libc::SYS_clone, namespaces().collect::<Option<_>>()?);
    rules.insert(libc::SYS_unshare, namespaces().chain([has_flag(NEW_TIME)]).collect::<Option<_>>()?);
    let other_family: Vec<_> = FAMILIES.iter().map(|family| (0, Ne, *family as u64)).collect();
    let raw =
        |family: libc::c_int, kind: libc::c_int| rule(&[(0, Eq, family as u64), (1, MaskedEq(TYPE_BITS), kind as u64)]);
    let sockets = [
        rule(&other_family),
        raw(libc::AF_INET, libc::SOCK_RAW),
        raw(libc::AF_INET, SOCK_PACKET),
        raw(libc::AF_INET6, libc::SOCK_RAW),
        raw(libc::AF_INET6, SOCK_PACKET),
    ];
    rules.insert(libc::SYS_socket, sockets.into_iter().collect::<Option<_>>()?);
    let tricks = TERMINAL_TRICKS.iter().map(|request| rule(&[(1, Eq, *request)]));
    rules.insert(libc::SYS_ioctl, tricks.collect::<Option<_>>()?);
    // Limits of another process; a process names itself by 0.
    rules.insert(libc::SYS_prlimit64, vec![rule(&[(0, Ne, 0)])?]);
    Some(rules)
}

/// Matches if all conditions hold: an argument's number, how it is compared, and with what. All of these arguments have 32
/// bits in the kernel.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Option<SeccompRule> {
    let condition = |(argument, how, value): &(u8, SeccompCmpOp, u64)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, how.clone(), *value).ok()
    };
    SeccompRule::new(conditions.iter().map(condition).collect::<Option<_>>()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter as the kernel would: the answer for a call with these arguments.
    fn answer(filter: &[libc::sock_filter], call: i64, arguments: [u64; 3]) -> u32 {
        let architecture: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
        let mut data = [0; 64];
        data[..4].copy_from_slice(&(call as u32).to_ne_bytes());
        data[4..8].copy_from_slice(&architecture.to_ne_bytes());
        for (number, argument) in arguments.iter().enumerate() {
            data[16 + 8 * number..24 + 8 * number].copy_from_slice(&argument.to_ne_bytes());
        }
        let (mut at, mut register) = (0, 0_u32);
        loop {
            let step = &filter[at];
            at += 1;
            let jump = |holds: bool| usize::from(if holds { step.jt } else { step.jf });
            match step.code {
                0x20 => {
                    let start = step.k as usize;
                    register = u32::from_ne_bytes(data[start..start + 4].try_into().unwrap());
                }
                0x54 => register &= step.k,
                0x05 => at += step.k as usize,
                0x15 => at += jump(register == step.k),
                0x25 => at += jump(register > step.k),
                0x35 => at += jump(register >= step.k),
                0x06 => return step.k,
                other => panic!("instruction {other:#x}"),
            }
        }
    }

    #[test]
    fn calls_are_refused_by_their_arguments() {
        let filter = compile().unwrap();
        let (allowed, refused, unknown) = (0x7fff_0000, ERRNO | 1, ERRNO | 38);
        let (user, raw) = (libc::CLONE_NEWUSER as u64, libc::SOCK_RAW as u64);
        let fork = libc::SIGCHLD as u64;
        let table = [
            (libc::SYS_read, [0, 0, 0], allowed),
            (libc::SYS_ptrace, [0, 0, 0], refused),
            (libc::SYS_io_uring_setup, [0, 0, 0], refused),
            (libc::SYS_clone, [fork, 0, 0], allowed),
            (libc::SYS_clone, [fork | user, 0, 0], refused),
            (libc::SYS_clone, [0xffff_ffff_0000_0000 | fork | user, 0, 0], refused),
            (libc::SYS_clone3, [0, 0, 0], unknown),
            (libc::SYS_unshare, [libc::CLONE_FILES as u64, 0, 0], allowed),
            (libc::SYS_unshare, [user, 0, 0], refused),
            (libc::SYS_unshare, [NEW_TIME, 0, 0], refused),
            (libc::SYS_socket, [1, 1, 0], allowed),
            (libc::SYS_socket, [2, 1, 0], allowed),
            (libc::SYS_socket, [10, 2, 0], allowed),
            (libc::SYS_socket, [16, raw, 0], allowed),
            (libc::SYS_socket, [2, raw, 0], refused),
            (libc::SYS_socket, [2, raw | libc::SOCK_CLOEXEC as u64, 0], refused),
            (libc::SYS_socket, [10, raw, 0], refused),
            (libc::SYS_socket, [2, 10, 0], refused),
            (libc::SYS_socket, [17, raw, 0], refused),
            (libc::SYS_socket, [40, 1, 0], refused),
            (libc::SYS_socket, [38, 5, 0], refused),
            (libc::SYS_ioctl, [0, 0x5401, 0], allowed),
            (libc::SYS_ioctl, [0, 0x5412, 0], refused),
            (libc::SYS_ioctl, [0, 0xffff_ffff_0000_5412, 0], refused),
            (libc::SYS_prlimit64, [0, 7, 0], allowed),
            (libc::SYS_prlimit64, [1, 7, 0], refused),
        ];
        for (call, arguments, expected) in table {
            assert_eq!(answer(&filter, call, arguments), expected, "{call} {arguments:x?}");
        }
        #[cfg(target_arch = "x86_64")]
        assert_eq!(answer(&filter, i64::from(FIRST_X32) | libc::SYS_ptrace, [0, 0, 0]), unknown);
    }
}
