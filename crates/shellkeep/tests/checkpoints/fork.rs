//! Going another way, over HTTP: forks that do not see each other, and what comes back of them.

use super::support::services::in_parallel;
use super::support::{Agent, Daemon, Request};
use super::tools::{Files, files, seq};
use serde_json::{Value, json};

fn fork(daemon: &Daemon, session: &str, body: Value) -> Value {
    let answer = daemon.ask(session, "fork", body);
    assert_eq!(answer.status, 201, "{}\n{}", answer.text(), daemon.log());
    answer.json()
}

#[test]
fn ten_forks_go_ten_ways() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "echo one > a; export X=1; f() { echo of $X; }");
    let early = seq(&daemon, "s");
    daemon.checkpoints("s");
    daemon.sh("s", "echo late > b; X=2");
    daemon.checkpoints("s");
    let numbers: Vec<usize> = (0..10).collect();
    in_parallel(4, &numbers, |number| {
        let name = format!("try-{number}");
        let made = fork(&daemon, "s", json!({"at": early, "session_id": name}));
        assert_eq!(made["forked_from"], json!({"session_id": "s", "seq": early}), "{made}");
        assert_eq!((&made["session_id"], &made["live"]), (&json!(name), &json!(false)));
        assert_ne!(made["workspace"], daemon.at("s", "").json()["workspace"]);
        assert_eq!(
            daemon.sh(&name, &format!("f; cat a; ls; echo {number} > mine; echo {number} >> a")).out(),
            "of 1\none\na\n"
        );
    });
    for number in numbers {
        let name = format!("try-{number}");
        let own = format!("one\n{number}\n");
        assert_eq!(daemon.tree(&name), files(&[("a", &own), ("mine", &format!("{number}\n"))]));
        assert_eq!(daemon.get(&format!("/v1/sessions/{name}")).json()["forked_from"]["session_id"], "s");
    }
    assert_eq!(daemon.tree("s"), files(&[("a", "one\n"), ("b", "late\n")]));
    assert_eq!(daemon.sh("s", "f").out(), "of 2\n");
    assert!(daemon.get("/v1/sessions/s").json().get("forked_from").is_none());
    // From now, and with a name that is made up.
    let made = fork(&daemon, "s", json!({}));
    assert_eq!(daemon.sh(made["session_id"].as_str().unwrap(), "f; cat b").out(), "of 2\nlate\n");
    let bound = fork(&daemon, "s", json!({"user_id": "ann", "session_id": "x", "at": "now"}));
    assert_eq!(bound["session_id"], "thread_ann_x");
    assert_eq!(daemon.ask("s", "fork", json!({"session_id": "try-1"})).refused(), (409, "session_exists".to_owned()));
    assert_eq!(daemon.ask("s", "fork", json!({"at": 99_999})).refused(), (404, "no_such_moment".to_owned()));
    assert_eq!(daemon.ask("s", "fork", json!({"name": "x"})).refused(), (400, "invalid_request".to_owned()));
    assert_eq!(daemon.ask("s", "fork", json!({"session_id": "../x"})).refused(), (400, "invalid_request".to_owned()));
}

#[test]
fn the_files_of_two_forks_are_compared() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "echo same > same; echo one > a; echo gone > gone");
    let early = seq(&daemon, "s");
    for (name, command) in [
        (
            "try-1",
            "echo two > a; rm gone; echo same > new; export API_TOKEN=correct-horse-battery; echo $API_TOKEN > word",
        ),
        ("try-2", "echo three > a; echo same > new"),
    ] {
        fork(&daemon, "s", json!({"at": early, "session_id": name}));
        daemon.sh(name, command);
    }
    let diff = |query: &str| daemon.at("try-2", &format!("diff?from_session=try-1{query}"));
    let told = diff("&redact=true").json();
    let named = |file: &Value| (file["path"].as_str().unwrap().to_owned(), file["kind"].as_str().unwrap().to_owned());
    let expected = [("a", "modified"), ("gone", "added"), ("word", "deleted")];
    let files: Vec<(String, String)> = told["files"].as_array().unwrap().iter().map(named).collect();
    assert_eq!(files, expected.map(|(path, kind)| (path.to_owned(), kind.to_owned())), "{told:#}");
    let patch = told["patch"].as_str().unwrap();
    assert!(patch.contains("-two\n+three\n") && patch.contains("+gone\n"), "{patch}");
    // Secrets of either side are masked.
    assert!(patch.contains("-***\n") && !patch.contains("horse"), "{patch}");
    // One path; a moment of the other session; the same session twice.
    let one = diff("&path=a&patch=false").json();
    assert_eq!(one["files"].as_array().unwrap().len(), 1, "{one:#}");
    let then = diff(&format!("&from={early}&patch=false")).json();
    let files: Vec<(String, String)> = then["files"].as_array().unwrap().iter().map(named).collect();
    assert_eq!(files, [("a", "modified"), ("new", "added")].map(|(path, kind)| (path.to_owned(), kind.to_owned())));
    let same = daemon.at("try-2", "diff?from_session=try-2").json();
    assert_eq!(same["files"], json!([]), "{same:#}");
    assert_eq!(daemon.at("s", "diff?from_session=nobody").refused(), (404, "session_not_found".to_owned()));
    assert_eq!(daemon.at("s", "diff?from_session=..").refused(), (400, "invalid_request".to_owned()));
    // An agent cannot tell another's session from one that never was.
    let bob = Agent::named(&daemon, "bob");
    bob.create("mine");
    let ask = |session: &str| {
        let answer = bob.get(&format!("/v1/sessions/mine/diff?from_session={session}"));
        (answer.status, answer.text().replace(session, "SESSION"))
    };
    assert_eq!(ask("try-1"), ask("try-9"));
    assert_eq!(ask("try-1").0, 404);
}

