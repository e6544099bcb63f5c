//! Returning disk space: unused pages go to the end of the file, and the file becomes shorter.

use super::row::failed;
use crate::backend::BackendError;
use rusqlite::Connection;

/// Pages that may stay free: new sessions will use them, and moving a page costs two writes.
const SPARE_PAGES: i64 = 1024;

/// The part of the file that may be free, as its divisor.
const SPARE_PART: i64 = 4;

/// Pages returned at a time: a few milliseconds, after which waiting callers get a turn.
const STEP_PAGES: i64 = 256;

/// Whether to look for free pages.
pub(super) struct Space {
    /// Something was deleted since the last check.
    loosened: bool,
    /// Pages are being given back until few are free.
    shrinking: bool,
}

impl Default for Space {
    /// An earlier daemon may have left something to do.
    fn default() -> Self {
        Self { loosened: true, shrinking: false }
    }
}

impl Space {
    /// Notes that a batch deleted something, or did not.
    pub(super) fn look_again(&mut self, deleted: bool) {
        self.loosened |= deleted;
    }

    /// Returns some pages to the file system; returns whether there is more to do.
    pub(super) fn give_back(&mut self, db: &Connection) -> Result<bool, BackendError> {
        if !self.loosened && !self.shrinking {
            return Ok(false);
        }
        self.loosened = false;
        let number =
            |name: &str| db.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0)).map_err(failed);
        let (free, all) = (number("freelist_count")?, number("page_count")?);
        // With hysteresis, so that a few deletions do not move pages back and forth.
        let most = SPARE_PAGES.max(all / SPARE_PART);
        let enough = if self.shrinking { SPARE_PAGES / 2 } else { most };
        // 2 is INCREMENTAL; a file of an older program cannot shrink.
        if free <= enough || number("auto_vacuum")? != 2 {
            if std::mem::take(&mut self.shrinking) {
                // The file itself becomes shorter when the log has been carried over.
                db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(failed)?;
            }
            return Ok(false);
        }
        self.shrinking = true;
        let mut statement = db.prepare(&format!("PRAGMA incremental_vacuum({STEP_PAGES})")).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        // A step gives a row for each page and ends with the last of them.
        while rows.next().map_err(failed)?.is_some() {}
        Ok(true)
    }
}
