//! Rows in columns. A person gets aligned columns without rules, one line a row, cut to the width of the terminal, or a line
//! for each value where the terminal is too narrow for that; a program gets tab-separated lines with full values and no
//! header.

use crate::colour::Colour;
use crate::words;
use shellkeep_session::Timestamp;
use std::borrow::Cow;

/// Spaces between two columns.
const GAP: usize = 2;
/// Columns of text are not cut below this width; a name of three letters says nothing.
const NARROWEST: usize = 8;

/// A value in two forms: exact, and short for a person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    full: String,
    short: String,
    colour: Option<Colour>,
}

impl Cell {
    /// A text that is short enough as it is.
    pub fn new(text: impl Into<String>) -> Self {
        let full = words::harmless(&text.into());
        Self { short: full.clone(), full, colour: None }
    }

    /// A text with a shorter form for a person.
    pub fn short(full: impl Into<String>, short: impl Into<String>) -> Self {
        Self { full: words::harmless(&full.into()), short: words::harmless(&short.into()), colour: None }
    }

    /// A time as it is on the wire; for a person, how long ago it was.
    pub fn time(at: &str) -> Self {
        Self::short(at, words::when(Timestamp::now(), at))
    }

    /// A number of bytes; for a person, in units.
    pub fn size(bytes: u64) -> Self {
        Self::short(bytes.to_string(), words::bytes(bytes))
    }

    /// A value that may be missing.
    pub fn or_dash(text: Option<String>) -> Self {
        text.map_or_else(Self::dash, Self::new)
    }

    /// No value.
    pub fn dash() -> Self {
        Self::new("-")
    }

    /// A cell in a colour.
    pub fn coloured(text: impl Into<String>, colour: Option<Colour>) -> Self {
        Self::new(text).in_colour(colour)
    }

    /// The same in a colour.
    pub fn in_colour(self, colour: Option<Colour>) -> Self {
        Self { colour, ..self }
    }

    fn says_nothing(&self) -> bool {
        matches!(self.full.as_str(), "" | "-")
    }

    /// The exact text.
    pub(crate) fn full(&self) -> &str {
        &self.full
    }

    fn text(&self, form: Form) -> String {
        words::clean(match form {
            Form::Full => &self.full,
            Form::Short => &self.short,
        })
    }

    /// The lines of the form for a person.
    pub(crate) fn lines(&self) -> Vec<&str> {
        self.short.lines().collect()
    }

    /// A text of this cell in its colour, if there are colours.
    pub(crate) fn painted(&self, text: &str, colours: bool) -> String {
        match self.colour {
            Some(colour) if colours && !text.is_empty() => colour.paint(text),
            _ => text.to_owned(),
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// What a column holds, and what happens to it where there is no room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    title: Cow<'static, str>,
    is_number: bool,
    may_be_cut: bool,
    may_be_left_out: bool,
    is_optional: bool,
    /// The width that it has before other columns may be shown.
    least: usize,
}

impl Column {
    /// Words that are never cut: a status, a time, a short id.
    pub fn word(title: impl Into<Cow<'static, str>>) -> Self {
        Self {
            title: title.into(),
            is_number: false,
            may_be_cut: false,
            may_be_left_out: false,
            is_optional: false,
            least: NARROWEST,
        }
    }

    /// Text, cut with `…` where there is no room.
    pub fn text(title: impl Into<Cow<'static, str>>) -> Self {
        Self { may_be_cut: true, ..Self::word(title) }
    }

    /// A name that people type again: never cut, however long it is.
    pub fn id(title: impl Into<Cow<'static, str>>) -> Self {
        Self::word(title)
    }

    /// Numbers and sizes, aligned to the right and never cut.
    pub fn number(title: impl Into<Cow<'static, str>>) -> Self {
        Self { is_number: true, ..Self::word(title) }
    }

    /// Columns that may be left out are left out rather than that this one is narrower than its texts and `width`.
    pub fn at_least(self, width: usize) -> Self {
        Self { least: width, ..self }
    }

    /// Left out on a terminal that is too narrow; the last such column goes first.
    pub fn if_room(self) -> Self {
        Self { may_be_left_out: true, ..self }
    }

    /// As `if_room`, and left out where no row has a value for it, however wide the terminal is.
    pub fn if_any(self) -> Self {
        Self { may_be_left_out: true, is_optional: true, ..self }
    }
}

impl From<&'static str> for Column {
    fn from(title: &'static str) -> Self {
        Self::text(title)
    }
}

/// Rows of cells under their columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// Which form of its cells a table shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Full,
    Short,
}

