//! Why a server did not do what it was asked.

use super::address::Address;
use crate::tier::Down;
use ::redis::{ErrorKind, RedisError, ServerErrorKind};
use shellkeep_session::ownership::NotAClaim;

/// How the driver tells that a database number is out of range.
const NO_DATABASE: &str = "Redis server refused to switch database";

/// Whether a new connection may do what this one did not: it broke, its server lost the scripts or is no longer the primary.
pub(super) fn is_worth_another(error: &RedisError) -> bool {
    // A server that was silent for the whole of our patience gets no second one.
    let is_broken = error.is_io_error() && !error.is_timeout();
    let is_changed = matches!(error.kind(), ErrorKind::Server(ServerErrorKind::NoScript | ServerErrorKind::ReadOnly));
    is_broken || is_changed
}

pub(super) fn down(address: &Address, error: &RedisError) -> Down {
    let errors = error.clone().into_server_errors();
    let (code, said) = match errors.as_deref().and_then(<[_]>::first) {
        // All commands of a pipeline fail for one reason.
        Some((_, first)) => (first.code(), format!("{} {}", first.code(), first.details().unwrap_or_default())),
        None => ("", error.to_string()),
    };
    let is_refused = error.kind() == ErrorKind::AuthenticationFailed
        || matches!(code, "NOAUTH" | "WRONGPASS" | "NOPERM")
        || said.starts_with(NO_DATABASE);
    Down { is_refused, ..Down::new(format!("{address}: {said}")) }
}

pub(super) fn not_ours(address: &Address, what: &NotAClaim) -> Down {
    let reason = format!("{address}: the keys in this database are not shellkeep's: {what}");
    Down { answers: true, ..Down::new(reason) }
}

pub(super) fn unreadable(address: &Address, error: &std::io::Error) -> Down {
    Down { answers: true, ..Down::new(format!("{address}: packed records cannot be read: {error}")) }
}
