//! Work that keeps a processor busy: searching, reading and checking recordings, writing them out. It runs on blocking
//! threads, limited per agent, and ends when its caller is gone. And starts of programs, which keep a thread.

use crate::ops::OpError;
use crate::shares::{Lent, Shares};
use crate::sync::lock;
use crate::tasks;
use shellkeep_record::Budget;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long one search may take. Longer searches are done in parts; every response says where to continue.
pub const SEARCH_TIME: Duration = Duration::from_secs(5);

/// How many recordings are exported or verified at a time. Each holds a thread for as long as its reader takes.
const LONG: usize = 16;
/// Of one agent.
const LONG_EACH: usize = 4;

/// How many programs are started at a time. A start takes milliseconds; but an agent's other processes may stop a program of
/// its user before it runs, and then a thread waits for it until it is ended.
const STARTS: usize = 64;
/// Of one agent.
const STARTS_EACH: usize = 4;

/// Who may keep a processor busy now.
pub(crate) struct Work {
    shares: Arc<Shares>,
    /// Pages of a recording that need no search, and looks at processes: milliseconds. They do not wait for searches, which
    /// take seconds.
    pages: Lanes,
    /// Searches: seconds at most.
    short: Lanes,
    /// Exports and checks: as long as they take.
    long: Lanes,
    starts: Lanes,
}

/// Turns, of which each agent has some at a time.
struct Lanes {
    node: Arc<Semaphore>,
    each: usize,
    agents: Mutex<HashMap<Option<Arc<str>>, Weak<Semaphore>>>,
}

/// A turn. The next one begins when it is dropped.
pub(crate) struct Turn {
    _own: OwnedSemaphorePermit,
    _node: OwnedSemaphorePermit,
}

/// A caller that waits for a job. When the caller is gone, the job learns of it.
pub(crate) struct Caller(Budget);

impl Caller {
    /// The caller of a job within this budget.
    pub(crate) fn of(budget: &Budget) -> Self {
        Self(budget.clone())
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Work {
    /// As much at a time as there are processors, and half of that for one agent.
    pub(crate) fn new(shares: Arc<Shares>) -> Self {
        let processors = std::thread::available_parallelism().map_or(2, |count| count.get().max(2));
        let busy = || Lanes::new(processors, processors / 2);
        let [long, starts] = [Lanes::new(LONG, LONG_EACH), Lanes::new(STARTS, STARTS_EACH)];
        Self { shares, pages: busy(), short: busy(), long, starts }
    }

    /// Reads a page of bounded size when it is the agent's turn.
    pub(crate) async fn page<T: Send + 'static>(
        &self,
        agent: Option<&str>,
        job: impl FnOnce(&Budget) -> T + Send + 'static,
    ) -> Result<T, OpError> {
        let share = self.shares.take(Lent::Searches, agent, 1)?;
        let done = self.page_in_turn(agent, job).await;
        drop(share);
        done
    }

    /// The same for what is counted otherwise, such as a stream: it always waits for its turn, and is never refused one.
    pub(crate) async fn page_in_turn<T: Send + 'static>(
        &self,
        agent: Option<&str>,
        job: impl FnOnce(&Budget) -> T + Send + 'static,
    ) -> Result<T, OpError> {
        let turn = self.pages.turn(agent).await?;
        beside(Budget::of(SEARCH_TIME), turn, job).await
    }

    /// Does a job that takes seconds at most when it is the agent's turn.
    pub(crate) async fn short<T: Send + 'static>(
        &self,
        agent: Option<&str>,
        time: Option<Duration>,
        job: impl FnOnce(&Budget) -> T + Send + 'static,
    ) -> Result<T, OpError> {
        let share = self.shares.take(Lent::Searches, agent, 1)?;
        let done = self.in_turn(agent, time, job).await;
        drop(share);
        done
    }

    /// The same for a stream, which was counted when it began: it always waits for its turn, and is never refused one.
    pub(crate) async fn in_turn<T: Send + 'static>(
        &self,
        agent: Option<&str>,
        time: Option<Duration>,
        job: impl FnOnce(&Budget) -> T + Send + 'static,
    ) -> Result<T, OpError> {
        let turn = self.short.turn(agent).await?;
        // The clock starts here: waiting for a turn does not count.
        let budget = time.map_or_else(Budget::unlimited, Budget::of);
        beside(budget, turn, job).await
    }

    /// Looks at processes when it is the agent's turn, which takes milliseconds. It is never refused: who asks does so one at a
    /// time for each service.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        agent: Option<&str>,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, OpError> {
        let turn = self.pages.turn(agent).await?;
        beside(Budget::unlimited(), turn, |_| job()).await
    }

    /// Does a job that may take minutes.
    pub(crate) async fn long<T: Send + 'static>(
        &self,
        agent: Option<&str>,
        job: impl FnOnce(&Budget) -> T + Send + 'static,
    ) -> Result<T, OpError> {
        let turn = self.long_turn(agent).await?;
        beside(Budget::unlimited(), turn, job).await
    }

    /// Starts a program of an agent when it is the agent's turn.
    pub(crate) async fn start<T: Send + 'static>(
        &self,
        agent: Option<&str>,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, OpError> {
        let turn = self.starts.turn(agent).await?;
        beside(Budget::unlimited(), turn, |_| job()).await
    }

    /// A turn for a job that may take minutes.
    pub(crate) async fn long_turn(&self, agent: Option<&str>) -> Result<Turn, OpError> {
        self.long.turn(agent).await
    }
}

