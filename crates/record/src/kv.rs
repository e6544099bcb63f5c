//! What a recording says about a session's keyed store, to be compared with what is kept of it.

use crate::line::RECORDS_LOST;
use crate::read::{ReadError, Recording};
use shellkeep_session::{Json, KvChange, KvTold};

/// What the lines up to a number say about the keyed store. A malformed line says nothing; the
/// comparison finds that.
pub fn kv_told(recording: &Recording, through: u64) -> Result<KvTold, ReadError> {
    let mut told = KvTold::default();
    let mut raw = recording.raw(1)?;
    let mut is_first = true;
    while let Some(line) = raw.next()? {
        let peek = line.peek()?;
        if peek.seq > through {
            break;
        }
        if is_first && peek.seq > 1 || &*peek.event_type == RECORDS_LOST {
            told.lacks_records();
        }
        is_first = false;
        if !matches!(&*peek.event_type, "kv_changed" | "session_rewound" | "scrubbed") {
            continue;
        }
        let line = line.parse()?;
        match line.event_type.as_str() {
            "kv_changed" => {
                let changes = Vec::<KvChange>::from_tree(&line.data["changes"]);
                told.changed(line.data["version"].as_u64().unwrap_or(0), changes.unwrap_or_default());
            }
            "session_rewound" => {
                if let Ok(rewound) = Json::from_tree(&line.data["kv"]) {
                    told.restored(&rewound);
                }
            }
            _ => told.scrubbed(&Json::from_tree(&line.data["kv"]).unwrap_or_default()),
        }
    }
    Ok(told)
}
