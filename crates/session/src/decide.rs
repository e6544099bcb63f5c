//! What may happen next: pure decisions that the runtime carries out.

use crate::run::NameChanges;
use crate::shell::{Options, Value};
use crate::{Changes, ShellDelta, ShellState};
use std::collections::{BTreeMap, BTreeSet};

/// The option with which bash expands aliases. Off in a bare bash.
const EXPAND_ALIASES: &str = "expand_aliases";

/// Variables that bash itself changes with every command; they are not reported.
const NOISE: [&str; 8] = ["_", "PIPESTATUS", "OLDPWD", "PWD", "BASH_REMATCH", "OPTIND", "OPTARG", "COPROC"];

/// What a delta changes in a state, for a result. The variables in `unkept` were set, but are too large for the delta.
pub fn changes(before: &ShellState, delta: &ShellDelta, unkept: &[String]) -> Changes {
    let cwd = delta.cwd.as_ref().filter(|cwd| **cwd != before.cwd).map(|cwd| cwd.to_text().into_owned());
    let mut changes = Changes { cwd, ..Changes::default() };
    for (name, variable) in &delta.variables {
        let text = name.to_text().into_owned();
        if NOISE.contains(&text.as_str()) {
            continue;
        }
        let exported_before = before.variables.get(name).is_some_and(|old| old.is_exported());
        let gone = variable.as_ref().is_none_or(|new| matches!(new.value, Value::Removed(_)));
        match variable.as_ref().filter(|_| !gone) {
            Some(new) if new.is_exported() => {
                let value = match &new.value {
                    Value::Value(value) => Some(value.to_text().into_owned()),
                    _ => None,
                };
                changes.env.insert(text, value);
            }
            Some(_) => {
                if exported_before {
                    changes.env.insert(text.clone(), None);
                }
                changes.variables.set.push(text);
            }
            None if unkept.contains(&text) => changes.variables.set.push(text),
            None if exported_before => {
                changes.env.insert(text, None);
            }
            None => changes.variables.unset.push(text),
        }
    }
    for (name, function) in &delta.functions {
        let list = if function.is_some() { &mut changes.functions.set } else { &mut changes.functions.unset };
        list.push(name.to_text().into_owned());
    }
    if let Some(aliases) = &delta.aliases {
        changes.aliases = name_changes(&before.aliases, &aliases.0, |name| name.to_text().into_owned());
    }
    if let Some(traps) = &delta.traps {
        changes.traps = name_changes(&before.traps, traps, String::clone);
    }
    if let Some(options) = &delta.options {
        changes.options = option_changes(before.options.as_ref(), options);
    }
    changes.umask = delta.umask.map(|umask| format!("{umask:04o}"));
    changes
}

/// Whether a session gets its first aliases while bash does not expand them, as in every shell that is not interactive. It is
/// worth telling once: who has aliases already knows.
pub fn has_first_aliases_in_vain(before: &ShellState, delta: &ShellDelta) -> bool {
    let Some(aliases) = delta.aliases.as_ref().filter(|_| before.aliases.is_empty()) else { return false };
    let options = delta.options.as_ref().or(before.options.as_ref());
    !aliases.0.is_empty() && !options.is_some_and(|options| options.shopt.contains(EXPAND_ALIASES))
}

fn name_changes<K: Ord, V: PartialEq>(
    before: &BTreeMap<K, V>,
    after: &BTreeMap<K, V>,
    text: impl Fn(&K) -> String,
) -> NameChanges {
    NameChanges {
        set: after.iter().filter(|(k, v)| before.get(k) != Some(v)).map(|(k, _)| text(k)).collect(),
        unset: before.keys().filter(|k| !after.contains_key(k)).map(text).collect(),
    }
}

/// Options of a bare bash run as `bash -c`, for comparing with a state that has never changed any.
pub fn bare_options() -> Options {
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    Options {
        set: names(&["braceexpand", "hashall", "interactive-comments"]),
        shopt: names(&[
            "checkwinsize",
            "cmdhist",
            "complete_fullquote",
            "extquote",
            "force_fignore",
            "globasciiranges",
            "globskipdots",
            "hostcomplete",
            "interactive_comments",
            "patsub_replacement",
            "progcomp",
            "promptvars",
            "sourcepath",
        ]),
    }
}

