//! Masking a text that comes in pieces.

use crate::MASK;
use crate::hints::Hints;
use crate::redactor::Core;
use crate::rules::Rule;
use crate::scanner::{self, Scanner, Sink};
use crate::secrets::{self, Edit, Filter};
use std::sync::Arc;

/// Large pieces are taken in blocks, so that little memory is needed however large they are.
const BLOCK: usize = 32 * 1024;

/// Masks a text that comes in pieces. The result is that of [`crate::Redactor::redact`] on the whole, however it was cut.
///
/// Whole lines come out at once; of a line that has no end yet, and of a private key, at most [`Stream::MAX_HELD`] bytes are
/// held back.
pub struct Stream {
    core: Arc<Core>,
    filter: Filter,
    scanner: Scanner,
    /// The text with the values masked, on its way from the filter to the scanner.
    between: Vec<u8>,
    edits: Vec<Edit>,
    given: u64,
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
    pub const MAX_HELD: usize = scanner::HELD + secrets::HELD;

    pub(crate) fn new(core: Arc<Core>, hints: &'static Hints) -> Self {
        let scanner = Scanner::new(core.clone(), hints);
        Self { core, filter: Filter::default(), scanner, between: Vec::new(), edits: Vec::new(), given: 0 }
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
        self.filter.held() + self.scanner.held()
    }

    /// How much was done so far.
    pub fn work(&self) -> Work {
        Work { bytes: self.given, looked: self.scanner.looked() + self.filter.looked() }
    }

    /// Takes a whole text for the sake of what is found in it. Gives the values that were masked before the rules looked.
    pub(crate) fn run(mut self, text: &[u8], sink: &mut impl Sink) -> Vec<Edit> {
        let mut edits = Vec::new();
        for block in text.chunks(BLOCK) {
            self.feed(block, false, sink);
            // The last one may still grow.
            edits.extend(self.edits.drain(..self.edits.len().saturating_sub(1)));
        }
        self.end(sink);
        edits.append(&mut self.edits);
        edits
    }

    fn end(&mut self, sink: &mut impl Sink) {
        self.feed(&[], true, sink);
    }

    fn feed(&mut self, piece: &[u8], last: bool, sink: &mut impl Sink) {
        self.given += piece.len() as u64;
        let Some(secrets) = &self.core.secrets else {
            return self.scanner.feed(piece, last, sink);
        };
        self.between.clear();
        self.filter.feed(secrets, piece, last, &mut self.between, &mut self.edits);
        self.scanner.feed(&self.between, last, sink);
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
