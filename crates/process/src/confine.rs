//! Confinement of a session's processes: what they may read and write (Landlock), which system calls are refused (seccomp),
//! and no new privileges; in a room also namespaces and a root directory of their own. No special rights are needed for these.
//! A daemon that runs as root can also give them a user of their own ([`AgentUser`]), without the rest or with it.
//!
//! [`Fence`] is what the sessions of a node have in common, [`Fence::around`] makes a [`Confinement`] for the processes of
//! one session, [`Fence::room`] one with a room, and [`Fence::prove`] tries to break out. A shell
//! applies its confinement itself, in `driver/confine.c`; a program that has no driver applies it between fork and exec.

mod ahead;
mod apply;
mod bpf;
mod closed;
mod confinement;
mod fence;
mod filter;
mod granted;
mod grants;
mod plan;
mod probe;
mod room;
mod settings;
mod user;
mod user_filter;
mod user_probe;

pub use ahead::Preparation;
pub use confinement::Confinement;
pub use fence::{Fence, FenceSpec, NoFence, Own, RoomSpec};
pub use probe::{Attempt, Gap, Proof};
pub use room::{Namespaces, RoomNetwork, Socket};
pub use user::AgentUser;
pub use user_probe::{NoUser, UserTrial};

pub(crate) use ahead::{Ahead, Step, for_another_sandbox};
pub(crate) use filter::bytes as filter_bytes;
pub(crate) use probe::uniquely;
pub(crate) use room::{ENTERED_BYTES, Entered, Room};

use crate::wire::Reader;
use room::{FailedStep, not_entered};
use std::io;

/// The steps of `room/fence.c` and `driver/confine.c`, in their order from 1.
const STEPS: [&str; 8] = [
    "the frame",
    "landlock_add_rule",
    "no_new_privs",
    "capabilities",
    "landlock_restrict_self",
    "seccomp",
    "the agent's user",
    "its room",
];

/// What a driver answered to a confinement: done, or the step that failed and why.
pub(crate) fn outcome(reader: &mut Reader<'_>) -> io::Result<()> {
    let (Some(step), Some(why)) = (reader.u32(), reader.u32()) else { return Err(unreadable()) };
    fence_outcome(step, why)
}

/// The same for a shell that may have been in a room already, to which this came on top.
pub(crate) fn shell_outcome(reader: &mut Reader<'_>, own_plan: &[u8]) -> io::Result<()> {
    let numbers = [reader.u32(), reader.u32(), reader.u32(), reader.u32()];
    let [Some(fence_step), Some(why), Some(step), Some(at)] = numbers else { return Err(unreadable()) };
    match step {
        0 => fence_outcome(fence_step, why),
        _ => Err(not_entered(own_plan, FailedStep { step, at, why })),
    }
}

fn unreadable() -> io::Error {
    io::Error::other("the driver's answer to a confinement cannot be read")
}

fn fence_outcome(step: u32, why: u32) -> io::Result<()> {
    let Some(failed) = (step as usize).checked_sub(1) else { return Ok(()) };
    let name = STEPS.get(failed).copied().unwrap_or("an unknown step");
    let error = io::Error::from_raw_os_error(why as i32);
    Err(io::Error::new(error.kind(), format!("the shell could not be confined: {name}: {error}")))
}
