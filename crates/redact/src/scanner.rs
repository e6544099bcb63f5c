//! The one pass over the text: from hint to rule to mask, left to right, holding back no more than the rules may look at.
//!
//! What a rule answers depends on the text around its hint and on what was masked before it, never on where the text was
//! cut into pieces: a hint is looked at only when its whole window is there.

use crate::class::WORD;
use crate::core::Core;
use crate::extra::Extras;
use crate::found::{Found, Tail};
use crate::hints::{Hints, State};
use crate::rules::private_key::{self, Next};
use crate::rules::{Rule, messaging, national_letters, number};
use crate::view::{LOOK_BACK, Limits, View, WINDOW, after_escape};
use std::cell::Cell;
use std::sync::Arc;

/// Progress worth a round when a line has no end yet, so that tiny pieces do not cost a round each.
const ROUND: usize = 512;
/// Text that was passed and is kept, so that rules can look back.
const KEEP: usize = LOOK_BACK + 32;
/// Passed text is dropped when there is this much of it.
const DROP: usize = 16 * 1024;
/// The most of the text that is held back: a window, a round, what rules look back at, and a step in a private key.
pub(crate) const HELD: usize = WINDOW + ROUND + LOOK_BACK + private_key::STEP;

/// A byte that is part of a word.
const IN_WORD: u8 = 1;
/// A byte with which something may begin that has no hint: a digit, some capitals.
const MAY_BEGIN: u8 = 2;

/// Where the result goes.
pub(crate) trait Sink {
    /// Text that stays.
    fn text(&mut self, bytes: &[u8]);
    /// A mask begins at this place of the text.
    fn begin(&mut self, rule: Rule, at: u64);
    /// The mask ends at this place.
    fn end(&mut self, at: u64);
}

/// What is going on.
enum Mode {
    /// Looking for hints.
    Scan,
    /// Masking until the tail ends.
    Mask(Tail),
    /// In a private key, between two lines; `first` if no line was seen.
    KeyBody { first: bool },
    /// In a line of a private key.
    KeyLine,
}

/// The pass, between two pieces.
pub(crate) struct Scanner {
    core: Arc<Core>,
    hints: &'static Hints,
    text: Vec<u8>,
    /// Where `text` begins in the whole.
    base: u64,
    /// Up to here the text was passed; up to there it was given out.
    pos: usize,
    out: usize,
    /// The end of the last mask, and what is before it in the output.
    floor: usize,
    before_floor: Option<u8>,
    state: State,
    mode: Mode,
    /// Secrets that were announced and begin further on, the nearest first.
    pending: Vec<Found>,
    /// Behind the last line break.
    lines: usize,
    /// The next line break at or after `pos`, if known, and up to where there is none.
    newline: Option<usize>,
    no_newline: usize,
    name_end: Cell<usize>,
    looked: Cell<u64>,
    extras: Extras,
}

impl Scanner {
    pub(crate) fn new(core: Arc<Core>, hints: &'static Hints) -> Self {
        let extras = Extras::new(core.extra.clone());
        Self {
            core,
            hints,
            text: Vec::new(),
            base: 0,
            pos: 0,
            out: 0,
            floor: 0,
            before_floor: None,
            state: hints.start(),
            mode: Mode::Scan,
            pending: Vec::new(),
            lines: 0,
            newline: None,
            no_newline: 0,
            name_end: Cell::new(0),
            looked: Cell::new(0),
            extras,
        }
    }

    /// Takes more text. With `last`, there is no more after it.
    pub(crate) fn feed(&mut self, bytes: &[u8], last: bool, sink: &mut impl Sink) {
        if let Some(at) = memchr::memrchr(b'\n', bytes) {
            self.lines = self.text.len() + at + 1;
        }
        self.text.extend_from_slice(bytes);
        while self.advance(last, sink) {}
        self.give_out(last, sink);
        self.drop_passed();
    }

    /// How many bytes rules have looked at, beside the one pass.
    pub(crate) fn looked(&self) -> u64 {
        self.looked.get() + self.extras.looked()
    }

