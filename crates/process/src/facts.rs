//! A shell's state as the driver reports it: a list of facts, each a plain value. What is not reported has not changed.

use crate::wire::{Reader, Writer};

/// What a fact takes beside its texts: its own value, and its entry in the state. The same in `capture.c`.
const FACT_BYTES: usize = 256;

/// Bytes of a name or a value; anything but NUL.
pub type Bytes = Vec<u8>;

/// Attribute bits of variables and functions, as bash numbers them.
pub mod attribute {
    /// `-x`
    pub const EXPORTED: u32 = 0x1;
    /// `-r`
    pub const READONLY: u32 = 0x2;
    /// `-a`
    pub const ARRAY: u32 = 0x4;
    /// `-i`
    pub const INTEGER: u32 = 0x10;
    /// `-A`
    pub const MAP: u32 = 0x40;
    /// `-t`
    pub const TRACE: u32 = 0x80;
    /// `-u`
    pub const UPPERCASE: u32 = 0x100;
    /// `-l`
    pub const LOWERCASE: u32 = 0x200;
    /// `-c`
    pub const CAPCASE: u32 = 0x400;
    /// `-n`
    pub const NAMEREF: u32 = 0x800;
    /// Declared and never assigned.
    pub const INVISIBLE: u32 = 0x1000;

    /// The letters of `declare`, in the order of the alphabet.
    pub const LETTERS: [(char, u32); 8] = [
        ('c', CAPCASE),
        ('i', INTEGER),
        ('l', LOWERCASE),
        ('n', NAMEREF),
        ('r', READONLY),
        ('t', TRACE),
        ('u', UPPERCASE),
        ('x', EXPORTED),
    ];
}

/// One fact about a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// A string variable.
    Scalar {
        name: Bytes,
        /// Its attribute bits.
        attributes: u32,
        value: Bytes,
    },
    /// An indexed array.
    Array {
        name: Bytes,
        /// Its attribute bits.
        attributes: u32,
        /// Index and value, ascending.
        elements: Vec<(i64, Bytes)>,
    },
    /// An associative array.
    Map {
        name: Bytes,
        /// Its attribute bits.
        attributes: u32,
        /// Key and value, in bash's order.
        pairs: Vec<(Bytes, Bytes)>,
    },
    /// A variable with attributes and no value.
    Declared {
        name: Bytes,
        /// Its attribute bits.
        attributes: u32,
    },
    /// A variable that is too large to be reported.
    TooLarge {
        name: Bytes,
    },
    /// A variable of a bare bash was unset.
    Removed {
        name: Bytes,
    },
    /// A variable that a bare bash does not have was unset.
    Forgotten {
        name: Bytes,
    },
    Function {
        name: Bytes,
        /// Its attribute bits.
        attributes: u32,
        /// Its definition as bash prints it.
        source: Bytes,
    },
    /// A function was unset.
    FunctionGone {
        name: Bytes,
    },
    /// All aliases.
    Aliases(Vec<(Bytes, Bytes)>),
    /// All `set -o` options that are on, colons between them.
    SetOptions(Bytes),
    /// All `shopt` options that are on, colons between them.
    ShoptOptions(Bytes),
    /// All traps: signal number (0 is EXIT, 65 DEBUG, 66 ERR, 67 RETURN) and command; `None` ignores the signal.
    Traps(Vec<(u32, Option<Bytes>)>),
    /// The working directory and, below it, the directory stack.
    Directories(Vec<Bytes>),
    Umask(u32),
    /// Soft limits that differ from those the shell was started with: number of the resource, value.
    Limits(Vec<(u32, u64)>),
    /// `$1`, `$2`, …
    Positional(Vec<Bytes>),
    /// `$0`
    Argv0(Bytes),
    DisabledBuiltins(Vec<Bytes>),
    /// `$?`
    Status(i32),
}

impl Fact {
    /// How many items it lists; 1 if it is no list.
    pub fn count(&self) -> usize {
        match self {
            Self::Array { elements, .. } => elements.len(),
            Self::Map { pairs, .. } | Self::Aliases(pairs) => pairs.len(),
            Self::Directories(list) | Self::Positional(list) => list.len(),
            _ => 1,
        }
    }
}

