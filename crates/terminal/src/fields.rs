//! One thing in `name: value` lines.

use crate::table::Cell;
use crate::words;

/// Names with their values, in the order in which they are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, Cell)>);

impl Fields {
    /// No fields yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Cell>) -> Self {
        self.0.push((name.into(), value.into()));
        self
    }

    /// With one more, if there is a value.
    #[must_use]
    pub fn maybe(self, name: impl Into<String>, value: Option<impl Into<Cell>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// For a person: aligned, a value of several lines below its first. Longer lines than the terminal's width, if it is
    /// given, are broken between words.
    pub fn aligned(&self, width: Option<usize>, colours: bool) -> String {
        let longest = self.0.iter().map(|(name, _)| words::width(name)).max().unwrap_or(0) + 1;
        let mut text = String::new();
        for (name, cell) in &self.0 {
            let pad = longest - words::width(name) + 1;
            let value = cell.lines().join("\n");
            let value = words::hanging(&value, longest + 2, width.unwrap_or(usize::MAX));
            let line = format!("{name}:{:pad$}{}", "", cell.painted(&value, colours));
            text += line.trim_end();
            text.push('\n');
        }
        text
    }

    /// For a program: name and value with a tab between them.
    pub fn tabbed(&self) -> String {
        self.0.iter().map(|(name, cell)| format!("{name}\t{}\n", cell.full())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_aligned_and_lines_below_their_first() {
        let fields = Fields::new()
            .with("session", "demo")
            .with("size", Cell::size(2048))
            .maybe("agent", None::<&str>)
            .with("files", "one\ntwo");
        assert_eq!(fields.aligned(None, false), "session:  demo\nsize:     2 KiB\nfiles:    one\n          two\n");
        let options = Fields::new().with("shopt", "autocd cdspell checkhash").with("umask", "0022");
        assert_eq!(options.aligned(Some(24), false), "shopt:  autocd cdspell\n        checkhash\numask:  0022\n");
        assert_eq!(fields.tabbed(), "session\tdemo\nsize\t2048\nfiles\tone\ntwo\n");
    }
}
