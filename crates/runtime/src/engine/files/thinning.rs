//! Which checkpoints are kept: all of the newest, and of older ones fewer the older they are.

use crate::checkpoints::commit_of;
use crate::engine::Inner;
use crate::ops::{CheckpointView, OpError};
use shellkeep_session::{FilesAt, SessionId, Timestamp};
use shellkeep_workspace::repo::ObjectId;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

impl Inner {
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
