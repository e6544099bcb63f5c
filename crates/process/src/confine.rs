//! Confinement of a session's processes: what they may read and write (Landlock), which system calls are refused (seccomp),
//! and no new privileges; in a room also namespaces and a root directory of their own. No special rights are needed for these.
//! A daemon that runs as root can also give them a user of their own ([`AgentUser`]), without the rest or with it.
//!
//! [`Fence`] is what the sessions of a node have in common, [`Fence::around`] makes a [`Confinement`] for the processes of
//! one session, [`Fence::room`] one with a room, and [`Fence::prove`] tries to break out. A shell
//! applies its confinement itself, in `driver/confine.c`; a program that has no driver applies it between fork and exec.

mod apply;
mod bpf;
mod fence;
mod filter;
mod grants;
mod plan;
mod probe;
mod room;
mod user;
mod user_probe;

pub use fence::{Confinement, Fence, FenceSpec, NoFence, Own, RoomSpec};
pub use probe::{Attempt, Gap, Proof};
pub use room::{Namespaces, RoomNetwork, Socket};
pub use user::AgentUser;
pub use user_probe::{NoUser, UserTrial};

pub(crate) use probe::uniquely;
pub(crate) use room::{ENTERED_BYTES, Entered, Room, entered_numbers};

use std::io;

/// The steps of `room/fence.c` and `driver/confine.c`, in their order from 1.
const STEPS: [&str; 7] = [
    "the frame",
    "landlock_add_rule",
    "no_new_privs",
    "capabilities",
    "landlock_restrict_self",
    "seccomp",
    "the agent's user",
];

/// What a driver answered to a confinement: done, or the step that failed and why.
pub(crate) fn outcome(reader: &mut crate::wire::Reader<'_>) -> io::Result<()> {
    let (Some(step), Some(why)) = (reader.u32(), reader.u32()) else {
        return Err(io::Error::other("the driver's answer to a confinement cannot be read"));
    };
    let Some(failed) = (step as usize).checked_sub(1) else { return Ok(()) };
    let name = STEPS.get(failed).copied().unwrap_or("an unknown step");
    let error = io::Error::from_raw_os_error(why as i32);
    Err(io::Error::new(error.kind(), format!("the shell could not be confined: {name}: {error}")))
}
