//! A run's output: counted to the last byte, kept in memory while it is small, in a file when it grows, and never more
//! than its quota.

use crate::ops::{Stream, StreamView};
use crate::sync::lock;
use crate::tasks;
use shellkeep_record::beside::Summer;
use shellkeep_redact::Redactor;
use shellkeep_session::{ByteString, Output, RunId, carried_over, unfinished};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};

/// Up to this size a stream stays in memory and travels with the run's record.
pub const INLINE_BYTES: usize = 64 << 10;
/// From this size on, a write into a file may wait for the disk.
const LARGE_WRITE: usize = 16 << 10;
/// Last bytes kept of a stream that exceeded its quota.
const TAIL_BYTES: usize = 64 << 10;
/// The newest text of a terminal: all that may wait, and enough before it to recognise a secret such as a private key.
const RECENT: usize = shellkeep_redact::Stream::MAX_HELD + (4 << 10);

/// Where a stream goes when it grows. Most never do, so the name is made only then.
#[derive(Debug, Clone)]
pub struct OutputFile {
    /// The session's directory for output.
    pub directory: Arc<Path>,
    pub run_id: RunId,
    /// Which of its streams.
    pub stream: Stream,
}

impl OutputFile {
    pub fn path(&self) -> PathBuf {
        let name = match self.stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        self.directory.join(format!("{}.{name}", self.run_id))
    }
}

/// One stream as it is written.
#[derive(Debug)]
pub struct OutputLog {
    total: u64,
    kept: u64,
    limit: u64,
    memory: Vec<u8>,
    place: OutputFile,
    file: Option<File>,
    /// Hashes what goes into the file as it is written.
    summer: Option<Box<Summer>>,
    /// Once something was dropped, nothing after it is kept but the tail.
    tail: Option<VecDeque<u8>>,
    /// What masks secrets before anything is kept, if something does.
    mask: Option<Box<Mask>>,
}

/// One stream, shared by who writes it and who reads it.
#[derive(Debug)]
pub struct SharedLog {
    log: Mutex<OutputLog>,
    /// How much of it is kept, for those who only look whether there is more.
    kept: AtomicU64,
}

impl SharedLog {
    pub fn new(log: OutputLog) -> Self {
        Self { kept: AtomicU64::new(log.kept), log: Mutex::new(log) }
    }

    /// Bytes that can be read back so far. Never waits.
    pub fn kept(&self) -> u64 {
        self.kept.load(Ordering::Acquire)
    }

    /// Does something with it. Whoever writes has it while the disk takes what is written, so waiting for it must not stop
    /// other tasks.
    pub fn with<T>(&self, work: impl FnOnce(&mut OutputLog) -> T) -> T {
        let mut log = match self.log.try_lock() {
            Err(TryLockError::WouldBlock) => tasks::in_place(|| lock(&self.log)),
            Ok(free) => free,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        };
        let done = work(&mut log);
        self.kept.store(log.kept, Ordering::Release);
        done
    }
}

/// Masks a stream as it arrives. An incomplete line waits for its end, because a secret may be split.
struct Mask {
    stream: shellkeep_redact::Stream,
    out: Vec<u8>,
    /// For a terminal: what shows the line that waits.
    recent: Option<Recent>,
}

/// The newest text, as it was written.
struct Recent {
    redactor: Redactor,
    bytes: Vec<u8>,
}

impl Mask {
    fn push(&mut self, bytes: &[u8]) {
        self.stream.push(bytes, &mut self.out);
        if let Some(recent) = &mut self.recent {
            recent.bytes.extend_from_slice(bytes);
            let excess = recent.bytes.len().saturating_sub(RECENT);
            recent.bytes.drain(..excess);
        }
    }

    /// What waits, masked as far as it can be told by now.
    fn ahead(&self) -> Option<Vec<u8>> {
        let recent = self.recent.as_ref()?;
        let given = recent.bytes.len().checked_sub(self.stream.held())?;
        let (shown, all) =
            (recent.redactor.redact(&recent.bytes[..given]), recent.redactor.redact_beginning(&recent.bytes));
        all.strip_prefix(shown.as_slice()).map(<[u8]>::to_vec)
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mask").field("held", &self.stream.held()).finish_non_exhaustive()
    }
}

impl OutputLog {
    /// An empty stream that may keep `limit` bytes, in a file when they are many.
    pub fn new(place: OutputFile, limit: u64, redactor: Option<&Redactor>) -> Self {
        let mask = redactor.map(|redactor| Box::new(Mask { stream: redactor.stream(), out: Vec::new(), recent: None }));
        Self { total: 0, kept: 0, limit, memory: Vec::new(), place, file: None, summer: None, tail: None, mask }
    }

