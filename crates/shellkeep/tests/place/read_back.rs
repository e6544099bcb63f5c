//! Sessions of a node that is gone, read back from history on another node.

use crate::databases::{Kind, Server};
use crate::history::{KINDS, caught_up, texts};
use crate::support::agent::Agent;
use crate::support::{Daemon, Request, Response, Settings};
use serde_json::{Value, json};
use shellkeep_history::schema;
use shellkeep_poll::{LONG, attempt, until};
use std::process::{Command, Output};

/// What must not be found anywhere after a scrub.
pub const SECRET: &str = "correct-horse-battery-staple";

pub fn node(server: &Server, name: &str) -> Daemon {
    Daemon::with(Settings::default().env("SHELLKEEP_HISTORY", &server.url()).env("SHELLKEEP_NODE", name))
}

/// Waits until the recording of a session is in the database, signed up to its last record.
pub fn proven(server: &Server, daemon: &Daemon, session: &str) {
    caught_up(server, daemon, session);
    let mut last = String::new();
    let copied = attempt(LONG, || {
        let seq = daemon.get(&format!("/v1/sessions/{session}")).json()["seq"].as_i64()?;
        let sql = format!("SELECT MAX(seq) FROM sk_heads WHERE session_id = '{session}'");
        let signed = server.try_ask(&sql);
        last = format!("its last record is {seq}, the database answers {signed:?}");
        (signed?.first()?.first()?.as_int() == Some(seq)).then_some(())
    });
    assert!(copied.is_some(), "the recording of {session} is not copied: {last}");
}

/// Waits until a node that reads a session back finds that all of it is proven: messages may overtake each other.
pub fn is_verified(reader: &Daemon, session: &str) {
    let mut last = String::new();
    let found = attempt(LONG, || {
        let verdict = reader.post(&format!("/v1/sessions/{session}/verify"), &json!({})).json();
        last = verdict.to_string();
        (verdict["intact"] == true).then_some(())
    });
    assert!(found.is_some(), "{session} is not proven: {last}");
}

pub fn is_from_history(answer: &Response) -> bool {
    answer.header("shellkeep-source") == Some("history")
}

pub fn cli(daemon: &Daemon, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.args(arguments).arg("--socket").arg(daemon.directory().join("s.sock")).current_dir(daemon.directory());
    command.output().expect("it runs")
}

