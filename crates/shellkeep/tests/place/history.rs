//! History in a real PostgreSQL and a real MariaDB: everything that was answered is in the tables, once and in order,
//! whatever was killed.

use crate::databases::{Kind, Server};
use crate::support::procs::resident_kib;
use crate::support::{Daemon, Request, Settings, soak};
use serde_json::{Value, json};
use shellkeep_history::{schema, write};
use shellkeep_poll::{LONG, attempt, pass, until};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

pub const KINDS: [Kind; 2] = [Kind::Postgres, Kind::Mariadb];

pub fn daemon(server: &Server) -> Daemon {
    Daemon::with(Settings::default().env("SHELLKEEP_HISTORY", &server.url()).env("SHELLKEEP_NODE", "n1"))
}

/// Waits until the tables have a session up to its last record.
pub fn caught_up(server: &Server, daemon: &Daemon, session: &str) {
    let sql = format!("SELECT COUNT(*), MIN(seq), MAX(seq) FROM sk_records WHERE session_id = '{session}'");
    let mut last = String::new();
    let found = attempt(LONG, || {
        let seq = daemon.get(&format!("/v1/sessions/{session}")).json()["seq"].as_i64()?;
        let rows = server.try_ask(&sql)?;
        let numbers: Vec<i64> = rows[0].iter().filter_map(|value| value.as_int()).collect();
        last = format!("{numbers:?} of {seq}");
        (numbers == [seq, 1, seq]).then_some(())
    });
    assert!(found.is_some(), "the tables lack records of {session}: {last}\n{}", daemon.log());
}

pub fn texts(server: &Server, sql: &str) -> Vec<String> {
    let line = |row: Vec<shellkeep_history::Value>| {
        let text = |value: &shellkeep_history::Value| match value {
            shellkeep_history::Value::Null => "-".to_owned(),
            shellkeep_history::Value::Int(number) => number.to_string(),
            value => value.as_str().map(str::to_owned).unwrap_or_else(|| format!("{value:?}")),
        };
        row.iter().map(text).collect::<Vec<_>>().join(" ")
    };
    server.ask(sql).into_iter().map(line).collect()
}

