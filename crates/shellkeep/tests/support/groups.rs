//! What a daemon's processes are held in: its control groups, and the marks in the environment where it has none. By
//! these a test finds everyone of a daemon, wherever they went, and sees that nothing of it is left.

use shellkeep_process::cage::{KEEPER_MARK, MARK};
use shellkeep_process::cgroup::{Mounts, find_named};
use std::fs;
use std::path::{Path, PathBuf};

/// The name under which everything of a data directory's daemons is found.
pub fn instance(data: &Path) -> String {
    shellkeep_runtime::recover::instance(data)
}

/// The groups of a data directory's daemons, each after those inside it.
pub fn of(data: &Path) -> Vec<PathBuf> {
    let (mounts, name) = (Mounts::find(), instance(data));
    let mut tops = mounts.unified_top.map(|top| find_named(&top, &name)).unwrap_or_default();
    tops.extend(mounts.pids_v1.map(|own| own.join(&name)).filter(|path| path.is_dir()));
    let mut all = Vec::new();
    tops.into_iter().for_each(|top| collect(top, &mut all));
    all
}

fn collect(path: PathBuf, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(entry.path(), all);
        }
    }
    all.push(path);
}

/// The groups of services.
pub fn of_services(data: &Path) -> Vec<PathBuf> {
    let is_service =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("service-"));
    of(data).into_iter().filter(is_service).collect()
}

/// Everyone in the groups, and everyone with a mark. `only` narrows it down to names of cages that begin so.
pub fn members(data: &Path, only: &str) -> Vec<u32> {
    let mut found: Vec<u32> = Vec::new();
    let cage = |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(only));
    for group in of(data).iter().filter(cage) {
        let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
    }
    let marks = [MARK, KEEPER_MARK].map(|variable| format!("{variable}={}/{only}", instance(data)).into_bytes());
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    found.extend(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| marks.iter().any(|mark| variable.starts_with(mark)))
    }));
    found.sort_unstable();
    found.dedup();
    found
}

/// Keepers and processes of services that live.
pub fn of_services_alive(data: &Path) -> Vec<u32> {
    members(data, "service-").into_iter().filter(|pid| super::procs::alive(*pid)).collect()
}

/// Removes what is left of the groups; nobody may be in them any more.
pub fn remove(data: &Path) {
    for group in of(data) {
        let _ = fs::remove_dir(group);
    }
}