    /// How much text is here and not given out.
    pub(crate) fn held(&self) -> usize {
        self.text.len() - self.out
    }

    /// Continues in the current mode. False if more text is needed.
    fn advance(&mut self, last: bool, sink: &mut impl Sink) -> bool {
        match self.mode {
            Mode::Scan => self.scan(last, sink),
            Mode::Mask(tail) => self.mask(tail, last, sink),
            Mode::KeyBody { first } => self.key_body(first, last, sink),
            Mode::KeyLine => self.key_line(last),
        }
    }

    /// Up to where every window is complete.
    fn ready(&self, last: bool) -> usize {
        let far = self.text.len().saturating_sub(WINDOW);
        match () {
            () if last => self.text.len(),
            () if far >= self.pos + ROUND => far.max(self.lines),
            () => self.lines,
        }
    }

    /// Looks for hints until a mask begins. False if more text is needed.
    fn scan(&mut self, last: bool, sink: &mut impl Sink) -> bool {
        let ready = self.ready(last);
        while self.pos < ready {
            let announced = self.pending.first().map_or(usize::MAX, |found| found.start);
            let extra = self.extras.next(&self.text, self.floor, self.pos, ready);
            let stop = ready.min(announced).min(extra.map_or(usize::MAX, |found| found.start));
            if let Some((at, word)) = self.next_event(stop) {
                self.pos = at + 1;
                if let Some(found) = self.look(at, word) {
                    self.begin(found, sink);
                    return true;
                }
            } else if announced == self.pos && !self.pending.is_empty() {
                let found = self.pending.remove(0);
                self.begin(found, sink);
                return true;
            } else if let Some(found) = extra.filter(|found| found.start == self.pos) {
                self.begin(found, sink);
                return true;
            }
        }
        false
    }

    /// Steps to the next place where something may be: the byte that completes a hint or begins a word, and whether it is
    /// the latter.
    fn next_event(&mut self, stop: usize) -> Option<(usize, bool)> {
        let (text, steps, kinds) = (&self.text[..stop], self.hints.steps(), &self.core.kinds);
        let mut state = self.state;
        let mut in_word = self.pos > self.floor && WORD.has(text[self.pos - 1]);
        for (at, byte) in text.iter().enumerate().skip(self.pos) {
            state = steps.next(state, *byte);
            let kind = kinds[usize::from(*byte)];
            let word = kind & MAY_BEGIN != 0
                && if in_word {
                    begins_after_escape(text, self.floor, at)
                } else {
                    !number::goes_on(text, self.floor, at)
                };
            in_word = kind & IN_WORD != 0;
            if word || state.is_hit() {
                self.state = state;
                return Some((at, word));
            }
        }
        self.state = state;
        self.pos = stop;
        None
    }

    /// Lets the rules look at the place `at`. Gives a secret that begins there or before; notes those that begin later.
    fn look(&mut self, at: usize, word: bool) -> Option<Found> {
        let end = self.line_end(at).min(at + WINDOW);
        let limits = Limits {
            floor: self.floor,
            before_floor: self.before_floor,
            end,
            cut: end == at + WINDOW,
            rules: self.core.rules,
            name_end: &self.name_end,
            looked: &self.looked,
        };
        let view = View::new(&self.text, &limits);
        view.count(1);
        if word && let Some(found) = at_word(&view, at, self.text[at]) {
            return Some(found);
        }
        if !self.state.is_hit() {
            return None;
        }
        let (mut now, mut later) = (None, Vec::new());
        for found in self.hints.read(&view, self.state, at + 1) {
            if found.start > at {
                later.push(found);
            } else if now.is_none() {
                now = Some(found);
            }
        }
        if !later.is_empty() {
            later.into_iter().for_each(|found| self.announce(found));
        }
        now
    }

    /// Notes a secret that begins further on.
    fn announce(&mut self, found: Found) {
        let place = self.pending.partition_point(|other| other.start <= found.start);
        let known = place > 0 && self.pending[place - 1].start == found.start;
        if !known {
            self.pending.insert(place, found);
        }
    }

