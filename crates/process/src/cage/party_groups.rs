//! The groups of parties, and those that have no party at the moment.
//!
//! Files in memory, such as those in `/dev/shm`, outlive whoever wrote them, and stay charged to the group that he was in. So
//! groups with such files are for nobody else, and are not removed: their party would begin again with nothing, and the
//! next one with what is not its own.

use super::layout::of_party;
use crate::cgroup::Group;
use std::collections::VecDeque;
use std::path::Path;

/// How many groups are looked at to find some for a party that is new: each look costs the kernel some work.
const MOST_LOOKS: usize = 8;

/// The groups of a party.
#[derive(Debug, Default)]
pub(super) struct PartyGroups {
    pub(super) number: u64,
    pub(super) unified: Option<Group>,
    /// Where the pids controller is, if it is elsewhere.
    pub(super) pids: Option<Group>,
    /// In hierarchies of version 1; its processes join them.
    pub(super) memory: Option<Group>,
    pub(super) cpu: Option<Group>,
}

impl PartyGroups {
    pub(super) fn counting(&self) -> Option<&Group> {
        self.pids.as_ref().or(self.unified.as_ref())
    }

    /// The group whose memory is limited, where a controller does that.
    pub(super) fn charged(&self) -> Option<&Group> {
        self.memory.as_ref().or(self.unified.as_ref())
    }

    fn has_files_in_memory(&self) -> bool {
        self.charged().is_some_and(|group| group.files_in_memory() > 0)
    }
}

/// Whether the party with this number has left files in memory. `memory` is where the controller is.
pub(super) fn has_left_files_in_memory(memory: &Path, number: u64) -> bool {
    Group::at(of_party(memory, number)).files_in_memory() > 0
}

/// Groups that had a party, with its name, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Unused(VecDeque<(String, PartyGroups)>);

impl Unused {
    pub(super) fn put(&mut self, name: String, groups: PartyGroups) {
        self.0.push_back((name, groups));
    }

    /// Groups for this party: those that it had, or some that nothing is charged to.
    pub(super) fn take(&mut self, name: &str) -> Option<PartyGroups> {
        let its_own = self.0.iter().position(|(of, _)| of == name);
        if let Some((_, groups)) = its_own.and_then(|at| self.0.remove(at)) {
            return Some(groups);
        }
        for _ in 0..MOST_LOOKS.min(self.0.len()) {
            let (of, groups) = self.0.pop_front()?;
            if !groups.has_files_in_memory() {
                return Some(groups);
            }
            self.0.push_back((of, groups));
        }
        None
    }

    /// They have a party again.
    pub(super) fn forget(&mut self, number: u64) {
        self.0.retain(|(_, groups)| groups.number != number);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PartyGroups> {
        self.0.iter().map(|(_, groups)| groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(number: u64, directory: &Path, files_in_memory: u64) -> PartyGroups {
        let group = directory.join(number.to_string());
        std::fs::create_dir_all(&group).unwrap();
        std::fs::write(group.join("memory.stat"), format!("anon 5\nshmem {files_in_memory}\nshmem_thp 9\n")).unwrap();
        PartyGroups { number, unified: Some(Group::at(group)), ..PartyGroups::default() }
    }

    /// The groups of an agent without processes went to the next agent, with the files that it had left in `/dev/shm`,
    /// and it got groups to which nothing was charged.
    #[test]
    fn groups_with_files_in_memory_are_for_their_party_alone() {
        let top = tempfile::tempdir().unwrap();
        let mut unused = Unused::default();
        let taken = |unused: &mut Unused, name: &str| unused.take(name).map(|groups| groups.number);
        for (name, number, bytes) in [("ann", 1, 4096), ("bob", 2, 0), ("eve", 3, 4096)] {
            unused.put(name.to_owned(), groups(number, top.path(), bytes));
        }
        assert_eq!(taken(&mut unused, "new"), Some(2));
        assert_eq!(taken(&mut unused, "newer"), None);
        assert_eq!(taken(&mut unused, "ann"), Some(1));
        groups(3, top.path(), 0);
        assert_eq!(taken(&mut unused, "newer"), Some(3), "the files are gone");
    }
}
