//! What every backend does.

use super::*;
use crate::{Find, ReadError, SessionFilter, SessionOrder, last_seq};
use shellkeep_session::hold::SESSION_HELD;
use shellkeep_session::{Sandbox, SessionPlace};

tell!(memory = "memory://", filesystem = "file://store", sqlite = "sqlite://store.db"; (
    a_session_reads_back_as_it_was_told, lists_come_in_pages_by_id, sessions_are_found_by_what_they_did,
    sessions_are_found_by_their_last_command, runs_are_found_by_id_and_by_request, runs_are_listed_newest_first, runs_of_all_sessions_are_listed_newest_first,
    a_destroyed_session_is_gone_and_can_begin_anew, a_gap_sets_one_session_aside, old_records_change_nothing,
    unfinished_runs_name_their_sessions, a_second_daemon_is_refused, bytes_that_are_no_text_survive,
    many_threads_append_at_once, a_restart_begins_with_the_first_shell, who_asked_is_kept,
    a_message_to_the_agent_is_found_by_its_key, a_run_of_which_only_a_state_tells_is_found,
    a_session_that_moved_is_where_its_last_state_says
));

fn a_session_reads_back_as_it_was_told(house: House) {
    let store = house.open();
    assert_eq!(wait(store.load(&id("a"))).unwrap(), None);
    assert_eq!(wait(last_seq(&store, &id("a"))).unwrap(), None);
    let teller = Teller::lived("a");
    teller.append_to(&store);
    assert_eq!(wait(last_seq(&store, &id("a"))).unwrap(), Some(teller.state.seq));
    teller.assert_in(&store);
    wait(store.flush()).unwrap();
    wait(store.sync()).unwrap();
    assert!(store.problems().is_empty());
    store.close().unwrap();
}

fn lists_come_in_pages_by_id(house: House) {
    let store = house.open();
    for (name, agent) in [("c", Some("ann")), ("a", Some("bob")), ("d", None), ("b", Some("ann"))] {
        Teller::begin(name, agent).append_to(&store);
    }
    Teller::lived("e").append_to(&store);
    let names = |agent: Option<&str>, after: Option<&str>, limit| -> Vec<String> {
        let after = after.map(id);
        let page = wait(store.list(agent, after.as_ref(), limit)).unwrap();
        page.into_iter().map(|summary| summary.meta.session_id.into()).collect()
    };
    assert_eq!(names(None, None, 3), ["a", "b", "c"]);
    assert_eq!(names(None, Some("c"), 3), ["d", "e"]);
    assert_eq!(names(Some("ann"), None, 2), ["b", "c"]);
    assert_eq!(names(Some("ann"), Some("c"), 2), ["e"]);
    assert!(names(Some("nobody"), None, 9).is_empty());
    let last = wait(store.list(None, Some(&id("d")), 1)).unwrap().remove(0);
    let told = Teller::lived("e").state;
    assert_eq!((last.meta, last.seq, last.generation), (told.meta, told.seq, told.generation));
    assert_eq!((last.cwd, last.last_active_at, last.damaged), (told.shell.cwd, told.last_active_at, None));
    let mut held = Teller::begin("f", None);
    let data = serde_json::json!({"hold": "x", "holder": "ann", "until": "2030-01-01T00:00:00Z"});
    held.say(Event::Noted { event_type: SESSION_HELD.to_owned(), data, author: Author::runtime(None) });
    held.say(Event::SandboxChanged { sandbox: Sandbox::Fence, by: None });
    held.append_to(&store);
    let last = wait(store.list(None, Some(&id("e")), 1)).unwrap().remove(0);
    assert_eq!((last.hold.as_deref().map(|hold| hold.holder.as_str()), last.sandbox), (Some("ann"), Sandbox::Fence));
    assert_eq!(last.hold, held.state.hold);
}

