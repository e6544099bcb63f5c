//! `shellkeep history query` and the tables behind it, in a real PostgreSQL and a real MariaDB.

use crate::databases::Server;
use crate::history::{KINDS, caught_up, daemon, texts};
use serde_json::{Value, json};
use shellkeep_history::{schema, write};
use shellkeep_session::Record;
use shellkeep_store::{FeedEntry, Mark};
use std::process::{Command, Output};

/// Runs `shellkeep history query` with a history database in the environment.
fn query(url: &str, arguments: &[&str]) -> Output {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.args(["history", "query"]).args(arguments).env_clear().env("HOME", home.path());
    command.env("SHELLKEEP_HISTORY", url).output().expect("it runs")
}

fn text(server: &Server, arguments: &[&str]) -> String {
    let output = query(&server.url(), arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn rows(server: &Server, arguments: &[&str]) -> Vec<Value> {
    let text = text(server, &[arguments, &["--json"]].concat());
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    answer["rows"].as_array().expect("rows").clone()
}

#[test]
fn ready_questions_and_sql_are_answered() {
    for kind in KINDS {
        let Some(server) = Server::start(kind) else { return };
        let daemon = daemon(&server);
        for (session, agent) in [("s", "ann"), ("t", "bob")] {
            daemon.create_with(json!({"session_id": session, "agent": agent}));
            daemon.sh(session, "git push || false # 100%");
            daemon.sh(session, "echo 'a, \"b\"'");
        }
        let message = json!({"role": "user", "content": [{"type": "text", "text": "hello"}]});
        assert_eq!(daemon.post("/v1/sessions/s/messages", &message).status, 201);
        let events = json!({"events": [
            {"event_type": "tool_call", "data": {"tool_name": "grep", "parameters": {}, "output": "", "error": "no", "duration": 0.5}},
            {"event_type": "tool_call", "data": {"tool_name": "grep", "parameters": {}, "output": "", "error": null, "duration": 1.5}},
            {"event_type": "llm_call", "data": {"prompt": "p", "response": "r", "token_usage": {"input_tokens": 7, "output_tokens": 2}, "duration": 1}},
            {"event_type": "llm_call", "data": {"prompt": "p", "response": "r", "token_usage": {"input_tokens": "many"}, "duration": 1}},
        ]});
        assert_eq!(daemon.post("/v1/sessions/s/events", &events).status, 201);
        caught_up(&server, &daemon, "s");
        caught_up(&server, &daemon, "t");

        let failed = rows(&server, &["failed", "--agent", "ann", "--since", "today"]);
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert_eq!((&failed[0]["session_id"], &failed[0]["exit_code"]), (&json!("s"), &json!(1)));
        assert!(failed[0]["seconds"].is_f64(), "{failed:?}");
        let who = rows(&server, &["commands", "--contains", "0%"]);
        assert_eq!(who.iter().map(|row| row["agent"].as_str().expect("an agent")).collect::<Vec<_>>().len(), 2);
        assert!(rows(&server, &["commands", "--contains", "0_"]).is_empty(), "the text is no pattern");
        let messages = rows(&server, &["messages", "-s", "s"]);
        assert_eq!(messages[0]["content"][0]["text"], "hello");
        let tools = rows(&server, &["tools"]);
        assert_eq!(
            (&tools[0]["tool"], &tools[0]["calls"], &tools[0]["failed"]),
            (&json!("grep"), &json!(2), &json!(1))
        );
        assert_eq!(tools[0]["mean_seconds"], 1.0);
        let tokens = rows(&server, &["tokens"]);
        assert_eq!((&tokens[0]["calls"], &tokens[0]["input_tokens"]), (&json!(2), &json!(7)));
        assert!(rows(&server, &["idle", "--days", "1"]).is_empty());
        assert_eq!(rows(&server, &["sessions", "--agent", "bob"])[0]["session_id"], "t");
        let records = rows(&server, &["records", "--agent", "ann", "-n", "1"]);
        assert_eq!((&records[0]["type"], &records[0]["line"]["seq"]), (&json!("session_created"), &json!(1)));
        let csv = text(&server, &["commands", "-s", "t", "--csv"]);
        assert!(csv.starts_with("started_at,session_id,agent,") && csv.contains("\"echo 'a, \"\"b\"\"'\""), "{csv}");
        assert_eq!(text(&server, &["idle"]).lines().count(), 2, "a program gets one line for each row");

        let sql =
            ["--sql", "SELECT agent, SUM(duration_us) AS total FROM sk_v_commands GROUP BY agent ORDER BY agent;"];
        let sums = rows(&server, &sql);
        assert!(sums.len() == 2 && sums[0]["total"].is_i64(), "{sums:?}");
        let changed = query(&server.url(), &["--sql", "DELETE FROM sk_runs"]);
        assert_eq!(changed.status.code(), Some(1));
        assert_eq!(texts(&server, "SELECT COUNT(*) FROM sk_runs"), ["4"], "nothing was changed");
    }
}

#[test]
fn a_query_that_cannot_be_answered_says_why() {
    let Some(server) = Server::start(KINDS[0]) else { return };
    let said = |url: &str, arguments: &[&str]| {
        let output = query(url, arguments);
        assert!(!output.status.success());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, empty) = said(&server.url(), &["failed"]);
    assert!(code == Some(1) && empty.contains("schema version 0") && empty.contains("serve --history"), "{empty}");
    let (code, none) = said("", &["failed"]);
    assert!(code == Some(1) && none.contains("SHELLKEEP_HISTORY"), "{none}");
    let (_, away) = said("postgres://user:hunter2@127.0.0.1:1/d", &["failed"]);
    assert!(!away.contains("hunter2"), "{away}");
    let (code, unknown) = said(&server.url(), &["everything"]);
    assert!(code == Some(2) && unknown.contains("messages"), "{unknown}");
    let (code, days) = said(&server.url(), &["failed", "--days", "3"]);
    assert!(code == Some(2) && days.contains("--since"), "{days}");
}

/// A record of the journal.
fn entry(seq: u64, epoch: u64, event: Value) -> FeedEntry {
    let record = json!({"session_id": "s", "seq": seq, "at": "2026-11-17T01:02:03Z", "event": event});
    let record: Record = serde_json::from_value(record).expect("a record");
    FeedEntry { place: Mark { segment: 1, offset: seq + 100 * epoch }, epoch, created_at: None, record }
}

fn message(seq_id: u64, text: &str) -> Value {
    json!({"message_added": {"message": {"seq_id": seq_id, "role": "user", "content": text, "at": "2026-11-17T01:02:03Z"}}})
}

/// Two nodes wrote the same numbers: the one with the higher epoch is in the tables, and the other is set aside.
#[test]
fn what_a_later_owner_replaced_is_set_aside() {
    for kind in KINDS {
        let Some(server) = Server::start(kind) else { return };
        let mut database = server.connect();
        schema::migrate(&mut *database).expect("tables");
        let source = |node: &str| write::JournalSource { id: format!("data-{node}"), node: node.to_owned() };
        let to = Mark { segment: 2, offset: 0 };
        let first: Vec<FeedEntry> = (1..=3).map(|number| entry(number, 1, message(number, "first"))).collect();
        write::write(&mut *database, &source("n1"), &first, to).expect("written");
        let owned = json!({"owned": {"claim": "2.n2.9f3a", "because": "n1 died"}});
        let second = [entry(2, 2, owned), entry(3, 2, message(2, "second"))];
        write::write(&mut *database, &source("n2"), &second, to).expect("written");
        let types = texts(&server, "SELECT seq, epoch, type FROM sk_records ORDER BY seq");
        assert_eq!(types, ["1 1 message_added", "2 2 owned", "3 2 message_added"]);
        assert_eq!(texts(&server, "SELECT seq, epoch FROM sk_superseded ORDER BY seq"), ["2 1", "3 1"]);
        let messages = texts(&server, "SELECT seq_id, content FROM sk_messages ORDER BY seq_id");
        assert_eq!(messages, ["1 \"first\"", "2 \"second\""]);
        // The first owner wakes up and writes what it had: it changes nothing.
        let late = [entry(4, 1, message(4, "late"))];
        write::write(&mut *database, &source("n3"), &late, to).expect("written");
        assert_eq!(texts(&server, "SELECT COUNT(*) FROM sk_records"), ["3"]);
        assert_eq!(texts(&server, "SELECT COUNT(*) FROM sk_superseded"), ["3"]);
    }
}