fn option_changes(before: Option<&Options>, after: &Options) -> BTreeMap<String, bool> {
    let bare = bare_options();
    let before = before.unwrap_or(&bare);
    let mut switched = BTreeMap::new();
    for (old, new) in [(&before.set, &after.set), (&before.shopt, &after.shopt)] {
        switched.extend(new.difference(old).map(|name| (name.clone(), true)));
        switched.extend(old.difference(new).map(|name| (name.clone(), false)));
    }
    switched
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ByteString;
    use crate::shell::Variable;

    #[test]
    fn an_unexported_variable_leaves_the_environment() {
        let mut before = ShellState::default();
        before.variables.insert("A".into(), Variable::scalar("x", "1"));
        let mut delta = ShellDelta::default();
        delta.variables.insert("A".into(), Some(Variable::scalar("", "1")));
        delta.variables.insert("_".into(), Some(Variable::scalar("", "noise")));
        let changes = changes(&before, &delta, &[]);
        assert_eq!(changes.env.get("A"), Some(&None));
        assert_eq!(changes.variables.set, ["A"]);
    }

    /// An alias was kept, and not found by the next command, without a word.
    #[test]
    fn first_aliases_are_in_vain_unless_they_are_expanded() {
        let aliases = |names: &[&str]| {
            let all = names.iter().map(|name| ((*name).into(), "echo HELLO".into())).collect();
            ShellDelta { aliases: Some(crate::shell::Aliases(all)), ..ShellDelta::default() }
        };
        let mut expanding = bare_options();
        expanding.shopt.insert(EXPAND_ALIASES.to_owned());
        let bare = ShellState::default();
        assert!(has_first_aliases_in_vain(&bare, &aliases(&["hi"])));
        assert!(
            !has_first_aliases_in_vain(&bare, &aliases(&[]))
                && !has_first_aliases_in_vain(&bare, &ShellDelta::default())
        );
        let at_once = ShellDelta { options: Some(expanding.clone()), ..aliases(&["hi"]) };
        assert!(!has_first_aliases_in_vain(&bare, &at_once));
        let before = ShellState { options: Some(expanding), ..ShellState::default() };
        assert!(!has_first_aliases_in_vain(&before, &aliases(&["hi"])));
        let mut knows = ShellState::default();
        knows.aliases.insert("hi".into(), "echo".into());
        assert!(!has_first_aliases_in_vain(&knows, &aliases(&["hi", "ho"])));
    }

    #[test]
    fn options_are_compared_with_a_bare_bash() {
        let mut options = bare_options();
        options.set.insert("errexit".into());
        options.shopt.remove("sourcepath");
        let delta = ShellDelta { options: Some(options), ..ShellDelta::default() };
        let changes = changes(&ShellState::default(), &delta, &[]);
        assert_eq!(changes.options.get("errexit"), Some(&true));
        assert_eq!(changes.options.get("sourcepath"), Some(&false));
        assert_eq!(changes.options.len(), 2);
    }

    #[test]
    fn a_variable_that_is_too_large_was_set() {
        let variables = [("BIG", None), ("gone", None)].map(|(name, value)| (ByteString::from(name), value));
        let delta = ShellDelta { variables: variables.into(), ..ShellDelta::default() };
        let changes = changes(&ShellState::default(), &delta, &["BIG".to_owned()]).variables;
        assert_eq!((changes.set, changes.unset), (vec!["BIG".to_owned()], vec!["gone".to_owned()]));
    }

    #[test]
    fn the_same_cwd_is_no_change() {
        let before = ShellState { cwd: ByteString::from("/a"), ..ShellState::default() };
        let delta = ShellDelta { cwd: Some("/a".into()), ..ShellDelta::default() };
        assert_eq!(changes(&before, &delta, &[]).cwd, None);
    }
}