fn sessions_are_found_by_what_they_did(house: House) {
    let store = house.open();
    for (name, agent) in [("c", Some("ann")), ("a", Some("bob")), ("d", None)] {
        Teller::begin(name, agent).append_to(&store);
    }
    let mut failing = Teller::lived("e");
    let open = failing.start(None);
    failing.append_to(&store);
    let names = |find: Find| -> (Vec<String>, Option<String>) {
        let found = wait(Find { limit: find.limit.max(1), ..find }.search(&store)).unwrap();
        let ids = found.sessions.into_iter().map(|summary| summary.meta.session_id.into()).collect();
        (ids, found.next.map(|next| next.to_string()))
    };
    let active = || Find { order: SessionOrder::Active, limit: 9, ..Find::default() };
    let (by_activity, next) = names(active());
    assert_eq!((by_activity.len(), next), (4, None));
    assert_eq!(by_activity[0], "e", "the session with the last record comes first");
    // Pages of one are the whole list, in the same order.
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let (page, next) = names(Find { limit: 1, after: after.as_deref().and_then(SessionPlace::parse), ..active() });
        pages.extend(page);
        match next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(pages, by_activity);
    // A place says where it is, also if its session is on another node.
    let last = |find: Find| wait(find.search(&store)).unwrap().sessions.pop().unwrap();
    let second = last(Find { limit: 2, ..active() });
    let nobody = SessionPlace::active(id("0-of-another-node"), second.last_active_at);
    assert_eq!(names(Find { after: Some(nobody), ..active() }).0, by_activity[1..]);
    let known = SessionPlace::from(second.meta.session_id);
    assert_eq!(names(Find { after: Some(known), ..active() }).0, by_activity[2..]);
    let filtered =
        |text: &str, failed| names(Find { filter: SessionFilter::new(text, failed), limit: 9, ..Find::default() }).0;
    assert_eq!(filtered("BOB a", false), ["a"]);
    assert!(filtered("bob ann", false).is_empty());
    assert!(filtered("", true).is_empty(), "a command that runs has not failed");
    let result = Box::new(RunResult { exit_code: Some(3), ..result() });
    failing.say(Event::RunFinished { run_id: open, result, delta: Box::default() });
    failing.append_last(&store).unwrap();
    assert_eq!(filtered("", true), ["e"]);
    assert_eq!(names(Find { agent: Some("ann".to_owned()), ..active() }).0.last().map(String::as_str), Some("c"));
}

/// A filter sees the last command and no earlier one, however it ended, and after a restart.
fn sessions_are_found_by_their_last_command(house: House) {
    let mut store = house.open();
    let find = |store: &Store, text: &str, failed, order| -> Vec<String> {
        let filter = SessionFilter::new(text, failed);
        let found = wait(Find { filter, order, limit: 9, ..Find::default() }.search(store)).unwrap();
        assert_eq!(found.next, None);
        found.sessions.into_iter().map(|summary| summary.meta.session_id.into()).collect()
    };
    let by_id = |store: &Store, text: &str| find(store, text, false, SessionOrder::Id);
    let (mut one, mut other) = (Teller::begin("one", Some("ann")), Teller::begin("other", None));
    let long = format!("echo begins {} ends", "x".repeat(2000));
    let earlier = one.start_command("Make Ünits");
    let later = other.start_command(&long);
    one.append_to(&store);
    other.append_to(&store);
    assert_eq!(by_id(&store, "MAKE üNITS"), ["one"]);
    assert_eq!(by_id(&store, "begins echo"), ["other"]);
    assert!(by_id(&store, "ends").is_empty(), "only the beginning of a command is looked at");
    assert_eq!(find(&store, "e", false, SessionOrder::Active), ["one", "other"], "they are equally recent");
    // Another command begins while the first runs; the end of the first one is not its end.
    let last = one.start_command("cargo test");
    one.append_last(&store).unwrap();
    let failed = || Box::new(RunResult { exit_code: Some(1), ..result() });
    one.say(Event::RunFinished { run_id: earlier, result: failed(), delta: Box::default() });
    one.append_last(&store).unwrap();
    assert!(by_id(&store, "make").is_empty());
    assert_eq!(by_id(&store, "ann cargo /start"), ["one"]);
    assert!(find(&store, "", true, SessionOrder::Id).is_empty());
    wait(store.flush()).unwrap();
    if house.url != "memory://" {
        drop(store);
        store = house.open();
    }
    assert_eq!(by_id(&store, "cargo"), ["one"]);
    one.say(Event::RunFinished { run_id: last, result: failed(), delta: Box::default() });
    one.append_last(&store).unwrap();
    other.finish(&later, ShellDelta::default());
    other.append_last(&store).unwrap();
    for order in [SessionOrder::Id, SessionOrder::Active] {
        assert_eq!(find(&store, "", true, order), ["one"]);
        assert_eq!(find(&store, "test", true, order), ["one"]);
        assert!(find(&store, "begins", true, order).is_empty());
    }
    // Nothing is known of what a session did that was set aside.
    store.append(&Record { seq: one.state.seq + 2, ..one.records.last().unwrap().clone() }).unwrap();
    assert!(by_id(&store, "cargo").is_empty());
    assert_eq!(by_id(&store, "one ann"), ["one"]);
    assert!(find(&store, "", true, SessionOrder::Active).is_empty());
}

