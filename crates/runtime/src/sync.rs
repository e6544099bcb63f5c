//! Locking a mutex that another thread may have poisoned: the data stays as it was, which every user can handle.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, poisoned or not.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
