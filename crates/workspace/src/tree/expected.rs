//! The precondition of a change to a file.

/// What must be at a path for a file to be written or removed there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    Anything,
    /// Any file.
    Something,
    Nothing,
    /// A file with this SHA-256, in hexadecimal.
    Sha256(String),
}
