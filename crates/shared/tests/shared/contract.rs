//! What every shared tier must do, told once and run for memory, and for a real Redis and PostgreSQL.

use crate::emptied;
use shellkeep_poll::until;
use shellkeep_servers::{DatabaseServer, Kind};
use shellkeep_session::ownership::{Ask, Claim, Claimed, Claims, Head, Point, Refusal};
use shellkeep_session::{ServiceId, SessionId, Timestamp};
use shellkeep_shared::memory::MemoryTier;
use shellkeep_shared::{
    AgentService, Append, ClaimRequest, Create, ForkNote, KeptFiles, NoClaim, NodeEntry, RemovedSession, SharedToken,
    Tier, UsedByAgent, open,
};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const LEASE: Duration = Duration::from_secs(60);
pub(crate) const NO_LIMIT: Create = Create { most_of_agent: u64::MAX };
const SHORT: Duration = Duration::from_millis(1);

pub(crate) fn id(name: &str) -> SessionId {
    SessionId::parse(name).unwrap()
}

pub(crate) fn request(name: &str, node: &str, nonce: &str, mine: Option<&Claim>) -> ClaimRequest {
    let ask =
        Ask { node: node.to_owned(), nonce: nonce.to_owned(), mine: mine.cloned(), seen: 0, claims: Claims::default() };
    let (agent, data_dir) = (Some("ann".to_owned()), format!("/data/{node}"));
    ClaimRequest { session_id: id(name), ask, data_dir, agent, create: None }
}

