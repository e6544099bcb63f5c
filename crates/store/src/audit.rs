//! The audit trail: who created and revoked tokens, deleted sessions or changed settings, and which requests were
//! rejected. One line of JSON each, in an append-only file of the data directory. Written by a separate thread, so that
//! no request waits for the disk; it survives the daemon, and a power failure except for its last lines.

use crate::lock::hold;
use serde::{Deserialize, Serialize};
use shellkeep_session::Timestamp;
use shellkeep_session::skip::is_zero;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};

/// The file in the data directory.
const FILE: &str = "audit.jsonl";
/// Its name when it is full; the previous one is deleted.
const OLDER: &str = "audit.1.jsonl";
/// When it is full: some 30,000 lines. Two of them are kept.
const FULL_BYTES: u64 = 4 << 20;
/// How many entries may wait for the disk. More are only counted.
const WAITING: usize = 1024;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    pub at: Timestamp,
    /// Through which door: `socket`, `tcp`, or `daemon` for its own actions.
    pub door: String,
    /// Who: `host`, the id of a token, `session NAME` for a process of that session, or `unknown`.
    pub who: String,
    /// The agent whose token it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The operation, or `refused`.
    pub what: String,
    /// What it was about: a session, a token, an agent; for a rejected request the method and path.
    pub object: String,
    /// Why it was rejected: the problem's code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// How many more entries were left out here, because there were too many at once.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

enum Order {
    Write(Box<AuditEntry>),
    /// Answer when everything before is written.
    Flush(SyncSender<()>),
}

/// The trail of one data directory. Dropping it ends its thread when everything is written.
#[derive(Debug)]
pub struct AuditTrail {
    directory: PathBuf,
    orders: SyncSender<Order>,
    left_out: Arc<AtomicU64>,
    /// Reading and rotation do not overlap.
    files: Arc<Mutex<()>>,
}

impl AuditTrail {
    /// Opens the trail.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let file = append_to(directory)?;
        let (orders, received) = mpsc::sync_channel(WAITING);
        let (left_out, files) = (Arc::new(AtomicU64::new(0)), Arc::default());
        let mut writer = Writer {
            directory: directory.to_owned(),
            file,
            left_out: Arc::clone(&left_out),
            files: Arc::clone(&files),
        };
        std::thread::Builder::new().name("shellkeep-audit".to_owned()).spawn(move || writer.run(&received))?;
        Ok(Self { directory: directory.to_owned(), orders, left_out, files })
    }

    /// Adds an entry. Never waits.
    pub fn add(&self, entry: AuditEntry) {
        if self.orders.try_send(Order::Write(Box::new(entry))).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The last `limit` entries, the oldest first. Waits for the disk.
    pub fn last(&self, limit: usize) -> io::Result<Vec<AuditEntry>> {
        let (done, written) = mpsc::sync_channel(1);
        if self.orders.send(Order::Flush(done)).is_ok() {
            let _ = written.recv();
        }
        let _still = hold(&self.files);
        let mut entries = std::collections::VecDeque::new();
        for name in [OLDER, FILE] {
            let file = match File::open(self.directory.join(name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other?,
            };
            for line in BufReader::new(file).split(b'\n') {
                // A crash may have cut the last line of a file.
                let Ok(entry) = serde_json::from_slice(&line?) else { continue };
                entries.push_back(entry);
                if entries.len() > limit {
                    entries.pop_front();
                }
            }
        }
        Ok(entries.into())
    }
}

struct Writer {
    directory: PathBuf,
    file: File,
    left_out: Arc<AtomicU64>,
    files: Arc<Mutex<()>>,
}

impl Writer {
    fn run(&mut self, orders: &Receiver<Order>) {
        while let Ok(order) = orders.recv() {
            match order {
                Order::Write(mut entry) => {
                    entry.left_out += self.left_out.swap(0, Ordering::Relaxed);
                    if let Err(error) = self.write(&entry) {
                        self.left_out.fetch_add(1 + entry.left_out, Ordering::Relaxed);
                        tracing::warn!(%error, "cannot write the audit trail");
                    }
                }
                Order::Flush(done) => drop(done.send(())),
            }
        }
    }

    fn write(&mut self, entry: &AuditEntry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        if self.file.metadata()?.len() + line.len() as u64 > FULL_BYTES {
            let _still = hold(&self.files);
            match fs::rename(self.directory.join(FILE), self.directory.join(OLDER)) {
                // An earlier try came so far, and could not open the new file.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                renamed => renamed?,
            }
            self.file = append_to(&self.directory)?;
        }
        let length = self.file.metadata()?.len();
        // The next entry must not follow a part of this one in its line.
        self.file.write_all(&line).inspect_err(|_| drop(self.file.set_len(length)))
    }
}

/// Opens the file; a line that a crash truncated gets a line break, so that the next one is complete.
fn append_to(directory: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(directory.join(FILE))?;
    let length = file.metadata()?.len();
    let mut last = [b'\n'];
    if length > 0 {
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut last, length - 1)?;
    }
    if last != [b'\n'] {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(object: &str) -> AuditEntry {
        AuditEntry {
            at: Timestamp::UNIX_EPOCH,
            door: "socket".to_owned(),
            who: "host".to_owned(),
            agent: None,
            what: "destroy".to_owned(),
            object: object.to_owned(),
            code: None,
            left_out: 0,
        }
    }

    #[test]
    fn the_last_entries_come_back_after_a_crash_in_a_line() {
        let home = tempfile::tempdir().unwrap();
        let trail = AuditTrail::open(home.path()).unwrap();
        for number in 0..5 {
            trail.add(entry(&number.to_string()));
        }
        let objects = |entries: Vec<AuditEntry>| entries.into_iter().map(|entry| entry.object).collect::<Vec<_>>();
        assert_eq!(objects(trail.last(2).unwrap()), ["3", "4"]);
        drop(trail);
        fs::OpenOptions::new().append(true).open(home.path().join(FILE)).unwrap().write_all(b"{\"at\": \"20").unwrap();
        let trail = AuditTrail::open(home.path()).unwrap();
        trail.add(entry("5"));
        assert_eq!(objects(trail.last(2).unwrap()), ["4", "5"]);
    }

    #[test]
    fn it_does_not_grow_without_end() {
        let home = tempfile::tempdir().unwrap();
        let trail = AuditTrail::open(home.path()).unwrap();
        let long = "x".repeat(64 << 10);
        for number in 0..200 {
            trail.add(entry(&format!("{long}{number}")));
            if number % 50 == 0 {
                trail.last(1).unwrap();
            }
        }
        assert!(trail.last(1).unwrap()[0].object.ends_with("199"));
        let size = |name: &str| fs::metadata(home.path().join(name)).unwrap().len();
        assert!(size(FILE) <= FULL_BYTES && size(OLDER) <= FULL_BYTES);
    }
}
