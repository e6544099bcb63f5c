//! Creates cages: what the machine supports, where they are, how many processes they may have.

use super::Cage;
use super::census::Census;
use super::held::{Held, Roots};
use super::layout::{self, KEEPERS, WORK, cages_in};
use super::party::{Limits, Parties};
use crate::cgroup::{self, Group, Mounts};
use crate::proc::{ProcessStamp, Stat};
use crate::sync::lock;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// How much of what the machine supports is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CageMode {
    /// All of it.
    #[default]
    Auto,
    /// Groups, but no pids controller even if there is one: the guard holds the limits.
    NoLimits,
    /// No groups at all: processes are identified by a mark in their environment.
    Marks,
}

/// Creates cages, all under one name, so that those of a dead daemon are found again. Clones are the same factory.
#[derive(Debug, Clone)]
pub struct CageFactory {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) instance: String,
    /// The instance's group in the unified hierarchy.
    pub(super) unified: Option<PathBuf>,
    /// The instance's group where a pids controller is.
    pub(super) pids: Option<PathBuf>,
    /// Groups of the same name that a daemon started elsewhere has left.
    pub(super) elsewhere: Vec<PathBuf>,
    /// Where groups are mounted, to find the group of a process.
    pub(super) mounts: Mounts,
    pub(super) limits: Mutex<Limits>,
    pub(super) parties: Parties,
    pub(super) cages: Mutex<Vec<Weak<Held>>>,
}

impl CageFactory {
    /// Detects what this machine supports. `instance` is the same for every daemon on one data directory.
    pub fn detect(instance: &str, mode: CageMode, limits: Limits) -> Self {
        let mounts = if mode == CageMode::Marks { Mounts::default() } else { Mounts::find() };
        let unified = mounts.unified.as_ref().and_then(|own| usable(&own.join(instance)));
        let pids = match mode {
            CageMode::Auto => {
                let v1 = mounts.pids_v1.as_ref().and_then(|own| usable(&own.join(instance)));
                unified.clone().filter(|path| offers_pids(path)).or(v1)
            }
            CageMode::NoLimits | CageMode::Marks => None,
        };
        let mut elsewhere =
            mounts.unified_top.as_ref().map(|top| cgroup::find_named(top, instance)).unwrap_or_default();
        elsewhere.retain(|path| Some(path) != unified.as_ref());
        let parties = match mode {
            CageMode::Auto => Parties::new(&mounts, instance, unified.as_deref(), pids.as_deref()),
            CageMode::NoLimits | CageMode::Marks => Parties::without_controllers(unified.as_deref()),
        };
        let shared = Shared {
            instance: instance.to_owned(),
            unified,
            pids,
            elsewhere,
            mounts,
            limits: Mutex::new(limits),
            parties,
            cages: Mutex::default(),
        };
        let factory = Self { shared: Arc::new(shared) };
        factory.set_limits(limits);
        factory
    }

    /// Notes in this directory, of the host's alone, which group belongs to which party, so that the next daemon that does the
    /// same knows it. To be called before anything is put into a cage or taken over.
    pub fn note_parties_in(&self, directory: PathBuf) {
        self.shared.parties.note_in(directory);
    }

    /// Whether control groups are used.
    pub fn has_groups(&self) -> bool {
        self.shared.unified.is_some()
    }

    /// Whether the kernel limits the number of processes; if not, [`Self::guard`] must run.
    pub fn has_limit(&self) -> bool {
        self.shared.pids.is_some()
    }

    /// Whether the kernel limits the memory of a party.
    pub fn has_memory_limit(&self) -> bool {
        self.shared.parties.limits_memory()
    }

    /// The limits as they are now.
    pub fn limits(&self) -> Limits {
        *lock(&self.shared.limits)
    }

    /// Changes the limits of all existing and future cages. Where the kernel enforces it, a lower limit kills nothing;
    /// nothing new starts until there are fewer.
    pub fn set_limits(&self, limits: Limits) {
        *lock(&self.shared.limits) = limits;
        self.shared.parties.set_limits(limits);
        let Some(base) = &self.shared.pids else { return };
        for cage in cages_in(base) {
            let _ = Group::at(cage).limit_processes(limits.per_cage);
        }
        let _ = Group::at(base.join(WORK)).limit_processes(limits.node);
    }

    /// How many processes a party has now, counted as the limits count them.
    pub fn count_of(&self, party: &str) -> u64 {
        let Some(known) = self.shared.parties.find(party) else { return 0 };
        if let Some(counted) = known.counted() {
            return counted;
        }
        let cages = self.cages();
        let of_party = || cages.iter().filter(|cage| cage.party_name() == Some(party));
        if self.has_groups() {
            return of_party().map(|cage| cage.unified.as_ref().map_or(0, Group::threads)).sum();
        }
        let census = Census::take(&self.shared.instance, &cages);
        let threads = census.threads();
        of_party().filter_map(|cage| threads.get(cage.name.as_str())).sum()
    }

    /// How many processes are in all cages now, counted as the limits count them.
    pub fn count(&self) -> u64 {
        let shared = &self.shared;
        let counted = shared.pids.as_ref().and_then(|base| Group::at(base.join(WORK)).counted());
        if let Some(counted) = counted {
            return counted;
        }
        match &shared.unified {
            Some(base) => cages_in(base).into_iter().map(|path| Group::at(path).threads()).sum(),
            None => Census::take(&shared.instance, &self.cages()).threads().values().sum(),
        }
    }

