//! Which node may write to a session, decided by pure functions.
//!
//! Many nodes share one tier in which each session has a [`Head`]. A node that wants to write claims the session, and every
//! append is checked against the head: by *who* writes (a [`Claim`], unique even if the tier forgets that it was handed out)
//! and *after what* (number and claim of the last record, as index and term are in Raft). A lease says who is believed to be
//! alive; correctness does not rest on it. So an append stays right when a lease ends too early and when the tier falls back
//! to an older copy of itself. `tests/ownership.rs` searches all short schedules for one that breaks this.
//!
//! What no append can check is when a node stops that cannot reach the tier: [`serves_until`] and [`may_take_over`] decide
//! that by clocks, and `tests/alone.rs` searches for a schedule in which two nodes serve one session.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How many changes of owner are remembered. A node that has not seen the last ones compares nothing and takes the tier's
/// history.
const MOST_CLAIMS: usize = 64;

/// The right to write to a session, for one node and until another node takes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Claim {
    /// Counts the owners of a session. The tier may forget one and hand it out again.
    pub epoch: u64,
    /// The owner.
    pub node: String,
    /// Random, so that no two claims are equal.
    pub nonce: String,
}

/// Text that is not a claim.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a claim; a claim looks like 7.node-1.9f3a")]
pub struct NotAClaim {
    /// What was given.
    pub text: String,
}

impl FromStr for Claim {
    type Err = NotAClaim;

    fn from_str(text: &str) -> Result<Self, NotAClaim> {
        // A node's name may have dots of its own.
        let parts = text.split_once('.').and_then(|(epoch, rest)| {
            let (node, nonce) = rest.rsplit_once('.')?;
            let is_whole = !node.is_empty() && !nonce.is_empty();
            let claim = Self { epoch: epoch.parse().ok()?, node: node.to_owned(), nonce: nonce.to_owned() };
            is_whole.then_some(claim)
        });
        parts.ok_or_else(|| NotAClaim { text: text.to_owned() })
    }
}

impl TryFrom<String> for Claim {
    type Error = NotAClaim;

    fn try_from(text: String) -> Result<Self, NotAClaim> {
        text.parse()
    }
}

impl From<Claim> for String {
    fn from(claim: Claim) -> Self {
        claim.to_string()
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.epoch, self.node, self.nonce)
    }
}

/// Who wrote a session's records: from a number on, until the next entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClaimedFrom {
    /// Number of the first record of this owner.
    pub from: u64,
    /// The owner.
    pub claim: Claim,
}

/// The owners of a session, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Claims(Vec<ClaimedFrom>);

impl Claims {
    /// Whether no node ever claimed the session.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The last owner.
    pub fn last(&self) -> Option<&Claim> {
        self.0.last().map(|last| &last.claim)
    }

    /// Number of the last owner's first record.
    pub fn last_from(&self) -> Option<u64> {
        self.0.last().map(|last| last.from)
    }

    /// Who wrote a record, as far as is remembered.
    pub fn of(&self, seq: u64) -> Option<&Claim> {
        self.0.iter().rev().find(|entry| entry.from <= seq).map(|entry| &entry.claim)
    }

    /// The node that made a record, if it is not the last owner.
    pub fn elsewhere(&self, seq: u64) -> Option<&str> {
        let maker = self.0.iter().rev().find(|entry| entry.from <= seq).or(self.0.first())?;
        Some(maker.claim.node.as_str()).filter(|node| self.last().is_some_and(|last| last.node != *node))
    }

    /// The node that had the session before the last owner, if there was one.
    pub fn before(&self) -> Option<&str> {
        let last = self.last()?;
        self.0.iter().rev().map(|entry| entry.claim.node.as_str()).find(|node| *node != last.node)
    }

    /// The nodes that had the session before the last owner, as far as is remembered: each once, by name.
    pub fn earlier_nodes(&self) -> BTreeSet<&str> {
        let last = self.last().map(|last| last.node.as_str());
        self.0.iter().map(|entry| entry.claim.node.as_str()).filter(|node| Some(*node) != last).collect()
    }

