//! A page of a recording: some lines after a number, those of some types, or those in which something is found.

use super::{ReadError, Recording};
use crate::line::Line;
use crate::mask::Masker;
use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};
use serde_json::Value;

/// A page ends after this many bytes of lines, so that lines with long outputs do not fill the memory. It has one line at
/// least.
const PAGE_BYTES: usize = 8 * 1024 * 1024;

/// What a pattern may take in memory, compiled.
const PATTERN_BYTES: usize = 1 << 20;

/// Which lines are wanted.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of these types; all if there are none.
    pub types: Vec<String>,
    /// Those in which this is found.
    pub search: Option<Search>,
    /// Masks what it finds before it is searched or shown, so that a search cannot guess what is masked. The lines come
    /// without what proves them; see [`Masker::mask_line`] for those who need that.
    pub masker: Option<Masker>,
}

/// A regular expression that is looked for in the texts of a line's fields and in their names.
#[derive(Debug, Clone)]
pub struct Search {
    regex: Regex,
    /// The pattern, if it is a plain text that is written in a file as it is.
    literal: Option<Box<memmem::Finder<'static>>>,
}

/// Some lines.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// They.
    pub lines: Vec<Line>,
    /// The number after which the next page begins, if there is more.
    pub next: Option<u64>,
}

impl Search {
    /// Compiles a pattern; letters in it are ASCII or themselves, and the time of a search is linear.
    pub fn new(pattern: &str) -> Result<Self, regex::Error> {
        let regex = RegexBuilder::new(pattern).unicode(false).size_limit(PATTERN_BYTES).build()?;
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" _-/:,;=<>@%&!~`'".contains(byte);
        let is_literal = !pattern.is_empty() && pattern.as_bytes().iter().all(plain);
        let literal = is_literal.then(|| Box::new(memmem::Finder::new(pattern.as_bytes()).into_owned()));
        Ok(Self { regex, literal })
    }

    /// Whether it may be in the line with these bytes.
    fn may_be_in(&self, bytes: &[u8]) -> bool {
        self.literal.as_ref().is_none_or(|literal| literal.find(bytes).is_some())
    }

    /// Whether it is in a line's fields.
    pub fn is_in(&self, line: &Line) -> bool {
        self.is_in_value(&line.data)
    }

    fn is_in_value(&self, value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::Bool(truth) => self.regex.is_match(truth.to_string().as_bytes()),
            Value::Number(number) => self.regex.is_match(number.to_string().as_bytes()),
            Value::String(text) => self.regex.is_match(text.as_bytes()),
            Value::Array(list) => list.iter().any(|value| self.is_in_value(value)),
            Value::Object(map) => {
                map.iter().any(|(name, value)| self.regex.is_match(name.as_bytes()) || self.is_in_value(value))
            }
        }
    }
}

impl Filter {
    fn wants_type(&self, event_type: &str) -> bool {
        self.types.is_empty() || self.types.iter().any(|wanted| wanted == event_type)
    }
}

impl Recording {
    /// The lines after a number, at most `limit`, as a filter wants them.
    pub fn page(&self, after: u64, limit: usize, filter: &Filter) -> Result<Page, ReadError> {
        let mut raw = self.raw(after.saturating_add(1))?;
        let mut page = Page::default();
        let mut bytes = 0;
        while let Some(line) = raw.next()? {
            let peek = line.peek()?;
            // The first file is read from its beginning, whatever its first number is.
            if peek.seq <= after || !filter.wants_type(&peek.event_type) {
                continue;
            }
            if filter.search.as_ref().is_some_and(|search| !search.may_be_in(line.bytes)) {
                continue;
            }
            if page.lines.len() >= limit || bytes >= PAGE_BYTES {
                page.next = page.lines.last().map(|line| line.seq);
                break;
            }
            let mut read = line.parse()?;
            if let Some(masker) = &filter.masker {
                masker.mask_value(&mut read.data);
            }
            if filter.search.as_ref().is_none_or(|search| search.is_in(&read)) {
                bytes += line.bytes.len();
                page.lines.push(read);
            }
        }
        Ok(page)
    }
}
