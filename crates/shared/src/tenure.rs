//! How long this node may serve its sessions while the tier is unreachable, and whether it may take those of others. The
//! decisions are in [`shellkeep_session::ownership`]; here are the times that they need.

use crate::LEASE;
use crate::note_file::{NoteFile, Unwritten};
use crate::tier::NodeEntry;
use shellkeep_session::ownership::{may_take_over, serves_until};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long before its time is over a node stops: ending shells and services takes as long as this.
const MARGIN: Duration = Duration::from_secs(1);

/// What a node does while the tier is unreachable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhenAlone {
    /// It serves its sessions until another node may take them.
    #[default]
    Serve,
    /// It begins nothing. What has begun is answered when the tier is back, or ends when another node may take it.
    Refuse,
}

/// Another node, as it was when the tier last listed it.
#[derive(Debug, Clone)]
struct Other {
    entry: NodeEntry,
    /// When it was asked for its last promise to take no session.
    promised: Option<Duration>,
    /// It said that it reaches the tier.
    reaches: bool,
}

/// The times that decide what this node may do.
#[derive(Debug)]
pub(crate) struct Tenure {
    node: String,
    when_alone: WhenAlone,
    /// Times are counted from here.
    origin: Instant,
    /// When the last renewal that succeeded was begun.
    renewed: Option<Duration>,
    /// Since when the tier has answered without a break.
    reached_since: Option<Duration>,
    others: Vec<Other>,
    /// Where the names of the other nodes are kept for the next start.
    remembered: Remembered,
}

impl Tenure {
    /// A node that has not reached the tier yet.
    pub(crate) fn new(node: &str, when_alone: WhenAlone, remembered: Remembered) -> Self {
        let others = remembered.names().into_iter().map(|name| Other {
            entry: NodeEntry { name, ..NodeEntry::default() },
            promised: None,
            reaches: false,
        });
        Self {
            node: node.to_owned(),
            when_alone,
            origin: Instant::now(),
            renewed: None,
            reached_since: None,
            others: others.collect(),
            remembered,
        }
    }

    fn time(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.origin)
    }

    /// The tier renewed all leases; the renewal was begun at `begun`. `nodes` are alive. Returns whether it came after the end
    /// of the leases before, so that others may have taken sessions.
    pub(crate) fn renewed(&mut self, begun: Instant, nodes: Vec<NodeEntry>) -> bool {
        let now = self.time(Instant::now());
        let is_late = self.renewed.is_some_and(|before| now >= before + LEASE);
        self.renewed = Some(self.time(begun));
        self.reached_since.get_or_insert(self.time(Instant::now()));
        let others = nodes.into_iter().filter(|entry| entry.name != self.node);
        self.others = others.map(|entry| Other { entry, promised: None, reaches: false }).collect();
        let names: Vec<&str> = self.others.iter().map(|other| other.entry.name.as_str()).collect();
        self.remembered.keep(&names);
        is_late
    }

    /// The names of the other nodes, if they are to be written.
    pub(crate) fn unwritten(&mut self) -> Option<Unwritten> {
        let Remembered { file, names } = &mut self.remembered;
        file.unwritten(|| names.join("\n"))
    }

    /// The tier is unreachable.
    pub(crate) fn went_away(&mut self) {
        self.reached_since = None;
    }

    /// Another node, asked at `asked`, does not reach the tier either: it takes no session for the time of a lease.
    pub(crate) fn promised(&mut self, node: &str, asked: Instant) {
        // Before a promise that comes too late the node may have taken a session.
        let promised = if self.is_over() { None } else { Some(self.time(asked)) };
        if let Some(other) = self.others.iter_mut().find(|other| other.entry.name == node) {
            other.promised = promised.or(other.promised);
            other.reaches = false;
        }
    }

    /// Another node reaches the tier.
    pub(crate) fn reached_by(&mut self, node: &str) {
        if let Some(other) = self.others.iter_mut().find(|other| other.entry.name == node) {
            other.reaches = true;
        }
    }

    /// The other nodes.
    pub(crate) fn others(&self) -> Vec<NodeEntry> {
        self.others.iter().map(|other| other.entry.clone()).collect()
    }

    /// Another node that reaches the tier, if one is known.
    pub(crate) fn reaching(&self) -> Option<NodeEntry> {
        self.others.iter().find(|other| other.reaches).map(|other| other.entry.clone())
    }

    fn end(&self) -> Option<Duration> {
        let promised = self.others.iter().map(|other| other.promised);
        serves_until(self.renewed, promised, LEASE).map(|end| end.saturating_sub(MARGIN))
    }

    /// When this node stops serving if the tier stays unreachable; never if it is the only one.
    pub(crate) fn stops_at(&self) -> Option<Instant> {
        self.end().map(|end| self.origin + end)
    }

    /// Whether that time has come.
    pub(crate) fn is_over(&self) -> bool {
        self.stops_at().is_some_and(|at| at <= Instant::now())
    }

    /// Whether this node answers only what the tier has.
    pub(crate) fn waits(&self) -> bool {
        self.when_alone == WhenAlone::Refuse
    }

    /// Whether this node may take sessions of nodes that are gone.
    pub(crate) fn may_take_over(&self) -> bool {
        may_take_over(self.reached_since, self.time(Instant::now()), LEASE)
    }
}

