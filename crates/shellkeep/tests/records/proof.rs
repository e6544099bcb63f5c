//! A record that can be believed: whoever changes anything of a recorded session is found out, also with the key of the
//! data directory, as long as the signing key is not among what he has.

use super::support::{Daemon, Settings, bash};
use super::tools::Records as _;
use serde_json::{Value, json};
use shellkeep_record::{Hash, Key, Line, PublicKey, SessionKey, Signer, chain, unsigned};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Single changes that are tried; `make soak` tries more.
const CHANGES: u64 = 150;

/// The program, without a daemon.
fn program(args: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.args(args).env_clear().envs(bash::environment()).current_dir(directory);
    command.output().expect("the program runs")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn public_key(daemon: &Daemon) -> String {
    fs::read_to_string(daemon.data().join("sign.pub")).unwrap().trim().to_owned()
}

/// A session with everything that a recording can have, on a daemon that keeps its signing key elsewhere.
fn lived() -> Daemon {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("elsewhere.key");
    let settings =
        Settings::default().set("--record-signing-key", key.to_str().unwrap()).set("--record-segment-bytes", "6000");
    let daemon = Daemon::on(directory, settings);
    daemon.create("demo");
    daemon.sh("demo", "TOKEN=horse-battery-staple; echo $TOKEN; cd /tmp");
    daemon.sh("demo", "seq 1 30000; seq 1 30000 >&2");
    daemon.sh("demo", "seq 1 20000; echo horse-battery-staple; seq 1 20000");
    for round in 0..20 {
        daemon.sh("demo", &format!("export ROUND={round}; echo {round}"));
    }
    daemon.note("demo", "llm_call", json!({"prompt": "p", "response": "r"}));
    daemon.say("demo", "user", "hello");
    for byte in [b'a', b'b'] {
        assert!(daemon.save("demo", &[], &vec![byte; 100_000]).status < 300);
    }
    let scrubbed = daemon.post("/v1/sessions/demo/scrub", &json!({"secret": "horse-battery-staple"}));
    assert_eq!(scrubbed.status, 200, "{}", scrubbed.text());
    daemon.sh("demo", "echo after");
    let verdict = daemon.verdict("demo");
    assert_eq!(verdict["intact"], json!(true), "{verdict}\n{}", daemon.log());
    assert!(verdict["files"].as_u64().unwrap() >= 6 && verdict["key_is_known"] == json!(true), "{verdict}");
    daemon
}

/// Files of the session, and their bytes.
fn files_of(data: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for directory in ["sessions/demo", "outputs/demo"] {
        for entry in fs::read_dir(data.join(directory)).unwrap() {
            let path = entry.unwrap().path();
            files.push((path.clone(), fs::read(path).unwrap()));
        }
    }
    files.sort();
    files
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit.max(1) as u64).unwrap()
    }
}

fn lines_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.split_inclusive(|byte| *byte == b'\n').map(Vec::from).collect()
}

/// The key that proves the session's lines, which a thief of the data directory has.
fn session_key(data: &Path) -> SessionKey {
    let text = fs::read_to_string(data.join("record.key")).unwrap();
    Key(Hash::parse(text.trim()).unwrap().0).of(&shellkeep_session::SessionId::parse("demo").unwrap())
}

/// Changes one line and makes all hashes anew.
fn forge(files: &[(PathBuf, Vec<u8>)], key: &SessionKey, dice: &mut Dice) {
    let is_lines = |path: &Path| path.file_name().unwrap().to_string_lossy().starts_with("events");
    let mut segments: Vec<(PathBuf, Vec<Line>)> = files
        .iter()
        .filter(|(path, _)| is_lines(path))
        .map(|(path, bytes)| {
            let lines = lines_of(bytes);
            (path.clone(), lines.iter().map(|line| Line::parse(line.trim_ascii_end()).unwrap()).collect())
        })
        .collect();
    segments.sort_by_key(|(_, lines): &(PathBuf, Vec<Line>)| lines[0].seq);
    let wanted = dice.below(segments.iter().map(|(_, lines)| lines.len()).sum());
    let (mut before, mut count) = (Hash::NONE, 0);
    for (path, lines) in &mut segments {
        let mut bytes = Vec::new();
        for line in lines.iter_mut() {
            if count == wanted {
                line.data["forged"] = json!(true);
            }
            count += 1;
            line.proof.hash = chain::hash(&before, line, Some(key)).unwrap();
            before = line.proof.hash;
            line.write_to(&mut bytes).unwrap();
        }
        fs::write(path, bytes).unwrap();
    }
}