    /// The same for a terminal, where a prompt is an incomplete line that must be seen.
    pub fn of_terminal(place: OutputFile, limit: u64, redactor: Option<&Redactor>) -> Self {
        let mut log = Self::new(place, limit, redactor);
        if let (Some(mask), Some(redactor)) = (&mut log.mask, redactor) {
            mask.recent = Some(Recent { redactor: redactor.clone(), bytes: Vec::new() });
        }
        log
    }

    /// What a terminal shows after `seen` bytes and is not kept yet, because it may be masked when more arrives.
    pub fn ahead(&self, seen: u64) -> Option<Vec<u8>> {
        self.mask.as_ref().filter(|_| self.kept == seen && self.tail.is_none())?.ahead()
    }

    /// Whether so many bytes stay in memory, or are so few that they only go into the kernel's.
    pub fn takes_at_once(&self, length: usize) -> bool {
        // What the mask holds back may come with it.
        let length = length + self.mask.as_ref().map_or(0, |mask| mask.stream.held());
        match (&self.tail, &self.file) {
            (Some(_), _) => self.mask.is_none() || length < LARGE_WRITE,
            (None, Some(_)) => length < LARGE_WRITE,
            (None, None) => self.memory.len() + length <= INLINE_BYTES,
        }
    }

    /// Takes what the command wrote.
    pub fn append(&mut self, bytes: &[u8]) {
        match self.mask.take() {
            None => self.keep(bytes),
            Some(mut mask) => {
                mask.push(bytes);
                self.keep(&mask.out);
                mask.out.clear();
                self.mask = Some(mask);
            }
        }
    }

    /// The command has ended: an incomplete line is final.
    pub fn end(&mut self) {
        if let Some(mask) = self.mask.take() {
            let Mask { stream, mut out, .. } = *mask;
            stream.finish(&mut out);
            self.keep(&out);
        }
    }

    /// Masks what has arrived, if it is still in memory: a secret became known only at the end.
    pub fn mask_again(&mut self, redactor: &Redactor) {
        self.end();
        if self.file.is_none() && self.tail.is_none() {
            self.memory = redactor.redact(&self.memory);
            self.kept = self.memory.len() as u64;
            self.total = self.kept;
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = usize::try_from(self.limit.saturating_sub(self.kept)).unwrap_or(usize::MAX);
        let fits = if self.tail.is_some() { 0 } else { bytes.len().min(room) };
        let stored = self.store(&bytes[..fits]);
        if stored < bytes.len() {
            let tail = self.tail.get_or_insert_default();
            tail.extend(&bytes[stored.max(bytes.len().saturating_sub(TAIL_BYTES))..]);
            let excess = tail.len().saturating_sub(TAIL_BYTES);
            tail.drain(..excess);
        }
    }

    /// A full disk is treated like a reached quota: the command continues, the tail is kept.
    fn store(&mut self, bytes: &[u8]) -> usize {
        if bytes.is_empty() {
            return 0;
        }
        if self.file.is_none() && self.memory.len() + bytes.len() <= INLINE_BYTES {
            self.memory.extend_from_slice(bytes);
        } else if let Err(error) = self.spill_apart(bytes) {
            tracing::warn!(path = %self.place.path().display(), %error, "cannot store output");
            metrics::counter!("shellkeep_output_failures_total").increment(1);
            return 0;
        }
        self.kept += bytes.len() as u64;
        bytes.len()
    }

    /// The disk may make it wait: when the file is created, or when much is written. Few bytes only go into the
    /// kernel's memory, and a change of threads for each line of a chatty command would cost more than that.
    fn spill_apart(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_some() && bytes.len() < LARGE_WRITE {
            return self.spill(bytes);
        }
        tasks::in_place(|| self.spill(bytes))
    }

    fn spill(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            std::fs::create_dir_all(&self.place.directory)?;
            let mut file =
                File::options().create(true).truncate(true).read(true).write(true).open(self.place.path())?;
            file.write_all(&self.memory)?;
            self.summer.insert(Box::default()).update(&self.memory);
            self.memory = Vec::new();
            self.file = Some(file);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        if let Err(error) = file.write_all(bytes) {
            // A part of it may have been written; what is in the file is counted and hashed.
            let _ = file.set_len(self.kept);
            return Err(error);
        }
        if let Some(summer) = &mut self.summer {
            summer.update(bytes);
        }
        Ok(())
    }

    /// The file, to be forced to disk.
    pub fn file(&self) -> Option<File> {
        self.file.as_ref().and_then(|file| file.try_clone().ok())
    }

    /// Bytes that can be read back so far.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// Bytes that had to be dropped so far.
    pub fn dropped(&self) -> u64 {
        self.total - self.kept - self.tail.as_ref().map_or(0, |tail| tail.len() as u64)
    }

    /// What is kept of it, for the run's record.
    pub fn record(&self) -> Output {
        Output {
            total: self.total,
            kept: self.kept,
            inline: self.file.is_none().then(|| self.memory.clone().into()),
            tail: self.tail.as_ref().map(|tail| ByteString(tail.iter().copied().collect())),
            hash: self.summer.as_ref().map(|summer| summer.sum().hash),
            merged: false,
        }
    }

    /// Up to `limit` bytes from `offset` on, of those kept.
    pub fn read(&self, offset: u64, limit: usize) -> io::Result<Vec<u8>> {
        match &self.file {
            Some(file) => read_file(file, offset, limit, self.kept),
            None => Ok(slice(&self.memory, offset, limit).to_vec()),
        }
    }
}

/// What is kept of a stream now: its file is shorter than recorded if a secret was masked in it.
pub fn as_it_is<'a>(output: &'a Output, path: &Path) -> Cow<'a, Output> {
    let shorter = |length: u64| output.kept.checked_sub(length).filter(|missing| *missing > 0);
    let missing = match output.inline {
        Some(_) => None,
        None => std::fs::metadata(path).ok().and_then(|metadata| shorter(metadata.len())),
    };
    match missing {
        None => Cow::Borrowed(output),
        Some(missing) => {
            let (kept, total) = (output.kept - missing, output.total - missing);
            Cow::Owned(Output { kept, total, ..output.clone() })
        }
    }
}

