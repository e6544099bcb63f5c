//! The prefilter: one automaton for all texts by which secrets are noticed. It steps through the text byte by byte and
//! keeps its state between pieces, so a hint that is split over two pieces is noticed like any other.

use crate::config::ConfigError;
use crate::found::Found;
use crate::rules::token::{self, Token};
use crate::rules::{
    ai, assignment, cloud, command, developer, email, header, jwt, messaging, private_key, unprefixed, url,
};
use crate::view::View;
use aho_corasick::automaton::Automaton;
use aho_corasick::dfa::DFA;
use aho_corasick::{Anchored, MatchKind, StartKind};
use std::sync::OnceLock;

pub(crate) use aho_corasick::automaton::StateID;

/// A rule by its function: where its hint begins and ends.
type Check = fn(&View, usize, usize) -> Option<Found>;

/// Who looks when a hint was noticed.
enum Reader {
    Token(&'static Token),
    Check(Check),
}

/// The automaton and what its hints mean.
pub(crate) struct Hints {
    automaton: DFA,
    start: StateID,
    /// By the automaton's numbers for its patterns: the length of the hint, and who looks.
    readers: Vec<(usize, Reader)>,
}

impl Hints {
    /// The hints of all rules, made once.
    pub(crate) fn get() -> Result<&'static Self, ConfigError> {
        static HINTS: OnceLock<Result<Hints, ConfigError>> = OnceLock::new();
        HINTS.get_or_init(Self::build).as_ref().map_err(Clone::clone)
    }

    fn build() -> Result<Self, ConfigError> {
        let (texts, readers): (Vec<&str>, Vec<(usize, Reader)>) =
            all().map(|(text, reader)| (text, (text.len(), reader))).unzip();
        let automaton = DFA::builder()
            .match_kind(MatchKind::Standard)
            .start_kind(StartKind::Unanchored)
            .ascii_case_insensitive(true)
            .prefilter(false)
            .build(&texts)
            .map_err(|error| ConfigError::TooLarge { detail: error.to_string() })?;
        let start =
            automaton.start_state(Anchored::No).map_err(|error| ConfigError::TooLarge { detail: error.to_string() })?;
        Ok(Self { automaton, start, readers })
    }

    /// The state before the first byte.
    pub(crate) fn start(&self) -> StateID {
        self.start
    }

    /// The state after one more byte.
    #[inline]
    pub(crate) fn step(&self, state: StateID, byte: u8) -> StateID {
        self.automaton.next_state(Anchored::No, state, byte)
    }

    /// Whether hints end in this state.
    #[inline]
    pub(crate) fn is_hit(&self, state: StateID) -> bool {
        self.automaton.is_special(state) && self.automaton.is_match(state)
    }

    /// What the rules find whose hints end at `end`, in the order of the rules.
    pub(crate) fn read<'a>(
        &'a self,
        view: &'a View<'a>,
        state: StateID,
        end: usize,
    ) -> impl Iterator<Item = Found> + 'a {
        let hits = (0..self.automaton.match_len(state)).map(move |index| self.automaton.match_pattern(state, index));
        hits.filter_map(move |pattern| {
            let (length, reader) = &self.readers[pattern.as_usize()];
            let start = end - length;
            match reader {
                Reader::Token(token) => token::find(view, token, start, end),
                Reader::Check(check) => check(view, start, end),
            }
        })
    }
}

/// Every hint with who looks at it.
fn all() -> impl Iterator<Item = (&'static str, Reader)> {
    let tokens = [ai::TOKENS, developer::TOKENS, cloud::TOKENS, messaging::TOKENS].into_iter().flatten();
    let tokens = tokens.map(|token| (token.prefix, Reader::Token(token)));
    let check = |check: Check| move |text: &'static str| (text, Reader::Check(check));
    let single: &[(&str, Check)] = &[
        ("eyJ", jwt::find),
        ("Q~", unprefixed::azure),
        (".atlasv1.", unprefixed::terraform),
        (":AA", messaging::telegram),
        ("@", email::find),
        ("://", url::find),
        ("bearer", header::bearer),
        ("basic", header::basic),
        (" -u", command::user_flag),
        ("--user", command::user_flag),
        ("--proxy-user", command::user_flag),
        ("identified by", assignment::identified_by),
    ];
    tokens
        .chain(cloud::AWS_PREFIXES.iter().copied().map(check(cloud::aws)))
        .chain(messaging::WEBHOOKS.iter().copied().map(check(messaging::webhook)))
        .chain(private_key::HINTS.iter().copied().map(check(private_key::find)))
        .chain(assignment::KEYWORDS.iter().copied().map(check(assignment::keyword)))
        .chain(command::names().map(check(command::program)))
        .chain(single.iter().map(|(text, found)| (*text, Reader::Check(*found))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::LOOK_BACK;

    #[test]
    fn hints_are_short_and_have_no_mask_in_them() {
        for (text, _) in all() {
            assert!(text.len() <= LOOK_BACK / 2 && !text.contains('*') && !text.contains('\n'), "{text}");
        }
        assert!(Hints::get().is_ok());
    }
}
