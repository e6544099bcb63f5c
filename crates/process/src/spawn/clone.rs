//! Starting a process by a clone that shares our memory until it becomes another program: nothing is copied.
//!
//! It is born inside its groups where the kernel allows that. To move one into a group afterwards makes the kernel wait
//! until every processor has passed through it, often for ten milliseconds, and the thread that asks waits with it.
//!
//! Not `posix_spawn`: it can change the directory only since glibc 2.29, and the program runs with 2.28.

use libc::{c_char, c_int, c_void};
use rustix::fd::{AsRawFd, OwnedFd};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, Ordering};

/// A child that is born in the group that the last field names. libc has no room for it in its type.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
/// What a child may need until it becomes another program.
const STACK_BYTES: usize = 64 * 1024;
/// Signals are numbered from 1 to this.
const LAST_SIGNAL: c_int = 64;
/// The kernel's `struct sigaction` with the default handler, no flags and an empty mask.
const BY_DEFAULT: [u64; 4] = [0; 4];
/// Size of the kernel's set of signals.
const SIGNALS_BYTES: usize = 8;

/// Where a process is to be born.
#[derive(Debug)]
pub(crate) struct Entrance {
    /// The directory of its group in the unified hierarchy.
    pub(crate) group: OwnedFd,
    /// The lists of tasks in its groups of version 1. A single-threaded process that writes itself there is in them at
    /// once.
    pub(crate) tasks: Vec<File>,
}

/// What a new process is to become. Everything here lives, and nothing moves, until it has.
pub(super) struct Program<'a> {
    pub(super) path: *const c_char,
    pub(super) arguments: *const *mut c_char,
    pub(super) environment: *const *mut c_char,
    /// Descriptors and the numbers that they get.
    pub(super) moves: &'a [(OwnedFd, i32)],
}

/// As the kernel wants it.
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

struct Birth<'a> {
    program: &'a Program<'a>,
    tasks: &'a [File],
    /// Why it could not become the program; 0 if it has.
    error: AtomicI32,
}

/// Starts a program in a group, with a session of its own and all signals as they are by default. Fails where the kernel,
/// or a filter in front of it, does not support that; then nothing was started.
pub(super) fn inside(program: &Program<'_>, entrance: &Entrance) -> io::Result<u32> {
    let birth = Birth { program, tasks: &entrance.tasks, error: AtomicI32::new(0) };
    let mut stack = stack();
    let arguments = CloneArguments {
        // It borrows our memory and we stand still until it is another program.
        flags: CLONE_INTO_CGROUP | (libc::CLONE_VM | libc::CLONE_VFORK) as u64,
        exit_signal: libc::SIGCHLD as u64,
        stack: stack.as_mut_ptr() as u64,
        stack_size: STACK_BYTES as u64,
        cgroup: entrance.group.as_raw_fd() as u64,
        ..CloneArguments::default()
    };
    // A handler of ours must not run in it.
    let blocked = Blocked::all()?;
    // SAFETY: the arguments are whole; the stack is the child's alone and outlives it, as this thread is suspended until
    // the child is another program or has ended.
    let pid = unsafe { clone_and_call(&arguments, &birth) };
    drop(blocked);
    if pid < 0 {
        return Err(io::Error::from_raw_os_error(i32::try_from(-pid).unwrap_or(libc::EIO)));
    }
    birth.outcome(i32::try_from(pid).map_err(io::Error::other)?)
}

/// Starts a program in the groups that we are in, otherwise like [`inside`]. Works on every kernel.
pub(super) fn outside(program: &Program<'_>) -> io::Result<u32> {
    let birth = Birth { program, tasks: &[], error: AtomicI32::new(0) };
    let mut stack = stack();
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let argument = std::ptr::from_ref(&birth).cast_mut().cast();
    let blocked = Blocked::all()?;
    // SAFETY: the library takes the end of the stack, which grows down. The stack is the child's alone and outlives it, as
    // this thread is suspended until the child is another program or has ended; so does the argument.
    let pid = unsafe { libc::clone(called, stack.as_mut_ptr().add(stack.capacity()).cast(), flags, argument) };
    let error = io::Error::last_os_error();
    drop(blocked);
    if pid < 0 { Err(error) } else { birth.outcome(pid) }
}

