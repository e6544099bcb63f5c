//! A queue in which agents take turns: first come, first served within an agent, round robin between agents. So an
//! agent that sends a thousand commands waits for its own, and no command waits for more than one command of each other
//! agent.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

#[derive(Debug)]
pub struct FairQueue<T> {
    agents: HashMap<Arc<str>, Waiters<T>>,
    /// Whose turn is when: every agent that waits is here once.
    turns: BTreeMap<u64, Arc<str>>,
    /// Every agent that waits by how many of it do, with its turn.
    lengths: BTreeSet<(usize, u64)>,
    length: usize,
    next_turn: u64,
}

/// Those of one agent, oldest first; never empty.
#[derive(Debug)]
struct Waiters<T> {
    turn: u64,
    queue: VecDeque<(u64, T)>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { agents: HashMap::new(), turns: BTreeMap::new(), lengths: BTreeSet::new(), length: 0, next_turn: 0 }
    }
}

impl<T> FairQueue<T> {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// How many agents wait.
    pub fn agents(&self) -> usize {
        self.turns.len()
    }

    /// Joins. `number` must be larger than any before it.
    pub fn push(&mut self, agent: &Arc<str>, number: u64, item: T) {
        self.length += 1;
        if let Some(waiters) = self.agents.get_mut(agent) {
            self.lengths.remove(&(waiters.queue.len(), waiters.turn));
            waiters.queue.push_back((number, item));
            self.lengths.insert((waiters.queue.len(), waiters.turn));
            return;
        }
        let turn = self.take_turn(Arc::clone(agent), 1);
        self.agents.insert(Arc::clone(agent), Waiters { turn, queue: VecDeque::from([(number, item)]) });
    }

    /// Whether any of an agent's wait.
    pub fn has(&self, agent: &Arc<str>) -> bool {
        self.agents.contains_key(agent)
    }