#[test]
fn a_forks_files_come_back_where_they_fit() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "printf '1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\n' > both; echo old > theirs; echo gone > gone");
    daemon.checkpoints("s");
    fork(&daemon, "s", json!({"session_id": "f"}));
    daemon.sh("f", "sed -i 's/^1$/one/' both; echo new > theirs; rm gone; mkdir d; echo n > d/new");
    daemon.sh("s", "sed -i 's/^9$/nine/' both; echo mine > mine");
    let trial = daemon.ask("f", "merge_back", json!({"dry_run": true})).json();
    assert_eq!((&trial["dry_run"], &trial["files_total"], &trial["conflicts"]), (&json!(true), &json!(4), &json!([])));
    assert_eq!(daemon.tree("s").len(), 4, "a trial changed something");
    let merged = daemon.ask("f", "merge_back", json!({}));
    assert_eq!(merged.status, 200, "{}\n{}", merged.text(), daemon.log());
    let merged = merged.json();
    assert_eq!((&merged["into"], &merged["files_total"]), (&json!("s"), &json!(4)));
    let both = "one\n2\n3\n4\n5\n6\n7\n8\nnine\n";
    let expected = [("both", both), ("d/new", "n\n"), ("mine", "mine\n"), ("theirs", "new\n")];
    assert_eq!(daemon.tree("s"), files(&expected));
    daemon.rewind_to("s", merged["undo"].clone());
    assert_eq!(daemon.tree("s").len(), 4, "{:?}", daemon.tree("s"));
    assert_eq!(daemon.ask("s", "merge_back", json!({})).refused(), (409, "no_origin".to_owned()));
}

#[test]
fn what_does_not_fit_is_refused_and_named() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "echo base > a; echo base > b");
    daemon.checkpoints("s");
    fork(&daemon, "s", json!({"session_id": "f"}));
    daemon.sh("f", "echo fork > a; echo fork > b");
    daemon.sh("s", "echo origin > a");
    let answer = daemon.ask("f", "merge_back", json!({}));
    assert_eq!(answer.refused(), (409, "merge_conflict".to_owned()));
    let conflicts = answer.json()["conflicts"].as_array().unwrap().clone();
    assert_eq!((conflicts.len(), &conflicts[0]["path"]), (1, &json!("a")), "{conflicts:?}");
    assert!(conflicts[0]["reason"].is_string());
    assert_eq!(daemon.tree("s"), files(&[("a", "origin\n"), ("b", "base\n")]), "a refused merge changed something");
    let trial = daemon.ask("f", "merge_back", json!({"dry_run": true})).json();
    assert_eq!(trial["conflicts"].as_array().unwrap().len(), 1, "{trial}");
    let own = daemon.ask("f", "merge_back", json!({"prefer": "origin"}));
    assert_eq!(own.status, 200, "{}", own.text());
    assert_eq!(daemon.tree("s"), files(&[("a", "origin\n"), ("b", "fork\n")]));
    let theirs = daemon.ask("f", "merge_back", json!({"prefer": "fork"}));
    assert_eq!(theirs.status, 200, "{}", theirs.text());
    assert_eq!(daemon.tree("s"), files(&[("a", "fork\n"), ("b", "fork\n")]));
}

