//! The forks of a session: copies with sessions of their own, which a scrub does not reach.

use crate::engine::list::MAX_PAGE;
use crate::engine::parts::Parts;
use crate::ops::OpError;
use shellkeep_session::SessionId;
use shellkeep_store::{Find, SessionOrder};
use std::collections::BTreeSet;

/// The forks of a session, and those of its forks, as far as this node has them; by name.
pub(super) async fn of(parts: &Parts, id: &SessionId) -> Result<Vec<SessionId>, OpError> {
    let mut all: Vec<(SessionId, SessionId)> = Vec::new();
    let mut find = Find { order: SessionOrder::Id, limit: MAX_PAGE, ..Find::default() };
    loop {
        let unavailable = |error: shellkeep_store::ReadError| OpError::StoreUnavailable { reason: error.to_string() };
        let found = find.clone().search(&parts.ctx.store).await.map_err(unavailable)?;
        let there = found.sessions.into_iter().filter(|summary| parts.ctx.names.contains(&summary.meta.session_id));
        all.extend(there.filter_map(|summary| Some((summary.meta.session_id, summary.meta.forked_from?.session_id))));
        match found.next {
            Some(next) => find.after = Some(next),
            None => return Ok(descendants(id, all)),
        }
    }
}

/// Those of these forks, each with its origin, that come from a session.
fn descendants(id: &SessionId, mut forks: Vec<(SessionId, SessionId)>) -> Vec<SessionId> {
    let mut found = BTreeSet::from([id.clone()]);
    loop {
        let before = found.len();
        forks.retain(|(fork, origin)| {
            let is_one = found.contains(origin);
            if is_one {
                found.insert(fork.clone());
            }
            !is_one
        });
        if found.len() == before {
            found.remove(id);
            return found.into_iter().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forks_of_forks_are_found_in_any_order() {
        let id = |name: &str| SessionId::parse(name).unwrap();
        let forks = [("b2", "b"), ("c", "x"), ("b", "a"), ("x", "y"), ("b3", "b2"), ("a2", "a")];
        let forks = || forks.iter().map(|(fork, origin)| (id(fork), id(origin))).collect();
        let names = |of: &str| descendants(&id(of), forks()).iter().map(SessionId::to_string).collect::<Vec<_>>();
        assert_eq!(names("a"), ["a2", "b", "b2", "b3"]);
        assert_eq!(names("y"), ["c", "x"]);
        assert_eq!(names("a2"), [""; 0]);
    }
}
