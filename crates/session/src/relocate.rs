//! A shell's state for a moved workspace: a fork's files are a copy, so paths of the old directory must become paths of
//! the new one. Only whole path components count: `/w/one` is not in `/w/one-more`.

use crate::shell::{ShellState, Trap, Value};
use crate::{ByteString, SessionMeta, SessionState};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

/// Rewrites paths of a data directory's former locations to the current one. Idempotent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Relocation {
    moves: Vec<(ByteString, ByteString)>,
}

impl Relocation {
    /// From all former locations to this one.
    pub fn new(former: &[ByteString], here: &ByteString) -> Self {
        let below = |place: &ByteString| ByteString([place.as_bytes(), b"/workspaces"].concat());
        let moves = former.iter().filter(|place| *place != here).map(|place| {
            let is_above = here.as_bytes().strip_prefix(place.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"));
            // A former location that contains the current one would be rewritten again and again.
            if is_above { (below(place), below(here)) } else { (place.clone(), here.clone()) }
        });
        Self { moves: moves.collect() }
    }

    /// Relocates one path, or a text with paths in it.
    pub fn path(&self, text: &mut ByteString) {
        self.moves.iter().for_each(|(from, to)| replace(text, from.as_bytes(), to.as_bytes()));
    }

    /// Relocates a session's metadata.
    pub fn meta(&self, meta: &mut SessionMeta) {
        self.path(&mut meta.workspace);
    }

    /// Relocates a shell's state.
    pub fn shell(&self, shell: &mut ShellState) {
        self.moves.iter().for_each(|(from, to)| relocate(shell, from, to));
    }

    /// Relocates a session's state.
    pub fn state(&self, state: &mut SessionState) {
        if self.moves.is_empty() {
            return;
        }
        self.meta(&mut state.meta);
        self.shell(&mut state.shell);
        for service in state.services.values_mut() {
            self.path(&mut service.spec.cwd);
            self.path(&mut service.spec.command);
            for value in service.spec.env.values_mut() {
                let mut text = ByteString::from(value.as_str());
                self.path(&mut text);
                *value = text.to_text().into_owned();
            }
        }
    }
}

/// An absolute path without `.`, `..` and double slashes, as the `cd` of a shell counts them: `..` takes back the name before
/// it, also if that is a link's.
pub fn plain(path: &ByteString) -> ByteString {
    let mut plain = PathBuf::from("/");
    for part in path.as_path().components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    ByteString(plain.into_os_string().into_vec())
}

/// Whether a path goes up, so that its first names do not say where it leads.
pub fn goes_up(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
}

/// Replaces a directory by another in every path below it.
pub fn relocate(shell: &mut ShellState, from: &ByteString, to: &ByteString) {
    // Sessions of before that was done when they were created may work in `from/../other`, which is not below it.
    if goes_up(shell.cwd.as_path()) {
        shell.cwd = plain(&shell.cwd);
    }
    let moved = |text: &mut ByteString| replace(text, from.as_bytes(), to.as_bytes());
    moved(&mut shell.cwd);
    shell.directory_stack.iter_mut().for_each(moved);
    shell.positional.iter_mut().for_each(moved);
    shell.aliases.values_mut().for_each(moved);
    shell.functions.values_mut().for_each(|function| moved(&mut function.source));
    for trap in shell.traps.values_mut() {
        if let Trap::Run(command) = trap {
            moved(command);
        }
    }
    for variable in shell.variables.values_mut() {
        match &mut variable.value {
            Value::Value(text) => moved(text),
            Value::Array(elements) => elements.iter_mut().for_each(|(_, text)| moved(text)),
            Value::Map(elements) => elements.iter_mut().for_each(|(_, text)| moved(text)),
            Value::Declared(_) | Value::Removed(_) => {}
        }
    }
}

fn replace(text: &mut ByteString, from: &[u8], to: &[u8]) {
    let bytes = text.as_bytes();
    if from.is_empty() || bytes.len() < from.len() || !bytes.windows(from.len()).any(|window| window == from) {
        return;
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        let (before, after) = (&rest[..at], &rest[at + from.len()..]);
        let is_whole = !before.last().is_some_and(|byte| is_of_a_name(*byte))
            && !after.first().is_some_and(|byte| is_of_a_name(*byte));
        out.extend_from_slice(before);
        out.extend_from_slice(if is_whole { to } else { from });
        rest = after;
    }
    out.extend_from_slice(rest);
    *text = ByteString(out);
}

/// Whether a byte next to a path makes it a different path.
fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::Variable;

