//! The MCP doors: stdio and streamable HTTP, one implementation. A tool call is translated to the runtime's vocabulary
//! and its result to text for a model and data for a program.
//!
//! - [`streamable`]: `/mcp`, streamable HTTP.
//! - [`stdio`]: `/v1/mcp/stdio`, the daemon's end of `shellkeep mcp`; [`lines`] is its framing, [`order`] keeps its
//!   commands in order, [`in_flight`] limits its requests.
//! - [`handler`]: one client, and [`protocol`]: the requests it may send. [`calls`]: cancelling calls.
//! - [`tools`]: the list of tools; one file for each of them: [`run_command`], [`start_service`], [`stop_service`],
//!   [`list_services`], [`read_output`], [`send_input`], [`signal`], [`list_checkpoints`], [`diff`], [`rewind`], [`bash`]. [`execute`] is what those that run a command share,
//!   [`target`] what those that take an id do.
//! - [`seat`]: the client's session; [`names`] names sessions of clients that did not name one.
//! - [`resources`]: sessions and outputs as resources.
//! - [`text`], [`plain`], [`service_text`], [`schema`], [`progress`]: a result as text, a service as text, a type as a
//!   JSON Schema, output as it arrives.

mod bash;
mod bound;
mod calls;
mod diff;
mod execute;
mod faults;
mod handler;
mod hints;
mod hub;
mod in_flight;
mod lines;
mod list_checkpoints;
mod list_services;
mod names;
mod order;
mod plain;
mod progress;
mod protocol;
mod read_output;
mod read_screen;
mod resources;
mod rewind;
mod run_command;
mod schema;
mod seat;
mod send_input;
mod send_keys;
pub(crate) mod service_text;
mod signal;
mod start_service;
mod stdio;
mod stop_service;
mod streamable;
mod target;
mod text;
mod tool;
mod tools;

use axum::Router;
use axum::routing::{any, get};
pub(crate) use faults::unknown_session;
use hub::Hub;
pub(crate) use seat::{named_session, names_session};
pub(crate) use streamable::SESSION_ID;
use streamable::Streamable;

/// The MCP clients of a daemon. Its doors share them: other nodes send the requests of a client on to another door than the
/// one at which it began.
#[derive(Clone)]
pub struct Clients {
    hub: Hub,
    streamable: Streamable,
}

impl Default for Clients {
    fn default() -> Self {
        let hub = Hub::default();
        Self { streamable: Streamable::new(hub.clone()), hub }
    }
}

/// The routes of MCP.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(clients: Clients) -> Router<S> {
    Router::new()
        .route("/v1/mcp/stdio", get(stdio::upgrade).with_state(clients.hub))
        .route("/mcp", any(streamable::serve).with_state(clients.streamable))
}
