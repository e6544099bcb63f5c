//! Where a session is: at rest with or without a shell, running a command, or gone.

use super::message::Caller;
use super::shell::{Acquired, Found};
use crate::admission::{Notified, Ticket, Waiter};
use crate::ops::OpError;
use crate::pool::PooledShell;
use crate::running::{RunEvent, Running};
use shellkeep_process::ExitStatus;
use std::future::pending;

/// Where a session is.
pub(super) enum Phase {
    /// No command runs.
    Resting {
        /// The shell for the next command. A session that sleeps has none.
        shell: Option<Acquired>,
        /// What the first command in the queue waits for.
        wait: Wait,
    },
    /// A command runs.
    Running(Run),
    /// The session was deleted.
    Gone,
}

/// What the first command in the queue waits for.
pub(super) enum Wait {
    /// Nothing; it is tried at the next opportunity.
    Nothing,
    /// A permit of the node.
    Permit {
        waiter: Waiter,
        /// Whether a shell became free for it before. It has not tried to take it yet.
        retry_pending: bool,
    },
    Shell(Notified),
    /// Nothing: a shell became free, but it has not tried to take it yet.
    RetryPending,
}

/// The session's command.
pub(super) struct Run {
    pub(super) running: Running,
    /// Who waits for its end.
    pub(super) caller: Option<Caller>,
    /// What was found when its shell was acquired.
    pub(super) found: Found,
}

/// What changed without a message.
pub(super) enum Change {
    Run(RunEvent),
    ShellEnded(ExitStatus),
    ShellFreed,
    Permit(Result<Ticket, OpError>),
}

impl Phase {
    /// At rest, with or without a shell.
    pub(super) fn resting(shell: Option<Acquired>) -> Self {
        Self::Resting { shell, wait: Wait::Nothing }
    }

    /// Waits for a change. May be dropped and called again at any time.
    pub(super) async fn change(&mut self) -> Change {
        match self {
            Self::Running(run) => Change::Run(run.running.step().await),
            // A session with a shell waits for one as well, if there were no descriptors for its command's pipes.
            Self::Resting { shell, wait } => tokio::select! {
                biased;
                exit = shell_ended(shell) => Change::ShellEnded(exit),
                change = wait.over() => change,
            },
            Self::Gone => pending().await,
        }
    }

    /// The command that runs.
    pub(super) fn run(&self) -> Option<&Run> {
        if let Self::Running(run) = self { Some(run) } else { None }
    }

    /// The command that runs.
    pub(super) fn run_mut(&mut self) -> Option<&mut Run> {
        if let Self::Running(run) = self { Some(run) } else { None }
    }

    /// Takes the command that runs.
    pub(super) fn take_run(&mut self) -> Option<Run> {
        match std::mem::replace(self, Self::resting(None)) {
            Self::Running(run) => Some(run),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Whether a command runs.
    pub(super) fn is_running(&self) -> bool {
        matches!(self, Self::Running(_))
    }

    /// Whether the session was deleted.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Gone)
    }

    /// The shell, busy or idle.
    pub(super) fn shell(&self) -> Option<&PooledShell> {
        match self {
            Self::Resting { shell, .. } => shell.as_ref().map(|shell| &shell.pooled),
            Self::Running(run) => Some(&run.running.pooled),
            Self::Gone => None,
        }
    }

    /// Takes the idle shell.
    pub(super) fn take_idle(&mut self) -> Option<Acquired> {
        if let Self::Resting { shell, .. } = self { shell.take() } else { None }
    }

    /// Whether there is an idle shell.
    pub(super) fn has_idle(&self) -> bool {
        matches!(self, Self::Resting { shell: Some(_), .. })
    }

    /// Keeps a shell for the next command.
    pub(super) fn keep(&mut self, acquired: Acquired) {
        if let Self::Resting { shell, .. } = self {
            *shell = Some(acquired);
        }
    }

    /// What the first command waits for.
    pub(super) fn wait(&self) -> &Wait {
        if let Self::Resting { wait, .. } = self { wait } else { &Wait::Nothing }
    }

    /// The first command no longer waits for a permit. That a shell became free for it is not forgotten.
    pub(super) fn drop_permit(&mut self) {
        if let Wait::Permit { retry_pending, .. } = self.wait() {
            let next = if *retry_pending { Wait::RetryPending } else { Wait::Nothing };
            self.set_wait(next);
        }
    }

    /// Sets what the first command waits for.
    pub(super) fn set_wait(&mut self, next: Wait) {
        if let Self::Resting { wait, .. } = self {
            *wait = next;
        }
    }
}

impl Wait {
    /// Whether the first command can be tried now.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Nothing | Self::RetryPending)
    }

    /// Whether a shell became free for the first command and it has not tried to take it yet.
    pub(super) fn retry_pending(&self) -> bool {
        matches!(self, Self::RetryPending | Self::Permit { retry_pending: true, .. })
    }

    async fn over(&mut self) -> Change {
        match self {
            Self::Permit { waiter, .. } => Change::Permit(waiter.turn().await),
            Self::Shell(notified) => {
                notified.wait().await;
                Change::ShellFreed
            }
            Self::Nothing | Self::RetryPending => pending().await,
        }
    }
}

async fn shell_ended(shell: &mut Option<Acquired>) -> ExitStatus {
    match shell {
        Some(acquired) => acquired.pooled.shell.ended().await,
        None => pending().await,
    }
}
