//! Between the driver's facts and a session's state: bash's numeric form and the readable form.

use shellkeep_process::Fact;
use shellkeep_process::facts::attribute;
use shellkeep_session::ByteString;
use shellkeep_session::shell::{
    Aliases, DeclaredKind, Function, Options, ShellDelta, ShellState, Trap, Value, Variable,
};
use std::collections::{BTreeMap, BTreeSet};

/// Names of the pseudo-signals, above the real ones, as bash numbers them.
const PSEUDO_SIGNALS: [(u32, &str); 4] = [(0, "EXIT"), (65, "DEBUG"), (66, "ERR"), (67, "RETURN")];

/// Signals that everyone calls by name.
const SIGNALS: [(u32, &str); 31] = [
    (1, "HUP"),
    (2, "INT"),
    (3, "QUIT"),
    (4, "ILL"),
    (5, "TRAP"),
    (6, "ABRT"),
    (7, "BUS"),
    (8, "FPE"),
    (9, "KILL"),
    (10, "USR1"),
    (11, "SEGV"),
    (12, "USR2"),
    (13, "PIPE"),
    (14, "ALRM"),
    (15, "TERM"),
    (16, "STKFLT"),
    (17, "CHLD"),
    (18, "CONT"),
    (19, "STOP"),
    (20, "TSTP"),
    (21, "TTIN"),
    (22, "TTOU"),
    (23, "URG"),
    (24, "XCPU"),
    (25, "XFSZ"),
    (26, "VTALRM"),
    (27, "PROF"),
    (28, "WINCH"),
    (29, "IO"),
    (30, "PWR"),
    (31, "SYS"),
];

/// The letters of `ulimit`, by the number of the resource on Linux.
const LIMITS: [&str; 16] = ["t", "f", "d", "s", "c", "m", "u", "n", "l", "v", "x", "i", "q", "e", "r", "R"];

/// What a command changed, as a delta.
pub fn delta(facts: Vec<Fact>) -> Box<ShellDelta> {
    let mut delta = Box::<ShellDelta>::default();
    for fact in facts {
        add(&mut delta, fact);
    }
    delta
}

/// The variables that a command made too large to keep.
pub fn too_large(facts: &[Fact]) -> Vec<String> {
    let name = |fact: &Fact| match fact {
        Fact::TooLarge { name } => Some(String::from_utf8_lossy(name).into_owned()),
        _ => None,
    };
    facts.iter().filter_map(name).collect()
}

fn add(delta: &mut ShellDelta, fact: Fact) {
    match fact {
        Fact::Scalar { name, attributes, value } => {
            set(delta, name, attributes, Value::Value(value.into()));
        }
        Fact::Array { name, attributes, elements } => {
            let elements = elements.into_iter().map(|(index, value)| (index, value.into())).collect();
            set(delta, name, attributes, Value::Array(elements));
        }
        Fact::Map { name, attributes, pairs } => set(delta, name, attributes, Value::Map(to_pairs(pairs).collect())),
        Fact::Declared { name, attributes } => set(delta, name, attributes, Value::Declared(declared_kind(attributes))),
        Fact::Removed { name } => set(delta, name, 0, Value::Removed(true)),
        Fact::TooLarge { name } | Fact::Forgotten { name } => {
            delta.variables.insert(name.into(), None);
        }
        Fact::Function { name, attributes, source } => {
            let function = Function { attributes: letters(attributes), source: source.into() };
            delta.functions.insert(name.into(), Some(function));
        }
        Fact::FunctionGone { name } => {
            delta.functions.insert(name.into(), None);
        }
        Fact::Aliases(pairs) => delta.aliases = Some(Aliases(to_pairs(pairs).collect())),
        Fact::SetOptions(names) => delta.options.get_or_insert_default().set = option_names(&names),
        Fact::ShoptOptions(names) => delta.options.get_or_insert_default().shopt = option_names(&names),
        Fact::Traps(traps) => {
            let named = traps.into_iter().map(|(number, command)| {
                (trap_name(number), command.map_or(Trap::Ignore, |command| Trap::Run(command.into())))
            });
            delta.traps = Some(named.collect());
        }
        Fact::Directories(names) => {
            let mut names = names.into_iter().map(ByteString);
            delta.cwd = names.next();
            delta.directory_stack = Some(names.collect());
        }
        Fact::Umask(mask) => delta.umask = Some(mask),
        Fact::Limits(limits) => delta.limits = Some(limits.into_iter().filter_map(limit_value).collect()),
        Fact::Positional(words) => delta.positional = Some(words.into_iter().map(ByteString).collect()),
        Fact::Argv0(name) => delta.argv0 = Some(name.into()),
        Fact::DisabledBuiltins(names) => {
            delta.disabled_builtins =
                Some(names.into_iter().map(|name| String::from_utf8_lossy(&name).into_owned()).collect());
        }
        Fact::Status(status) => delta.status = Some(status),
    }
}

fn set(delta: &mut ShellDelta, name: Vec<u8>, attributes: u32, value: Value) {
    delta.variables.insert(name.into(), Some(Variable { attributes: letters(attributes), value }));
}

fn to_pairs(pairs: Vec<(Vec<u8>, Vec<u8>)>) -> impl Iterator<Item = (ByteString, ByteString)> {
    pairs.into_iter().map(|(key, value)| (key.into(), value.into()))
}

fn declared_kind(attributes: u32) -> DeclaredKind {
    if attributes & attribute::ARRAY != 0 {
        DeclaredKind::Array
    } else if attributes & attribute::MAP != 0 {
        DeclaredKind::Map
    } else {
        DeclaredKind::Scalar
    }
}

fn letters(attributes: u32) -> String {
    attribute::LETTERS.iter().filter(|(_, bit)| attributes & bit != 0).map(|(letter, _)| *letter).collect()
}

