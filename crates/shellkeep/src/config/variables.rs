//! Variables of the environment that look like settings and are none.

use super::layer;
use std::cell::RefCell;

/// How a complaint begins: it is no reason why a daemon does not start.
pub const WARNING: &str = "warning: ";
/// How the names of ours begin.
const PREFIX: &str = "SHELLKEEP_";
/// Ours that are not settings: of clients, of the daemon's secrets, of what it starts, and of tests.
const OTHERS: [&str; 13] = [
    "BIN",
    "CAGE",
    "CLUSTER_SECRET",
    "CONFIG",
    "CRASH_AT",
    "FAULT",
    "HISTORY_INTO",
    "IN_NAMESPACE",
    "KEEPS",
    "SEED",
    "SOAK",
    "TOKEN",
    "URL",
];
/// How names begin that are not meant for us: Kubernetes sets the first three for a service named `shellkeep`, and the
/// others are for tests.
const FOREIGN: [&str; 9] =
    ["PORT", "SERVICE_HOST", "SERVICE_PORT", "TEST_", "FIGURES_BIN", "PROGRAM", "SCREENS", "TOOLS", "WRITE_GOLDEN"];
/// The most letters in which a wrong name differs from the one that was meant.
const MOST_WRONG: usize = 3;

/// What is wrong with the names of variables in this process's environment, a sentence for each.
pub fn unknown_variables() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut wrong: Vec<String> = complaints(names, &known());
    wrong.sort();
    wrong
}

/// The names that are looked up, without the prefix.
fn known() -> Vec<String> {
    let asked = RefCell::new(OTHERS.map(str::to_owned).to_vec());
    let ask = |name: &str| {
        asked.borrow_mut().extend(name.strip_prefix(PREFIX).map(str::to_owned));
        None
    };
    // Without values nothing can be wrong with one.
    let _ = layer::from_environment(&ask);
    asked.into_inner()
}

fn complaints(names: impl Iterator<Item = String>, known: &[String]) -> Vec<String> {
    let complaint = |name: String| {
        let own = name.strip_prefix(PREFIX)?;
        if known.iter().any(|other| own == other) || FOREIGN.iter().any(|foreign| own.starts_with(foreign)) {
            return None;
        }
        let rated = known.iter().map(|other| (strsim::osa_distance(own, other), other));
        let meant = rated.filter(|(wrong, _)| *wrong <= MOST_WRONG).min();
        let meant = meant.map_or_else(String::new, |(_, other)| format!("did you mean {PREFIX}{other}? "));
        Some(format!(
            "{WARNING}there is no setting {name}, so it is ignored; {meant}`shellkeep config` lists all settings"
        ))
    };
    names.filter_map(complaint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A typo was ignored without a word, also in the name of a limit.
    #[test]
    fn a_mistyped_variable_is_told() {
        let all = "`shellkeep config` lists all settings";
        for (name, told) in [
            ("SHELLKEEP_MAX_SHELS", format!("so it is ignored; did you mean SHELLKEEP_MAX_SHELLS? {all}")),
            ("SHELLKEEP_RECORD_SECRET", format!("so it is ignored; did you mean SHELLKEEP_RECORD_SECRETS? {all}")),
            ("SHELLKEEP_SOMETHING_ELSE", format!("so it is ignored; {all}")),
            ("SHELLKEEP_MAX_SHELLS", String::new()),
            ("SHELLKEEP_CHECKPOINTS_ON", String::new()),
            ("SHELLKEEP_TOKEN", String::new()),
            ("SHELLKEEP_PORT_7433_TCP", String::new()),
            ("SHELLKEEP_SERVICE_HOST", String::new()),
            ("SHELLKEEP_WRITE_GOLDEN", String::new()),
            ("PATH", String::new()),
        ] {
            let found = complaints(std::iter::once(name.to_owned()), &known());
            let expected =
                if told.is_empty() { Vec::new() } else { vec![format!("warning: there is no setting {name}, {told}")] };
            assert_eq!(found, expected, "{name}");
        }
    }
}