/// Everything that a client can read of a session.
pub fn readable(daemon: &Daemon, session: &str) -> Vec<(String, Response)> {
    let runs = daemon.get(&format!("/v1/sessions/{session}/runs")).json();
    let runs = runs["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .map(|run| format!("runs/{}", run["run_id"].as_str().expect("an id")));
    let fixed = [
        "events?limit=1000",
        "events?limit=2&after=1",
        "events?type=tool_call",
        "events?view=summary",
        "messages",
        "messages?limit=1",
        "runs",
        "runs?limit=1",
        "export?format=jsonl",
        "export?format=asciicast",
    ];
    let targets = fixed.into_iter().map(str::to_owned).chain(runs);
    let read = |target: String| {
        let answer = daemon.get(&format!("/v1/sessions/{session}/{target}"));
        assert_eq!(answer.status, 200, "{target}: {}", answer.text());
        (target, answer)
    };
    targets.map(read).collect()
}

/// The must-show: a node is destroyed with its data directory, and another one reads its session back whole.
#[test]
fn a_session_of_a_destroyed_node_is_read_back_whole() {
    for kind in KINDS {
        let Some(server) = Server::start(kind) else { return };
        let mut first = node(&server, "n1");
        first.create_with(json!({"session_id": "s", "agent": "ann"}));
        first.run("s", json!({"command": "printf 'a\\377\\0b'; echo ünï 🦀 >&2", "request_id": "k1"}));
        first.sh("s", "cd /tmp; false");
        for content in [json!("hello\u{0}🦀"), json!([{"type": "text", "text": "x".repeat(1_048_000)}])] {
            let answer = first.post("/v1/sessions/s/messages", &json!({"role": "user", "content": content}));
            assert_eq!(answer.status, 201, "{}", answer.text());
        }
        let event = json!({"event_type": "x_numbers", "data": {"f": 0.1, "g": 1e300, "i": u64::MAX, "n": null}});
        assert_eq!(first.post("/v1/sessions/s/events", &event).status, 201);
        proven(&server, &first, "s");
        let before = readable(&first, "s");
        assert!(before.iter().all(|(_, answer)| !is_from_history(answer)));
        let verdict = first.post("/v1/sessions/s/verify", &json!({})).json();
        assert_eq!((&verdict["intact"], &verdict["key_is_known"]), (&json!(true), &json!(true)), "{verdict}");
        let key = std::fs::read_to_string(first.data().join("sign.pub")).expect("a public key").trim().to_owned();
        first.kill();
        drop(first);

        let second = node(&server, "n2");
        for ((target, was), (_, is)) in before.iter().zip(readable(&second, "s")) {
            assert!(is_from_history(&is), "{target}");
            match target.contains("export") {
                true => assert_eq!(was.text(), is.text(), "{target}"),
                false => assert_eq!(was.json(), is.json(), "{target}"),
            }
        }
        let found = second.post("/v1/sessions/s/verify", &json!({})).json();
        assert_eq!((&found["intact"], &found["events"]), (&json!(true), &verdict["events"]), "{found}");
        assert_eq!((&found["signed"], &found["key_is_known"]), (&verdict["signed"], &json!(false)), "{found}");
        assert!(found["remarks"][0].as_str().expect("a remark").contains("history"), "{found}");

        // The same with commands. Which key must have signed it is for a person to say.
        assert_eq!(cli(&second, &["verify", "s"]).status.code(), Some(3));
        assert_eq!(cli(&second, &["verify", "s", "--key", &key]).status.code(), Some(0));
        assert_eq!(cli(&second, &["verify", "s", "--key", &"0".repeat(64)]).status.code(), Some(1));
        let log = cli(&second, &["log", "s"]);
        assert!(log.status.success(), "{}", String::from_utf8_lossy(&log.stderr));
        assert!(String::from_utf8_lossy(&log.stdout).contains("cd /tmp; false"));
        assert!(String::from_utf8_lossy(&log.stderr).contains("read from history"));
        assert!(cli(&second, &["export", "s", "-o", "s.jsonl"]).status.success());
        assert_eq!(cli(&second, &["verify", "s.jsonl", "--key", &key]).status.code(), Some(0));

        // What is not the caller's does not exist, and what is only in history cannot be used.
        let (ann, bob) = (Agent::named(&second, "ann"), Agent::named(&second, "bob"));
        assert_eq!(ann.get("/v1/sessions/s/messages").json(), second.get("/v1/sessions/s/messages").json());
        for target in ["events", "messages", "runs", "export"] {
            let [others, nobodys] = ["s", "u"].map(|session| bob.get(&format!("/v1/sessions/{session}/{target}")));
            assert_eq!((others.status, nobodys.status), (404, 404), "{target}");
            assert_eq!(others.text().replace("'s'", "'u'").replace("\"s\"", "\"u\""), nobodys.text(), "{target}");
        }
        assert_eq!(ann.post("/v1/sessions/s/run", &json!({"command": "true"})).status, 404);
        assert_eq!(second.get("/v1/sessions/s/runs/r999").json()["code"], "run_not_found");
        let followed = Request::new("GET", "/v1/sessions/s/events").header("accept", "text/event-stream");
        let refused = second.send(&followed);
        assert_eq!(
            (refused.status, refused.json()["code"].as_str()),
            (409, Some("only_in_history")),
            "{}",
            refused.text()
        );
        assert_eq!(bob.send(followed).json()["code"], "session_not_found");
        let refused = cli(&second, &["events", "s", "--follow"]);
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(1) && error.contains("`shellkeep events s"), "{error}");

        // A changed row is found.
        let mut database = server.connect();
        database.run("UPDATE sk_lines SET hash = hash, line = (SELECT l.line FROM (SELECT line FROM sk_lines WHERE seq = 3) l) WHERE seq = 4")
            .expect("a forger");
        let forged = second.post("/v1/sessions/s/verify", &json!({})).json();
        assert_eq!((&forged["intact"], &forged["bad"]["file"]), (&json!(false), &json!("sk_lines")), "{forged}");
    }
}

/// All bytes in the tables.
fn everything(server: &Server) -> Vec<u8> {
    let columns = [
        ("sk_records", "line, exact"),
        ("sk_messages", "content"),
        ("sk_runs", "command, command_text, request_id"),
        ("sk_superseded", "line, exact"),
        ("sk_lines", "line"),
    ];
    let mut all = Vec::new();
    for (table, columns) in columns {
        for row in server.ask(&format!("SELECT {columns} FROM {table}")) {
            row.iter().filter_map(|value| value.as_bytes()).for_each(|bytes| all.extend_from_slice(bytes));
        }
    }
    all
}