fn runs_are_found_by_id_and_by_request(house: House) {
    let store = house.open();
    let mut teller = Teller::lived("a");
    teller.append_to(&store);
    let run = wait(RequestIndex::of(&store, &id("a")).run("req-1")).unwrap().unwrap();
    assert_eq!((run.seq, run.result.as_ref()), (3, Some(&result())));
    assert_eq!(wait(store.run(&id("a"), &run.run_id)).unwrap(), Some(run));
    let open = teller.start(Some("req-2"));
    teller.append_last(&store).unwrap();
    assert_eq!(wait(RequestIndex::of(&store, &id("a")).run("req-2")).unwrap().unwrap().result, None);
    // The result comes in a later batch than the start.
    teller.finish(&open, ShellDelta::default());
    teller.append_last(&store).unwrap();
    assert_eq!(wait(store.run(&id("a"), &open)).unwrap().unwrap().result, Some(result()));
    assert_eq!(wait(RequestIndex::of(&store, &id("a")).run("req-3")).unwrap(), None);
    assert_eq!(wait(store.run(&id("a"), &RunId::from_seq(99))).unwrap(), None);
    assert_eq!(wait(RequestIndex::of(&store, &id("b")).run("req-1")).unwrap(), None);
}

fn runs_are_listed_newest_first(house: House) {
    let store = house.open();
    let mut teller = Teller::begin("a", None);
    teller.append_to(&store);
    let mut started = Vec::new();
    for number in 0..12 {
        let run_id = teller.start(None);
        teller.append_last(&store).unwrap();
        started.insert(0, run_id.clone());
        if number < 11 {
            teller.finish(&run_id, ShellDelta::default());
            teller.append_last(&store).unwrap();
        }
    }
    let page = |before, limit| wait(store.runs(&id("a"), before, limit)).unwrap();
    let names = |runs: Vec<shellkeep_session::StoredRun>| runs.into_iter().map(|run| run.run_id).collect::<Vec<_>>();
    assert_eq!(names(page(u64::MAX, 5)), started[..5]);
    // Ids of one and of two digits are ordered by number.
    assert_eq!(names(page(started[4].seq().unwrap(), 99)), started[5..]);
    assert_eq!(names(page(started[11].seq().unwrap(), 99)), []);
    let newest = page(u64::MAX, 2);
    assert_eq!(newest[0].result, None);
    let ended = newest[1].result.clone().unwrap();
    assert_eq!((ended.stdout.inline, ended.stdout.total), (None, result().stdout.total));
    assert_eq!(wait(store.runs(&id("nobody"), u64::MAX, 9)).unwrap(), []);
}

