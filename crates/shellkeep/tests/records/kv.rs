//! The keyed store of a session: versions, batches, scans; what a rewind, a fork, a scrub and a killed daemon leave of it.

use super::support::{Daemon, Request, Response, Settings};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

fn at(method: &str, rest: &str) -> Request {
    Request::new(method, &format!("/v1/sessions/s/{rest}"))
}

fn put(daemon: &Daemon, key: &str, bytes: &[u8]) -> Value {
    let mut request = at("PUT", &format!("kv/{key}"));
    request.body = bytes.to_vec();
    let answer = daemon.send(&request);
    assert_eq!(answer.status, 200, "{key}: {}\n{}", answer.text(), daemon.log());
    answer.json()
}

fn get(daemon: &Daemon, key: &str) -> Response {
    daemon.send(&at("GET", &format!("kv/{key}")))
}

fn batch(daemon: &Daemon, ops: Value) -> Response {
    daemon.post("/v1/sessions/s/kv", &json!({"ops": ops}))
}

fn op(key: &str, value: &str) -> Value {
    json!({"op": "put", "key": key, "value_base64": STANDARD.encode(value)})
}

/// All keys with their values.
fn all(daemon: &Daemon) -> BTreeMap<String, String> {
    let (mut found, mut after) = (BTreeMap::new(), String::new());
    loop {
        let page = daemon.get(&format!("/v1/sessions/s/kv?values=true&limit=3&after={after}")).json();
        for entry in page["kv"].as_array().unwrap() {
            let bytes = STANDARD.decode(entry["value_base64"].as_str().unwrap()).unwrap();
            found.insert(entry["key"].as_str().unwrap().to_owned(), String::from_utf8(bytes).unwrap());
        }
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => return found,
        }
    }
}