#[test]
fn what_agents_do_is_in_the_tables() {
    for kind in KINDS {
        let Some(mut server) = Server::start(kind) else { return };
        let daemon = daemon(&server);
        daemon.create_with(json!({"session_id": "s", "agent": "ann"}));
        daemon.run("s", json!({"command": "printf 'a\\377\\0b'", "request_id": "k1"}));
        daemon.run("s", json!({"command": "false # ünï 🦀"}));
        // The longest message: its record is longer than 1 MiB.
        let big = "x".repeat(1_048_500) + "🦀";
        for content in [json!("hello\u{0}🦀"), json!([{"type": "text", "text": big}])] {
            let answer = daemon.post("/v1/sessions/s/messages", &json!({"role": "user", "content": content}));
            assert_eq!(answer.status, 201, "{}", answer.text());
        }
        // Longer than this MariaDB accepts: the row says that it was left out, and what follows is written.
        daemon.sh(
            "s",
            "v=$(head -c 3000000 /dev/zero | tr '\\0' x); unset v; w=$(head -c 3000000 /dev/zero | tr '\\0' x)",
        );
        let events = [
            json!({"event_type": "tool_call", "data": {"tool_name": "grep", "parameters": {}, "output": "o", "error": null, "duration": 0.5}}),
            json!({"event_type": "llm_call", "data": {"prompt": "p", "response": "r", "token_usage": {"input_tokens": 7, "output_tokens": 2}, "duration": 1}}),
        ];
        for event in events {
            assert_eq!(daemon.post("/v1/sessions/s/events", &event).status, 201);
        }
        caught_up(&server, &daemon, "s");
        let runs = texts(&server, "SELECT request_id, status, exit_code, stdout_bytes FROM sk_runs ORDER BY seq");
        assert_eq!(runs, ["k1 exited 0 4", "- exited 1 0", "- exited 0 0"]);
        let left_out =
            texts(&server, "SELECT COUNT(*) FROM sk_records WHERE CAST(line AS CHAR(400)) LIKE '%left_out_bytes%'");
        assert_eq!(left_out, [if kind == Kind::Mariadb { "1" } else { "0" }]);
        assert_eq!(texts(&server, "SELECT command FROM sk_v_failed_commands WHERE agent = 'ann'"), ["false # ünï 🦀"]);
        assert_eq!(texts(&server, "SELECT seq_id, role FROM sk_messages ORDER BY seq_id"), ["1 user", "2 user"]);
        assert!(server.text("SELECT content FROM sk_messages WHERE seq_id = 2").len() > big.len());
        assert!(server.text("SELECT content FROM sk_messages WHERE seq_id = 1").contains("hello\u{2400}🦀"));
        let exact = server.ask("SELECT exact FROM sk_records WHERE type = 'message_added' ORDER BY seq LIMIT 1");
        let exact: Value = serde_json::from_slice(exact[0][0].as_bytes().expect("bytes")).expect("JSON");
        assert_eq!(exact["event"]["message_added"]["message"]["content"], "hello\u{0}🦀");
        let tokens = "SELECT agent, input_tokens, output_tokens FROM sk_v_llm_calls";
        assert_eq!(texts(&server, tokens), ["ann 7 2"]);
        assert_eq!(texts(&server, "SELECT tool FROM sk_v_tool_calls WHERE duration = 0.5"), ["grep"]);
        assert_eq!(texts(&server, "SELECT agent, node, ended_at FROM sk_sessions"), ["ann n1 -"]);
        assert_eq!(daemon.get("/readyz").json()["status"], "ready");

        // Without its database the daemon goes on, says so, and writes what is missing when it is back.
        server.kill();
        let ready = until("the daemon reports it", || {
            Some(daemon.get("/readyz").json()).filter(|ready| ready["status"] == "degraded")
        });
        let reason = ready["reasons"][0].as_str().expect("a reason");
        assert!(reason.contains("history database") && !reason.contains("not-checked"), "{reason}");
        for number in 0..20 {
            assert_eq!(daemon.sh("s", &format!("echo {number}")).out(), format!("{number}\n"));
        }
        assert!(daemon.get("/metrics").text().contains("shellkeep_history_up 0"));
        server.restart();
        caught_up(&server, &daemon, "s");
        until("the daemon is ready again", || (daemon.get("/readyz").json()["status"] == "ready").then_some(()));

        // A name that is used again is another session.
        daemon.destroy("s");
        daemon.create_with(json!({"session_id": "s", "agent": "bob"}));
        daemon.sh("s", "echo again");
        caught_up(&server, &daemon, "s");
        let agents = texts(&server, "SELECT agent, seq FROM sk_sessions ORDER BY agent");
        assert!(agents.len() == 2 && agents[0].starts_with("ann ") && agents[1].starts_with("bob "), "{agents:?}");
        let old = server.text("SELECT session_id FROM sk_sessions WHERE agent = 'ann'");
        assert!(old.starts_with("s~"), "{old}");
        assert_eq!(texts(&server, &format!("SELECT COUNT(*) FROM sk_runs WHERE session_id = '{old}'")), ["23"]);
    }
}

/// A database that stays away costs no memory, and no more disk than the host allows; what is dropped is said.
#[test]
fn a_database_that_stays_away_costs_a_bounded_disk_and_no_memory() {
    // Nothing listens there; the journal begins a new file every 64 MiB.
    let url = format!("postgres://ann:hidden@127.0.0.1:{}/history", crate::support::daemon::free_port().port());
    let settings = Settings::default().env("SHELLKEEP_HISTORY", &url).env("SHELLKEEP_HISTORY_INTO", &url);
    let daemon = Daemon::with(settings.set("--history-behind-bytes", "1000000"));
    daemon.create("s");
    // No session gets the password.
    let variables = daemon.sh("s", "env").out();
    assert!(variables.contains("HOME=") && !variables.contains("hidden"), "{variables}");
    let text = "x".repeat(1_000_000);
    let say = |count: usize| {
        for _ in 0..count {
            let answer = daemon.post("/v1/sessions/s/messages", &json!({"role": "user", "content": text}));
            assert_eq!(answer.status, 201, "{}", answer.text());
        }
    };
    say(20);
    let before = resident_kib(daemon.pid());
    say(60 * soak());
    let ready = until("the daemon says what is lost", || {
        let ready = daemon.get("/readyz").json();
        ready["reasons"].to_string().contains("History lacks").then_some(ready)
    });
    let after = resident_kib(daemon.pid());
    println!("{before} KiB before, {after} KiB after {} MB more", 60 * soak());
    assert!(after < before + 32 * 1024, "{before} KiB before, {after} KiB after");
    let reasons = ready["reasons"].to_string();
    assert!(reasons.contains("limit of 1000000 bytes (history_behind_bytes)"), "{reasons}");
    assert!(reasons.contains("does not accept records"), "{reasons}");
    let metrics = daemon.get("/metrics").text();
    let dropped = metrics.lines().find_map(|line| line.strip_prefix("shellkeep_history_dropped_bytes_total "));
    assert!(dropped.is_some_and(|bytes| bytes.parse::<f64>().is_ok_and(|bytes| bytes > 60e6)), "{dropped:?}");
    let journal = std::fs::read_dir(daemon.data().join("journal")).expect("it is there").flatten();
    let kept: u64 = journal.filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum();
    assert!(kept < 80_000_000, "the journal has {kept} bytes: one file, and what may be kept");
}

