//! Operating system resources: bash under our driver, pipes, terminals, process groups, cgroups.
//!
//! Everything here holds a resource and nothing here can be serialised: there is no serde in this crate, and it does
//! not know what a session is. Elsewhere a process is stored only as a [`ProcessStamp`].
//!
//! - [`shell`]: a live bash under the driver: restores a state, runs a command, reads its output and its changes.
//! - [`facts`]: a shell's state as the driver reports it.
//! - [`spawn`]: starting bash.
//! - [`zygote`]: forking shells from one that was started.
//! - [`cage`]: the processes of one shell or service: counting, freezing, limiting and killing them.
//! - [`confine`]: what the processes of a session are kept from.
//! - [`cgroup`]: control groups, where the machine has them.
//! - [`proc`]: reading `/proc`.
//! - [`handle`]: handles on processes, through which they are signalled.
//! - [`locale`]: which locale a shell's variables name.
//! - [`service`]: a long-running command that outlives us, and its log.
//! - [`program`]: a program with pipes that does not.
//! - [`own`]: what this process does for its own safety.
//! - [`peer`]: who connected to a socket.
//! - [`ports`]: which ports processes listen on.
//! - [`stdio`]: what a command reads from and writes to.
//! - [`pressure`]: how busy the machine is.
//! - [`machine`]: what this machine supports.

pub mod cage;
pub mod cgroup;
mod channel;
pub mod confine;
mod exit;
pub mod facts;
pub mod handle;
pub mod locale;
pub mod machine;
mod outputs;
pub mod own;
pub mod peer;
pub mod ports;
pub mod pressure;
pub mod proc;
pub mod program;
mod room_trial;
mod run;
pub mod service;
pub mod shell;
pub mod spawn;
pub mod stdio;
mod strays;
mod sync;
mod wire;
pub mod zygote;

pub use cage::{
    Belongs, Cage, CageFactory, CageMode, Limits, Unwatched, assignees_at_work, guard_memory, guard_watches,
};
pub use confine::{
    AgentUser, Confinement, Fence, FenceSpec, Gap, Namespaces, NoFence, NoUser, Own, Preparation, Proof, RoomNetwork,
    RoomSpec, Socket, UserTrial,
};
pub use exit::ExitStatus;
pub use facts::Fact;
pub use outputs::Stream;
pub use own::{is_short_of_descriptors, most_descriptors};
pub use peer::Peer;
pub use ports::{SocketTables, Sockets};
pub use pressure::{Pressure, PressureSource};
pub use proc::ProcessStamp;
pub use program::{Heard, Program, ProgramSpec};
pub use room_trial::NoRoom;
pub use run::{Deadline, RunSpec};
pub use service::log::{LogWatch, ServiceLog, watch_logs};
pub use service::{ServiceExit, ServiceProcess, ServiceSpec, ServiceStamps, ServiceStartError, left_exit};
pub use shell::{
    Ask, Ends, LimitsMet, LiveShell, NotRestored, Progress, Report, ShellOrigin, ShellSpec, StartError, Stderr, Stdin,
};
pub use stdio::TerminalSize;
pub use strays::{become_subreaper, reap_strays};
pub use zygote::{Forking, Zygote};