    /// Whether these are the owners of another session of the same name, which was made after this one was removed. The tier
    /// remembers a removed session's last epoch, so the next one begins with a later one. Two that were made under one name
    /// because a node was cut off, or because the tier forgot the first, both begin with the first epoch.
    pub fn was_replaced_by(&self, other: &Self) -> bool {
        let is_whole = other.0.len() < MOST_CLAIMS;
        let is_later = self.last().zip(other.0.first()).is_some_and(|(last, first)| last.epoch < first.claim.epoch);
        is_whole && is_later
    }

    /// Notes who writes from a record on. Records from that number on are no longer those of earlier owners.
    pub fn begin(&mut self, from: u64, claim: &Claim) {
        if self.last() == Some(claim) {
            return;
        }
        self.0.retain(|earlier| earlier.from < from);
        self.0.push(ClaimedFrom { from, claim: claim.clone() });
        let too_many = self.0.len().saturating_sub(MOST_CLAIMS);
        self.0.drain(..too_many);
    }

    /// Up to which record two histories are the same: the same writers wrote the same numbers. 0 if they have nothing in
    /// common.
    fn common(&self, seq: u64, other: &Self, other_seq: u64) -> u64 {
        // One of them may have forgotten its oldest entries.
        let starts = |first: Option<&ClaimedFrom>, all: &[ClaimedFrom]| {
            first.and_then(|first| all.iter().position(|entry| entry == first))
        };
        let (mine, theirs) = match (starts(self.0.first(), &other.0), starts(other.0.first(), &self.0)) {
            (Some(at), _) => (&self.0[..], &other.0[at..]),
            (None, Some(at)) => (&self.0[at..], &other.0[..]),
            (None, None) => return 0,
        };
        let equal = mine.iter().zip(theirs).take_while(|(mine, theirs)| mine == theirs).count();
        let end = |entries: &[ClaimedFrom], seq: u64| entries.get(equal).map_or(seq, |next| (next.from - 1).min(seq));
        end(mine, seq).min(end(theirs, other_seq))
    }
}

impl fmt::Display for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { " " };
            write!(f, "{separator}{}={}", entry.from, entry.claim)?;
        }
        Ok(())
    }
}

impl FromStr for Claims {
    type Err = NotAClaim;

    fn from_str(text: &str) -> Result<Self, NotAClaim> {
        let entry = |text: &str| {
            let not = || NotAClaim { text: text.to_owned() };
            let (from, claim) = text.split_once('=').ok_or_else(not)?;
            let from = from.parse().ok().filter(|from| *from > 0).ok_or_else(not)?;
            Ok(ClaimedFrom { from, claim: claim.parse()? })
        };
        let mut claims = text.split_whitespace().map(entry).collect::<Result<Vec<_>, _>>()?;
        claims.drain(..claims.len().saturating_sub(MOST_CLAIMS));
        Ok(Self(claims))
    }
}

/// A place in a session's history: the number of a record and who wrote it. It identifies everything before it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Point {
    /// Number of the last record; 0 before the first.
    pub seq: u64,
    /// Who wrote it; none before the first.
    pub at: Option<Claim>,
}

/// What the tier knows of a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Head {
    /// Who may write.
    pub owner: Claim,
    /// The last record.
    pub last: Point,
    /// Who wrote which records.
    pub claims: Claims,
}

/// What a node asks for when it claims a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    pub node: String,
    /// Random.
    pub nonce: String,
    /// The node's last claim, under which it continues if no one has claimed the session since.
    pub mine: Option<Claim>,
    /// The highest epoch of the session that the node has seen; 0 if it has seen none. The tier may have forgotten it.
    pub seen: u64,
    /// Who wrote which records, as far as the node knows: they are the tier's as long as it has no records.
    pub claims: Claims,
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// The tier knew nothing of the session. It is the asker's, before its first record.
    New(Head),
    /// No one came between: the asker continues.
    Kept(Head),
    /// The session was another's and is the asker's now.
    Taken(Head),
    /// Another node holds the lease.
    Held(Claim),
}

