//! A keyed store compared with its records where no daemon has it open. Its files are only read: what the daemon would
//! revert or complete when it opens the store is reverted and completed in copies of the tables.

use super::{FILE, Keyed, KeyedError};
use rusqlite::{Connection, OpenFlags};
use shellkeep_session::KvTold;
use std::io;
use std::path::Path;

/// Unqualified names mean these from now on; `contents` and `blobs` are those of the file. The views are ours, not those
/// of the file, which may have been changed.
const COPIES: &str = "
PRAGMA temp_store = MEMORY;
CREATE TEMP TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO temp.meta SELECT name, value FROM main.meta;
CREATE TEMP TABLE history (
    key TEXT NOT NULL, version INTEGER NOT NULL, content INTEGER, content_type TEXT, PRIMARY KEY (key, version)
) WITHOUT ROWID;
INSERT INTO temp.history SELECT key, version, content, content_type FROM main.history;
CREATE TEMP TABLE entries (
    key TEXT PRIMARY KEY, version INTEGER NOT NULL, content INTEGER NOT NULL, content_type TEXT
) WITHOUT ROWID;
INSERT INTO temp.entries SELECT key, version, content, content_type FROM main.entries;
CREATE TEMP VIEW current_values AS
    SELECT key, version, lower(hex(sha256)) AS sha256, bytes,
           coalesce(content_type, 'application/octet-stream') AS content_type, content
    FROM temp.entries JOIN main.contents ON id = content;
CREATE TEMP VIEW past_values AS
    SELECT key, version, lower(hex(sha256)) AS sha256, bytes,
           coalesce(content_type, 'application/octet-stream') AS content_type, content
    FROM temp.history JOIN main.contents ON id = content;
";

/// Compares the store in a directory with its records. Returns the differences.
pub fn compare_files(directory: &Path, told: &KvTold) -> Result<Vec<String>, KeyedError> {
    // Where records are not known here, only the values are compared with their hashes. Otherwise nothing may be later than
    // they are.
    let (entries, version) = if told.is_whole() { (told.entries(), i64::MAX as u64) } else { Default::default() };
    if !Keyed::exists(directory) {
        return Ok(entries.into_keys().map(|key| format!("'{key}' was recorded and is missing")).collect());
    }
    let mut keyed = Keyed { db: open(&directory.join(FILE))?, log: None };
    keyed.db.execute_batch(COPIES)?;
    if told.is_whole() {
        keyed.settle(told.state())?;
    }
    keyed.compare(entries, version)
}

/// Opens the database to read it. Where nothing is in its write-ahead log, no file is made beside it.
fn open(file: &Path) -> Result<Connection, KeyedError> {
    let not_text = || io::Error::new(io::ErrorKind::InvalidInput, "the path of the data directory is not UTF-8");
    let path = std::path::absolute(file)?.into_os_string().into_string().map_err(|_| not_text())?;
    let path = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let log = file.with_file_name(format!("{FILE}-wal"));
    let is_settled = std::fs::metadata(log).map_or(true, |log| log.len() == 0);
    let uri = format!("file:{path}?mode=ro{}", if is_settled { "&immutable=1" } else { "" });
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Ok(Connection::open_with_flags(uri, flags)?)
}
