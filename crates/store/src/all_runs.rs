//! The runs of all sessions.

use crate::error::ReadError;
use crate::store::{Store, When};
use shellkeep_session::{RunKey, SessionId};

/// The runs of all sessions in a store.
pub struct AllRuns<'a> {
    store: &'a Store,
}

impl<'a> AllRuns<'a> {
    pub fn of(store: &'a Store) -> Self {
        Self { store }
    }

    /// Where they are, newest first: at most `limit` that come before `before`. Only the records of `sessions` must have
    /// been applied for that; `None` means those of all.
    pub async fn keys(
        &self,
        sessions: Option<Vec<SessionId>>,
        before: Option<RunKey>,
        limit: usize,
    ) -> Result<Vec<RunKey>, ReadError> {
        self.store.put(When::After(sessions), move |backend| backend.run_keys(before.as_ref(), limit)).await
    }
}