#[test]
fn what_a_fork_has_in_a_form_that_is_not_kept_is_not_removed() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "echo small > data; echo one > x; echo p > pipe");
    daemon.checkpoints("s");
    fork(&daemon, "s", json!({"session_id": "f"}));
    daemon.sh("f", "truncate -s 34M data; head -c 34M /dev/urandom > data; echo two > x; rm pipe; mkfifo pipe");
    let answer = daemon.ask("f", "merge_back", json!({}));
    assert_eq!(answer.refused(), (409, "merge_conflict".to_owned()), "{}", answer.text());
    assert!(answer.text().contains("data") && answer.text().contains("pipe"), "{}", answer.text());
    let merged = daemon.ask("f", "merge_back", json!({"prefer": "origin"}));
    assert_eq!(merged.status, 200, "{}", merged.text());
    assert_eq!(daemon.tree("s"), files(&[("data", "small\n"), ("pipe", "p\n"), ("x", "two\n")]));
}

/// What no checkpoint of the origin has is not replaced, and the merge said nothing about it: it named four files as merged
/// and had changed one. Who then removed the fork lost the rest.
#[test]
fn what_the_origin_has_and_does_not_save_is_a_conflict() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "echo '*.bak' > .gitignore; echo a > a; mkdir gone; echo 1 > gone/file");
    daemon.checkpoints("s");
    fork(&daemon, "s", json!({"session_id": "f"}));
    daemon.sh("s", "echo mine > notes.bak; mkfifo p; mkdir q.bak; echo 1 > q.bak/x; echo 1 > gone/x.bak");
    daemon.sh("f", ": > .gitignore; echo fork > notes.bak; echo fork > p; echo fork > q.bak; rm -r gone");
    let trial = daemon.ask("f", "merge_back", json!({"dry_run": true})).json();
    let conflicts = trial["conflicts"].as_array().unwrap().iter();
    let conflicts: Vec<&str> = conflicts.map(|conflict| conflict["path"].as_str().unwrap()).collect();
    assert_eq!(conflicts, ["notes.bak", "p", "q.bak"], "{trial}");
    assert_eq!(trial["files_total"], 2, "{trial}");
    for body in [json!({}), json!({"prefer": "fork"})] {
        assert_eq!(daemon.ask("f", "merge_back", body).refused(), (409, "merge_conflict".to_owned()));
    }
    let merged = daemon.ask("f", "merge_back", json!({"prefer": "origin"})).json();
    assert_eq!(merged["files_total"], 2, "{merged}");
    // The directory stays for what is ignored in it; that is no reason to refuse, and is said.
    assert!(merged["notices"].to_string().contains("gone (the directory contains"), "{merged}");
    let left = daemon.sh("s", "cat .gitignore notes.bak q.bak/x; test -p p && echo pipe; ls gone");
    assert_eq!(left.out(), "mine\n1\npipe\nx.bak\n");
}

#[test]
fn a_fork_of_the_past_has_what_was_kept_then_and_what_never_is() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "echo a > a");
    let early = seq(&daemon, "s");
    daemon.checkpoints("s");
    daemon
        .sh("s", "echo .env > .gitignore; echo TOKEN=1 > .env; mkdir -p node_modules late/r; echo 1 > node_modules/m");
    daemon.checkpoints("s");
    fork(&daemon, "s", json!({"session_id": "past", "at": early}));
    assert_eq!(daemon.sh("past", "ls -A; cat node_modules/m").out(), "a\nnode_modules\n1\n");
    assert_eq!(daemon.ask("past", "checkpoints", json!({})).status, 204, "nothing is new in it");
    fork(&daemon, "s", json!({"session_id": "now"}));
    assert_eq!(daemon.sh("now", "ls -A").out(), ".env\n.gitignore\na\nlate\nnode_modules\n");
}

/// What is ignored now was in the way of that moment's files, and stayed in the fork in their place, without a word.
#[test]
fn a_fork_of_the_past_has_the_files_of_then_where_others_are_ignored_now() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "echo original > data; mkdir -p d e; echo 1 > d/x; echo 1 > e/x; echo keep > keep");
    let early = seq(&daemon, "s");
    daemon.checkpoints("s");
    daemon.sh("s", "rm -r data d e");
    daemon.checkpoints("s");
    let ignored =
        "printf 'data\nd\ne\n' > .gitignore; echo other > data; ln -s e d; mkdir e; echo 2 > e/x; echo 2 > e/y";
    daemon.sh("s", ignored);
    daemon.checkpoints("s");
    let made = fork(&daemon, "s", json!({"session_id": "past", "at": early}));
    assert!(!made["notices"].to_string().contains("missing from this copy"), "{made}");
    assert_eq!(
        daemon.tree("past"),
        files(&[("d/x", "1\n"), ("data", "original\n"), ("e/x", "1\n"), ("keep", "keep\n")])
    );
    // Its origin is as it was.
    assert_eq!(daemon.sh("s", "cat data e/x; readlink d").out(), "other\n2\ne\n");
}