fn runs_of_all_sessions_are_listed_newest_first(house: House) {
    let store = house.open();
    for name in ["b", "c", "a"] {
        let mut teller = Teller::begin(name, None);
        for _ in 0..3 {
            let run_id = teller.start(None);
            teller.finish(&run_id, ShellDelta::default());
        }
        teller.append_to(&store);
    }
    let key = |name: &str, seq: u64| RunKey { started_at: at(seq), session_id: id(name), seq };
    let all: Vec<RunKey> = [6, 4, 2].iter().flat_map(|seq| ["c", "b", "a"].map(|name| key(name, *seq))).collect();
    let page = |before: Option<&RunKey>, limit| wait(AllRuns::of(&store).keys(None, before.cloned(), limit)).unwrap();
    assert_eq!(page(None, 99), all);
    assert_eq!(page(None, 4), all[..4]);
    assert_eq!(page(Some(&all[3]), 4), all[4..8]);
    assert_eq!(page(Some(&all[8]), 4), []);
    // A session that is gone has none.
    let gone = Record { session_id: id("c"), seq: 8, at: at(8), event: Event::SessionDestroyed };
    store.append(&gone).unwrap();
    assert_eq!(page(None, 2), [key("b", 6), key("a", 6)]);
    store.close().unwrap();
}

fn a_destroyed_session_is_gone_and_can_begin_anew(house: House) {
    let store = house.open();
    let mut teller = Teller::lived("a");
    teller.append_to(&store);
    wait(store.flush()).unwrap();
    teller.say(Event::SessionDestroyed);
    teller.append_last(&store).unwrap();
    assert_eq!(wait(store.load(&id("a"))).unwrap(), None);
    assert!(wait(store.list(None, None, 9)).unwrap().is_empty());
    assert_eq!(wait(RequestIndex::of(&store, &id("a")).run("req-1")).unwrap(), None);
    assert_eq!(wait(store.first_shell(&id("a"))).unwrap(), None);
    let anew = Teller::begin("a", None);
    anew.append_to(&store);
    anew.assert_in(&store);
    assert_eq!(wait(RequestIndex::of(&store, &id("a")).run("req-1")).unwrap(), None);
}

fn a_gap_sets_one_session_aside(house: House) {
    let store = house.open();
    let mut teller = Teller::lived("a");
    teller.append_to(&store);
    let healthy = Teller::lived("b");
    healthy.append_to(&store);
    teller.say(Event::ShellStarted { generation: 2 });
    teller.say(Event::ShellStarted { generation: 3 });
    teller.append_last(&store).unwrap();
    let Err(ReadError::Damaged { reason }) = wait(store.load(&id("a"))) else { panic!("it has a gap") };
    assert!(reason.contains("does not follow"), "{reason}");
    assert!(matches!(wait(store.first_shell(&id("a"))), Err(ReadError::Damaged { .. })));
    healthy.assert_in(&store);
    let listed = wait(store.list(None, None, 9)).unwrap();
    assert_eq!(listed.iter().map(|summary| summary.damaged.is_some()).collect::<Vec<_>>(), [true, false]);
    // A damaged session can be destroyed, and its name is free again.
    teller.say(Event::SessionDestroyed);
    teller.append_last(&store).unwrap();
    assert_eq!(wait(store.load(&id("a"))).unwrap(), None);
    let anew = Teller::begin("a", None);
    anew.append_to(&store);
    anew.assert_in(&store);
}

fn old_records_change_nothing(house: House) {
    let store = house.open();
    let teller = Teller::lived("a");
    teller.append_to(&store);
    wait(store.flush()).unwrap();
    teller.append_to(&store);
    teller.assert_in(&store);
}

fn unfinished_runs_name_their_sessions(house: House) {
    let store = house.open();
    for name in ["c", "a"] {
        let mut teller = Teller::lived(name);
        teller.start(None);
        teller.append_to(&store);
    }
    Teller::lived("b").append_to(&store);
    assert_eq!(wait(store.unfinished()).unwrap(), [id("a"), id("c")]);
}

fn a_second_daemon_is_refused(house: House) {
    let store = house.open();
    let Err(error) = house.try_open() else { panic!("the directory is taken") };
    assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
    drop(store);
    house.open();
}