fn content(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn rewind(daemon: &Daemon, to: &Value) -> Value {
    let answer = daemon.post("/v1/sessions/s/rewind", &json!({"to": to}));
    assert_eq!(answer.status, 200, "{}\n{}", answer.text(), daemon.log());
    answer.json()
}

fn is_intact(daemon: &Daemon) -> Value {
    let verdict = daemon.post("/v1/sessions/s/verify", &json!({})).json();
    assert_eq!(verdict["intact"], json!(true), "{verdict}");
    verdict
}

#[test]
fn a_value_has_a_version_and_a_type() {
    let daemon = Daemon::start();
    daemon.create("s");
    assert_eq!(get(&daemon, "none").refused(), (404, "key_not_found".to_owned()));
    let mut request = at("PUT", "kv/a/b%20%C3%BC").header("content-type", "text/x-own; charset=utf-8");
    request.body = b"\0\xffbytes".to_vec();
    let first = daemon.send(&request);
    assert_eq!((first.status, &first.json()["key"]), (200, &json!("a/b ü")), "{}", first.text());
    let version = first.json()["version"].as_u64().unwrap();
    let read = get(&daemon, "a/b%20%C3%BC");
    assert_eq!(
        (read.body.as_slice(), read.header("content-type")),
        (b"\0\xffbytes".as_slice(), Some("text/x-own; charset=utf-8"))
    );
    assert_eq!(
        (read.header("etag"), first.header("etag")),
        (Some(format!("\"{version}\"").as_str()), read.header("etag"))
    );
    let with = |name: &str, value: &str| {
        let mut request = at("PUT", "kv/a/b%20%C3%BC").header(name, value);
        request.body = b"new".to_vec();
        daemon.send(&request)
    };
    let there = with("if-none-match", "*");
    assert_eq!((there.refused(), &there.json()["version"]), ((412, "version_conflict".to_owned()), &json!(version)));
    assert_eq!(with("if-match", "\"999\"").status, 412);
    assert_eq!(with("if-match", "nonsense").status, 400);
    // Valid for the agent's state, and a 400 here.
    let none = daemon.send(&at("PUT", "kv/none").header("if-match", "*"));
    assert_eq!((none.refused(), &none.json()["version"]), ((412, "version_conflict".to_owned()), &json!(0)));
    assert_eq!(daemon.send(&at("DELETE", "kv/none").header("if-match", "*")).status, 412);
    // Who has the value was sent it again.
    let known = daemon.send(&at("GET", "kv/a/b%20%C3%BC").header("if-none-match", &format!("\"{version}\"")));
    assert_eq!((known.status, known.body.len()), (304, 0));
    let second = with("if-match", &format!("\"{version}\""));
    assert!(second.json()["version"].as_u64().unwrap() > version, "{}", second.text());
    assert_eq!(with("if-match", "*").status, 200);
    let gone = daemon.send(&at("DELETE", "kv/a/b%20%C3%BC").header("if-match", &format!("\"{version}\"")));
    assert_eq!(gone.status, 412, "{}", gone.text());
    assert_eq!(daemon.send(&at("DELETE", "kv/a/b%20%C3%BC")).status, 204);
    assert_eq!(daemon.send(&at("DELETE", "kv/a/b%20%C3%BC")).status, 204, "a repeated delete is no error");
    assert_eq!(get(&daemon, "a/b%20%C3%BC").status, 404);
    for (wrong, status) in
        [("kv/%00", 400), ("kv/%0A", 400), (&*format!("kv/{}", "x".repeat(513)), 400), ("kv/%FF", 400)]
    {
        assert_eq!(daemon.send(&at("PUT", wrong)).status, status, "{wrong}");
    }
    put(&daemon, &"x".repeat(512), b"");
    assert_eq!(get(&daemon, &"x".repeat(512)).body, b"");
}

#[test]
fn a_batch_is_made_as_a_whole_or_not_at_all() {
    let daemon = Daemon::start();
    daemon.create("s");
    let made = batch(&daemon, json!([op("a", "1"), op("b", "2"), op("c/1", "3"), op("c/2", "4")]));
    assert_eq!(made.status, 200, "{}", made.text());
    let made = made.json();
    let hash = made["kv"][0]["sha256"].as_str().unwrap();
    let stale = json!([op("a", "new"), {"op": "delete", "key": "b", "if_version": 999}]);
    let conflict = batch(&daemon, stale);
    assert_eq!((conflict.refused(), &conflict.json()["key"]), ((412, "version_conflict".to_owned()), &json!("b")));
    let unknown = json!([op("a", "new"), {"op": "put", "key": "d", "sha256": "0".repeat(64)}]);
    assert_eq!(batch(&daemon, unknown).refused(), (404, "value_not_found".to_owned()));
    assert_eq!(all(&daemon), content(&[("a", "1"), ("b", "2"), ("c/1", "3"), ("c/2", "4")]));
    let known = json!([{"op": "put", "key": "copy", "sha256": hash, "if_version": 0}, {"op": "delete", "key": "b"}]);
    assert_eq!(batch(&daemon, known).status, 200);
    assert_eq!(all(&daemon), content(&[("a", "1"), ("c/1", "3"), ("c/2", "4"), ("copy", "1")]));
    let page = daemon.get("/v1/sessions/s/kv?prefix=c/&limit=1").json();
    assert_eq!((&page["kv"][0]["key"], &page["next"]), (&json!("c/1"), &json!("c/1")));
    assert_eq!(page["kv"][0].get("value_base64"), None);
    for wrong in [
        json!([]),
        json!([op("a", "1"), op("a", "2")]),
        json!([{"op": "put", "key": "a"}]),
        json!([{"op": "put", "key": "", "value_base64": ""}]),
        json!([{"op": "take", "key": "a"}]),
    ] {
        assert_eq!(batch(&daemon, wrong.clone()).refused(), (400, "invalid_request".to_owned()), "{wrong}");
    }
    is_intact(&daemon);
    // The recording has hashes and no values.
    let events = daemon.get("/v1/sessions/s/events?type=kv_changed").json();
    assert_eq!(events["events"][0]["data"]["changes"][0]["value"]["sha256"], json!(hash), "{events}");
}

#[test]
fn a_rewind_and_a_fork_take_the_store_along() {
    let daemon = Daemon::start();
    daemon.create("s");
    let before = daemon.sh("s", "echo one > f");
    let first = put(&daemon, "a", b"1");
    put(&daemon, "b", b"2");
    let second = batch(&daemon, json!([op("a", "3"), {"op": "delete", "key": "b"}, op("c", "4")])).json();
    let rewound = rewind(&daemon, &first["seq"]);
    assert_eq!(all(&daemon), content(&[("a", "1")]));
    let version = get(&daemon, "a").header("etag").unwrap().trim_matches('"').parse::<u64>().unwrap();
    assert!(version > second["version"].as_u64().unwrap(), "a version was used twice");
    rewind(&daemon, &rewound["undo"]);
    assert_eq!(all(&daemon), content(&[("a", "3"), ("c", "4")]));
    rewind(&daemon, &before.json["seq"]);
    assert_eq!(all(&daemon), content(&[]));
    rewind(&daemon, &second["seq"]);
    assert_eq!(all(&daemon), content(&[("a", "3"), ("c", "4")]));
    is_intact(&daemon);
    for (name, at, expected) in [
        ("past", first["seq"].clone(), content(&[("a", "1")])),
        ("now", Value::Null, content(&[("a", "3"), ("c", "4")])),
    ] {
        let mut body = json!({"session_id": name});
        if !at.is_null() {
            body["at"] = at;
        }
        let forked = daemon.post("/v1/sessions/s/fork", &body);
        assert_eq!(forked.status, 201, "{}", forked.text());
        let listed = daemon.get(&format!("/v1/sessions/{name}/kv?values=true")).json();
        let found: BTreeMap<String, String> = listed["kv"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| {
                let bytes = STANDARD.decode(entry["value_base64"].as_str().unwrap()).unwrap();
                (entry["key"].as_str().unwrap().to_owned(), String::from_utf8(bytes).unwrap())
            })
            .collect();
        assert_eq!(found, expected, "{name}");
        let verdict = daemon.post(&format!("/v1/sessions/{name}/verify"), &json!({})).json();
        assert_eq!(verdict["intact"], json!(true), "{verdict}");
    }
    // Both go their own way.
    let mut request = Request::new("PUT", "/v1/sessions/now/kv/a");
    request.body = b"theirs".to_vec();
    let theirs = daemon.send(&request).json();
    assert!(theirs["version"].as_u64() > Some(version), "{theirs}");
    assert_eq!(all(&daemon), content(&[("a", "3"), ("c", "4")]));
    // What a session had goes with it.
    let home = daemon.data().join("kv/past");
    assert!(home.exists());
    daemon.destroy("past");
    assert!(!home.exists());
}

/// At whatever point the daemon dies: what was answered is there, what was not recorded is not.
#[test]
fn a_killed_daemon_leaves_a_whole_store() {
    for (point, is_there) in [("kv_written", false), ("kv_recorded", true)] {
        let mut daemon = Daemon::with(Settings::default().env("SHELLKEEP_CRASH_AT", point));
        daemon.create("s");
        put(&daemon, "a", b"1");
        let mut request = at("POST", "kv");
        request.body = json!({"ops": [op("a", "2"), op("crash-here", "3")]}).to_string().into_bytes();
        assert!(request.send(&daemon.door()).is_err(), "{point}: it did not die");
        daemon.restart_with(Settings::default());
        let expected = if is_there { content(&[("a", "2"), ("crash-here", "3")]) } else { content(&[("a", "1")]) };
        assert_eq!(all(&daemon), expected, "{point}");
        put(&daemon, "b", b"4");
        assert_eq!(get(&daemon, "b").body, b"4");
        is_intact(&daemon);
    }
}

#[test]
fn a_rewind_that_was_cut_off_is_completed() {
    let mut daemon = Daemon::with(Settings::default().env("SHELLKEEP_CRASH_AT", "kv_rewound"));
    daemon.create_with(json!({"session_id": "crash-here"}));
    let write = |daemon: &Daemon, bytes: &[u8]| {
        let mut request = Request::new("PUT", "/v1/sessions/crash-here/kv/a");
        request.body = bytes.to_vec();
        daemon.send(&request).json()
    };
    let first = write(&daemon, b"1");
    write(&daemon, b"2");
    let back = Request::new("POST", "/v1/sessions/crash-here/rewind").json(json!({"to": first["seq"]}).to_string());
    assert!(back.send(&daemon.door()).is_err(), "it did not die");
    daemon.restart_with(Settings::default());
    assert_eq!(daemon.get("/v1/sessions/crash-here/kv/a").body, b"1");
    let verdict = daemon.post("/v1/sessions/crash-here/verify", &json!({})).json();
    assert_eq!(verdict["intact"], json!(true), "{verdict}");
}

#[test]
fn a_secret_is_masked_in_values_and_the_store_still_verifies() {
    let daemon = Daemon::start();
    daemon.create("s");
    let first = put(&daemon, "a", b"my horse-battery-staple here");
    put(&daemon, "a", b"clean");
    put(&daemon, "b", b"horse-battery-staple");
    let report = daemon.post("/v1/sessions/s/scrub", &json!({"secret": "horse-battery-staple"}));
    assert_eq!(report.status, 200, "{}", report.text());
    assert!(report.text().contains("kv/b"), "{}", report.text());
    assert_eq!(all(&daemon), content(&[("a", "clean"), ("b", "***")]));
    is_intact(&daemon);
    rewind(&daemon, &first["seq"]);
    assert_eq!(all(&daemon)["a"], "my *** here");
    is_intact(&daemon);
}

/// Changes a byte of a value on disk.
fn damage(daemon: &Daemon) {
    let path = daemon.data().join("kv/s/kv.sqlite");
    let mut bytes = std::fs::read(&path).unwrap();
    let place = bytes.windows(21).position(|part| part == b"a value to be damaged").expect("the value is in the file");
    bytes[place] = b'A';
    std::fs::write(&path, bytes).unwrap();
}

/// A byte of a value that changes on disk is found, and is not served.
#[test]
fn damage_is_found() {
    let mut daemon = Daemon::start();
    daemon.create("s");
    put(&daemon, "a", b"a value to be damaged");
    put(&daemon, "b", b"another");
    is_intact(&daemon);
    daemon.stop();
    // `verify` of the directory said that it was intact.
    let of_files = |daemon: &Daemon| {
        let mut verify = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
        let verified = verify.arg("verify").arg(daemon.data().join("sessions/s")).output().unwrap();
        (verified.status.code(), String::from_utf8(verified.stdout).unwrap())
    };
    assert_eq!(of_files(&daemon).0, Some(0), "{}", of_files(&daemon).1);
    damage(&daemon);
    let (code, told) = of_files(&daemon);
    assert!(code == Some(1) && told.contains("kv.sqlite: the value of 'a' is damaged"), "{told}");
    daemon.restart_with(Settings::default());
    assert_eq!(get(&daemon, "a").refused(), (500, "value_damaged".to_owned()));
    assert_eq!(get(&daemon, "b").body, b"another");
    let verdict = daemon.post("/v1/sessions/s/verify", &json!({})).json();
    assert_eq!((&verdict["intact"], &verdict["bad"]["file"]), (&json!(false), &json!("kv.sqlite")), "{verdict}");
}

/// A rewind that changed only a type, or could not bring a value back, was taken for damage; what it could not bring back
/// was forgotten when the daemon died.
#[test]
fn a_rewind_without_all_values_says_so_and_still_verifies() {
    let mut daemon = Daemon::with(Settings::default().env("SHELLKEEP_KV_BYTES_PER_SESSION", "1000"));
    daemon.create("s");
    let typed = |content_type: &str| {
        let mut request = at("PUT", "kv/typed").header("content-type", content_type);
        request.body = b"same".to_vec();
        assert_eq!(daemon.send(&request).status, 200);
    };
    typed("text/plain");
    let first = put(&daemon, "a", &[b'0'; 600]);
    typed("text/html");
    put(&daemon, "a", &[b'1'; 600]);
    put(&daemon, "a", &[b'2'; 600]);
    rewind(&daemon, &first["seq"]);
    assert_eq!(get(&daemon, "typed").header("content-type"), Some("text/plain"));
    assert_eq!(get(&daemon, "a").body, [b'2'; 600]);
    is_intact(&daemon);
    daemon.kill();
    daemon.restart();
    is_intact(&daemon);
    let next = daemon.sh("s", "true");
    let told = next.notice_text();
    assert!(told.contains("The values of 1 keys at that moment were removed"), "{told}");
}

/// A fork without a key whose value is damaged did not say so.
#[test]
fn a_fork_says_which_keys_it_lacks() {
    let mut daemon = Daemon::start();
    daemon.create("s");
    put(&daemon, "a", b"a value to be damaged");
    put(&daemon, "b", b"another");
    daemon.stop();
    damage(&daemon);
    daemon.restart_with(Settings::default());
    let fork = daemon.post("/v1/sessions/s/fork", &json!({"session_id": "copy"}));
    assert_eq!(fork.status, 201, "{}", fork.text());
    assert!(fork.text().contains("1 keys are not in this copy ('a' first)"), "{}", fork.text());
    assert_eq!(daemon.get("/v1/sessions/copy/kv/b").body, b"another");
    assert_eq!(daemon.get("/v1/sessions/copy/kv/a").status, 404);
}

/// A daemon that died after it masked the values and before it recorded that left a store that never verified again: the
/// next scrub found nothing to record.
#[test]
fn a_scrub_that_was_cut_off_can_be_repeated() {
    let mut daemon = Daemon::with(Settings::default().env("SHELLKEEP_CRASH_AT", "kv_scrubbed"));
    daemon.create("crash-here");
    let to = |method: &str, rest: &str| Request::new(method, &format!("/v1/sessions/crash-here/{rest}"));
    let mut write = to("PUT", "kv/a");
    write.body = b"my horse-battery-staple here".to_vec();
    assert_eq!(daemon.send(&write).status, 200);
    let scrub = to("POST", "scrub").json(json!({"secret": "horse-battery-staple"}).to_string());
    assert!(scrub.send(&daemon.door()).is_err(), "it did not die");
    daemon.restart_with(Settings::default());
    let intact = |daemon: &Daemon| daemon.post("/v1/sessions/crash-here/verify", &json!({})).json();
    assert!(intact(&daemon)["bad"]["reason"].to_string().contains("scrub again"), "{}", intact(&daemon));
    assert_eq!(daemon.send(&to("GET", "kv/a")).body, b"my *** here");
    assert_eq!(daemon.send(&scrub).status, 200);
    assert_eq!(intact(&daemon)["intact"], json!(true), "{}", intact(&daemon));
    daemon.kill();
    daemon.restart();
    assert_eq!(intact(&daemon)["intact"], json!(true), "{}", intact(&daemon));
}

#[test]
fn a_quota_holds_and_old_values_give_way() {
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_KV_BYTES_PER_SESSION", "1000"));
    daemon.create("s");
    put(&daemon, "kept", b"small");
    for round in 0..5 {
        put(&daemon, "a", format!("{round}{}", "x".repeat(600)).as_bytes());
    }
    let mut request = at("PUT", "kv/b");
    request.body = vec![b'y'; 500];
    let full = daemon.send(&request);
    assert_eq!(full.refused(), (429, "quota_exceeded".to_owned()), "{}", full.text());
    assert_eq!((&full.json()["quota"], &full.json()["limit"]), (&json!("kv_bytes_per_session"), &json!(1000)));
    assert_eq!(daemon.send(&at("DELETE", "kv/a")).status, 204);
    assert_eq!(daemon.send(&request).status, 200);
    assert_eq!(get(&daemon, "kept").body, b"small");
}

#[test]
fn the_store_is_used_from_the_command_line() {
    let daemon = Daemon::start();
    daemon.create("s");
    let program = |args: &[&str], input: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
        command.arg("kv").args(["--no-start", "--socket"]).arg(daemon.directory().join("s.sock")).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that reads nothing may be gone by now.
        let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes());
        let done = child.wait_with_output().unwrap();
        (done.status.code(), String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap())
    };
    let (code, out, err) = program(&["put", "s", "plan", "--content-type", "text/plain"], "to do");
    assert_eq!((code, out.as_str()), (Some(0), "plan: 5 B, version 1\n"), "{err}");
    assert_eq!(program(&["get", "s", "plan"], "").1, "to do");
    assert!(program(&["ls", "s", "--prefix", "pl"], "").1.contains("text/plain"));
    let (code, _, err) = program(&["put", "s", "plan", "--if-version", "7"], "x");
    assert_eq!((code, err.contains("version 1")), (Some(1), true), "{err}");
    assert_eq!(program(&["rm", "s", "plan"], "").0, Some(0));
    let (code, _, err) = program(&["get", "s", "plan"], "");
    assert_eq!((code, err.contains("shellkeep kv ls")), (Some(1), true), "{err}");
}

