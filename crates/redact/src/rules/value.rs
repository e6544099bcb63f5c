//! Whether what is where a secret would stand is one. Source code, templates and sentences are full of `password:`
//! and `token =` with no secret behind them.
//!
//! A value with a mask in it is left alone, and where a test looks beyond the value, it takes a mask for what was there
//! before. So each test that says no says no again when something near was masked, and masking twice changes nothing.

use crate::class::{Class, ESCAPED, IDENTIFIER, LETTER, SPACE, WORD};
use crate::found::Tail;
use crate::names;
use crate::view::View;

/// How much of a value is judged.
const LOOK: usize = 64;
/// Shortest value with a name that leaves no doubt.
const STRONG: usize = 3;
/// Shortest value with a name that leaves doubt.
const WEAK: usize = 8;

/// How much of it must speak for itself.
const WEAK_LOOK: usize = 40;
/// Shortest value in a sentence.
const TOLD: usize = 6;
/// Shortest word without a digit that is taken for random.
const UNORDERED: usize = 20;
/// Longest word in capitals that stands for a value; longer ones are keys in base32.
const CONSTANT: usize = 12;

/// Bytes of a value that must speak for itself.
static WEAK_BYTES: Class = Class::visible_but(b" \"'`\\,;&|<>()[]{}*");
static WORDS: Class = Class::of(b"a-zA-Z_-");
static SENTENCE: Class = Class::of(b"a-zA-Z_ -");
static PATH: Class = Class::of(b"a-z0-9._/-");
static FULL_STOP: Class = Class::of(b".!?");

/// Where a value begins, and how it is quoted.
#[derive(Clone, Copy)]
pub(crate) struct Opening {
    /// Its first byte, behind the quote.
    pub(crate) value: usize,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// Without quotes, of this class.
    Bare(&'static Class),
    Quoted(u8),
    /// Behind `\"`: JSON in JSON.
    Escaped,
}

impl Opening {
    /// The value at `at`, with the quote before it. Without one, it is of the class `bare`.
    pub(crate) fn at(view: &View, at: usize, bare: &'static Class) -> Self {
        let prefix = matches!(view.at(at), Some(b'b' | b'r' | b'u' | b'f' | b'L' | b'@'));
        let quote = |at: usize| view.at(at).filter(|byte| matches!(byte, b'"' | b'\'' | b'`'));
        if let Some(quote) = quote(at) {
            return Self { value: behind_quote(view, at, quote), kind: Kind::Quoted(quote) };
        }
        if view.at(at) == Some(b'\\') && quote(at + 1).is_some() {
            return Self { value: at + 2, kind: Kind::Escaped };
        }
        match quote(at + 1).filter(|_| prefix) {
            Some(quote) => Self { value: behind_quote(view, at + 1, quote), kind: Kind::Quoted(quote) },
            None => Self { value: at, kind: Kind::Bare(bare) },
        }
    }

    /// The same quotes, with the value beginning further on.
    pub(crate) fn from(&self, value: usize) -> Self {
        Self { value, ..*self }
    }

    /// How a mask of the value continues.
    pub(crate) fn tail(&self) -> Tail {
        match self.kind {
            Kind::Bare(class) => Tail::Class(class),
            Kind::Quoted(quote) => Tail::Quoted { quote, escaped: false },
            Kind::Escaped => Tail::Class(&ESCAPED),
        }
    }

    /// The same for a value that is of another class if it has no quotes.
    pub(crate) fn tail_of(&self, bare: &'static Class) -> Tail {
        if self.is_bare() { Tail::Class(bare) } else { self.tail() }
    }

    /// Whether the value has single quotes, as in SQL.
    pub(crate) fn is_single_quoted(&self) -> bool {
        matches!(self.kind, Kind::Quoted(b'\''))
    }

    /// Whether the value has no quotes.
    pub(crate) fn is_bare(&self) -> bool {
        matches!(self.kind, Kind::Bare(_))
    }

    /// Whether the value ends before `at`.
    fn ends(&self, view: &View, at: usize) -> bool {
        let Some(byte) = view.at(at) else { return true };
        match self.kind {
            Kind::Bare(class) => !class.has(byte),
            Kind::Quoted(quote) => byte == quote && view.before(at) != Some(b'\\'),
            Kind::Escaped => !ESCAPED.has(byte),
        }
    }

