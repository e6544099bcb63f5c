//! Events of all kinds in one order, without gaps.

use super::support::{Daemon, Settings};
use super::tools::{Records, types};
use serde_json::{Value, json};
use shellkeep_poll::until;

/// The stores that keep a recording beside them.
const STORES: [Option<&str>; 3] = [None, Some("file://{data}/files"), Some("memory://")];

fn daemon(store: Option<&str>) -> Daemon {
    Daemon::with(Settings { store: store.map(str::to_owned), ..Settings::default() })
}

#[test]
fn everything_that_happens_is_one_order() {
    for store in STORES {
        let daemon = daemon(store);
        daemon.create_with(json!({"session_id": "s", "agent": "ann", "config": {"model": "m"}}));
        daemon.note("s", "user_input", json!({"message": "build it", "more": [1, 2.5, null]}));
        daemon.note("s", "state_transition", json!({"from_node": "a", "to_node": "b", "state_diff": {"n": 1}}));
        daemon.sh("s", "echo out; echo err >&2; export X=1; exit 3");
        let usage = json!({"prompt": "p", "response": "r", "token_usage": {"total_tokens": 5}, "duration": 0.5});
        daemon.note("s", "llm_call", usage.clone());
        assert_eq!(daemon.say("s", "user", "hello"), 1);
        assert_eq!(daemon.save("s", &[("content-type", "application/json")], b"{\"step\": 1}").status, 201);
        let service = daemon.start_service("s", json!({"command": "sleep 600"}));
        let stopping = format!("/v1/sessions/s/services/{}/stop", service["service_id"].as_str().unwrap());
        assert_eq!(daemon.post(&stopping, &json!({"grace": 0})).status, 200);
        daemon.note("s", "final_output", json!({"output": "done", "stream": false}));
        daemon.hibernate("s");
        daemon.note("s", "x_after.sleep", json!({}));
        let events = daemon.assert_whole("s");
        let expected = [
            "session_created",
            "user_input",
            "state_transition",
            "shell_started",
            "run_started",
            "tool_call",
            "llm_call",
            "message_added",
            "agent_state_saved",
            "service_started",
            "service_live",
            "service_ended",
            "final_output",
            "x_after.sleep",
        ];
        // `exit` ended the shell, so hibernating had nothing to stop.
        assert_eq!(types(&events), expected, "{store:?}");
        assert_eq!(events[1]["data"], json!({"message": "build it", "more": [1, 2.5, null]}));
        assert_eq!(events[6]["data"], usage);
        let call = &events[5]["data"];
        let told = |name: &str| call[name].clone();
        assert_eq!(told("parameters")["command"], "echo out; echo err >&2; export X=1; exit 3");
        assert_eq!(
            (told("output"), told("stderr"), told("error")),
            (json!("out\n"), json!("err\n"), json!("exit code 3"))
        );
        assert_eq!((told("tool_name"), told("exit_code")), (json!("run_command"), json!(3)));
        assert_eq!(events[0]["data"]["agent_config"], json!({"model": "m"}));
        assert_eq!((&events[7]["data"]["seq_id"], &events[8]["data"]["version"]), (&json!(1), &json!(1)));
    }
}

