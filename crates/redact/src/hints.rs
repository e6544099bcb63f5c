//! The prefilter: one automaton for all texts by which secrets are noticed. It steps through the text byte by byte and
//! keeps its state between pieces, so a hint that is split over two pieces is noticed like any other.

use crate::config::ConfigError;
use crate::found::Found;
use crate::rules::token::{self, Token};
use crate::rules::{
    ai, assignment, cloud, command, developer, email, header, jwt, messaging, pair, password_hash, private_key,
    unprefixed, url,
};
use crate::view::View;
use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::noncontiguous::NFA;
use aho_corasick::{Anchored, MatchKind};
use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

/// A rule by its function: where its hint begins and ends.
type Check = fn(&View, usize, usize) -> Option<Found>;

/// The rule that looks closer at a hint.
enum Reader {
    Token(&'static Token),
    Check(Check),
}

/// The automaton and what its hints mean.
pub(crate) struct Hints {
    /// Where a step leads, by state and kind of byte.
    table: Vec<State>,
    /// Kinds of bytes: those that no hint holds are one, and a letter is the same as its capital.
    kinds: [u8; 256],
    /// How many kinds there are.
    stride: usize,
    /// By state: the hints that end there, each with its length and who looks.
    ends: Vec<Vec<u16>>,
    readers: Vec<(usize, Reader)>,
}

/// A state of the automaton: its place in the table, and whether hints end there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct State(u32);

/// The bit of a [`State`] in which hints end.
const HIT: u32 = 1 << 31;

impl State {
    /// Whether hints end in this state.
    #[inline]
    pub(crate) fn is_hit(self) -> bool {
        self.0 & HIT != 0
    }

    #[inline]
    fn place(self) -> usize {
        (self.0 & !HIT) as usize
    }
}

/// The automaton's steps, for the loop over all bytes.
pub(crate) struct Steps<'a> {
    table: &'a [State],
    kinds: &'a [u8; 256],
}

impl Steps<'_> {
    /// The state after one more byte.
    #[inline]
    pub(crate) fn next(&self, state: State, byte: u8) -> State {
        self.table[state.place() + usize::from(self.kinds[usize::from(byte)])]
    }
}

impl Hints {
    /// The hints of all rules, made once.
    pub(crate) fn get() -> Result<&'static Self, ConfigError> {
        static HINTS: OnceLock<Result<Hints, ConfigError>> = OnceLock::new();
        HINTS.get_or_init(Self::build).as_ref().map_err(Clone::clone)
    }

    fn build() -> Result<Self, ConfigError> {
        let too_large = |detail: String| ConfigError::TooLarge { detail };
        let (texts, readers): (Vec<&str>, Vec<(usize, Reader)>) =
            all().map(|(text, reader)| (text, (text.len(), reader))).unzip();
        let automaton = NFA::builder()
            .match_kind(MatchKind::Standard)
            .ascii_case_insensitive(true)
            .prefilter(false)
            .build(&texts)
            .map_err(|error| too_large(error.to_string()))?;
        let start = automaton.start_state(Anchored::No).map_err(|error| too_large(error.to_string()))?;
        let (kinds, bytes) = kinds_of(&texts);
        Ok(Self::flat(&automaton, start, kinds, &bytes, readers))
    }

    /// Writes the automaton down as one table, from its first state on. A step through it is one load.
    fn flat(automaton: &NFA, start: StateID, kinds: [u8; 256], bytes: &[u8], readers: Vec<(usize, Reader)>) -> Self {
        let stride = bytes.len();
        let mut states = vec![start];
        let mut known = HashMap::from([(start, 0)]);
        let (mut table, mut ends) = (Vec::new(), Vec::new());
        let mut at = 0;
        while let Some(state) = states.get(at).copied() {
            for byte in bytes {
                let next = automaton.next_state(Anchored::No, state, *byte);
                let place = *known.entry(next).or_insert_with(|| {
                    states.push(next);
                    states.len() - 1
                });
                let hit = if automaton.is_match(next) { HIT } else { 0 };
                table.push(State((place * stride) as u32 | hit));
            }
            let ending = if automaton.is_match(state) { automaton.match_len(state) } else { 0 };
            ends.push((0..ending).map(|index| automaton.match_pattern(state, index).as_usize() as u16).collect());
            at += 1;
        }
        Self { table, kinds, stride, ends, readers }
    }

    /// The state before the first byte.
    pub(crate) fn start(&self) -> State {
        State(0)
    }

    /// Its steps.
    #[inline]
    pub(crate) fn steps(&self) -> Steps<'_> {
        Steps { table: &self.table, kinds: &self.kinds }
    }

    /// What the rules find whose hints end at `end`, in the order of the rules.
    pub(crate) fn read<'a>(&'a self, view: &'a View<'a>, state: State, end: usize) -> impl Iterator<Item = Found> + 'a {
        self.ends[state.place() / self.stride].iter().filter_map(move |hint| {
            let (length, reader) = &self.readers[usize::from(*hint)];
            let start = end - length;
            match reader {
                Reader::Token(token) => token::find(view, token, start, end),
                Reader::Check(check) => check(view, start, end),
            }
        })
    }
}

