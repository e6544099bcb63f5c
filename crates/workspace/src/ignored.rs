//! What is not kept in a checkpoint: folders of dependencies and builds that can be made again, and what the workspace's
//! own `.gitignore` files name. Those are kept with the tree, and the list here is written into each checkpoint's
//! message, so a checkpoint says for itself what it left out.

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

/// Directories of these names hold what a package manager or a build makes again.
pub const FOLDERS: &[&str] = &[
    "node_modules",
    "bower_components",
    ".venv",
    "__pycache__",
    ".tox",
    ".nox",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".gradle",
    ".next",
    ".nuxt",
    ".turbo",
    ".parcel-cache",
    ".svelte-kit",
    ".terraform",
];
/// Files that end like this are made again from others.
pub const ENDINGS: &[&str] = &[".pyc"];
/// A directory with this file, if it begins as the convention says, is a cache: so says who made it (cargo, ccache, …).
pub const CACHE_MARK: &str = "CACHEDIR.TAG";
/// How a valid mark begins.
pub(crate) const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
/// A directory with this file is a virtual environment of Python, whatever it is called.
pub const ENVIRONMENT_MARK: &str = "pyvenv.cfg";
/// The workspace's own rules, in any directory.
pub const RULES_FILE: &str = ".gitignore";
/// Names of our own temporary files in a workspace begin with this.
pub const OURS: &str = ".shellkeep-";
/// A user's repository. Never looked into, never touched, and no rule brings it back.
pub const REPOSITORY: &str = ".git";
/// Rules beyond this many bytes are not read: no person wrote them, and compiling them takes memory.
pub(crate) const MAX_RULES_BYTES: u64 = 256 << 10;

/// Rules of one workspace, in all its directories together; compiled, one takes about half a kilobyte.
pub(crate) const MAX_RULES: u64 = 20_000;
/// Directories of one workspace that may bring rules: each compiled set has a price of its own, however small it is.
pub(crate) const MAX_RULES_FILES: u64 = 1000;

/// How many rules are in memory for one workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RulesUse {
    files: u64,
    rules: u64,
}

impl RulesUse {
    /// Compiles the rules in a file's text if there is room for them; none if there are none in it.
    pub fn compile(&mut self, text: &[u8]) -> Result<Option<Arc<Gitignore>>, TooManyRules> {
        let is_rule = |line: &&[u8]| !line.trim_ascii().is_empty() && !line.starts_with(b"#");
        let count = text.split(|byte| *byte == b'\n').filter(is_rule).count() as u64;
        if count == 0 {
            return Ok(None);
        }
        if self.files >= MAX_RULES_FILES || self.rules + count > MAX_RULES {
            return Err(TooManyRules);
        }
        let rules = parse(text);
        if let Some(rules) = &rules {
            self.files += 1;
            self.rules += count_of(rules);
        }
        Ok(rules)
    }

    /// These are no longer held.
    pub fn give_back(&mut self, rules: Option<Arc<Gitignore>>) {
        if let Some(rules) = rules {
            self.files = self.files.saturating_sub(1);
            self.rules = self.rules.saturating_sub(count_of(&rules));
        }
    }
}

/// There is no room for more rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyRules;

fn count_of(rules: &Gitignore) -> u64 {
    rules.num_ignores() + rules.num_whitelists()
}

/// What the rules of a workspace say about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is to be left out.
    Out,
    /// A rule with `!` wants it kept, also where our list would leave it out.
    Kept,
    /// Nothing.
    Unsaid,
}

/// The list in words, for a checkpoint's message.
pub fn in_words() -> String {
    let folders = FOLDERS.join("/ ");
    let endings: Vec<String> = ENDINGS.iter().map(|ending| format!("*{ending}")).collect();
    let endings = endings.join(" ");
    format!("{folders}/ {endings} {OURS}* {REPOSITORY}; directories with {CACHE_MARK} or {ENVIRONMENT_MARK}")
}

/// Whether no rule can bring this name into a checkpoint.
pub(crate) fn is_never_kept(name: &[u8]) -> bool {
    name == REPOSITORY.as_bytes() || name.starts_with(OURS.as_bytes())
}

/// Whether our own list leaves this name out.
pub(crate) fn is_by_default(name: &[u8], is_directory: bool) -> bool {
    if is_directory {
        FOLDERS.iter().any(|folder| folder.as_bytes() == name)
    } else {
        ENDINGS.iter().any(|ending| name.ends_with(ending.as_bytes()))
    }
}

