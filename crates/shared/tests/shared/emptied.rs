//! A tier that was emptied: what tiers and nodes do about it.

use crate::contract::{LEASE, RedisServer, claimed, id, postgres, request, send};
use crate::pipe::say;
use shellkeep_poll::until;
use shellkeep_session::Timestamp;
use shellkeep_session::ownership::{Ask, Claim};
use shellkeep_shared::memory::MemoryTier;
use shellkeep_shared::{ClaimRequest, NodeEntry, Remembered, RemovedSession, Ship, ShipOptions, Tier, WhenAlone, open};
use tokio::sync::mpsc;

/// What every tier must do.
pub(crate) fn contract(tier: &mut dyn Tier) {
    what_there_is_has_a_name(tier);
    earlier_owners_are_known_again(tier);
    a_writer_is_noted_once(tier);
}

fn what_there_is_has_a_name(tier: &mut dyn Tier) {
    assert_eq!(tier.incarnation("1.n1").unwrap(), "1.n1");
    assert_eq!(tier.incarnation("2.n2").unwrap(), "1.n1", "it stays for as long as nothing is lost");
}

/// A tier that came back empty knows of a session what the node knows that gives it again.
fn earlier_owners_are_known_again(tier: &mut dyn Tier) {
    let knows = |node: &str, nonce: &str, mine: Option<&str>, claims: &str| {
        let mine: Option<Claim> = mine.map(|claim| claim.parse().unwrap());
        let request = request("emptied", node, nonce, mine.as_ref());
        ClaimRequest { ask: Ask { claims: claims.parse().unwrap(), ..request.ask }, ..request }
    };
    let known = |tier: &mut dyn Tier| tier.find(&id("emptied")).unwrap().unwrap().head.claims.to_string();
    let mine = knows("n2", "z", Some("2.n2.y"), "2=1.n1.x 6=2.n2.y");
    assert_eq!(claimed(tier, &mine, LEASE).claims.to_string(), "2=1.n1.x 6=2.n2.y");
    assert_eq!(known(tier), "2=1.n1.x 6=2.n2.y");
    // It ends before the first record; another one, which has less, gives what it has.
    tier.release(&id("emptied"), &"2.n2.y".parse().unwrap(), true).unwrap();
    let head = claimed(tier, &knows("n3", "w", None, "2=1.n1.x"), LEASE);
    assert_eq!((head.last.seq, head.claims.to_string()), (0, "2=1.n1.x".to_owned()));
    let head = send(tier, "emptied", &head, 4, &["one"]).unwrap();
    assert_eq!(known(tier), "2=1.n1.x 4=3.n3.w");
    // What the tier has counts from then on.
    tier.release(&id("emptied"), &head.owner, true).unwrap();
    let head = claimed(tier, &knows("n2", "v", None, "2=1.n1.x 6=2.n2.y"), LEASE);
    assert_eq!(head.claims.to_string(), "2=1.n1.x 4=3.n3.w");
}

/// The entry of a writer that goes on is not repeated.
fn a_writer_is_noted_once(tier: &mut dyn Tier) {
    let claim: Claim = "2.n2.y".parse().unwrap();
    let request = request("once", "n2", "z", Some(&claim));
    let claims = "2=1.n1.x 6=2.n2.y".parse().unwrap();
    let head = claimed(tier, &ClaimRequest { ask: Ask { claims, ..request.ask }, ..request }, LEASE);
    send(tier, "once", &head, 6, &["one"]).unwrap();
    assert_eq!(tier.find(&id("once")).unwrap().unwrap().head.claims.to_string(), "2=1.n1.x 6=2.n2.y");
}

