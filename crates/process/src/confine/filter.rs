//! The system calls that a confined process is refused: those that reach other processes, change what the machine is, or
//! open a large part of the kernel that a shell's programs do not need. Each fails with `EPERM`.
//!
//! The kernel runs a new filter once for every system call that it knows, to find those that it need not be asked about, and
//! every shell puts it on when its session wakes. So calls are found by halving, and each argument is looked at once.

use super::bpf::{Label, Program};

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
pub(super) const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];
/// Makes a namespace too, but only for `unshare`; in `clone` it is part of a signal's number.
pub(super) const NEW_TIME: u32 = 0x80;
/// The kinds of sockets that programs need, whatever their type. Others reach parts of the kernel, or of a hypervisor, that
/// they do not.
const FAMILIES: [libc::c_int; 2] = [libc::AF_UNIX, libc::AF_NETLINK];
/// Those that they need for streams and datagrams only, and of these protocols: whichever is usual, ping, TCP, UDP and ping again.
/// For any other the kernel loads a module if it has one, such as SCTP, SMC and DCCP, parts of it that few look at.
const INTERNET: [libc::c_int; 2] = [libc::AF_INET, libc::AF_INET6];
const TYPES: [libc::c_int; 2] = [libc::SOCK_STREAM, libc::SOCK_DGRAM];
const PROTOCOLS: [libc::c_int; 5] =
    [libc::IPPROTO_IP, libc::IPPROTO_ICMP, libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_ICMPV6];
/// The part of a socket's type that is not a flag.
const TYPE_BITS: u32 = 0xf;
/// Puts characters into a terminal's input, or reads the console's screen.
const TERMINAL_TRICKS: [u32; 2] = [0x5412, 0x541c];
/// What `fcntl` takes a lease on a file with, and since Linux 6.19 on a directory (`F_SETDELEG`). Whoever opens the file then waits
/// until the holder gives the lease back, 45 seconds if it does not, and owners may take one: agents under root for the files of
/// the system, a user for those that the daemon reads in its workspace.
const LEASES: [u32; 2] = [libc::F_SETLEASE as u32, 1040];

/// How the kernel names the processor.
#[cfg(target_arch = "x86_64")]
pub(super) const PROCESSOR: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
pub(super) const PROCESSOR: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) const PROCESSOR: Option<u32> = None;
/// From here on numbers are those of another calling convention, with the same calls behind them.
#[cfg(target_arch = "x86_64")]
pub(super) const FIRST_X32: u32 = 0x4000_0000;

pub(super) const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;

/// Where in a call's description its number is, and its processor.
pub(super) const NUMBER: u32 = 0;
pub(super) const ARCHITECTURE: u32 = 4;

/// The lower half of an argument. All that we look at have 32 bits in the kernel.
pub(super) fn argument(number: u32) -> u32 {
    let low = if cfg!(target_endian = "big") { 4 } else { 0 };
    16 + 8 * number + low
}

/// How a filter ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    allow: Label,
    pub(super) refuse: Label,
    /// As a kernel that does not know the call.
    unknown: Label,
    pub(super) kill: Label,
}

impl Ends {
    pub(super) fn new(program: &mut Program) -> Self {
        let [allow, refuse, unknown, kill] = std::array::from_fn(|_| program.label());
        Self { allow, refuse, unknown, kill }
    }

    /// Calls whose number or arguments a filter cannot read. Programs then use others: instead of `clone3`, `clone`.
    pub(super) fn hide_unreadable(self, program: &mut Program) {
        #[cfg(target_arch = "x86_64")]
        program.if_at_least(FIRST_X32, self.unknown);
        program.if_equal(libc::SYS_clone3 as u32, self.unknown);
    }

    /// What `clone` and `unshare` lead to: they are refused where they make a namespace.
    pub(super) fn refuse_namespaces(self, program: &mut Program, clone: Label, unshare: Label) {
        let namespaces = NAMESPACES.iter().fold(0, |all, flag| all | *flag as u32);
        for (label, flags) in [(clone, namespaces), (unshare, namespaces | NEW_TIME)] {
            program.place(label);
            program.load(argument(0));
            program.if_any(flags, self.refuse);
            program.answer(ALLOW);
        }
    }

    /// What `fcntl` leads to, under either calling convention.
    pub(super) fn refuse_leases(self, program: &mut Program, fcntl: Label) {
        program.place(fcntl);
        program.load(argument(1));
        LEASES.iter().for_each(|command| program.if_equal(*command, self.refuse));
        program.answer(ALLOW);
    }

