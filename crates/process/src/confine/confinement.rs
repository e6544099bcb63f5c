//! What confines the processes of one session, ready to be put on.

use super::ahead::Ahead;
use super::filter;
use super::room::{Namespaces, Room};
use super::user::AgentUser;
use super::user_filter;
use rustix::fd::{AsFd as _, OwnedFd};
use std::io;
use std::sync::Arc;

/// What confines the processes of one session.
#[derive(Debug)]
pub struct Confinement {
    /// Whose they are, if not the daemon's user's.
    pub(crate) user: Option<AgentUser>,
    /// What they are behind, unless permissions confine them.
    pub(crate) fence: Option<Around>,
    /// What they are refused if they are behind no fence.
    pub(super) filter: Option<Arc<[libc::sock_filter]>>,
    pub(crate) room: Option<Room>,
}

/// The fence of one session.
#[derive(Debug)]
pub(crate) struct Around {
    pub(crate) ruleset: OwnedFd,
    pub(super) filter: Arc<[libc::sock_filter]>,
    /// Rules for what is only in the room: the rights, and the path.
    pub(super) inside: Vec<(u64, &'static str)>,
    pub(super) settings: u64,
}

impl Around {
    /// The filter and the rules that are added inside, as `room/fence.c` reads them.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.after(filter::bytes(&self.filter))
    }

    /// The same without the filter, for a shell that has it.
    pub(crate) fn bytes_without_filter(&self) -> Vec<u8> {
        self.after(Vec::new())
    }

    fn after(&self, filter: Vec<u8>) -> Vec<u8> {
        let rule = |(access, path): &(u64, &str)| [&access.to_ne_bytes(), path.as_bytes(), &[0]].concat();
        let length = (filter.len() as u32).to_ne_bytes();
        length.into_iter().chain(filter).chain(self.inside.iter().flat_map(rule)).collect()
    }
}

impl Confinement {
    /// What makes processes another user's, and keeps them from namespaces.
    pub fn of_user(user: AgentUser) -> Self {
        Self { user: Some(user), fence: None, filter: user_filter::get(), room: None }
    }

    /// The same for another user's processes. Not for a room, which has the daemon's user.
    pub fn of(self, user: Option<AgentUser>) -> Self {
        Self { user, ..self }
    }

    /// What a driver reads to confine itself, after what was done ahead: the user, the fence or else a filter alone, and the rest
    /// of a room. Root is nobody's user, so 0 is none.
    pub(crate) fn bytes(&self, ahead: &Ahead) -> Vec<u8> {
        let user = self.user.map_or(0, AgentUser::number).to_ne_bytes();
        let fence = self.fence.as_ref().map(|fence| match ahead {
            Ahead::Filter => fence.bytes_without_filter(),
            Ahead::Nothing | Ahead::Room(_) => fence.bytes(),
        });
        let fence = fence.or_else(|| self.filter.as_deref().map(filter::bytes)).unwrap_or_default();
        let rest = match (ahead, &self.room) {
            (Ahead::Room(_), Some(room)) => room.own_plan(),
            _ => &[],
        };
        let length = (fence.len() as u32).to_ne_bytes();
        [&user[..], &length, &fence, rest].concat()
    }

    /// What the room shares with the other processes of the session, if there is a room.
    pub fn namespaces(&self) -> Option<&Arc<Namespaces>> {
        self.room.as_ref().map(|room| &room.namespaces)
    }

    /// Which settings of the machine it lets them read, as [`Fence::settings`] counts them.
    pub fn settings(&self) -> u64 {
        self.fence.as_ref().map_or(0, |fence| fence.settings)
    }

    /// Confines the calling process. Makes only system calls, for use between fork and exec.
    pub(crate) fn apply(&self) -> io::Result<()> {
        self.user.map_or(Ok(()), AgentUser::become_it)?;
        self.filter.as_deref().map_or(Ok(()), super::apply::put_on)?;
        self.fence.as_ref().map_or(Ok(()), |fence| super::apply::apply(fence.ruleset.as_fd(), &fence.filter))
    }
}