/// One change; what it was.
fn change(files: &[(PathBuf, Vec<u8>)], data: &Path, dice: &mut Dice) -> String {
    let kind = dice.below(9);
    if kind >= 7 {
        forge(files, &session_key(data), dice);
        if kind == 8 {
            // Signed by whoever forged it.
            fs::remove_file(data.join("sessions/demo/heads.jsonl")).unwrap();
            unsigned::sign_old(&data.join("sessions"), &Signer::from_seed(&[9; 32])).unwrap();
        }
        return format!("forgery {kind}");
    }
    let (path, whole) = &files[dice.below(files.len())];
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let mut bytes = whole.clone();
    let place = dice.below(bytes.len());
    let mut lines = lines_of(whole);
    let line = dice.below(lines.len().saturating_sub(1));
    match kind {
        0 | 1 => bytes[place] ^= 1 << dice.below(8),
        2 => bytes.truncate(place),
        3 => bytes.insert(place, b'x'),
        4 => {
            lines.remove(line);
            bytes = lines.concat();
        }
        5 if lines.len() > 1 && lines[line] != lines[line + 1] => {
            lines.swap(line, line + 1);
            bytes = lines.concat();
        }
        _ => {
            fs::remove_file(path).unwrap();
            return format!("removal of {name}");
        }
    }
    fs::write(path, bytes).unwrap();
    format!("change {kind} of {name} at byte {place} or line {line}")
}

#[test]
fn every_single_change_of_a_recorded_session_is_found() {
    let mut daemon = lived();
    let key = public_key(&daemon);
    daemon.stop();
    let data = daemon.data();
    let directory = data.join("sessions/demo");
    let verify = || program(&["verify", "--key", &key, directory.to_str().unwrap()], daemon.directory());
    let intact = verify();
    assert!(intact.status.success(), "{}", text(&intact));
    let files = files_of(&data);
    let mut dice = Dice(0x5eed_0123_4567_89ab);
    for round in 0..CHANGES * super::support::soak() as u64 {
        let what = change(&files, &data, &mut dice);
        let found = verify();
        assert_eq!(found.status.code(), Some(1), "round {round}: {what} was not found: {}", text(&found));
        for (path, bytes) in &files {
            fs::write(path, bytes).unwrap();
        }
    }
    assert!(verify().status.success());
}

/// The daemon itself says so too, and neither signs what was forged nor serves what was changed.
#[test]
fn a_daemon_finds_what_was_changed_while_it_was_down() {
    let mut daemon = lived();
    daemon.stop();
    let data = daemon.data();
    let key = session_key(&data);
    forge(&files_of(&data), &key, &mut Dice(77));
    daemon.restart();
    daemon.sh("demo", "echo more");
    let verdict = daemon.verdict("demo");
    assert_eq!(verdict["intact"], json!(false), "{verdict}");
    assert!(verdict["bad"]["reason"].as_str().unwrap().contains("signing key"), "{verdict}");
    // All signatures gone, so that it looks like one from before there were any.
    daemon.stop();
    fs::remove_file(data.join("sessions/demo/heads.jsonl")).unwrap();
    daemon.restart();
    daemon.sh("demo", "echo more");
    assert_eq!(daemon.verdict("demo")["intact"], json!(false));
}

