//! The ship, over a tier in memory that can be cut off, emptied and taken back to an older copy.

use shellkeep_poll::until;
use shellkeep_session::ownership::{Ask, Claim, Claimed, Claims, Head};
use shellkeep_session::{Event, Record, SessionId, SessionMeta, Timestamp};
use shellkeep_shared::memory::MemoryTier;
use shellkeep_shared::{
    ClaimRequest, LEASE, Moved, NodeEntry, NotAdmitted, Remembered, Settled, Ship, ShipOptions, Start, Tier, WhenAlone,
    admit,
};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;

struct Fixture {
    tier: MemoryTier,
    ship: Arc<Ship>,
    news: mpsc::UnboundedReceiver<Moved>,
    id: SessionId,
}

impl Drop for Fixture {
    /// What is called during an append holds the ship meanwhile. It must not be the last to drop it: the ship waits for its
    /// thread, and the thread would wait for the call.
    fn drop(&mut self) {
        self.tier.during_appends(|| {});
    }
}

fn record(id: &SessionId, seq: u64) -> Record {
    Record { session_id: id.clone(), seq, at: Timestamp::UNIX_EPOCH, event: Event::ShellStarted { generation: seq } }
}

/// A record of this many megabytes.
fn large(id: &SessionId, seq: u64, megabytes: usize) -> Record {
    let event = Event::SessionEnded { reason: "x".repeat(megabytes << 20) };
    Record { event, ..record(id, seq) }
}

/// Node n1 as it tells of itself.
fn entry(since: &str, data_id: Option<&str>) -> NodeEntry {
    let (name, since, data_id) = ("n1".to_owned(), since.to_owned(), data_id.map(str::to_owned));
    NodeEntry { name, since, data_id, ..NodeEntry::default() }
}

impl Fixture {
    fn new() -> Self {
        Self::of(entry("", None))
    }

    fn of(node: NodeEntry) -> Self {
        let tier = MemoryTier::default();
        let (sender, news) = mpsc::unbounded_channel();
        let (when_alone, remembered) = (WhenAlone::Serve, Remembered::default());
        let options = ShipOptions { tier: Box::new(tier.clone()), node, when_alone, remembered, news: sender };
        let ship = Arc::new(Ship::start(options).unwrap());
        Self { tier, ship, news, id: SessionId::parse("s").unwrap() }
    }

    fn claim(&self, node: &str, mine: Option<Claim>) -> Head {
        let ask = Ask { node: node.to_owned(), nonce: format!("of-{node}"), mine, seen: 0, claims: Claims::default() };
        let (session_id, data_dir) = (self.id.clone(), String::new());
        let request = ClaimRequest { session_id, ask, data_dir, agent: None, create: None };
        match self.tier.clone().claim(&request, LEASE).unwrap() {
            Ok(Claimed::New(head) | Claimed::Kept(head) | Claimed::Taken(head)) => head,
            other => panic!("{other:?}"),
        }
    }

    /// The session is this node's, with nothing recorded.
    fn begin(&self) -> Claim {
        let head = self.claim("n1", None);
        let start = Start { claim: head.owner.clone(), created_at: None, from: 1, known: Some(head.last), seq: 0 };
        self.ship.begin(&self.id, start, |_| None);
        head.owner
    }

    async fn put(&self, seq: u64) -> Settled {
        self.ship.offer(&record(&self.id, seq));
        self.ship.settle(&self.id, seq).await
    }

    /// The numbers of the records in the tier.
    fn shared(&self) -> Vec<u64> {
        let lines = self.tier.clone().load(&self.id).unwrap().lines;
        lines.iter().map(|line| serde_json::from_slice::<Record>(line).unwrap().seq).collect()
    }
}

