//! The machine the figures are from, and what `/proc` says of a process.

use crate::fallible::Fallible;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a reader needs to know of the machine.
#[derive(Debug)]
pub struct Facts {
    /// Processors.
    pub cores: usize,
    /// What they are called.
    pub processor: String,
    /// The kernel's release.
    pub kernel: String,
    /// The bash under all of it.
    pub bash: String,
    /// Today, in UTC.
    pub date: String,
    /// What else kept the machine busy at the start.
    pub load: String,
}

impl Facts {
    /// Looks.
    pub fn read(bash: &Path) -> Self {
        let file = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let processor = file("/proc/cpuinfo");
        let processor = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let version = Command::new(bash).args(["--norc", "-c", "printf %s \"$BASH_VERSION\""]).output();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: processor.map_or("unknown processor", |(_, name)| name.trim()).to_owned(),
            kernel: file("/proc/sys/kernel/osrelease"),
            bash: version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default(),
            date: jiff::Timestamp::now().to_string().chars().take_while(|&c| c != 'T').collect(),
            load: file("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
        }
    }
}

/// The first bash in `PATH`, as the daemon finds it.
pub fn bash() -> Fallible<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|directory| directory.join("bash")).find(|bash| bash.is_file());
    found.ok_or_else(|| "there is no bash in PATH".into())
}

/// Kibibytes that a process is charged with, shared pages by their share.
pub fn pss(pid: u32) -> Fallible<u64> {
    kibibytes(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

/// Kibibytes that a process has in memory now.
pub fn resident(pid: u32) -> Fallible<u64> {
    kibibytes(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// The most it had since [`forget_peak`].
pub fn peak(pid: u32) -> Fallible<u64> {
    kibibytes(&format!("/proc/{pid}/status"), "VmHWM:")
}

/// Starts the peak anew from what is resident now.
pub fn forget_peak(pid: u32) -> Fallible<()> {
    // "5" is the kernel's word for resetting the peak; see proc_pid_clear_refs(5).
    Ok(fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
}

/// Kibibytes that programs may still take.
pub fn available() -> Fallible<u64> {
    kibibytes("/proc/meminfo", "MemAvailable:")
}

fn kibibytes(path: &str, field: &str) -> Fallible<u64> {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let value = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
    value.ok_or_else(|| format!("{path} has no {field}").into())
}
