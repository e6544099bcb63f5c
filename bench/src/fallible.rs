//! What may fail.

/// The benchmark has no caller who could act on a kind of error; a sentence is enough.
pub type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
