//! Operations that go on when their caller hangs up.

use crate::refusal::Refusal;
use shellkeep_runtime::OpError;
use std::future::Future;

/// Runs an operation in a task of its own. A caller that hangs up drops the handler, and with it every future the
/// handler holds; the operation must go on.
pub async fn detached<T, F>(operation: F) -> Result<T, Refusal>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    Ok(tokio::spawn(operation).await.map_err(OpError::from)?)
}
