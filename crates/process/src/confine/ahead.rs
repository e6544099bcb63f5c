//! What is done to a shell before its session is known, so that the session does not wait for it.

use super::room::{Namespaces, Room};
use std::io;
use std::sync::Arc;

/// What can be done to a shell ahead. It is then for sessions with that sandbox only.
#[derive(Debug)]
pub struct Preparation(pub(crate) Step);

#[derive(Debug)]
pub(crate) enum Step {
    /// The filter of system calls, for a fence.
    Filter(Arc<[libc::sock_filter]>),
    /// A room without what is a session's own.
    Room(Room),
}

/// What was done to a shell ahead.
#[derive(Debug, Default)]
pub(crate) enum Ahead {
    #[default]
    Nothing,
    /// It has the filter of system calls. It must not become another user: the filter would keep it from leaving its keys.
    Filter,
    /// It is in a room that shares these, and sees the machine until it has its session.
    Room(Arc<Namespaces>),
}

/// A shell was prepared for another sandbox than that of its session.
pub(crate) fn for_another_sandbox() -> io::Error {
    io::Error::other("the shell was prepared for another sandbox")
}