fn bytes_that_are_no_text_survive(house: House) {
    let store = house.open();
    let mut teller = Teller::lived("a.B:c-_");
    let run = teller.start(None);
    let mut delta = ShellDelta { cwd: Some(vec![b'/', 0xff].into()), ..ShellDelta::default() };
    delta.variables.insert(vec![0xfe, b'x'].into(), Some(Variable::scalar("", vec![0xff, b'\n'])));
    teller.finish(&run, delta);
    teller.append_to(&store);
    teller.assert_in(&store);
}

fn many_threads_append_at_once(house: House) {
    let store = house.open();
    let tellers: Vec<Teller> = (0..8).map(|n| Teller::lived(&format!("s{n}"))).collect();
    std::thread::scope(|scope| {
        for teller in &tellers {
            scope.spawn(|| teller.append_to(&store));
        }
    });
    for teller in &tellers {
        teller.assert_in(&store);
    }
}

fn a_restart_begins_with_the_first_shell(house: House) {
    let store = house.open();
    let mut teller = Teller::lived("a");
    teller.append_to(&store);
    let first = wait(store.first_shell(&id("a"))).unwrap().unwrap();
    assert_eq!(first, Teller::begin("a", None).state.shell);
    teller.say(Event::Restarted { shell: Box::new(first) });
    teller.append_last(&store).unwrap();
    teller.assert_in(&store);
}

fn who_asked_is_kept(house: House) {
    let store = house.open();
    let mut teller = Teller::begin("a", Some("ann"));
    let by = Some("tok_1".to_owned());
    if let Event::SessionCreated { meta, .. } = &mut teller.records[0].event {
        meta.by = by.clone();
    }
    teller.state.meta.by = by.clone();
    let run_id = RunId::from_seq(2);
    teller.say(Event::RunStarted {
        run_id: run_id.clone(),
        request_id: None,
        command: "true".into(),
        call: None,
        by: by.clone(),
        files_unkept: false,
    });
    teller.append_to(&store);
    wait(store.flush()).unwrap();
    teller.assert_in(&store);
    assert_eq!(wait(store.run(&id("a"), &run_id)).unwrap().unwrap().by, by);
}

fn a_message_to_the_agent_is_found_by_its_key(house: House) {
    let store = house.open();
    let mut teller = Teller::begin("a", None);
    let (host, runtime) = (Author::caller(None), Author::runtime(None));
    let mut say = |event_type: &str, key: &str, author: &Author| {
        let (data, author) = (serde_json::json!({"request_id": key}), author.clone());
        teller.say(Event::Noted { event_type: event_type.to_owned(), data, author });
    };
    say("user_input", "one", &host);
    say("user_input", "two.x", &host);
    say("final_output", "one", &runtime);
    // What someone posts ends nothing.
    say("final_output", "two.x", &host);
    teller.append_to(&store);
    let find = |store: &Store, session: &str, key: &str| {
        let found = wait(RequestIndex::of(store, &id(session)).resume(key)).unwrap();
        found.map(|found| (found.request_id, found.seq, found.ended_seq))
    };
    assert_eq!(find(&store, "a", "one"), Some(("one".to_owned(), 2, Some(4))));
    assert_eq!(find(&store, "a", "two.x"), Some(("two.x".to_owned(), 3, None)));
    assert_eq!((find(&store, "a", "three"), find(&store, "b", "one")), (None, None));
    // The end comes in a later batch than the message.
    let (event_type, data) = ("resume_ended".to_owned(), serde_json::json!({"request_id": "two.x"}));
    teller.say(Event::Noted { event_type, data, author: runtime });
    teller.append_last(&store).unwrap();
    assert_eq!(find(&store, "a", "two.x"), Some(("two.x".to_owned(), 3, Some(6))));
    teller.say(Event::SessionDestroyed);
    teller.append_last(&store).unwrap();
    Teller::begin("a", None).append_to(&store);
    assert_eq!(find(&store, "a", "one"), None);
}

#[test]
fn a_url_must_name_a_store() {
    for url in ["redis://host", "sqlite", "sqlite://", "memory://x", ""] {
        let Err(error) = House::new(url).try_open() else { panic!("{url} is no store") };
        assert!(error.to_string().contains("memory://, file://DIRECTORY or sqlite://FILE"), "{error}");
    }
}

