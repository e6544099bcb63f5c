//! What an agent's framework saves: messages with numbers of their own, and a state that two cannot save over each other.

use super::support::services::in_parallel;
use super::support::{Daemon, Request, Settings};
use super::tools::Records;
use serde_json::{Value, json};

#[test]
fn messages_are_numbered_whoever_writes_them() {
    let mut daemon = Daemon::start();
    daemon.create("s");
    let writers: Vec<usize> = (0..16).collect();
    let told = in_parallel(16, &writers, |writer| {
        (0..20).map(|n| (daemon.say("s", "user", &format!("{writer} says {n}")), *writer, n)).collect::<Vec<_>>()
    });
    let mut told: Vec<(u64, usize, usize)> = told.into_iter().flatten().collect();
    told.sort_unstable();
    let list = |daemon: &Daemon| -> Vec<Value> {
        let mut messages = Vec::new();
        let mut after = 0;
        loop {
            let page = daemon.get(&format!("/v1/sessions/s/messages?after={after}&limit=77")).json();
            messages.extend(page["messages"].as_array().unwrap().clone());
            match page["next"].as_u64() {
                Some(next) => after = next,
                None => return messages,
            }
        }
    };
    let before = list(&daemon);
    assert_eq!((before.len(), told.len()), (320, 320));
    for (index, (seq_id, writer, n)) in told.iter().enumerate() {
        assert_eq!(*seq_id, index as u64 + 1, "a number is missing or was given twice");
        let message = &before[index];
        assert_eq!((&message["seq_id"], &message["content"]), (&json!(seq_id), &json!(format!("{writer} says {n}"))));
    }
    daemon.restart();
    assert_eq!(list(&daemon), before);
    assert_eq!(daemon.say("s", "assistant", "after the crash"), 321);
    let parts = json!({"role": "tool", "content": [{"type": "text", "text": "x"}]});
    assert_eq!(daemon.post("/v1/sessions/s/messages", &parts).json()["seq_id"], 322);
    for wrong in [json!({"role": "", "content": "x"}), json!({"role": "user"}), json!({"role": "user", "content": 5})] {
        assert_eq!(daemon.post("/v1/sessions/s/messages", &wrong).status, 400, "{wrong}");
    }
    daemon.assert_whole("s");
}

#[test]
fn of_those_who_save_at_the_same_time_one_wins() {
    let daemon = Daemon::start();
    daemon.create("s");
    let racers: Vec<usize> = (0..12).collect();
    for round in 0..10u64 {
        let version = round.to_string();
        let tag = format!("\"{version}\"");
        let header = if round == 0 { ("if-none-match", "*") } else { ("if-match", tag.as_str()) };
        let answers = in_parallel(12, &racers, |racer| {
            let answer = daemon.save("s", &[header], format!("{round} by {racer}").as_bytes());
            (answer.status, answer.json(), *racer)
        });
        let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(status, ..)| *status < 300);
        assert_eq!(won.len(), 1, "round {round}: {won:?}");
        assert_eq!(won[0].1["version"], json!(round + 1));
        for (status, problem, _) in lost {
            assert_eq!((status, problem["code"].as_str()), (412, Some("version_conflict")));
            assert_eq!(problem["version"], json!(round + 1), "{problem}");
        }
        let kept = daemon.get("/v1/sessions/s/agent_state");
        assert_eq!(kept.text(), format!("{round} by {}", won[0].2));
        assert_eq!(kept.header("etag"), Some(format!("\"{}\"", round + 1).as_str()));
    }
    daemon.assert_whole("s");
}

#[test]
fn a_state_is_bytes_of_any_kind_and_any_size() {
    for store in [None, Some("file://{data}/files")] {
        let mut daemon = Daemon::with(Settings { store: store.map(str::to_owned), ..Settings::default() });
        daemon.create("s");
        let get = |daemon: &Daemon, query: &str| daemon.get(&format!("/v1/sessions/s/agent_state{query}"));
        let missing = get(&daemon, "");
        assert_eq!((missing.status, missing.json()["code"].as_str()), (404, Some("agent_state_not_found")));
        assert_eq!(daemon.save("s", &[("if-match", "*")], b"x").status, 412);
        let large: Vec<u8> = (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let states: [(&[u8], &str); 5] = [
            (b"{\"step\": 1}", "application/json"),
            (b"\xff\x00\xfe", "application/x-pickle"),
            (&large, "application/octet-stream"),
            (b"", "text/plain; charset=utf-8"),
            (&large[..100_000], "application/octet-stream"),
        ];
        for (index, (bytes, kind)) in states.iter().enumerate() {
            let saved = daemon.save("s", &[("content-type", kind)], bytes);
            assert_eq!(saved.status, if index == 0 { 201 } else { 200 }, "{}", saved.text());
            assert_eq!(saved.json()["version"], json!(index + 1));
        }
        for round in ["alive", "after a crash"] {
            for (index, (bytes, kind)) in states.iter().enumerate() {
                let kept = get(&daemon, &format!("?version={}", index + 1));
                assert_eq!((kept.status, kept.header("content-type")), (200, Some(*kind)), "{round} {index}");
                assert!(kept.body == *bytes, "{round} {index}: {} bytes", kept.body.len());
            }
            assert_eq!(get(&daemon, "").header("etag"), Some("\"5\""), "{round}");
            assert_eq!(get(&daemon, "?version=6").status, 404);
            daemon.restart();
        }
        let again = Request::new("GET", "/v1/sessions/s/agent_state").header("if-none-match", "\"5\"");
        assert_eq!(daemon.send(&again).status, 304);
        assert_eq!(daemon.save("s", &[], &vec![b'x'; (16 << 20) + 1]).status, 413);
        assert_eq!(daemon.save("s", &[("if-match", "five")], b"x").status, 400);
        let events = daemon.assert_whole("s");
        assert!(events.iter().any(|event| event["data"]["file"] == "agent_state.3"), "{events:?}");
        daemon.destroy("s");
        assert!(!daemon.data().join("outputs/s").exists());
    }
}