/// The kind of each byte in these texts, and a byte of each kind.
fn kinds_of(texts: &[&str]) -> ([u8; 256], Vec<u8>) {
    let held: BTreeSet<u8> = texts.iter().flat_map(|text| text.bytes()).map(|byte| byte.to_ascii_lowercase()).collect();
    // No text holds a zero.
    let bytes: Vec<u8> = std::iter::once(0).chain(held).collect();
    let kind = |byte: u8| bytes.binary_search(&byte.to_ascii_lowercase()).unwrap_or(0) as u8;
    (std::array::from_fn(|byte| kind(byte as u8)), bytes)
}

/// Every hint with who looks at it.
fn all() -> impl Iterator<Item = (&'static str, Reader)> {
    let tokens = [ai::TOKENS, developer::TOKENS, cloud::TOKENS, messaging::TOKENS].into_iter().flatten();
    let tokens = tokens.map(|token| (token.prefix, Reader::Token(token)));
    let check = |check: Check| move |text: &'static str| (text, Reader::Check(check));
    let single: &[(&str, Check)] = &[
        ("eyJ", jwt::find),
        ("Q~", unprefixed::azure),
        ("AZDO", unprefixed::devops),
        (".atlasv1.", unprefixed::terraform),
        (":AA", messaging::telegram),
        ("@", email::find),
        ("://", url::find),
        ("sig=", url::query),
        ("code=", url::query),
        (private_key::ENCODED, private_key::encoded),
        ("value", pair::find),
        ("<string>", pair::element),
        ("\" -> \"", assignment::changed),
        ("bearer", header::bearer),
        ("basic", header::basic),
        (" -u", command::user_flag),
        ("--user", command::user_flag),
        ("--proxy-user", command::user_flag),
        ("--auth", command::user_flag),
        ("echo ", command::echoed),
        ("identified by", assignment::identified_by),
    ];
    tokens
        .chain(cloud::AWS_PREFIXES.iter().copied().map(check(cloud::aws)))
        .chain(messaging::WEBHOOKS.iter().copied().map(check(messaging::webhook)))
        .chain(private_key::HINTS.iter().copied().map(check(private_key::find)))
        .chain(password_hash::HINTS.iter().copied().map(check(password_hash::find)))
        .chain(assignment::FOREIGN.iter().copied().map(check(assignment::foreign)))
        .chain(assignment::KEYWORDS.iter().copied().map(check(assignment::keyword)))
        .chain(command::names().map(check(command::program)))
        .chain(command::SHARES.iter().copied().map(check(command::share)))
        .chain(url::PORTS.iter().copied().map(check(url::password_file)))
        .chain(single.iter().map(|(text, found)| (*text, Reader::Check(*found))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::LOOK_BACK;

    #[test]
    fn hints_are_short_and_have_no_mask_in_them() {
        for (text, _) in all() {
            assert!(text.len() <= LOOK_BACK / 2 && !text.contains(['*', '\n', '\0']), "{text}");
        }
        assert!(Hints::get().is_ok());
    }
}
