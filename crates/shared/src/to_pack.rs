//! Sessions that went to sleep and are to be packed.

use shellkeep_session::SessionId;
use shellkeep_session::ownership::Claim;
use std::collections::{HashMap, VecDeque};
use std::time::Instant;

/// While others wait for the tier, packing takes one part of its time in so many.
const SHARE: u32 = 20;

/// Sessions that are to be packed, each of them once, in the order in which they went to sleep.
#[derive(Debug, Default)]
pub(crate) struct ToPack {
    order: VecDeque<SessionId>,
    /// The last claim of each.
    claims: HashMap<SessionId, Claim>,
    /// When the next one is packed although others wait for the tier; at once if there is none.
    due_at: Option<Instant>,
}

impl ToPack {
    /// A session went to sleep, perhaps once more.
    pub(crate) fn add(&mut self, session_id: &SessionId, claim: Claim) {
        if self.claims.insert(session_id.clone(), claim).is_none() {
            self.order.push_back(session_id.clone());
        }
    }

    /// Takes the one that has waited longest.
    pub(crate) fn take(&mut self) -> Option<(SessionId, Claim)> {
        let session_id = self.order.pop_front()?;
        let claim = self.claims.remove(&session_id)?;
        Some((session_id, claim))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// When the next one is packed even if others wait for the tier; `None` if there is none to be packed.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        (!self.is_empty()).then(|| self.due_at.unwrap_or_else(Instant::now))
    }

    /// One was packed, from `begun` until `now`.
    pub(crate) fn packed(&mut self, begun: Instant, now: Instant) {
        self.due_at = Some(now + now.saturating_duration_since(begun) * (SHARE - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn sleeps(to_pack: &mut ToPack, name: &str, claim: &str) {
        to_pack.add(&SessionId::parse(name).unwrap(), claim.parse().unwrap());
    }

    fn take(to_pack: &mut ToPack) -> Option<(String, String)> {
        to_pack.take().map(|(session_id, claim)| (session_id.to_string(), claim.to_string()))
    }

    /// There was one entry for each sleep.
    #[test]
    fn a_session_that_slept_often_is_there_once() {
        let mut to_pack = ToPack::default();
        sleeps(&mut to_pack, "a", "1.n1.x");
        sleeps(&mut to_pack, "b", "1.n1.x");
        (2..1000).for_each(|epoch| sleeps(&mut to_pack, "a", &format!("{epoch}.n1.x")));
        assert_eq!(take(&mut to_pack), Some(("a".to_owned(), "999.n1.x".to_owned())));
        sleeps(&mut to_pack, "a", "1000.n1.x");
        assert_eq!(take(&mut to_pack), Some(("b".to_owned(), "1.n1.x".to_owned())), "it waited longer");
        assert_eq!(take(&mut to_pack), Some(("a".to_owned(), "1000.n1.x".to_owned())));
        assert!(to_pack.is_empty() && take(&mut to_pack).is_none());
    }

    #[test]
    fn packing_takes_a_part_of_the_time() {
        let mut to_pack = ToPack::default();
        let (begun, took) = (Instant::now(), Duration::from_millis(3));
        to_pack.packed(begun, begun + took);
        assert_eq!(to_pack.due_at(), None, "there is nothing to be packed");
        sleeps(&mut to_pack, "a", "1.n1.x");
        assert_eq!(to_pack.due_at(), Some(begun + took * SHARE));
    }
}
