//! Doors: HTTP and MCP, on a Unix socket and on TCP. A door authenticates the caller, translates a request to the
//! runtime's vocabulary, and translates the result back. It stores nothing and starts no process.
//!
//! - [`listen`]: sockets, connections, and how they end. `connections` has their timeouts, `guarded` disconnects peers
//!   that do not read.
//! - `auth`: authentication and rights. `params`, `body`: the parts of a request; `pace`: how fast it must arrive.
//!   `frames`: a response's body that a function makes.
//! - `translate`: from wire types to the runtime's vocabulary and back. `refusal`, `errors`: why a request was refused.
//! - `peers`: how nodes that share a store recognise each other.
//! - [`Control`]: the program that runs the doors.
//! - [`http`]: one file per resource, and [`router`] that joins them.
//! - `mcp`: tools for models, on stdio and over HTTP.

mod auth;
mod body;
mod connections;
mod control;
mod detached;
mod errors;
mod frames;
mod guarded;
pub mod http;
mod links;
pub mod listen;
mod located;
mod mcp;
mod metrics;
mod pace;
mod params;
mod parsed_size;
mod peers;
mod refusal;
mod repoll;
mod rights;
mod sync;
mod translate;
mod unread;
mod until;

pub use auth::{Auth, Scoped, Token};
pub use control::{Control, DaemonFacts, Reloading, StopOrder};
pub use http::openapi::document as openapi;
pub use http::{router, watch_neighbours};
pub use listen::{BindError, bind_tcp, bind_unix, serve_tcp, serve_unix};
pub use mcp::Clients as McpClients;
pub use metrics::{install_metrics, keep_metrics};
pub use metrics_exporter_prometheus::PrometheusHandle;
pub use peers::Peers;
