//! The gate on its own: who gets in, in which order, and that no one is forgotten.

use super::capacity::{SUSPENDED_OF_ONE, SUSPENDED_PER_PLACE};
use super::*;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Waker};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Far more than anything here takes.
const LONG: Duration = Duration::from_secs(60);

fn agent(name: &str) -> Arc<str> {
    Arc::from(name)
}

/// A gate that lets `young` young commands run, and `running` in all.
fn gate(young: usize, running: usize) -> Arc<Admission> {
    let config = AdmissionConfig { young, young_of_one: young, ..AdmissionConfig::default() };
    Admission::new(config, running)
}

fn ask(gate: &Arc<Admission>, name: &str) -> Asked {
    gate.ask(&agent(name), Instant::now() + LONG).unwrap()
}

fn granted(gate: &Arc<Admission>, name: &str) -> Ticket {
    match ask(gate, name) {
        Asked::Granted(ticket) => ticket,
        Asked::Waits(_) => panic!("there is room"),
    }
}

fn waits(gate: &Arc<Admission>, name: &str) -> Waiter {
    match ask(gate, name) {
        Asked::Granted(_) => panic!("there is no room"),
        Asked::Waits(waiter) => waiter,
    }
}

/// The answer, if there is one already.
fn answer(waiter: &mut Waiter) -> Option<Result<Ticket, OpError>> {
    let mut turn = std::pin::pin!(waiter.turn());
    match turn.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        std::task::Poll::Ready(answer) => Some(answer),
        std::task::Poll::Pending => None,
    }
}

fn is_overloaded(answer: &Result<Ticket, OpError>) -> bool {
    matches!(answer, Err(OpError::Run(RunError::Overloaded { .. })))
}

#[tokio::test(start_paused = true)]
async fn a_ticket_given_back_lets_the_next_in() {
    let gate = gate(2, 100);
    let (first, _second) = (granted(&gate, "a"), granted(&gate, "a"));
    let mut third = waits(&gate, "a");
    assert!(answer(&mut third).is_none());
    assert_eq!(
        gate.figures(),
        AdmissionFigures { running: 2, young: 2, waiting: 1, running_limit: 100, agents_waiting: 1, commands_total: 0 }
    );
    drop(first);
    let ticket = answer(&mut third).unwrap().ok().unwrap();
    assert_eq!(gate.figures().running, 2);
    drop((ticket, third));
    assert_eq!(gate.figures().running, 1);
}

#[tokio::test(start_paused = true)]
async fn who_comes_of_age_makes_room_without_ending() {
    let gate = gate(2, 100);
    let start = Instant::now();
    let mut tickets = vec![granted(&gate, "a"), granted(&gate, "a")];
    let mut waiting: Vec<Waiter> = (0..6).map(|_| waits(&gate, "a")).collect();
    for waiter in &mut waiting {
        tickets.push(waiter.turn().await.ok().unwrap());
    }
    let figures = gate.figures();
    assert_eq!((figures.running, figures.young, figures.waiting), (8, 2, 0));
    // The timer has steps of a millisecond.
    let took = start.elapsed();
    assert!((3 * YOUNG..4 * YOUNG).contains(&took), "two at a time, a generation each: {took:?}");
    tokio::time::advance(YOUNG).await;
    assert_eq!(gate.figures().young, 0);
}