    /// Where the value ends, behind its quote, if it has at most this many bytes.
    pub(crate) fn end(&self, view: &View, most: usize) -> Option<usize> {
        let end = (self.value..self.value + most).find(|at| self.ends(view, *at));
        view.count(end.map_or(most, |end| end - self.value));
        let quote = match self.kind {
            Kind::Bare(_) => 0,
            Kind::Quoted(_) => 1,
            Kind::Escaped => 2,
        };
        end.map(|end| end + quote)
    }

    /// Whether the value has at least this many bytes.
    fn has(&self, view: &View, least: usize) -> bool {
        (self.value..self.value + least).all(|at| !self.ends(view, at))
    }

    /// Whether there is a letter or a digit in what is judged of the value, or one of another alphabet.
    fn has_letters(&self, view: &View) -> bool {
        let judged = (self.value..self.value + LOOK).take_while(|at| !self.ends(view, *at));
        judged.into_iter().any(|at| view.at(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || byte >= 0x80))
    }

    /// Whether a mask is in what is judged of the value.
    fn holds_mask(&self, view: &View) -> bool {
        // Most values have no star near them, and that is seen at once.
        if memchr::memchr(crate::MASK[0], view.slice(self.value, self.value + LOOK)).is_none() {
            return false;
        }
        let judged = (self.value..self.value + LOOK).take_while(|at| !self.ends(view, *at));
        judged.into_iter().any(|at| view.at(at) == Some(crate::MASK[0]) && view.is(at, crate::MASK))
    }
}

/// Behind the quote at `at`, or the three of it that a text of several lines may have.
fn behind_quote(view: &View, at: usize, quote: u8) -> usize {
    let three = view.at(at + 1) == Some(quote) && view.at(at + 2) == Some(quote);
    let begins = || view.at(at + 3).is_some_and(|byte| byte != quote && byte != b' ');
    if three && begins() { at + 3 } else { at + 1 }
}

/// How a name and its value stand together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// `NAME=value`
    Environment,
    /// `--name value`, `--name=value`
    Flag,
    /// `<name>value</name>`
    Element,
    /// `name=value`
    Tight,
    /// `name: value`, `name = value`
    Loose,
}

/// Whether there is a value, after a name that leaves no doubt.
pub(crate) fn strong(view: &View, opening: &Opening, manner: Manner) -> bool {
    let environment = manner == Manner::Environment;
    let loose = manner == Manner::Loose;
    let lower = view.at(opening.value).is_some_and(|byte| byte.is_ascii_lowercase());
    opening.has(view, STRONG)
        && !is_template(view, opening.value)
        && ((environment && lower) || !is_placeholder(view, opening))
        && !(opening.is_bare() && is_code(view, opening.value, manner))
        && !(opening.is_bare() && is_sentence(view, opening, manner))
        && !(opening.is_bare() && loose && (is_declared(view, opening) || is_tag(view, opening.value)))
        && opening.has_letters(view)
        && (opening.is_bare() || !(is_label(view, opening) || is_closing(view, opening)))
        && !is_path(view, opening)
        && !opening.holds_mask(view)
}

/// Whether there is a value that speaks for itself: long enough, with letters and digits, and in one piece.
pub(crate) fn weak(view: &View, opening: &Opening) -> bool {
    let start = opening.value;
    let stop = view.run(start, &WEAK_BYTES, WEAK_LOOK);
    let text = view.slice(start, stop);
    let whole = text.len() == WEAK_LOOK || opening.ends(view, stop);
    let number = text.starts_with(b"0x") && text.len() <= 18;
    let place = text.starts_with(b"/") || text.starts_with(b"./") || text.starts_with(b"http");
    text.len() >= WEAK
        && is_random(text)
        && whole
        && !place
        && !number
        && !is_template(view, start)
        && !is_placeholder(view, opening)
        && !(opening.is_bare() && (is_code(view, start, Manner::Loose) || is_declared(view, opening)))
}

/// Whether a word is not a word of a language: letters and digits, or capitals and small letters in no order.
pub(crate) fn is_random(text: &[u8]) -> bool {
    let [digits, capitals, small] = kinds(text);
    let unordered = text.len() >= UNORDERED && capitals * 4 >= text.len() && small * 4 >= text.len();
    unordered || (digits > 0 && capitals + small > 0)
}