/// The names of the other nodes in a file of this node. A node that starts while the tier is unreachable learns from it
/// whether there are any.
#[derive(Debug, Default)]
pub struct Remembered {
    file: NoteFile,
    /// What is in it, or is to be.
    names: Vec<String>,
}

impl Remembered {
    /// Those in a file, which may not exist.
    pub fn at(file: &Path) -> Self {
        let file = NoteFile::at(Some(file.to_owned()));
        Self { names: file.read().lines().map(str::to_owned).collect(), file }
    }

    /// A file beside it for what the nodes have given the tier.
    pub(crate) fn given_file(&self) -> Option<PathBuf> {
        self.file.path().map(|file| file.with_extension("given"))
    }

    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// These are the names now.
    fn keep(&mut self, names: &[&str]) {
        if self.names != names {
            self.names = names.iter().map(|name| (*name).to_owned()).collect();
            self.file.changed();
        }
        self.file.try_again();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> NodeEntry {
        NodeEntry { name: name.to_owned(), ..NodeEntry::default() }
    }

    /// A tenure that began some leases ago, so that times in the past can be told.
    fn tenure() -> (Tenure, impl Fn(u64) -> Instant) {
        let now = Instant::now();
        let mut tenure = Tenure::new("n1", WhenAlone::Serve, Remembered::default());
        tenure.origin = now.checked_sub(Duration::from_secs(60)).unwrap();
        (tenure, move |seconds_ago| now.checked_sub(Duration::from_secs(seconds_ago)).unwrap())
    }

    #[test]
    fn a_node_serves_while_its_lease_lasts_or_all_others_promise() {
        let (mut tenure, ago) = tenure();
        assert!(!tenure.is_over(), "it is the only one");
        assert!(!tenure.renewed(ago(2), vec![entry("n1"), entry("n2"), entry("n3")]));
        tenure.went_away();
        assert!(!tenure.is_over(), "its lease lasts");
        assert_eq!(tenure.stops_at(), Some(ago(2) + LEASE - MARGIN));
        tenure.promised("n2", ago(1));
        assert_eq!(tenure.stops_at(), Some(ago(2) + LEASE - MARGIN), "one has not promised");
        tenure.promised("n3", ago(0));
        assert_eq!(tenure.stops_at(), Some(ago(1) + LEASE - MARGIN));

        assert!(!tenure.renewed(ago(8), vec![entry("n2")]), "its lease lasted");
        assert!(tenure.is_over(), "its time is over");
        tenure.promised("n2", ago(0));
        assert!(tenure.is_over(), "a promise comes too late");
        tenure.reached_by("n2");
        assert_eq!(tenure.reaching(), Some(entry("n2")));
        assert!(tenure.renewed(ago(0), vec![entry("n2")]), "others may have taken sessions before");
        assert!(!tenure.is_over() && tenure.reaching().is_none());
    }

    #[test]
    fn a_node_takes_over_after_it_reached_the_tier_for_a_lease() {
        let (mut tenure, ago) = tenure();
        tenure.renewed(ago(0), Vec::new());
        assert!(!tenure.may_take_over());
        tenure.reached_since = Some(tenure.time(ago(5)));
        assert!(tenure.may_take_over());
        tenure.went_away();
        assert!(!tenure.may_take_over());
    }

    #[test]
    fn a_node_remembers_that_there_were_others() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("nodes");
        let started = || Tenure::new("n1", WhenAlone::Serve, Remembered::at(&file));
        let renewed = |tenure: &mut Tenure, names: &[&str]| {
            tenure.renewed(Instant::now(), names.iter().map(|name| entry(name)).collect());
            tenure.unwritten().into_iter().for_each(Unwritten::write);
        };
        assert!(!started().is_over(), "it never had others");
        renewed(&mut started(), &["n1", "n2"]);
        assert!(started().is_over(), "another may have its sessions");
        renewed(&mut started(), &["n1"]);
        assert!(!started().is_over(), "it was the only one");
        // The bug: names that could not be written once were not written again, and the node served its sessions alone after its
        // next start.
        let mut tenure = started();
        std::fs::create_dir(file.with_extension("new")).unwrap();
        renewed(&mut tenure, &["n1", "n2"]);
        assert!(!started().is_over(), "they could not be written");
        std::fs::remove_dir(file.with_extension("new")).unwrap();
        renewed(&mut tenure, &["n1", "n2"]);
        assert!(started().is_over());
    }
}