/// Whether a change of this file may change what else is kept beside and below it.
pub(crate) fn decides(name: &[u8]) -> bool {
    [RULES_FILE, CACHE_MARK, ENVIRONMENT_MARK].iter().any(|file| file.as_bytes() == name)
}

/// The rules in a file's text. A line that is not a rule is skipped, as git does.
pub(crate) fn parse(text: &[u8]) -> Option<Arc<Gitignore>> {
    // "." stands for: paths are given relative to the file's directory, nothing is cut off.
    let mut builder = GitignoreBuilder::new(".");
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Ok(line) = std::str::from_utf8(line) {
            let _ = builder.add_line(None, line.trim_start_matches('\u{feff}'));
        }
    }
    builder.build().ok().filter(|rules| !rules.is_empty()).map(Arc::new)
}

/// The rules that hold at some place: those of each directory on the way down.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// With the length of the path, with its slash, of the directory that they are relative to.
    levels: Vec<(usize, Arc<Gitignore>)>,
}

impl Rules {
    /// Goes into the directory at `path`. Gives whether there is a level to leave again.
    pub fn enter(&mut self, path: &[u8], rules: Option<&Arc<Gitignore>>) -> bool {
        let from = if path.is_empty() { 0 } else { path.len() + 1 };
        self.levels.extend(rules.map(|rules| (from, Arc::clone(rules))));
        rules.is_some()
    }

    pub fn leave(&mut self, entered: bool) {
        if entered {
            self.levels.pop();
        }
    }

    /// The last rule of the deepest directory that says something decides.
    pub fn judge(&self, path: &[u8], is_directory: bool) -> Verdict {
        for (from, rules) in self.levels.iter().rev() {
            let below = Path::new(OsStr::from_bytes(&path[*from..]));
            match rules.matched(below, is_directory) {
                Match::None => {}
                Match::Ignore(_) => return Verdict::Out,
                Match::Whitelist(_) => return Verdict::Kept,
            }
        }
        Verdict::Unsaid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_so_many_rules_and_no_more() {
        let mut held = RulesUse::default();
        let many: Vec<u8> = (0..MAX_RULES / 2).flat_map(|n| format!("a{n}\n# no rule\n\n").into_bytes()).collect();
        let first = held.compile(&many).unwrap();
        assert!(held.compile(&many).unwrap().is_some());
        assert_eq!(held.compile(b"one\n").unwrap_err(), TooManyRules);
        assert!(held.compile(b"# nothing\n").unwrap().is_none());
        held.give_back(first);
        assert!(held.compile(b"one\n").unwrap().is_some());
        let mut held = RulesUse::default();
        for _ in 0..MAX_RULES_FILES {
            held.compile(b"*.o\n").unwrap();
        }
        assert_eq!(held.compile(b"*.o\n").unwrap_err(), TooManyRules);
    }

    #[test]
    fn the_deepest_rule_decides_and_may_bring_back() {
        let mut rules = Rules::default();
        let top = parse(b"*.log\n/build/\n!node_modules/\n\xff\xfe\n").unwrap();
        let below = parse(b"!keep.log\r\n").unwrap();
        assert!(rules.enter(b"", Some(&top)));
        assert!(rules.enter(b"src", Some(&below)));
        for (path, is_directory, expected) in [
            (&b"src/a.log"[..], false, Verdict::Out),
            (b"src/keep.log", false, Verdict::Kept),
            (b"src/build", true, Verdict::Unsaid),
            (b"src/x\n\xff.log", false, Verdict::Out),
            (b"src/node_modules", true, Verdict::Kept),
            (b"src/main.rs", false, Verdict::Unsaid),
        ] {
            assert_eq!(rules.judge(path, is_directory), expected, "{}", path.escape_ascii());
        }
        rules.leave(true);
        assert_eq!(rules.judge(b"build", true), Verdict::Out);
        assert_eq!(rules.judge(b"build", false), Verdict::Unsaid);
        assert_eq!(rules.judge(b"keep.log", false), Verdict::Out);
    }

    #[test]
    fn our_list_is_told_in_words() {
        assert!(is_by_default(b"node_modules", true) && !is_by_default(b"node_modules", false));
        assert!(is_by_default(b"a.pyc", false) && !is_by_default(b"a.pyc", true));
        assert!(is_never_kept(b".git") && !is_never_kept(b".github") && is_never_kept(b".shellkeep-stage-1"));
        assert!(in_words().contains("node_modules/ bower_components/"));
        assert!(parse(b"# nothing\n\n").is_none());
    }
}