/// Decides a claim, with what the tier knows and the lease if it has not ended. A new claim has a higher epoch than every one
/// that the tier or the asker knows: of two records with one number, histories keep the one of the higher epoch.
pub fn claim(head: Option<&Head>, lease: Option<&Claim>, ask: &Ask) -> Claimed {
    // An answer may have been lost on its way; the question is then repeated.
    let is_repeated = |claim: &Claim| claim.node == ask.node && claim.nonce == ask.nonce;
    if let Some(holder) = lease.filter(|holder| Some(*holder) != ask.mine.as_ref() && !is_repeated(holder)) {
        return Claimed::Held(holder.clone());
    }
    let after = |epoch: u64| Claim { epoch: epoch.max(ask.seen) + 1, node: ask.node.clone(), nonce: ask.nonce.clone() };
    let Some(head) = head else {
        let owner = ask.mine.clone().unwrap_or_else(|| after(0));
        return Claimed::New(Head { owner, last: Point::default(), claims: ask.claims.clone() });
    };
    let claims = if head.last.seq == 0 { &ask.claims } else { &head.claims };
    let head = Head { claims: claims.clone(), ..head.clone() };
    if is_repeated(&head.owner) {
        return Claimed::Taken(head);
    }
    if Some(&head.owner) == ask.mine.as_ref() {
        return Claimed::Kept(head);
    }
    Claimed::Taken(Head { owner: after(head.owner.epoch), ..head })
}

/// Why an append was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Another node owns the session; none if the tier has lost it.
    Fenced(Option<Claim>),
    /// The last record is another than the writer knows.
    Apart(Box<Head>),
}

/// Decides an append of records that end with number `through`: the head afterwards, or why it is refused. `from` is the
/// number of the first record that was made under the writer's claim.
pub fn append(head: Option<&Head>, writer: &Claim, after: &Point, from: u64, through: u64) -> Result<Head, Refusal> {
    let head = match head {
        None => return Err(Refusal::Fenced(None)),
        Some(head) if head.owner != *writer => return Err(Refusal::Fenced(Some(head.owner.clone()))),
        Some(head) if head.last != *after => return Err(Refusal::Apart(Box::new(head.clone()))),
        Some(head) => head,
    };
    let mut claims = head.claims.clone();
    claims.begin(from, writer);
    let last = Point { seq: through, at: Some(writer.clone()) };
    Ok(Head { owner: head.owner.clone(), last, claims })
}

/// How a node's history of a session and the tier's relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meeting {
    /// They are the same.
    Same,
    /// The tier lacks what the node has after this record.
    TierLacks {
        /// Number of the last record that both have.
        after: u64,
    },
    /// The node lacks what the tier has after this record.
    NodeLacks {
        /// Number of the last record that both have.
        after: u64,
    },
    /// Each has records that the other does not have.
    Apart {
        /// Number of the last record that both have.
        after: u64,
    },
}

/// Compares a node's history of a session with the tier's.
pub fn meet(claims: &Claims, seq: u64, head: &Head) -> Meeting {
    let tier = head.last.seq;
    if tier == 0 {
        return if seq == 0 { Meeting::Same } else { Meeting::TierLacks { after: 0 } };
    }
    let after = if seq == 0 { 0 } else { claims.common(seq, &head.claims, tier) };
    match (seq > after, tier > after) {
        (false, false) => Meeting::Same,
        (true, false) => Meeting::TierLacks { after },
        (false, true) => Meeting::NodeLacks { after },
        (true, true) => Meeting::Apart { after },
    }
}

/// Until when a node that cannot reach the tier may go on with its sessions: to the end of its lease, or as long as every
/// other node has promised not to take them. `None` if there is no other node. `renewed` is when the node began the last
/// renewal that succeeded, and `promised` when it asked each of the others for its last promise. All times are of the
/// node's own clock. Once that time has passed, later promises do not count: another node may have taken a session before
/// it promised.
pub fn serves_until(
    renewed: Option<Duration>,
    promised: impl IntoIterator<Item = Option<Duration>>,
    lease: Duration,
) -> Option<Duration> {
    let end = |begun: Option<Duration>| begun.map_or(Duration::ZERO, |begun| begun + lease);
    let all = promised.into_iter().map(end).min()?;
    Some(end(renewed).max(all))
}

