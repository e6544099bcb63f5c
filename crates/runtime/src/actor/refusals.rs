//! Tells the reader of a result that a sandbox or the limit of open files may be why the command failed, once for each
//! reason while the session is awake. The kernel reports a refusal only to the process that met it, so what the command
//! printed is all there is to go by.

use crate::cell::RunCell;
use crate::notices;
use crate::ops::{SandboxView, Stream};
use shellkeep_session::{Network, Notice, NoticeCode, Sandbox};

/// How much of the end of a command's output is looked at.
const LOOKED_AT: usize = 4 << 10;
/// What the C library says, in English, when a file or a call was refused.
const REFUSED_FILE: [&[u8]; 3] = [b"Permission denied", b"Operation not permitted", b"Read-only file system"];
/// What it and common programs say when there is no network.
const NO_NETWORK: [&[u8]; 5] = [
    b"Network is unreachable",
    b"Could not resolve host",
    b"Name or service not known",
    b"Temporary failure in name resolution",
    b"Name does not resolve",
];

/// What the C library says of a process that has as many files open as it may.
const TOO_MANY_OPEN: &[u8] = b"Too many open files";

/// Why a command may have failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    File,
    Network,
    OpenFiles,
}

/// What was said already.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    said: Vec<Reason>,
}

impl Refusals {
    /// What to say of a command that failed, if its output suggests that it was refused something: by its sandbox, if it
    /// has one, or by the limit of open files.
    pub(super) fn notice(
        &mut self,
        cell: &RunCell,
        open_files: u64,
        view: impl FnOnce() -> Option<SandboxView>,
    ) -> Option<Notice> {
        let reason = [Stream::Stderr, Stream::Stdout].into_iter().find_map(|stream| reason(&end_of(cell, stream)))?;
        if self.said.contains(&reason) {
            return None;
        }
        let notice = match reason {
            Reason::OpenFiles => notices::too_many_open_files(open_files),
            _ => Notice { code: NoticeCode::Refused, message: message(reason, &view()?)? },
        };
        self.said.push(reason);
        Some(notice)
    }
}

fn end_of(cell: &RunCell, stream: Stream) -> Vec<u8> {
    let [stdout, stderr] = cell.readable();
    let kept = match stream {
        Stream::Stdout => stdout,
        Stream::Stderr => stderr,
    };
    cell.read(stream, kept.saturating_sub(LOOKED_AT as u64), LOOKED_AT).unwrap_or_default()
}

fn reason(output: &[u8]) -> Option<Reason> {
    let has = |words: &&[u8]| output.windows(words.len()).any(|found| found == *words);
    if has(&TOO_MANY_OPEN) {
        Some(Reason::OpenFiles)
    } else if REFUSED_FILE.iter().any(has) {
        Some(Reason::File)
    } else if NO_NETWORK.iter().any(has) {
        Some(Reason::Network)
    } else {
        None
    }
}

fn message(reason: Reason, view: &SandboxView) -> Option<String> {
    let (sandbox, places) = (view.sandbox, view.places.as_ref()?);
    Some(match reason {
        Reason::OpenFiles => return None,
        Reason::File if sandbox == Sandbox::User => {
            let own: Vec<String> = places.write.iter().map(|path| path.display().to_string()).collect();
            format!(
                "The sandbox of this session ({sandbox}) may be why this failed: its commands run as a user of their own, \
                 and not as root. Its own directories are {}; for others, ask the operator of the daemon to change their \
                 permissions.",
                own.join(", ")
            )
        }
        Reason::File => {
            let own: Vec<String> = places.write.iter().map(|path| path.display().to_string()).collect();
            format!(
                "The sandbox of this session ({sandbox}) may be why this failed: its commands write only to {}, and read \
                 only these and the system. Use these directories; for others, ask the operator of the daemon to add them \
                 to sandbox_read or sandbox_write.",
                own.join(", ")
            )
        }
        Reason::Network => {
            if view.network != Some(Network::None) {
                return None;
            }
            let hosts: Vec<String> = view.hosts.iter().map(ToString::to_string).collect();
            let reachable = if hosts.is_empty() { "no host".to_owned() } else { format!("only {}", hosts.join(", ")) };
            format!(
                "The sandbox of this session ({sandbox}) may be why this failed: its commands reach {reachable} besides the \
                 session's own services on 127.0.0.1. Ask the operator of the daemon to add others to sandbox_hosts."
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_recognised() {
        for (output, expected) in [
            ("cat: /etc/shadow: Permission denied\n", Some(Reason::File)),
            ("PermissionError: [Errno 1] Operation not permitted: 'x'", Some(Reason::File)),
            ("touch: cannot touch '/usr/x': Read-only file system", Some(Reason::File)),
            ("curl: (6) Could not resolve host: example.org", Some(Reason::Network)),
            ("bash: connect: Network is unreachable", Some(Reason::Network)),
            ("bash: /dev/null: Too many open files", Some(Reason::OpenFiles)),
            ("error: test failed", None),
            ("", None),
        ] {
            assert_eq!(reason(output.as_bytes()), expected, "{output}");
        }
    }
}