    #[test]
    fn a_path_is_found_only_as_a_whole() {
        let cases = [
            ("/w/one", "/w/two"),
            ("/w/one/bin:/usr/bin:/w/one", "/w/two/bin:/usr/bin:/w/two"),
            ("/w/one-more:/w/one.d:/x/w/one", "/w/one-more:/w/one.d:/x/w/one"),
            ("cd \"/w/one\" && ls '/w/one/a'", "cd \"/w/two\" && ls '/w/two/a'"),
            ("", ""),
        ];
        for (before, after) in cases {
            let mut text = before.into();
            replace(&mut text, b"/w/one", b"/w/two");
            assert_eq!(text, after.into(), "{before}");
        }
    }

    #[test]
    fn former_places_become_the_present_one_however_often() {
        let former = ["/a", "/b/data", "/c", "/c/d"].map(ByteString::from);
        let relocation = Relocation::new(&former, &"/c/d".into());
        let cases = [
            ("/a/workspaces/x", "/c/d/workspaces/x"),
            ("/b/data/workspaces/x/src", "/c/d/workspaces/x/src"),
            ("/c/workspaces/x", "/c/d/workspaces/x"),
            ("/c/d/workspaces/x", "/c/d/workspaces/x"),
            ("/c/other", "/c/other"),
            ("/b/database", "/b/database"),
        ];
        for (before, after) in cases {
            let mut text = before.into();
            for _ in 0..2 {
                relocation.path(&mut text);
                assert_eq!(text, after.into(), "{before}");
            }
        }
    }

    /// A fork of a session that worked in `/w/one/../other` got the files of `/data/workspaces/other`.
    #[test]
    fn what_only_begins_like_it_is_not_moved() {
        let cases = [("/w/one/../other", "/w/other"), ("/w/other/../one/src", "/data/two/src")];
        for (before, after) in cases {
            let mut shell = ShellState { cwd: before.into(), ..ShellState::default() };
            relocate(&mut shell, &"/w/one".into(), &"/data/two".into());
            assert_eq!(shell.cwd, after.into(), "{before}");
        }
    }

    #[test]
    fn a_plain_path_does_not_go_up() {
        for (before, after) in [
            ("/", "/"),
            ("/tmp/../usr", "/usr"),
            ("/usr//share/./", "/usr/share"),
            ("/../..", "/"),
            ("/a/b/../../c", "/c"),
        ] {
            assert_eq!(plain(&before.into()), after.into(), "{before}");
        }
    }

    #[test]
    fn everything_that_a_shell_knows_is_moved() {
        let mut shell = ShellState { cwd: "/w/one/src".into(), ..ShellState::default() };
        shell.variables.insert("VIRTUAL_ENV".into(), Variable::scalar("x", "/w/one/.venv"));
        shell.variables.insert("HOME".into(), Variable::scalar("x", "/home/a"));
        shell.aliases.insert("top".into(), "cd /w/one".into());
        let mut moved = shell.clone();
        relocate(&mut moved, &"/w/one".into(), &"/w/two".into());
        assert_eq!(moved.cwd, "/w/two/src".into());
        assert_eq!(moved.variables[&ByteString::from("VIRTUAL_ENV")], Variable::scalar("x", "/w/two/.venv"));
        assert_eq!(moved.variables[&ByteString::from("HOME")], shell.variables[&ByteString::from("HOME")]);
        assert_eq!(moved.aliases[&ByteString::from("top")], "cd /w/two".into());
        relocate(&mut moved, &"/w/two".into(), &"/w/one".into());
        assert_eq!(moved, shell);
    }
}