/// Reads a stream back after its run has ended: from the record, or from the file beside it.
pub fn read_kept(output: &Output, path: &Path, offset: u64, limit: usize) -> io::Result<Vec<u8>> {
    match &output.inline {
        Some(bytes) => Ok(slice(bytes.as_bytes(), offset, limit).to_vec()),
        None => read_file(&File::open(path)?, offset, limit, output.kept),
    }
}

fn slice(bytes: &[u8], offset: u64, limit: usize) -> &[u8] {
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
    &bytes[start..bytes.len().min(start.saturating_add(limit))]
}

fn read_file(file: &File, offset: u64, limit: usize, kept: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(kept.saturating_sub(offset)).unwrap_or(usize::MAX).min(limit);
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// The stream as a result shows it: all of it if it fits, else its head and its tail.
pub fn view(output: &Output, most: usize, read: impl Fn(u64, usize) -> io::Result<Vec<u8>>) -> StreamView {
    let all_kept = output.kept == output.total;
    if all_kept && output.total <= most as u64 {
        let bytes = read(0, most).unwrap_or_default();
        let truncated = (bytes.len() as u64) < output.total;
        return StreamView { head: bytes.len(), bytes, total: output.total, truncated };
    }
    let mut head = read(0, most / 2).unwrap_or_default();
    head.truncate(head.len() - unfinished(&head));
    let wanted = (most - most / 2) as u64;
    let tail = match &output.tail {
        Some(tail) => {
            let bytes = tail.as_bytes();
            bytes[bytes.len().saturating_sub(wanted as usize)..].to_vec()
        }
        None => read(output.kept.saturating_sub(wanted).max(head.len() as u64), wanted as usize).unwrap_or_default(),
    };
    let tail = &tail[carried_over(&tail)..];
    let missing = output.total - head.len() as u64 - tail.len() as u64;
    let next = head.len();
    let mut bytes = head;
    if missing > 0 {
        let how = if all_kept { "read the output" } else { "not all of them were kept; read the output" };
        let line = format!("\n[shellkeep: {missing} bytes left out here; {how} from offset {next} on]\n");
        bytes.extend_from_slice(line.as_bytes());
    }
    bytes.extend_from_slice(tail);
    StreamView { bytes, total: output.total, truncated: missing > 0, head: next }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(limit: u64) -> (tempfile::TempDir, OutputLog) {
        let directory = tempfile::tempdir().unwrap();
        let place = OutputFile {
            directory: directory.path().join("deep").into(),
            run_id: RunId::from_seq(1),
            stream: Stream::Stdout,
        };
        let log = OutputLog::new(place, limit, None);
        (directory, log)
    }

    #[test]
    fn small_output_stays_in_memory() {
        let (directory, mut log) = log(1 << 20);
        log.append(b"hello ");
        log.append(b"world");
        assert_eq!(log.read(6, 3).unwrap(), b"wor");
        assert_eq!(log.record().inline.unwrap().as_bytes(), b"hello world");
        assert!(!directory.path().join("deep").exists());
    }

    #[test]
    fn a_masked_stream_holds_back_what_may_be_half_a_secret() {
        let (_directory, mut log) = log(1 << 20);
        let redactor = Redactor::new(&Default::default()).unwrap().with_secrets(["horse-battery"]).unwrap();
        log.mask = Some(Box::new(Mask { stream: redactor.stream(), out: Vec::new(), recent: None }));
        for piece in ["one\na hor", "se-bat", "tery b", "\nno end horse-"] {
            log.append(piece.as_bytes());
            assert!(!log.read(0, 100).unwrap().windows(5).any(|part| part == b"horse"));
        }
        log.append(b"battery");
        log.end();
        assert_eq!(log.read(0, 100).unwrap(), b"one\na *** b\nno end ***");
        assert_eq!(log.record().total, 22);
    }

    #[test]
    fn a_terminal_shows_a_prompt_and_no_beginning_of_a_secret() {
        let (directory, _) = log(0);
        let redactor = Redactor::new(&Default::default()).unwrap().with_secrets(["horse-battery"]).unwrap();
        let place =
            OutputFile { directory: directory.path().into(), run_id: RunId::from_seq(1), stream: Stream::Stdout };
        let mut log = OutputLog::of_terminal(place, 1 << 20, Some(&redactor));
        let cases = [
            ("hi\r\nname? ", "name? "),
            ("hor", "name? "),
            ("se-", "name? "),
            ("x", "name? horse-x"),
            (" horse-batter", "name? horse-x "),
            ("y!", "name? horse-x ***!"),
        ];
        for (piece, shown) in cases {
            log.append(piece.as_bytes());
            assert_eq!(log.read(0, 100).unwrap(), b"hi\r\n", "only whole lines are kept");
            assert_eq!(String::from_utf8(log.ahead(log.kept()).unwrap()).unwrap(), shown, "after {piece:?}");
        }
        log.append(b"\r\n");
        assert_eq!(log.ahead(log.kept()), Some(Vec::new()));
        // A full-screen program writes no line breaks.
        let drawn = "\x1b[1;1Hword ".repeat(1000);
        log.append(drawn.as_bytes());
        let mut all = log.read(0, 1 << 20).unwrap();
        all.extend(log.ahead(log.kept()).unwrap());
        assert_eq!(String::from_utf8(all).unwrap(), format!("hi\r\nname? horse-x ***!\r\n{drawn}"));
    }

    #[test]
    fn large_output_goes_to_its_file_and_comes_back() {
        let (_directory, mut log) = log(1 << 20);
        let block = [b'x'; 10_000];
        for _ in 0..30 {
            log.append(&block);
        }
        log.append(b"end");
        assert_eq!(log.read(300_000, 100).unwrap(), b"end");
        let record = log.record();
        assert_eq!((record.total, record.kept, &record.inline), (300_003, 300_003, &None));
        let sum = shellkeep_record::beside::sum_file(&log.place.path()).unwrap();
        assert_eq!((sum.bytes, Some(sum.hash)), (record.kept, record.hash));
        let view = view(&log.record(), 1000, |offset, limit| log.read(offset, limit));
        assert!(view.truncated && view.bytes.ends_with(b"xend") && view.total == 300_003);
    }

    /// An invalid byte anywhere in the head cut the character at its end in two.
    #[test]
    fn no_character_is_cut_whatever_else_is_in_the_output() {
        let (_directory, mut log) = log(1 << 20);
        log.append(b"\xff");
        log.append("\u{20ac}".repeat(1000).as_bytes());
        let view = view(&log.record(), 100, |offset, limit| log.read(offset, limit));
        assert_eq!(view.head, 49, "one byte and 16 characters; half of 100 would be a third of the next one");
        let text = String::from_utf8_lossy(&view.bytes);
        assert!(view.truncated && text.matches('\u{fffd}').count() == 1, "{text}");
    }

    #[test]
    fn beyond_the_quota_only_the_tail_is_kept() {
        let (_directory, mut log) = log(100_000);
        for number in 0..200_000 {
            log.append(format!("{number}\n").as_bytes());
        }
        assert!(log.dropped() > 0);
        let view = view(&log.record(), 4000, |offset, limit| log.read(offset, limit));
        assert!(view.bytes.starts_with(b"0\n1\n") && view.bytes.ends_with(b"199999\n"));
    }
}
