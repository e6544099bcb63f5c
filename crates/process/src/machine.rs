//! What this machine offers, for `doctor`: one probe per question, each with its answer in plain values.

use crate::cage::CageFactory;
use crate::cgroup::Mounts;
use crate::shell::{LiveShell, ShellSpec};
use std::path::Path;

/// What was found.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The version of bash under our driver, or why it does not work.
    pub bash: Result<String, String>,
    /// Our own group in the unified hierarchy, if it is mounted.
    pub unified: Option<String>,
    /// Whether processes can be held in control groups.
    pub groups: bool,
    /// Whether the number of processes of a session can be limited.
    pub process_limit: bool,
}

/// Looks. Starts one bash and ends it again.
pub async fn probe(bash: &Path, scratch: &Path) -> Machine {
    let name = format!("shellkeep-doctor-{}", std::process::id());
    let factory = CageFactory::detect(&name, 16);
    let spec = ShellSpec { bash: bash.to_owned(), rescue: scratch.join(format!("{name}.rescue")) };
    let bash = match LiveShell::start(spec, factory.cage("probe")).await {
        Ok(shell) => Ok(shell.version().to_owned()),
        Err(error) => Err(error.to_string()),
    };
    let found = Machine {
        bash,
        unified: Mounts::find().unified.map(|path| path.display().to_string()),
        groups: factory.has_groups(),
        process_limit: factory.has_limit(),
    };
    factory.remove();
    found
}