#[tokio::test]
async fn records_settle_in_order_and_are_sent_again_after_a_fallback() {
    let fixture = Fixture::new();
    fixture.begin();
    for seq in 1..=3 {
        assert_eq!(fixture.put(seq).await, Settled::Kept);
    }
    let older = fixture.tier.copy();
    for seq in 4..=6 {
        assert_eq!(fixture.put(seq).await, Settled::Kept);
    }
    // A replica that is three records behind takes over.
    fixture.tier.fall_back(older);
    assert_eq!(fixture.shared(), [1, 2, 3]);
    assert_eq!(fixture.put(7).await, Settled::Kept);
    assert_eq!(fixture.shared(), [1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test]
async fn a_stale_owner_is_refused_and_told() {
    let mut fixture = Fixture::new();
    fixture.begin();
    assert_eq!(fixture.put(1).await, Settled::Kept);
    fixture.tier.end_lease(&fixture.id);
    let owner = fixture.claim("n2", None).owner;
    assert_eq!(fixture.put(2).await, Settled::Moved);
    assert_eq!(fixture.news.recv().await, Some(Moved::Away(fixture.id.clone(), Some(owner))));
    assert_eq!(fixture.shared(), [1]);
    assert_eq!(fixture.ship.settle(&fixture.id, 1).await, Settled::Moved, "it stays so");
}

/// What a node wrote last used to be forgotten with the session, also what callers had been told.
#[tokio::test]
async fn what_a_stale_owner_wrote_last_is_kept_with_how_far_callers_were_told() {
    let mut fixture = Fixture::new();
    fixture.begin();
    assert_eq!(fixture.put(1).await, Settled::Kept);
    let older = fixture.tier.copy();
    for seq in 2..=3 {
        assert_eq!(fixture.put(seq).await, Settled::Kept);
    }
    // A replica that is two records behind takes over, and another node goes on there.
    fixture.tier.fall_back(older);
    fixture.tier.end_lease(&fixture.id);
    let owner = fixture.claim("n2", None).owner;
    assert_eq!(fixture.put(4).await, Settled::Moved);
    assert_eq!(fixture.news.recv().await, Some(Moved::Away(fixture.id.clone(), Some(owner))));
    fixture.ship.offer(&record(&fixture.id, 5));
    let left = fixture.ship.left(&fixture.id);
    assert_eq!(left.records.iter().map(|record| record.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(left.told, Some(3), "nobody was told of what was refused");
    fixture.ship.forget(&fixture.id);
    assert!(fixture.ship.left(&fixture.id).records.is_empty());
}

#[tokio::test]
async fn a_node_goes_on_while_the_tier_is_away_and_sends_what_it_lacks() {
    let fixture = Fixture::new();
    fixture.begin();
    assert_eq!(fixture.put(1).await, Settled::Kept);
    fixture.tier.set_down(true);
    for seq in 2..=4 {
        assert!(matches!(fixture.put(seq).await, Settled::HereOnly { .. }));
    }
    assert!(fixture.ship.alone().problem().is_some());
    fixture.tier.set_down(false);
    let settled = shellkeep_poll::until_async(shellkeep_poll::LONG, "the tier is used again", async || {
        Some(fixture.ship.settle(&fixture.id, 4).await).filter(|settled| *settled == Settled::Kept)
    });
    assert_eq!(settled.await, Settled::Kept);
    assert_eq!(fixture.shared(), [1, 2, 3, 4]);
    assert_eq!(fixture.ship.alone().problem(), None);
}

#[tokio::test]
async fn a_tier_that_came_back_empty_is_given_the_state() {
    let mut fixture = Fixture::new();
    let empty = fixture.tier.copy();
    let claim = fixture.begin();
    for seq in 1..=100 {
        assert_eq!(fixture.put(seq).await, Settled::Kept);
    }
    fixture.tier.fall_back(empty);
    fixture.ship.offer(&record(&fixture.id, 101));
    assert_eq!(fixture.news.recv().await, Some(Moved::Reclaim(fixture.id.clone())));
    fixture.ship.offer(&record(&fixture.id, 102));
    let head = fixture.claim("n1", Some(claim));
    let start = Start { claim: head.owner, created_at: None, from: 1, known: Some(head.last), seq: 101 };
    fixture.ship.begin(&fixture.id, start, |after| {
        assert_eq!(after, 0);
        Some(record(&fixture.id, 101))
    });
    // The state was read before its last record was offered, and is perhaps sent already.
    fixture.ship.offer(&record(&fixture.id, 101));
    assert_eq!(fixture.ship.settle(&fixture.id, 102).await, Settled::Kept);
    fixture.ship.offer(&record(&fixture.id, 102));
    assert_eq!(fixture.put(103).await, Settled::Kept);
    assert_eq!(fixture.shared(), [101, 102, 103], "what stands for the lost ones, and what came after, once");
}

/// The tier took records with a gap before them, and no other node could read the session any more.
#[tokio::test]
async fn what_does_not_follow_is_not_shared_without_the_state() {
    let mut fixture = Fixture::new();
    let claim = fixture.begin();
    assert_eq!(fixture.put(1).await, Settled::Kept);
    fixture.ship.offer(&record(&fixture.id, 3));
    assert_eq!(fixture.news.recv().await, Some(Moved::Reclaim(fixture.id.clone())));
    assert_eq!(fixture.shared(), [1]);
    let head = fixture.claim("n1", Some(claim));
    let start = Start { claim: head.owner, created_at: None, from: 1, known: Some(head.last), seq: 3 };
    fixture.ship.begin(&fixture.id, start, |_| Some(record(&fixture.id, 3)));
    assert_eq!(fixture.ship.settle(&fixture.id, 3).await, Settled::Kept);
    assert_eq!(fixture.shared(), [1, 3]);
}

/// The bug: while the queue was full, the state of a session was loaded with each of its records, also while the tier was away
/// and could not be given it.
#[tokio::test]
async fn a_session_whose_records_do_not_fit_is_given_again_once() {
    let mut fixture = Fixture::new();
    let claim = fixture.begin();
    assert_eq!(fixture.put(1).await, Settled::Kept);
    // Of 64 MiB.
    fixture.ship.offer(&large(&SessionId::parse("other").unwrap(), 1, 63));
    for seq in 2..=3 {
        fixture.ship.offer(&large(&fixture.id, seq, 2));
    }
    let reclaim = Some(Moved::Reclaim(fixture.id.clone()));
    assert_eq!(fixture.news.recv().await, reclaim);
    assert!(fixture.news.try_recv().is_err(), "it was told");

    let head = fixture.claim("n1", Some(claim));
    let start = Start { claim: head.owner, created_at: None, from: 1, known: Some(head.last), seq: 3 };
    fixture.ship.begin(&fixture.id, start, |_| Some(record(&fixture.id, 3)));
    assert_eq!(fixture.ship.settle(&fixture.id, 3).await, Settled::Kept);
    fixture.tier.set_down(true);
    assert!(matches!(fixture.put(4).await, Settled::HereOnly { .. }));
    for seq in 5..=6 {
        fixture.ship.offer(&large(&fixture.id, seq, 2));
    }
    assert!(fixture.news.try_recv().is_err(), "nobody can be given it");
    fixture.tier.set_down(false);
    assert_eq!(fixture.news.recv().await, reclaim);
    assert!(fixture.news.try_recv().is_err(), "it was told when the tier was back");
}

/// The bug: a record that did not fit while the session was already given again was never shared, and the store took what followed
/// it: no other node could read the session any more.
#[tokio::test]
async fn what_does_not_fit_while_a_session_is_given_again_is_given_too() {
    let mut fixture = Fixture::new();
    let claim = fixture.begin();
    assert_eq!(fixture.put(1).await, Settled::Kept);
    let other = SessionId::parse("other").unwrap();
    fixture.ship.offer(&large(&other, 1, 63));
    for seq in 2..=3 {
        fixture.ship.offer(&large(&fixture.id, seq, 2));
    }
    let reclaim = Some(Moved::Reclaim(fixture.id.clone()));
    assert_eq!(fixture.news.recv().await, reclaim);

    // There is room again, and the state was read before the last record.
    fixture.ship.drop_left(&other);
    let head = fixture.claim("n1", Some(claim));
    let give = |seq: u64| {
        let start = Start { claim: head.owner.clone(), created_at: None, from: 1, known: Some(head.last.clone()), seq };
        fixture.ship.begin(&fixture.id, start, |_| Some(record(&fixture.id, seq)));
    };
    give(2);
    assert_eq!(fixture.news.recv().await, reclaim, "the third is missing");
    fixture.ship.offer(&record(&fixture.id, 4));
    give(3);
    assert_eq!(fixture.ship.settle(&fixture.id, 4).await, Settled::Kept);
    assert_eq!(fixture.shared(), [1, 3, 4]);
}

/// The bug: a record did not fit while one before it was on its way, and the answer to that made the session ready again. The
/// next record was sent without the one that did not fit, before the state was: a caller was told that it is kept.
#[tokio::test]
async fn an_answer_does_not_count_after_a_record_that_did_not_fit() {
    let mut fixture = Fixture::new();
    let claim = fixture.begin();
    assert_eq!(fixture.put(1).await, Settled::Kept);
    let other = SessionId::parse("other").unwrap();
    fixture.ship.offer(&large(&other, 1, 63));
    let (ship, id, mut is_first) = (Arc::downgrade(&fixture.ship), fixture.id.clone(), true);
    fixture.tier.during_appends(move || {
        if let Some(ship) = ship.upgrade().filter(|_| std::mem::take(&mut is_first)) {
            ship.offer(&large(&id, 3, 2));
            ship.drop_left(&other);
            ship.offer(&record(&id, 4));
        }
    });
    fixture.ship.offer(&record(&fixture.id, 2));
    assert_eq!(fixture.news.recv().await, Some(Moved::Reclaim(fixture.id.clone())));
    let head = fixture.claim("n1", Some(claim));
    let start = Start { claim: head.owner, created_at: None, from: 1, known: Some(head.last), seq: 4 };
    let state = large(&fixture.id, 4, 0);
    fixture.ship.begin(&fixture.id, start, |_| Some(state.clone()));
    assert_eq!(fixture.ship.settle(&fixture.id, 4).await, Settled::Kept);
    let last = fixture.tier.clone().load(&fixture.id).unwrap().lines.pop().unwrap();
    assert_eq!(serde_json::from_slice::<Record>(&last).unwrap(), state);
    assert!(fixture.news.try_recv().is_err(), "the tier had to refuse what does not follow");
}

#[tokio::test]
async fn a_session_that_sleeps_gives_up_its_lease_and_one_that_is_forgotten_is_not_sent() {
    let fixture = Fixture::new();
    fixture.begin();
    fixture.ship.offer(&record(&fixture.id, 1));
    fixture.ship.end(&fixture.id);
    let slept = shellkeep_poll::until_async(shellkeep_poll::LONG, "the lease is given up", async || {
        let asked = fixture.id.clone();
        let found = fixture.ship.ask(move |tier| tier.find(&asked)).await.unwrap().unwrap();
        found.lease.is_none().then_some(found)
    });
    assert_eq!(slept.await.head.last.seq, 1, "not before everything is sent");
    let head = fixture.claim("n1", None);
    let start = Start { claim: head.owner, created_at: None, from: 2, known: Some(head.last), seq: 1 };
    fixture.ship.begin(&fixture.id, start, |_| None);
    fixture.ship.forget(&fixture.id);
    assert!(!fixture.ship.is_open(&fixture.id));
    fixture.ship.offer(&record(&fixture.id, 2));
    assert_eq!(fixture.ship.settle(&fixture.id, 2).await, Settled::Moved);
    assert_eq!(fixture.shared(), [1]);
}

/// A record that came right behind made the ship drop the one that stands for those before it.
#[tokio::test]
async fn the_tier_is_shortened_while_records_come() {
    let fixture = Fixture::new();
    fixture.begin();
    for last in [10, 20, 30] {
        let first = if last == 10 { 1 } else { last - 8 };
        (first..=last).for_each(|seq| fixture.ship.offer(&record(&fixture.id, seq)));
        fixture.ship.rest(&record(&fixture.id, last));
        fixture.ship.offer(&record(&fixture.id, last + 1));
        assert_eq!(fixture.ship.settle(&fixture.id, last + 1).await, Settled::Kept);
    }
    assert_eq!(fixture.shared(), (20..=31).collect::<Vec<u64>>(), "the state before the last, and what came since");
}

/// Far more appends than there are while a test waits for something else.
const ENOUGH: u64 = 500_000;

/// A session that always has a record to send: the next one is offered while one is appended. Stops after [`ENOUGH`] appends, and
/// counts them.
fn write_all_the_time(fixture: &Fixture) -> Arc<AtomicU64> {
    let appended = Arc::new(AtomicU64::new(0));
    let (count, ship, id) = (Arc::clone(&appended), Arc::downgrade(&fixture.ship), fixture.id.clone());
    let mut seq = 1;
    fixture.tier.during_appends(move || {
        if count.fetch_add(1, Ordering::SeqCst) < ENOUGH
            && let Some(ship) = ship.upgrade()
        {
            seq += 1;
            ship.offer(&record(&id, seq));
        }
    });
    fixture.ship.offer(&record(&fixture.id, 1));
    appended
}

/// The thread sent until there was nothing left to send: as long as sessions kept writing, nobody else was answered and no lease
/// was renewed.
fn others_are_answered_while_a_session_writes(fixture: &Fixture) -> impl Future<Output = ()> {
    fixture.begin();
    let appended = write_all_the_time(fixture);
    let ship = Arc::clone(&fixture.ship);
    async move {
        for _ in 0..10 {
            ship.ask(|tier| tier.ping()).await.unwrap();
        }
        let appended = appended.load(Ordering::SeqCst);
        assert!(appended < ENOUGH, "it was answered after {appended} appends");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_are_answered_while_a_session_writes_on_a_pipe() {
    others_are_answered_while_a_session_writes(&Fixture::new()).await;
}

#[test]
fn others_are_answered_while_a_session_writes_through_the_thread() {
    let fixture = Fixture::new();
    let answered = others_are_answered_while_a_session_writes(&fixture);
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(answered);
}

/// Nothing was packed while somebody waited for the tier, so on a busy node nothing ever was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_sleeps_is_packed_while_a_session_writes() {
    let mut fixture = Fixture::new();
    fixture.begin();
    let writes = fixture.id.clone();
    let sleep: Vec<SessionId> = ["a", "b", "c"].map(|name| SessionId::parse(name).unwrap()).into();
    let appended = write_all_the_time(&fixture);
    for session in &sleep {
        fixture.id = session.clone();
        fixture.begin();
        assert_eq!(fixture.put(1).await, Settled::Kept);
        fixture.ship.end(session);
    }
    let packed = shellkeep_poll::until_async(shellkeep_poll::LONG, "all are packed", async || {
        Some(fixture.tier.packed()).filter(|packed| packed.len() >= sleep.len())
    });
    let mut packed = packed.await;
    packed.sort_unstable();
    assert_eq!(packed, sleep, "each of them once");
    let appended = appended.load(Ordering::SeqCst);
    assert!(appended < ENOUGH, "{writes} had come to its end: {appended}");
}

/// Two nodes with one name took turns in the list of nodes, and nobody noticed.
#[test]
fn of_two_nodes_with_one_name_the_later_one_does_without_the_tier() {
    let (early, late) = (entry("2026-01-01T00:00:00Z", Some("d1")), entry("2026-01-02T00:00:00Z", Some("d2")));
    let fixture = Fixture::of(late.clone());
    let shown = || fixture.tier.clone().node("n1").unwrap().and_then(|node| node.data_id);
    until("it is in the list", || (shown().as_deref() == Some("d2")).then_some(()));
    // As if both had started at once.
    let reason = until("it knows that it is not the only one", || {
        fixture.tier.clone().beat(&early, LEASE).unwrap();
        fixture.ship.alone().problem()
    });
    assert!(reason.contains("another node is named 'n1'"), "{reason}");
    assert_eq!(shown().as_deref(), Some("d1"));
    fixture.tier.clone().leave("n1").unwrap();
    until("it goes on when the other has left", || fixture.ship.alone().problem().is_none().then_some(()));

    let fixture = Fixture::of(early);
    fixture.tier.clone().beat(&late, LEASE).unwrap();
    let shown = || fixture.tier.clone().node("n1").unwrap().and_then(|node| node.data_id);
    until("the earlier one is in the list", || (shown().as_deref() == Some("d1")).then_some(()));
    assert_eq!(fixture.ship.alone().problem(), None);
}

#[test]
fn a_node_is_not_admitted_while_another_has_its_name() {
    let tier = MemoryTier::default();
    let (one, other) = (entry("2026-01-01T00:00:00Z", Some("d1")), entry("2026-01-02T00:00:00Z", Some("d2")));
    tier.clone().beat(&one, LEASE).unwrap();
    assert_eq!(admit(&mut tier.clone(), &one), Ok(()), "it was restarted");
    assert_eq!(admit(&mut tier.clone(), &entry("", None)), Ok(()), "a node of an older version does not say");
    // One that was killed is gone when its lease has ended.
    assert_eq!(admit(&mut tier.clone(), &other), Ok(()));
    tier.clone().beat(&one, LEASE * 10).unwrap();
    assert_eq!(admit(&mut tier.clone(), &other), Err(NotAdmitted::NameTaken(Box::new(one))));
}

/// What sleeps used to be anybody's as soon as a node was to be drained, also while it still ran a service of it.
#[tokio::test]
async fn what_sleeps_is_free_only_when_its_services_have_ended() {
    let fixture = Fixture::new();
    fixture.begin();
    assert_eq!(fixture.put(1).await, Settled::Kept);
    let (drain, mut tier) = (fixture.ship.drain(), fixture.tier.clone());
    assert!(drain.begin(HashSet::from([fixture.id.clone()])));
    assert!(!drain.begin(HashSet::new()), "it has begun");
    fixture.ship.end(&fixture.id);
    while tier.find(&fixture.id).unwrap().is_some_and(|found| found.lease.is_some()) {
        tokio::task::yield_now().await;
    }
    assert!(drain.has_begun() && !drain.is_free() && !drain.has_left(&fixture.id));
    assert_eq!(fixture.ship.count(), 1, "its service counts");
    assert!(!tier.find(&fixture.id).unwrap().unwrap().is_free);
    let left = [&fixture.id];
    let (has_left, ()) = tokio::join!(drain.until_left(&left), async { drain.free() });
    assert!(has_left);
    drain.until_over().await;
    let node = tier.node("n1").unwrap().expect("it is alive");
    assert_eq!((node.draining, node.sessions), (true, 0), "others know when it is over");
    assert!(drain.has_left(&fixture.id) && fixture.ship.count() == 0);
}

/// The bug: a command that a node refused because it stopped waited for the session to leave, which none does without the store.
#[tokio::test]
async fn nobody_waits_for_a_session_to_leave_while_the_tier_is_away() {
    let fixture = Fixture::new();
    fixture.begin();
    assert_eq!(fixture.put(1).await, Settled::Kept);
    let drain = fixture.ship.drain();
    assert!(drain.begin(HashSet::new()));
    drain.free();
    fixture.tier.set_down(true);
    fixture.ship.offer(&record(&fixture.id, 2));
    assert!(!drain.until_left(&[&fixture.id]).await);
}

/// The bug: of two that created a session while the store was away, the second replaced the claim that the first had recorded. When
/// the session was used again after it had slept, its own history was taken for another node's.
#[test]
fn two_that_create_a_session_while_the_tier_is_away_have_one_claim() {
    let fixture = Fixture::new();
    let begin = |nonce: &str| {
        let claim: Claim = format!("1.n1.{nonce}").parse().unwrap();
        fixture
            .ship
            .begin_unless_open(&fixture.id, Start { claim, created_at: None, from: 2, known: None, seq: 0 })
            .nonce
    };
    assert_eq!([begin("a"), begin("b")], ["a", "a"]);
    assert_eq!(fixture.ship.claim_of(&fixture.id).map(|claim| claim.nonce).as_deref(), Some("a"));
    fixture.ship.forget(&fixture.id);
    assert_eq!(begin("b"), "b");
}

/// The bug: the records of a removed session, its end among them, waited until the session that has its name now had as many. All
/// history of the node waited with them.
#[tokio::test]
async fn a_record_of_a_former_session_does_not_wait_for_the_one_that_has_its_name() {
    let fixture = Fixture::new();
    fixture.begin();
    let [before, created, after] = [100, 200, 300].map(|second| Timestamp::from_second(second).unwrap());
    let meta = SessionMeta { created_at: created, ..SessionMeta::of_name(fixture.id.clone()) };
    let event = Event::SessionCreated { meta: Box::new(meta), shell: Box::default() };
    fixture.ship.offer(&Record { event, at: created, ..record(&fixture.id, 1) });
    assert_eq!(fixture.ship.settle(&fixture.id, 1).await, Settled::Kept);
    let may_be_told = |seq: u64, at: Timestamp, of: Option<Timestamp>| {
        fixture.ship.may_be_told(&Record { at, event: Event::SessionDestroyed, ..record(&fixture.id, seq) }, of)
    };
    assert!(may_be_told(50, before, Some(before)));
    assert!(may_be_told(50, after, Some(before)), "the clock of another node was behind");
    assert!(may_be_told(50, before, None), "it is older than the session");
    assert!(may_be_told(1, created, Some(created)));
    assert!(!may_be_told(2, after, Some(created)) && !may_be_told(2, after, None), "it was not sent");
}
