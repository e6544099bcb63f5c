//! What this machine supports, for `doctor`: one probe per question.

use crate::cage::{CageFactory, CageMode, Limits};
use crate::cgroup::Mounts;
use crate::shell::{LiveShell, ShellSpec};
use std::collections::HashSet;
use std::path::Path;

/// Enough for one bash.
const PROBED: Limits = Limits { per_cage: 16, per_party: 16, node: 16, memory_per_party: 1 << 30, open_files: 4096 };

/// What was found.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The version of bash under our driver, or why it does not work.
    pub bash: Result<String, String>,
    /// Our own group in the unified hierarchy, if it is mounted.
    pub unified: Option<String>,
    /// Whether processes can be put into control groups.
    pub groups: bool,
    /// Whether the number of processes of a session can be limited.
    pub process_limit: bool,
    /// Whether the memory of an agent's processes can be limited.
    pub memory_limit: bool,
}

/// The bytes of memory of this machine, if the kernel says.
pub fn memory_bytes() -> Option<u64> {
    memory_figure(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

/// How much of it is in use and could not be had by dropping caches.
pub(crate) fn memory_in_use() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    memory_figure(&text, "MemTotal:")?.checked_sub(memory_figure(&text, "MemAvailable:")?)
}

fn memory_figure(text: &str, name: &str) -> Option<u64> {
    let kibibytes = text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix("kB"))?;
    kibibytes.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Probes the machine. Starts one bash and stops it again.
pub async fn probe(bash: &Path, scratch: &Path) -> Machine {
    let name = format!("shellkeep-doctor-{}", std::process::id());
    let factory = CageFactory::detect(&name, CageMode::Auto, PROBED);
    let spec = ShellSpec { bash: bash.to_owned(), rescue: scratch.join(format!("{name}.rescue")) };
    let bash = match LiveShell::start(spec, factory.cage("probe")).await {
        Ok(shell) => Ok(shell.origin().version.clone()),
        Err(error) => Err(error.to_string()),
    };
    let found = Machine {
        bash,
        unified: Mounts::find().unified.map(|path| path.display().to_string()),
        groups: factory.has_groups(),
        process_limit: factory.has_limit(),
        memory_limit: factory.has_memory_limit(),
    };
    factory.remove(&HashSet::new());
    found
}
