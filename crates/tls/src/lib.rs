//! TLS as a client, by rustls with ring.
//!
//! - [`trust`]: what of a server's certificate is checked.
//! - [`postgres`]: what a URL of PostgreSQL asks for, and the stream.

pub mod postgres;
pub mod trust;
