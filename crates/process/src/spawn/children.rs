//! Which children somebody waits for, and which are strays: also while other processes make children of ours whose numbers
//! we do not know yet.

use crate::sync::lock;
use rustix::process::{Signal, getpid, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

static AWAITED: Mutex<Awaited> = Mutex::new(Awaited::new());

/// Children that a part of this program waits for. Held while one is started, so that none is ever missing.
pub(crate) fn awaited() -> MutexGuard<'static, Awaited> {
    lock(&AWAITED)
}

/// Children that a part of this program waits for.
#[derive(Debug)]
pub(crate) struct Awaited {
    pids: BTreeSet<u32>,
    /// One that has ended and hides from [`crate::reap_strays`] who else has.
    in_the_way: Option<u32>,
    /// Births under way, by their numbers.
    births: BTreeSet<u64>,
    /// The number of the next birth.
    next_birth: u64,
    /// Children that have ended and that a birth may have made that was under way then; each with the number of the next birth
    /// at that time.
    suspects: BTreeMap<u32, u64>,
}

impl Awaited {
    const fn new() -> Self {
        Self {
            pids: BTreeSet::new(),
            in_the_way: None,
            births: BTreeSet::new(),
            next_birth: 0,
            suspects: BTreeMap::new(),
        }
    }

    /// From now on someone waits for this child.
    pub(crate) fn insert(&mut self, pid: u32) {
        self.pids.insert(pid);
        if self.suspects.remove(&pid).is_some() {
            // It hides who else has ended.
            look_again();
        }
    }

    pub(crate) fn contains(&self, pid: u32) -> bool {
        self.pids.contains(&pid)
    }

    /// Whether nobody waits for this child, which has ended, nor will. False as long as a birth may have made it that was under
    /// way when this was first asked; when those are over, we hear once more that a child has ended.
    pub(crate) fn is_stray(&mut self, pid: u32) -> bool {
        if self.contains(pid) {
            return false;
        }
        let before = *self.suspects.entry(pid).or_insert(self.next_birth);
        let is_stray = self.births.first().is_none_or(|oldest| before <= *oldest);
        if is_stray {
            self.suspects.remove(&pid);
        }
        is_stray
    }

    /// This child has ended and is not reaped yet. False if it was so the last time already.
    pub(crate) fn is_newly_in_the_way(&mut self, pid: u32) -> bool {
        self.in_the_way.replace(pid) != Some(pid)
    }

    /// It was reaped. If it was in the way, we hear once more that a child has ended: others may have.
    pub(crate) fn remove(&mut self, pid: u32) {
        self.pids.remove(&pid);
        if self.in_the_way.take_if(|hiding| *hiding == pid).is_some() {
            look_again();
        }
    }

    fn begin_birth(&mut self) -> u64 {
        let number = self.next_birth;
        self.next_birth += 1;
        self.births.insert(number);
        number
    }

    /// A birth is over. Whether that decides about a suspect.
    fn end_birth(&mut self, number: u64) -> bool {
        self.births.remove(&number);
        let oldest = self.births.first().copied().unwrap_or(self.next_birth);
        self.suspects.values().any(|before| *before <= oldest)
    }
}

/// We hear once more that a child has ended.
fn look_again() {
    // It cannot fail: the process is our own.
    let _ = kill_process(getpid(), Signal::CHILD);
}

/// Where other processes make children of ours and then tell us their numbers.
pub(crate) struct Births;

/// A birth under way: until this is dropped, a child that has ended meanwhile is taken for no stray. It holds up nobody: a
/// process that should make a child may be stuck for as long as a start may take, and others must be started meanwhile.
#[derive(Debug)]
pub(crate) struct Birth(u64);

/// Where children of ours are made by others.
pub(crate) fn births() -> Births {
    Births
}

impl Births {
    /// One begins. Held until the child is in [`awaited`].
    pub(crate) async fn read(&self) -> Birth {
        Birth(awaited().begin_birth())
    }
}

impl Drop for Birth {
    fn drop(&mut self) {
        if awaited().end_birth(self.0) {
            look_again();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_a_stray_when_no_birth_can_have_made_it() {
        let mut awaited = Awaited::new();
        assert!(awaited.is_stray(7));
        let first = awaited.begin_birth();
        assert!(!awaited.is_stray(7));
        assert!(awaited.end_birth(first), "we are told to look again");
        assert!(awaited.is_stray(7));
        awaited.insert(7);
        assert!(!awaited.is_stray(7));
    }

    /// Births that overlap without end must not keep a stray for ever.
    #[test]
    fn births_that_began_later_do_not_count() {
        let mut awaited = Awaited::new();
        let first = awaited.begin_birth();
        assert!(!awaited.is_stray(7));
        let second = awaited.begin_birth();
        assert!(!awaited.is_stray(8) && !awaited.is_stray(7));
        assert!(awaited.end_birth(first));
        assert!(awaited.is_stray(7) && !awaited.is_stray(8));
        assert!(awaited.end_birth(second));
        assert!(awaited.is_stray(8));
    }

    #[test]
    fn a_newborn_that_has_ended_already_is_awaited() {
        let mut awaited = Awaited::new();
        let birth = awaited.begin_birth();
        assert!(!awaited.is_stray(7));
        awaited.insert(7);
        assert!(!awaited.end_birth(birth) && !awaited.is_stray(7));
        awaited.remove(7);
        // Another process has the number now.
        let next = awaited.begin_birth();
        assert!(!awaited.is_stray(7));
        assert!(awaited.end_birth(next) && awaited.is_stray(7));
    }
}
