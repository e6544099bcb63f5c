//! The MCP doors: stdio and streamable HTTP, one implementation. A tool call is translated to the runtime's vocabulary
//! and its answer to words for a model and data for a program.
//!
//! - [`streamable`]: `/mcp`, streamable HTTP.
//! - [`stdio`]: `/v1/mcp/stdio`, the daemon's end of `shellkeep mcp`; [`lines`] is its framing.
//! - [`handler`]: what the protocol asks of a server. [`calls`] is what happens to a call while it runs.
//! - [`tools`]: the list of tools; one file for each of them: [`run_command`], [`start_service`], [`stop_service`],
//!   [`list_services`], [`read_output`], [`send_input`], [`bash`]. [`execute`] is what those that run a command share,
//!   [`target`] what those that take an id do.
//! - [`seat`]: whose session it is; [`names`] gives names to those who brought none.
//! - [`resources`]: sessions and outputs as resources.
//! - [`text`], [`service_text`], [`schema`], [`progress`]: a result in words, a service in words, a type as a JSON
//!   Schema, output as it comes.

mod bash;
mod calls;
mod execute;
mod handler;
mod hints;
mod lines;
mod list_services;
mod names;
mod progress;
mod read_output;
mod resources;
mod run_command;
mod schema;
mod seat;
mod send_input;
pub(crate) mod service_text;
mod start_service;
pub(crate) mod stdio;
mod stop_service;
pub(crate) mod streamable;
mod target;
mod text;
mod tools;

use crate::http::auth::Scoped;
use crate::refusal::Refusal;
use axum::http::request::Parts;
use names::Names;
use shellkeep_runtime::Engine;
use shellkeep_session::{RunId, SessionId};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// What all MCP clients of a door share.
#[derive(Clone, Default)]
pub(crate) struct Hub {
    names: Names,
    told: Told,
    http: streamable::Sessions,
}

/// Runs whose notices a model has read, so that it reads them once.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<HashSet<Heard>>>);

/// An agent's run; the host has no name.
type Heard = (Option<String>, SessionId, RunId);

/// Runs remembered. Only those with notices are, and those are rare; when there are more, some are told twice.
const MAX_TOLD: usize = 4096;

impl Told {
    /// Whether the notices of an agent's run have not been told yet. From now on they have.
    fn first_time(&self, agent: Option<&str>, session: &SessionId, run_id: &RunId) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= MAX_TOLD {
            told.clear();
        }
        told.insert((agent.map(str::to_owned), session.clone(), run_id.clone()))
    }
}

/// The engine with the rights of whoever sent a request, as the gate has left it there.
fn engine_of(request: &Parts) -> Result<Engine, Refusal> {
    let found = request.extensions.get::<Scoped>().map(|Scoped(engine)| engine.clone());
    found.ok_or_else(|| Refusal::internal("an MCP request came around the gate"))
}