#[test]
fn an_output_that_was_changed_is_not_served() {
    let daemon = Daemon::start();
    daemon.create("s");
    let run = daemon.run("s", json!({"command": "seq 1 30000", "request_id": "once"}));
    let run_id = run.json["run_id"].as_str().unwrap().to_owned();
    assert!(daemon.save("s", &[], &[b'x'; 100_000]).status < 300);
    let output = || daemon.get(&format!("/v1/sessions/s/runs/{run_id}/output?limit=10"));
    assert_eq!(output().json()["text"], json!("1\n2\n3\n4\n5\n"));
    let path = daemon.data().join(format!("outputs/s/{run_id}.stdout"));
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("1\n2\n3", "9\n9\n9", 1)).unwrap();
    let refused = output();
    assert_eq!((refused.status, &refused.json()["code"]), (500, &json!("file_changed")), "{}", refused.text());
    let again = daemon.run("s", json!({"command": "seq 1 30000", "request_id": "once"}));
    assert!(again.json["stdout"].as_str().unwrap().contains("was changed after it was recorded"), "{}", again.json);
    let verdict = daemon.verdict("s");
    assert_eq!((&verdict["intact"], &verdict["bad"]["file"]), (&json!(false), &json!(format!("{run_id}.stdout"))));
    fs::write(&path, text).unwrap();
    assert_eq!(output().status, 200);
    assert_eq!(daemon.verdict("s")["intact"], json!(true));
    fs::write(daemon.data().join("outputs/s/agent_state.1"), [b'y'; 100_000]).unwrap();
    assert_eq!(daemon.get("/v1/sessions/s/agent_state").json()["code"], json!("agent_state_damaged"));
    let snapshot = daemon.data().join("sessions/s/config_snapshot.json");
    let bytes = fs::read_to_string(&snapshot).unwrap();
    fs::write(&snapshot, bytes.replacen("PATH", "HTAP", 1)).unwrap();
    assert_eq!(daemon.get("/v1/sessions/s/config_snapshot").json()["code"], json!("file_changed"));
}

/// Trial 5: thirty lines changed an event of an export and made the hashes anew, and `verify` said intact.
#[test]
fn a_forged_export_does_not_verify() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "echo true words");
    let export = daemon.get("/v1/sessions/s/export");
    let file = daemon.directory().join("s.jsonl");
    fs::write(&file, &export.body).unwrap();
    let (path, data) = (file.to_str().unwrap(), daemon.data());
    let at_home = ["verify", "--data", data.to_str().unwrap(), path];
    let elsewhere = ["verify", "--data", "/nowhere", path];
    assert_eq!(program(&at_home, daemon.directory()).status.code(), Some(0));
    let unknown = program(&elsewhere, daemon.directory());
    assert_eq!(unknown.status.code(), Some(3), "{}", text(&unknown));
    assert!(text(&unknown).contains("not known here"), "{}", text(&unknown));
    let key = public_key(&daemon);
    assert_eq!(
        program(&["key", "--data", data.to_str().unwrap()], daemon.directory()).stdout,
        format!("{key}\n").into_bytes()
    );
    let as_json = program(&["key", "--json", "--data", data.to_str().unwrap()], daemon.directory());
    assert_eq!(serde_json::from_slice::<Value>(&as_json.stdout).unwrap(), json!({"key": key}));
    assert_eq!(program(&[&elsewhere[..], &["--key", &key]].concat(), daemon.directory()).status.code(), Some(0));
    let other = PublicKey([1; 32]).to_string();
    assert_eq!(program(&[&elsewhere[..], &["--key", &other]].concat(), daemon.directory()).status.code(), Some(1));
    // The forger's thirty lines.
    let mut before = Hash::NONE;
    let mut lines: Vec<Line> =
        lines_of(&export.body).iter().map(|line| Line::parse(line.trim_ascii_end()).unwrap()).collect();
    for line in &mut lines {
        if line.event_type == "run_started" {
            line.data["command"] = json!("echo false words");
        }
        line.proof.hash = chain::hash(&before, line, None).unwrap();
        before = line.proof.hash;
    }
    for strip in [false, true] {
        let head = lines[0].proof.head.as_mut().unwrap();
        head.hash = before;
        if strip {
            lines[0].proof.signed = None;
        }
        let mut bytes = Vec::new();
        lines.iter().for_each(|line| line.write_to(&mut bytes).unwrap());
        fs::write(&file, bytes).unwrap();
        for args in [&at_home, &elsewhere] {
            let found = program(args, daemon.directory());
            assert_eq!(found.status.code(), Some(1), "{}", text(&found));
        }
    }
}