/// The bug: a node looked at its sessions only after a new connection, so one that slept was never given again to a
/// Redis that was emptied with `FLUSHALL`.
#[tokio::test]
async fn a_node_looks_at_its_sessions_when_the_tier_was_emptied() {
    let tier = MemoryTier::default();
    let node = |name: &str, given: Option<&str>| NodeEntry {
        name: name.to_owned(),
        given: given.map(str::to_owned),
        ..NodeEntry::default()
    };
    tier.clone().incarnation("1.n2").unwrap();
    tier.clone().beat(&node("n2", Some("1.n2")), LEASE).unwrap();
    let (when_alone, remembered, news) = (WhenAlone::Serve, Remembered::default(), mpsc::unbounded_channel().0);
    let options = ShipOptions { tier: Box::new(tier.clone()), node: node("n1", None), when_alone, remembered, news };
    let ship = Ship::start(options).unwrap();
    let alone = ship.alone();
    let lacking = async || {
        let alone = ship.alone();
        ship.ask(move |tier| alone.lacking(tier)).await.unwrap().map(|lacking| [lacking.alive, lacking.gone].concat())
    };
    // It has renewed its leases once.
    ship.tokens().wait_for(Option::is_some).await.unwrap();
    assert_eq!((alone.incarnation().as_deref(), lacking().await), (Some("1.n2"), None));
    let mut doubts = alone.doubts();
    doubts.borrow_and_update();
    tier.empty();
    doubts.changed().await.unwrap();
    assert_ne!(alone.incarnation().as_deref(), Some("1.n2"));
    assert_eq!(lacking().await, Some(vec!["n2".to_owned()]), "a node does not wait for itself");
    alone.gave(&alone.incarnation().unwrap());
    assert_eq!(lacking().await, Some(vec!["n2".to_owned()]));
    tier.clone().beat(&node("n2", alone.incarnation().as_deref()), LEASE).unwrap();
    assert_eq!(lacking().await, None);
}

#[test]
fn redis_has_another_name_after_it_was_emptied() {
    let server = RedisServer::start();
    let mut tier = open(&server.url()).unwrap();
    assert_eq!(tier.incarnation("1.n1").unwrap(), "1.n1");
    say(&server, "FLUSHALL");
    assert_eq!(tier.incarnation("2.n1").unwrap(), "2.n1");
}

/// Does something in the database, on a connection of its own.
pub(crate) fn execute(url: &str, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap();
    });
}

/// The bug: the sequence is not in the list of tables, and whoever dropped those had nodes that could not make them
/// again.
#[test]
fn postgres_has_another_name_and_its_tables_after_it_was_emptied() {
    let server = postgres();
    let mut tier = open(&server.url()).unwrap();
    assert_eq!(tier.incarnation("1.n1").unwrap(), "1.n1");
    execute(&server.url(), "TRUNCATE sk_shared_heads, sk_shared_log, sk_shared_nodes");
    assert_eq!(tier.incarnation("2.n1").unwrap(), "2.n1");
    let tables = "sk_shared_heads, sk_shared_log, sk_shared_agent_services, sk_shared_tokens, sk_shared_nodes";
    execute(&server.url(), &format!("DROP TABLE {tables}"));
    assert_eq!(until("they are made again", || tier.incarnation("3.n1").ok()), "3.n1");
    assert_eq!(tier.tokens_version().unwrap(), 0);
    execute(&server.url(), "DROP SEQUENCE sk_shared_tokens_version");
    assert_eq!(until("it is made again, though the tables are there", || tier.tokens_version().ok()), 0);
    assert_eq!(tier.incarnation("4.n1").unwrap(), "3.n1");
}

/// The bug: a removal was remembered for as long as no other followed, and each that followed read the whole table to forget it.
#[test]
fn postgres_remembers_a_removal_until_its_end() {
    let server = postgres();
    let mut tier = open(&server.url()).unwrap();
    let removed = RemovedSession { session_id: id("s"), created_at: Timestamp::UNIX_EPOCH };
    tier.mark_removed(std::slice::from_ref(&removed)).unwrap();
    assert!(tier.is_marked(&removed).unwrap());
    execute(&server.url(), "UPDATE sk_shared_removed SET until = clock_timestamp() - interval '1 s'");
    assert!(!tier.is_marked(&removed).unwrap());
    // An older version made no index.
    execute(&server.url(), "DROP INDEX sk_shared_removed_by_end");
    open(&server.url()).unwrap().ping().unwrap();
    execute(&server.url(), "ALTER INDEX sk_shared_removed_by_end RENAME TO it_is_there");
}
