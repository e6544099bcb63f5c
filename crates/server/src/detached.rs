//! Operations that continue when their caller disconnects.

use crate::refusal::Refusal;
use shellkeep_runtime::OpError;
use std::future::Future;
use std::pin::Pin;
use tokio::sync::oneshot;

/// Runs an operation in its own task. When a caller disconnects, the handler is dropped with every future it holds; the
/// operation must continue.
pub async fn detached<T, F>(operation: F) -> Result<T, Refusal>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let (done, result) = oneshot::channel();
    // Boxed, so that tokio's part of a task is compiled once and not for every operation.
    let work: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move { drop(done.send(operation.await)) });
    let task = tokio::spawn(work);
    match result.await {
        Ok(result) => Ok(result),
        // It sends its result unless it panics.
        Err(error) => {
            Err(task.await.map_or_else(OpError::from, |()| OpError::Internal { detail: error.to_string() }).into())
        }
    }
}