/// A column that is shown: its place, and its width on the screen.
#[derive(Debug, Clone, Copy)]
struct Shown {
    place: usize,
    width: usize,
}

impl Table {
    /// A table of these rows.
    pub fn new<const N: usize>(columns: [Column; N], rows: Vec<[Cell; N]>) -> Self {
        Self { columns: columns.into(), rows: rows.into_iter().map(Into::into).collect() }
    }

    /// A table whose columns are known when it is made. A row has a cell for each of them.
    pub fn of_columns(columns: Vec<Column>, rows: Vec<Vec<Cell>>) -> Self {
        let width = columns.len();
        let fitted = |mut row: Vec<Cell>| {
            row.resize(width, Cell::default());
            row
        };
        Self { columns, rows: rows.into_iter().map(fitted).collect() }
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// For a program: one line a row, tabs between the values, no header.
    pub fn tabbed(&self) -> String {
        let line = |row: &Vec<Cell>| row.iter().map(Cell::full).collect::<Vec<_>>().join("\t") + "\n";
        self.rows.iter().map(line).collect()
    }

    /// For a person: short values in aligned columns that fit into `width`, if there is one.
    pub fn aligned(&self, width: Option<usize>, colours: bool) -> String {
        self.drawn(width, Form::Short, colours)
    }

    /// For a person who wants everything: all columns with full values, however long.
    pub fn wide(&self, colours: bool) -> String {
        self.drawn(None, Form::Full, colours)
    }

    fn drawn(&self, width: Option<usize>, form: Form, colours: bool) -> String {
        let columns = self.fitted(width, form);
        if let Some(limit) = width.filter(|limit| self.is_too_wide(&columns, *limit)) {
            return self.stacked(&columns, limit, colours);
        }
        let titles = columns.iter().map(|shown| (self.columns[shown.place].title.to_uppercase(), Some(Colour::Dim)));
        let mut text = self.line(&columns, titles, colours);
        for row in &self.rows {
            let cells = columns.iter().map(|shown| (row[shown.place].text(form), row[shown.place].colour));
            text += &self.line(&columns, cells, colours);
        }
        text
    }

    /// Whether lines of these columns would be torn apart by the terminal. The end of a name in the last column may go on in
    /// the next line, as `ls -l` has it.
    fn is_too_wide(&self, columns: &[Shown], limit: usize) -> bool {
        let Some((last, others)) = columns.split_last() else { return false };
        others.iter().map(|shown| shown.width + GAP).sum::<usize>() + last.width.min(NARROWEST) > limit
    }

    /// Every value on a line of its own, below its row's first; what says nothing is left out.
    fn stacked(&self, columns: &[Shown], limit: usize, colours: bool) -> String {
        let titles = columns.iter().map(|shown| words::width(&self.columns[shown.place].title));
        let indent = titles.max().unwrap_or(0) + 1 + GAP;
        let block = |row: &Vec<Cell>| {
            let told = columns.iter().filter(|shown| !row[shown.place].says_nothing());
            told.map(|shown| {
                let (title, cell) = (&self.columns[shown.place].title, &row[shown.place]);
                let name = if title.is_empty() { String::new() } else { format!("{title}:") };
                let blank = indent - words::width(&name);
                let value = words::hanging(&cell.text(Form::Short), indent, limit);
                format!("{name}{:blank$}{}\n", "", cell.painted(&value, colours))
            })
            .collect::<String>()
        };
        self.rows.iter().map(block).collect::<Vec<_>>().join("\n")
    }

    fn line(&self, columns: &[Shown], cells: impl Iterator<Item = (String, Option<Colour>)>, colours: bool) -> String {
        let mut line = String::new();
        // Spaces are written only before a text, so that no line ends with them.
        let mut pending = 0;
        for (shown, (text, colour)) in columns.iter().zip(cells) {
            let text = words::cut(&text, shown.width);
            let blank = shown.width - words::width(&text);
            let (before, after) = if self.columns[shown.place].is_number { (blank, 0) } else { (0, blank) };
            if !text.is_empty() {
                line.extend(std::iter::repeat_n(' ', pending + before));
                pending = 0;
                line += &match colour {
                    Some(colour) if colours => colour.paint(&text),
                    _ => text.clone(),
                };
            }
            pending += after + GAP + if text.is_empty() { before } else { 0 };
        }
        line + "\n"
    }

    /// The columns that are shown, as wide as there is room for.
    fn fitted(&self, width: Option<usize>, form: Form) -> Vec<Shown> {
        let says_nothing = |place: usize| self.rows.iter().all(|row| row[place].says_nothing());
        let mut columns: Vec<Shown> = (0..self.columns.len())
            .filter(|place| form == Form::Full || !self.columns[*place].is_optional || !says_nothing(*place))
            .map(|place| {
                let texts = self.rows.iter().map(|row| words::width(&row[place].text(form)));
                let title = words::width(&self.columns[place].title);
                Shown { place, width: texts.max().unwrap_or(0).max(title) }
            })
            .collect();
        let Some(limit) = width else { return columns };
        let total =
            |columns: &[Shown]| columns.iter().map(|shown| shown.width + GAP).sum::<usize>().saturating_sub(GAP);
        let least = |shown: &Shown| {
            let column = &self.columns[shown.place];
            if column.may_be_cut { column.least.min(shown.width) } else { shown.width }
        };
        let is_tight = |columns: &[Shown]| {
            columns.iter().map(|shown| least(shown) + GAP).sum::<usize>().saturating_sub(GAP) > limit
        };
        // First what says nothing, then what is least wanted, then letters of the longest texts.
        while total(&columns) > limit {
            let may_go = |shown: &Shown| self.columns[shown.place].may_be_left_out;
            let dull = columns.iter().rposition(|shown| may_go(shown) && says_nothing(shown.place));
            let unwanted = || columns.iter().rposition(may_go).filter(|_| is_tight(&columns));
            match dull.or_else(unwanted) {
                Some(place) => drop(columns.remove(place)),
                None => break,
            }
        }
        let mut over = total(&columns).saturating_sub(limit);
        let can_shrink = |shown: &&mut Shown| self.columns[shown.place].may_be_cut && shown.width > NARROWEST;
        while over > 0
            && let Some(longest) = columns.iter_mut().filter(can_shrink).max_by_key(|shown| shown.width)
        {
            longest.width -= 1;
            over -= 1;
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = [Column::text("name"), Column::number("files"), Column::word("pid").if_room(), "command".into()];
        let row = |name: &str, files: &str, pid: &str, command: &str| [name, files, pid, command].map(Cell::new);
        Table::new(
            columns,
            vec![
                row("demo", "1", "-", "make -j4 all\ninstall"),
                row("日本", "12", "4711", ""),
                row("x", "-", "-", "ls"),
            ],
        )
    }

    #[test]
    fn columns_are_aligned_and_no_line_ends_with_a_space() {
        let expected = "NAME  FILES  PID   COMMAND\n\
                        demo      1  -     make -j4 all install\n\
                        日本     12  4711\n\
                        x         -  -     ls\n";
        assert_eq!(table().aligned(None, false), expected);
        assert_eq!(table().aligned(Some(80), false), expected);
    }

    #[test]
    fn a_narrow_terminal_gets_one_line_a_row() {
        let text = table().aligned(Some(30), false);
        assert!(text.contains("demo      1  -     make -j4 a…\n"), "{text}");
        for width in [26, 30, 34] {
            let text = table().aligned(Some(width), false);
            assert_eq!(text.lines().count(), 4);
            assert!(text.lines().all(|line| words::width(line) <= width), "{width}:\n{text}");
        }
        assert!(!table().aligned(Some(22), false).contains("PID"), "the column that may go goes when it is tight");
    }

    #[test]
    fn a_column_that_matters_has_room_before_others_are_shown() {
        let table = |command: Column| {
            let row = ["r1", "a-long-name-of-it", "make a long command"].map(Cell::new);
            Table::new([Column::word("run"), Column::word("id").if_room(), command], vec![row])
        };
        assert_eq!(
            table(Column::text("command")).aligned(Some(34), false).lines().nth(1),
            Some("r1   a-long-name-of-it  make a lo…")
        );
        assert_eq!(
            table(Column::text("command").at_least(15)).aligned(Some(34), false).lines().nth(1),
            Some("r1   make a long command")
        );
    }

    #[test]
    fn a_column_that_says_nothing_goes_first() {
        let columns = [Column::text("name"), Column::word("agent").if_room(), Column::word("status").if_room()];
        let long = "a-name-of-some-length";
        let table = Table::new(columns, vec![[long, "-", "running"].map(Cell::new)]);
        assert_eq!(table.aligned(Some(32), false), format!("NAME                   STATUS\n{long}  running\n"));
    }

    #[test]
    fn a_column_that_few_use_is_shown_where_a_row_has_a_value() {
        let table = |held: &str| {
            let columns = [Column::id("session"), Column::text("held").if_any()];
            Table::new(columns, vec![["demo", "-"].map(Cell::new), ["notes", held].map(Cell::new)])
        };
        assert_eq!(table("-").aligned(Some(80), false), "SESSION\ndemo\nnotes\n");
        assert_eq!(table("ann").aligned(Some(80), false), "SESSION  HELD\ndemo     -\nnotes    ann\n");
        assert_eq!(table("-").wide(false), "SESSION  HELD\ndemo     -\nnotes    -\n");
        assert_eq!(table("-").tabbed(), "demo\t-\nnotes\t-\n");
    }

    /// A table of more columns than fit was printed all the same, and the terminal broke its lines anywhere; ids were cut,
    /// so that they could not be typed again.
    #[test]
    fn a_terminal_that_is_too_narrow_gets_a_line_for_each_value() {
        let columns =
            || [Column::id("session"), Column::number("seq"), Column::word("last active"), Column::text("cwd")];
        let row = ["thread_ann_7f3c9a52", "12", "3 minutes ago", "-"].map(Cell::new);
        let other = ["demo", "7", "now", "/home/ann/a project with a long name"].map(Cell::new);
        let table = Table::new(columns(), vec![row, other]);
        let expected = "session:      thread_ann_7f3c9a52\n\
                        seq:          12\n\
                        last active:  3 minutes ago\n\
                        \n\
                        session:      demo\n\
                        seq:          7\n\
                        last active:  now\n\
                        cwd:          /home/ann/a project with a\n              long name\n";
        assert_eq!(table.aligned(Some(40), false), expected);
        assert_eq!(table.aligned(Some(60), false).lines().count(), 3, "columns again where they fit");
        assert!(table.aligned(Some(60), false).contains("thread_ann_7f3c9a52 "));
    }

    #[test]
    fn a_long_name_in_the_last_column_goes_on_in_the_next_line() {
        let long = "x".repeat(50);
        let table = Table::new([Column::number("size"), Column::id("name")], vec![["7", &long].map(Cell::new)]);
        assert_eq!(table.aligned(Some(40), false), format!("SIZE  NAME\n   7  {long}\n"));
    }

    #[test]
    fn a_program_gets_full_values_and_no_header() {
        let size = Table::new([Column::number("size")], vec![[Cell::size(1536)]]);
        assert_eq!(size.tabbed(), "1536\n");
        assert_eq!(size.aligned(None, false), "   SIZE\n1.5 KiB\n");
        assert_eq!(size.wide(false), "SIZE\n1536\n");
        assert_eq!(table().tabbed(), "demo\t1\t-\tmake -j4 all\ninstall\n日本\t12\t4711\t\nx\t-\t-\tls\n");
    }

    #[test]
    fn a_colour_takes_no_room() {
        let columns = [Column::word("status"), Column::word("pid")];
        let table = Table::new(columns, vec![[Cell::coloured("ok", Some(Colour::Green)), Cell::new("7")]]);
        let expected = "\x1b[2mSTATUS\x1b[0m  \x1b[2mPID\x1b[0m\n\x1b[32mok\x1b[0m      7\n";
        assert_eq!(table.aligned(Some(80), true), expected);
    }
}
