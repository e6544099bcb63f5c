//! Which cage a process belongs to, decided for the right to use a socket. Being wrong here gives away rights, so
//! everything that is not certain is [`Belongs::Unclear`].
//!
//! The proof is descent: a process cannot choose its ancestors. An orphan becomes a child of the nearest
//! subreaper above it, which is us (see [`crate::become_subreaper`]) or the keeper of its service, so nothing that a shell
//! started can get out from below us while we live. A session of processes proves the same while its leader lives,
//! because no process can join one. The control group and the mark in the environment can be changed from inside: they can
//! show that a process is not outside, and never in which cage it is.

use super::CageFactory;
use super::held::Held;
use super::layout::{WORK, is_party};
use super::neighbours;
use crate::handle;
use crate::peer::Peer;
use crate::proc::{self, Stat};
use crate::sync::lock;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Where a process belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Belongs {
    /// To a cage with this assignee.
    To(Arc<str>),
    /// To none, ours or another daemon's.
    Outside,
    /// This cannot be told with certainty, for this reason.
    Unclear(&'static str),
}

/// What the control group of a process says.
#[derive(Debug, PartialEq, Eq)]
enum Group {
    /// It is in the group of this cage.
    Cage(String),
    /// It is in one of our groups, but in no cage.
    Ours,
    /// It is in none of ours.
    Other,
}

impl CageFactory {
    /// Where the process belongs that connected.
    pub fn whose(&self, peer: &Peer) -> Belongs {
        let Some(process) = &peer.process else { return Belongs::Outside };
        if process.pid == std::process::id() {
            return Belongs::Outside;
        }
        let found = self.whose_number(process.pid);
        // It is alive now, so it was alive all the time, and what was read is about it.
        if handle::is_alive(&process.handle) { found } else { Belongs::Unclear("it has ended") }
    }

    fn whose_number(&self, pid: u32) -> Belongs {
        let cages = self.cages();
        let own = std::process::id();
        let Some(lineage) = proc::lineage(pid, own) else {
            return Belongs::Unclear("its ancestors cannot be read");
        };
        let membership = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok();
        let Some(group) = self.group_of(membership.as_deref()) else {
            return Belongs::Unclear("its control group cannot be read");
        };
        if let Some(cage) = proven(&cages, &lineage) {
            return match (group, cage.assignee.get()) {
                (Group::Cage(name), _) if name != cage.name => {
                    Belongs::Unclear("it has moved itself into the control group of another session")
                }
                (_, Some(assignee)) => Belongs::To(Arc::clone(assignee)),
                (_, None) => Belongs::Unclear("its shell belongs to no session"),
            };
        }
        let descends_from_us = lineage.last().is_some_and(|last| last.pid == own);
        if descends_from_us {
            return Belongs::Unclear("it descends from a session, but has left its parent and its process session");
        }
        if group != Group::Other {
            return Belongs::Unclear(neighbours::LOST);
        }
        let sign = neighbours::sign(pid, &lineage, membership.as_deref(), &self.shared.instance);
        sign.map_or(Belongs::Outside, Belongs::Unclear)
    }

    fn group_of(&self, membership: Option<&str>) -> Option<Group> {
        let shared = &self.shared;
        if shared.unified.is_none() && shared.elsewhere.is_empty() {
            return Some(Group::Other);
        }
        let path = shared.mounts.unified_group(membership?)?;
        let inside = shared.unified.iter().chain(&shared.elsewhere).find_map(|base| path.strip_prefix(base).ok());
        let Some(inside) = inside else { return Some(Group::Other) };
        let mut parts = inside.iter();
        let (top, cage) = (parts.next(), parts.find(|part| !is_party(Path::new(part))));
        Some(match cage.filter(|_| top.is_some_and(|top| top == WORK)) {
            Some(name) => Group::Cage(name.to_string_lossy().into_owned()),
            None => Group::Ours,
        })
    }
}

/// The cage that a process or one of its ancestors is the root of, or whose session it is in. `lineage` begins with the
/// process itself.
fn proven<'a>(cages: &'a [Arc<Held>], lineage: &[Stat]) -> Option<&'a Arc<Held>> {
    let mut roots = HashMap::new();
    for cage in cages {
        let known = *lock(&cage.roots);
        // A cage that was taken over names only one of its processes at first, which may be of either kind.
        for stamp in [known.main, known.keeper, known.init].into_iter().flatten() {
            roots.insert(stamp, cage);
        }
    }
    if let Some(cage) = lineage.iter().find_map(|stat| roots.get(&stat.stamp())) {
        return Some(*cage);
    }
    let session = lineage.first()?.session;
    // Read after the process was: a leader that is alive now has been since before it.
    let leader = Stat::read(session).map(|leader| leader.stamp())?;
    roots.get(&leader).copied()
}