/// V6: what the database has and neither journal nor recording.
#[test]
fn what_a_power_cut_took_from_the_journal_is_declared() {
    let settings = Settings::default().set("--durability", "power");
    let mut daemon = Daemon::with(settings);
    daemon.create("s");
    daemon.sh("s", "n=1");
    let before = daemon.events("s").len() as u64;
    daemon.verdict("s");
    let (data, kept) = (daemon.data(), daemon.directory().join("kept"));
    fs::create_dir(&kept).unwrap();
    for name in ["journal", "sessions"] {
        copy(&data.join(name), &kept.join(name));
    }
    daemon.sh("s", "n=2");
    daemon.sh("s", "n=3");
    // The database has it all.
    assert!(daemon.get("/v1/sessions/s").json()["seq"].as_u64().unwrap() > before);
    assert_eq!(daemon.get("/v1/sessions").status, 200);
    daemon.kill();
    for name in ["journal", "sessions"] {
        fs::remove_dir_all(data.join(name)).unwrap();
        copy(&kept.join(name), &data.join(name));
    }
    daemon.restart();
    assert_eq!(daemon.sh("s", "echo $n").json["stdout"], json!("3\n"));
    let verdict = daemon.verdict("s");
    assert_eq!(verdict["intact"], json!(true), "{verdict}\n{}", daemon.log());
    let hole = &verdict["holes"][0];
    assert_eq!((&hole["declared"], hole["from"].as_u64()), (&json!(true), Some(before + 1)), "{verdict}");
    let after = hole["through"].as_u64().unwrap() + 1;
    daemon.sh("s", "n=9");
    let rewound = daemon.post("/v1/sessions/s/rewind", &json!({"to": after}));
    assert_eq!(rewound.status, 200, "{}", rewound.text());
    assert_eq!(daemon.sh("s", "echo $n").json["stdout"], json!("3\n"));
    let forked = daemon.post("/v1/sessions/s/fork", &json!({"session_id": "f", "at": after}));
    assert!(forked.status < 300, "{}", forked.text());
    assert_eq!(daemon.sh("f", "echo $n").json["stdout"], json!("3\n"));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Heads that were put elsewhere tell of a directory that was set back as a whole.
#[test]
fn anchors_tell_of_a_directory_that_was_set_back() {
    let directory = tempfile::tempdir().unwrap();
    let anchors = directory.path().join("anchors");
    let settings =
        Settings::default().set("--record-anchor", anchors.to_str().unwrap()).set("--record-anchor-interval", "1s");
    let mut daemon = Daemon::on(directory, settings);
    daemon.create("s");
    daemon.sh("s", "echo one");
    daemon.stop();
    let kept = daemon.directory().join("kept");
    copy(&daemon.data(), &kept);
    daemon.restart();
    daemon.sh("s", "rm -rf evidence");
    daemon.stop();
    let check = |data: &Path| {
        let session = data.join("sessions/s");
        let args = ["verify", "--anchors", anchors.to_str().unwrap(), session.to_str().unwrap()];
        program(&args, daemon.directory())
    };
    let right = check(&daemon.data());
    assert_eq!(right.status.code(), Some(0), "{}", text(&right));
    let set_back = check(&kept);
    assert_eq!(set_back.status.code(), Some(1), "{}", text(&set_back));
    assert!(text(&set_back).contains("is missing"), "{}", text(&set_back));
    // The daemon's own word is compared too.
    daemon.restart();
    let socket = daemon.directory().join("s.sock");
    let args =
        ["verify", "--anchors", anchors.to_str().unwrap(), "--no-start", "--socket", socket.to_str().unwrap(), "s"];
    let asked = program(&args, daemon.directory());
    assert_eq!(asked.status.code(), Some(0), "{}", text(&asked));
}

/// A hook that refuses is counted, holds nobody up, and gets everything once it takes it.
#[test]
fn a_hook_that_fails_holds_nobody_up() {
    use std::io::{Read as _, Write as _};
    let hook = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/heads", hook.local_addr().unwrap());
    let settings = Settings::default().set("--record-anchor", &url).set("--record-anchor-interval", "1s");
    let daemon = Daemon::with(settings);
    daemon.create("s");
    daemon.sh("s", "echo one");
    let answer = |status: &str| -> String {
        let (mut stream, _) = hook.accept().unwrap();
        let mut request = Vec::new();
        let mut chunk = [0; 4096];
        while !String::from_utf8_lossy(&request).trim_end().ends_with('}') {
            let read = stream.read(&mut chunk).unwrap();
            request.extend_from_slice(&chunk[..read]);
        }
        write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").unwrap();
        String::from_utf8(request).unwrap()
    };
    answer("503 not now");
    let taken = answer("204 thanks");
    let body: Value = serde_json::from_str(taken.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(body["heads"][0]["session_id"], json!("s"), "{taken}");
    assert!(daemon.metric("shellkeep_record_anchor_failures_total") >= 1.0);
}
