//! Locks that another thread may have poisoned: every statement leaves the value consistent, so it is used as it is.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, poisoned or not.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