/// A stack for a child: sixteen bytes each, as a stack must be aligned.
fn stack() -> Vec<u128> {
    Vec::with_capacity(STACK_BYTES / size_of::<u128>())
}

impl Birth<'_> {
    /// The number of the child, if it became the program.
    fn outcome(&self, pid: i32) -> io::Result<u32> {
        match self.error.load(Ordering::SeqCst) {
            0 => u32::try_from(pid).map_err(io::Error::other),
            error => {
                // SAFETY: a child of ours that has ended; how is known.
                unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
                Err(io::Error::from_raw_os_error(error))
            }
        }
    }
}

/// [`become_program`], as the library calls it.
extern "C" fn called(birth: *mut c_void) -> c_int {
    // SAFETY: the only caller is `clone` in `outside`, which passes a `Birth` that lives until the child is gone.
    unsafe { become_program(birth.cast_const().cast()) }
}

/// What the child does. It shares our memory, so it takes none, holds no lock and returns nowhere.
unsafe extern "C" fn become_program(birth: *const Birth<'_>) -> ! {
    // SAFETY: the parent keeps it alive, and all calls are ones that may be made between a fork and an exec.
    unsafe {
        let birth = &*birth;
        if try_to_become(birth).is_none() {
            birth.error.store(*libc::__errno_location(), Ordering::SeqCst);
        }
        libc::_exit(127)
    }
}

/// Comes back only if it cannot be done.
unsafe fn try_to_become(birth: &Birth<'_>) -> Option<()> {
    let done = |result: c_int| (result >= 0).then_some(());
    // SAFETY: as for the caller.
    unsafe {
        for tasks in birth.tasks {
            // In a group's list, 0 is the writer itself.
            (libc::write(tasks.as_raw_fd(), c"0".as_ptr().cast(), 1) == 1).then_some(())?;
        }
        done(libc::setsid())?;
        for signal in 1..=LAST_SIGNAL {
            // The library's sigaction refuses its own signals 32 and 33, which the daemon's parent may have left ignored.
            // KILL and STOP cannot be set and need not be.
            libc::syscall(libc::SYS_rt_sigaction, signal, BY_DEFAULT.as_ptr(), std::ptr::null::<u64>(), SIGNALS_BYTES);
        }
        for (from, to) in birth.program.moves {
            done(libc::dup2(from.as_raw_fd(), *to))?;
        }
        done(libc::chdir(c"/".as_ptr()))?;
        let mut none = MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
        let Program { path, arguments, environment, .. } = *birth.program;
        libc::execve(path, arguments.cast(), environment.cast());
    }
    None
}

/// All signals held back for this thread while this lives.
struct Blocked(libc::sigset_t);