    /// The live processes in these cages, by name, without keepers. One scan serves all of them.
    pub fn members_of(&self, names: &HashSet<String>) -> HashMap<String, Vec<Stat>> {
        let cages: Vec<_> = self.cages().into_iter().filter(|cage| names.contains(&cage.name)).collect();
        if self.has_groups() {
            return cages.iter().map(|cage| (cage.name.clone(), cage.members())).collect();
        }
        let mut members: HashMap<String, Vec<Stat>> = HashMap::new();
        for (stat, name) in Census::take(&self.shared.instance, &cages).inhabitants {
            if names.contains(&name) {
                members.entry(name).or_default().push(stat);
            }
        }
        members
    }

    /// Makes a cage. `name` is unique within the instance.
    pub fn cage(&self, name: &str) -> Cage {
        self.cage_of(None, name)
    }

    /// Makes a cage of a party, whose name is a valid name of a directory, or of none.
    pub fn cage_of(&self, party: Option<&str>, name: &str) -> Cage {
        self.held_at(party, name, self.shared.unified.as_deref(), Roots::default())
    }

    /// Takes over a cage of an earlier daemon; its processes are not touched. `root` is their ancestor, as far as is
    /// known before [`crate::ServiceProcess::adopt`]; without groups it is used to find them.
    pub fn adopt(&self, party: Option<&str>, name: &str, root: ProcessStamp) -> Cage {
        let has_it = |base: &&PathBuf| cages_in(base).iter().any(|path| path.ends_with(name));
        let base =
            self.shared.unified.iter().chain(&self.shared.elsewhere).find(has_it).or(self.shared.unified.as_ref());
        let roots = Roots { main: Some(root), keeper: None, init: None };
        self.held_at(party, name, base.map(PathBuf::as_path), roots)
    }

    fn held_at(&self, party: Option<&str>, name: &str, unified_base: Option<&Path>, roots: Roots) -> Cage {
        let shared = &self.shared;
        // One that is taken over is where an earlier daemon put it.
        let left = |base: &Path| cages_in(base).into_iter().find(|path| path.ends_with(name));
        let number = shared.unified.as_deref().filter(|_| roots.main.is_some());
        let number = number.and_then(|base| layout::party_of(base, &left(base)?));
        let party = party.map(|party| match number {
            Some(number) => shared.parties.get_at(party, number, self.limits()),
            None => shared.parties.get(party, self.limits()),
        });
        let make = |base: &Path| {
            let place = || party.as_ref().map_or_else(|| base.join(WORK), |party| party.directory(base)).join(name);
            let left = roots.main.and_then(|_| left(base));
            Group::create(left.unwrap_or_else(place)).ok()
        };
        let unified = unified_base.and_then(make);
        if let Some(group) = unified.as_ref().filter(|_| roots.main.is_some()) {
            // The daemon that was killed may have stopped it for a moment.
            let _ = group.thaw();
        }
        let pids = if shared.pids == shared.unified { None } else { shared.pids.as_deref().and_then(make) };
        let limit = shared.pids.is_some().then(|| self.limits().per_cage);
        if let (Some(limited), Some(most)) = (pids.as_ref().or(unified.as_ref()), limit) {
            let _ = limited.limit_processes(most);
        }
        let keepers = unified.is_some().then(|| unified_base.map(|base| base.join(KEEPERS))).flatten();
        let label = format!("{}/{name}", shared.instance);
        let outside = if party.is_none() { shared.parties.outside() } else { None };
        let held = Arc::new(Held {
            name: name.to_owned(),
            label,
            unified,
            pids,
            party,
            outside,
            keepers,
            limit,
            open_files: Some(self.limits().open_files),
            roots: Mutex::new(roots),
            assignee: OnceLock::new(),
            leader: Mutex::default(),
            cut_back: AtomicU64::new(0),
            suspects: Mutex::default(),
        });
        let mut cages = lock(&shared.cages);
        // Only when it would grow: a node with many shells would look at all of them for each new one.
        if cages.len() == cages.capacity() {
            cages.retain(|cage| cage.strong_count() > 0);
        }
        cages.push(Arc::downgrade(&held));
        Cage { held, released: false }
    }

    /// All cages that this process holds.
    pub(super) fn cages(&self) -> Vec<Arc<Held>> {
        lock(&self.shared.cages).iter().filter_map(Weak::upgrade).collect()
    }
}

/// Makes an instance's group with the two in it, if we may.
fn usable(path: &Path) -> Option<PathBuf> {
    let make = |path: &Path| match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    };
    [path, &path.join(WORK), &path.join(KEEPERS)].into_iter().try_for_each(make).ok()?;
    Some(path.to_owned())
}

/// Whether cages below `path` get a pids controller; switches it on where we may.
fn offers_pids(path: &Path) -> bool {
    let has_it =
        cgroup::offers(path, "pids") || path.parent().is_some_and(|parent| cgroup::switch_on(&[parent], "pids"));
    has_it && cgroup::switch_on(&[path, &path.join(WORK)], "pids")
}
