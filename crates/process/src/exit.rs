//! How a process ended.

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// With this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
}

impl ExitStatus {
    /// As bash says it: 128+n for a signal.
    pub fn code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Signalled(signal) => 128 + signal,
        }
    }
}
