//! The secrets that one session is given, with their values, and how they are kept out of its state.
//!
//! A command finds a secret in a variable for that command alone, so the variable itself is never part of the state. What
//! a command copies from it is: `export X=$TOKEN` is a variable of the session. There the value is replaced by a mark with
//! the secret's name before anything is written down, and the mark by the value when a shell is restored. What holds the
//! value in another form, such as base64, is masked and cannot be restored.

use memchr::memmem;
use shellkeep_process::Fact;
use shellkeep_redact::Redactor;
use shellkeep_session::ByteString;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// What stands around the name of a secret in a session's state.
const MARK: (&str, &str) = ("⟨secret:", "⟩");
/// Most bytes of values that take the place of marks in what one shell, service or agent is started with. A mark has some
/// twenty bytes and a value up to 64 KiB, so a state of a megabyte could become gigabytes; this is 256 copies of the longest.
pub const MOST_FILLED: usize = 16 << 20;
/// Most bytes of values in a path: a longer one cannot be entered.
const MOST_IN_PATH: usize = 4096;

/// The secrets of a session.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct GivenSecrets {
    /// By name.
    current: BTreeMap<String, Vec<u8>>,
    /// Every value that one of them has or had since the daemon started, with its name.
    values: BTreeMap<Vec<u8>, String>,
}

impl fmt::Debug for GivenSecrets {
    /// Without the values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.current.keys()).finish()
    }
}

impl GivenSecrets {
    /// Adds a secret. `values` are all that it has or had, and `current` is the one that commands get, if there is one.
    pub fn add(&mut self, name: &str, current: Option<Vec<u8>>, values: &BTreeSet<Vec<u8>>) {
        self.values.extend(values.iter().map(|value| (value.clone(), name.to_owned())));
        if let Some(current) = current {
            self.values.insert(current.clone(), name.to_owned());
            self.current.insert(name.to_owned(), current);
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The variables that a command, a service or an agent gets: the secrets, and its own, which come first.
    pub fn variables(&self, own: &BTreeMap<String, String>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let secrets = self.current.iter().filter(|(name, _)| !own.contains_key(*name));
        let secrets = secrets.map(|(name, value)| (name.clone().into_bytes(), value.clone()));
        let own = own.iter().map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes()));
        secrets.chain(own).collect()
    }

    /// Everything that must be masked.
    pub fn values(&self) -> impl Iterator<Item = &[u8]> {
        self.values.keys().map(Vec::as_slice)
    }

    /// How many bytes these have.
    pub fn bytes(&self) -> usize {
        self.values().map(<[u8]>::len).sum()
    }

    /// Replaces the values in what a shell reports by marks, and masks other forms of them. What has one in its name is left
    /// out: no shell could be given the masked name. So is a move to a directory with another form of one in its path: no
    /// shell could enter the masked path, and the session stays where it was. Returns whether there was such a move.
    pub fn hide(&self, facts: &mut Vec<Fact>, redactor: &Redactor) -> bool {
        if self.is_empty() {
            return false;
        }
        facts.retain(|fact| name(fact).is_none_or(|name| redactor.redact(name) == name));
        let (values, mut stays) = (self.longest_first(), false);
        facts.retain_mut(|fact| {
            let mut is_first_masked = false;
            for (number, text) in texts(fact).into_iter().enumerate() {
                set_marks(text, &values);
                let masked = redactor.redact(text);
                if masked != *text {
                    *text = masked;
                    is_first_masked |= number == 0;
                }
            }
            let is_move = is_first_masked && matches!(fact, Fact::Directories(_));
            stays |= is_move;
            !is_move
        });
        if stays {
            facts.retain(|fact| !matches!(name(fact), Some(b"PWD" | b"OLDPWD")));
        }
        stays
    }

    /// Replaces the values in a text by marks.
    pub fn mark(&self, text: &mut Vec<u8>) {
        set_marks(text, &self.longest_first());
    }