/// How many digits, capitals and small letters a text has. Counted together, since this is done often.
fn kinds(text: &[u8]) -> [usize; 3] {
    const BITS: u32 = 20;
    static ONE: [u64; 256] = {
        let mut one = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            one[byte] = match byte as u8 {
                b'0'..=b'9' => 1,
                b'A'..=b'Z' => 1 << BITS,
                b'a'..=b'z' => 1 << (2 * BITS),
                _ => 0,
            };
            byte += 1;
        }
        one
    };
    let sum: u64 = text.iter().take(1 << 16).map(|byte| ONE[usize::from(*byte)]).sum();
    [0, BITS, 2 * BITS].map(|shift| (sum >> shift) as usize & ((1 << BITS) - 1))
}

/// Whether there is a value in a sentence: `the password is …`.
pub(crate) fn told(view: &View, opening: &Opening) -> bool {
    let stop = view.run(opening.value, &WEAK_BYTES, LOOK);
    let text = view.slice(opening.value, stop);
    let mixed = text.iter().any(u8::is_ascii_digit) && text.iter().any(u8::is_ascii_alphabetic);
    opening.has(view, TOLD)
        && mixed
        && (text.len() == LOOK || opening.ends(view, stop))
        && !is_template(view, opening.value)
        && !is_placeholder(view, opening)
}

/// Whether credentials stand there, in a place where nothing else does.
pub(crate) fn credentials(view: &View, opening: &Opening) -> bool {
    opening.has(view, STRONG)
        && !is_template(view, opening.value)
        && !is_placeholder(view, opening)
        && !opening.holds_mask(view)
}

/// Whether there is a variable or a template, or a mask.
pub(crate) fn is_template(view: &View, at: usize) -> bool {
    let second = view.at(at + 1);
    let name = second.is_some_and(|byte| IDENTIFIER.has(byte) || byte == b'*');
    match view.at(at) {
        Some(b'$') => matches!(second, Some(b'{' | b'(' | b'*')) || (name && is_variable(view, at + 1)),
        Some(b'%') => matches!(second, Some(b'{' | b'(' | b'*')) || is_percent_name(view, at + 1),
        Some(b'@' | b':') => name,
        Some(b'#') => second == Some(b'{'),
        Some(b'<' | b'{' | b'[') => true,
        Some(b'*') => view.is(at, crate::MASK),
        Some(b'-') => view.is(at, b"-----"),
        _ => false,
    }
}

/// Whether there is the name of a variable, and not a password that begins with a dollar: `$ecr3t!`.
fn is_variable(view: &View, at: usize) -> bool {
    let stop = view.run(at, &WORD, LOOK);
    let name = view.slice(at, stop);
    let digit_inside = name.windows(2).any(|pair| pair[0].is_ascii_digit() && pair[1].is_ascii_lowercase());
    !digit_inside && !matches!(view.at(stop), Some(b'!' | b'#' | b'^' | b'+' | b'~' | b'='))
}

/// Whether there is a tag of YAML, which says where the value comes from: `!vault |`, `!Ref Name`.
fn is_tag(view: &View, at: usize) -> bool {
    let stop = view.run(at + 1, &IDENTIFIER, LOOK);
    view.at(at) == Some(b'!') && stop > at + 1 && view.at(stop) == Some(b' ')
}

/// Whether there is `%s` or `%NAME%`, and not an escaped byte of a URL.
fn is_percent_name(view: &View, at: usize) -> bool {
    let hex = |at: usize| view.at(at).is_some_and(|byte| byte.is_ascii_hexdigit());
    view.at(at).is_some_and(|byte| LETTER.has(byte)) && !(hex(at) && hex(at + 1))
}

/// Whether the value is a word that stands for a value: `string`, `null`, `your_token`, `PASSWORD`, `MAX_32`.
fn is_placeholder(view: &View, opening: &Opening) -> bool {
    let stop = view.run(opening.value, &WORD, LOOK);
    let word = view.slice(opening.value, stop);
    let letters = word.iter().all(|byte| IDENTIFIER.has(*byte));
    let capitals = word.len() > 1 && word.iter().all(|byte| !byte.is_ascii_lowercase());
    let joined = word.contains(&b'_') && !word[0].is_ascii_digit();
    let constant = capitals && (joined || (letters && word.len() <= CONSTANT));
    opening.ends(view, stop) && (constant || names::is_common_word(word) || (letters && names::mentions_secret(word)))
}

