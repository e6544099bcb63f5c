//! What is remembered of sessions that were removed, and of names that were given back.

use super::connection::Failed;
use super::rows::millis;
use crate::tier::{REMEMBERED, RemovedSession, UNUSED};
use shellkeep_session::SessionId;
use tokio_postgres::{GenericClient, Transaction};

/// When a session is removed.
pub(super) const NOW: &str = "clock_timestamp()";
/// The same for one of whose name it is not remembered.
pub(super) const LONG_AGO: &str = "'-infinity'";

/// Removes a session whose row is locked, and forgets what was removed too long ago.
pub(super) async fn clear(within: &Transaction<'_>, session_id: &SessionId, removed_at: &str) -> Result<(), Failed> {
    let id = session_id.as_str();
    within.execute("DELETE FROM sk_shared_log WHERE session_id = $1", &[&id]).await?;
    let removed = format!(
        "UPDATE sk_shared_heads SET removed_at = {removed_at}, lease_until = NULL, agent = NULL, files = NULL, \
         forks = '', base = NULL, next = NULL, covers = NULL WHERE session_id = $1"
    );
    within.execute(removed.as_str(), &[&id]).await?;
    let forget = "DELETE FROM sk_shared_heads WHERE removed_at < clock_timestamp() - $1 * interval '1 ms' \
                  AND session_id <> $2";
    within.execute(forget, &[&millis(REMEMBERED), &id]).await?;
    within.execute("DELETE FROM sk_shared_removed WHERE until < clock_timestamp()", &[]).await?;
    Ok(())
}

/// Forgets names that an agent claimed and gave back without a record, but for one that is being claimed. Others that are being
/// claimed at this moment are left out: waiting for them could be for ever, as they wait for the agent's lock.
pub(super) async fn forget_unused(within: &Transaction<'_>, agent: &str, but: &str) -> Result<(), Failed> {
    let forget = "DELETE FROM sk_shared_heads WHERE session_id IN (SELECT session_id FROM sk_shared_heads \
                  WHERE agent = $1 AND session_id <> $2 AND seq = 0 AND owner IS NOT NULL AND removed_at IS NULL \
                  AND coalesce(lease_until, '-infinity') < clock_timestamp() - $3 * interval '1 ms' \
                  FOR UPDATE SKIP LOCKED)";
    within.execute(forget, &[&agent, &but, &millis(UNUSED)]).await?;
    Ok(())
}

/// Marks sessions as removed, in the order of their names, so that no two nodes wait for each other.
pub(super) async fn mark(client: &impl GenericClient, removed: &[RemovedSession]) -> Result<(), Failed> {
    let ids: Vec<&str> = removed.iter().map(|removed| removed.session_id.as_str()).collect();
    let times: Vec<String> = removed.iter().map(|removed| removed.created_at.to_string()).collect();
    let sql = "INSERT INTO sk_shared_removed SELECT *, clock_timestamp() + $3 * interval '1 ms' \
               FROM (SELECT DISTINCT * FROM unnest($1::text[], $2::text[]) AS given (session_id, created_at) \
               ORDER BY session_id, created_at) AS ordered \
               ON CONFLICT (session_id, created_at) DO UPDATE SET until = excluded.until";
    client.execute(sql, &[&ids, &times, &millis(REMEMBERED)]).await?;
    Ok(())
}

pub(super) async fn is_marked(client: &impl GenericClient, session: &RemovedSession) -> Result<bool, Failed> {
    let RemovedSession { session_id, created_at } = session;
    let sql = "SELECT 1 FROM sk_shared_removed WHERE session_id = $1 AND created_at = $2 AND until > clock_timestamp()";
    Ok(client.query_opt(sql, &[&session_id.as_str(), &created_at.to_string()]).await?.is_some())
}

/// Those of these names of which it is remembered.
pub(super) async fn of(client: &impl GenericClient, sessions: &[SessionId]) -> Result<Vec<SessionId>, Failed> {
    let ids: Vec<&str> = sessions.iter().map(SessionId::as_str).collect();
    let sql = "SELECT session_id FROM sk_shared_heads WHERE session_id = ANY($1) \
               AND removed_at > clock_timestamp() - $2 * interval '1 ms'";
    let rows = client.query(sql, &[&ids, &millis(REMEMBERED)]).await?;
    let removed: Vec<&str> = rows.iter().filter_map(|row| row.try_get(0).ok()).collect();
    Ok(sessions.iter().filter(|id| removed.contains(&id.as_str())).cloned().collect())
}