    /// A value may be part of another.
    fn longest_first(&self) -> Vec<(&[u8], &str)> {
        let mut values: Vec<_> = self.values.iter().map(|(value, name)| (value.as_slice(), name.as_str())).collect();
        values.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        values
    }

    /// The directory that a path in a session's state means.
    pub fn directory(&self, kept: &ByteString) -> PathBuf {
        let (mut path, mut room) = (kept.0.clone(), MOST_IN_PATH);
        // One that has no room for the values stays as it is, and does not exist.
        self.fill([&mut path], &mut room);
        PathBuf::from(OsString::from_vec(path))
    }

    /// Replaces the marks in what a shell is restored with by the values. Returns what is left as it is, because there would
    /// be more than [`MOST_FILLED`] bytes of them.
    pub fn fill_in(&self, facts: &mut [Fact]) -> Vec<String> {
        if self.current.is_empty() {
            return Vec::new();
        }
        let (mut room, mut left) = (MOST_FILLED, Vec::new());
        for fact in facts {
            let is_filled = self.fill(texts(fact), &mut room);
            left.extend((!is_filled).then(|| called(fact)));
        }
        left
    }

    /// Replaces the marks in texts that belong together, if there is room for the values, and takes that. Returns whether
    /// there was.
    pub fn fill<'a>(&self, texts: impl IntoIterator<Item = &'a mut Vec<u8>>, room: &mut usize) -> bool {
        let texts: Vec<&mut Vec<u8>> = texts.into_iter().collect();
        let needed: usize = texts.iter().flat_map(|text| self.marks(text)).map(|(_, value)| value.len()).sum();
        let Some(rest) = room.checked_sub(needed) else { return false };
        *room = rest;
        if needed > 0 {
            texts.into_iter().for_each(|text| self.fill_text(text));
        }
        true
    }

    fn fill_text(&self, text: &mut Vec<u8>) {
        let (mut filled, mut end) = (Vec::new(), 0);
        for (mark, value) in self.marks(text) {
            filled.extend_from_slice(&text[end..mark.start]);
            filled.extend_from_slice(value);
            end = mark.end;
        }
        if end > 0 {
            filled.extend_from_slice(&text[end..]);
            *text = filled;
        }
    }

    /// The marks in a text, each with the value that it stands for.
    fn marks<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = (Range<usize>, &'a [u8])> {
        memmem::find_iter(text, MARK.0).filter_map(move |start| {
            let name_and_more = &text[start + MARK.0.len()..];
            self.current.iter().find_map(|(name, value)| {
                name_and_more.strip_prefix(name.as_bytes())?.strip_prefix(MARK.1.as_bytes())?;
                Some((start..start + mark(name).len(), value.as_slice()))
            })
        })
    }
}

fn mark(name: &str) -> String {
    format!("{}{name}{}", MARK.0, MARK.1)
}

fn set_marks(text: &mut Vec<u8>, values: &[(&[u8], &str)]) {
    for (value, name) in values {
        replace(text, value, mark(name).as_bytes());
    }
}

/// Replaces one text by another wherever it is.
fn replace(text: &mut Vec<u8>, from: &[u8], to: &[u8]) {
    let mut places = memmem::find_iter(text, from).peekable();
    if places.peek().is_none() {
        return;
    }
    let (mut replaced, mut end) = (Vec::with_capacity(text.len()), 0);
    for at in places {
        replaced.extend_from_slice(&text[end..at]);
        replaced.extend_from_slice(to);
        end = at + from.len();
    }
    replaced.extend_from_slice(&text[end..]);
    *text = replaced;
}

fn name(fact: &Fact) -> Option<&[u8]> {
    match fact {
        Fact::Scalar { name, .. }
        | Fact::Array { name, .. }
        | Fact::Map { name, .. }
        | Fact::Declared { name, .. }
        | Fact::TooLarge { name }
        | Fact::Removed { name }
        | Fact::Forgotten { name }
        | Fact::Function { name, .. }
        | Fact::FunctionGone { name } => Some(name),
        _ => None,
    }
}