    /// The end of the line that `at` is in, as far as it is here.
    fn line_end(&mut self, at: usize) -> usize {
        if self.newline.is_none_or(|newline| newline < at) {
            let from = self.no_newline.max(at);
            if from < self.text.len() {
                self.newline = memchr::memchr(b'\n', &self.text[from..]).map(|found| from + found);
                self.no_newline = self.newline.unwrap_or(self.text.len());
            } else {
                self.newline = None;
            }
        }
        self.newline.unwrap_or(self.text.len())
    }

    /// Begins a mask, or a private key.
    fn begin(&mut self, found: Found, sink: &mut impl Sink) {
        let start = found.start.max(self.out);
        sink.text(&self.text[self.out..start]);
        self.out = start;
        self.pos = self.pos.max(found.solid).min(self.text.len());
        if let Tail::KeyBody = found.tail {
            self.pos = start;
            self.mode = Mode::KeyBody { first: true };
            return;
        }
        sink.begin(found.rule, self.base + start as u64);
        self.out = self.pos;
        self.mode = Mode::Mask(found.tail);
    }

    /// Continues masking. False if more text is needed.
    fn mask(&mut self, tail: Tail, last: bool, sink: &mut impl Sink) -> bool {
        let (length, tail) = masked(&self.text[self.pos..], tail);
        self.pos += length;
        self.out = self.pos;
        self.mode = Mode::Mask(tail);
        if self.pos == self.text.len() && !last {
            return false;
        }
        // What was announced within this mask continues as part of it.
        while let Some(next) = self.pending.first().copied().filter(|next| next.start <= self.pos) {
            if let Tail::KeyBody = next.tail {
                break;
            }
            self.pending.remove(0);
            if next.solid > self.pos || masked(&self.text[self.pos..], next.tail).0 > 0 {
                self.pos = self.pos.max(next.solid).min(self.text.len());
                self.mode = Mode::Mask(next.tail);
                return true;
            }
        }
        self.end(sink);
        true
    }

    /// Ends a mask.
    fn end(&mut self, sink: &mut impl Sink) {
        sink.end(self.base + self.pos as u64);
        self.resume();
    }

    /// Looks for hints again, behind a mask.
    fn resume(&mut self) {
        self.pending.retain(|next| next.start >= self.pos);
        self.out = self.pos;
        self.floor = self.pos;
        self.before_floor = Some(crate::MASK[0]);
        // A name that reached into the mask ends before it now, and what is left of it behind is another.
        self.name_end.set(0);
        self.state = self.hints.start();
        self.mode = Mode::Scan;
    }

    /// Looks for the next line of a private key. False if more text is needed.
    fn key_body(&mut self, first: bool, last: bool, sink: &mut impl Sink) -> bool {
        if !last && self.text.len() - self.pos < private_key::STEP {
            return false;
        }
        let (next, looked) = private_key::next(&self.text, self.pos, first);
        self.looked.set(self.looked.get() + looked as u64);
        match next {
            Next::Line { start, solid } => {
                if first {
                    sink.text(&self.text[self.out..start]);
                    sink.begin(Rule::PrivateKey, self.base + start as u64);
                }
                self.pos = solid;
                self.out = self.pos;
                self.mode = Mode::KeyLine;
            }
            Next::Header { end } => {
                self.announce(Found::open(Rule::PrivateKey, end, Tail::KeyBody));
                self.mode = Mode::Scan;
            }
            Next::Masked { end } => {
                sink.text(&self.text[self.out..end]);
                self.pos = end;
                self.resume();
            }
            Next::Over if first => self.mode = Mode::Scan,
            Next::Over => self.end(sink),
        }
        true
    }

    /// Continues masking a line of a private key. False if more text is needed.
    fn key_line(&mut self, last: bool) -> bool {
        self.pos += masked(&self.text[self.pos..], Tail::Class(&private_key::BODY)).0;
        self.out = self.pos;
        if self.pos == self.text.len() && !last {
            return false;
        }
        self.mode = Mode::KeyBody { first: false };
        true
    }

