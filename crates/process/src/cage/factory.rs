//! Creates cages: what the machine supports, where they are, how many processes they may have.

use super::Cage;
use super::census::Census;
use super::held::{Held, Roots};
use crate::cgroup::{self, Group, Mounts};
use crate::proc::{ProcessStamp, Stat};
use crate::sync::lock;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// The group in which all cages are; its limit is the node's.
pub(super) const WORK: &str = "work";
/// The group in which the keepers of services are; they count towards no limit.
pub(super) const KEEPERS: &str = "keepers";

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

/// How many processes there may be. As the kernel counts them: each thread is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// In one cage.
    pub per_cage: u64,
    /// In all cages together.
    pub node: u64,
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
    per_cage: AtomicU64,
    node: AtomicU64,
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
        let shared = Shared {
            instance: instance.to_owned(),
            unified,
            pids,
            elsewhere,
            mounts,
            per_cage: AtomicU64::new(0),
            node: AtomicU64::new(0),
            cages: Mutex::default(),
        };
        let factory = Self { shared: Arc::new(shared) };
        factory.set_limits(limits);
        factory
    }

    /// Whether control groups are used.
    pub fn has_groups(&self) -> bool {
        self.shared.unified.is_some()
    }

    /// Whether the kernel limits the number of processes; if not, [`Self::guard`] must run.
    pub fn has_limit(&self) -> bool {
        self.shared.pids.is_some()
    }

    /// The limits as they are now.
    pub fn limits(&self) -> Limits {
        Limits {
            per_cage: self.shared.per_cage.load(Ordering::Relaxed),
            node: self.shared.node.load(Ordering::Relaxed),
        }
    }

    /// Changes the limits of all existing and future cages. Where the kernel enforces it, a lower limit kills nothing;
    /// nothing new starts until there are fewer.
    pub fn set_limits(&self, limits: Limits) {
        self.shared.per_cage.store(limits.per_cage, Ordering::Relaxed);
        self.shared.node.store(limits.node, Ordering::Relaxed);
        let Some(work) = self.shared.pids.as_ref().map(|base| base.join(WORK)) else { return };
        let set = |path: PathBuf, most: u64| Group::at(path).limit_processes(most);
        for entry in fs::read_dir(&work).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let _ = set(entry.path(), limits.per_cage);
            }
        }
        let _ = set(work, limits.node);
    }

    /// How many processes are in all cages now, counted as the limits count them.
    pub fn count(&self) -> u64 {
        let shared = &self.shared;
        let counted = shared.pids.as_ref().and_then(|base| Group::at(base.join(WORK)).counted());
        if let Some(counted) = counted {
            return counted;
        }
        match &shared.unified {
            Some(base) => groups_in(&base.join(WORK)).into_iter().map(|path| Group::at(path).threads()).sum(),
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
        self.held_at(name, self.shared.unified.as_deref(), Roots::default())
    }

    /// Takes over a cage of an earlier daemon; its processes are not touched. `root` is their ancestor, as far as is
    /// known before [`crate::ServiceProcess::adopt`]; without groups it is used to find them.
    pub fn adopt(&self, name: &str, root: ProcessStamp) -> Cage {
        let has_it = |base: &&PathBuf| base.join(WORK).join(name).is_dir();
        let base =
            self.shared.unified.iter().chain(&self.shared.elsewhere).find(has_it).or(self.shared.unified.as_ref());
        self.held_at(name, base.map(PathBuf::as_path), Roots { main: Some(root), keeper: None })
    }

    fn held_at(&self, name: &str, unified_base: Option<&Path>, roots: Roots) -> Cage {
        let shared = &self.shared;
        let make = |base: &Path| Group::create(base.join(WORK).join(name)).ok();
        let unified = unified_base.and_then(make);
        let pids = if shared.pids == shared.unified { None } else { shared.pids.as_deref().and_then(make) };
        let limit = shared.pids.is_some().then(|| self.limits().per_cage);
        if let (Some(limited), Some(most)) = (pids.as_ref().or(unified.as_ref()), limit) {
            let _ = limited.limit_processes(most);
        }
        let keepers = unified.is_some().then(|| unified_base.map(|base| base.join(KEEPERS))).flatten();
        let label = format!("{}/{name}", shared.instance);
        let held = Arc::new(Held {
            name: name.to_owned(),
            label,
            unified,
            pids,
            keepers,
            limit,
            roots: Mutex::new(roots),
            owner: OnceLock::new(),
            leader: OnceLock::new(),
            cut_back: AtomicU64::new(0),
            suspects: Mutex::default(),
        });
        let mut cages = lock(&shared.cages);
        cages.retain(|cage| cage.strong_count() > 0);
        cages.push(Arc::downgrade(&held));
        Cage { held, released: false }
    }

    /// All cages that this process holds.
    pub(super) fn cages(&self) -> Vec<Arc<Held>> {
        lock(&self.shared.cages).iter().filter_map(Weak::upgrade).collect()
    }
}

/// The groups directly in this one.
pub(super) fn groups_in(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
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
    let listed =
        |file: &Path| fs::read_to_string(file).unwrap_or_default().split_whitespace().any(|name| name == "pids");
    if !listed(&path.join("cgroup.controllers")) {
        let Some(parent) = path.parent() else { return false };
        if fs::write(parent.join("cgroup.subtree_control"), "+pids").is_err() {
            return false;
        }
    }
    [path, &path.join(WORK)].iter().all(|group| fs::write(group.join("cgroup.subtree_control"), "+pids").is_ok())
}
