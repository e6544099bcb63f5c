//! Shared by the commands about files: paths as parameters, and changes of files as text.

use crate::client::escaped;
use crate::terminal::{self, Colour};
use shellkeep_protocol::{ChangeKind, Changes, FileChange, LeftOut, NameChanges, text};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// How many files are listed on a terminal; the rest is counted.
const MOST_NAMED: usize = 40;

/// A path as a parameter of a query.
pub fn path_parameter(path: &OsStr) -> String {
    match text::encode(path.as_bytes().to_vec()) {
        (_, Some(base64)) => format!("path_base64={}", escaped(&base64)),
        (text, None) => format!("path={}", escaped(&text)),
    }
}

/// Files that change, one per line; the first of them if there are many.
pub fn print_changes(files: &[FileChange], total: u64) {
    for file in files.iter().take(MOST_NAMED) {
        terminal::line(format!("  {}", sentence(file)));
    }
    let named = files.len().min(MOST_NAMED) as u64;
    if total > named {
        terminal::line(format!("  … and {} more", total - named));
    }
}

/// Paths that were skipped, each with the reason.
pub fn print_left(title: &str, left: &[LeftOut], total: u64) {
    if total == 0 {
        return;
    }
    terminal::line(format!("{title} ({total}):"));
    for one in left.iter().take(MOST_NAMED) {
        let mark = terminal::coloured("!", Colour::Yellow);
        terminal::line(format!("  {mark} {}: {}", shown_path(&one.path), terminal::harmless(&one.reason)));
    }
    let named = left.len().min(MOST_NAMED) as u64;
    if total > named {
        terminal::line(format!("  … and {} more", total - named));
    }
}

/// A file that differs, in one line: `~ src/main.rs  +3 -1`.
pub fn sentence(file: &FileChange) -> String {
    let (sign, colour) = match file.kind {
        ChangeKind::Added => ("+", Colour::Green),
        ChangeKind::Deleted => ("-", Colour::Red),
        ChangeKind::Modified => ("~", Colour::Yellow),
        ChangeKind::Renamed => (">", Colour::Cyan),
        ChangeKind::TypeChanged => ("!", Colour::Yellow),
    };
    let mut words = format!("{} {}", terminal::coloured(sign, colour), shown_path(&file.path));
    if let Some(before) = &file.renamed_from {
        words += &format!(" (was {})", shown_path(before));
    }
    if file.kind == ChangeKind::TypeChanged {
        words += " (kind changed)";
    }
    if file.binary {
        words += "  (binary)";
    }
    for (sign, lines, colour) in [("+", file.insertions, Colour::Green), ("-", file.deletions, Colour::Red)] {
        if let Some(lines) = lines.filter(|lines| *lines > 0) {
            words += &format!("  {}", terminal::coloured(&format!("{sign}{lines}"), colour));
        }
    }
    words
}

/// A path on one line, without control characters.
pub fn shown_path(path: &str) -> String {
    if path.chars().any(|c| c.is_control() || terminal::deceives(c)) { format!("{path:?}") } else { path.to_owned() }
}

/// What changes in a shell, as text; empty if nothing does.
pub fn shell_changes(changes: &Changes) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(cwd) = &changes.cwd {
        words.push(format!("working directory: {}", shown_path(cwd)));
    }
    let (set, unset): (Vec<_>, Vec<_>) = changes.env.iter().partition(|(_, value)| value.is_some());
    let names = |list: Vec<(&String, &Option<String>)>| list.into_iter().map(|(name, _)| name.clone()).collect();
    words.extend(named("environment", Some(&NameChanges { set: names(set), unset: names(unset) })));
    words.extend(named("variables", changes.variables.as_ref()));
    words.extend(named("functions", changes.functions.as_ref()));
    words.extend(named("aliases", changes.aliases.as_ref()));
    words.extend(named("traps", changes.traps.as_ref()));
    if !changes.options.is_empty() {
        let option = |(name, on): (&String, &bool)| format!("{}{name}", if *on { "+" } else { "-" });
        words.push(format!("options: {}", changes.options.iter().map(option).collect::<Vec<_>>().join(" ")));
    }
    if let Some(umask) = &changes.umask {
        words.push(format!("umask: {umask}"));
    }
    words.iter().map(|line| terminal::harmless(line)).collect()
}

fn named(title: &str, changes: Option<&NameChanges>) -> Option<String> {
    let changes = changes?;
    let signed = |sign: &str, names: &[String]| names.iter().map(|name| format!("{sign}{name}")).collect::<Vec<_>>();
    let all = [signed("", &changes.set), signed("-", &changes.unset)].concat();
    (!all.is_empty()).then(|| format!("{title}: {}", all.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_any_bytes_travel_in_a_query() {
        assert_eq!(path_parameter(OsStr::new("a b/ü")), "path=a%20b%2F%C3%BC");
        assert_eq!(path_parameter(OsStr::from_bytes(b"a/\xff")), "path_base64=YS%2F%2F");
    }

    #[test]
    fn changes_are_told_in_one_line_each() {
        let file = FileChange {
            path: "a\nb".to_owned(),
            path_base64: None,
            kind: ChangeKind::Renamed,
            renamed_from: Some("c".to_owned()),
            renamed_from_base64: None,
            insertions: Some(3),
            deletions: Some(0),
            binary: false,
        };
        assert_eq!(sentence(&file), "> \"a\\nb\" (was c)  +3");
        let changes = Changes {
            cwd: Some("/w".to_owned()),
            env: [("A".to_owned(), None), ("B".to_owned(), Some("1".to_owned()))].into(),
            options: [("errexit".to_owned(), true)].into(),
            ..Changes::default()
        };
        assert_eq!(shell_changes(&changes), ["working directory: /w", "environment: B -A", "options: +errexit"]);
    }
}
