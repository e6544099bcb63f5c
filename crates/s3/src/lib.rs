//! Objects in S3, or in a store that speaks it: the place for what nodes share of sessions' files where they share no file
//! system.
//!
//! - [`address`]: which bucket a URL names, and with which credentials it is opened.
//! - [`Bucket`]: its objects. Requests are signed by `rusty-s3` and sent by hyper.
//! - `connection`: one connection, with TLS or without; `body`: a part of a file as the body of a request.

pub mod address;

mod body;
mod bucket;
mod connection;

pub use address::{Address, BadAddress};
pub use bucket::Bucket;