#[test]
fn many_events_follow_each_other_or_none_is_taken() {
    let daemon = Daemon::start();
    daemon.create("s");
    let event = |n: usize| json!({"event_type": "x_n", "data": {"n": n}});
    let post = |events: Vec<Value>| daemon.post("/v1/sessions/s/events", &json!({"events": events}));
    let answer = post((0..10_000).map(event).collect());
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!((&answer.json()["first_seq"], &answer.json()["seq"]), (&json!(2), &json!(10_001)));
    // One that is wrong makes all wrong, wherever it stands.
    let mut wrong: Vec<Value> = (0..50).map(event).collect();
    wrong[49] = json!({"event_type": "tool_calls", "data": {}});
    let refused = post(wrong);
    assert_eq!((refused.status, refused.json()["code"].as_str()), (400, Some("invalid_event_type")));
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("events[49]") && detail.contains("tool_call, final_output"), "{detail}");
    assert_eq!(post((0..10_001).map(event).collect()).status, 400);
    let large = json!({"event_type": "x_n", "data": {"text": "y".repeat(1 << 20)}});
    assert_eq!(post(vec![large]).status, 400);
    let deep = (0..101).fold(json!(1), |inner, _| json!([inner]));
    for body in [
        json!({}),
        json!({"event_type": "x_n"}),
        json!({"events": []}),
        json!({"event_type": "x_n", "data": 5}),
        json!({"event_type": "x_n", "data": {"deep": deep}}),
    ] {
        let refused = daemon.post("/v1/sessions/s/events", &body);
        assert_eq!((refused.status, refused.json()["code"].as_str()), (400, Some("invalid_request")), "{body}");
    }
    let events = daemon.assert_whole("s");
    assert_eq!(events.len(), 10_001);
    assert!(events[1..].iter().enumerate().all(|(n, event)| event["data"]["n"] == json!(n)));
}

#[test]
fn concurrent_writers_share_one_order() {
    let daemon = Daemon::start();
    daemon.create("s");
    let seqs: Vec<u64> = std::thread::scope(|scope| {
        let post = |writer: usize| {
            let daemon = &daemon;
            move || (0..25).map(|n| daemon.note("s", "x_w", json!({"writer": writer, "n": n}))).collect::<Vec<_>>()
        };
        let writers: Vec<_> = (0..8).map(|writer| scope.spawn(post(writer))).collect();
        scope.spawn(|| (0..10).for_each(|_| assert_eq!(daemon.sh("s", "echo x").out(), "x\n")));
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    let events = daemon.assert_whole("s");
    for (index, seq) in seqs.iter().enumerate() {
        let event = &events[usize::try_from(*seq).unwrap() - 1]["data"];
        assert_eq!(*event, json!({"writer": index / 25, "n": index % 25}), "event {seq} is another's");
    }
}

#[test]
fn a_recording_is_split_and_stays_one() {
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_RECORD_SEGMENT_BYTES", "20000"));
    daemon.create("s");
    for n in 0..40 {
        daemon.note("s", "x_n", json!({"n": n, "text": "y".repeat(2000)}));
    }
    let long = daemon.sh("s", "head -c 60000 /dev/zero | tr '\\0' z");
    assert_eq!(long.stdout().len(), 60_000);
    let events = daemon.assert_whole("s");
    assert_eq!(events.len(), 44);
    let directory = daemon.data().join("sessions/s");
    let name = |number: usize| if number == 0 { "events.jsonl".to_owned() } else { format!("events_{number}.jsonl") };
    let files: Vec<Vec<u8>> = (0..).map_while(|number| std::fs::read(directory.join(name(number))).ok()).collect();
    assert!(files.len() >= 5, "only {} files", files.len());
    for (number, file) in files.iter().enumerate() {
        assert!(file.ends_with(b"\n"), "a line is cut at the end of file {number}");
        // Only a line that is longer by itself makes a file longer than that.
        assert!(file.len() <= 20_000 || file.iter().filter(|byte| **byte == b'\n').count() == 1, "file {number}");
    }
    let page = daemon.get("/v1/sessions/s/events?after=20&limit=3").json();
    assert_eq!((&page["events"][0]["seq"], &page["next"]), (&json!(21), &json!(23)));
}

#[test]
fn a_recording_goes_with_its_session() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.note("s", "x_first", json!({"life": 1}));
    assert!(!daemon.events("s").is_empty());
    daemon.destroy("s");
    until("the files are gone", || (!daemon.data().join("sessions/s/events.jsonl").exists()).then_some(()));
    daemon.create("s");
    daemon.note("s", "x_second", json!({}));
    assert_eq!(types(&daemon.assert_whole("s")), ["session_created", "x_second"]);
}