/// Whether the value is a type with a value behind it (`X: u32 = 1`), or a number in a list (`X = 0x10,`).
fn is_declared(view: &View, opening: &Opening) -> bool {
    let word = view.run(opening.value, &WORD, LOOK);
    if word == opening.value || !opening.ends(view, word) {
        return false;
    }
    let number = view.at(opening.value).is_some_and(|byte| byte.is_ascii_digit());
    match view.at(word) {
        Some(b' ') => view.at(view.run(word, &SPACE, 4)) == Some(b'='),
        Some(b',' | b';' | b')') => number,
        _ => false,
    }
}

/// Whether there is an expression of a programming language.
fn is_code(view: &View, at: usize, manner: Manner) -> bool {
    let stop = view.run(at, &WORD, LOOK);
    let letters = view.run(at, &IDENTIFIER, LOOK) == stop;
    let second = view.at(stop + 1);
    let name = second.is_some_and(|byte| IDENTIFIER.has(byte) || byte == b'*');
    let called = || view.at(view.run(stop + 1, &WORD, LOOK)) == Some(b'(');
    let pointer = view.at(at) == Some(b'*') && view.at(at + 1).is_some_and(|byte| IDENTIFIER.has(byte));
    if pointer {
        return true;
    }
    let follows = match view.at(stop) {
        Some(b'(' | b'[') => true,
        Some(b'.') => name && (letters || called() || names_a_type(view, stop + 1)),
        Some(b':') => second == Some(b':'),
        Some(b'-') => second == Some(b'>'),
        Some(b'?') => second == Some(b'.'),
        Some(b'!') => letters && second == Some(b'('),
        Some(b'<') => manner != Manner::Element,
        Some(b'{') => letters,
        _ => false,
    };
    stop > at && follows
}

/// Whether there is a type or a constant for secrets: `ed25519.PrivateKey`.
fn names_a_type(view: &View, at: usize) -> bool {
    let stop = view.run(at, &WORD, LOOK);
    view.at(at).is_some_and(|byte| byte.is_ascii_uppercase()) && names::mentions_secret(view.slice(at, stop))
}

/// Whether there is a word that more words follow, or that is a name in a list.
fn is_sentence(view: &View, opening: &Opening, manner: Manner) -> bool {
    let word = view.run(opening.value, &WORDS, LOOK);
    let stop = view.run(word, &FULL_STOP, 3);
    if word == opening.value || !opening.ends(view, stop) {
        return false;
    }
    let second = |at: usize| view.at(at).is_some_and(|byte| LETTER.has(byte) || byte == b'*');
    match view.at(stop) {
        Some(b' ' | b'\t') => manner == Manner::Loose && second(view.run(stop, &SPACE, 4)),
        Some(b'\'') => second(stop + 1),
        Some(b',' | b')' | b';' | b']' | b'}') => matches!(manner, Manner::Loose | Manner::Tight),
        _ => false,
    }
}

/// Whether the quote before the value closes a text and does not open one: `'Password: ', other`.
fn is_closing(view: &View, opening: &Opening) -> bool {
    matches!(view.at(opening.value), Some(b',' | b')' | b']' | b'}' | b';'))
}

/// Whether there is the place of a file: `/etc/ssl/key.pem`. Random text has capitals.
fn is_path(view: &View, opening: &Opening) -> bool {
    let start = opening.value;
    let stop = view.run(start, &PATH, LOOK);
    let parts = || view.slice(start, stop).iter().filter(|byte| **byte == b'/').count();
    view.at(start) == Some(b'/') && opening.ends(view, stop) && parts() > 1
}

/// Whether there is a text for people: words, and one of them names what is asked for.
fn is_label(view: &View, opening: &Opening) -> bool {
    let stop = view.run(opening.value, &SENTENCE, LOOK);
    opening.ends(view, stop) && names::mentions_secret(view.slice(opening.value, stop))
}