    /// The next whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        self.pop_if(|_| true)
    }

    /// The next whose turn it is of the agents that may; the others keep theirs.
    pub fn pop_if(&mut self, mut may: impl FnMut(&Arc<str>) -> bool) -> Option<T> {
        let (&turn, agent) = self.turns.iter().find(|(_, agent)| may(agent))?;
        let agent = Arc::clone(agent);
        self.turns.remove(&turn);
        let waiters = self.agents.get_mut(&agent)?;
        self.lengths.remove(&(waiters.queue.len(), turn));
        self.length -= 1;
        let (_, item) = waiters.queue.pop_front()?;
        let left = waiters.queue.len();
        if left == 0 {
            self.agents.remove(&agent);
        } else {
            let turn = self.take_turn(Arc::clone(&agent), left);
            if let Some(waiters) = self.agents.get_mut(&agent) {
                waiters.turn = turn;
            }
        }
        Some(item)
    }

    /// Leaves.
    pub fn remove(&mut self, agent: &Arc<str>, number: u64) -> Option<T> {
        let waiters = self.agents.get_mut(agent)?;
        let place = waiters.queue.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        let (_, item) = waiters.queue.remove(place)?;
        self.shortened(agent);
        Some(item)
    }

    /// Makes room for one more of `newcomer`: removes and returns the newest of the agent with the most waiting, if
    /// that agent would still have more than the newcomer. Otherwise none is removed, because that would only replace
    /// an earlier one by a later one.
    pub fn give_way(&mut self, newcomer: &Arc<str>) -> Option<T> {
        let own = self.agents.get(newcomer).map_or(0, |waiters| waiters.queue.len());
        let &(longest, turn) = self.lengths.last()?;
        if own + 1 >= longest {
            return None;
        }
        let agent = Arc::clone(self.turns.get(&turn)?);
        let (_, item) = self.agents.get_mut(&agent)?.queue.pop_back()?;
        self.shortened(&agent);
        Some(item)
    }

    /// One of the agent's has left; the agent keeps its turn if it has more.
    fn shortened(&mut self, agent: &Arc<str>) {
        self.length -= 1;
        let Some(waiters) = self.agents.get(agent) else { return };
        let (turn, left) = (waiters.turn, waiters.queue.len());
        self.lengths.remove(&(left + 1, turn));
        if left == 0 {
            self.turns.remove(&turn);
            self.agents.remove(agent);
        } else {
            self.lengths.insert((left, turn));
        }
    }

    /// After all other turns.
    fn take_turn(&mut self, agent: Arc<str>, length: usize) -> u64 {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.turns.insert(turn, agent);
        self.lengths.insert((length, turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn agent(name: &str) -> Arc<str> {
        Arc::from(name)
    }

    #[test]
    fn agents_take_turns_and_keep_their_own_order() {
        let (a, b, c) = (agent("a"), agent("b"), agent("c"));
        let mut queue = FairQueue::default();
        for (number, of) in [&a, &a, &a, &b, &b, &c].into_iter().enumerate() {
            queue.push(of, number as u64, number);
        }
        assert_eq!((queue.len(), queue.agents()), (6, 3));
        let order: Vec<usize> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [0, 3, 5, 1, 4, 2]);
        assert!(queue.is_empty());
    }

    #[test]
    fn who_comes_last_is_served_within_two_turns_of_a_thousand() {
        let (greedy, other) = (agent("greedy"), agent("other"));
        let mut queue = FairQueue::default();
        for number in 0..1000 {
            queue.push(&greedy, number, number);
        }
        queue.push(&other, 1000, 1000);
        assert!([queue.pop(), queue.pop()].contains(&Some(1000)));
    }

    #[test]
    fn the_agent_with_the_most_gives_way() {
        let (greedy, other) = (agent("greedy"), agent("other"));
        let mut queue = FairQueue::default();
        for number in 0..4 {
            queue.push(&greedy, number, number);
        }
        assert_eq!(queue.give_way(&greedy), None, "its own newcomer is refused");
        assert_eq!(queue.give_way(&other), Some(3), "the newest, not the one that waited longest");
        queue.push(&other, 4, 4);
        assert_eq!(queue.give_way(&other), Some(2), "3 and 1 becomes 2 and 2");
        queue.push(&other, 5, 5);
        assert_eq!(queue.give_way(&other), None, "1 and 3 is no fairer");
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [0, 4, 1, 5]);
    }

    #[test]
    fn nobody_gives_way_when_all_have_one() {
        let mut queue = FairQueue::default();
        queue.push(&agent("a"), 0, 0);
        queue.push(&agent("b"), 1, 1);
        assert_eq!(queue.give_way(&agent("c")), None);
    }

    /// A plain model of the same queue.
    #[derive(Default)]
    struct Model(Vec<(String, Vec<u64>)>);

    impl Model {
        fn push(&mut self, agent: &str, number: u64) {
            match self.0.iter_mut().find(|(name, _)| name == agent) {
                Some((_, queue)) => queue.push(number),
                None => self.0.push((agent.to_owned(), vec![number])),
            }
        }

        fn pop(&mut self) -> Option<u64> {
            if self.0.is_empty() {
                return None;
            }
            let (name, mut queue) = self.0.remove(0);
            let number = queue.remove(0);
            if !queue.is_empty() {
                self.0.push((name, queue));
            }
            Some(number)
        }

        fn remove(&mut self, agent: &str, number: u64) -> Option<u64> {
            let at = self.0.iter().position(|(name, _)| name == agent)?;
            let place = self.0[at].1.iter().position(|&waiting| waiting == number)?;
            self.0[at].1.remove(place);
            self.0.retain(|(_, queue)| !queue.is_empty());
            Some(number)
        }
    }

    proptest! {
        #[test]
        fn it_does_what_the_plain_model_does(steps in prop::collection::vec((0..4, 0..5usize, 0..200u64), 0..200)) {
            let names = ["a", "b", "c", "d", "e"];
            let (mut queue, mut model) = (FairQueue::default(), Model::default());
            for (number, (step, who, other)) in (0..).zip(steps) {
                let name = names[who];
                match step {
                    0 | 1 => {
                        queue.push(&agent(name), number, number);
                        model.push(name, number);
                    }
                    2 => prop_assert_eq!(queue.pop(), model.pop()),
                    _ => prop_assert_eq!(queue.remove(&agent(name), other), model.remove(name, other)),
                }
                let lengths: Vec<usize> = model.0.iter().map(|(_, queue)| queue.len()).collect();
                prop_assert_eq!(queue.len(), lengths.iter().sum::<usize>());
                prop_assert_eq!(queue.agents(), lengths.len());
                prop_assert_eq!(queue.lengths.last().map(|(longest, _)| *longest), lengths.iter().copied().max());
            }
        }
    }
}
