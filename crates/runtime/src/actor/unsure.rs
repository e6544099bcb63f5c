//! Which files of an earlier moment are uncertain: a rewind or fork lists them, instead of presenting a later version
//! as that of the moment.

use super::files::Files;
use super::journal::Journal;
use crate::checkpoints::commit_of;
use crate::ops::MAX_NAMED_FILES;
use shellkeep_record::past::{Past, Unsure};
use shellkeep_session::{ByteString, LeftOut};
use shellkeep_workspace::diff;
use shellkeep_workspace::repo::{ObjectId, Repo, RepoError};

/// Why a path is uncertain.
const OVERTAKEN: &str = "the next command started before the checkpoint was complete; it may be that command's version";
const MISSING: &str = "the next command started before a checkpoint was taken; it may be the version of an earlier run";
const UNKNOWN: &str = "the next command started before a checkpoint was taken, and the checkpoint after it was \
    removed; \
                       any file may be the version of an earlier run";

/// Paths that may differ from an earlier moment; only the first ones are named.
#[derive(Debug, Clone, Default)]
pub(super) struct Uncertain {
    pub(super) first: Vec<LeftOut>,
    pub(super) total: u64,
}

/// Which files may differ from that moment. `now` is the current state.
pub(super) async fn uncertain(
    files: &mut Files,
    journal: &mut Journal,
    past: &Past,
    now: Option<ObjectId>,
) -> Uncertain {
    let Unsure { named, total, overtaken, missing, next } = past.unsure.clone();
    let mut uncertain = Uncertain { first: named, total };
    let then = past.files.as_ref().and_then(commit_of);
    let next = match &next {
        Some(next) => commit_of(next),
        None => now,
    };
    if !overtaken && !missing {
        return uncertain;
    }
    let compared = files.with_keeper(journal, move |keeper| -> Result<Vec<diff::Change>, RepoError> {
        let Some(repo) = keeper.repo() else { return Ok(Vec::new()) };
        match (overtaken, then, next) {
            (true, Some(then), _) => diff::trees(repo, parent(repo, then)?, then),
            (false, then, Some(next)) => diff::trees(repo, then, next),
            _ => Ok(Vec::new()),
        }
    });
    match compared.await {
        Ok(Ok(changes)) => {
            let reason = if overtaken { OVERTAKEN } else { MISSING };
            uncertain.total += changes.len() as u64;
            uncertain.first.extend(changes.into_iter().map(|change| told(change.path, reason)));
            uncertain.first.truncate(MAX_NAMED_FILES);
        }
        _ => {
            uncertain.total += 1;
            uncertain.first.push(told(b".".to_vec(), UNKNOWN));
        }
    }
    uncertain
}

fn told(path: Vec<u8>, reason: &str) -> LeftOut {
    LeftOut { path: ByteString(path), reason: reason.to_owned() }
}

fn parent(repo: &Repo, commit: ObjectId) -> Result<Option<ObjectId>, RepoError> {
    Ok(repo.objects.read_commit(commit)?.parents.first().copied().filter(|parent| repo.objects.contains(*parent)))
}
