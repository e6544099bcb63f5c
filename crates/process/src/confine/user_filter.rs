//! The system calls that processes of agents' users are refused where no fence is around them: those that make namespaces and
//! mounts. A process with a mount of its own can serve that file system itself and never answer, and a process that waits for
//! such an answer cannot be killed: not by its quotas, nor with its session, nor by the host. And leases on files, for which the
//! daemon would wait where it reads a workspace. Everything else is as for other users of the machine, 32-bit programs too.

use super::bpf::{Label, Program};
use super::filter::{ALLOW, ARCHITECTURE, Ends, NUMBER, PROCESSOR, edges};
use std::sync::{Arc, OnceLock};

/// What is refused, by its numbers under one calling convention.
struct Convention {
    /// How the kernel names the processor.
    processor: u32,
    /// Refused whatever their arguments are.
    refused: &'static [i64],
    /// These two where they make a namespace.
    clone: u32,
    unshare: u32,
    /// These where they take a lease.
    fcntl: &'static [i64],
}

/// That of programs for the whole processor.
const NATIVE: Convention = Convention {
    processor: match PROCESSOR {
        Some(processor) => processor,
        None => 0,
    },
    refused: &[
        libc::SYS_mount,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
        libc::SYS_fsopen,
        libc::SYS_fsmount,
        libc::SYS_setns,
    ],
    clone: libc::SYS_clone as u32,
    unshare: libc::SYS_unshare as u32,
    fcntl: &[libc::SYS_fcntl],
};

/// That of 32-bit programs: the same calls in the same order. The newer ones have the same numbers everywhere.
#[cfg(target_arch = "x86_64")]
const OF_32_BITS: Convention = Convention {
    processor: 0x4000_0003,
    refused: &[21, 429, 428, 430, 432, 346],
    clone: 120,
    unshare: 310,
    fcntl: &[55, 221],
};
#[cfg(not(target_arch = "x86_64"))]
const OF_32_BITS: Convention = Convention {
    processor: 0x4000_0028,
    refused: &[21, 429, 428, 430, 432, 375],
    clone: 120,
    unshare: 337,
    fcntl: &[55, 221],
};

/// The filter; `None` on a processor for which there is none.
pub(super) fn get() -> Option<Arc<[libc::sock_filter]>> {
    static FILTER: OnceLock<Option<Arc<[libc::sock_filter]>>> = OnceLock::new();
    FILTER.get_or_init(|| compile().map(Arc::from)).clone()
}

fn compile() -> Option<Vec<libc::sock_filter>> {
    PROCESSOR?;
    let mut program = Program::default();
    let ends = Ends::new(&mut program);
    let [native, clone, unshare, fcntl] = std::array::from_fn(|_| program.label());
    program.load(ARCHITECTURE);
    program.if_equal(NATIVE.processor, native);
    program.unless_equal(OF_32_BITS.processor, ends.kill);
    by_number(&mut program, &OF_32_BITS, ends, [clone, unshare, fcntl]);
    program.place(native);
    by_number(&mut program, &NATIVE, ends, [clone, unshare, fcntl]);
    ends.refuse_namespaces(&mut program, clone, unshare);
    ends.refuse_leases(&mut program, fcntl);
    ends.place(&mut program);
    program.finish()
}

/// What is decided under one convention.
fn by_number(program: &mut Program, convention: &Convention, ends: Ends, [clone, unshare, fcntl]: [Label; 3]) {
    program.load(NUMBER);
    ends.hide_unreadable(program);
    let others = program.label();
    program.search(&edges(convention.refused), others, ends.refuse);
    program.place(others);
    program.if_equal(convention.clone, clone);
    program.if_equal(convention.unshare, unshare);
    convention.fcntl.iter().for_each(|call| program.if_equal(*call as u32, fcntl));
    program.answer(ALLOW);
}

#[cfg(test)]
mod tests {
    use super::super::filter::NEW_TIME;
    use super::super::filter::tests::answer_to;
    use super::*;

    const REFUSED: u32 = 0x0005_0001;
    const UNKNOWN: u32 = 0x0005_0026;

    #[test]
    fn namespaces_mounts_and_leases_are_refused_and_nothing_else() {
        let filter = compile().unwrap();
        let (user, fork) = (libc::CLONE_NEWUSER as u64, libc::SIGCHLD as u64);
        for convention in [&NATIVE, &OF_32_BITS] {
            let answer = |call: i64, first: u64| answer_to(&filter, convention.processor, call, [first, 0, 0]);
            for number in 0..1000 {
                let expected = match number {
                    _ if convention.refused.contains(&number) => REFUSED,
                    libc::SYS_clone3 => UNKNOWN,
                    _ => ALLOW,
                };
                assert_eq!(answer(number, 0), expected, "{:x}: {number}", convention.processor);
            }
            let (clone, unshare) = (i64::from(convention.clone), i64::from(convention.unshare));
            for (call, first, expected) in [
                (clone, fork, ALLOW),
                (clone, fork | user, REFUSED),
                (clone, fork | libc::CLONE_NEWNS as u64, REFUSED),
                (unshare, libc::CLONE_FILES as u64, ALLOW),
                (unshare, user, REFUSED),
                (unshare, NEW_TIME.into(), REFUSED),
            ] {
                assert_eq!(answer(call, first), expected, "{:x}: {call} {first:x}", convention.processor);
            }
            let commands = [(libc::F_SETLK as u64, ALLOW), (1024, REFUSED), (1040, REFUSED)];
            for call in convention.fcntl {
                for (command, expected) in commands {
                    let found = answer_to(&filter, convention.processor, *call, [3, command, 0]);
                    assert_eq!(found, expected, "{:x}: {call} {command}", convention.processor);
                }
            }
        }
    }

    #[test]
    fn a_call_of_another_processor_ends_the_program() {
        assert_eq!(answer_to(&compile().unwrap(), 0, 0, [0; 3]), 0x8000_0000);
        #[cfg(target_arch = "x86_64")]
        {
            let first = i64::from(super::super::filter::FIRST_X32);
            assert_eq!(answer_to(&compile().unwrap(), NATIVE.processor, first, [0; 3]), UNKNOWN);
        }
    }
}
