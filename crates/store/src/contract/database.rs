//! What is peculiar to the SQLite file: older layouts are read and written on, names come without the sessions, rows
//! hold what differs from the first shell, and what is deleted gives its disk back.

use super::*;
use crate::{Find, SessionFilter, SessionOrder};
use rusqlite::Connection;

const URL: &str = "sqlite://store.db";

fn database(house: &House) -> Connection {
    Connection::open(house.path().join("store.db")).unwrap()
}

fn count(house: &House, what: &str) -> i64 {
    database(house).query_row(&format!("SELECT count(*) FROM {what}"), [], |row| row.get(0)).unwrap()
}

/// The sessions that a filter keeps, the most recently active first.
fn found(store: &Store, text: &str) -> Vec<String> {
    let (filter, order) = (SessionFilter::new(text, false), SessionOrder::Active);
    let found = wait(Find { filter, order, limit: 9, ..Find::default() }.search(store)).unwrap();
    found.sessions.into_iter().map(|summary| summary.meta.session_id.into()).collect()
}

/// The session of the golden file: everything behind it, and one run open.
fn golden() -> Teller {
    let mut teller = Teller::lived("golden");
    teller.start(Some("req-2"));
    teller
}

#[test]
fn a_golden_database_is_read_and_written_on() {
    let house = House::new(URL);
    database(&house).execute_batch(include_str!("../../golden/v1-sqlite.sql")).unwrap();
    let store = house.open();
    let (mut lived, begun) = (golden(), Teller::begin("other", None));
    lived.assert_in(&store);
    begun.assert_in(&store);
    assert_eq!(wait(store.unfinished()).unwrap(), [id("golden")]);
    assert_eq!(found(&store, "true"), ["golden"], "its last command is found");
    let run = wait(RequestIndex::of(&store, &id("golden")).run("req-1")).unwrap().unwrap();
    assert_eq!(run.result, Some(result()));
    // All its variables are rows, so one that goes is a row that goes.
    let open = RunId::from_seq(6);
    let mut delta = set("B", "2");
    delta.variables.insert("HOME".into(), None);
    lived.finish(&open, delta);
    lived.append_last(&store).unwrap();
    lived.assert_in(&store);
    drop(store);
    lived.assert_in(&house.open());
    begun.assert_in(&house.open());
}

/// A program of the same format that knows nothing of what is searched may have applied records: it leaves the last
/// commands as they were, and a place in the journal that does not say that they are up to date.
#[test]
fn what_an_older_program_did_is_found() {
    let house = House::new(URL);
    let store = house.open();
    let mut teller = Teller::begin("a", None);
    teller.start_command("make test");
    teller.append_to(&store);
    Teller::begin("b", None).append_to(&store);
    wait(store.flush()).unwrap();
    store.close().unwrap();
    drop(store);
    let db = database(&house);
    let applied =
        || -> String { db.query_row("SELECT value FROM meta WHERE key = 'applied'", [], |row| row.get(0)).unwrap() };
    let ours = applied();
    let mut mark: serde_json::Value = serde_json::from_str(&ours).unwrap();
    let fields = mark.as_object_mut().unwrap();
    assert!(fields.remove("derived").is_some() && fields.remove("sum").is_some());
    let theirs = crate::sum::seal(serde_json::to_vec(&mark).unwrap());
    let theirs = String::from_utf8(theirs).unwrap();
    db.execute("UPDATE meta SET value = ?1 WHERE key = 'applied'", [theirs]).unwrap();
    db.execute_batch(
        "UPDATE sessions SET last_run = NULL, last = NULL, failed = NULL, last_sum = NULL; \
         CREATE INDEX sessions_by_activity ON sessions (last_active_at DESC, id)",
    )
    .unwrap();
    let store = house.open();
    teller.assert_in(&store);
    assert_eq!(found(&store, "make"), ["a"]);
    assert_eq!(found(&store, "b"), ["b"]);
    assert_eq!(count(&house, "sqlite_schema WHERE name = 'sessions_by_activity'"), 0);
    drop(store);
    assert!(applied().contains("derived"), "{}", applied());
}

#[test]
fn names_are_told_with_their_agents() {
    for url in ["memory://", "file://store", URL] {
        let house = House::new(url);
        let store = house.open();
        assert!(wait(store.names()).unwrap().is_empty());
        for (name, agent) in [("c", Some("ann")), ("a", Some("bob")), ("d", None), ("b", Some("ann"))] {
            Teller::begin(name, agent).append_to(&store);
        }
        // One that is set aside still exists, so that it can be destroyed.
        let mut gap = Teller::begin("e", Some("ann"));
        gap.say(Event::ShellStarted { generation: 1 });
        gap.say(Event::ShellStarted { generation: 2 });
        store.append(&gap.records[0]).unwrap();
        store.append(&gap.records[2]).unwrap();
        let mut names = wait(store.names()).unwrap();
        names.sort();
        let told: Vec<(&str, Option<&str>)> = names.iter().map(|(id, agent)| (id.as_str(), agent.as_deref())).collect();
        let ann = Some("ann");
        assert_eq!(told, [("a", Some("bob")), ("b", ann), ("c", ann), ("d", None), ("e", ann)], "{url}");
        assert!(Arc::ptr_eq(names[1].1.as_ref().unwrap(), names[2].1.as_ref().unwrap()), "{url}");
    }
}

