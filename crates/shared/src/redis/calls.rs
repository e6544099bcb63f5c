//! What is sent to the server: calls of scripts, and the keys of a session.

use crate::tier::{Append, RemovedSession};
use redis::{Cmd, Connection, FromRedisValue, Pipeline, RedisResult, Value, cmd, from_redis_value};
use shellkeep_session::SessionId;
use shellkeep_session::ownership::Claim;
use std::time::Duration;

/// How long the server may take to answer, or to take a connection. A node goes on by itself afterwards.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// Sends commands and reads their answers, up to the first silence: a server that is silent for the whole of our
/// patience is not waited for again, however many answers are missing. An error of the server is the first that it
/// said.
pub(super) fn exchange<T: FromRedisValue>(connection: &mut Connection, commands: &Pipeline) -> RedisResult<T> {
    connection.send_packed_command(&commands.get_packed_pipeline())?;
    let mut refused = None;
    let mut answers = Vec::with_capacity(commands.len());
    for _ in 0..commands.len() {
        match connection.recv_response().and_then(Value::extract_error) {
            Ok(answer) => answers.push(answer),
            Err(error) if error.is_io_error() => return Err(error),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) => Err(error),
        None => Ok(from_redis_value(Value::Array(answers))?),
    }
}

pub(super) fn call(hash: &str, keys: &[String]) -> Cmd {
    let mut call = cmd("EVALSHA");
    call.arg(hash).arg(keys.len()).arg(keys);
    call
}

/// A call of `append.lua`.
pub(super) fn append_call(hash: &str, append: &Append, lease: Duration) -> Cmd {
    let Append { session_id, claim, after, from, first, through, lines } = append;
    let mut call = call(hash, &keys(session_id, ["head", "lease", "log"]));
    call.arg(claim.to_string()).arg(millis(lease)).arg(after.seq).arg(text(after.at.as_ref()));
    call.arg(through).arg(from).arg(first).arg(lines);
    call
}

pub(super) fn keys<const N: usize>(session_id: &SessionId, names: [&str; N]) -> [String; N] {
    names.map(|name| format!("sk:{{{session_id}}}:{name}"))
}

/// The key that says of a session that it was removed.
pub(super) fn mark(RemovedSession { session_id, created_at }: &RemovedSession) -> String {
    format!("sk:{{{session_id}}}:removed:{created_at}")
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn text(claim: Option<&Claim>) -> String {
    claim.map(Claim::to_string).unwrap_or_default()
}
