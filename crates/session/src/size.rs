//! How large a shell's state is, and what of a change does not fit.

use crate::bytes::ByteString;
use crate::shell::{Function, ShellDelta, ShellState, Value, Variable};

/// Overhead of one string: its entry in a list and in the allocator.
const STRING_BYTES: usize = 48;

/// Overhead of one name: its entry in a table.
const ENTRY_BYTES: usize = 96;

/// About how much memory a shell's variables, functions, aliases and parameters take.
pub fn of_shell(shell: &ShellState) -> usize {
    let variables: usize = shell.variables.iter().map(|(name, value)| named(name) + of_variable(value)).sum();
    let functions: usize = shell.functions.iter().map(|(name, value)| named(name) + of_function(value)).sum();
    let aliases: usize = shell.aliases.iter().map(|(name, value)| named(name) + string(value)).sum();
    variables + functions + aliases + of_list(&shell.positional) + of_list(&shell.directory_stack)
}

/// The same for what one command set.
pub fn of_delta(delta: &ShellDelta) -> usize {
    let variables = delta.variables.iter().filter_map(|(name, value)| Some(named(name) + of_variable(value.as_ref()?)));
    let functions = delta.functions.iter().filter_map(|(name, value)| Some(named(name) + of_function(value.as_ref()?)));
    let aliases = delta.aliases.iter().flat_map(|all| &all.0).map(|(name, value)| named(name) + string(value));
    let lists = delta.positional.iter().chain(&delta.directory_stack).map(|list| of_list(list));
    variables.sum::<usize>() + functions.sum::<usize>() + aliases.sum::<usize>() + lists.sum::<usize>()
}

/// Removes from a change, largest first, what would make the state too large. A removed variable or function is not in
/// the state afterwards: its old value would be wrong. Returns the names of what was removed.
pub fn fit(shell: &ShellState, delta: &mut ShellDelta, most: usize) -> Vec<String> {
    let mut total = of_shell(shell) + of_delta(delta);
    let old = |name: &ByteString| shell.variables.get(name).map_or(0, |value| named(name) + of_variable(value));
    total -= delta.variables.keys().map(old).sum::<usize>();
    let old = |name: &ByteString| shell.functions.get(name).map_or(0, |value| named(name) + of_function(value));
    total -= delta.functions.keys().map(old).sum::<usize>();
    if total <= most {
        return Vec::new();
    }
    let mut parts = parts(delta);
    parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let mut left_out = Vec::new();
    for (part, bytes) in parts {
        if total <= most {
            break;
        }
        total -= bytes;
        left_out.push(part.take_from(delta));
    }
    left_out
}

/// What can be left out of a change.
enum Part {
    Variable(ByteString),
    Function(ByteString),
    Positional,
    Aliases,
    Directories,
}

fn parts(delta: &ShellDelta) -> Vec<(Part, usize)> {
    let mut parts = Vec::new();
    for (name, value) in &delta.variables {
        parts.extend(value.as_ref().map(|value| (Part::Variable(name.clone()), named(name) + of_variable(value))));
    }
    for (name, value) in &delta.functions {
        parts.extend(value.as_ref().map(|value| (Part::Function(name.clone()), named(name) + of_function(value))));
    }
    parts.extend(delta.positional.as_ref().map(|list| (Part::Positional, of_list(list))));
    parts.extend(delta.directory_stack.as_ref().map(|list| (Part::Directories, of_list(list))));
    let of_aliases = |all: &crate::shell::Aliases| all.0.iter().map(|(name, value)| named(name) + string(value)).sum();
    parts.extend(delta.aliases.as_ref().map(|all| (Part::Aliases, of_aliases(all))));
    parts
}

impl Part {
    /// Removes it and returns its name.
    fn take_from(self, delta: &mut ShellDelta) -> String {
        let text = |name: &ByteString| String::from_utf8_lossy(name.as_bytes()).into_owned();
        match self {
            Self::Variable(name) => {
                let told = text(&name);
                delta.variables.insert(name, None);
                told
            }
            Self::Function(name) => {
                let told = format!("{}()", text(&name));
                delta.functions.insert(name, None);
                told
            }
            Self::Positional => {
                delta.positional = None;
                "the positional parameters".to_owned()
            }
            Self::Aliases => {
                delta.aliases = None;
                "the aliases".to_owned()
            }
            Self::Directories => {
                delta.directory_stack = None;
                "the directory stack".to_owned()
            }
        }
    }
}

fn named(name: &ByteString) -> usize {
    ENTRY_BYTES + name.as_bytes().len()
}

fn string(value: &ByteString) -> usize {
    STRING_BYTES + value.as_bytes().len()
}

fn of_list(list: &[ByteString]) -> usize {
    list.iter().map(string).sum()
}

fn of_function(function: &Function) -> usize {
    string(&function.source)
}

fn of_variable(variable: &Variable) -> usize {
    match &variable.value {
        Value::Value(value) => string(value),
        Value::Array(elements) => elements.iter().map(|(_, value)| string(value)).sum(),
        Value::Map(elements) => elements.iter().map(|(key, value)| string(key) + string(value)).sum(),
        Value::Declared(_) | Value::Removed(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn delta(values: &[(u8, usize)]) -> ShellDelta {
        let mut delta = ShellDelta::default();
        for (name, length) in values {
            let value = Variable::scalar("", "x".repeat(*length));
            delta.variables.insert(format!("v{name}").as_str().into(), Some(value));
        }
        delta
    }

    #[test]
    fn the_largest_goes_first_and_small_ones_stay() {
        let mut change = delta(&[(1, 10), (2, 5000), (3, 3000), (4, 20)]);
        assert_eq!(fit(&ShellState::default(), &mut change, 100_000), Vec::<String>::new());
        assert_eq!(fit(&ShellState::default(), &mut change, 4000), ["v2"]);
        assert_eq!(change.variables[&b"v2"[..]], None);
        assert!(change.variables[&b"v3"[..]].is_some());
    }

    proptest! {
        /// Whatever is set in whatever order, the state stays within its limit.
        #[test]
        fn a_state_never_grows_beyond_its_limit(changes in prop::collection::vec(prop::collection::vec((0_u8..6, 0_usize..3000), 0..5), 0..12)) {
            let mut shell = ShellState::default();
            for values in changes {
                let mut change = delta(&values);
                fit(&shell, &mut change, 5000);
                for (name, value) in change.variables {
                    match value {
                        Some(value) => drop(shell.variables.insert(name, value)),
                        None => drop(shell.variables.remove(&name)),
                    }
                }
                prop_assert!(of_shell(&shell) <= 5000);
            }
        }
    }
}