    /// Says what each of them is, as the last part of the program.
    pub(super) fn place(self, program: &mut Program) {
        for (end, answer) in [
            (self.allow, ALLOW),
            (self.refuse, ERRNO | libc::EPERM as u32),
            (self.unknown, ERRNO | libc::ENOSYS as u32),
            (self.kill, KILL),
        ] {
            program.place(end);
            program.answer(answer);
        }
    }
}

/// A filter as `room/fence.c` reads it.
pub(crate) fn bytes(filter: &[libc::sock_filter]) -> Vec<u8> {
    let step = |step: &libc::sock_filter| {
        let ([a, b], [e, f, g, h]) = (step.code.to_ne_bytes(), step.k.to_ne_bytes());
        [a, b, step.jt, step.jf, e, f, g, h]
    };
    filter.iter().flat_map(step).collect()
}

/// The filter, ready for the kernel; `None` on a processor for which there is none.
pub(super) fn compile() -> Option<Vec<libc::sock_filter>> {
    let mut program = Program::default();
    let ends = Ends::new(&mut program);
    program.load(ARCHITECTURE);
    program.unless_equal(PROCESSOR?, ends.kill);
    program.load(NUMBER);
    ends.hide_unreadable(&mut program);
    let others = program.label();
    program.search(&edges(REFUSED), others, ends.refuse);
    program.place(others);
    by_argument(&mut program, ends);
    ends.place(&mut program);
    program.finish()
}

/// The first number of each run of these calls, and the first after it.
pub(super) fn edges(calls: &[i64]) -> Vec<u32> {
    let mut numbers: Vec<u32> = calls.iter().map(|call| *call as u32).collect();
    numbers.sort_unstable();
    let mut edges: Vec<u32> = Vec::new();
    for number in numbers {
        match edges.last_mut() {
            Some(after) if *after == number => *after = number + 1,
            _ => edges.extend([number, number + 1]),
        }
    }
    edges
}

