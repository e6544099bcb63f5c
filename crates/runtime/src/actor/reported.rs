//! What was reported to a session's callers about its checkpoints, so that each problem is reported once.

use super::journal::Journal;
use crate::checkpoints::Wanted;
use crate::notices;
use shellkeep_session::{ByteString, Checkpoint, FilesAt, LeftOut};
use shellkeep_workspace::checkpointer::{Saved, Trouble};

/// What was last reported.
#[derive(Debug, Default)]
pub(super) struct Reported {
    /// How many files were left out.
    left_out: u64,
    /// How many files with ignore rules were not read.
    unread_rules: u64,
    /// Why files could not be saved.
    trouble: Option<String>,
}

impl Reported {
    /// The checkpoint for what was saved; the next result reports what is newly left out of it.
    pub(super) fn checkpoint(
        &mut self,
        journal: &mut Journal,
        wanted: Wanted,
        saved: Saved,
        overtaken: bool,
    ) -> Checkpoint {
        let total = saved.left_out.total;
        let named =
            |(path, reason): (Vec<u8>, _)| LeftOut { path: ByteString(path), reason: ToString::to_string(&reason) };
        let left_out: Vec<LeftOut> = saved.left_out.first.into_iter().map(named).collect();
        if total > self.left_out {
            journal.tell([notices::files_left_out(&left_out, total)]);
        }
        let unread = saved.unread_rules;
        if unread.total > self.unread_rules {
            journal.tell([notices::rules_not_read(&unread.first, unread.total)]);
        }
        *self = Self { left_out: total, unread_rules: unread.total, trouble: None };
        Checkpoint {
            at: FilesAt { name: saved.tag, commit: saved.commit.to_string() },
            covers: wanted.covers,
            cause: wanted.cause,
            tool_name: wanted.tool_name.map(str::to_owned),
            added: saved.counts.added,
            changed: saved.counts.changed,
            deleted: saved.counts.deleted,
            bytes: saved.bytes_written,
            overtaken,
            left_out,
            left_out_total: total,
            uncertain: saved.later.first.into_iter().map(notices::changed_later).collect(),
            uncertain_total: saved.later.total,
        }
    }

    /// The next result reports why files could not be saved, if that is new. Returns whether there is no room for more.
    pub(super) fn trouble(&mut self, journal: &mut Journal, trouble: &Trouble) -> bool {
        metrics::counter!("shellkeep_checkpoint_failures_total").increment(1);
        let reason = trouble.to_string();
        if self.trouble.as_ref() != Some(&reason) {
            tracing::warn!(session = %journal.id(), reason, "files could not be saved");
            journal.tell([notices::files_not_kept(&reason)]);
            self.trouble = Some(reason);
        }
        matches!(trouble, Trouble::Full { .. })
    }
}
