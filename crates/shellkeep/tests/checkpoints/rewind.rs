//! Going back, over HTTP: files, shell and agent's state, as they were; and back again.

use super::support::{Daemon, Request, Settings};
use super::tools::{Files, files, raw, seq};
use serde_json::{Value, json};

#[test]
fn a_session_goes_back_and_forth() {
    let daemon = Daemon::start();
    daemon.create("s");
    let state = |body: &str| {
        let target = "/v1/sessions/s/agent_state";
        let answer = daemon.send(&Request::new("PUT", target).header("content-type", "text/plain").json(body));
        assert!([200, 201].contains(&answer.status), "{}", answer.text());
    };
    state("early");
    daemon.sh("s", "echo one > a; mkdir d; cd d; export X=1; f() { echo old; }; set -o pipefail");
    let early = seq(&daemon, "s");
    daemon.checkpoints("s");
    state("late");
    daemon.sh("s", "echo two > ../a; echo b > b; unset X; f() { echo new; }; set +o pipefail; cd ..");
    daemon.checkpoints("s");
    let preview = daemon.ask("s", "rewind", json!({"to": early, "dry_run": true}));
    assert_eq!(preview.status, 200, "{}", preview.text());
    let preview = preview.json();
    assert_eq!(
        (&preview["dry_run"], &preview["files_total"], &preview["to"]),
        (&json!(true), &json!(2), &json!(early))
    );
    assert!(preview.get("seq").is_none() && preview.get("undo").is_none(), "{preview}");
    assert_eq!(preview["shell"]["env"]["X"], "1");
    assert_eq!(daemon.tree("s"), files(&[("a", "two\n"), ("d/b", "b\n")]), "a preview changed something");

    let done = daemon.rewind_to("s", json!(early));
    assert_eq!((&done["dry_run"], &done["files_total"]), (&json!(false), &json!(2)));
    assert_eq!(done["cwd"].as_str().unwrap(), daemon.cwd("s").to_str().unwrap());
    assert_eq!(daemon.tree("s"), files(&[("a", "one\n")]));
    assert_eq!(daemon.sh("s", "f; echo $X ${PWD##*/}; set -o | grep -c 'pipefail.*on'").out(), "old\n1 d\n1\n");
    assert_eq!(daemon.at("s", "agent_state").text(), "early");

    let undone = daemon.rewind_to("s", done["undo"].clone());
    assert_eq!(daemon.tree("s"), files(&[("a", "two\n"), ("d/b", "b\n")]), "{undone}");
    assert_eq!(daemon.sh("s", "f; echo ${X-none}").out(), "new\nnone\n");
    assert_eq!(daemon.at("s", "agent_state").text(), "late");
    let verdict = daemon.ask("s", "verify", json!({})).json();
    assert_eq!(verdict["intact"], true, "{verdict}");
}

#[test]
fn what_no_checkpoint_holds_is_left_alone() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "echo one > a");
    let early = seq(&daemon, "s");
    daemon.checkpoints("s");
    let setup =
        "git init -q . 2>/dev/null || mkdir .git; echo '*.log' > .gitignore; echo l > x.log; echo two > a; mkdir e";
    daemon.sh("s", setup);
    daemon.checkpoints("s");
    daemon.rewind_to("s", json!(early.to_string()));
    let left = daemon.sh("s", "cat a; ls -d .git x.log; ls .gitignore 2>&1 | grep -c 'No such'");
    assert_eq!(left.out(), "one\n.git\nx.log\n1\n");
}

/// What was too large for the checkpoint of a moment counted as not there at that moment: an undo of the command that wrote
/// a small file in its place deleted the file, and said nothing.
#[test]
fn what_was_too_large_to_be_saved_is_not_deleted() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "truncate -s 34M model.bin; mkfifo p; echo 1 > other");
    let early = seq(&daemon, "s");
    daemon.checkpoints("s");
    daemon.sh("s", "echo small > model.bin; rm p; mkdir p; echo x > p/x; echo 2 > other; echo n > new");
    daemon.checkpoints("s");
    let left = files(&[("model.bin", "small\n"), ("other", "1\n"), ("p/x", "x\n")]);
    let named = |rewound: &Value| {
        let kept = rewound["kept_back"].as_array().unwrap().iter();
        kept.map(|kept| kept["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let undone = daemon.rewind_to("s", json!("undo"));
    assert_eq!(named(&undone), ["model.bin", "p", "p/x"]);
    assert_eq!(daemon.tree("s"), left, "{undone}");
    // Nothing is left to do, and what is kept back is said again.
    assert_eq!(named(&daemon.rewind_to("s", json!(early))), ["model.bin", "p", "p/x"]);
}

#[test]
fn services_are_stopped_if_asked_and_bad_requests_are_told() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "echo one > a");
    let started = daemon.ask("s", "services", json!({"command": "sleep 600"}));
    assert_eq!(started.status, 201, "{}", started.text());
    let service = started.json()["service_id"].as_str().unwrap().to_owned();
    let status = || daemon.at("s", &format!("services/{service}")).json()["status"].clone();
    daemon.rewind_to("s", json!(1));
    assert_eq!(status(), "running");
    let stopped = daemon.ask("s", "rewind", json!({"to": 1, "services": "stop"})).json();
    assert_eq!(stopped["services_stopped"], json!([service]), "{stopped}");
    assert_eq!(status(), "stopped");
    for (body, expected) in [
        (json!({}), (400, "invalid_request")),
        (json!({"to": 1.5}), (400, "invalid_request")),
        (json!({"to": "now"}), (400, "invalid_request")),
        (json!({"to": "a b"}), (400, "invalid_request")),
        (json!({"to": 1, "services": "kill"}), (400, "invalid_request")),
        (json!({"to": 1, "dryrun": true}), (400, "invalid_request")),
        (json!({"to": 100_000}), (404, "no_such_moment")),
        (json!({"to": "manual_never"}), (404, "checkpoint_not_found")),
    ] {
        let (status, code) = daemon.ask("s", "rewind", body.clone()).refused();
        assert_eq!((status, code.as_str()), expected, "{body}");
    }
}

