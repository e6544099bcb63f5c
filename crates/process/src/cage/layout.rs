//! Where the groups of an instance are: the cages are in `work`, or there in the group of their party.

use crate::cgroup::groups_in;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The group in which all cages are; its limit is the node's.
pub(super) const WORK: &str = "work";
/// The group in which the keepers of services are; they count towards no limit.
pub(super) const KEEPERS: &str = "keepers";
/// The group in which the daemon itself is, where it has one.
pub(super) const DAEMON: &str = "daemon";
/// How the group of a party is named; no cage is named like this.
const PARTY: &str = "of-";

/// The directory of a party, which has this number.
pub(super) fn of_party(base: &Path, number: u64) -> PathBuf {
    base.join(WORK).join(format!("{PARTY}{number}"))
}

/// The number of the party that a cage below this instance's group is in.
pub(super) fn party_of(base: &Path, cage: &Path) -> Option<u64> {
    number_of(cage.parent().filter(|parent| parent.parent() == Some(&base.join(WORK)))?)
}

/// The numbers of the parties that have a directory below an instance's group.
pub(super) fn numbers_in(base: &Path) -> Vec<u64> {
    groups_in(&base.join(WORK)).iter().filter_map(|path| number_of(path)).collect()
}

fn number_of(party: &Path) -> Option<u64> {
    party.file_name()?.to_str()?.strip_prefix(PARTY)?.parse().ok()
}

/// Whether this is the directory of a party.
pub(super) fn is_party(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PARTY))
}

/// The directories of the cages below an instance's group.
pub(super) fn cages_in(base: &Path) -> Vec<PathBuf> {
    let inside = |path: PathBuf| if is_party(&path) { groups_in(&path) } else { vec![path] };
    groups_in(&base.join(WORK)).into_iter().flat_map(inside).collect()
}

/// Removes the groups of parties that are empty, except for parties with these numbers.
pub(super) fn remove_parties(base: &Path, kept: &HashSet<u64>) {
    let is_kept = |path: &Path| number_of(path).is_some_and(|number| kept.contains(&number));
    for path in groups_in(&base.join(WORK)).into_iter().filter(|path| is_party(path) && !is_kept(path)) {
        let _ = fs::remove_dir(path);
    }
}

/// Removes the groups of an instance that are empty, except for those of parties with these numbers.
pub(super) fn remove(base: &Path, kept: &HashSet<u64>) {
    remove_parties(base, kept);
    for path in [base.join(WORK), base.join(KEEPERS), base.to_owned()] {
        let _ = fs::remove_dir(path);
    }
}