/// What is refused for some arguments only.
fn by_argument(program: &mut Program, ends: Ends) {
    let [clone, unshare, socket, kind, protocol, ioctl, fcntl, limit] = std::array::from_fn(|_| program.label());
    for (call, label) in [
        (libc::SYS_clone, clone),
        (libc::SYS_unshare, unshare),
        (libc::SYS_socket, socket),
        // It makes a socket of any kind before it looks whether there are pairs of them.
        (libc::SYS_socketpair, socket),
        (libc::SYS_ioctl, ioctl),
        (libc::SYS_fcntl, fcntl),
        (libc::SYS_prlimit64, limit),
    ] {
        program.if_equal(call as u32, label);
    }
    program.answer(ALLOW);
    ends.refuse_namespaces(program, clone, unshare);
    ends.refuse_leases(program, fcntl);
    program.place(ioctl);
    program.load(argument(1));
    TERMINAL_TRICKS.iter().for_each(|request| program.if_equal(*request, ends.refuse));
    program.answer(ALLOW);
    // Limits of another process; a process names itself by 0.
    program.place(limit);
    program.load(argument(0));
    program.unless_equal(0, ends.refuse);
    program.answer(ALLOW);
    program.place(socket);
    program.load(argument(0));
    FAMILIES.iter().for_each(|family| program.if_equal(*family as u32, ends.allow));
    INTERNET.iter().for_each(|family| program.if_equal(*family as u32, kind));
    program.answer(ERRNO | libc::EPERM as u32);
    program.place(kind);
    program.load(argument(1));
    program.keep_bits(TYPE_BITS);
    TYPES.iter().for_each(|kind| program.if_equal(*kind as u32, protocol));
    program.answer(ERRNO | libc::EPERM as u32);
    program.place(protocol);
    program.load(argument(2));
    PROTOCOLS.iter().for_each(|protocol| program.if_equal(*protocol as u32, ends.allow));
    // As a kernel without it: programs that try MPTCP first go on with TCP.
    program.answer(ERRNO | libc::EPROTONOSUPPORT as u32);
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn answer(filter: &[libc::sock_filter], call: i64, arguments: [u64; 3]) -> u32 {
        let architecture = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
        answer_to(filter, architecture, call, arguments)
    }

    /// Runs the filter as the kernel would: the answer for a call with these arguments.
    pub(in crate::confine) fn answer_to(
        filter: &[libc::sock_filter],
        architecture: u32,
        call: i64,
        arguments: [u64; 3],
    ) -> u32 {
        let mut data = [0; 64];
        data[..4].copy_from_slice(&(call as u32).to_ne_bytes());
        data[4..8].copy_from_slice(&architecture.to_ne_bytes());
        for (number, argument) in arguments.iter().enumerate() {
            data[16 + 8 * number..24 + 8 * number].copy_from_slice(&argument.to_ne_bytes());
        }
        run(filter, data)
    }

    fn run(filter: &[libc::sock_filter], data: [u8; 64]) -> u32 {
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
                0x15 => at += jump(register == step.k),
                0x45 => at += jump(register & step.k != 0),
                0x35 => at += jump(register >= step.k),
                0x06 => return step.k,
                other => panic!("instruction {other:#x}"),
            }
        }
    }

    #[test]
    fn calls_are_refused_by_their_arguments() {
        let filter = compile().unwrap();
        let (allowed, refused, unknown, no_protocol) = (0x7fff_0000, ERRNO | 1, ERRNO | 38, ERRNO | 93);
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
            (libc::SYS_unshare, [NEW_TIME.into(), 0, 0], refused),
            (libc::SYS_socket, [1, 1, 0], allowed),
            (libc::SYS_socket, [2, 1, 0], allowed),
            (libc::SYS_socket, [10, 2, 0], allowed),
            (libc::SYS_socket, [16, raw, 0], allowed),
            (libc::SYS_socket, [2, raw, 0], refused),
            (libc::SYS_socket, [2, raw | libc::SOCK_CLOEXEC as u64, 0], refused),
            (libc::SYS_socket, [10, raw, 0], refused),
            (libc::SYS_socket, [2, 10, 0], refused),
            (libc::SYS_socket, [2, 1, 6], allowed),
            (libc::SYS_socket, [2, 2 | libc::SOCK_NONBLOCK as u64, 17], allowed),
            (libc::SYS_socket, [2, 2, 1], allowed),
            (libc::SYS_socket, [10, 2, 58], allowed),
            // SCTP, SMC, MPTCP, and UDP-Lite.
            (libc::SYS_socket, [2, 1, 132], no_protocol),
            (libc::SYS_socket, [2, 1, 256], no_protocol),
            (libc::SYS_socket, [10, 1, 262], no_protocol),
            (libc::SYS_socket, [2, 2, 136], no_protocol),
            // Types that only such protocols have.
            (libc::SYS_socket, [2, 4, 0], refused),
            (libc::SYS_socket, [2, libc::SOCK_SEQPACKET as u64, 132], refused),
            (libc::SYS_socket, [2, 6, 33], refused),
            (libc::SYS_socket, [1, libc::SOCK_SEQPACKET as u64, 0], allowed),
            (libc::SYS_socketpair, [1, 1, 0], allowed),
            (libc::SYS_socketpair, [2, 1, 132], no_protocol),
            (libc::SYS_socketpair, [40, 1, 0], refused),
            (libc::SYS_socket, [17, raw, 0], refused),
            (libc::SYS_socket, [40, 1, 0], refused),
            (libc::SYS_socket, [38, 5, 0], refused),
            (libc::SYS_ioctl, [0, 0x5401, 0], allowed),
            (libc::SYS_ioctl, [0, 0x5412, 0], refused),
            (libc::SYS_ioctl, [0, 0xffff_ffff_0000_5412, 0], refused),
            (libc::SYS_fcntl, [3, libc::F_SETLK as u64, 0], allowed),
            (libc::SYS_fcntl, [3, libc::F_GETLEASE as u64, 0], allowed),
            (libc::SYS_fcntl, [3, 1024, libc::F_WRLCK as u64], refused),
            (libc::SYS_fcntl, [3, 0xffff_ffff_0000_0400, 0], refused),
            (libc::SYS_fcntl, [3, 1040, 0], refused),
            (libc::SYS_prlimit64, [0, 7, 0], allowed),
            (libc::SYS_prlimit64, [1, 7, 0], refused),
        ];
        for (call, arguments, expected) in table {
            assert_eq!(answer(&filter, call, arguments), expected, "{call} {arguments:x?}");
        }
        #[cfg(target_arch = "x86_64")]
        assert_eq!(answer(&filter, i64::from(FIRST_X32) | libc::SYS_ptrace, [0, 0, 0]), unknown);
    }

    #[test]
    fn every_call_on_the_list_is_refused_and_no_other_number() {
        let filter = compile().unwrap();
        for number in 0..1000 {
            let answer = answer(&filter, number, [0, libc::SOCK_STREAM as u64, 0]);
            let expected = match number {
                _ if REFUSED.contains(&number) => ERRNO | libc::EPERM as u32,
                libc::SYS_clone3 => ERRNO | libc::ENOSYS as u32,
                // A family of this number does not exist.
                libc::SYS_socket | libc::SYS_socketpair => ERRNO | libc::EPERM as u32,
                _ => ALLOW,
            };
            assert_eq!(answer, expected, "{number}");
        }
    }

    #[test]
    fn a_call_of_another_processor_ends_the_program() {
        let filter = compile().unwrap();
        assert_eq!(run(&filter, [0; 64]), KILL);
    }
}