#[test]
fn taking_a_rewind_back_leaves_what_the_rules_of_then_leave_out() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "echo a > a");
    let early = seq(&daemon, "s");
    daemon.checkpoints("s");
    daemon.sh("s", "printf '.env\\nout\\n' > .gitignore; echo TOKEN=1 > .env; mkdir out; echo r > out/r; echo b > b");
    daemon.checkpoints("s");
    let back = daemon.rewind_to("s", json!(early));
    // Not touched; and without the rules, it is seen and kept.
    assert_eq!(daemon.tree("s"), files(&[(".env", "TOKEN=1\n"), ("a", "a\n"), ("out/r", "r\n")]));
    daemon.rewind_to("s", back["undo"].clone());
    let rules = ".env\nout\n";
    let all = [(".env", "TOKEN=1\n"), (".gitignore", rules), ("a", "a\n"), ("b", "b\n"), ("out/r", "r\n")];
    assert_eq!(daemon.tree("s"), files(&all));
}

#[test]
fn the_seq_of_an_answer_and_the_run_id_are_the_moment_after_the_run() {
    for store in ["sqlite://{data}/s.db", "file://{data}/store"] {
        let mut daemon = Daemon::with(Settings::default().store(store));
        daemon.create("s");
        let run = |daemon: &Daemon, command: &str| daemon.ask("s", "run", json!({"command": command})).json();
        let first = run(&daemon, "n=1; echo v1 > f");
        let second = run(&daemon, "n=2; echo v2 > f");
        run(&daemon, "true");
        let third = run(&daemon, "n=3; echo v3 > f");
        daemon.checkpoints("s");
        let state = |daemon: &Daemon| daemon.sh("s", "echo $n; cat f").out();
        let id = |run: &Value| run["run_id"].as_str().unwrap().to_owned();
        daemon.rewind_to("s", second["seq"].clone());
        assert_eq!(state(&daemon), "2\nv2\n", "{store}: the record of the answer");
        let back = daemon.rewind_to("s", json!(id(&first)));
        assert_eq!((back["to"].clone(), state(&daemon)), (first["seq"].clone(), "1\nv1\n".to_owned()), "{store}");
        // What is read again, also by another daemon, is what was answered.
        daemon.restart();
        let again = daemon.at("s", &format!("runs/{}", id(&third))).json();
        assert_eq!(again["seq"], third["seq"], "{store}: {again}");
        daemon.rewind_to("s", json!(id(&third)));
        assert_eq!(state(&daemon), "3\nv3\n", "{store}: the run id");
        let fork = daemon.ask("s", "fork", json!({"session_id": "f", "at": id(&second)})).json();
        assert_eq!(fork["forked_from"]["seq"], second["seq"], "{fork}");
        assert_eq!(daemon.sh("f", "echo $n; cat f").out(), "2\nv2\n");
        let patch = raw(&daemon, "s", &format!("diff?from={}&to={}", id(&first), id(&second)), "text/x-diff");
        assert!(patch.text().contains("-v1\n+v2\n"), "{}", patch.text());
        let file = daemon.at("s", &format!("checkpoints/{}/file?path=f", id(&second)));
        assert_eq!(file.text(), "v2\n");
    }
}