/// Runs a job on a blocking thread. It keeps its turn until it has ended, even if its caller disconnects.
async fn beside<T: Send + 'static>(
    budget: Budget,
    turn: Turn,
    job: impl FnOnce(&Budget) -> T + Send + 'static,
) -> Result<T, OpError> {
    let caller = Caller::of(&budget);
    let done = tasks::blocking(move || {
        let _turn = turn;
        job(&budget)
    })
    .await;
    drop(caller);
    Ok(done?)
}

impl Lanes {
    fn new(node: usize, each: usize) -> Self {
        Self { node: Arc::new(Semaphore::new(node)), each, agents: Mutex::default() }
    }

    async fn turn(&self, agent: Option<&str>) -> Result<Turn, OpError> {
        let stopping = |_| OpError::ShuttingDown;
        let own = self.of(agent).acquire_owned().await.map_err(stopping)?;
        let node = Arc::clone(&self.node).acquire_owned().await.map_err(stopping)?;
        Ok(Turn { _own: own, _node: node })
    }

    /// An agent's turns; they are dropped when no one has or wants one.
    fn of(&self, agent: Option<&str>) -> Arc<Semaphore> {
        let mut agents = lock(&self.agents);
        let key: Option<Arc<str>> = agent.map(Arc::from);
        if let Some(found) = agents.get(&key).and_then(Weak::upgrade) {
            return found;
        }
        agents.retain(|_, turns| turns.strong_count() > 0);
        let turns = Arc::new(Semaphore::new(self.each));
        agents.insert(key, Arc::downgrade(&turns));
        turns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn an_agent_waits_for_its_own_searches_and_a_page_for_none() {
        let one = || Lanes::new(2, 1);
        let work = Arc::new(Work { pages: one(), short: one(), ..Work::new(Arc::default()) });
        let (let_go, waits) = mpsc::channel();
        let (begins, begun) = oneshot::channel();
        let busy = Arc::clone(&work);
        let job = move |_: &Budget| begins.send(()).is_ok() && waits.recv().is_ok();
        let first = tokio::spawn(async move { busy.short(Some("a"), None, job).await });
        begun.await.unwrap();
        let mut second = Box::pin(work.short.turn(Some("a")));
        assert!(futures_pending(&mut second).await, "its own turn is taken");
        work.short(Some("b"), None, |_| ()).await.unwrap();
        work.page(Some("a"), |_| ()).await.unwrap();
        let_go.send(()).unwrap();
        assert!(first.await.unwrap().unwrap());
        second.await.unwrap();
    }

    /// Sixty streams of one large screen drew it on the threads that serve everybody.
    #[tokio::test]
    async fn a_stream_waits_for_its_turn_when_a_page_is_refused() {
        let shares = Arc::<Shares>::default();
        let work = Work::new(Arc::clone(&shares));
        let held = shares.take(Lent::Searches, Some("a"), Lent::Searches.limits().agent).unwrap();
        assert!(matches!(work.page(Some("a"), |_| ()).await, Err(OpError::NoShare(_))));
        let caller = std::thread::current().id();
        let drawn_on = work.page_in_turn(Some("a"), |_| std::thread::current().id()).await.unwrap();
        assert_ne!(drawn_on, caller);
        drop(held);
    }

    #[tokio::test]
    async fn an_agent_whose_programs_do_not_start_holds_up_only_itself() {
        let work = Arc::new(Work::new(Arc::default()));
        let (let_go, waits) = mpsc::channel::<()>();
        let waits = Arc::new(Mutex::new(waits));
        let stuck = || {
            let (work, waits) = (Arc::clone(&work), Arc::clone(&waits));
            let (begins, begun) = oneshot::channel();
            let job = move || begins.send(()).is_ok() && lock(&waits).recv().is_err();
            (tokio::spawn(async move { work.start(Some("a"), job).await }), begun)
        };
        let mut starting = Vec::new();
        for _ in 0..STARTS_EACH {
            let (start, begun) = stuck();
            begun.await.unwrap();
            starting.push(start);
        }
        let mut next = Box::pin(work.starts.turn(Some("a")));
        assert!(futures_pending(&mut next).await, "no more threads wait");
        work.start(Some("b"), || ()).await.unwrap();
        drop(let_go);
        for start in starting {
            assert!(start.await.unwrap().unwrap());
        }
        next.await.unwrap();
    }

    #[tokio::test]
    async fn a_job_learns_that_its_caller_is_gone() {
        let work = Work::new(Arc::default());
        let (let_go, waits) = mpsc::channel();
        let (learns, learned) = oneshot::channel();
        let mut calling = Box::pin(work.short(None, None, move |budget: &Budget| {
            waits.recv().unwrap();
            learns.send(budget.is_cancelled()).unwrap();
        }));
        assert!(futures_pending(&mut calling).await);
        drop(calling);
        let_go.send(()).unwrap();
        assert!(learned.await.unwrap());
    }

    /// Whether a future is not done after it was polled once.
    async fn futures_pending<F: Future + Unpin>(future: &mut F) -> bool {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending())
        })
        .await
    }
}
