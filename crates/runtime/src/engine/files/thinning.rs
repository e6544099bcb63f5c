//! Which checkpoints are kept: all of the newest, and of older ones fewer the older they are. Sessions that made new ones
//! are thinned from time to time, when they are idle.

use crate::checkpoints::commit_of;
use crate::engine::Inner;
use crate::engine::lock;
use crate::ops::{CheckpointView, OpError};
use crate::owner::FilesTask;
use shellkeep_session::{FilesAt, SessionId, Timestamp};
use shellkeep_workspace::repo::{ObjectId, Repo};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Sessions that are thinned in one round at most; the others are in the next.
const AT_ONCE: usize = 8;
/// A session whose last command is not longer ago is left alone: its next command would wait.
const IDLE: Duration = Duration::from_secs(30);
/// After so many rounds a session that is never idle is thinned all the same.
const PATIENCE: u32 = 10;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// Which sessions have made checkpoints since they were last thinned.
#[derive(Debug, Default)]
pub(crate) struct ThinBook {
    sessions: Mutex<HashMap<SessionId, Growth>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Growth {
    /// Whether there are new ones.
    grown: bool,
    /// How many the last thinning left.
    left: usize,
    /// Rounds in which it was not idle.
    waited: u32,
}

impl ThinBook {
    /// A session has a checkpoint more.
    pub(crate) fn grew(&self, id: &SessionId) {
        lock(&self.sessions).entry(id.clone()).or_default().grown = true;
    }

    /// A session is no more.
    pub(crate) fn forget(&self, id: &SessionId) {
        lock(&self.sessions).remove(id);
    }

    fn grown(&self) -> Vec<(SessionId, Growth)> {
        let sessions = lock(&self.sessions);
        sessions.iter().filter(|(_, growth)| growth.grown).map(|(id, growth)| (id.clone(), *growth)).collect()
    }

    fn waits(&self, id: &SessionId) {
        if let Some(growth) = lock(&self.sessions).get_mut(id) {
            growth.waited += 1;
        }
    }

    fn looked_at(&self, id: &SessionId, left: usize) {
        if let Some(growth) = lock(&self.sessions).get_mut(id) {
            *growth = Growth { left, ..Growth::default() };
        }
    }
}

impl Inner {
    /// Gives up old checkpoints of sessions that have made new ones and are idle.
    pub(crate) async fn thin_some(self: &Arc<Self>) {
        if !self.checkpoints.config.on {
            return;
        }
        let (all, mut thinned) = (self.checkpoints.config.keep_all, 0);
        for (id, growth) in self.thin_book.grown() {
            if thinned >= AT_ONCE || self.is_stopping() {
                return;
            }
            if self.idle_for(&id).is_some_and(|idle| idle < IDLE) && growth.waited < PATIENCE {
                self.thin_book.waits(&id);
                continue;
            }
            let Ok(count) = self.count_checkpoints(&id).await else { continue };
            // A quarter more than what may stay is worth the work.
            if count <= all.max(growth.left) + (all / 4).max(1) {
                self.thin_book.looked_at(&id, growth.left);
                continue;
            }
            thinned += 1;
            match self.ask_files(&id, FilesTask::Thin).await {
                Ok(bytes) => {
                    let left = self.count_checkpoints(&id).await.unwrap_or(count);
                    self.thin_book.looked_at(&id, left);
                    tracing::info!(session = %id, checkpoints = count - left.min(count), bytes, "old checkpoints were removed");
                }
                Err(error) => {
                    self.thin_book.looked_at(&id, count);
                    tracing::warn!(session = %id, %error, "old checkpoints could not be removed");
                }
            }
        }
    }

    async fn count_checkpoints(&self, id: &SessionId) -> Result<usize, OpError> {
        self.with_repo(id, |repo| Ok(repo.map(Repo::tags).transpose()?.map_or(0, |tags| tags.len()))).await
    }

    /// The commits of a session that are kept by the policy, if `most` of the newest are all kept.
    pub(crate) async fn checkpoints_to_keep(
        &self,
        id: &SessionId,
        current: Option<&FilesAt>,
        most: usize,
    ) -> Result<Vec<ObjectId>, OpError> {
        let all = self.checkpoints_after(id, 0, usize::MAX).await?;
        let keep = to_keep(&all, most, self.config.senses.now());
        let keep = keep.into_iter().map(|view| &view.checkpoint.at).chain(current);
        Ok(keep.filter_map(commit_of).collect())
    }
}

/// The newest `all`; of the others the last of each hour, and after a day the last of each day.
fn to_keep(checkpoints: &[CheckpointView], all: usize, now: Timestamp) -> Vec<&CheckpointView> {
    let (old, new) = checkpoints.split_at(checkpoints.len().saturating_sub(all));
    let span = |view: &CheckpointView| {
        let seconds = view.at.as_second();
        let length = if now.as_second() - seconds > DAY { DAY } else { HOUR };
        (length, seconds / length)
    };
    let is_last = |index: usize| old.get(index + 1).is_none_or(|next| span(next) != span(&old[index]));
    let kept = (0..old.len()).filter(|index| is_last(*index)).map(|index| &old[index]);
    kept.chain(new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_session::{Cause, Checkpoint};

    fn at(minute: i64) -> CheckpointView {
        let at = FilesAt { name: minute.to_string(), commit: String::new() };
        let checkpoint = Checkpoint::of(at, 1, Cause::Manual);
        CheckpointView { checkpoint, seq: 1, at: Timestamp::from_second(minute * 60).unwrap(), kept: true }
    }

    fn kept(minutes: &[i64], all: usize, now: i64) -> Vec<i64> {
        let views: Vec<CheckpointView> = minutes.iter().map(|minute| at(*minute)).collect();
        let kept = to_keep(&views, all, Timestamp::from_second(now * 60).unwrap());
        kept.iter().map(|view| view.checkpoint.at.name.parse().unwrap()).collect()
    }

    #[test]
    fn of_old_ones_the_last_of_an_hour_and_of_a_day_stay() {
        let day = 24 * 60;
        let minutes = [1, 2, day - 1, day + 5, day + 10, day + 59, day + 61, day + 70, day + 71];
        // Of the second day, those before the thirtieth minute are more than a day old by then.
        assert_eq!(kept(&minutes, 2, 2 * day + 30), [day - 1, day + 10, day + 59, day + 61, day + 70, day + 71]);
        assert_eq!(kept(&minutes, 100, 3 * day), minutes);
        assert_eq!(kept(&minutes, 1, 9 * day), [day - 1, day + 70, day + 71]);
        assert_eq!(kept(&[], 1, 9), [0_i64; 0]);
    }
}
