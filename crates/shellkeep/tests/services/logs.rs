//! Reading what a service wrote: while it runs, after its end, piece by piece, when its beginning is gone, and live.

use crate::support::services::id;
use crate::support::{Daemon, Request, Settings, procs, without_inotify};
use serde_json::{Value, json};
use shellkeep_poll::until;

const SMALL_LOG: u64 = 64 << 10;

fn number(page: &Value, name: &str) -> u64 {
    page[name].as_u64().unwrap_or_else(|| panic!("{name} in {page}"))
}

#[test]
fn a_log_is_read_in_pieces_and_by_its_lines() {
    let daemon = Daemon::start();
    daemon.create("s");
    let command = "for i in {1..1000}; do echo line $i; echo error $i >&2; done; exit 2";
    let service = daemon.start_service("s", json!({"command": command, "wait": 30}));
    assert_eq!((&service["status"], &service["exit_code"]), (&json!("exited"), &json!(2)), "{service}");
    let expected: String = (1..=1000).map(|i| format!("line {i}\nerror {i}\n")).collect();
    let (mut text, mut offset) = (String::new(), 0);
    loop {
        let page = daemon.log_page("s", id(&service), &format!("offset={offset}&limit=1000"));
        assert_eq!((number(&page, "offset"), number(&page, "first")), (offset, 0));
        assert_eq!((number(&page, "total"), &page["complete"]), (expected.len() as u64, &json!(true)));
        text.push_str(page["text"].as_str().unwrap());
        offset = number(&page, "next_offset");
        if offset == number(&page, "total") {
            break;
        }
    }
    assert_eq!(text, expected, "stdout and stderr in the order in which they were written");
    let tail = daemon.log_page("s", id(&service), "tail=21");
    assert_eq!(tail["text"], "line 1000\nerror 1000\n");
    let found = daemon.log_page("s", id(&service), "grep=%5Eerror%209%5B0-3%5D%24");
    assert_eq!(found["text"], "error 90\nerror 91\nerror 92\nerror 93\n");
    let bad = daemon.get(&format!("/v1/sessions/s/services/{}/logs?grep=(", id(&service)));
    assert_eq!((bad.status, bad.json()["code"].as_str()), (400, Some("invalid_request")));
    let beyond = daemon.log_page("s", id(&service), "offset=999999999");
    assert_eq!((&beyond["text"], &beyond["next_offset"]), (&json!(""), &beyond["total"]), "{beyond}");
}

#[test]
fn a_log_whose_beginning_is_gone_still_counts_from_it() {
    let daemon = Daemon::with(Settings::default().set("--service-log-bytes", &SMALL_LOG.to_string()));
    daemon.create("s");
    let service = daemon.start_service("s", json!({"command": "seq 100000; echo END; exec sleep 1000"}));
    let all: String = (1..=100_000).map(|i| format!("{i}\n")).chain(["END\n".to_owned()]).collect();
    until("it is written", || (daemon.service("s", id(&service))["log_bytes"] == all.len()).then_some(()));
    let page = daemon.log_page("s", id(&service), "");
    let first = number(&page, "first");
    assert!(first > 0 && all.len() as u64 - first <= SMALL_LOG, "{first}");
    assert!(all.len() as u64 - first >= SMALL_LOG / 2, "most of what may be kept is kept: {first}");
    assert_eq!(number(&page, "offset"), first, "the page says where it begins");
    assert_eq!((number(&page, "total"), &page["complete"]), (all.len() as u64, &json!(false)));
    let kept = &all[usize::try_from(first).unwrap()..];
    assert_eq!(page["text"].as_str().unwrap(), kept, "byte for byte");
    let middle = first + 1000;
    let piece = daemon.log_page("s", id(&service), &format!("offset={middle}&limit=500"));
    assert_eq!((number(&piece, "offset"), piece["text"].as_str()), (middle, Some(&kept[1000..1500])));
    assert_eq!(daemon.log_page("s", id(&service), "tail=4")["text"], "END\n");
    assert_eq!(daemon.log_page("s", id(&service), "grep=%5E99999%24")["text"], "99999\n");
    daemon.stop_service("s", id(&service));
    let after = daemon.log_page("s", id(&service), "");
    assert_eq!((after["text"].as_str(), &after["complete"]), (Some(kept), &json!(true)), "kept after the end");
}

#[test]
fn bytes_that_are_no_text_come_as_they_are() {
    let daemon = Daemon::start();
    daemon.create("s");
    let service = daemon.start_service("s", json!({"command": "printf 'a\\xff\\x00b'", "wait": 30}));
    let page = daemon.log_page("s", id(&service), "");
    assert_eq!(page["base64"], "Yf8AYg==", "{page}");
}

#[test]
fn a_log_is_followed_to_the_end_of_its_service() {
    is_followed_to_the_end(&Daemon::start());
}

