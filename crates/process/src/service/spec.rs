//! A service in plain values: how it is started, who it is, and how it ended.

use crate::exit::ExitStatus;
use crate::facts::Bytes;
use crate::proc::ProcessStamp;
use crate::shell::StartError;
use std::io;
use std::path::{Path, PathBuf};

/// Where the keeper leaves word of the end, as `keeper.c` has it.
pub(super) const EXIT_FILE: &str = "exit";

/// How to start a service.
#[derive(Debug, Clone)]
pub struct ServiceSpec {
    /// The bash to run.
    pub bash: PathBuf,
    /// Where its log and the word of its end are kept. Exists; a log of an earlier life is appended to.
    pub directory: PathBuf,
    /// Most bytes its log may take.
    pub log_bytes: u64,
    /// Where the driver would leave a result when its socket is closed. Must not exist.
    pub rescue: PathBuf,
    /// Texts of at least six bytes that its log must not contain.
    pub masked: Vec<Bytes>,
}

/// Who it is, to be remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceStamps {
    pub keeper: ProcessStamp,
    /// The process that runs the command.
    pub main: ProcessStamp,
}

/// How a service ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceExit {
    /// All of it is gone.
    Ended {
        /// How its main process ended.
        status: ExitStatus,
        /// When, in milliseconds since 1970.
        at_ms: u64,
    },
    /// The keeper is gone and left no word.
    Unknown,
}

/// Why a service did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServiceStartError {
    /// There is no bash to run it.
    #[error(transparent)]
    Shell(#[from] StartError),
    /// The directory cannot be entered, for this reason.
    #[error("the directory cannot be entered: {0}")]
    BadCwd(String),
    /// Its deadline had passed.
    #[error("its deadline for starting has passed")]
    TooLate,
}

impl From<io::Error> for ServiceStartError {
    fn from(error: io::Error) -> Self {
        Self::Shell(StartError::System(error))
    }
}

/// What the keeper wrote at the end, if it did.
pub fn left_exit(directory: &Path) -> Option<ServiceExit> {
    parse_exit(&std::fs::read_to_string(directory.join(EXIT_FILE)).ok()?)
}

fn parse_exit(text: &str) -> Option<ServiceExit> {
    let mut words = text.split_whitespace();
    let (how, number, at) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    let status = match how {
        "exited" => ExitStatus::Exited(number),
        "signalled" => ExitStatus::Signalled(number),
        _ => return None,
    };
    Some(ServiceExit::Ended { status, at_ms: at.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_of_the_end_is_read() {
        let ended = |status| Some(ServiceExit::Ended { status, at_ms: 1_731_660_000_123 });
        assert_eq!(parse_exit("exited 3 1731660000123\n"), ended(ExitStatus::Exited(3)));
        assert_eq!(parse_exit("signalled 9 1731660000123\n"), ended(ExitStatus::Signalled(9)));
        for text in ["", "exited", "exited 3", "left 3 1", "exited x 1"] {
            assert_eq!(parse_exit(text), None, "{text}");
        }
    }
}
