//! A service's log as it is looked at: the last lines of it, where one is in them, and what is searched for.

use super::wants::Followed;
use shellkeep_protocol::LogResponse;
use shellkeep_terminal::list::Motion;
use shellkeep_terminal::words;
use std::collections::VecDeque;

/// Lines that are kept to scroll back; the oldest give way.
const MOST_LINES: usize = 20_000;
/// Bytes of lines that are kept, whatever their number.
const MOST_BYTES: usize = 8 << 20;
/// Bytes of one line that are kept. A longer line becomes several.
const MOST_LINE: usize = 8 << 10;
/// Columns of one step to the side.
const SIDE_STEP: usize = 8;

/// A log that is looked at.
#[derive(Debug)]
pub struct Log {
    pub which: Followed,
    /// Its service's name.
    pub name: String,
    /// Whether the view stays at the end.
    pub follow: bool,
    /// Columns that are scrolled out to the left.
    pub left: usize,
    /// What is searched for, in small letters.
    pub search: Option<String>,
    /// Whether the service has ended and everything is here.
    pub complete: bool,
    /// Why it cannot be read.
    pub problem: Option<String>,
    /// Bytes before the first line that is here: no longer kept, or not asked for.
    pub before: u64,
    lines: VecDeque<String>,
    bytes: usize,
    unfinished: Vec<u8>,
    next: Option<u64>,
    top: usize,
    height: usize,
}

impl Log {
    /// An empty log.
    pub fn new(which: Followed, name: String) -> Self {
        Self {
            which,
            name,
            follow: true,
            left: 0,
            search: None,
            complete: false,
            problem: None,
            before: 0,
            lines: VecDeque::new(),
            bytes: 0,
            unfinished: Vec::new(),
            next: None,
            top: 0,
            height: 0,
        }
    }

    /// The daemon told.
    pub fn set(&mut self, page: Result<Box<LogResponse>, String>) {
        match page {
            Ok(page) => self.feed(*page),
            Err(problem) => self.problem = Some(problem),
        }
    }

    /// Takes in a page.
    fn feed(&mut self, page: LogResponse) {
        self.problem = None;
        self.complete = page.complete && page.next_offset >= page.total;
        let (offset, next) = (page.offset, page.next_offset);
        let Ok(bytes) = page.into_bytes() else {
            self.problem = Some("the daemon sent a page that is not base64".to_owned());
            return;
        };
        let mut bytes = bytes.as_slice();
        if !self.follow && !self.complete && self.would_push_out(bytes) {
            // A reader who has scrolled up stays there; what is left out is shown later.
            return;
        }
        let gap = match self.next {
            None => {
                self.before = offset;
                // The first line may have begun before; without its beginning it would say something else.
                if offset > 0 {
                    let line = bytes.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
                    self.before += line as u64;
                    bytes = &bytes[line..];
                }
                0
            }
            // A page that comes twice is not to be shown twice.
            Some(expected) if next <= expected => return,
            Some(expected) => {
                bytes = &bytes[usize::try_from(expected.saturating_sub(offset)).unwrap_or(0).min(bytes.len())..];
                offset.saturating_sub(expected)
            }
        };
        self.next = Some(next);
        if gap > 0 {
            self.end_line();
            self.push(format!("… {} are left out here …", words::bytes(gap)));
        }
        self.append(bytes);
        self.settle();
    }