/// A session took all inotify instances that the kernel lets one user have, and nobody could follow a log: it was as if the
/// store were away.
#[test]
fn a_log_is_followed_without_inotify() {
    let Some(settings) = without_inotify() else { return };
    let daemon = Daemon::with(settings);
    is_followed_to_the_end(&daemon);
    let command = "echo starting; sleep 0.2; echo up; exec sleep 1000";
    let service = daemon.start_service("s", json!({"command": command, "ready": {"log": "^up"}, "wait": 30}));
    assert_eq!(service["status"], "running", "{service}");
}

fn is_followed_to_the_end(daemon: &Daemon) {
    daemon.create("s");
    let service =
        daemon.start_service("s", json!({"command": "mkfifo f; echo one; read -r line < f; echo \"$line\"; exit 3"}));
    let target = format!("/v1/sessions/s/services/{}/logs", id(&service));
    let follow = |query: &str| {
        let request = Request::new("GET", &format!("{target}{query}")).header("accept", "text/event-stream");
        request.open(&daemon.door()).expect("it is answered")
    };
    let mut stream = follow("");
    let first = stream.next_event().expect("what was written before");
    assert_eq!(first.event, "log");
    let data: Value = serde_json::from_str(&first.data).unwrap();
    assert_eq!((&data["text"], &data["offset"], &data["next_offset"]), (&json!("one\n"), &json!(0), &json!(4)));
    until("it can be told", || daemon.cwd("s").join("f").exists().then_some(()));
    daemon.sh("s", "echo two > f");
    let (mut text, mut last) = (String::new(), None);
    while let Some(event) = stream.next_event() {
        let data: Value = serde_json::from_str(&event.data).unwrap();
        match event.event.as_str() {
            "log" => text.push_str(data["text"].as_str().unwrap()),
            "end" => last = Some(data),
            other => panic!("{other}: {data}"),
        }
    }
    let last = last.expect("the last event is the end");
    assert_eq!((text.as_str(), &last["status"], &last["exit_code"]), ("two\n", &json!("exited"), &json!(3)));
    // One that has ended is followed to its end at once.
    let mut late = follow("?tail=4");
    let event = late.next_event().expect("an event");
    let data: Value = serde_json::from_str(&event.data).unwrap();
    assert_eq!((event.event.as_str(), &data["text"]), ("log", &json!("two\n")));
    assert_eq!(late.next_event().map(|event| event.event).as_deref(), Some("end"));
    assert!(late.next_event().is_none());
}

/// Who follows and does not read must not make the daemon grow, nor hold up the service.
#[test]
fn a_reader_that_sleeps_costs_nothing() {
    let daemon = Daemon::with(Settings::default().set("--service-log-bytes", &(1 << 20).to_string()));
    daemon.create("s");
    let service = daemon.start_service("s", json!({"command": "exec yes a line that is written again and again"}));
    let target = format!("/v1/sessions/s/services/{}/logs", id(&service));
    let streams: Vec<_> = (0..8)
        .map(|_| {
            let request = Request::new("GET", &target).header("accept", "text/event-stream");
            request.open(&daemon.door()).expect("it is answered")
        })
        .collect();
    let written = || number(&daemon.service("s", id(&service)), "log_bytes");
    let (begun, memory) = (written(), procs::resident_kib(daemon.pid()));
    until("much is written", || (written() > begun + (200 << 20)).then_some(()));
    let now = procs::resident_kib(daemon.pid());
    assert!(now < memory + (16 << 10), "the daemon grew from {memory} to {now} KiB");
    drop(streams);
    assert_eq!(daemon.stop_service("s", id(&service))["status"], "stopped");
}

/// Logs of services that ended long ago are forgotten with them; those of the last ones stay.
#[test]
fn old_services_are_forgotten_with_their_logs() {
    let daemon = Daemon::start();
    daemon.create("s");
    for number in 0..25 {
        daemon.start_service("s", json!({"command": format!("echo {number}"), "wait": 30}));
    }
    let known = daemon.services_of("s");
    assert!(known.len() <= 21, "{}", known.len());
    assert_eq!(daemon.service_log("s", id(known.last().unwrap())), "24\n");
    let directory = daemon.data().join("services/s");
    until("their directories are removed", || {
        (std::fs::read_dir(&directory).unwrap().count() == known.len()).then_some(())
    });
}

#[test]
fn a_page_of_a_growing_log_ends_where_it_says() {
    let daemon = Daemon::start();
    daemon.create("s");
    let command = "for ((i = 0; i < 60000; i++)); do echo line $i; done";
    let service = daemon.start_service("s", json!({"command": command, "wait": 0}));
    let (mut text, mut offset) = (String::new(), 0);
    loop {
        let page = daemon.log_page("s", id(&service), &format!("offset={offset}&limit=1000000"));
        text += page["text"].as_str().unwrap();
        offset = page["next_offset"].as_u64().unwrap();
        if page["complete"] == json!(true) && page["next_offset"] == page["total"] {
            break;
        }
    }
    let whole: String = (0..60_000).map(|number| format!("line {number}\n")).collect();
    assert!(text == whole, "{} bytes, not {}", text.len(), whole.len());
}