/// A session that nothing has happened to has its variables once, in its first shell; what it does about them after that
/// is all that the rows say.
#[test]
fn rows_hold_what_differs_from_the_first_shell() {
    let house = House::new(URL);
    let store = house.open();
    let mut teller = Teller::begin("a", None);
    teller.append_to(&store);
    teller.assert_in(&store);
    assert_eq!(count(&house, "shell_values"), 0);
    let mut tell = |rows: i64, change: &dyn Fn(&mut ShellDelta)| {
        let run = teller.start(None);
        let mut delta = ShellDelta::default();
        change(&mut delta);
        teller.finish(&run, delta);
        for record in &teller.records[teller.records.len() - 2..] {
            store.append(record).unwrap();
        }
        teller.assert_in(&store);
        assert_eq!(count(&house, "shell_values"), rows);
    };
    let given = |name: &str| Some(Variable::scalar("x", name));
    tell(1, &|delta| drop(delta.variables.insert("A".into(), given("1"))));
    tell(2, &|delta| drop(delta.variables.insert("HOME".into(), given("/root"))));
    // What the first shell had must be told to be gone, what it had not needs no row.
    tell(1, &|delta| {
        delta.variables.insert("A".into(), None);
        delta.variables.insert("HOME".into(), None);
    });
    tell(2, &|delta| drop(delta.functions.insert("f".into(), None)));
    tell(2, &|delta| drop(delta.variables.insert("HOME".into(), given("/again"))));
    drop(store);
    let store = house.open();
    teller.assert_in(&store);
    // A restart says all there is.
    let mut shell = ShellState { cwd: "/new".into(), ..ShellState::default() };
    shell.variables.insert("ONLY".into(), Variable::scalar("", "1"));
    teller.say(Event::Restarted { shell: Box::new(shell) });
    teller.append_last(&store).unwrap();
    teller.assert_in(&store);
    let run = teller.start(None);
    let mut delta = ShellDelta::default();
    delta.variables.insert("ONLY".into(), None);
    teller.finish(&run, delta);
    for record in &teller.records[teller.records.len() - 2..] {
        store.append(record).unwrap();
    }
    teller.assert_in(&store);
    assert_eq!(count(&house, "shell_values"), 0);
}

/// A first shell that cannot be read is its own session's damage.
#[test]
fn a_broken_first_shell_is_one_sessions_damage() {
    let house = House::new(URL);
    let store = house.open();
    let (broken, healthy) = (Teller::lived("a"), Teller::lived("b"));
    broken.append_to(&store);
    healthy.append_to(&store);
    drop(store);
    assert_eq!(database(&house).execute("UPDATE origins SET first_shell = '{' WHERE session = 'a'", []).unwrap(), 1);
    let store = house.open();
    assert!(matches!(wait(store.load(&id("a"))), Err(crate::ReadError::Damaged { .. })));
    healthy.assert_in(&store);
}

#[test]
fn what_is_deleted_gives_its_disk_back() {
    const SESSIONS: usize = 1500;
    let house = House::new(URL);
    let store = house.open();
    let name = |n: usize| format!("s{n}");
    let mut tellers: Vec<Teller> = (0..SESSIONS).map(|n| Teller::begin(&name(n), None)).collect();
    for teller in &mut tellers {
        let Event::SessionCreated { shell, .. } = &mut teller.records[0].event else { panic!("it begins") };
        shell.variables.insert("BIG".into(), Variable::scalar("", "x".repeat(10_000)));
        teller.append_to(&store);
    }
    wait(store.flush()).unwrap();
    let pages = || -> i64 {
        let db = database(&house);
        db.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap()
    };
    let full = pages();
    let kept = Teller::lived("kept");
    kept.append_to(&store);
    for teller in &mut tellers {
        teller.say(Event::SessionDestroyed);
        teller.append_last(&store).unwrap();
    }
    wait(store.flush()).unwrap();
    let length = || std::fs::metadata(house.path().join("store.db")).unwrap().len();
    shellkeep_poll::until(&format!("less than a third of {full} pages is used"), || {
        (pages() * 3 <= full && length() / 4096 * 3 <= u64::try_from(full).unwrap()).then_some(())
    });
    kept.assert_in(&store);
    assert!(store.problems().is_empty());
    drop(store);
    kept.assert_in(&house.open());
}
