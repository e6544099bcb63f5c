//! Searches schedules of nodes that lose the tier, find it again, and ask each other about it, for one in which two nodes
//! serve one session. The decisions are those of the program; the mutants are what less would be, and each must be found.

use shellkeep_session::ownership::{may_take_over, serves_until};
use std::collections::HashSet;
use std::time::Duration;

/// A lease, in ticks, and how long a schedule may be.
const LEASE: u8 = 2;
const LAST_TICK: u8 = 6;
/// Most nodes, and how often the network may change.
const NODES: usize = 3;
const MOST_CUTS: u8 = 4;

/// Which rule is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    None,
    /// A node takes sessions as soon as it reaches the tier.
    TakesAtOnce,
    /// A node that does not answer counts as one that promised.
    SilenceIsConsent,
    /// One promise is enough.
    OnePromise,
    /// A promise counts from its arrival, not from the question.
    CountedFromAnswer,
    /// A promise counts although the node's time had passed.
    LatePromise,
    /// A lease counts from the answer to its renewal.
    RenewedAtAnswer,
}

/// Whom a node asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum To {
    /// The tier; it took the renewal if the node was the owner.
    Tier {
        renewed: bool,
    },
    Node(usize),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Node {
    reaches: bool,
    /// What it knows: since when the tier has answered without a break.
    reached_since: Option<u8>,
    renewed: Option<u8>,
    /// When each of the others was asked for its last promise.
    promised: [Option<u8>; NODES],
    /// It works with the session.
    serves: bool,
    /// Its time has passed since it last reached the tier.
    lapsed: bool,
    /// A question whose answer is under way: when it was sent, and to whom.
    asked: Option<(u8, To)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    now: u8,
    nodes: Vec<Node>,
    cuts: u8,
    /// The owner in the tier, and when its lease ends there.
    owner: usize,
    lease_ends: u8,
}

fn time(ticks: u8) -> Duration {
    Duration::from_secs(u64::from(ticks))
}

impl World {
    fn new(count: usize) -> Self {
        let mut nodes = vec![Node { reaches: true, reached_since: Some(0), ..Node::default() }; count];
        (nodes[0].serves, nodes[0].renewed) = (true, Some(0));
        Self { now: 0, nodes, cuts: 0, owner: 0, lease_ends: LEASE }
    }

    /// Whether a node's time to serve without the tier has passed.
    fn is_over(&self, n: usize, mutant: Mutant) -> bool {
        let node = &self.nodes[n];
        let others = (0..self.nodes.len()).filter(|other| *other != n);
        let promised = others.map(|other| node.promised[other]);
        let given: Vec<Option<Duration>> = promised.map(|at| at.map(time)).collect();
        let counted: Vec<Option<Duration>> = match mutant {
            Mutant::SilenceIsConsent => given.into_iter().map(|at| at.or(Some(time(self.now)))).collect(),
            Mutant::OnePromise => vec![given.into_iter().max().flatten()],
            _ => given,
        };
        let until = serves_until(node.renewed.map(time), counted, time(LEASE));
        until.is_some_and(|until| time(self.now) >= until)
    }

    /// Time passes, and nodes that must stop have stopped: a node notices within its lease that the tier is away, because it
    /// renews more often than that.
    fn tick(&mut self, mutant: Mutant) -> Option<()> {
        (self.now < LAST_TICK).then_some(())?;
        self.now += 1;
        for n in 0..self.nodes.len() {
            if self.is_over(n, mutant) {
                (self.nodes[n].serves, self.nodes[n].lapsed) = (false, true);
            }
        }
        Some(())
    }

    /// The network between a node and the tier changes. The node notices a cut when it asks.
    fn cut(&mut self, n: usize) -> Option<()> {
        self.cuts += 1;
        self.nodes[n].reaches = !self.nodes[n].reaches;
        (self.cuts <= MOST_CUTS).then_some(())
    }

    /// A node sends a renewal to the tier, which takes it if the node is the owner.
    fn renew(&mut self, n: usize) -> Option<()> {
        if self.nodes[n].asked.is_some() {
            return None;
        }
        match self.nodes[n].reaches {
            false => self.nodes[n].reached_since = None,
            true => {
                let renewed = self.owner == n;
                if renewed {
                    self.lease_ends = self.now + LEASE;
                }
                self.nodes[n].asked = Some((self.now, To::Tier { renewed }));
            }
        }
        Some(())
    }

    /// A node that does not reach the tier asks another for a promise. The other gives it if it does not reach the tier.
    fn ask(&mut self, n: usize, other: usize) -> Option<()> {
        let is_away = self.nodes[n].reached_since.is_none() && self.nodes[n].asked.is_none();
        (is_away && self.nodes[other].reached_since.is_none()).then_some(())?;
        self.nodes[n].asked = Some((self.now, To::Node(other)));
        Some(())
    }

