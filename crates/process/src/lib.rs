//! What the operating system lends us: bash under our driver, pipes, terminals, process groups, cgroups.
//!
//! Everything here holds a resource and nothing here can be written down: there is no serde in this crate, and it does
//! not know what a session is. A process is remembered elsewhere only as a [`ProcessStamp`].
//!
//! - [`shell`]: a live bash under the driver: restore a state, run a command, read its output, learn what it changed.
//! - [`facts`]: a shell's state as the driver tells it.
//! - [`spawn`]: starting bash.
//! - [`cage`]: the processes of one shell: count them, freeze them, end them.
//! - [`cgroup`]: control groups, where the machine has them.
//! - [`proc`]: reading `/proc`.
//! - [`stdio`]: what a command reads from and writes to.
//! - [`machine`]: what this machine offers.

pub mod cage;
pub mod cgroup;
pub mod facts;
pub mod machine;
pub mod proc;
pub mod shell;
pub mod spawn;
pub mod stdio;
mod wire;

pub use cage::{Cage, CageFactory};
pub use facts::Fact;
pub use proc::ProcessStamp;
pub use shell::{Done, ExitStatus, LiveShell, Progress, RunSpec, ShellSpec, StartError, Stdin, Stream};
