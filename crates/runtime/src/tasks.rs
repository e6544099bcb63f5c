//! Tasks, and work on blocking threads. What they run is boxed: tokio's part of a task is some ten functions, which would
//! be compiled again for each future and each closure.

use std::pin::Pin;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinHandle;

/// Runs a future in a task of its own.
pub fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let future: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(future);
    tokio::spawn(future)
}

/// Does something that may block on a thread for that.
pub(crate) fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
    tokio::task::spawn_blocking(work)
}

/// Does something that may block and cannot be waited for, because what calls it is not async. The other tasks of this
/// thread go on on another, where there is more than one.
pub(crate) fn in_place<T>(work: impl FnOnce() -> T) -> T {
    let has_threads = |runtime: Handle| runtime.runtime_flavor() == RuntimeFlavor::MultiThread;
    match Handle::try_current().is_ok_and(has_threads) {
        true => tokio::task::block_in_place(work),
        false => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A disk that hung while the output of one command was written stopped all tasks of that thread.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_blocks_in_its_place_stops_no_other_task() {
        let (other_ran, wait) = mpsc::channel();
        let blocked = spawn(async move {
            spawn(async move { other_ran.send(()) });
            in_place(|| wait.recv())
        });
        assert_eq!(blocked.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn with_one_thread_it_is_done_there() {
        assert_eq!(in_place(|| 1), 1);
    }
}