    /// The lines that are to be seen.
    pub fn window(&self) -> impl Iterator<Item = String> + '_ {
        let kept = self.lines.iter().skip(self.top).cloned();
        let open = (!self.unfinished.is_empty()).then(|| shown(&self.unfinished));
        let open = open.into_iter().skip(self.top.saturating_sub(self.lines.len()));
        kept.chain(open).take(self.height)
    }

    /// How many lines there are.
    pub fn length(&self) -> usize {
        self.lines.len() + usize::from(!self.unfinished.is_empty())
    }

    /// The number of the first line that is to be seen, from 0.
    pub fn top(&self) -> usize {
        self.top
    }

    /// Sets the number of visible lines.
    pub fn set_height(&mut self, height: usize) {
        self.height = height;
        self.settle();
    }

    /// Goes through the lines. Going back lets go of the end, arriving there takes hold of it again.
    pub fn step(&mut self, step: Motion) {
        let page = self.height.saturating_sub(1).max(1);
        self.top = match step {
            Motion::Up => self.top.saturating_sub(1),
            Motion::Down => self.top + 1,
            Motion::PageUp => self.top.saturating_sub(page),
            Motion::PageDown => self.top + page,
            Motion::First => 0,
            Motion::Last => usize::MAX,
        }
        .min(self.last_top());
        let on = matches!(step, Motion::Down | Motion::PageDown | Motion::Last);
        self.follow = on && self.top == self.last_top();
    }

    /// Goes to the side.
    pub fn slide(&mut self, right: bool) {
        self.left = if right { self.left + SIDE_STEP } else { self.left.saturating_sub(SIDE_STEP) };
    }

    /// Holds on to the end, or lets go of it.
    pub fn toggle_follow(&mut self) {
        self.follow = !self.follow;
        self.settle();
    }

    /// Searches backwards from the end of what is to be seen, as one who follows a log looks for what just passed.
    pub fn search(&mut self, wanted: &str) -> bool {
        self.search = (!wanted.is_empty()).then(|| wanted.to_lowercase());
        let from = (self.top + self.height).min(self.lines.len());
        self.search.is_none() || self.find((0..from).rev()) || self.find(from..self.lines.len())
    }

    /// Goes to the next line that was searched for, up or down.
    pub fn search_on(&mut self, down: bool) -> bool {
        if down { self.find(self.top + 1..self.lines.len()) } else { self.find((0..self.top).rev()) }
    }

    fn find(&mut self, mut places: impl Iterator<Item = usize>) -> bool {
        let Some(wanted) = self.search.as_deref() else { return false };
        let Some(place) = places.find(|place| self.lines[*place].to_lowercase().contains(wanted)) else { return false };
        self.follow = false;
        self.top = place;
        true
    }

    fn would_push_out(&self, bytes: &[u8]) -> bool {
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        self.lines.len() + lines > MOST_LINES || self.bytes + bytes.len() > MOST_BYTES
    }

    fn append(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.extend(&bytes[..end]);
            let line = shown(&std::mem::take(&mut self.unfinished));
            self.push(line);
            bytes = &bytes[end + 1..];
        }
        self.extend(bytes);
    }

    fn extend(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(MOST_LINE) {
            if self.unfinished.len() + piece.len() > MOST_LINE {
                self.end_line();
            }
            self.unfinished.extend_from_slice(piece);
        }
    }

    fn end_line(&mut self) {
        if !self.unfinished.is_empty() {
            let line = shown(&std::mem::take(&mut self.unfinished));
            self.push(line);
        }
    }

    fn push(&mut self, line: String) {
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.lines.len() > MOST_LINES || self.bytes > MOST_BYTES {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.len();
            self.before += oldest.len() as u64 + 1;
            // A reader further up keeps seeing the same lines.
            self.top = self.top.saturating_sub(1);
        }
    }

    fn last_top(&self) -> usize {
        self.length().saturating_sub(self.height.max(1))
    }

    fn settle(&mut self) {
        if self.follow {
            self.top = self.last_top();
        } else {
            self.top = self.top.min(self.length().saturating_sub(1));
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    words::log_line(&String::from_utf8_lossy(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wants::ServiceKey;

    fn log(height: usize) -> Log {
        let key = ServiceKey { session: "demo".into(), service: "s1".into() };
        let mut log = Log::new(Followed { key, number: 0 }, "web".into());
        log.set_height(height);
        log
    }

    fn page(offset: u64, bytes: &[u8]) -> LogResponse {
        let next_offset = offset + bytes.len() as u64;
        let (text, base64) = shellkeep_protocol::text::encode(bytes.to_vec());
        LogResponse { text, base64, offset, next_offset, first: 0, total: next_offset, complete: false }
    }

    fn seen(log: &Log) -> Vec<String> {
        log.window().collect()
    }

    #[test]
    fn lines_are_whole_however_the_pages_are_cut() {
        let text = "eins\nzw\u{f6}lf\n\u{1b}[31mdrei".as_bytes();
        for cut in 0..text.len() {
            let mut log = log(10);
            log.feed(page(0, &text[..cut]));
            log.feed(page(cut as u64, &text[cut..]));
            assert_eq!(seen(&log), ["eins", "zwölf", "drei"], "{cut}");
        }
    }

    #[test]
    fn it_follows_until_somebody_goes_back() {
        let mut log = log(2);
        log.feed(page(0, b"a\nb\nc\n"));
        assert_eq!(seen(&log), ["b", "c"]);
        log.step(Motion::Up);
        log.feed(page(6, b"d\n"));
        assert_eq!((seen(&log), log.follow), (vec!["a".to_owned(), "b".to_owned()], false));
        log.step(Motion::Last);
        log.feed(page(8, b"e\n"));
        assert_eq!((seen(&log), log.follow), (vec!["d".to_owned(), "e".to_owned()], true));
        log.toggle_follow();
        log.feed(page(10, b"f\n"));
        assert_eq!(seen(&log), ["d", "e"]);
    }

    #[test]
    fn it_starts_with_a_whole_line_and_says_what_it_missed() {
        let mut log = log(10);
        log.feed(page(100, b"cut off\nwhole\nopen"));
        assert_eq!((seen(&log), log.before), (vec!["whole".to_owned(), "open".to_owned()], 108));
        log.feed(page(110, b"le\nopen"));
        assert_eq!(seen(&log), ["whole", "open"], "a page that was seen before changes nothing");
        log.feed(page(5000, b"later\n"));
        assert_eq!(seen(&log)[1..3], ["open", "… 4.8 KiB are left out here …"]);
        assert_eq!(seen(&log)[3], "later");
    }

    #[test]
    fn it_is_bounded() {
        let mut log = log(10);
        let line = [b'x'; 1000];
        let many: Vec<u8> = std::iter::repeat_n([&line[..], b"\n"].concat(), 12_000).flatten().collect();
        log.feed(page(0, &many));
        assert!(log.bytes <= MOST_BYTES && log.lines.len() < 9000);
        assert_eq!(log.before, (12_000 - log.lines.len() as u64) * 1001);
        log.feed(page(many.len() as u64, &vec![b'y'; 100_000]));
        assert!(log.unfinished.len() <= MOST_LINE, "a line without an end is several");
        log.feed(page(many.len() as u64 + 100_000, &b"z\n".repeat(30_000)));
        assert_eq!(log.lines.len(), MOST_LINES);
    }

    #[test]
    fn who_has_stopped_to_read_goes_on_reading() {
        let mut log = log(3);
        let flood = b"x\n".repeat(MOST_LINES - 2);
        log.feed(page(0, b"first\nsecond\n"));
        log.feed(page(13, &flood));
        log.step(Motion::First);
        let end = 13 + flood.len() as u64;
        log.feed(page(end, b"more\nand more\n"));
        assert_eq!(seen(&log), ["first", "second", "x"]);
        log.step(Motion::Last);
        log.feed(page(end + 14, b"the end\n"));
        assert_eq!(seen(&log), ["x", "… 14 B are left out here …", "the end"]);
    }

    #[test]
    fn a_search_goes_back_first_and_then_either_way() {
        let mut log = log(2);
        log.feed(page(0, b"Error 1\nfine\nerror 2\nfine\nfine\n"));
        assert!(log.search("ERROR"));
        assert_eq!((log.top(), log.follow), (2, false));
        assert!(log.search_on(false));
        assert_eq!(log.top(), 0);
        assert!(!log.search_on(false), "there is none above");
        assert!(log.search_on(true));
        assert_eq!(log.top(), 2);
        assert!(!log.search("nowhere"));
        assert!(log.search(""), "an empty search ends it");
        assert_eq!(log.search, None);
    }

    #[test]
    fn a_log_is_complete_when_its_service_ended_and_all_was_read() {
        let mut log = log(2);
        log.feed(LogResponse { complete: true, total: 10, ..page(0, b"half\n") });
        assert!(!log.complete);
        log.feed(LogResponse { complete: true, ..page(5, b"rest\n") });
        assert!(log.complete);
    }
}
