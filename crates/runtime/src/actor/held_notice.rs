//! What the agent reads after a person has held its session.

use crate::notices::counted;
use shellkeep_session::SessionHold;
use shellkeep_session::run::NameChanges;

/// Most names that the sentence lists of each kind.
const NAMED: usize = 8;

/// What the holder changed, in words; `None` if the holder ran nothing. `files` are the paths that changed, if they are
/// known by name.
pub(super) fn in_words(hold: &SessionHold, files: &[String]) -> Option<String> {
    if hold.runs == 0 && files.is_empty() {
        return None;
    }
    let changes = &hold.changes;
    let mut parts = Vec::new();
    parts.extend(changes.cwd.as_ref().map(|cwd| format!("the working directory is now {cwd}")));
    let set = changes.env.iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name.clone());
    let gone = changes.env.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name.clone());
    let variables = NameChanges {
        set: set.chain(changes.variables.set.iter().cloned()).collect(),
        unset: gone.chain(changes.variables.unset.iter().cloned()).collect(),
    };
    let named = [
        ("variables", &variables),
        ("functions", &changes.functions),
        ("aliases", &changes.aliases),
        ("traps", &changes.traps),
    ];
    for (kind, names) in named {
        parts.extend(listed(&format!("{kind} set: "), &names.set));
        parts.extend(listed(&format!("{kind} removed: "), &names.unset));
    }
    let options: Vec<String> =
        changes.options.iter().map(|(name, is_on)| format!("{name} {}", if *is_on { "on" } else { "off" })).collect();
    parts.extend(listed("options: ", &options));
    parts.extend(changes.umask.as_ref().map(|umask| format!("umask {umask}")));
    match listed("files changed: ", files) {
        Some(files) => parts.push(files),
        None if hold.files_changed > 0 => parts.push(format!("{} changed", counted(hold.files_changed, "file"))),
        None => {}
    }
    let commands = counted(hold.runs, "command");
    let holder = &hold.holder;
    Some(match parts.is_empty() {
        true => {
            format!("{holder} took over this session and ran {commands}. Nothing in the shell or the files changed.")
        }
        false => format!(
            "{holder} took over this session and ran {commands}. What changed: {}. Check it before you continue.",
            parts.join("; ")
        ),
    })
}

fn listed(before: &str, names: &[String]) -> Option<String> {
    let (first, rest) = names.split_at(names.len().min(NAMED));
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    (!first.is_empty()).then(|| format!("{before}{}{more}", first.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_session::{Changes, Timestamp};

    fn hold(runs: u64, changes: Changes) -> SessionHold {
        SessionHold {
            hold: String::new(),
            holder: "ann".to_owned(),
            reason: None,
            until: Timestamp::UNIX_EPOCH,
            since: 1,
            files: None,
            runs,
            changes,
            files_changed: 0,
            untold: Vec::new(),
        }
    }

    #[test]
    fn the_sentence_says_what_changed_and_no_more() {
        assert_eq!(in_words(&hold(0, Changes::default()), &[]), None);
        let idle = in_words(&hold(1, Changes::default()), &[]).unwrap();
        assert_eq!(idle, "ann took over this session and ran 1 command. Nothing in the shell or the files changed.");
        let changes = Changes {
            cwd: Some("/srv".to_owned()),
            env: [("A".to_owned(), Some("1".to_owned())), ("B".to_owned(), None)].into(),
            functions: NameChanges { set: vec!["f".to_owned()], unset: Vec::new() },
            options: [("pipefail".to_owned(), true)].into(),
            ..Changes::default()
        };
        let files: Vec<String> = (0..10).map(|number| format!("f{number}")).collect();
        let words = in_words(&hold(2, changes), &files).unwrap();
        assert_eq!(
            words,
            "ann took over this session and ran 2 commands. What changed: the working directory is now /srv; variables \
             set: A; variables removed: B; functions set: f; options: pipefail on; files changed: f0, f1, f2, f3, f4, f5, \
             f6, f7 and 2 more. Check it before you continue."
        );
    }
}
