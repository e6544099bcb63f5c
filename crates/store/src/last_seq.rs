//! How far the records of a session go.

use crate::error::ReadError;
use crate::store::Store;
use shellkeep_session::SessionId;

/// The number of a session's last record, also of a damaged one; nothing if there is no such session. For many sessions this is
/// much cheaper than their states.
pub async fn last_seq(store: &Store, session_id: &SessionId) -> Result<Option<u64>, ReadError> {
    let about = session_id.clone();
    store.ask_about(session_id, move |backend| backend.last_seq(&about)).await
}