/// The bug: a session was kept as a fork from a record on at which a command ran. The fork had the state and the end of the
/// command, and not its start, so it was not found, and a retry with its key ran it again.
fn a_run_of_which_only_a_state_tells_is_found(house: House) {
    let store = house.open();
    let mut teller = Teller::begin("a", None);
    let find = |key: &str| wait(RequestIndex::of(&store, &id("a")).run(key)).unwrap();
    let stands_for = |teller: &mut Teller, from: u64| {
        let state = Box::new(teller.state.clone());
        teller.say(Event::RecordsLost { from, reason: "they are elsewhere".to_owned(), state });
        teller.append_last(&store).unwrap();
    };
    // First of a session of which nothing else is known, then of one that is known up to there.
    for (key, count) in [("first", 1), ("second", 2)] {
        let from = if count == 1 { 1 } else { teller.state.seq + 1 };
        let run_id = teller.start(Some(key));
        let started_at = at(teller.state.seq);
        stands_for(&mut teller, from);
        assert_eq!(find(key).map(|run| (run.run_id, run.result)), Some((run_id.clone(), None)));
        teller.finish(&run_id, ShellDelta::default());
        teller.append_last(&store).unwrap();
        let found = find(key).unwrap();
        assert_eq!((&found.run_id, found.started_at, &found.result), (&run_id, started_at, &Some(result())));
        wait(store.flush()).unwrap();
        assert_eq!((find(key), wait(store.run(&id("a"), &run_id)).unwrap()), (Some(found.clone()), Some(found)));
        let listed = wait(store.runs(&id("a"), u64::MAX, 9)).unwrap();
        assert_eq!((listed.len(), &listed[0].run_id), (count, &run_id));
    }
    // One that is known stays as it is.
    let known = teller.start(Some("third"));
    teller.append_last(&store).unwrap();
    stands_for(&mut teller, 1);
    teller.finish(&known, ShellDelta::default());
    teller.append_last(&store).unwrap();
    assert_eq!(find("third").map(|run| run.result), Some(Some(result())));
    assert_eq!(wait(store.runs(&id("a"), u64::MAX, 9)).unwrap().len(), 3);
    store.close().unwrap();
}

/// The bug: a node took a session over, and its store wrote the records of the old node in one batch and that of the takeover
/// in the next. The row kept what the session was made with, so the next load brought back the workspace of the old node.
fn a_session_that_moved_is_where_its_last_state_says(house: House) {
    let mut store = house.open();
    let mut teller = Teller::begin("a", Some("ann"));
    teller.append_to(&store);
    let moved = |teller: &Teller, workspace: &str, agent: &str| {
        let mut state = Box::new(teller.state.clone());
        (state.meta.workspace, state.shell.cwd) = (workspace.into(), workspace.into());
        state.meta.agent = Some(agent.to_owned());
        state
    };
    for (because, agent) in [("owner_gone", "ann"), ("they are elsewhere", "bob")] {
        // What follows comes in a batch of its own.
        wait(store.flush()).unwrap();
        let (from, because) = (teller.state.seq + 1, because.to_owned());
        let state = moved(&teller, &format!("/{agent}/here"), agent);
        teller.say(match agent {
            "ann" => Event::Owned { claim: "2.n2.7c01".parse().unwrap(), because, state: Some(state) },
            _ => Event::RecordsLost { from, reason: because, state },
        });
        teller.append_last(&store).unwrap();
        wait(store.flush()).unwrap();
        teller.assert_in(&store);
        if house.url != "memory://" {
            drop(store);
            store = house.open();
            teller.assert_in(&store);
        }
        let listed = wait(store.list(Some(agent), None, 9)).unwrap();
        let listed: Vec<_> = listed.into_iter().map(|summary| (summary.meta, summary.damaged)).collect();
        assert_eq!(listed, [(teller.state.meta.clone(), None)]);
    }
    assert!(wait(store.list(Some("ann"), None, 9)).unwrap().is_empty());
}
