//! What runs on this machine, read from `/proc`, so that a test can say "nothing is left".

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A process as a test sees it.
#[derive(Debug, Clone)]
pub struct Process {
    pub pid: u32,
    pub command_line: String,
    pub cwd: Option<PathBuf>,
}

/// A duration for `sleep` that no other process on this machine has: its digits are the mark by which it is found again.
pub fn unique_sleep() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("3141.{:07}{count:04}", std::process::id())
}

/// Living processes. A zombie holds nothing but its number, so it is not one.
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("Linux has /proc");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| !is_zombie(*pid)).filter_map(look).collect()
}

/// Processes with this mark in their arguments.
pub fn marked(mark: &str) -> Vec<Process> {
    all().into_iter().filter(|process| process.command_line.contains(mark)).collect()
}

/// Processes that work in this directory or below. A subshell has no arguments of its own to be found by, but it has a
/// working directory.
pub fn working_in(directory: &Path) -> Vec<Process> {
    let inside = |process: &Process| process.cwd.as_deref().is_some_and(|cwd| cwd.starts_with(directory));
    all().into_iter().filter(inside).collect()
}

/// Processes whose ancestors include `pid`.
pub fn descendants(pid: u32) -> Vec<Process> {
    let known = all();
    let mut family = vec![pid];
    // A child may be listed before its parent, so go on until nobody is added.
    loop {
        let newer = known.iter().filter(|process| !family.contains(&process.pid));
        let found: Vec<u32> = newer
            .filter(|process| parent(process.pid).is_some_and(|parent| family.contains(&parent)))
            .map(|process| process.pid)
            .collect();
        if found.is_empty() {
            break;
        }
        family.extend(found);
    }
    known.into_iter().filter(|process| process.pid != pid && family.contains(&process.pid)).collect()
}

/// Whether a process with this number lives.
pub fn alive(pid: u32) -> bool {
    look(pid).is_some() && !is_zombie(pid)
}

/// Whether a process was stopped by a signal.
pub fn is_stopped(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| fields.first().is_some_and(|state| state == "T"))
}

/// How many sockets a process has open.
pub fn sockets(pid: u32) -> usize {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let is_socket = |path: &PathBuf| path.to_str().is_some_and(|path| path.starts_with("socket:"));
    descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).filter(is_socket).count()
}

/// When a process was started, in clock ticks since boot: with its number, who it is.
pub fn started_ticks(pid: u32) -> Option<u64> {
    stat(pid)?.get(19)?.parse().ok()
}

/// Resident memory in KiB.
pub fn resident_kib(pid: u32) -> u64 {
    memory_kib(pid, "VmRSS:")
}

/// How many threads it has.
pub fn threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// The most resident memory that it ever had, in KiB. What it has now depends on when the allocator returns what was
/// freed; this does not.
pub fn peak_resident_kib(pid: u32) -> u64 {
    memory_kib(pid, "VmHWM:")
}

fn memory_kib(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn look(pid: u32) -> Option<Process> {
    let raw = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let command_line = String::from_utf8_lossy(&raw).replace('\0', " ").trim_end().to_owned();
    Some(Process { pid, command_line, cwd: fs::read_link(format!("/proc/{pid}/cwd")).ok() })
}

/// The fields of `/proc/PID/stat` after the name, which may itself hold blanks and brackets.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

fn is_zombie(pid: u32) -> bool {
    stat(pid).is_none_or(|fields| matches!(fields.first().map(String::as_str), Some("Z" | "X")))
}

fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.get(1)?.parse().ok()
}