/// What a fact is called in a sentence.
fn called(fact: &Fact) -> String {
    match fact {
        Fact::Aliases(_) => "the aliases".to_owned(),
        Fact::Traps(_) => "the traps".to_owned(),
        Fact::Positional(_) => "the positional parameters".to_owned(),
        Fact::Directories(_) => "the directory stack".to_owned(),
        other => String::from_utf8_lossy(name(other).unwrap_or(b"$0")).into_owned(),
    }
}

/// Every text of a fact that a command can choose, besides names.
fn texts(fact: &mut Fact) -> Vec<&mut Vec<u8>> {
    match fact {
        Fact::Scalar { value: text, .. } | Fact::Function { source: text, .. } | Fact::Argv0(text) => vec![text],
        Fact::Array { elements, .. } => elements.iter_mut().map(|(_, value)| value).collect(),
        Fact::Map { pairs, .. } | Fact::Aliases(pairs) => {
            pairs.iter_mut().flat_map(|(key, value)| [key, value]).collect()
        }
        Fact::Traps(traps) => traps.iter_mut().filter_map(|(_, command)| command.as_mut()).collect(),
        Fact::Directories(list) | Fact::Positional(list) => list.iter_mut().collect(),
        Fact::Declared { .. }
        | Fact::TooLarge { .. }
        | Fact::Removed { .. }
        | Fact::Forgotten { .. }
        | Fact::FunctionGone { .. }
        | Fact::SetOptions(_)
        | Fact::ShoptOptions(_)
        | Fact::Umask(_)
        | Fact::Limits(_)
        | Fact::DisabledBuiltins(_)
        | Fact::Status(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: &str = "horse-battery-staple";

    fn given() -> (GivenSecrets, Redactor) {
        let mut given = GivenSecrets::default();
        given.add("TOKEN", Some(VALUE.into()), &BTreeSet::from([b"an-older-value".to_vec()]));
        let redactor = shellkeep_record::scrub::redactor(given.values()).unwrap();
        (given, redactor)
    }

    fn scalar(value: &str) -> Fact {
        Fact::Scalar { name: b"X".to_vec(), attributes: 1, value: value.into() }
    }

    #[test]
    fn a_value_is_hidden_in_every_kind_of_fact_and_filled_in_again() {
        let (given, redactor) = given();
        let text = || format!("a {VALUE} and {VALUE}").into_bytes();
        let facts = vec![
            Fact::Scalar { name: b"S".to_vec(), attributes: 1, value: text() },
            Fact::Array { name: b"A".to_vec(), attributes: 0, elements: vec![(3, text())] },
            Fact::Map { name: b"M".to_vec(), attributes: 0, pairs: vec![(text(), text())] },
            Fact::Function { name: b"f".to_vec(), attributes: 0, source: text() },
            Fact::Aliases(vec![(b"a".to_vec(), text())]),
            Fact::Traps(vec![(2, Some(text())), (15, None)]),
            Fact::Directories(vec![text()]),
            Fact::Positional(vec![text()]),
            Fact::Argv0(text()),
        ];
        let mut hidden = facts.clone();
        given.hide(&mut hidden, &redactor);
        let shown = format!("{hidden:?}");
        assert!(!shown.contains(&format!("{:?}", VALUE.as_bytes()).replace(['[', ']'], "")), "{shown}");
        assert!(given.fill_in(&mut hidden).is_empty());
        assert_eq!(hidden, facts);
    }

    #[test]
    fn an_older_value_becomes_the_new_one_and_other_forms_are_masked() {
        let (given, redactor) = given();
        let mut facts = vec![scalar("an-older-value"), scalar("aG9yc2UtYmF0dGVyeS1zdGFwbGU="), scalar("other")];
        given.hide(&mut facts, &redactor);
        assert_eq!(facts, [scalar("⟨secret:TOKEN⟩"), scalar("***"), scalar("other")]);
        given.fill_in(&mut facts);
        assert_eq!(facts[0], scalar(VALUE));
    }

    /// A directory with a masked path cannot be entered: every command of the session was refused from then on.
    #[test]
    fn a_directory_with_a_value_in_its_path_can_be_entered_again() {
        let (given, redactor) = given();
        let kept = |paths: &[&str]| {
            let mut facts = vec![Fact::Directories(paths.iter().map(|path| path.as_bytes().to_vec()).collect())];
            given.hide(&mut facts, &redactor);
            facts
        };
        let inside = format!("/tmp/{VALUE}/x");
        let marked = [Fact::Directories(vec!["/tmp/⟨secret:TOKEN⟩/x".into(), b"/".to_vec()])];
        assert_eq!(kept(&[&inside, "/"]), marked);
        assert_eq!(given.directory(&"/tmp/⟨secret:TOKEN⟩/x".into()), PathBuf::from(&inside));
        assert!(kept(&["/tmp/aG9yc2UtYmF0dGVyeS1zdGFwbGU=", "/"]).is_empty(), "it stays where it was");
        let stack = [Fact::Directories(vec![b"/".to_vec(), b"/tmp/***".to_vec()])];
        assert_eq!(kept(&["/", "/tmp/aG9yc2UtYmF0dGVyeS1zdGFwbGU="]), stack);
    }

    /// A variable of 200 kB with sixteen thousand marks for a value of 60 kB became a gigabyte in each new shell.
    #[test]
    fn marks_are_filled_as_long_as_there_is_room_for_the_values() {
        let value: String = ('a'..='z').cycle().take(60_000).collect();
        let mut given = GivenSecrets::default();
        given.add("K", Some(value.clone().into_bytes()), &BTreeSet::new());
        let copies = |count: usize| scalar(&"⟨secret:K⟩".repeat(count));
        let mut facts = [copies(200), copies(1 << 14), copies(2), Fact::Positional(vec![b"x".to_vec()])];
        assert_eq!(given.fill_in(&mut facts), ["X"]);
        let filled = |count: usize| scalar(&value.repeat(count));
        assert_eq!(facts, [filled(200), copies(1 << 14), filled(2), Fact::Positional(vec![b"x".to_vec()])]);
        let long = ByteString::from("/tmp/⟨secret:K⟩");
        assert_eq!(given.directory(&long), PathBuf::from("/tmp/⟨secret:K⟩"), "no path is that long");
    }

    /// A value that looks like a mark is not one.
    #[test]
    fn what_is_filled_in_is_not_filled_in_again() {
        let mut given = GivenSecrets::default();
        given.add("A", Some("x ⟨secret:B⟩".into()), &BTreeSet::new());
        given.add("B", Some(VALUE.into()), &BTreeSet::new());
        let mut facts = [scalar("⟨secret:⟨secret:A⟩ ⟨secret:B⟩ ⟨secret:B")];
        assert!(given.fill_in(&mut facts).is_empty());
        assert_eq!(facts, [scalar(&format!("⟨secret:x ⟨secret:B⟩ {VALUE} ⟨secret:B"))]);
    }

    #[test]
    fn a_variable_of_its_own_comes_before_the_secret() {
        let (mut given, _) = given();
        given.add("KEY", Some(b"another-value".to_vec()), &BTreeSet::new());
        let pair = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        let own = [("A", "1"), ("TOKEN", "own")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let expected = [pair("KEY", "another-value"), pair("A", "1"), pair("TOKEN", "own")];
        assert_eq!(given.variables(&BTreeMap::from(own)), expected);
    }

    #[test]
    fn a_name_with_a_value_is_left_out_and_marks_of_others_stay() {
        let (given, redactor) = given();
        let mut facts = vec![Fact::FunctionGone { name: VALUE.into() }, scalar("⟨secret:OTHER⟩")];
        given.hide(&mut facts, &redactor);
        given.fill_in(&mut facts);
        assert_eq!(facts, [scalar("⟨secret:OTHER⟩")]);
        assert_eq!(format!("{given:?}"), "{\"TOKEN\"}");
    }
}
