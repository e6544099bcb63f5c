//! A run while it runs, shared by the task that drives it and everyone who watches it.

use crate::ops::{OutputPage, OutputQuery, RunView, Stream, TerminalSize};
use crate::output::{self, OutputFile, OutputLog, SharedLog};
use crate::page::{PageError, Searching, page};
use crate::screen::watched::WatchedScreen;
use crate::shares::Share;
use crate::sync::lock;
use shellkeep_redact::Redactor;
use shellkeep_session::{
    ByteString, Changes, Notice, Output, RunId, RunResult, RunStatus, StoredRun, TerminalEvents, Timestamp,
};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, oneshot};

/// What others may do to a run.
#[derive(Debug)]
pub enum RunControl {
    /// Send a signal to its processes.
    Signal { number: i32 },
    /// Write to its input.
    Input {
        bytes: Vec<u8>,
        /// Whether that is all.
        end: bool,
        /// Who types it. None if it was passed with the command, whose record contains it.
        typist: Option<Typist>,
    },
    /// Change the size of its terminal.
    Resize { size: TerminalSize },
    /// Send it SIGTERM, and kill it if it has not ended after `grace`.
    Stop { grace: Duration },
    /// Kill it.
    Kill,
    /// Kill it, because the daemon stops.
    DaemonStops,
}

/// Who types into a run.
#[derive(Debug)]
pub struct Typist {
    /// The token that asks for it.
    pub by: Option<String>,
    /// Counts large input as the sender's memory until the command has read it.
    pub share: Option<Share>,
    /// Told when it is recorded and sent to the command, or that it is not.
    pub answer: oneshot::Sender<Taken>,
}

/// How much of an input was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    All,
    /// None of it: too much waits already for the command to read it.
    TooMuch,
}

/// What counts as the end of a run for a watcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The session no longer waits for it, though it may keep running.
    OfWaiting,
    /// It has a result.
    OfRun,
}

/// Controls that may wait for the driving task; more means that no task drives it.
pub const CONTROL_QUEUE: usize = 64;

/// A run, watched.
#[derive(Debug)]
pub struct RunCell {
    pub start: RunStart,
    /// When it started, by the clock that cannot be set.
    pub started: Instant,
    /// The screen of its terminal, if it has one. Boxed: few have one, and it is larger than the rest.
    pub screen: Option<Box<WatchedScreen>>,
    /// Where to send controls.
    pub control: mpsc::Sender<RunControl>,
    /// The process id of the shell that it keeps, once the session no longer waits for it.
    pub background_shell: OnceLock<u32>,
    takes_input: AtomicBool,
    /// Whether all of its output is masked, because it may hold more secrets than can be masked.
    is_withheld: AtomicBool,
    stdout: SharedLog,
    stderr: SharedLog,
    notices: Mutex<Vec<Notice>>,
    changed: Notify,
    end: OnceLock<RunEnd>,
}

/// What is known of a run from its start.
#[derive(Debug)]
pub struct RunStart {
    pub run_id: RunId,
    /// Number of the record that started it.
    pub seq: u64,
    pub command: ByteString,
    /// Whether it reads what is sent to it.
    pub takes_input: bool,
    /// The size of its terminal, if it has one.
    pub terminal: Option<TerminalSize>,
    /// Whether its standard error goes into its standard output.
    pub is_merged: bool,
    /// How long it may take.
    pub timeout: Duration,
    /// When it started, as in its record.
    pub started_at: Timestamp,
    /// The session's working directory.
    pub cwd: ByteString,
    /// The token that asked for it.
    pub by: Option<String>,
    /// The tool that the agent called it by.
    pub tool_name: Option<String>,
}

/// A stream of a run that has ended.
pub struct FinalOutput {
    pub output: Output,
    /// How many bytes of it are not kept.
    pub dropped: u64,
}

/// How the output of a run is kept.
pub struct OutputSpec {
    /// Directory for its files.
    pub directory: Arc<Path>,
    /// Most bytes kept of each stream.
    pub limit: u64,
    /// What masks it, if something does.
    pub redactor: Option<Redactor>,
}

/// The end of a run.
#[derive(Debug)]
pub struct RunEnd {
    /// Number of the record of its result.
    pub seq: u64,
    pub result: Box<RunResult>,
    /// What was typed at its terminal and it did not read: input for the next command of the person who typed it. Not stored.
    pub unread_input: Vec<u8>,
}