/// A later version of a file that was too large to be saved at a moment is not shown as that moment's.
#[test]
fn a_fork_of_the_past_says_what_was_not_saved_then() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "truncate -s 34M model.bin; echo 1 > other");
    let early = seq(&daemon, "s");
    daemon.checkpoints("s");
    daemon.sh("s", "echo small > model.bin; echo 2 > other");
    daemon.checkpoints("s");
    let made = fork(&daemon, "s", json!({"session_id": "past", "at": early}));
    assert!(made["notices"].to_string().contains("model.bin (it was there at that moment"), "{made}");
    assert_eq!(daemon.tree("past"), files(&[("model.bin", "small\n"), ("other", "1\n")]));
}

#[test]
fn a_fork_is_made_while_directories_come_and_go() {
    let daemon = Daemon::start();
    daemon.create("s");
    let churn = "while :; do mkdir -p t/a t/b; echo 1 > t/a/f; echo 2 > t/b/f; rm -rf t; done";
    daemon.start_service("s", json!({"command": churn}));
    for number in 0..12 {
        fork(&daemon, "s", json!({"session_id": format!("f{number}")}));
    }
}

/// An undo took the keys that a fork has from its origin for the fork's first change, and removed them all.
#[test]
fn what_a_fork_begins_with_is_not_undone() {
    let daemon = Daemon::start();
    daemon.create("s");
    let put = |session: &str, key: &str, value: &str| {
        let mut request = Request::new("PUT", &format!("/v1/sessions/{session}/kv/{key}"));
        request.body = value.into();
        let answer = daemon.send(&request);
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    let keys = |session: &str| ["plan", "other"].map(|key| daemon.at(session, &format!("kv/{key}")).text());
    put("s", "plan", "v1");
    put("s", "other", "v1");
    let saved = Request::new("PUT", "/v1/sessions/s/agent_state").json(r#"{"step":1}"#);
    assert_eq!(daemon.send(&saved).status / 100, 2);
    daemon.sh("s", "echo one > a");
    fork(&daemon, "s", json!({"session_id": "f"}));
    let undo = daemon.ask("f", "rewind", json!({"to": "undo"}));
    assert_eq!(undo.status / 100, 4, "{}", undo.text());
    assert!(undo.text().contains("nothing to undo"), "{}", undo.text());
    put("f", "plan", "v2");
    daemon.rewind_to("f", json!("undo"));
    assert_eq!(keys("f"), ["v1", "v1"]);
    daemon.rewind_to("f", json!("redo"));
    assert_eq!(keys("f"), ["v2", "v1"]);
    daemon.sh("f", "echo two > a");
    daemon.rewind_to("f", json!(1));
    assert_eq!(keys("f"), ["v1", "v1"]);
    assert_eq!(daemon.tree("f"), files(&[("a", "one\n")]));
    assert_eq!(daemon.at("f", "agent_state").json(), json!({"step": 1}));
    assert_eq!(keys("s"), ["v1", "v1"]);
}

/// The directory of a session began with its workspace and went up from there; the fork then worked in the workspace of a
/// session that happened to have the name.
#[test]
fn a_fork_never_works_in_the_files_of_another_session() {
    let daemon = Daemon::start();
    daemon.create("victim");
    daemon.sh("victim", "echo private > secret");
    let place = tempfile::tempdir().unwrap();
    let [project, outside] = ["proj", "victim"].map(|name| place.path().join(name));
    std::fs::create_dir(&project).unwrap();
    std::fs::create_dir(&outside).unwrap();
    let config = json!({"workspace": project});
    let made = daemon.create_with(json!({
        "session_id": "up", "cwd": project.join("../victim"), "config": config
    }));
    assert_eq!(made["cwd"], json!(outside), "{made}");
    assert_eq!(daemon.sh("up", "pwd").out(), format!("{}\n", outside.display()));
    // A link does the same, whatever its path begins with.
    std::os::unix::fs::symlink("../victim", project.join("link")).unwrap();
    daemon.create_with(json!({"session_id": "linked", "cwd": project.join("link"), "config": config}));
    daemon.create_with(json!({"session_id": "inside", "cwd": project.join("link/.."), "config": config}));
    for session in ["up", "linked"] {
        let answer = daemon.ask(session, "fork", json!({"session_id": format!("{session}-fork")}));
        assert_eq!(answer.refused(), (409, "files_not_apart".to_owned()), "{}", answer.text());
        assert_eq!(daemon.get(&format!("/v1/sessions/{session}-fork")).status, 404);
    }
    let made = fork(&daemon, "inside", json!({"session_id": "apart"}));
    assert_eq!(made["cwd"], made["workspace"], "{made}");
    assert_eq!(daemon.tree("victim"), files(&[("secret", "private\n")]));
}
