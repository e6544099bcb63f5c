//! The engine: the one object a door holds. Its methods are the vocabulary of [`crate::ops`].

use crate::ops::*;
use shellkeep_session::{RunId, SessionId, ShellState};
use std::path::PathBuf;
use std::time::Duration;

/// How an engine is set up.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Where workspaces and outputs are kept.
    pub data_dir: PathBuf,
    /// Most live shells (spares included).
    pub max_shells: usize,
    /// Shells started ahead.
    pub spare_shells: usize,
    /// Most processes of one session.
    pub session_processes: u64,
    /// Bytes of one stream of one run that can be read back.
    pub output_bytes_per_run: u64,
    /// The bash to use.
    pub bash: PathBuf,
}

/// Runs sessions. Cheap to clone; all clones are the same engine.
#[derive(Clone)]
pub struct Engine {}

/// A running command, watched. `next` gives output as it comes and the result at the end, then `None`.
pub struct RunStream {}

impl RunStream {
    /// The next piece.
    pub async fn next(&mut self) -> Option<Result<RunChunk, OpError>> {
        unimplemented!()
    }
}

#[allow(unused_variables)]
impl Engine {
    /// Makes a session, or finds the one with that name.
    pub async fn create(&self, request: CreateSession) -> Result<Created, OpError> {
        unimplemented!()
    }
    /// One session.
    pub async fn get(&self, id: &SessionId) -> Result<SessionView, OpError> {
        unimplemented!()
    }
    /// Sessions by name, a page at a time.
    pub async fn list(&self, agent: Option<&str>, after: Option<&SessionId>, limit: usize) -> Result<SessionPage, OpError> {
        unimplemented!()
    }
    /// Ends a session: its processes, its state, its files.
    pub async fn destroy(&self, id: &SessionId) -> Result<(), OpError> {
        unimplemented!()
    }
    /// What its shell knows.
    pub async fn state(&self, id: &SessionId) -> Result<ShellState, OpError> {
        unimplemented!()
    }
    /// Runs a command; returns at its end, or at once if it is not blocking.
    pub async fn run(&self, id: &SessionId, command: RunCommand) -> Result<RunView, OpError> {
        unimplemented!()
    }
    /// Runs a command and watches it.
    pub async fn run_stream(&self, id: &SessionId, command: RunCommand) -> Result<RunStream, OpError> {
        unimplemented!()
    }
    /// How a run stands; waits up to `wait` for its end.
    pub async fn run_view(&self, id: &SessionId, run_id: &RunId, wait: Duration, max_output: usize) -> Result<RunView, OpError> {
        unimplemented!()
    }
    /// Reads a run's output.
    pub async fn output(&self, id: &SessionId, run_id: &RunId, query: OutputQuery) -> Result<OutputPage, OpError> {
        unimplemented!()
    }
    /// Sends input to a run; `end` closes it.
    pub async fn input(&self, id: &SessionId, run_id: &RunId, bytes: Vec<u8>, end: bool) -> Result<(), OpError> {
        unimplemented!()
    }
    /// Sends a signal (`INT`, `TERM`, `KILL`, `USR1`, …; `SIG` may stand before it) to a run's processes.
    pub async fn signal(&self, id: &SessionId, run_id: &RunId, signal: &str) -> Result<(), OpError> {
        unimplemented!()
    }
    /// Drops the shell and keeps the session. Waits its turn behind running commands.
    pub async fn hibernate(&self, id: &SessionId) -> Result<SessionView, OpError> {
        unimplemented!()
    }
    /// Ends what runs and gives a clean shell with the state the session began with.
    pub async fn restart(&self, id: &SessionId) -> Result<SessionView, OpError> {
        unimplemented!()
    }
    /// How the engine stands.
    pub async fn health(&self) -> Health {
        unimplemented!()
    }
    /// Ends every shell after saving; no operation is accepted afterwards.
    pub async fn shutdown(&self) {
        unimplemented!()
    }
}