fn bits(letters: &str) -> u32 {
    attribute::LETTERS.iter().filter(|(letter, _)| letters.contains(*letter)).map(|(_, bit)| bit).sum()
}

fn option_names(list: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(list);
    // With noexec, a session could never execute anything again.
    text.split(':').filter(|name| !name.is_empty() && *name != "noexec").map(str::to_owned).collect()
}

fn option_list(names: &BTreeSet<String>) -> Vec<u8> {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(":").into_bytes()
}

fn trap_name(number: u32) -> String {
    if let Some((_, name)) = PSEUDO_SIGNALS.iter().find(|(n, _)| *n == number) {
        return (*name).to_owned();
    }
    match SIGNALS.iter().find(|(n, _)| *n == number) {
        Some((_, name)) => format!("SIG{name}"),
        None => format!("SIG{number}"),
    }
}

fn trap_number(name: &str) -> Option<u32> {
    if let Some((number, _)) = PSEUDO_SIGNALS.iter().find(|(_, n)| *n == name) {
        return Some(*number);
    }
    let name = name.strip_prefix("SIG")?;
    name.parse().ok().or_else(|| signal_number(name))
}

/// The number of a signal by its name without `SIG`.
pub fn signal_number(name: &str) -> Option<u32> {
    SIGNALS.iter().find(|(_, n)| *n == name).map(|(number, _)| *number)
}

/// The name of a signal without `SIG`.
pub fn signal_name(number: i32) -> String {
    let known = SIGNALS.iter().find(|(n, _)| i64::from(*n) == i64::from(number));
    known.map_or_else(|| number.to_string(), |(_, name)| (*name).to_owned())
}

fn limit_value((resource, soft): (u32, u64)) -> Option<(String, Option<u64>)> {
    let letter = LIMITS.get(resource as usize)?;
    Some(((*letter).to_owned(), (soft != u64::MAX).then_some(soft)))
}

fn limit_facts(limits: &BTreeMap<String, Option<u64>>) -> Vec<(u32, u64)> {
    let number = |letter: &String| LIMITS.iter().position(|known| known == letter);
    limits
        .iter()
        .filter_map(|(letter, soft)| Some((u32::try_from(number(letter)?).ok()?, soft.unwrap_or(u64::MAX))))
        .collect()
}

/// The facts that turn a bare shell into this session's.
pub fn facts(state: &ShellState) -> Vec<Fact> {
    let mut facts = Vec::with_capacity(state.variables.len() + state.functions.len() + 12);
    let directories = std::iter::once(&state.cwd).chain(&state.directory_stack);
    facts.push(Fact::Directories(directories.map(|name| name.0.clone()).collect()));
    facts.extend(state.variables.iter().map(|(name, variable)| variable_fact(name, variable)));
    facts.extend(state.functions.iter().map(|(name, function)| Fact::Function {
        name: name.0.clone(),
        attributes: bits(&function.attributes),
        source: function.source.0.clone(),
    }));
    let pair = |(key, value): (&ByteString, &ByteString)| (key.0.clone(), value.0.clone());
    facts.push(Fact::Aliases(state.aliases.iter().map(pair).collect()));
    if let Some(Options { set, shopt }) = &state.options {
        facts.push(Fact::SetOptions(option_list(set)));
        facts.push(Fact::ShoptOptions(option_list(shopt)));
    }
    let trap = |(name, trap): (&String, &Trap)| {
        let command = match trap {
            Trap::Ignore => None,
            Trap::Run(command) => Some(command.0.clone()),
        };
        Some((trap_number(name)?, command))
    };
    facts.push(Fact::Traps(state.traps.iter().filter_map(trap).collect()));
    facts.extend(state.umask.map(Fact::Umask));
    facts.push(Fact::Limits(limit_facts(&state.limits)));
    facts.push(Fact::Positional(state.positional.iter().map(|word| word.0.clone()).collect()));
    facts.extend(state.argv0.as_ref().map(|name| Fact::Argv0(name.0.clone())));
    let names = state.disabled_builtins.iter().map(|name| name.clone().into_bytes());
    facts.push(Fact::DisabledBuiltins(names.collect()));
    facts.push(Fact::Status(state.status));
    facts
}

fn variable_fact(name: &ByteString, variable: &Variable) -> Fact {
    let name = name.0.clone();
    let attributes = bits(&variable.attributes);
    match &variable.value {
        Value::Value(value) => Fact::Scalar { name, attributes, value: value.0.clone() },
        Value::Array(elements) => Fact::Array {
            name,
            attributes: attributes | attribute::ARRAY,
            elements: elements.iter().map(|(index, value)| (*index, value.0.clone())).collect(),
        },
        Value::Map(pairs) => Fact::Map {
            name,
            attributes: attributes | attribute::MAP,
            pairs: pairs.iter().map(|(key, value)| (key.0.clone(), value.0.clone())).collect(),
        },
        Value::Declared(kind) => {
            let kind = match kind {
                DeclaredKind::Scalar => 0,
                DeclaredKind::Array => attribute::ARRAY,
                DeclaredKind::Map => attribute::MAP,
            };
            Fact::Declared { name, attributes: attributes | attribute::INVISIBLE | kind }
        }
        Value::Removed(_) => Fact::Removed { name },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trap_names_go_both_ways() {
        for number in (0..=31).chain(34..=67) {
            assert_eq!(trap_number(&trap_name(number)), Some(number), "{}", trap_name(number));
        }
    }

    #[test]
    fn attribute_letters_go_both_ways() {
        assert_eq!(letters(bits("cilnrtux")), "cilnrtux");
        assert_eq!(letters(attribute::EXPORTED | attribute::READONLY | attribute::ARRAY), "rx");
    }
}