pub(crate) fn claimed(tier: &mut dyn Tier, request: &ClaimRequest, lease: Duration) -> Head {
    match tier.claim(request, lease).unwrap() {
        Ok(Claimed::New(head) | Claimed::Kept(head) | Claimed::Taken(head)) => head,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn send(tier: &mut dyn Tier, name: &str, head: &Head, from: u64, lines: &[&str]) -> Result<Head, Refusal> {
    let append = Append {
        session_id: id(name),
        claim: head.owner.clone(),
        after: head.last.clone(),
        from,
        first: head.last.seq + 1,
        through: head.last.seq + lines.len() as u64,
        lines: lines.iter().map(|line| line.as_bytes().to_vec()).collect(),
    };
    tier.append(std::slice::from_ref(&append), LEASE).unwrap().remove(0)?;
    let last =
        if lines.is_empty() { head.last.clone() } else { Point { seq: append.through, at: Some(head.owner.clone()) } };
    Ok(Head { last, ..head.clone() })
}

pub(crate) fn lines(tier: &mut dyn Tier, name: &str) -> Vec<String> {
    tier.load(&id(name)).unwrap().lines.into_iter().map(|line| String::from_utf8(line).unwrap()).collect()
}

/// Everything, in order.
fn contract(tier: &mut dyn Tier) {
    claims_are_exclusive_and_fenced(tier);
    a_claim_is_later_than_every_one_that_is_known(tier);
    emptied::contract(tier);
    a_lost_answer_is_recognised(tier);
    what_does_not_follow_is_refused(tier);
    creation_has_one_winner(tier);
    records_are_shortened(tier);
    shortening_twice_is_shortening_once(tier);
    records_are_replaced_by_the_owner(tier);
    what_sleeps_is_packed_and_loaded_as_it_was(tier);
    files_are_noted_by_the_owner(tier);
    forks_are_noted_until_the_owner_has_recorded_them(tier);
    removal_is_remembered(tier);
    a_dropped_session_leaves_its_name(tier);
    nodes_come_and_go(tier);
    tokens_are_shared_and_stay_revoked(tier);
    sessions_of_an_agent_are_limited(tier);
    services_of_an_agent_are_limited(tier);
}

fn claims_are_exclusive_and_fenced(tier: &mut dyn Tier) {
    assert_eq!(tier.find(&id("a")).unwrap(), None);
    let first = claimed(tier, &request("a", "n1", "x", None), LEASE);
    assert_eq!((first.owner.to_string().as_str(), first.last.seq), ("1.n1.x", 0));
    let first = send(tier, "a", &first, 2, &["one", "two"]).unwrap();
    let held = tier.claim(&request("a", "n2", "y", None), LEASE).unwrap();
    assert_eq!(held, Ok(Claimed::Held(first.owner.clone())));
    // The lease is given up by the claim that has it, and by no other.
    tier.release(&id("a"), &"9.n9.z".parse().unwrap(), false).unwrap();
    assert_eq!(tier.find(&id("a")).unwrap().unwrap().lease, Some(first.owner.clone()));
    tier.release(&id("a"), &first.owner, false).unwrap();
    let found = tier.find(&id("a")).unwrap().unwrap();
    assert_eq!((found.lease, found.agent.as_deref(), found.data_dir.as_str()), (None, Some("ann"), "/data/n1"));
    assert_eq!(found.head.claims.to_string(), "2=1.n1.x");
    // Others are told if its owner does not go on with it, until it is claimed again.
    assert!(!found.is_free);
    tier.release(&id("a"), &"9.n9.z".parse().unwrap(), true).unwrap();
    assert!(!tier.find(&id("a")).unwrap().unwrap().is_free);
    tier.release(&id("a"), &first.owner, true).unwrap();
    assert!(tier.find(&id("a")).unwrap().unwrap().is_free);
    // The next owner goes on after what is there.
    let second = claimed(tier, &request("a", "n2", "y", None), LEASE);
    assert_eq!((second.owner.to_string().as_str(), second.last.seq), ("2.n2.y", 2));
    assert!(!tier.find(&id("a")).unwrap().unwrap().is_free);
    let second = send(tier, "a", &second, 3, &["three"]).unwrap();
    assert_eq!(send(tier, "a", &first, 2, &["late"]), Err(Refusal::Fenced(Some(second.owner.clone()))));
    assert_eq!(lines(tier, "a"), ["one", "two", "three"]);
    assert_eq!(tier.find(&id("a")).unwrap().unwrap().head.claims.to_string(), "2=1.n1.x 3=2.n2.y");
    // A node goes on under its own claim, also while its lease is there.
    let again = tier.claim(&request("a", "n2", "z", Some(&second.owner)), LEASE).unwrap();
    assert!(matches!(&again, Ok(Claimed::Kept(head)) if head.last == second.last), "{again:?}");
    // A lease that ended and that nobody took is taken back by the next append.
    tier.release(&id("a"), &second.owner, false).unwrap();
    send(tier, "a", &second, 3, &[]).unwrap();
    assert_eq!(tier.find(&id("a")).unwrap().unwrap().lease, Some(second.owner));
}

/// The tier may have lost claims that its nodes still know.
fn a_claim_is_later_than_every_one_that_is_known(tier: &mut dyn Tier) {
    let seen = |node: &str, nonce: &str, seen: u64| {
        let request = request("l", node, nonce, None);
        ClaimRequest { ask: Ask { seen, ..request.ask }, ..request }
    };
    let first = claimed(tier, &seen("n1", "x", 7), LEASE);
    assert_eq!(first.owner.to_string(), "8.n1.x");
    let first = send(tier, "l", &first, 1, &["one"]).unwrap();
    tier.release(&id("l"), &first.owner, false).unwrap();
    let second = claimed(tier, &seen("n2", "y", 2), LEASE);
    assert_eq!(second.owner.to_string(), "9.n2.y");
    tier.release(&id("l"), &second.owner, false).unwrap();
    assert_eq!(claimed(tier, &seen("n1", "z", 12), LEASE).owner.to_string(), "13.n1.z");
}

fn a_lost_answer_is_recognised(tier: &mut dyn Tier) {
    let head = claimed(tier, &request("b", "n1", "x", None), LEASE);
    let after = send(tier, "b", &head, 1, &["one"]).unwrap();
    match send(tier, "b", &head, 1, &["one"]) {
        Err(Refusal::Apart(found)) => assert_eq!(found.last, after.last),
        other => panic!("{other:?}"),
    }
    assert_eq!(lines(tier, "b"), ["one"]);
    let repeated = claimed(tier, &request("b", "n1", "x", None), LEASE);
    assert_eq!(repeated.owner, head.owner, "the same question has the same answer");
    let unknown = Head { owner: "1.n1.x".parse().unwrap(), last: Point::default(), claims: Default::default() };
    assert_eq!(send(tier, "nobody", &unknown, 1, &["one"]), Err(Refusal::Fenced(None)));
}

/// The bug: only the last record was compared, and not whether the new ones follow it. A tier took what had a gap, and no node
/// could read the session any more.
fn what_does_not_follow_is_refused(tier: &mut dyn Tier) {
    let head = claimed(tier, &request("gap", "n1", "x", None), LEASE);
    let head = send(tier, "gap", &head, 1, &["1", "2"]).unwrap();
    let append = |first: u64, through: u64, line: &str| Append {
        session_id: id("gap"),
        claim: head.owner.clone(),
        after: head.last.clone(),
        from: 1,
        first,
        through,
        lines: vec![line.as_bytes().to_vec()],
    };
    let refused = tier.append(&[append(4, 4, "4")], LEASE).unwrap().remove(0);
    assert!(matches!(&refused, Err(Refusal::Apart(found)) if found.last == head.last), "{refused:?}");
    assert_eq!(lines(tier, "gap"), ["1", "2"]);
    let whole = [append(3, 9, "all to 9")];
    assert_eq!(tier.append(&whole, LEASE).unwrap().remove(0), Ok(Vec::new()), "it stands for those before it");
    assert_eq!(lines(tier, "gap"), ["1", "2", "all to 9"]);
}

fn creation_has_one_winner(tier: &mut dyn Tier) {
    let create = |node: &str, nonce: &str| ClaimRequest { create: Some(NO_LIMIT), ..request("c", node, nonce, None) };
    let first = claimed(tier, &create("n1", "x"), SHORT);
    // Its creator dies before the first record.
    let second = until("the lease ends", || match tier.claim(&create("n2", "y"), LEASE).unwrap() {
        Ok(Claimed::Taken(head)) => Some(head),
        _ => None,
    });
    assert!(second.owner != first.owner && second.last.seq == 0);
    let second = send(tier, "c", &second, 2, &["one", "two"]).unwrap();
    tier.release(&id("c"), &second.owner, false).unwrap();
    let third = tier.claim(&create("n3", "z"), LEASE).unwrap();
    assert_eq!(third, Ok(Claimed::Held(second.owner)), "one that has records is left alone");
}

fn records_are_shortened(tier: &mut dyn Tier) {
    let head = claimed(tier, &request("d", "n1", "x", None), LEASE);
    let head = send(tier, "d", &head, 1, &["1", "2"]).unwrap();
    tier.rest(&id("d"), &head.owner, 2, b"all to 2").unwrap();
    assert_eq!(lines(tier, "d"), ["1", "2"], "those since the last time stay");
    let head = send(tier, "d", &head, 1, &["3"]).unwrap();
    tier.rest(&id("d"), &"7.n7.x".parse().unwrap(), 3, b"another's").unwrap();
    tier.rest(&id("d"), &head.owner, 3, b"all to 3").unwrap();
    assert_eq!(lines(tier, "d"), ["all to 2", "3"]);
    let head = send(tier, "d", &head, 1, &["4"]).unwrap();
    tier.rest(&id("d"), &head.owner, 4, b"all to 4").unwrap();
    assert_eq!(lines(tier, "d"), ["all to 3", "4"]);
}

/// The bug: a call was repeated because its answer was lost, and the second time every record went. The results of the last
/// commands went with them, so another node ran a command again whose client repeated its request.
fn shortening_twice_is_shortening_once(tier: &mut dyn Tier) {
    let head = claimed(tier, &request("twice", "n1", "x", None), LEASE);
    let head = send(tier, "twice", &head, 1, &["1", "2"]).unwrap();
    let rest = |tier: &mut dyn Tier, seq: u64, line: &str| {
        tier.rest(&id("twice"), &head.owner, seq, line.as_bytes()).unwrap();
    };
    for _ in 0..2 {
        rest(tier, 2, "all to 2");
    }
    assert_eq!(lines(tier, "twice"), ["1", "2"]);
    let next = send(tier, "twice", &head, 1, &["3"]).unwrap();
    for _ in 0..3 {
        rest(tier, 3, "all to 3");
    }
    assert_eq!(lines(tier, "twice"), ["all to 2", "3"]);
    // The tier fell back since, or went on: it has not exactly what the line stands for.
    rest(tier, 9, "all to 9");
    rest(tier, 2, "all to 2, late");
    let next = send(tier, "twice", &next, 1, &["4"]).unwrap();
    rest(tier, next.last.seq, "all to 4");
    assert_eq!(lines(tier, "twice"), ["all to 3", "4"]);
}

fn records_are_replaced_by_the_owner(tier: &mut dyn Tier) {
    let to = |lines: &[&str]| -> Vec<Vec<u8>> { lines.iter().map(|line| line.as_bytes().to_vec()).collect() };
    let head = claimed(tier, &request("m", "n1", "x", None), LEASE);
    let head = send(tier, "m", &head, 1, &["1 horse", "2"]).unwrap();
    tier.rest(&id("m"), &head.owner, 2, b"all to 2, horse").unwrap();
    let head = send(tier, "m", &head, 1, &["3"]).unwrap();
    tier.rest(&id("m"), &head.owner, 3, b"all to 3, horse").unwrap();
    assert!(!tier.replace(&id("m"), &"7.n7.x".parse().unwrap(), 3, &to(&["another's"])).unwrap());
    assert!(!tier.replace(&id("m"), &head.owner, 2, &to(&["too early"])).unwrap());
    assert!(!tier.replace(&id("nobody"), &head.owner, 3, &to(&["nobody's"])).unwrap());
    assert_eq!(lines(tier, "m"), ["all to 2, horse", "3"]);
    assert!(tier.replace(&id("m"), &head.owner, 3, &to(&["all to 2, *****", "3"])).unwrap());
    assert_eq!(lines(tier, "m"), ["all to 2, *****", "3"]);
    // It goes on, is packed and shortened, and nothing of what was replaced comes back.
    let head = send(tier, "m", &head, 1, &["4"]).unwrap();
    assert_eq!(lines(tier, "m"), ["all to 2, *****", "3", "4"]);
    tier.rest(&id("m"), &head.owner, 4, b"all to 4").unwrap();
    assert_eq!(lines(tier, "m"), ["all to 2, *****", "3", "4"]);
    let head = send(tier, "m", &head, 1, &["5"]).unwrap();
    tier.rest(&id("m"), &head.owner, 5, b"all to 5").unwrap();
    assert_eq!(lines(tier, "m"), ["all to 4", "5"]);
    tier.pack(&id("m"), &head.owner).unwrap();
    assert!(tier.replace(&id("m"), &head.owner, 5, &to(&["all"])).unwrap());
    assert_eq!(lines(tier, "m"), ["all"]);
}

fn what_sleeps_is_packed_and_loaded_as_it_was(tier: &mut dyn Tier) {
    let long = |name: &str| format!("{name} {}", "x".repeat(500));
    let head = claimed(tier, &request("k", "n1", "x", None), LEASE);
    let head = send(tier, "k", &head, 1, &[&long("1"), &long("2")]).unwrap();
    tier.rest(&id("k"), &head.owner, 2, long("all to 2").as_bytes()).unwrap();
    let head = send(tier, "k", &head, 1, &[&long("3")]).unwrap();
    let all = ["1", "2", "3"].map(long);
    tier.pack(&id("k"), &"7.n7.x".parse().unwrap()).unwrap();
    tier.pack(&id("k"), &head.owner).unwrap();
    assert_eq!(lines(tier, "k"), all);
    tier.pack(&id("k"), &head.owner).unwrap();
    assert_eq!(lines(tier, "k"), all);
    // It is woken, goes on, and sleeps again.
    let head = send(tier, "k", &head, 1, &[&long("4")]).unwrap();
    assert_eq!(lines(tier, "k"), ["1", "2", "3", "4"].map(long));
    tier.pack(&id("k"), &head.owner).unwrap();
    let head = send(tier, "k", &head, 1, &[&long("5")]).unwrap();
    assert_eq!(lines(tier, "k"), ["1", "2", "3", "4", "5"].map(long));
    // It is shortened, at the latest the second time, and what is left has no gap.
    tier.rest(&id("k"), &head.owner, 5, long("all to 5").as_bytes()).unwrap();
    let head = send(tier, "k", &head, 1, &[&long("6")]).unwrap();
    tier.rest(&id("k"), &head.owner, 6, long("all to 6").as_bytes()).unwrap();
    assert_eq!(lines(tier, "k"), ["all to 5", "6"].map(long));
    tier.pack(&id("k"), &head.owner).unwrap();
    assert_eq!(lines(tier, "k"), ["all to 5", "6"].map(long));
    // Whoever takes it has all of it; who had it changes nothing any more.
    tier.release(&id("k"), &head.owner, false).unwrap();
    let next = claimed(tier, &request("k", "n2", "y", None), LEASE);
    let next = send(tier, "k", &next, 7, &[&long("7")]).unwrap();
    tier.pack(&id("k"), &head.owner).unwrap();
    assert_eq!(lines(tier, "k"), ["all to 5", "6", "7"].map(long));
    // A name that is used again has nothing of it.
    tier.pack(&id("k"), &next.owner).unwrap();
    tier.remove(&id("k"), &next.owner).unwrap();
    assert!(lines(tier, "k").is_empty());
}

fn files_are_noted_by_the_owner(tier: &mut dyn Tier) {
    let first = claimed(tier, &request("f", "n1", "x", None), SHORT);
    send(tier, "f", &first, 2, &["one"]).unwrap();
    let files = |name: &str| KeptFiles { folder: "1-1".to_owned(), name: name.to_owned(), commit: "ab".to_owned() };
    assert!(tier.note_files(&id("f"), &first.owner, &files("c1")).unwrap());
    tier.release(&id("f"), &first.owner, false).unwrap();
    let second = claimed(tier, &request("f", "n2", "y", None), LEASE);
    // The next owner finds it, and the former one no longer changes it.
    assert!(!tier.note_files(&id("f"), &first.owner, &files("late")).unwrap());
    assert_eq!(tier.find(&id("f")).unwrap().unwrap().files, Some(files("c1")));
    assert!(tier.note_files(&id("f"), &second.owner, &files("c2")).unwrap());
    assert_eq!(tier.find(&id("f")).unwrap().unwrap().files, Some(files("c2")));
    tier.remove(&id("f"), &second.owner).unwrap();
    assert!(!tier.note_files(&id("f"), &second.owner, &files("gone")).unwrap());
}

fn forks_are_noted_until_the_owner_has_recorded_them(tier: &mut dyn Tier) {
    let note =
        |node: &str| ForkNote { session_id: id(&format!("g.fork-1.{node}")), at: 1, through: 4, node: node.to_owned() };
    tier.note_fork(&id("g"), &note("n1")).unwrap();
    assert_eq!(tier.find(&id("g")).unwrap(), None, "a note makes no session");
    let head = claimed(tier, &request("g", "n2", "x", None), LEASE);
    let head = send(tier, "g", &head, 2, &["one"]).unwrap();
    for node in ["n1", "n3", "n1"] {
        tier.note_fork(&id("g"), &note(node)).unwrap();
    }
    // The owner learns of them with its next append, even if that only renews the lease.
    let renewal = Append {
        session_id: id("g"),
        claim: head.owner.clone(),
        after: head.last.clone(),
        from: 2,
        first: 2,
        through: 1,
        lines: Vec::new(),
    };
    let answer = tier.append(std::slice::from_ref(&renewal), LEASE).unwrap().remove(0);
    assert_eq!(answer, Ok(vec![note("n1"), note("n3")]));
    tier.forks_recorded(&id("g"), &"7.n7.x".parse().unwrap(), &[note("n1")]).unwrap();
    assert_eq!(tier.find(&id("g")).unwrap().unwrap().forks.len(), 2, "only the owner has recorded them");
    tier.forks_recorded(&id("g"), &head.owner, &[note("n1")]).unwrap();
    assert_eq!(tier.find(&id("g")).unwrap().unwrap().forks, [note("n3")]);
    tier.forks_recorded(&id("g"), &head.owner, &[note("n3")]).unwrap();
    assert_eq!(tier.append(&[renewal], LEASE).unwrap().remove(0), Ok(Vec::new()));
}

fn removal_is_remembered(tier: &mut dyn Tier) {
    let head = claimed(tier, &request("e", "n1", "x", None), LEASE);
    send(tier, "e", &head, 1, &["one"]).unwrap();
    tier.remove(&id("e"), &"7.n7.x".parse().unwrap()).unwrap();
    assert!(tier.find(&id("e")).unwrap().is_some(), "only its owner removes it");
    tier.remove(&id("e"), &head.owner).unwrap();
    assert_eq!(tier.find(&id("e")).unwrap(), None);
    let copy = tier.claim(&request("e", "n2", "y", None), LEASE).unwrap();
    assert_eq!(copy, Err(NoClaim::Removed), "a copy does not bring it back");
    assert_eq!(tier.removed(&[id("a"), id("e"), id("nobody")]).unwrap(), [id("e")]);
    assert!(tier.removed(&[]).unwrap().is_empty());
    let anew = claimed(tier, &ClaimRequest { create: Some(NO_LIMIT), ..request("e", "n2", "y", None) }, LEASE);
    assert_eq!(anew.last.seq, 0);
    assert!(anew.owner.epoch > head.owner.epoch, "{} after {}: it looks like the same", anew.owner, head.owner);
    assert!(tier.removed(&[id("e")]).unwrap().is_empty());
    assert!(lines(tier, "e").is_empty());
    let removed = |name: &str, second: i64| RemovedSession {
        session_id: id(name),
        created_at: Timestamp::new(1_800_000_000 + second, 123_456_789).unwrap(),
    };
    for _ in 0..2 {
        tier.mark_removed(&[removed("e", 0), removed("b", 0), removed("e", 0)]).unwrap();
    }
    tier.mark_removed(&[]).unwrap();
    let sessions = [removed("e", 0), removed("b", 0), removed("e", 1), removed("a", 0)];
    let marked = sessions.map(|one| tier.is_marked(&one).unwrap());
    assert_eq!(marked, [true, true, false, false], "a session is marked, and not its name");
    assert!(tier.find(&id("e")).unwrap().is_some(), "the one that has the name stays");
}

/// One that came back although it was removed leaves nothing behind: another session has the name on a node that is down.
fn a_dropped_session_leaves_its_name(tier: &mut dyn Tier) {
    let head = claimed(tier, &request("dropped", "n1", "x", None), LEASE);
    let head = send(tier, "dropped", &head, 1, &["one"]).unwrap();
    tier.drop_session(&id("dropped"), &"7.n7.x".parse().unwrap()).unwrap();
    assert_eq!(lines(tier, "dropped"), ["one"], "only its owner drops it");
    tier.drop_session(&id("dropped"), &head.owner).unwrap();
    assert_eq!(tier.find(&id("dropped")).unwrap(), None);
    assert!(lines(tier, "dropped").is_empty() && tier.removed(&[id("dropped")]).unwrap().is_empty());
    assert!(matches!(send(tier, "dropped", &head, 1, &["late"]), Err(Refusal::Fenced(_))));
    let other = tier.claim(&request("dropped", "n2", "y", None), LEASE).unwrap();
    assert!(matches!(&other, Ok(Claimed::New(head)) if head.last.seq == 0), "{other:?}");
}

fn nodes_come_and_go(tier: &mut dyn Tier) {
    let node = |name: &str| NodeEntry {
        name: name.to_owned(),
        url: format!("http://{name}:1"),
        version: "1".to_owned(),
        since: "2026-01-01T00:00:00Z".to_owned(),
        sessions: 3,
        draining: name == "n2",
        data_id: (name == "n1").then(|| "d1".to_owned()),
        given: (name == "n1").then(|| "a".to_owned()),
    };
    assert!(tier.nodes().unwrap().is_empty());
    for name in ["n2", "n1"] {
        tier.beat(&node(name), LEASE).unwrap();
    }
    tier.beat(&node("n3"), SHORT).unwrap();
    until("a node that is silent is gone", || tier.node("n3").unwrap().is_none().then_some(()));
    assert_eq!(tier.nodes().unwrap(), [node("n1"), node("n2")]);
    assert_eq!(tier.node("n2").unwrap(), Some(node("n2")));
    tier.leave("n2").unwrap();
    assert_eq!((tier.node("n2").unwrap(), tier.nodes().unwrap()), (None, vec![node("n1")]));
    let left = |tier: &mut dyn Tier| ["n1", "n2", "n3", "n4"].map(|name| tier.has_left(name).unwrap());
    assert_eq!(left(tier), [false, true, false, false], "not one that fell silent, nor one that never was");
    tier.beat(&node("n2"), LEASE).unwrap();
    assert_eq!((left(tier), tier.node("n2").unwrap()), ([false; 4], Some(node("n2"))), "it is back");
    tier.leave("n2").unwrap();
}

fn tokens_are_shared_and_stay_revoked(tier: &mut dyn Tier) {
    let token = |id: &str, is_revoked: bool| SharedToken {
        id: id.to_owned(),
        is_revoked,
        record: format!("{{\"id\":\"{id}\",\"revoked\":{is_revoked}}}"),
    };
    let all = |tier: &mut dyn Tier| {
        let mut all = tier.tokens().unwrap();
        all.sort();
        (all, tier.tokens_version().unwrap())
    };
    let (none, first) = all(tier);
    assert!(none.is_empty());
    tier.put_tokens(&[token("t1", false), token("t2", false)]).unwrap();
    let (two, second) = all(tier);
    assert_eq!(two, [token("t1", false), token("t2", false)]);
    tier.put_tokens(&[token("t1", true)]).unwrap();
    let (_, third) = all(tier);
    // A node that has not heard of it does not undo it.
    tier.put_tokens(&[token("t1", false), token("t2", false)]).unwrap();
    let (two, fourth) = all(tier);
    assert_eq!(two, [token("t1", true), token("t2", false)]);
    assert!(first < second && second < third && third == fourth, "{first} {second} {third} {fourth}");
}

fn sessions_of_an_agent_are_limited(tier: &mut dyn Tier) {
    let create = |name: &str, node: &str, most_of_agent: u64| ClaimRequest {
        agent: Some("bob".to_owned()),
        create: Some(Create { most_of_agent }),
        ..request(name, node, "x", None)
    };
    let used = |tier: &mut dyn Tier| tier.used_by("bob").unwrap().sessions;
    assert_eq!(used(tier), 0);
    let first = claimed(tier, &create("h1", "n1", 2), LEASE);
    let first = send(tier, "h1", &first, 2, &["one"]).unwrap();
    tier.release(&id("h1"), &first.owner, false).unwrap();
    // One that gets no record counts only for a while.
    claimed(tier, &create("h2", "n2", 2), SHORT);
    until("its creator is gone", || (used(tier) == 1).then_some(()));
    let second = claimed(tier, &create("h3", "n2", 2), LEASE);
    assert_eq!(tier.claim(&create("h4", "n1", 2), LEASE).unwrap(), Err(NoClaim::Full { used: 2 }));
    assert_eq!(tier.find(&id("h4")).unwrap(), None);
    // A question that is asked again, and one about a session that exists, are not about one more.
    assert_eq!(claimed(tier, &create("h3", "n2", 2), LEASE), second);
    assert_eq!(tier.claim(&create("h1", "n2", 2), LEASE).unwrap(), Ok(Claimed::Held(first.owner.clone())));
    // Taking over a session changes nothing, and neither does a limit that was lowered.
    let taken = claimed(tier, &ClaimRequest { agent: None, ..request("h1", "n2", "z", None) }, LEASE);
    assert_eq!(used(tier), 2);
    tier.remove(&id("h1"), &taken.owner).unwrap();
    assert_eq!(used(tier), 1);
    claimed(tier, &create("h4", "n1", 2), LEASE);
}

fn services_of_an_agent_are_limited(tier: &mut dyn Tier) {
    let service = |name: &str| AgentService {
        agent: "eve".to_owned(),
        session_id: id(name),
        service_id: ServiceId::parse("s3").unwrap(),
    };
    let (one, two, three) = (service("k1"), service("k2"), service("k3"));
    assert_eq!(tier.count_service(&one, 0, LEASE).unwrap(), Err(Vec::new()));
    assert_eq!(tier.count_service(&one, 2, LEASE).unwrap(), Ok(()));
    assert_eq!(tier.count_service(&one, 1, LEASE).unwrap(), Ok(()), "a question that is asked again");
    assert_eq!(tier.count_service(&two, 2, SHORT).unwrap(), Ok(()));
    // One whose node is gone does not count.
    until("nobody renews it", || tier.count_service(&three, 2, LEASE).unwrap().ok());
    assert_eq!(tier.count_service(&two, 2, LEASE).unwrap(), Err(vec![one.clone(), three.clone()]));
    assert_eq!(tier.count_service(&AgentService { agent: "joe".to_owned(), ..two.clone() }, 1, LEASE).unwrap(), Ok(()));
    // One that runs counts whatever the limit is.
    tier.renew_services(std::slice::from_ref(&two), LEASE).unwrap();
    assert_eq!(tier.used_by("eve").unwrap(), UsedByAgent { sessions: 0, services: 3 });
    tier.uncount_service(&one).unwrap();
    tier.uncount_service(&two).unwrap();
    assert_eq!(tier.count_service(&two, 2, LEASE).unwrap(), Ok(()));
}

/// A server with its data in a temporary directory.
pub(crate) struct RedisServer {
    child: Child,
    pub(crate) port: u16,
    _directory: TempDir,
}

impl RedisServer {
    pub(crate) fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
            .arg(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed (Debian: redis-server)");
        let server = Self { child, port, _directory: directory };
        let mut tier = open(&server.url()).unwrap();
        until("redis-server answers", || tier.ping().ok());
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn memory_keeps_the_contract() {
    contract(&mut MemoryTier::default());
}

#[test]
fn redis_keeps_the_contract() {
    let server = RedisServer::start();
    contract(&mut *open(&server.url()).unwrap());
}

pub(crate) fn postgres() -> DatabaseServer {
    DatabaseServer::start(Kind::Postgres).unwrap().expect("PostgreSQL is installed (Debian: postgresql)")
}

#[test]
fn postgres_keeps_the_contract() {
    let server = postgres();
    contract(&mut *open(&server.url()).unwrap());
}

/// All nodes of a cluster may start at once, on an empty database.
#[test]
fn tables_are_made_once() {
    let server = postgres();
    let begun: Vec<_> = (0..8)
        .map(|_| {
            let url = server.url();
            std::thread::spawn(move || until("the server has a moment", || open(&url).unwrap().ping().ok()))
        })
        .collect();
    begun.into_iter().for_each(|one| one.join().unwrap());
}

#[test]
fn a_server_that_is_away_is_down_and_not_waited_for() {
    let mut server = RedisServer::start();
    let mut tier = open(&server.url()).unwrap();
    tier.ping().unwrap();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let down = tier.ping().unwrap_err();
    assert!(down.reason.contains(&server.url()), "{down}");
}
