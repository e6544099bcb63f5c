//! Operations that continue when their caller disconnects.

use crate::refusal::Refusal;
use shellkeep_runtime::OpError;
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Runs an operation to its end. When a caller disconnects, the handler is dropped with every future it holds; the
/// operation continues in a task of its own then. Few callers disconnect, so it has none before that: a task and the way
/// back from it cost more than the rest of a small request.
pub async fn detached<T, F>(operation: F) -> Result<T, Refusal>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    Operation { work: Some(Box::pin(operation)) }.await.map_err(|panic| panicked(&*panic).into())
}

/// An operation that is not lost when it is dropped.
struct Operation<T: Send + 'static> {
    /// None once it has ended.
    work: Option<Work<T>>,
}

impl<T: Send + 'static> Future for Operation<T> {
    /// The result, or what it panicked with. A panic must not take the connection with it.
    type Output = Result<T, Box<dyn Any + Send>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        // After a panic it is dropped and not polled again, so that nobody sees what it left half done.
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        if matches!(polled, Ok(Poll::Pending)) {
            return Poll::Pending;
        }
        self.work = None;
        match polled {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

impl<T: Send + 'static> Drop for Operation<T> {
    fn drop(&mut self) {
        let (Some(work), Ok(runtime)) = (self.work.take(), tokio::runtime::Handle::try_current()) else { return };
        // Boxed, so that tokio's part of a task is compiled once and not for every operation.
        let rest: Work<()> = Box::pin(async move { drop(work.await) });
        runtime.spawn(rest);
    }
}

fn panicked(panic: &(dyn Any + Send)) -> OpError {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let detail = format!("an operation panicked: {}", text.unwrap_or("it did not say why"));
    tracing::error!(detail);
    OpError::Internal { detail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;
    use tokio::sync::oneshot;

    fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn an_operation_whose_caller_is_gone_continues() {
        let ((go, may_go), (done, is_done)) = (oneshot::channel::<()>(), oneshot::channel());
        let mut operation = Box::pin(detached(async move {
            let _ = may_go.await;
            let _ = done.send(7);
        }));
        assert!(poll_once(operation.as_mut()).is_pending());
        drop(operation);
        let _ = go.send(());
        assert_eq!(is_done.await, Ok(7));
    }

    #[tokio::test]
    async fn one_whose_caller_waits_has_no_task_of_its_own() {
        let [caller, operation] = tokio::spawn(async {
            let operation = detached(async { tokio::task::id() }).await.unwrap();
            [tokio::task::id(), operation]
        })
        .await
        .unwrap();
        assert_eq!(caller, operation);
    }

    #[tokio::test]
    async fn a_panic_is_an_internal_error_of_its_own_request() {
        let refused = detached::<(), _>(async { panic!("a bug") }).await.unwrap_err();
        assert_eq!(refused.problem().code, "internal_error");
        assert_eq!(detached(async { 7 }).await.unwrap(), 7);
    }
}