/// The driver sent something that is not a list of facts, or more than a driver sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the driver's message cannot be read")]
pub struct Unreadable;

/// Reads facts to the end of the message.
pub(crate) fn read_all(reader: &mut Reader<'_>) -> Result<Vec<Fact>, Unreadable> {
    let mut facts = Vec::new();
    while !reader.is_empty() {
        reader.spend(FACT_BYTES).ok_or(Unreadable)?;
        facts.push(read(reader).ok_or(Unreadable)?);
    }
    Ok(facts)
}

fn read(r: &mut Reader<'_>) -> Option<Fact> {
    Some(match r.u8()? {
        b'V' => Fact::Scalar { name: r.bytes()?, attributes: r.u32()?, value: r.bytes()? },
        b'A' => Fact::Array {
            name: r.bytes()?,
            attributes: r.u32()?,
            elements: r.list(|r| Some((r.u64()? as i64, r.bytes()?)))?,
        },
        b'H' => {
            Fact::Map { name: r.bytes()?, attributes: r.u32()?, pairs: r.list(|r| Some((r.bytes()?, r.bytes()?)))? }
        }
        b'd' => Fact::Declared { name: r.bytes()?, attributes: r.u32()? },
        b'X' => Fact::TooLarge { name: r.bytes()? },
        b'U' => Fact::Removed { name: r.bytes()? },
        b'u' => Fact::Forgotten { name: r.bytes()? },
        b'F' => Fact::Function { name: r.bytes()?, attributes: r.u32()?, source: r.bytes()? },
        b'f' => Fact::FunctionGone { name: r.bytes()? },
        b'L' => Fact::Aliases(r.list(|r| Some((r.bytes()?, r.bytes()?)))?),
        b'O' => Fact::SetOptions(r.bytes()?),
        b'P' => Fact::ShoptOptions(r.bytes()?),
        b'T' => Fact::Traps(r.list(|r| {
            let (number, is_text, text) = (r.u32()?, r.u8()?, r.bytes()?);
            Some((number, (is_text != 0).then_some(text)))
        })?),
        b'D' => Fact::Directories(r.list(Reader::bytes)?),
        b'M' => Fact::Umask(r.u32()?),
        b'R' => Fact::Limits(r.list(|r| Some((r.u32()?, r.u64()?)))?),
        b'S' => Fact::Positional(r.list(Reader::bytes)?),
        b'Z' => Fact::Argv0(r.bytes()?),
        b'B' => Fact::DisabledBuiltins(r.list(Reader::bytes)?),
        b'?' => Fact::Status(r.u32()? as i32),
        _ => return None,
    })
}

/// The order in which the driver must put facts in: what needs bash's parser first, what disturbs it last.
fn order(fact: &Fact) -> u8 {
    match fact {
        Fact::Directories(_) | Fact::Positional(_) => 0,
        // Running anything changes these two, so they come after everything that needs the parser.
        Fact::Scalar { name, .. } | Fact::Array { name, .. } if name == b"_" || name == b"PIPESTATUS" => 3,
        Fact::Scalar { .. }
        | Fact::Array { .. }
        | Fact::Map { .. }
        | Fact::Declared { .. }
        | Fact::TooLarge { .. }
        | Fact::Removed { .. }
        | Fact::Forgotten { .. } => 1,
        Fact::Function { .. } | Fact::FunctionGone { .. } => 2,
        Fact::Aliases(_) => 4,
        Fact::Argv0(_) | Fact::Umask(_) | Fact::Limits(_) => 5,
        Fact::DisabledBuiltins(_) => 6,
        Fact::ShoptOptions(_) => 7,
        Fact::SetOptions(_) => 8,
        Fact::Traps(_) => 9,
        Fact::Status(_) => 10,
    }
}

/// Writes facts for the driver to restore.
pub(crate) fn write_all(facts: &[Fact], w: &mut Writer) {
    let mut ordered: Vec<&Fact> = facts.iter().collect();
    ordered.sort_by_key(|fact| order(fact));
    for fact in ordered {
        write(fact, w);
    }
}