impl RunCell {
    /// A run that starts now.
    pub fn new(start: RunStart, output: OutputSpec) -> (Arc<Self>, mpsc::Receiver<RunControl>) {
        let (control, controls) = mpsc::channel(CONTROL_QUEUE);
        let OutputSpec { directory, limit, redactor } = output;
        let place = |stream| OutputFile { directory: Arc::clone(&directory), run_id: start.run_id.clone(), stream };
        let make = if start.terminal.is_some() { OutputLog::of_terminal } else { OutputLog::new };
        let log = |stream| SharedLog::new(make(place(stream), limit, redactor.as_ref()));
        let cell = Arc::new(Self {
            is_withheld: AtomicBool::new(redactor.as_ref().is_some_and(Redactor::is_withholding)),
            stdout: log(Stream::Stdout),
            stderr: log(Stream::Stderr),
            started: Instant::now(),
            screen: start.terminal.map(|size| Box::new(WatchedScreen::new(size, redactor))),
            control,
            background_shell: OnceLock::new(),
            takes_input: AtomicBool::new(start.takes_input),
            notices: Mutex::new(Vec::new()),
            changed: Notify::new(),
            end: OnceLock::new(),
            start,
        });
        (cell, controls)
    }

    /// Whether output of this length can be taken over without waiting for the disk.
    pub fn takes_at_once(&self, stream: Stream, length: usize) -> bool {
        let stream = if self.start.is_merged { Stream::Stdout } else { stream };
        self.log(stream).with(|log| log.takes_at_once(length))
    }

    /// Takes over output.
    pub fn append(&self, stream: Stream, bytes: &[u8]) {
        let stream = if self.start.is_merged { Stream::Stdout } else { stream };
        let log = self.log(stream);
        log.with(|log| log.append(bytes));
        self.changed.notify_waiters();
        if let Some(screen) = &self.screen {
            screen.feed(bytes, log.kept());
        }
    }

    /// What happened at its terminal. No output follows.
    pub fn terminal_events(&self) -> Option<Box<TerminalEvents>> {
        // A terminal has one stream.
        let kept = self.log(Stream::Stdout).kept();
        self.screen.as_ref().map(|screen| Box::new(screen.events(kept)))
    }

    /// Whether it has a terminal.
    pub fn is_terminal(&self) -> bool {
        self.screen.is_some()
    }

    /// Masks its output once more, with the secrets that became known at its end.
    pub fn mask_again(&self, redactor: &Redactor) {
        self.is_withheld.fetch_or(redactor.is_withholding(), Ordering::Relaxed);
        for stream in [Stream::Stdout, Stream::Stderr] {
            self.log(stream).with(|log| log.mask_again(redactor));
        }
        if let Some(screen) = &self.screen {
            screen.mask_with(redactor);
        }
    }

    /// Whether all of its output is masked.
    pub fn is_withheld(&self) -> bool {
        self.is_withheld.load(Ordering::Relaxed)
    }

    /// Standard output and error for the record. No output follows.
    pub fn outputs(&self) -> [FinalOutput; 2] {
        [Stream::Stdout, Stream::Stderr].map(|stream| {
            let end = |log: &mut OutputLog| {
                log.end();
                FinalOutput { dropped: log.dropped(), output: told(self.start.is_merged, stream, log.record()) }
            };
            self.log(stream).with(end)
        })
    }

    /// Its output files, to be forced to disk.
    pub fn files(&self) -> Vec<File> {
        [Stream::Stdout, Stream::Stderr]
            .into_iter()
            .filter_map(|stream| self.log(stream).with(|log| log.file()))
            .collect()
    }

    /// Whether it still accepts input; not from now on, if this was the end of it.
    pub fn accepts_input(&self, end: bool) -> bool {
        if end && !self.is_terminal() {
            return self.takes_input.swap(false, Ordering::Relaxed);
        }
        self.takes_input.load(Ordering::Relaxed)
    }

    /// The session no longer waits for it, and it keeps this shell.
    pub fn detach(&self, notices: Vec<Notice>, shell_pid: u32) {
        lock(&self.notices).extend(notices);
        let _ = self.background_shell.set(shell_pid);
        self.changed.notify_waiters();
    }

    /// Whether the session no longer waits for it.
    pub fn is_detached(&self) -> bool {
        self.background_shell.get().is_some()
    }

    /// Sets the result. It never changes afterwards.
    pub fn finish(&self, end: RunEnd) {
        let _ = self.end.set(end);
        self.changed.notify_waiters();
    }

    /// Whether the result is there.
    pub fn is_finished(&self) -> bool {
        self.end.get().is_some()
    }

    /// Whether it has come to an end.
    pub fn has_come_to(&self, end: End) -> bool {
        self.is_finished() || (end == End::OfWaiting && self.is_detached())
    }

    /// Waits for more to read than `[stdout, stderr]` bytes, for something to see on its terminal after what is kept, other
    /// than `ahead`, or for the end.
    pub async fn more_than(&self, seen: [u64; 2], ahead: Option<&[u8]>, end: End) {
        let is_ahead = |seen_ahead: &[u8]| {
            let now = self.ahead(seen[0]);
            now.is_some_and(|now| now.len() > seen_ahead.len() && now.starts_with(seen_ahead))
        };
        let is_more = || self.readable() != seen || ahead.is_some_and(is_ahead);
        self.wait(|| self.has_come_to(end) || is_more()).await;
    }

