//! Tasks, and work on blocking threads. What they run is boxed: tokio's part of a task is some ten functions, which would
//! be compiled again for each future and each closure.

use std::pin::Pin;
use tokio::task::JoinHandle;

/// Runs a future in a task of its own.
pub(crate) fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let future: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(future);
    tokio::spawn(future)
}

/// Does something that may block on a thread for that.
pub(crate) fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
    tokio::task::spawn_blocking(work)
}