/// Any sequence of batches, rewinds and kills leaves what a map in memory has.
#[test]
fn a_random_history_with_kills_is_that_of_a_map() {
    let mut daemon = Daemon::start();
    daemon.create("s");
    let mut random = Random(0x5eed);
    let mut map: BTreeMap<String, String> = BTreeMap::new();
    // Moments, with what there was: the first is before anything.
    let mut past = vec![(json!(1), map.clone())];
    for round in 0..60 * super::support::soak() {
        match random.below(10) {
            0 => {
                daemon.kill();
                daemon.restart();
            }
            1 => {
                let (seq, then) = past[random.below(past.len())].clone();
                map = then;
                let rewound = rewind(&daemon, &seq);
                past.push((rewound["seq"].clone(), map.clone()));
            }
            _ => {
                let mut ops: BTreeMap<String, Value> = BTreeMap::new();
                for _ in 0..=random.below(4) {
                    let key = format!("k{}", random.below(6));
                    let change = match random.below(4) {
                        0 => json!({"op": "delete", "key": key}),
                        _ => op(&key, &format!("value {}", random.below(8))),
                    };
                    ops.insert(key, change);
                }
                let made = batch(&daemon, json!(ops.values().collect::<Vec<_>>()));
                assert_eq!(made.status, 200, "round {round}: {}", made.text());
                for (key, change) in &ops {
                    match change["value_base64"].as_str() {
                        Some(value) => {
                            let value = String::from_utf8(STANDARD.decode(value).unwrap()).unwrap();
                            map.insert(key.clone(), value);
                        }
                        None => drop(map.remove(key)),
                    }
                }
                past.push((made.json()["seq"].clone(), map.clone()));
            }
        }
        assert_eq!(all(&daemon), map, "round {round}");
    }
    is_intact(&daemon);
}

/// Numbers that look random and are the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}