#[tokio::test(start_paused = true)]
async fn the_timer_ends_when_nobody_waits() {
    let gate = gate(1, 100);
    let _ticket = granted(&gate, "a");
    assert!(!gate.lock().is_timed, "no timer when nobody waits");
    let mut waiter = waits(&gate, "a");
    assert!(gate.lock().is_timed);
    let _second = waiter.turn().await.ok().unwrap();
    timeout(LONG, async {
        while gate.lock().is_timed {
            tokio::time::advance(YOUNG).await;
        }
    })
    .await
    .expect("the timer never ends");
    tokio::task::yield_now().await;
    assert_eq!(Arc::strong_count(&gate), 4, "ours, two tickets', the waiter's");
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_running_commands_can_be_moved() {
    let gate = gate(100, 2);
    let _tickets = (granted(&gate, "a"), granted(&gate, "a"));
    let mut third = waits(&gate, "a");
    for _ in 0..10 {
        tokio::time::advance(YOUNG).await;
    }
    assert!(answer(&mut third).is_none(), "to be of age is no help when too many run");
    gate.set_running_limit(3);
    let ticket = answer(&mut third).unwrap().ok().unwrap();
    gate.set_running_limit(0);
    assert_eq!(gate.figures().running_limit, 1, "never none");
    let mut fourth = waits(&gate, "a");
    drop(ticket);
    assert!(answer(&mut fourth).is_none(), "two still run");
}

#[tokio::test(start_paused = true)]
async fn a_greedy_agent_waits_for_itself() {
    let gate = gate(1, 1);
    let ticket = granted(&gate, "greedy");
    let mut greedy: Vec<Waiter> = (0..1000).map(|_| waits(&gate, "greedy")).collect();
    let mut other = waits(&gate, "other");
    assert_eq!(gate.figures().agents_waiting, 2);
    drop(ticket);
    let first = answer(&mut greedy[0]).unwrap().ok().unwrap();
    assert!(answer(&mut other).is_none());
    drop(first);
    let second = answer(&mut other).unwrap().ok().unwrap();
    drop(second);
    assert!(answer(&mut greedy[1]).unwrap().is_ok(), "within the agent, first come first served");
    assert!(answer(&mut greedy[2]).unwrap().is_ok(), "the ticket above went back at once");
}

#[tokio::test(start_paused = true)]
async fn nobody_overtakes_those_who_wait() {
    let gate = gate(1, 100);
    let ticket = granted(&gate, "a");
    let mut waiter = waits(&gate, "a");
    drop(ticket);
    // There would be room for this one, were it not promised.
    let mut late = waits(&gate, "b");
    assert!(answer(&mut late).is_none());
    assert!(gate.ask_now(&agent("b")).is_err_and(|error| error.code() == "overloaded"));
    drop(answer(&mut waiter).unwrap().ok().unwrap());
    drop(answer(&mut late).unwrap().ok().unwrap());
    assert!(gate.ask_now(&agent("b")).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_full_line_refuses_the_newest_of_the_greediest() {
    let config = AdmissionConfig { young: 1, queue_length: 3, ..AdmissionConfig::default() };
    let gate = Admission::new(config, 100);
    let _ticket = granted(&gate, "greedy");
    let mut greedy: Vec<Waiter> = (0..3).map(|_| waits(&gate, "greedy")).collect();
    let refused = gate.ask(&agent("greedy"), Instant::now() + LONG).err().unwrap();
    assert!(
        matches!(refused, OpError::Run(RunError::Overloaded { waiting: 3, limit: 3, waited: Duration::ZERO, .. })),
        "{refused:?}"
    );
    let mut other = waits(&gate, "other");
    assert!(is_overloaded(&answer(&mut greedy[2]).unwrap()), "it gave way");
    assert!(answer(&mut greedy[1]).is_none());
    assert!(answer(&mut other).is_none());
    assert!(gate.ask(&agent("other"), Instant::now() + LONG).is_err(), "two and one is as fair as one and two");
    assert_eq!(gate.figures().waiting, 3);
}

#[tokio::test(start_paused = true)]
async fn who_leaves_is_not_waited_for() {
    let gate = gate(1, 100);
    let ticket = granted(&gate, "a");
    let (left, left_later, mut stays) = (waits(&gate, "a"), waits(&gate, "b"), waits(&gate, "c"));
    drop(left);
    assert_eq!(gate.figures().waiting, 2);
    drop(ticket);
    assert_eq!(gate.figures().waiting, 1, "the second has its ticket, though it has not looked");
    assert!(answer(&mut stays).is_none());
    drop(left_later);
    assert!(answer(&mut stays).unwrap().is_ok(), "a ticket that nobody took goes to the next");
}

#[tokio::test(start_paused = true)]
async fn a_wait_has_an_end() {
    let config = AdmissionConfig { queue_wait: Duration::from_secs(5), ..AdmissionConfig::default() };
    let gate = Admission::new(config, 1);
    let _ticket = granted(&gate, "a");
    let start = Instant::now();
    let mut patient = waits(&gate, "a");
    let Asked::Waits(mut hasty) = gate.ask(&agent("a"), start + Duration::from_secs(2)).unwrap() else {
        panic!("there is no room")
    };
    assert!(is_overloaded(&hasty.turn().await));
    assert_eq!(start.elapsed().as_secs(), 2, "its own timeout is shorter");
    drop(hasty);
    let refused = patient.turn().await.err().unwrap();
    assert_eq!(start.elapsed().as_secs(), 5);
    let OpError::Run(RunError::Overloaded { waited, retry_after, .. }) = refused else { panic!("{refused}") };
    assert_eq!(waited.as_secs(), 5);
    assert!((LEAST_RETRY..=MOST_RETRY).contains(&retry_after));
}

#[tokio::test(start_paused = true)]
async fn the_time_to_try_again_follows_the_pace() {
    let gate = gate(1, 1);
    let mut ticket = granted(&gate, "a");
    let mut waiting: VecDeque<Waiter> = (0..60).map(|_| waits(&gate, "a")).collect();
    for _ in 0..40 {
        tokio::time::advance(Duration::from_millis(500)).await;
        drop(ticket);
        ticket = answer(&mut waiting.pop_front().unwrap()).unwrap().ok().unwrap();
    }
    let OpError::Run(RunError::Overloaded { waiting, retry_after, .. }) = waiting[0].overloaded() else {
        panic!("a refusal")
    };
    assert_eq!(waiting, 20);
    let about = Duration::from_secs(8)..=Duration::from_secs(10);
    assert!(about.contains(&retry_after), "20 turns of half a second: {retry_after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_closed_gate_refuses_all() {
    let gate = gate(1, 100);
    let _ticket = granted(&gate, "a");
    let mut waiter = waits(&gate, "a");
    gate.close();
    assert!(matches!(answer(&mut waiter), Some(Err(OpError::Run(RunError::ShuttingDown)))));
    assert!(matches!(gate.ask(&agent("a"), Instant::now() + LONG), Err(OpError::Run(RunError::ShuttingDown))));
    assert!(matches!(gate.ask_now(&agent("b")), Err(OpError::Run(RunError::ShuttingDown))));
    assert_eq!(gate.figures().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn one_agent_has_not_all_places_for_the_young_while_others_are_about() {
    let config = AdmissionConfig { young: 4, young_of_one: 2, ..AdmissionConfig::default() };
    let gate = Admission::new(config, 100);
    let alone: Vec<Ticket> = (0..4).map(|_| granted(&gate, "greedy")).collect();
    let mut other = waits(&gate, "other");
    let mut greedy = waits(&gate, "greedy");
    drop(alone);
    let _tickets = (answer(&mut other).unwrap().ok().unwrap(), answer(&mut greedy).unwrap().ok().unwrap());
    let _second = granted(&gate, "greedy");
    let mut third = waits(&gate, "greedy");
    assert!(answer(&mut third).is_none(), "it has its part");
    let late = granted(&gate, "late");
    assert_eq!(gate.figures().young, 4, "who comes finds a place, and overtakes nobody who could have had it");
    let mut later = waits(&gate, "late");
    drop(late);
    let _late = answer(&mut later).unwrap().ok().unwrap();
    assert!(answer(&mut third).is_none());
    tokio::time::advance(YOUNG).await;
    assert!(third.turn().await.is_ok(), "what is no longer young is not counted");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_alone_has_all_places() {
    let config = AdmissionConfig { young: 4, young_of_one: 1, ..AdmissionConfig::default() };
    let gate = Admission::new(config, 100);
    drop(granted(&gate, "other"));
    let first = granted(&gate, "greedy");
    drop(waits(&gate, "greedy"));
    drop(first);
    tokio::time::advance(ABOUT).await;
    let _all: Vec<Ticket> = (0..4).map(|_| granted(&gate, "greedy")).collect();
}

/// Tasks on several threads ask, hold, leave while they wait, and leave when they have just been let in; a wake-up that
/// gets lost leaves one of them waiting forever.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_is_forgotten() {
    const TASKS: usize = 64;
    const ROUNDS: usize = 300;
    let gate = gate(3, 5);
    let (inside, most, served) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (gate, inside, most) = (Arc::clone(&gate), Arc::clone(&inside), Arc::clone(&most));
        tasks.spawn(async move {
            let mut served = 0;
            for round in 0..ROUNDS {
                let ticket = match ask(&gate, &format!("agent-{}", task % 7)) {
                    Asked::Granted(ticket) => ticket,
                    Asked::Waits(mut waiter) => {
                        if (task + round) % 5 == 0 {
                            tokio::task::yield_now().await;
                            continue;
                        }
                        waiter.turn().await.ok().unwrap()
                    }
                };
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                if round % 3 == 0 {
                    tokio::task::yield_now().await;
                }
                inside.fetch_sub(1, Ordering::SeqCst);
                drop(ticket);
                served += 1;
            }
            served
        });
    }
    while let Some(done) = timeout(LONG, tasks.join_next()).await.expect("one of them waits forever") {
        served.fetch_add(done.unwrap(), Ordering::SeqCst);
    }
    let figures = gate.figures();
    assert_eq!((figures.running, figures.young, figures.waiting), (0, 0, 0));
    assert!((1..=5).contains(&most.load(Ordering::SeqCst)), "at most as many as may run: {most:?}");
    assert!(served.load(Ordering::SeqCst) >= TASKS * ROUNDS * 4 / 5);
}

/// A command whose record is on its way, until something is sent.
fn suspended(mut ticket: Ticket) -> (oneshot::Sender<()>, Pin<Box<dyn Future<Output = Ticket>>>) {
    let (answer, answered) = oneshot::channel::<()>();
    let mut waiting: Pin<Box<dyn Future<Output = Ticket>>> = Box::pin(async move {
        let _ = ticket.aside(answered).await;
        ticket
    });
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    (answer, waiting)
}

#[tokio::test(start_paused = true)]
async fn a_command_that_waits_for_the_store_leaves_its_place_to_another() {
    let gate = gate(1, 100);
    let first = granted(&gate, "a");
    let mut second = waits(&gate, "b");
    let (answer_first, waiting) = suspended(first);
    let second = answer(&mut second).unwrap().unwrap();
    assert_eq!((gate.figures().running, gate.figures().young), (2, 1));
    // When it goes on, it is young again, whether there is a place or not.
    answer_first.send(()).unwrap();
    let first = waiting.await;
    assert_eq!(gate.figures().young, 2);
    let mut third = waits(&gate, "c");
    drop(second);
    assert!(answer(&mut third).is_none(), "the first one has the place");
    drop(first);
    assert!(answer(&mut third).unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_need_not_wait_keeps_its_place() {
    let gate = gate(1, 100);
    let mut first = granted(&gate, "a");
    let mut second = waits(&gate, "b");
    first.aside(async {}).await;
    assert!(answer(&mut second).is_none());
}

#[tokio::test(start_paused = true)]
async fn not_everyone_may_wait_for_the_store_at_once() {
    let gate = gate(1, 100);
    let mut all: Vec<_> = (0..SUSPENDED_PER_PLACE).map(|_| suspended(granted(&gate, "a"))).collect();
    let mut next = waits(&gate, "a");
    // One that is given up no longer waits.
    all.pop();
    drop(answer(&mut next).unwrap().unwrap());
    // And a store that is slow does not close the gate.
    all.push(suspended(granted(&gate, "a")));
    let mut next = waits(&gate, "a");
    let last = timeout(LONG, next.turn()).await.unwrap().unwrap();
    assert_eq!((gate.figures().running, gate.figures().young), (SUSPENDED_PER_PLACE + 1, 1));
    drop((all, last));
    assert_eq!((gate.figures().running, gate.figures().young), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn one_agent_s_commands_that_wait_for_the_store_leave_places_to_others() {
    let config = AdmissionConfig { young: 4, young_of_one: 1, ..AdmissionConfig::default() };
    let gate = Admission::new(config, 1000);
    drop(granted(&gate, "b"));
    let all: Vec<_> = (0..SUSPENDED_OF_ONE).map(|_| suspended(granted(&gate, "a"))).collect();
    let _greedy = waits(&gate, "a");
    // The store answers all of them at once.
    let mut going_on = Vec::new();
    for (answer, waiting) in all {
        answer.send(()).unwrap();
        going_on.push(waiting.await);
    }
    assert_eq!((gate.figures().running, gate.figures().young), (SUSPENDED_OF_ONE, 1));
    drop(granted(&gate, "b"));
}