    /// Gives out what no rule can reach back to.
    fn give_out(&mut self, last: bool, sink: &mut impl Sink) {
        let passed = &self.text[self.out..self.pos.max(self.out)];
        let line = memchr::memrchr(b'\n', passed).map_or(self.out, |at| self.out + at + 1);
        let sure = match self.mode {
            Mode::Scan if !last => line.max(self.pos.saturating_sub(LOOK_BACK)),
            _ if last => self.text.len(),
            _ => self.out,
        };
        if sure > self.out {
            sink.text(&self.text[self.out..sure]);
            self.out = sure;
        }
    }

    /// Drops text that was given out and that no rule looks back at.
    fn drop_passed(&mut self) {
        let passed = self.out.min(self.pos).saturating_sub(KEEP);
        if passed < DROP {
            return;
        }
        self.text.drain(..passed);
        self.base += passed as u64;
        for place in [&mut self.pos, &mut self.out, &mut self.floor, &mut self.lines, &mut self.no_newline] {
            *place = place.saturating_sub(passed);
        }
        self.newline = self.newline.and_then(|newline| newline.checked_sub(passed));
        self.name_end.set(self.name_end.get().saturating_sub(passed));
        for found in &mut self.pending {
            found.start -= passed;
            found.solid -= passed;
        }
        self.extras.drop_passed(passed);
    }
}

/// How much of the text a tail masks, and how it continues after that.
fn masked(text: &[u8], tail: Tail) -> (usize, Tail) {
    match tail {
        Tail::Class(class) => {
            let end = text.iter().position(|byte| !class.has(*byte) && !WORD.has(*byte));
            (end.unwrap_or(text.len()), tail)
        }
        Tail::Quoted { quote, mut escaped } => {
            for (at, byte) in text.iter().enumerate() {
                if *byte == b'\n' || (*byte == quote && !escaped) {
                    return (at, Tail::Quoted { quote, escaped: false });
                }
                escaped = *byte == b'\\' && !escaped;
            }
            (text.len(), Tail::Quoted { quote, escaped })
        }
        Tail::KeyBody => (0, tail),
    }
}

/// Whether a word begins at `at` behind an escape sequence. The byte before is part of a word.
#[inline]
fn begins_after_escape(text: &[u8], floor: usize, at: usize) -> bool {
    // Most digits within words stand behind nothing that could end an escape, and that is seen at once.
    let back = |by: usize| if at >= by { text[at - by] } else { 0 };
    let colour = || back(1).is_ascii_alphabetic() && matches!(back(2), b'0'..=b'9' | b';' | b'?' | b'[');
    let may_end = back(2) == b'\\' || back(3) == b'%' || back(6) == b'\\' || colour();
    may_end && after_escape(text, floor, at)
}

/// The kinds of bytes, for the rules in force.
pub(crate) fn kinds(rules: crate::rules::Rules) -> [u8; 256] {
    let letters = rules.has_national();
    std::array::from_fn(|byte| {
        let byte = byte as u8;
        let begins = byte.is_ascii_digit() || b"ASMNO".contains(&byte) || (letters && byte.is_ascii_uppercase());
        (u8::from(WORD.has(byte)) * IN_WORD) | (u8::from(begins) * MAY_BEGIN)
    })
}

/// What begins with the word at `at`, if it is something without a hint.
fn at_word(view: &View, at: usize, byte: u8) -> Option<Found> {
    let rules = view.rules();
    let letters = || rules.has_national().then(|| national_letters::find(view, at)).flatten();
    let found = match byte {
        b'0'..=b'9' => number::find(view, at),
        b'A' | b'S' if rules.has(Rule::Twilio) => messaging::twilio(view, at),
        b'M' | b'N' | b'O' if rules.has(Rule::Discord) => messaging::discord(view, at),
        _ => None,
    };
    found.or_else(letters)
}
