//! The signals that end a program on a terminal.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What ends us from outside.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Listens from now on.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The number of the signal that came.
    pub async fn next(&mut self) -> u8 {
        let came = tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.hangup.recv() => SignalKind::hangup(),
        };
        u8::try_from(came.as_raw_value()).unwrap_or(0)
    }
}
