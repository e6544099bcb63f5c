//! Searches all short schedules of nodes, leases and a tier that may fall back to an older copy of itself for one that breaks
//! ownership. The decisions are those of the program; the mutants are what less would be, and each must be found.

use shellkeep_session::ownership::{Ask, Claim, Claimed, Claims, Head, Meeting, Point, Refusal, append, claim, meet};
use std::collections::HashSet;

/// Nodes, records a node may make, changes of owner, and steps of a schedule.
const NODES: usize = 2;
const MOST_RECORDS: usize = 5;
const MOST_CLAIMS: u64 = 3;
const DEPTH: usize = 9;
/// How often the tier may fall back.
const MOST_FALLBACKS: u8 = 2;

/// A record: who made it, and a number that no other has.
type Made = (u64, u64);

/// Which check is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    None,
    /// An append is not compared with the owner.
    NoFence,
    /// A node compares its copy with the tier's by numbers only, not by who wrote them.
    NumbersOnly,
    /// The tier's last record is not compared at all.
    NothingCompared,
    /// Claims are not unique: they only count.
    NotUnique,
    /// A node that finds another's records goes on with its own.
    NoMeeting,
    /// The tier counts only the epochs that it remembers.
    ForgetsEpochs,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Tier {
    head: Option<Head>,
    log: Vec<Made>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Node {
    log: Vec<Made>,
    claims: Claims,
    /// Its right to write and the tier's last record, while it works with the session.
    working: Option<(Claim, Point)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    tier: Tier,
    /// What the tier may fall back to.
    older: Vec<Tier>,
    lease: Option<Claim>,
    nodes: [Node; NODES],
    /// Histories that were put aside whole.
    aside: Vec<Vec<Made>>,
    made: u64,
    claimed: u64,
    fallbacks: u8,
    /// A node wrote that did not own the session.
    stale_write: bool,
    /// A new claim is not later than one that its node knows.
    old_epoch: bool,
}

impl World {
    fn new() -> Self {
        let tier = Tier { head: None, log: Vec::new() };
        let (nodes, aside) = (Default::default(), Vec::new());
        Self {
            older: vec![tier.clone()],
            tier,
            lease: None,
            nodes,
            aside,
            made: 0,
            claimed: 0,
            fallbacks: 0,
            stale_write: false,
            old_epoch: false,
        }
    }

    fn changed(&mut self, tier: Tier) {
        self.older.push(std::mem::replace(&mut self.tier, tier));
        // A replica is some writes behind.
        let behind = self.older.len().saturating_sub(3);
        self.older.drain(..behind);
    }

    /// A node claims the session and brings its copy and the tier's together.
    fn take(&mut self, n: usize, mutant: Mutant) -> Option<()> {
        if self.claimed >= MOST_CLAIMS || self.nodes[n].working.is_some() {
            return None;
        }
        let mine = self.nodes[n].claims.last().filter(|claim| claim.node == format!("n{n}")).cloned();
        let (node, nonce) = match mutant {
            Mutant::NotUnique => ("n".to_owned(), "x".to_owned()),
            _ => (format!("n{n}"), format!("x{}", self.claimed)),
        };
        let last = self.nodes[n].claims.last().cloned();
        let seen = last.as_ref().filter(|_| mutant != Mutant::ForgetsEpochs).map_or(0, |last| last.epoch);
        let ask = Ask { node, nonce, mine, seen, claims: self.nodes[n].claims.clone() };
        self.claimed += 1;
        let head = match claim(self.tier.head.as_ref(), self.lease.as_ref(), &ask) {
            Claimed::Held(_) => return None,
            Claimed::New(head) | Claimed::Kept(head) | Claimed::Taken(head) => head,
        };
        self.old_epoch |= last.is_some_and(|last| last != head.owner && last.epoch >= head.owner.epoch);
        self.lease = Some(head.owner.clone());
        self.changed(Tier { head: Some(head.clone()), log: self.tier.log.clone() });
        let node = &mut self.nodes[n];
        let (seq, tier) = (node.log.len() as u64, head.last.seq);
        let meeting = match mutant {
            Mutant::NumbersOnly if seq > tier => Meeting::TierLacks { after: tier },
            Mutant::NumbersOnly if seq < tier => Meeting::NodeLacks { after: seq },
            Mutant::NumbersOnly => Meeting::Same,
            _ => meet(&node.claims, seq, &head),
        };
        match meeting {
            _ if mutant == Mutant::NoMeeting => {}
            Meeting::Same => {}
            Meeting::TierLacks { after } => {
                // Its records are sent again, under the claim they were made with or the new one.
                let lines = node.log[after as usize..].to_vec();
                node.working = Some((head.owner.clone(), head.last.clone()));
                self.send(n, &lines, mutant)?;
            }
            Meeting::NodeLacks { .. } => {
                (node.log, node.claims) = (self.tier.log.clone(), head.claims.clone());
            }
            Meeting::Apart { .. } => {
                let aside = std::mem::replace(&mut node.log, self.tier.log.clone());
                node.claims = head.claims.clone();
                self.aside.push(aside);
            }
        }
        let last = self.tier.head.as_ref()?.last.clone();
        self.nodes[n].working = Some((head.owner, last));
        Some(())
    }

    /// Sends records that the node has to the tier.
    fn send(&mut self, n: usize, lines: &[Made], mutant: Mutant) -> Option<()> {
        let (writer, after) = self.nodes[n].working.clone()?;
        let mut head = self.tier.head.clone()?;
        match mutant {
            Mutant::NoFence => head.owner = writer.clone(),
            Mutant::NothingCompared => head.last = after.clone(),
            _ => {}
        }
        let from = self.nodes[n].claims.last_from().filter(|_| self.nodes[n].claims.last() == Some(&writer));
        let from = from.unwrap_or(after.seq + 1);
        let through = after.seq + lines.len() as u64;
        match append(Some(&head), &writer, &after, from, through) {
            Ok(head) => {
                self.stale_write |= self.tier.head.as_ref().map(|head| &head.owner) != Some(&writer);
                let log = self.tier.log.iter().chain(lines).copied().collect();
                self.nodes[n].working = Some((writer.clone(), head.last.clone()));
                self.nodes[n].claims = head.claims.clone();
                self.lease = Some(writer);
                self.changed(Tier { head: Some(head), log });
            }
            Err(Refusal::Apart(head)) if head.last.at.as_ref() == Some(&writer) && head.last.seq < after.seq => {
                // The tier fell back to a record of this node's own: the rest is sent again.
                let lines = self.nodes[n].log[head.last.seq as usize..].to_vec();
                self.nodes[n].working = Some((writer, head.last));
                return self.send(n, &lines, mutant);
            }
            Err(_) => self.nodes[n].working = None,
        }
        Some(())
    }

    /// A node makes a record and sends it.
    fn write(&mut self, n: usize, mutant: Mutant) -> Option<()> {
        self.nodes[n].working.as_ref()?;
        if self.nodes[n].log.len() >= MOST_RECORDS {
            return None;
        }
        self.made += 1;
        let made = (n as u64, self.made);
        let first_own = self.nodes[n].working.as_ref().map(|(writer, _)| writer.clone())?;
        self.nodes[n].log.push(made);
        let seq = self.nodes[n].log.len() as u64;
        self.nodes[n].claims.begin(seq, &first_own);
        self.send(n, &[made], mutant)
    }

    fn steps(&self, mutant: Mutant) -> Vec<(String, Self)> {
        let mut steps = Vec::new();
        let mut step = |name: String, change: &dyn Fn(&mut Self) -> Option<()>| {
            let mut next = self.clone();
            if change(&mut next).is_some() && next != *self {
                steps.push((name, next));
            }
        };
        for n in 0..NODES {
            step(format!("claim{n}"), &|world| world.take(n, mutant));
            step(format!("write{n}"), &|world| world.write(n, mutant));
            step(format!("sleep{n}"), &|world| world.nodes[n].working.take().map(|_| ()));
        }
        step("lapse".to_owned(), &|world| world.lease.take().map(|_| ()));
        for (at, older) in self.older.iter().enumerate() {
            step(format!("fall{at}"), &|world| {
                world.fallbacks += 1;
                world.tier = older.clone();
                world.older.truncate(at + 1);
                (world.fallbacks <= MOST_FALLBACKS).then_some(())
            });
        }
        steps
    }

    /// What must hold in every state.
    fn check(&self) -> Result<(), String> {
        if self.stale_write {
            return Err("a node wrote that does not own the session".to_owned());
        }
        if self.old_epoch {
            return Err("a new claim is not later than one that its node knows".to_owned());
        }
        let log = &self.tier.log;
        let unique: HashSet<&Made> = log.iter().collect();
        if unique.len() != log.len() {
            return Err("a record is in the log twice".to_owned());
        }
        let seq = self.tier.head.as_ref().map_or(0, |head| head.last.seq);
        if seq != log.len() as u64 {
            return Err("the head does not match the log".to_owned());
        }
        // A record stands after the history that its maker saw: nodes number records of one history, so who made a record
        // has the same records before it, in its copy or in one that it put aside.
        for (n, node) in self.nodes.iter().enumerate() {
            let copies = self.aside.iter().chain([&node.log]);
            let own = log.iter().enumerate().rev().find(|(_, made)| made.0 == n as u64);
            let Some((at, _)) = own else { continue };
            if !copies.into_iter().any(|copy| copy.get(..=at) == Some(&log[..=at])) {
                return Err(format!("node {n} wrote after a history that it had not seen"));
            }
        }
        Ok(())
    }
}

/// The shortest schedule that breaks something, or how many states hold.
fn search(mutant: Mutant) -> Result<usize, Vec<String>> {
    let mut seen = HashSet::new();
    let mut front = vec![(World::new(), Vec::new())];
    for _ in 0..DEPTH {
        let mut next = Vec::new();
        for (world, path) in front {
            for (name, world) in world.steps(mutant) {
                if !seen.insert(world.clone()) {
                    continue;
                }
                let mut path: Vec<String> = path.clone();
                path.push(name);
                if let Err(broken) = world.check() {
                    path.push(broken);
                    return Err(path);
                }
                next.push((world, path));
            }
        }
        front = next;
    }
    Ok(seen.len())
}

#[test]
fn no_short_schedule_breaks_ownership() {
    let states = search(Mutant::None).unwrap_or_else(|path| panic!("broken by {path:?}"));
    assert!(states > 10_000, "only {states} states were searched");
}

#[test]
fn what_less_would_be_is_found() {
    let mutants = [
        Mutant::NoFence,
        Mutant::NumbersOnly,
        Mutant::NothingCompared,
        Mutant::NotUnique,
        Mutant::NoMeeting,
        Mutant::ForgetsEpochs,
    ];
    let missed: Vec<Mutant> = mutants.into_iter().filter(|mutant| search(*mutant).is_ok()).collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}