#[test]
fn a_moment_may_be_so_many_changes_back_or_a_time() {
    let daemon = Daemon::start();
    daemon.create("s");
    for n in 1..=3 {
        daemon.sh("s", &format!("n={n}; echo v{n} > f"));
        daemon.sh("s", "echo nothing changes");
    }
    daemon.checkpoints("s");
    let state = || daemon.sh("s", "echo $n; cat f").out();
    daemon.rewind_to("s", json!("-1"));
    assert_eq!(state(), "2\nv2\n");
    // What was taken back does not count again.
    daemon.rewind_to("s", json!("-1"));
    assert_eq!(state(), "1\nv1\n");
    let events = daemon.at("s", "events?type=tool_call&limit=1000").json()["events"].as_array().unwrap().clone();
    let third = events.iter().find(|event| event["data"]["parameters"]["command"] == "n=3; echo v3 > f").unwrap();
    daemon.rewind_to("s", third["timestamp"].clone());
    assert_eq!(state(), "3\nv3\n");
    for (to, expected) in [
        (json!("-9"), (404, "no_such_moment")),
        (json!("-0"), (404, "no_such_moment")),
        (json!("2020-01-01T00:00:00Z"), (404, "no_such_moment")),
        (json!("r999"), (404, "run_not_found")),
    ] {
        let (status, code) = daemon.ask("s", "rewind", json!({"to": to})).refused();
        assert_eq!((status, code.as_str()), expected, "{to}");
    }
}

#[test]
fn there_is_nothing_before_the_first_record_and_none_after_a_run_that_runs() {
    let daemon = Daemon::start();
    daemon.create("s");
    let none = daemon.ask("s", "rewind", json!({"to": 0}));
    assert_eq!(none.refused(), (404, "no_such_moment".to_owned()));
    let detail = none.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("records are numbered from 1") && !detail.contains("last one is 0"), "{detail}");
    let command = json!({"command": "read line", "timeout": 0.1, "on_timeout": "background", "tty": true});
    let running = daemon.ask("s", "run", command).json();
    assert_eq!((&running["status"], &running["seq"]), (&json!("running"), &json!(3)), "{running}");
    let none = daemon.ask("s", "rewind", json!({"to": running["run_id"]}));
    assert!(none.json()["detail"].as_str().unwrap().contains("has not ended"), "{}", none.text());
}

/// Versions started again at 1 after a rewind to before the first state: an old client's `If-Match: "1"` then overwrote a
/// state it had never seen, and the new state's file took the place of the old one's, so that a rewind brought back the
/// wrong bytes.
#[test]
fn versions_of_the_agents_state_never_repeat() {
    let mut daemon = Daemon::with(Settings::default().env("SHELLKEEP_DURABILITY", "power"));
    daemon.create("s");
    daemon.sh("s", "true");
    let before = seq(&daemon, "s");
    let put = |daemon: &Daemon, tag: Option<&str>, bytes: &[u8]| {
        let mut request = Request::new("PUT", "/v1/sessions/s/agent_state").header("content-type", "x/y");
        if let Some(tag) = tag {
            request = request.header("if-match", tag);
        }
        request.body = bytes.to_vec();
        daemon.send(&request)
    };
    let (first, second) = (vec![b'a'; 100_000], vec![b'b'; 100_000]);
    assert_eq!(put(&daemon, None, &first).json()["version"], 1);
    let with_first = seq(&daemon, "s");
    daemon.rewind_to("s", json!(before));
    assert_eq!(daemon.at("s", "agent_state").status, 404);
    assert!(daemon.at("s", "agent_state?version=1").body == first, "what was saved before the rewind can be read");
    daemon.restart();
    assert_eq!(put(&daemon, None, &second).json()["version"], 2);
    let conflict = put(&daemon, Some("\"1\""), b"of an old client");
    assert_eq!((conflict.status, &conflict.json()["version"]), (412, &json!(2)), "{}", conflict.text());
    daemon.rewind_to("s", json!(with_first));
    let kept = daemon.at("s", "agent_state");
    assert!(kept.body == first && kept.header("etag") == Some("\"3\""), "{:?}", kept.header("etag"));
    assert!(daemon.at("s", "agent_state?version=2").body == second);
    let verdict = daemon.ask("s", "verify", json!({})).json();
    assert_eq!(verdict["intact"], true, "{verdict}");
}

/// A file that a power cut had emptied was served with 200 and the right version.
#[test]
fn a_damaged_state_of_the_agent_is_not_served() {
    let daemon = Daemon::start();
    daemon.create("s");
    let mut request = Request::new("PUT", "/v1/sessions/s/agent_state").header("content-type", "x/y");
    request.body = vec![b'a'; 100_000];
    assert_eq!(daemon.send(&request).status, 201);
    let with_state = seq(&daemon, "s");
    let file = daemon.data().join("outputs/s/agent_state.1");
    let mut changed = request.body.clone();
    changed[50_000] = b'b';
    for damaged in [b"".as_slice(), &request.body[..99_999], &changed] {
        std::fs::write(&file, damaged).unwrap();
        let answer = daemon.at("s", "agent_state");
        assert_eq!((answer.status, &answer.json()["code"]), (500, &json!("agent_state_damaged")), "{}", answer.text());
    }
    daemon.sh("s", "true");
    let rewound = daemon.rewind_to("s", json!(with_state));
    let notices = rewound["notices"].to_string();
    assert!(notices.contains("Version 1 of the agent's state is missing"), "{rewound}");
}
