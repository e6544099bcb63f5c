//! A page of a recording: some lines after a number, those of some types, or those in which something is found.

use super::{ReadError, Recording};
use crate::budget::{Budget, Spent};
use crate::kinds;
use crate::line::Line;
use crate::mask::Masker;
use crate::pattern::{Pattern, PatternError};
use memchr::memmem;
use serde_json::Value;

/// A page ends after this many bytes of lines, so that lines with long outputs do not fill the memory. It has one line at
/// least.
const PAGE_BYTES: usize = 8 * 1024 * 1024;

/// Which lines are wanted.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of these types and kinds; all if there are none.
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
    pattern: Pattern,
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
    pub fn new(text: &str) -> Result<Self, PatternError> {
        let pattern = Pattern::ascii(text)?;
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" _-/:,;=<>@%&!~`'".contains(byte);
        let is_literal = !text.is_empty() && text.as_bytes().iter().all(plain);
        let literal = is_literal.then(|| Box::new(memmem::Finder::new(text.as_bytes()).into_owned()));
        Ok(Self { pattern, literal })
    }

    /// Whether it may be in the line with these bytes.
    fn may_be_in(&self, bytes: &[u8]) -> bool {
        self.literal.as_ref().is_none_or(|literal| literal.find(bytes).is_some())
    }

    /// Whether it is in a line's fields, however long that takes.
    pub fn is_in(&self, line: &Line) -> bool {
        self.is_in_value(&line.data, &Budget::unlimited()) == Ok(true)
    }

    fn is_in_value(&self, value: &Value, budget: &Budget) -> Result<bool, Spent> {
        match value {
            Value::Null => Ok(false),
            Value::Bool(truth) => self.pattern.is_in(truth.to_string().as_bytes(), budget),
            Value::Number(number) => self.pattern.is_in(number.to_string().as_bytes(), budget),
            Value::String(text) => self.pattern.is_in(text.as_bytes(), budget),
            Value::Array(list) => any(list, |value| self.is_in_value(value, budget)),
            Value::Object(map) => any(map, |(name, value)| {
                Ok(self.pattern.is_in(name.as_bytes(), budget)? || self.is_in_value(value, budget)?)
            }),
        }
    }
}

fn any<T>(items: impl IntoIterator<Item = T>, mut is: impl FnMut(T) -> Result<bool, Spent>) -> Result<bool, Spent> {
    for item in items {
        if is(item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Filter {
    /// Whether it leaves lines out, so that many may be read for one.
    pub fn is_selective(&self) -> bool {
        !self.types.is_empty() || self.search.is_some()
    }

    fn wants_type(&self, event_type: &str) -> bool {
        self.types.is_empty() || self.types.iter().any(|wanted| kinds::selects(wanted, event_type))
    }
}

impl Recording {
    /// The lines after a number, at most `limit`, as a filter wants them.
    pub fn page(&self, after: u64, limit: usize, filter: &Filter) -> Result<Page, ReadError> {
        self.page_of(after, limit, PAGE_BYTES, filter)
    }

    /// The same, ending after this many bytes of lines. It has at least one line. One that runs out of its budget ends
    /// where it was, with what it found so far.
    pub fn page_of(&self, after: u64, limit: usize, most: usize, filter: &Filter) -> Result<Page, ReadError> {
        let mut raw = self.raw(after.saturating_add(1))?;
        let mut page = Page::default();
        let (mut bytes, mut seen) = (0, after);
        let by_notices = kinds::select_notices(&filter.types);
        while let Some(line) = raw.next()? {
            let peek = line.peek()?;
            // The first file is read from its beginning, whatever its first number is.
            if peek.seq <= after {
                continue;
            }
            if seen > after && self.budget.is_spent() {
                page.next = Some(seen);
                break;
            }
            let by_type = filter.wants_type(&peek.event_type);
            let is_wanted = (by_type || (by_notices && kinds::may_have_notices(line.bytes)))
                && filter.search.as_ref().is_none_or(|search| search.may_be_in(line.bytes));
            let seq = peek.seq;
            if !is_wanted {
                seen = seq;
                continue;
            }
            if page.lines.len() >= limit || bytes >= most {
                page.next = page.lines.last().map(|line| line.seq);
                break;
            }
            let mut read = line.parse()?;
            if !by_type && !kinds::has_notices(&read) {
                seen = seq;
                continue;
            }
            if let Some(masker) = &filter.masker {
                masker.mask_value(&mut read.data);
            }
            match filter.search.as_ref().map_or(Ok(true), |search| search.is_in_value(&read.data, &self.budget)) {
                Ok(true) => {
                    bytes += line.bytes.len();
                    page.lines.push(read);
                }
                Ok(false) => {}
                Err(Spent) if seen > after => {
                    page.next = Some(seen);
                    break;
                }
                Err(Spent) => return Err(ReadError::SearchSpent { seq }),
            }
            seen = seq;
        }
        Ok(page)
    }
}
