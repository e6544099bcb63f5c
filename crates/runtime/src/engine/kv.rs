//! A session's keyed store: read, listed and changed atomically.

use super::access::{Access, Permitted};
use super::handle::Engine;
use crate::actor::{KvTask, Message};
use crate::ops::*;
use shellkeep_session::{Author, SessionId};

/// Operations on a session's keyed store.
pub struct KvOps<'a> {
    access: &'a Access,
}

impl Engine {
    /// Operations on a session's keyed store.
    pub fn kv(&self) -> KvOps<'_> {
        KvOps { access: &self.access }
    }
}

impl KvOps<'_> {
    /// A key with its value.
    pub fn get<'a>(&'a self, id: &'a SessionId, key: String) -> BoxFuture<'a, Result<(KvEntry, Vec<u8>), OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            check_key(&key)?;
            parts.ctx.registry.ask(&id, |answer| Message::Kv(Box::new(KvTask::Get { key, answer }))).await
        })
    }

    /// A page of keys.
    pub fn list<'a>(&'a self, id: &'a SessionId, query: KvQuery) -> BoxFuture<'a, Result<KvPage, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            let query = KvQuery { limit: query.limit.clamp(1, MAX_KV_PAGE), ..query };
            parts.ctx.registry.ask(&id, |answer| Message::Kv(Box::new(KvTask::Scan { query, answer }))).await
        })
    }

    /// Changes keys: all of them or none.
    pub fn change<'a>(&'a self, id: &'a SessionId, ops: Vec<KvOp>) -> BoxFuture<'a, Result<KvChangedKeys, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            self.access.audit("kv", id.as_str());
            check_batch(&ops)?;
            let author = Author::caller(self.access.scope().token());
            parts.ctx.registry.ask(&id, |answer| Message::Kv(Box::new(KvTask::Change { ops, author, answer }))).await
        })
    }
}

fn check_key(key: &str) -> Result<(), OpError> {
    let detail = match key.len() {
        0 => "key: must not be empty; use 1 to 512 bytes of text".to_owned(),
        length if length > MAX_KV_KEY => {
            format!("key: it has {length} bytes, more than {MAX_KV_KEY}; use a shorter one")
        }
        _ if key.chars().any(char::is_control) => "key: it contains a control character; use printable text".to_owned(),
        _ => return Ok(()),
    };
    Err(OpError::Invalid { detail })
}

fn check_batch(ops: &[KvOp]) -> Result<(), OpError> {
    let invalid = |detail: String| Err(OpError::Invalid { detail });
    if ops.is_empty() || ops.len() > MAX_KV_BATCH {
        return invalid(format!("ops: {} changes; send 1 to {MAX_KV_BATCH}", ops.len()));
    }
    let mut keys = std::collections::HashSet::new();
    for KvOp { key, change, .. } in ops {
        check_key(key)?;
        if !keys.insert(key) {
            return invalid(format!("ops: key '{key}' is changed twice; a batch changes a key once"));
        }
        match change {
            KvPut::Bytes { bytes, content_type } => {
                if bytes.len() > MAX_KV_VALUE {
                    return invalid(format!(
                        "the value of '{key}' has {} bytes, more than {MAX_KV_VALUE}",
                        bytes.len()
                    ));
                }
                check_type(content_type)?;
            }
            KvPut::Known { content_type, .. } => check_type(content_type)?,
            KvPut::Delete => {}
        }
    }
    Ok(())
}

fn check_type(content_type: &str) -> Result<(), OpError> {
    let is_plain = content_type.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if is_plain && (1..=MAX_KV_TYPE).contains(&content_type.len()) {
        return Ok(());
    }
    let detail =
        format!("content_type: a media type such as application/json, of at most {MAX_KV_TYPE} ASCII characters");
    Err(OpError::Invalid { detail })
}
