//! Which checkpoints are kept: all of the newest, and of older ones fewer the older they are. Sessions with new ones
//! are pruned from time to time, when they are idle.

use crate::ops::CheckpointView;
use crate::sync::lock;
use shellkeep_session::{SessionId, Timestamp};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// Which sessions have made checkpoints since they were last thinned.
#[derive(Debug, Default)]
pub(crate) struct Thinning {
    sessions: Mutex<HashMap<SessionId, Growth>>,
}

/// The checkpoints of one session.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Growth {
    /// Whether there are new ones.
    grown: bool,
    /// How many the last pruning left.
    pub(crate) left: usize,
    /// Rounds in which it was not idle.
    pub(crate) waited: u32,
}

impl Thinning {
    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Growth>> {
        lock(&self.sessions)
    }

    /// A session has a new checkpoint.
    pub(crate) fn grew(&self, id: &SessionId) {
        self.sessions().entry(id.clone()).or_default().grown = true;
    }

    /// A session was deleted.
    pub(crate) fn forget(&self, id: &SessionId) {
        self.sessions().remove(id);
    }

    /// Sessions with new checkpoints.
    pub(crate) fn grown(&self) -> Vec<(SessionId, Growth)> {
        let sessions = self.sessions();
        sessions.iter().filter(|(_, growth)| growth.grown).map(|(id, growth)| (id.clone(), *growth)).collect()
    }

    /// A session was not idle in this round.
    pub(crate) fn waits(&self, id: &SessionId) {
        if let Some(growth) = self.sessions().get_mut(id) {
            growth.waited += 1;
        }
    }

    /// A session was looked at, and has `left` checkpoints now.
    pub(crate) fn looked_at(&self, id: &SessionId, left: usize) {
        if let Some(growth) = self.sessions().get_mut(id) {
            *growth = Growth { left, ..Growth::default() };
        }
    }
}

/// The newest `all`; of the others the last of each hour, and after a day the last of each day.
pub(crate) fn to_keep(checkpoints: &[CheckpointView], all: usize, now: Timestamp) -> Vec<&CheckpointView> {
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
    use shellkeep_session::{Cause, Checkpoint, FilesAt};

    fn at(minute: i64) -> CheckpointView {
        let at = FilesAt { name: minute.to_string(), commit: String::new() };
        let checkpoint = Checkpoint::of(at, 1, Cause::Manual);
        CheckpointView {
            checkpoint,
            seq: 1,
            at: Timestamp::from_second(minute * 60).unwrap(),
            kept: true,
            command: None,
        }
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
