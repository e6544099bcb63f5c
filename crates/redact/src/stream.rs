//! Masking a text that comes in pieces.

use crate::MASK;
use crate::core::Core;
use crate::hints::Hints;
use crate::rules::Rule;
use crate::scanner::{self, Scanner, Sink};
use crate::secrets::{self, Edit, Filter};
use crate::unveil::{self, Finder, Output, Unveil, Unveiled};
use std::ops::Range;
use std::sync::Arc;

/// Large pieces are taken in blocks, so that little memory is needed however large they are.
const BLOCK: usize = 32 * 1024;

/// Masks a text that comes in pieces. The result is that of [`crate::Redactor::redact`] on the whole, however it was cut.
///
/// Whole lines come out at once; of a line that has no end yet, and of a private key, at most [`Stream::MAX_HELD`] bytes are
/// held back.
pub struct Stream {
    core: Arc<Core>,
    hints: &'static Hints,
    unveil: Unveil,
    unveiled: Output,
    plain: Plain,
    given: u64,
}

/// Masks what is there as it is.
struct Plain {
    core: Arc<Core>,
    filter: Filter,
    scanner: Scanner,
    /// The text with the values masked, on its way from the filter to the scanner.
    between: Vec<u8>,
    edits: Vec<Edit>,
}

/// What was masked before the rules looked.
#[derive(Default)]
pub(crate) struct Before {
    /// Secrets in disguise, in the text as it was given.
    pub(crate) unveiled: Vec<Unveiled>,
    /// Values, in the text with those masked.
    pub(crate) values: Vec<Edit>,
}

/// How much was done for a text, to show that it is in proportion to its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Bytes of text.
    pub bytes: u64,
    /// Bytes that rules looked at, beside the one pass over the text; a byte counts each time.
    pub looked: u64,
}

impl Stream {
    /// The most bytes that are held back.
    pub const MAX_HELD: usize = scanner::HELD + secrets::HELD + unveil::HELD;

    pub(crate) fn new(core: Arc<Core>, hints: &'static Hints) -> Self {
        let plain = Plain::new(core.clone(), hints);
        Self { core, hints, unveil: Unveil::default(), unveiled: Output::default(), plain, given: 0 }
    }

    /// Takes a piece and appends to `out` what can be told by now.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        for block in piece.chunks(BLOCK) {
            self.feed(block, false, &mut Masked(out));
        }
    }

    /// Ends the text and appends the rest to `out`.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.end(&mut Masked(out));
    }

    /// How many bytes are held back at the moment.
    pub fn held(&self) -> usize {
        self.unveil.held() + self.plain.held()
    }

    /// How much was done so far.
    pub fn work(&self) -> Work {
        Work { bytes: self.given, looked: self.unveil.looked() + self.plain.looked() }
    }

    /// Takes a whole text for the sake of what is found in it. Gives what was masked before the rules looked.
    pub(crate) fn run(mut self, text: &[u8], sink: &mut impl Sink) -> Before {
        let mut before = Before::default();
        for block in text.chunks(BLOCK) {
            self.feed(block, false, sink);
            // The last one may still grow.
            let sure = self.plain.edits.len().saturating_sub(1);
            before.values.extend(self.plain.edits.drain(..sure));
            before.unveiled.append(&mut self.unveiled.masks);
        }
        self.end(sink);
        before.values.append(&mut self.plain.edits);
        before.unveiled.append(&mut self.unveiled.masks);
        before
    }

    fn end(&mut self, sink: &mut impl Sink) {
        self.feed(&[], true, sink);
    }

    fn feed(&mut self, piece: &[u8], last: bool, sink: &mut impl Sink) {
        self.given += piece.len() as u64;
        self.unveiled.text.clear();
        self.unveiled.masks.clear();
        let finder = Inside { core: &self.core, hints: self.hints };
        self.unveil.feed(&finder, piece, last, &mut self.unveiled);
        self.unveil.passed(self.unveiled.text.len());
        self.plain.feed(&self.unveiled.text, last, sink);
    }
}

impl Plain {
    fn new(core: Arc<Core>, hints: &'static Hints) -> Self {
        let scanner = Scanner::new(core.clone(), hints);
        Self { core, filter: Filter::default(), scanner, between: Vec::new(), edits: Vec::new() }
    }

    fn held(&self) -> usize {
        self.filter.held() + self.scanner.held()
    }

    fn looked(&self) -> u64 {
        self.scanner.looked() + self.filter.looked()
    }

    fn feed(&mut self, piece: &[u8], last: bool, sink: &mut impl Sink) {
        let Some(secrets) = &self.core.secrets else {
            return self.scanner.feed(piece, last, sink);
        };
        self.between.clear();
        self.filter.feed(secrets, piece, last, &mut self.between, &mut self.edits);
        self.scanner.feed(&self.between, last, sink);
    }
}

/// Finds what is as it is in what was in disguise.
struct Inside<'a> {
    core: &'a Arc<Core>,
    hints: &'static Hints,
}

impl Finder for Inside<'_> {
    fn find(&self, text: &[u8], looked: &mut u64) -> Vec<(Rule, Range<usize>)> {
        let mut regions = Regions::default();
        let mut plain = Plain::new(Arc::clone(self.core), self.hints);
        plain.feed(text, true, &mut regions);
        *looked += plain.looked();
        regions.in_text(&plain.edits)
    }
}

/// Writes the text with masks.
struct Masked<'a>(&'a mut Vec<u8>);

impl Sink for Masked<'_> {
    fn text(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn begin(&mut self, _rule: Rule, _at: u64) {
        self.0.extend_from_slice(MASK);
    }

    fn end(&mut self, _at: u64) {}
}

/// The regions that rules mask.
#[derive(Default)]
pub(crate) struct Regions(Vec<(Rule, Range<u64>)>);

impl Regions {
    /// What was found by rules and by value, in a text in which these values were masked, by where it begins.
    pub(crate) fn in_text(&self, values: &[Edit]) -> Vec<(Rule, Range<usize>)> {
        let in_text = |place: u64, end: bool| to_original(values, place, end);
        let by_rules =
            self.0.iter().map(|(rule, range)| (*rule, in_text(range.start, false)..in_text(range.end, true)));
        let registered = values.iter().map(|edit| (Rule::Registered, edit.start as usize..edit.end as usize));
        let mut found: Vec<_> = registered.chain(by_rules).collect();
        found.sort_by_key(|(_, range)| range.start);
        found
    }
}

/// Where a place of the text with masked values was in the text as it was given.
pub(crate) fn to_original(edits: &[Edit], place: u64, end: bool) -> usize {
    let after = edits.partition_point(|edit| edit.mask < place);
    let Some(edit) = after.checked_sub(1).map(|index| edits[index]) else { return place as usize };
    let behind = place - edit.mask;
    let mask = MASK.len() as u64;
    let original = match behind < mask {
        true if end => edit.end,
        true => edit.start,
        false => edit.end + behind - mask,
    };
    original as usize
}

impl Sink for Regions {
    fn text(&mut self, _bytes: &[u8]) {}

    fn begin(&mut self, rule: Rule, at: u64) {
        self.0.push((rule, at..at));
    }

    fn end(&mut self, at: u64) {
        if let Some((_, range)) = self.0.last_mut() {
            range.end = at;
        }
    }
}