    /// An answer arrives.
    fn arrive(&mut self, n: usize, mutant: Mutant) -> Option<()> {
        let (asked, from) = self.nodes[n].asked.take()?;
        let now = self.now;
        let node = &mut self.nodes[n];
        match from {
            To::Tier { renewed } => {
                node.reached_since = node.reached_since.or(Some(now));
                node.renewed = Some(if mutant == Mutant::RenewedAtAnswer { now } else { asked });
                node.promised = Default::default();
                let is_over = self.is_over(n, mutant);
                (self.nodes[n].lapsed, self.nodes[n].serves) = (is_over, renewed && !is_over);
            }
            To::Node(other) if !node.lapsed || mutant == Mutant::LatePromise => {
                node.promised[other] = Some(if mutant == Mutant::CountedFromAnswer { now } else { asked });
                if node.lapsed && !self.is_over(n, mutant) {
                    (self.nodes[n].lapsed, self.nodes[n].serves) = (false, true);
                }
            }
            To::Node(_) => {}
        }
        Some(())
    }

    /// A node takes the session, if the tier lets it.
    fn take(&mut self, n: usize, mutant: Mutant) -> Option<()> {
        let node = &self.nodes[n];
        let may =
            mutant == Mutant::TakesAtOnce || may_take_over(node.reached_since.map(time), time(self.now), time(LEASE));
        let is_free = self.owner != n && self.lease_ends <= self.now;
        (may && is_free && node.reaches && node.reached_since.is_some() && node.asked.is_none()).then_some(())?;
        (self.owner, self.lease_ends) = (n, self.now + LEASE);
        let node = &mut self.nodes[n];
        (node.serves, node.lapsed, node.renewed) = (true, false, Some(self.now));
        Some(())
    }

    fn steps(&self, mutant: Mutant) -> Vec<(String, Self)> {
        let mut steps = Vec::new();
        let mut step = |name: String, change: &dyn Fn(&mut Self) -> Option<()>| {
            let mut next = self.clone();
            if change(&mut next).is_some() && next != *self {
                steps.push((name, next));
            }
        };
        step("tick".to_owned(), &|world| world.tick(mutant));
        for n in 0..self.nodes.len() {
            step(format!("cut{n}"), &|world| world.cut(n));
            step(format!("renew{n}"), &|world| world.renew(n));
            step(format!("arrive{n}"), &|world| world.arrive(n, mutant));
            step(format!("take{n}"), &|world| world.take(n, mutant));
            for other in (0..self.nodes.len()).filter(|other| *other != n) {
                step(format!("ask{n}{other}"), &|world| world.ask(n, other));
            }
        }
        steps
    }

    /// Never do two nodes serve the session.
    fn holds(&self) -> bool {
        self.nodes.iter().filter(|node| node.serves).count() <= 1
    }
}

/// The shortest schedule that breaks something, or how many states hold.
fn search(mutant: Mutant, nodes: usize, depth: usize) -> Result<usize, Vec<String>> {
    let mut seen = HashSet::from([World::new(nodes)]);
    // Each state with the one before it, so that a schedule can be told.
    let mut found = vec![(String::new(), 0)];
    let mut front = vec![(World::new(nodes), 0)];
    for _ in 0..depth {
        for (world, before) in std::mem::take(&mut front) {
            for (name, world) in world.steps(mutant) {
                if seen.contains(&world) {
                    continue;
                }
                let at = found.len();
                found.push((name, before));
                if !world.holds() {
                    let path = std::iter::successors(Some(at), |at| Some(found[*at].1)).take_while(|at| *at > 0);
                    let mut path: Vec<String> = path.map(|at| found[at].0.clone()).collect();
                    path.reverse();
                    return Err(path);
                }
                seen.insert(world.clone());
                front.push((world, at));
            }
        }
    }
    Ok(found.len())
}

#[test]
fn a_node_that_is_cut_off_stops_before_another_takes_its_session() {
    for (nodes, depth, most) in [(2, 16, 10_000), (3, 8, 10_000)] {
        let states = search(Mutant::None, nodes, depth).unwrap_or_else(|path| panic!("broken by {path:?}"));
        println!("{nodes} nodes: {states} states hold");
        assert!(states > most, "only {states} states were searched");
    }
}

#[test]
fn what_less_would_be_is_found() {
    let mutants = [
        (Mutant::TakesAtOnce, 2, 16),
        (Mutant::SilenceIsConsent, 2, 16),
        (Mutant::OnePromise, 3, 9),
        (Mutant::CountedFromAnswer, 2, 16),
        (Mutant::LatePromise, 2, 16),
        (Mutant::RenewedAtAnswer, 2, 16),
    ];
    let missed: Vec<Mutant> = mutants
        .into_iter()
        .filter(|(mutant, nodes, depth)| search(*mutant, *nodes, *depth).is_ok())
        .map(|m| m.0)
        .collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}