    /// Waits for the end.
    pub async fn finished(&self) {
        self.wait(|| self.is_finished()).await;
    }

    async fn wait(&self, is_over: impl Fn() -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if is_over() {
                return;
            }
            changed.await;
        }
    }

    /// What its terminal shows after `seen` bytes and is not kept yet, because it may be masked when more arrives.
    pub fn ahead(&self, seen: u64) -> Option<Vec<u8>> {
        self.screen.as_ref().and_then(|_| self.log(Stream::Stdout).with(|log| log.ahead(seen)))
    }

    /// What a watcher can read. Beyond its quota a stream has more bytes than that; waiting for them would spin.
    pub fn readable(&self) -> [u64; 2] {
        [self.log(Stream::Stdout).kept(), self.log(Stream::Stderr).kept()]
    }

    /// Kept bytes of a stream from `offset` on.
    pub fn read(&self, stream: Stream, offset: u64, limit: usize) -> io::Result<Vec<u8>> {
        self.log(stream).with(|log| log.read(offset, limit))
    }

    /// The last bytes of a stream that outgrew its quota.
    pub fn tail(&self, stream: Stream) -> Vec<u8> {
        self.log(stream).with(|log| log.record()).tail.map(|tail| tail.0).unwrap_or_default()
    }

    /// The run as callers see it.
    pub fn view(&self, max_output: usize) -> RunView {
        let streams = [Stream::Stdout, Stream::Stderr].map(|stream| {
            let view =
                |log: &mut OutputLog| output::view(&log.record(), max_output, |offset, limit| log.read(offset, limit));
            self.log(stream).with(view)
        });
        match self.end.get() {
            Some(RunEnd { seq, result, unread_input }) => RunView {
                unread_input: unread_input.clone(),
                ..result_view(&self.start.run_id, *seq, result, streams, &self.start.by)
            },
            None => {
                let [stdout, stderr] = streams;
                let RunStart { run_id, seq, cwd, by, .. } = &self.start;
                RunView {
                    stdout,
                    stderr,
                    duration: self.started.elapsed(),
                    notices: lock(&self.notices).clone(),
                    ..running_view(run_id, *seq, cwd, by)
                }
            }
        }
    }

    /// A page of output.
    pub fn page(&self, query: &OutputQuery, searching: &Searching) -> Result<OutputPage, PageError> {
        let record = told(self.start.is_merged, query.stream, self.log(query.stream).with(|log| log.record()));
        let complete = self.is_finished();
        page(&record, complete, query, searching, |offset, limit| self.read(query.stream, offset, limit))
    }

    fn log(&self, stream: Stream) -> &SharedLog {
        match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        }
    }
}

/// A stream as recorded and read: the standard error of a merged run says that it is in standard output.
fn told(is_merged: bool, stream: Stream, output: Output) -> Output {
    Output { merged: is_merged && stream == Stream::Stderr, ..output }
}

/// A stored run as callers see it.
pub fn stored_view(run: &StoredRun, directory: &Arc<Path>, max_output: usize, cwd: &ByteString) -> RunView {
    let Some(result) = &run.result else {
        return running_view(&run.run_id, run.seq, cwd, &run.by);
    };
    let streams = [(Stream::Stdout, &result.stdout), (Stream::Stderr, &result.stderr)].map(|(stream, kept)| {
        let path = OutputFile { directory: Arc::clone(directory), run_id: run.run_id.clone(), stream }.path();
        let kept = output::as_it_is(kept, &path);
        output::view(&kept, max_output, |offset, limit| output::read_kept(&kept, &path, offset, limit))
    });
    result_view(&run.run_id, run.ended_seq.unwrap_or(run.seq), result, streams, &run.by)
}

/// A run without a result, as far as its record tells.
fn running_view(run_id: &RunId, seq: u64, cwd: &ByteString, by: &Option<String>) -> RunView {
    RunView {
        run_id: run_id.clone(),
        seq,
        status: RunStatus::Running,
        exit_code: None,
        signal: None,
        stdout: Default::default(),
        stderr: Default::default(),
        duration: Duration::ZERO,
        cwd: cwd.clone(),
        changes: Changes::default(),
        background_output: None,
        unread_input: Vec::new(),
        notices: Vec::new(),
        by: by.clone(),
    }
}

fn result_view(
    run_id: &RunId,
    seq: u64,
    result: &RunResult,
    streams: [crate::ops::StreamView; 2],
    by: &Option<String>,
) -> RunView {
    let [stdout, stderr] = streams;
    RunView {
        run_id: run_id.clone(),
        seq,
        status: result.status,
        exit_code: result.exit_code,
        signal: result.signal.clone(),
        stdout,
        stderr,
        duration: Duration::from_micros(result.duration_us),
        cwd: result.cwd.clone(),
        changes: result.changes.clone(),
        background_output: result.background_output.clone(),
        unread_input: Vec::new(),
        notices: result.notices.clone(),
        by: by.clone(),
    }
}