impl Blocked {
    fn all() -> io::Result<Self> {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: both sets are filled in by the calls before they are read.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            match libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) {
                0 => Ok(Self(before.assume_init())),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set is the one that was in force before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

/// Clones this process and calls [`become_program`] in the child, on the child's own stack. Gives the child's number, or
/// an error as a negative number.
#[cfg(target_arch = "x86_64")]
unsafe fn clone_and_call(arguments: &CloneArguments, birth: &Birth<'_>) -> isize {
    let result;
    // SAFETY: only the parent leaves this block, with its stack as it was; the kernel keeps all registers but three.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 => result,
            in("rdi") arguments,
            in("rsi") size_of::<CloneArguments>(),
            in("r12") become_program as unsafe extern "C" fn(*const Birth<'_>) -> !,
            in("r13") birth,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// The same for another processor.
#[cfg(target_arch = "aarch64")]
unsafe fn clone_and_call(arguments: &CloneArguments, birth: &Birth<'_>) -> isize {
    let result;
    // SAFETY: only the parent leaves this block, with its stack as it was; the kernel keeps all registers but the result.
    unsafe {
        std::arch::asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x21",
            "blr x20",
            "brk #1",
            "2:",
            inlateout("x0") std::ptr::from_ref(arguments) => result,
            in("x1") size_of::<CloneArguments>(),
            in("x8") libc::SYS_clone3,
            in("x20") become_program as unsafe extern "C" fn(*const Birth<'_>) -> !,
            in("x21") birth,
        );
    }
    result
}

/// Elsewhere processes are moved into their groups after they were started.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn clone_and_call(_: &CloneArguments, _: &Birth<'_>) -> isize {
    let _ = become_program;
    -(libc::ENOSYS as isize)
}

#[cfg(test)]
mod tests {
    use crate::cage::{Cage, CageFactory, CageMode, Limits};
    use crate::proc::Stat;
    use crate::spawn::{Unwatched, reap, start};
    use std::collections::HashSet;
    use std::ffi::CStr;

    /// A cage on this machine, if it has groups.
    fn cage(name: &str) -> Option<(CageFactory, Cage)> {
        let instance = format!("shellkeep-test-born-{name}-{}", std::process::id());
        let factory = CageFactory::detect(
            &instance,
            CageMode::Auto,
            Limits { per_cage: 50, per_party: 100, node: 100, memory_per_party: 8 << 30, open_files: 4096 },
        );
        let cage = factory.has_groups().then(|| factory.cage("born"));
        cage.map(|cage| (factory, cage)).or_else(|| {
            assert!(std::env::var_os("CI").is_none(), "this test needs control groups");
            eprintln!("skipped: no control groups here");
            None
        })
    }

    fn clear(factory: &CageFactory, cage: Cage, pid: u32) {
        cage.kill_all();
        reap(pid).unwrap();
        drop(cage);
        factory.remove(&HashSet::new());
    }

    fn sleep(cage: &mut Cage) -> u32 {
        let arguments: [&CStr; 2] = [c"sleep", c"60"];
        let born = start(c"/bin/sleep", &arguments, None, &[], cage.entrance().as_ref()).unwrap();
        assert!(born.is_inside);
        cage.receive(born).unwrap();
        born.pid
    }

    /// At the root, in a session of its own, with every signal at its default.
    fn assert_bare(pid: u32) {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        for mask in ["SigIgn", "SigBlk"] {
            let line = status.lines().find(|line| line.starts_with(mask)).unwrap();
            assert!(line.ends_with("\t0000000000000000"), "{line}");
        }
        let stat = Stat::read(pid).unwrap();
        assert_eq!((stat.session, stat.group, stat.parent), (pid, pid, std::process::id()));
        assert_eq!(std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap().as_os_str(), "/");
    }

    #[test]
    fn a_program_outside_groups_is_bare_too() {
        let born = start(c"/bin/sleep", &[c"sleep", c"60"], None, &[], None).unwrap();
        assert!(!born.is_inside);
        assert_bare(born.pid);
        drop(Unwatched(born.pid));
        let failed = start(c"/nonexistent", &[c"nobody"], None, &[], None);
        assert_eq!(failed.unwrap_err().kind(), std::io::ErrorKind::NotFound);
    }

    #[test]
    fn a_program_is_born_in_its_groups_and_bare() {
        let Some((factory, mut cage)) = cage("bare") else { return };
        let pid = sleep(&mut cage);
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        let ours = |line: &str| line.starts_with("0::") || line.contains(":pids:");
        let is_inside = |line: &str| std::path::Path::new(line).ends_with("work/born");
        assert!(groups.lines().any(|line| line.starts_with("0::")), "{groups}");
        assert!(groups.lines().filter(|line| ours(line)).all(is_inside), "{groups}");
        assert_bare(pid);
        assert_eq!(cage.members().iter().map(|stat| stat.pid).collect::<Vec<_>>(), [pid]);
        clear(&factory, cage, pid);
    }

    #[test]
    fn what_cannot_be_started_says_why() {
        let Some((factory, mut cage)) = cage("failed") else { return };
        let failed = start(c"/nonexistent", &[c"nobody"], None, &[], cage.entrance().as_ref());
        assert_eq!(failed.unwrap_err().kind(), std::io::ErrorKind::NotFound);
        assert!(cage.members().is_empty());
        // Nothing of the one that failed is in the way of the next.
        let pid = sleep(&mut cage);
        clear(&factory, cage, pid);
    }
}