/// Whether a node may take sessions of nodes that are gone: it has reached the tier for as long as a lease. A node that
/// cannot reach the tier promises others not to take their sessions, and its promise must end before it takes one.
pub fn may_take_over(reached_since: Option<Duration>, now: Duration, lease: Duration) -> bool {
    reached_since.is_some_and(|since| now >= since + lease)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(text: &str) -> Claims {
        text.parse().unwrap()
    }

    fn head(text: &str, seq: u64) -> Head {
        let claims = claims(text);
        let owner = claims.last().unwrap().clone();
        Head { last: Point { seq, at: Some(owner.clone()) }, owner, claims }
    }

    #[test]
    fn claims_are_text_and_back() {
        for text in ["1.n1.9f", "7.host.example.org.ab"] {
            assert_eq!(text.parse::<Claim>().unwrap().to_string(), text);
        }
        for wrong in ["", "7", "7.n1", "x.n1.9f", "7..9f", "7.n1."] {
            assert!(wrong.parse::<Claim>().is_err(), "{wrong}");
        }
        let both = claims("2=1.a.x 14=2.b.y");
        assert_eq!(both.to_string(), "2=1.a.x 14=2.b.y");
        assert_eq!(Vec::from_iter(both.earlier_nodes()), ["a"]);
        assert_eq!(Vec::from_iter(claims("2=1.a.x 5=2.c.y 9=3.b.z 14=4.a.y").earlier_nodes()), ["b", "c"]);
        assert!("0=1.a.x".parse::<Claims>().is_err());
    }

    #[test]
    fn a_session_made_after_another_was_removed_is_not_a_fork_of_it() {
        let replaced = |old: &str, new: &str| claims(old).was_replaced_by(&claims(new));
        assert!(replaced("2=1.a.x", "2=2.b.y"));
        assert!(replaced("2=1.a.x 14=2.b.y", "2=5.a.z 9=6.b.z"));
        // A node was cut off, or the tier forgot the first one: what both answered is kept.
        assert!(!replaced("2=1.a.x", "2=1.b.y"));
        assert!(!replaced("2=1.a.x", "2=1.b.y 9=2.a.z"));
        // It went on elsewhere.
        assert!(!replaced("2=1.a.x", "2=1.a.x 14=2.b.y"));
        assert!(!replaced("", "2=1.a.x") && !replaced("2=1.a.x", ""));
        // What is missing before the first entry may be the same.
        let many: Vec<String> = (2..=70).map(|epoch| format!("{epoch}={epoch}.a.x")).collect();
        assert!(!replaced("1=1.a.x", &many.join(" ")));
    }

    #[test]
    fn histories_meet_where_the_same_writer_wrote_the_same_number() {
        let tier = head("2=1.a.x 14=2.b.y", 20);
        let at = |text: &str, seq| meet(&claims(text), seq, &tier);
        assert_eq!(at("2=1.a.x 14=2.b.y", 20), Meeting::Same);
        assert_eq!(at("2=1.a.x 14=2.b.y", 22), Meeting::TierLacks { after: 20 });
        assert_eq!(at("2=1.a.x 14=2.b.y", 17), Meeting::NodeLacks { after: 17 });
        assert_eq!(at("2=1.a.x", 13), Meeting::NodeLacks { after: 13 });
        assert_eq!(at("2=1.a.x", 15), Meeting::Apart { after: 13 });
        assert_eq!(at("2=1.a.x 14=2.c.z", 15), Meeting::Apart { after: 13 });
        assert_eq!(at("2=1.d.w", 2), Meeting::Apart { after: 0 });
        assert_eq!(at("", 5), Meeting::Apart { after: 0 });
        assert_eq!(at("", 0), Meeting::NodeLacks { after: 0 });
        let empty = Head { last: Point::default(), claims: Claims::default(), ..tier };
        assert_eq!(meet(&claims("2=1.a.x"), 9, &empty), Meeting::TierLacks { after: 0 });
    }

    #[test]
    fn a_history_that_forgot_its_oldest_owners_is_still_recognised() {
        let mut long = Claims::default();
        let owner = |epoch: u64| Claim { epoch, node: "n".to_owned(), nonce: "x".to_owned() };
        (1..=80).for_each(|epoch| long.begin(epoch * 10, &owner(epoch)));
        assert_eq!(long.0.len(), MOST_CLAIMS);
        let short = Claims(long.0[30..].to_vec());
        let tier = Head { owner: owner(80), last: Point { seq: 805, at: Some(owner(80)) }, claims: long };
        assert_eq!(meet(&short, 805, &tier), Meeting::Same);
        assert_eq!(meet(&short, 810, &tier), Meeting::TierLacks { after: 805 });
    }
}
