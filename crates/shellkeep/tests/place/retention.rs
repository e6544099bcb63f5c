//! How long history is kept: by age, by agent, and after a session was deleted. Rows are made older instead of waited for.

use crate::broker::Consumer;
use crate::databases::{Kind, Server};
use crate::history::{caught_up, texts};
use crate::rabbit::Rabbit;
use crate::read_back::proven;
use crate::support::agent::Agent;
use crate::support::{Daemon, Request, Settings};
use serde_json::json;
use shellkeep_poll::until;
use std::fs;
use std::process::Stdio;

fn names(server: &Server) -> Vec<String> {
    texts(server, "SELECT session_id FROM sk_sessions ORDER BY session_id")
}

#[test]
fn history_is_kept_as_long_as_the_host_says() {
    for kind in [Kind::Postgres, Kind::Mariadb] {
        let Some(server) = Server::start(kind) else { return };
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("shellkeep.toml");
        fs::write(&file, "").expect("a file");
        let settings = Settings::default().tcp().env("SHELLKEEP_HISTORY", &server.url());
        let daemon = Daemon::with(settings.set("--config", &file.to_string_lossy()));
        let reload = |text: &str| {
            fs::write(&file, text).expect("a file");
            let answer = daemon.post("/v1/daemon/reload", &json!({}));
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert!(answer.json()["needs_restart"].as_array().is_some_and(Vec::is_empty), "{}", answer.text());
        };
        for (session, agent) in [("builds", "ci"), ("stays", "law"), ("long", "bob"), ("very-old", "bob")] {
            daemon.create_with(json!({"session_id": session, "agent": agent}));
            daemon.sh(session, "echo first");
            daemon.sh(session, "echo second");
            daemon.post(&format!("/v1/sessions/{session}/messages"), &json!({"role": "user", "content": "hello"}));
            caught_up(&server, &daemon, session);
        }
        // An agent deletes its session, and its history stays.
        let ann = Agent::named(&daemon, "ann");
        let deleted = ann.create("secret");
        ann.sh(&deleted, "echo evidence");
        caught_up(&server, &daemon, &deleted);
        assert_eq!(ann.send(Request::new("DELETE", &format!("/v1/sessions/{deleted}"))).status, 204);
        let is_deleted = format!("SELECT 1 FROM sk_sessions WHERE session_id = '{deleted}' AND deleted_at IS NOT NULL");
        until("history knows", || (!server.ask(&is_deleted).is_empty()).then_some(()));
        let days = if kind == Kind::Postgres { "INTERVAL '40 days'" } else { "INTERVAL 40 DAY" };
        let mut database = server.connect();
        let mut run = |sql: &str| database.run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        run(&format!("UPDATE sk_sessions SET last_active_at = last_active_at - {days} WHERE session_id = 'very-old'"));
        reload("history_keep_deleted = \"30d\"\nhistory_keep = \"30d\"\n");
        // It is the last by name, so all others have been looked at; what becomes older below is not by these times.
        let mut young = [&deleted, "builds", "long", "stays"];
        young.sort_unstable();
        until("only the oldest session is removed", || (names(&server) == young).then_some(()));
        let evidence = format!("SELECT command FROM sk_v_commands WHERE session_id = '{deleted}'");
        assert_eq!(texts(&server, &evidence), ["echo evidence"]);

        // Everything of all but the last run of each becomes forty days old.
        let half = texts(&server, "SELECT seq FROM sk_runs WHERE session_id = 'long' ORDER BY seq")[1].clone();
        run(&format!("UPDATE sk_sessions SET created_at = created_at - {days}"));
        run(&format!("UPDATE sk_records SET at = at - {days} WHERE session_id <> 'long' OR seq < {half}"));
        run(&format!("UPDATE sk_sessions SET last_active_at = last_active_at - {days} WHERE session_id <> 'long'"));
        run(&format!("UPDATE sk_sessions SET deleted_at = deleted_at - {days}"));
        reload("history_keep = \"60d\"\nhistory_keep_agents = \"ci=20d, law=never\"\nhistory_keep_deleted = \"39d\"\n");
        until("what is old is removed", || (names(&server) == ["long", "stays"]).then_some(()));
        for table in ["sk_records", "sk_runs", "sk_messages"] {
            let left = texts(&server, &format!("SELECT DISTINCT session_id FROM {table} ORDER BY session_id"));
            assert_eq!(left, ["long", "stays"], "{table}");
        }
        reload("history_keep = \"30d\"\nhistory_keep_agents = \"law=never\"\n");
        let first = "SELECT MIN(seq) FROM sk_records WHERE session_id = 'long'";
        until("the older half of a session is removed", || (server.text(first) == half).then_some(()));
        assert_eq!(texts(&server, "SELECT command FROM sk_v_commands WHERE session_id = 'long'"), ["echo second"]);
        assert_eq!(server.text("SELECT MIN(seq) FROM sk_records WHERE session_id = 'stays'"), "1");

        let metrics = daemon.get("/metrics").text();
        assert!(metrics.contains("shellkeep_history_removed_sessions_total 3"), "{metrics}");
        let removed = |entry: &serde_json::Value| {
            entry["what"] == "remove_history"
                && entry["object"].as_str().is_some_and(|object| object.contains(&deleted))
        };
        until("the audit trail says so", || {
            let audit = daemon.get("/v1/audit?limit=100").json();
            audit["audit"].as_array().is_some_and(|entries| entries.iter().any(removed)).then_some(())
        });
        assert_eq!(daemon.get("/readyz").json()["status"], "ready");
    }
}

/// Where history goes through a broker, the consumers remove what is old, with what proves it.
#[test]
fn a_consumer_keeps_history_as_long_as_the_host_says() {
    let (Some(rabbit), Some(server)) = (Rabbit::start(), Server::start(Kind::Postgres)) else { return };
    let url = rabbit.url("q");
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_HISTORY", &url));
    let consumer = Consumer::start(&url, &server.url());
    for (session, agent) in [("old", "bob"), ("builds", "ci"), ("stays", "law"), ("young", "bob")] {
        daemon.create_with(json!({"session_id": session, "agent": agent}));
        daemon.sh(session, "echo hello");
        proven(&server, &daemon, session);
    }
    drop(consumer);
    let mut database = server.connect();
    for (session, days) in [("old", 40), ("builds", 8), ("stays", 400), ("young", 8)] {
        for (table, column) in [("sk_records", "at"), ("sk_sessions", "created_at"), ("sk_sessions", "last_active_at")]
        {
            let sql = format!(
                "UPDATE {table} SET {column} = {column} - INTERVAL '{days} days' WHERE session_id = '{session}'"
            );
            database.run(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }
    let keep = [("SHELLKEEP_HISTORY_KEEP", "30d"), ("SHELLKEEP_HISTORY_KEEP_AGENTS", "ci=7d,law=never")];
    let _consumer = Consumer::with(&url, &server.url(), &keep, Stdio::null());
    until("what is old is removed", || (names(&server) == ["stays", "young"]).then_some(()));
    for table in ["sk_records", "sk_runs", "sk_lines", "sk_heads", "sk_copies"] {
        let left = texts(&server, &format!("SELECT DISTINCT session_id FROM {table} ORDER BY session_id"));
        assert_eq!(left, ["stays", "young"], "{table}");
    }
}