/// What a scheme does not know, or cannot write, is said at the start.
#[test]
fn a_daemon_refuses_history_that_it_cannot_write() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for (history, store, says) in [
        ("sqlite://x", "sqlite://{data}/s.db", "postgres://USER:PASSWORD@HOST:PORT/DATABASE"),
        ("postgres://h/d", "memory://", "history needs a journal"),
    ] {
        let settings = Settings::default().store(store).env("SHELLKEEP_HISTORY", history);
        let refused = settings.command(directory.path(), None).output().expect("it runs");
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && error.contains(says), "{history}: {error}");
    }
}

#[test]
fn the_schema_is_migrated_and_a_newer_one_is_refused() {
    for kind in KINDS {
        let Some(server) = Server::start(kind) else { return };
        let mut database = server.connect();
        for version in 1..=schema::VERSION {
            schema::migrate_to(&mut *database, version).expect("a step");
            assert_eq!(server.text("SELECT MAX(version) FROM sk_schema"), version.to_string());
            assert_eq!(write::place(&mut *database, "nobody"), Ok(None), "version {version} has the tables");
        }
        schema::migrate(&mut *database).expect("nothing to do");
        database.run("INSERT INTO sk_schema (version) VALUES (99)").expect("a newer program was here");
        let daemon = daemon(&server);
        let ready = until("the daemon reports it", || {
            Some(daemon.get("/readyz").json()).filter(|ready| ready["status"] == "degraded")
        });
        assert!(ready["reasons"][0].as_str().expect("a reason").contains("schema version 99"), "{ready}");
        assert_eq!(daemon.create("s")["session_id"], "s");
    }
}

/// What a client was answered.
#[derive(Default)]
pub struct Answers {
    /// By request id: the run and its output.
    runs: BTreeMap<String, (String, String)>,
    /// By `seq_id`: the content.
    messages: BTreeMap<i64, String>,
}

/// Works with one session until it is told to stop; repeats each command until it is answered.
pub fn work(daemon: &std::sync::RwLock<Daemon>, session: &str, stop: &AtomicBool) -> Answers {
    let mut answers = Answers::default();
    let send = |path: &str, body: Value| {
        let request = Request::new("POST", path).json(body.to_string());
        let door = daemon.read().expect("no test panicked").door();
        request.send(&door).ok().filter(|answer| answer.status < 300).map(|answer| answer.json())
    };
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("{session}-{number}");
        let body = json!({"command": "n=$((n+1)); echo $n", "request_id": key});
        let answer = until("the run is answered", || send(&format!("/v1/sessions/{session}/run"), body.clone()));
        let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        answers.runs.insert(key, (text("run_id"), text("status") + " " + &text("stdout")));
        let content = format!("message {number}");
        let said = json!({"role": "user", "content": content});
        if let Some(answer) = send(&format!("/v1/sessions/{session}/messages"), said) {
            answers.messages.insert(answer["seq_id"].as_i64().expect("a number"), content);
        }
    }
    answers
}

/// Random numbers. `SHELLKEEP_SEED` repeats those of an earlier run.
pub struct Random(u64);