/// A scrub reaches all rows, and what is left is still proven. A session that its agent deleted is for the host only.
#[test]
fn a_scrub_and_a_deletion_are_read_back() {
    for kind in KINDS {
        let Some(server) = Server::start(kind) else { return };
        let first = node(&server, "n1");
        first.create("s");
        first.run("s", json!({"command": format!("echo {SECRET}"), "request_id": format!("{SECRET}-1")}));
        let message = json!({"role": "user", "content": {"text": format!("it is {SECRET}")}});
        assert_eq!(first.post("/v1/sessions/s/messages", &message).status, 201);
        proven(&server, &first, "s");
        let has_secret = || everything(&server).windows(SECRET.len()).any(|bytes| bytes == SECRET.as_bytes());
        assert!(has_secret());
        let scrubbed = first.post("/v1/sessions/s/scrub", &json!({"secret": SECRET}));
        assert_eq!(scrubbed.status, 200, "{}", scrubbed.text());
        assert_eq!(scrubbed.json()["not_reached"], json!(["history_logs"]));
        assert!(!has_secret(), "when the scrub is answered, no row has it");
        first.sh("s", "echo more");
        proven(&server, &first, "s");
        assert!(!has_secret());
        let ann = Agent::named(&first, "ann");
        let deleted = ann.create("d");
        ann.sh("d", "echo gone");
        proven(&server, &first, &deleted);
        assert_eq!(ann.send(Request::new("DELETE", "/v1/sessions/d")).status, 204);
        until("the deletion is written", || {
            let sql =
                format!("SELECT deleted_by FROM sk_sessions WHERE session_id = '{deleted}' AND deleted_at IS NOT NULL");
            server.try_ask(&sql)?.first().map(|_| ())
        });
        drop(first);

        let second = node(&server, "n2");
        let verdict = second.post("/v1/sessions/s/verify", &json!({})).json();
        assert_eq!(verdict["intact"], true, "{verdict}");
        assert!(verdict["masked_fields"].as_u64().expect("a number") > 0, "{verdict}");
        let events = second.get("/v1/sessions/s/events?limit=1000");
        assert!(events.text().contains("echo more") && !events.text().contains(SECRET));
        let ann = Agent::named(&second, "ann");
        assert_eq!(ann.get("/v1/sessions/d/runs").status, 404);
        let runs = second.get(&format!("/v1/sessions/{deleted}/runs"));
        assert!(is_from_history(&runs) && runs.text().contains("echo gone"), "{}", runs.text());
    }
}

/// The bug: with `record.redact_on_write`, the state of a shell was in the records of history as it is in the journal.
#[test]
fn what_is_masked_before_it_is_stored_is_masked_in_history() {
    let Some(server) = Server::start(KINDS[0]) else { return };
    let settings = Settings::default().env("SHELLKEEP_HISTORY", &server.url());
    let settings = settings.env("SHELLKEEP_RECORD_REDACT_ON_WRITE", "true").env("SHELLKEEP_RECORD_SECRETS", SECRET);
    let daemon = Daemon::with(settings);
    daemon.create("s");
    daemon.sh("s", &format!("export plain={SECRET} SOME_API_KEY=value-of-a-variable shown=kept; echo {SECRET}"));
    daemon.sh("s", "echo ${#plain} $shown");
    proven(&server, &daemon, "s");
    let all = String::from_utf8_lossy(&everything(&server)).into_owned();
    assert!(all.contains("SOME_API_KEY") && all.contains("kept"), "the records tell of the variables");
    assert!(!all.contains(SECRET) && !all.contains("value-of-a-variable"), "{all}");
    let runs = "SELECT exit_code FROM sk_runs WHERE status = 'exited' ORDER BY seq";
    assert_eq!(texts(&server, runs), ["0", "0"]);
}