fn write(fact: &Fact, w: &mut Writer) {
    match fact {
        Fact::Scalar { name, attributes, value } => w.tag(b'V').bytes(name).u32(*attributes).bytes(value),
        Fact::Array { name, attributes, elements } => {
            w.tag(b'A').bytes(name).u32(*attributes).list(elements, |w, (index, value)| {
                w.u64(*index as u64).bytes(value);
            })
        }
        Fact::Map { name, attributes, pairs } => w.tag(b'H').bytes(name).u32(*attributes).list(pairs, write_pair),
        Fact::Declared { name, attributes } => w.tag(b'd').bytes(name).u32(*attributes),
        Fact::Removed { name } => w.tag(b'U').bytes(name),
        Fact::Function { name, attributes, source } => w.tag(b'F').bytes(name).u32(*attributes).bytes(source),
        Fact::Aliases(pairs) => w.tag(b'L').list(pairs, write_pair),
        Fact::SetOptions(names) => w.tag(b'O').bytes(names),
        Fact::ShoptOptions(names) => w.tag(b'P').bytes(names),
        Fact::Traps(traps) => w.tag(b'T').list(traps, |w, (number, command)| {
            w.u32(*number).tag(u8::from(command.is_some())).bytes(command.as_deref().unwrap_or_default());
        }),
        Fact::Directories(names) => w.tag(b'D').list(names, write_bytes),
        Fact::Umask(mask) => w.tag(b'M').u32(*mask),
        Fact::Limits(limits) => w.tag(b'R').list(limits, |w, (resource, soft)| {
            w.u32(*resource).u64(*soft);
        }),
        Fact::Positional(words) => w.tag(b'S').list(words, write_bytes),
        Fact::Argv0(name) => w.tag(b'Z').bytes(name),
        Fact::DisabledBuiltins(names) => w.tag(b'B').list(names, write_bytes),
        Fact::Status(status) => w.tag(b'?').u32(*status as u32),
        // A bare bash has nothing to forget.
        Fact::Forgotten { .. } | Fact::FunctionGone { .. } | Fact::TooLarge { .. } => w,
    };
}

fn write_pair(w: &mut Writer, (key, value): &(Bytes, Bytes)) {
    w.bytes(key).bytes(value);
}

fn write_bytes(w: &mut Writer, bytes: &Bytes) {
    w.bytes(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{HEADER_BYTES, MAX_PAYLOAD, NONCE_BYTES};

    /// As many facts of this kind as a payload can have.
    fn filled_with(fact: &[u8]) -> Vec<u8> {
        fact.repeat(MAX_PAYLOAD / fact.len())
    }

    /// One fact with a list of as many items as a payload can have.
    fn list_of(kind: &[u8], item: &[u8]) -> Vec<u8> {
        let count = (MAX_PAYLOAD - 64) / item.len();
        [kind, &(count as u32).to_ne_bytes(), &item.repeat(count)].concat()
    }

    /// A command that answered in the driver's name with 13 million facts of five bytes each made the daemon hold 1.9 GB.
    #[test]
    fn an_answer_cannot_list_more_than_the_memory_that_it_may_take() {
        let nothing = [0_u8; 4];
        let map = [b"H".as_slice(), &nothing, &nothing].concat();
        let payloads = [
            filled_with(&[b"u".as_slice(), &nothing].concat()),
            filled_with(&[b"d".as_slice(), &nothing, &nothing].concat()),
            filled_with(&[b"?".as_slice(), &nothing].concat()),
            list_of(b"D", &nothing),
            list_of(b"S", &[1, 0, 0, 0, b'x']),
            list_of(b"R", &[0; 12]),
            list_of(&map, &[0; 8]),
        ];
        for payload in payloads {
            let kind = char::from(payload[0]);
            // Numbers take little more than their bytes.
            let is_read = read_all(&mut Reader::new(&payload)).is_ok();
            assert_eq!(is_read, kind == 'R', "{kind}");
        }
    }

    #[test]
    fn two_million_positional_parameters_are_read() {
        let words: Vec<Bytes> = (1..=2_000_000).map(|number: u32| number.to_string().into_bytes()).collect();
        let mut writer = Writer::new(&[0; NONCE_BYTES], 0);
        let fact = Fact::Positional(words);
        write(&fact, &mut writer);
        let frame = writer.finish();
        assert_eq!(read_all(&mut Reader::new(&frame[HEADER_BYTES..])), Ok(vec![fact]));
    }
}
