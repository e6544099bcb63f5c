//! An output that is open in full: one part of it at a time, however large it is.

use super::detail;
use crate::commands::replay::source::{Events, stream_name};
use ratatui::text::Line;
use shellkeep_protocol::StreamName;
use shellkeep_record::Line as Event;
use shellkeep_record::export::frames::text;
use shellkeep_record::export::outline::outline;
use shellkeep_record::runs::is_run;
use shellkeep_terminal::theme::Theme;

/// How many bytes are loaded at a time. Scrolling beyond them loads the next part.
const PART: u64 = 256 << 10;

/// An open output.
pub struct Opened {
    /// Rows of the screen.
    pub height: usize,
    event: Event,
    stream: StreamName,
    hidden: bool,
    /// The loaded part.
    text: String,
    /// Where it begins.
    offset: u64,
    /// Bytes of all of it.
    total: u64,
    /// Whether the rest is in a separate file.
    in_file: bool,
    top: usize,
    /// Rows of the part, laid out for one width.
    rows: Vec<Line<'static>>,
    width: usize,
}

impl Opened {
    /// Opens an event's output.
    pub fn open(event: Event, hidden: bool, source: &mut Events) -> Result<Self, String> {
        let stream = match text(event.data.get("output")).is_empty() && !text(event.data.get("stderr")).is_empty() {
            true => StreamName::Stderr,
            false => StreamName::Stdout,
        };
        let mut opened = Self {
            height: 0,
            event,
            stream,
            hidden,
            text: String::new(),
            offset: 0,
            total: 0,
            in_file: false,
            top: 0,
            rows: Vec::new(),
            width: 0,
        };
        opened.read(0, source)?;
        Ok(opened)
    }

    pub fn title(&self) -> String {
        let of = if is_run(&self.event) { format!("{} of ", stream_name(self.stream)) } else { String::new() };
        format!("{of}event {}", self.event.seq)
    }

    /// Which part of it is shown.
    pub fn place(&self) -> String {
        match self.total {
            0 => "nothing".to_owned(),
            total => {
                let last = self.offset + self.text.len() as u64;
                format!("bytes {} to {} of {total}", self.offset + 1, last.min(total).max(self.offset + 1))
            }
        }
    }

    /// The visible rows.
    pub fn rows(&mut self, width: usize, height: usize, theme: Theme) -> &[Line<'static>] {
        self.height = height;
        if self.width != width {
            self.width = width;
            self.rows = super::wrap::wrap(detail::terminal(&self.text, theme), width);
        }
        self.top = self.top.min(self.rows.len().saturating_sub(height));
        &self.rows[self.top..(self.top + height).min(self.rows.len())]
    }

    /// Scrolls; beyond the loaded part, to the next one.
    pub fn scroll(&mut self, rows: isize, source: &mut Events) -> Result<(), String> {
        let most = self.rows.len().saturating_sub(self.height);
        if rows > 0 && self.top >= most && self.has_more() {
            return self.read(self.offset + self.text.len() as u64, source);
        }
        if rows < 0 && self.top == 0 && self.offset > 0 {
            self.read(self.offset.saturating_sub(PART), source)?;
            self.top = usize::MAX;
            return Ok(());
        }
        self.top = self.top.saturating_add_signed(rows).min(most);
        Ok(())
    }

    /// To the first row.
    pub fn go_to_start(&mut self, source: &mut Events) -> Result<(), String> {
        if self.offset > 0 {
            self.read(0, source)?;
        }
        self.top = 0;
        Ok(())
    }

    /// To the last row.
    pub fn go_to_end(&mut self, source: &mut Events) -> Result<(), String> {
        if self.has_more() {
            self.read(self.total.saturating_sub(PART), source)?;
        }
        self.top = usize::MAX;
        Ok(())
    }

    /// From standard output to standard error, and back.
    pub fn other_stream(&mut self, source: &mut Events) -> Result<(), String> {
        let before = self.stream;
        self.stream = match before {
            StreamName::Stdout => StreamName::Stderr,
            StreamName::Stderr => StreamName::Stdout,
        };
        self.read(0, source).inspect_err(|_| self.stream = before)
    }

    fn has_more(&self) -> bool {
        self.in_file && self.offset + (self.text.len() as u64) < self.total
    }

    fn read(&mut self, offset: u64, source: &mut Events) -> Result<(), String> {
        let data = &self.event.data;
        let name = stream_name(self.stream);
        if !is_run(&self.event) {
            self.text = outline(data);
            self.total = self.text.len() as u64;
        } else if data.get(format!("{name}_file")).is_some() {
            if self.hidden {
                return Err("the full output is kept as it was printed; s shows secrets, then o opens it".to_owned());
            }
            let piece = source.output(&text(data.get("run_id")), self.stream, offset, PART)?;
            // Bytes that are not UTF-8 would change the length; offsets count the bytes of the file.
            self.text = in_place(&piece.bytes);
            (self.offset, self.total, self.in_file) = (piece.offset, piece.total, true);
        } else {
            let field = if self.stream == StreamName::Stdout { "output" } else { "stderr" };
            self.text = text(data.get(field));
            (self.offset, self.total, self.in_file) = (0, self.text.len() as u64, false);
        }
        (self.top, self.width) = (0, 0);
        Ok(())
    }
}

/// Bytes as text of the same length: each byte that is not text becomes a question mark.
fn in_place(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '?'));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::in_place;

    #[test]
    fn what_is_no_text_keeps_its_length() {
        assert_eq!(in_place(b"a\xff\xfeb\xe6\x97"), "a??b??");
        assert_eq!(in_place("日本".as_bytes()), "日本");
    }
}