/// Tables of the first version, with what a program of that version wrote.
#[test]
fn tables_of_the_first_version_are_migrated_and_read() {
    for kind in KINDS {
        let Some(server) = Server::start(kind) else { return };
        let mut database = server.connect();
        schema::migrate_to(&mut *database, 1).expect("the first version");
        let at = "2026-11-17T01:02:03Z";
        let started = json!({"run_started": {"run_id": "r1", "command": "echo ünï 🦀"}});
        let finished = json!({"run_finished": {"run_id": "r1", "result":
            {"status": "exited", "exit_code": 3, "duration_us": 7, "cwd": "/"}}});
        let message = json!({"message_added": {"message": {"seq_id": 1, "role": "user", "content": "hi", "at": at}}});
        let rows = [("run_started", started), ("run_finished", finished), ("message_added", message)];
        for ((kind, event), seq) in rows.into_iter().zip(1..) {
            let line = json!({"session_id": "old", "seq": seq, "at": at, "event": event}).to_string();
            let sql = format!(
                "INSERT INTO sk_records (session_id, seq, epoch, at, type, line) VALUES ('old', {seq}, 0, \
                 '2026-11-17 01:02:03', '{kind}', ?)"
            );
            database.execute(&sql, &[shellkeep_history::Value::text(line)]).expect("a row");
        }
        let now = "'2026-11-17 01:02:03'";
        database.run(&format!(
            "INSERT INTO sk_sessions (session_id, agent, last_active_at, seq, epoch, node) VALUES ('old', 'ann', {now}, 3, 0, 'n0');\n\
             INSERT INTO sk_messages (session_id, seq_id, seq, epoch, role, content, at) VALUES ('old', 1, 3, 0, 'user', '\"hi\"', {now});\n\
             INSERT INTO sk_runs (session_id, run_id, seq, epoch, status, started_at) VALUES ('old', 'r1', 1, 0, 'exited', {now});"
        ))
        .expect("what the first version wrote");

        let daemon = node(&server, "n1");
        until("the tables are migrated", || {
            let version = server.try_ask("SELECT MAX(version) FROM sk_schema")?.first()?.first()?.as_int();
            (version == Some(schema::VERSION)).then_some(())
        });
        let events = daemon.get("/v1/sessions/old/events").json();
        let shown = |event: &Value| event["event_type"].as_str().expect("a type").to_owned();
        let types: Vec<String> = events["events"].as_array().expect("events").iter().map(shown).collect();
        assert_eq!(types, ["run_started", "tool_call", "message_added"]);
        assert_eq!(events["events"][1]["data"]["parameters"]["command"], "echo ünï 🦀");
        assert_eq!(daemon.get("/v1/sessions/old/messages").json()["messages"][0]["content"], "hi");
        let run = daemon.get("/v1/sessions/old/runs/r1").json();
        assert_eq!((&run["exit_code"], &run["seq"]), (&json!(3), &json!(2)), "{run}");
        // Nothing proves what an older version wrote.
        let verdict = daemon.post("/v1/sessions/old/verify", &json!({})).json();
        assert_eq!((&verdict["intact"], &verdict["bad"]["seq"]), (&json!(false), &json!(1)), "{verdict}");
        assert_eq!(texts(&server, "SELECT session_id FROM sk_v_messages"), ["old"]);
        if kind == Kind::Mariadb {
            let mode = server.text("SELECT @@SESSION.sql_mode");
            assert!(mode.contains("STRICT_ALL_TABLES"), "{mode}");
            let long = "x".repeat(400);
            let cut = database.run(&format!("UPDATE sk_sessions SET agent = '{long}'"));
            assert!(cut.is_err(), "a value that does not fit is refused");
        }
    }
}

/// Takes the tables back to what an earlier version made of them.
fn take_back(server: &Server, version: i64) {
    let mut database = server.connect();
    let tables = [("TABLE sk_copies", 4), ("TABLE sk_lines", 3), ("TABLE sk_heads", 3)];
    let tables = tables.into_iter().filter(|(_, since)| version < *since).map(|(name, _)| name.to_owned());
    let views = ["failed_commands", "commands", "messages", "tool_calls", "llm_calls", "idle_sessions"];
    let views = views.iter().filter(|_| version < 2).map(|name| format!("VIEW sk_v_{name}"));
    for newer in tables.chain(views) {
        database.run(&format!("DROP {newer}")).unwrap_or_else(|error| panic!("{newer}: {error}"));
    }
    let versions = "DELETE FROM sk_schema WHERE version > ?";
    database.execute(versions, &[shellkeep_history::Value::Int(version)]).expect("a version");
}

/// Sessions that a daemon wrote to tables of an earlier version are proven once their node has migrated them.
#[test]
fn rows_of_each_earlier_version_are_proven_after_the_migration() {
    for kind in KINDS {
        let Some(server) = Server::start(kind) else { return };
        let mut first = node(&server, "n1");
        first.create_with(json!({"session_id": "s", "agent": "ann"}));
        let message = json!({"role": "user", "content": "hello\u{0}🦀"});
        for (version, commands) in (1..schema::VERSION).rev().zip(1..) {
            first.sh("s", "printf 'a\\377\\0b'; false");
            assert_eq!(first.post("/v1/sessions/s/messages", &message).status, 201);
            caught_up(&server, &first, "s");
            first.stop();
            take_back(&server, version);
            first.restart();
            proven(&server, &first, "s");
            assert_eq!(server.text("SELECT MAX(version) FROM sk_schema"), schema::VERSION.to_string());
            assert_eq!(
                texts(&server, "SELECT COUNT(*) FROM sk_v_commands WHERE agent = 'ann'"),
                [commands.to_string()]
            );
        }
        let before = readable(&first, "s");
        let verdict = first.post("/v1/sessions/s/verify", &json!({})).json();
        first.kill();
        drop(first);

        let second = node(&server, "n2");
        for ((target, was), (_, is)) in before.iter().zip(readable(&second, "s")) {
            assert!(is_from_history(&is) && was.text() == is.text(), "{target}: {}, was {}", is.text(), was.text());
        }
        let found = second.post("/v1/sessions/s/verify", &json!({})).json();
        assert_eq!((&found["intact"], &found["signed"]), (&json!(true), &verdict["signed"]), "{found}");
    }
}