impl Random {
    /// Prints its seed.
    pub fn new() -> Self {
        let given = std::env::var("SHELLKEEP_SEED").ok().map(|text| text.parse().expect("SHELLKEEP_SEED is a number"));
        let seed = given.unwrap_or_else(|| SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64));
        println!("SHELLKEEP_SEED={seed}");
        Self(seed)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for count in (1..items.len()).rev() {
            items.swap(count, self.below(count as u64 + 1) as usize);
        }
    }

    /// Other numbers, for another thread.
    pub fn split(&mut self) -> Self {
        Self(self.below(u64::MAX) << 31 ^ self.below(u64::MAX))
    }
}

/// Compares the tables with what was answered.
pub fn compare(server: &Server, daemon: &Daemon, session: &str, answers: &Answers) -> usize {
    caught_up(server, daemon, session);
    let sql = format!("SELECT request_id, run_id, status FROM sk_runs WHERE session_id = '{session}' ORDER BY seq");
    let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in texts(server, &sql) {
        let (key, rest) = row.split_once(' ').expect("three words");
        rows.entry(key.to_owned()).or_default().push(rest.to_owned());
    }
    for (key, (run_id, outcome)) in &answers.runs {
        let status = outcome.split(' ').next().expect("a status");
        assert_eq!(rows.get(key), Some(&vec![format!("{run_id} {status}")]), "{key}: answered once, and there once");
    }
    let lines = server.ask(&format!(
        "SELECT line, exact FROM sk_records WHERE session_id = '{session}' AND type = 'run_finished' ORDER BY seq"
    ));
    let mut outputs = BTreeMap::new();
    for row in lines {
        let line: Value = serde_json::from_slice(row[0].as_bytes().expect("a line")).expect("JSON");
        let finished = &line["event"]["run_finished"];
        let output = finished["result"]["stdout"]["inline"].as_str().unwrap_or_default().to_owned();
        assert!(outputs.insert(finished["run_id"].as_str().expect("a run").to_owned(), output).is_none());
    }
    for (run_id, outcome) in answers.runs.values() {
        assert_eq!(Some(outcome.split_once(' ').expect("two words").1), outputs.get(run_id).map(String::as_str));
    }
    let messages =
        server.ask(&format!("SELECT seq_id, content FROM sk_messages WHERE session_id = '{session}' ORDER BY seq_id"));
    for (row, expected) in messages.iter().zip(1..) {
        assert_eq!(row[0].as_int(), Some(expected), "messages have no gap");
        if let Some(content) = answers.messages.get(&expected) {
            assert_eq!(row[1].as_str(), Some(format!("\"{content}\"").as_str()));
        }
    }
    assert!(answers.messages.keys().max().is_none_or(|last| *last <= messages.len() as i64));
    answers.runs.len()
}

/// The daemon and the database are killed at random moments under load. Afterwards the tables are what was answered.
#[test]
fn nothing_is_missing_or_double_whatever_is_killed() {
    const SESSIONS: [&str; 4] = ["a", "b", "c", "d"];
    let mut random = Random::new();
    for kind in KINDS {
        let Some(mut server) = Server::start(kind) else { return };
        let daemon = std::sync::RwLock::new(daemon(&server));
        for session in SESSIONS {
            daemon.read().expect("it runs").create(session);
        }
        let stop = AtomicBool::new(false);
        let begun = Instant::now();
        let answers: Vec<Answers> = std::thread::scope(|scope| {
            let threads = SESSIONS.map(|session| scope.spawn(|| work(&daemon, session, &stop)));
            for _ in 0..3 * soak() {
                // Nothing is waited for: the moment of the kill varies.
                pass(Duration::from_millis(random.below(700)));
                match random.below(3) {
                    0 => daemon.write().expect("it runs").restart(),
                    1 => server.restart(),
                    _ => {
                        server.kill();
                        pass(Duration::from_millis(random.below(500)));
                        daemon.write().expect("it runs").restart();
                        server.restart();
                    }
                }
            }
            pass(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
            threads.map(|thread| thread.join().expect("it worked")).into()
        });
        let daemon = daemon.into_inner().expect("it runs");
        let compared =
            SESSIONS.iter().zip(&answers).map(|(session, answers)| compare(&server, &daemon, session, answers));
        let runs: usize = compared.sum();
        println!("{kind:?}: {runs} answered runs compared in {:?}", begun.elapsed());
        assert!(runs > 0);
        assert_eq!(server.text("SELECT COUNT(*) FROM sk_superseded"), "0");
    }
}
