//! Doors: HTTP and MCP, on a Unix socket and on TCP. A door checks who comes in, translates a request to the runtime's
//! vocabulary, and translates the answer back. It holds no facts and starts no process.
//!
//! - [`listen`]: sockets, connections, and how they end. `connections` knows how long each may take, `guarded` who reads.
//! - [`http`]: one file per resource, and [`router`] that joins them.
//! - `mcp`: tools for models, on stdio and over HTTP.

mod connections;
mod errors;
mod guarded;
pub mod http;
pub mod listen;
mod mcp;
mod refusal;
mod repoll;

pub use http::auth::{Auth, Scoped, Token};
pub use http::metrics::{install_metrics, keep_metrics};
pub use http::openapi::document as openapi;
pub use http::router;
pub use http::translate::verdict;
pub use listen::{BindError, bind_tcp, bind_unix, serve_tcp, serve_unix};
pub use metrics_exporter_prometheus::PrometheusHandle;
