//! Single files of a workspace: listed, read, written and removed over HTTP and the command line, beside a running command,
//! and brought back by a rewind.

use super::support::{Daemon, Request, Response, Settings};
use super::tools::{Files, files, program, text, told};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

fn content(method: &str, query: &str) -> Request {
    Request::new(method, &format!("/v1/sessions/s/files/content?{query}"))
}

fn put(daemon: &Daemon, query: &str, bytes: &[u8]) -> Response {
    let mut request = content("PUT", query);
    request.body = bytes.to_vec();
    daemon.send(&request)
}

fn written(daemon: &Daemon, query: &str, bytes: &[u8]) -> Value {
    let answer = put(daemon, query, bytes);
    assert!([200, 201].contains(&answer.status), "{query}: {}\n{}", answer.text(), daemon.log());
    answer.json()
}

#[test]
fn a_file_is_written_read_listed_and_removed() {
    let daemon = Daemon::start();
    daemon.create("s");
    let first = put(&daemon, "path=a/b/hello.txt", b"hello");
    assert_eq!((first.status, first.header("etag")), (201, Some(format!("\"{HELLO}\"").as_str())));
    let told = first.json();
    assert_eq!((&told["path"], &told["size"], &told["sha256"]), (&json!("a/b/hello.txt"), &json!(5), &json!(HELLO)));
    let read = daemon.send(&content("GET", "path=a/b/hello.txt"));
    assert_eq!(
        (read.status, read.body.as_slice(), read.header("etag")),
        (200, b"hello".as_slice(), first.header("etag"))
    );
    assert_eq!(read.header("content-type"), Some("application/octet-stream"));
    let workspace = daemon.cwd("s");
    let part = daemon.send(&content("GET", &format!("path={}/a/b/hello.txt&offset=1&limit=3", workspace.display())));
    assert_eq!(
        (part.body.as_slice(), part.header("etag"), part.header("x-file-size")),
        (b"ell".as_slice(), None, Some("5"))
    );
    assert_eq!(put(&daemon, "path=a/b/hello.txt&mode=0750", b"x").status, 200);
    symlink("b", workspace.join("a/link")).unwrap();
    fs::write(workspace.join("a/z"), "").unwrap();
    let listing = daemon.at("s", "files?path=a").json();
    let names: Vec<_> =
        listing["files"].as_array().unwrap().iter().map(|file| (&file["name"], &file["kind"])).collect();
    let expected =
        [("b", "directory"), ("link", "symlink"), ("z", "file")].map(|(name, kind)| (json!(name), json!(kind)));
    assert_eq!(names, expected.each_ref().map(|(name, kind)| (name, kind)));
    assert_eq!((&listing["file"]["kind"], &listing["files"][1]["target"]), (&json!("directory"), &json!("b")));
    assert_eq!((&listing["files"][2]["path"], &listing["next"]), (&json!("a/z"), &Value::Null));
    let one = daemon.at("s", "files?path=a/b/hello.txt").json();
    assert_eq!((&one["file"]["mode"], &one["file"]["size"], one.get("files")), (&json!("0750"), &json!(1), None));
    let page = daemon.at("s", "files?path=a&limit=2").json();
    assert_eq!((page["files"].as_array().unwrap().len(), &page["next"]), (2, &json!("link")));
    assert_eq!(daemon.at("s", "files?path=a&after=link").json()["files"][0]["name"], json!("z"));
    assert_eq!(daemon.send(&content("DELETE", "path=a")).refused(), (409, "directory_not_empty".to_owned()));
    let gone = daemon.send(&content("DELETE", "path=a&recursive=true"));
    assert_eq!((gone.status, &gone.json()["path"]), (200, &json!("a")), "{}", gone.text());
    assert!(!workspace.join("a").exists());
    assert_eq!(daemon.at("s", "files").json()["files"], json!([]));
}

/// New files had the permissions of the daemon's own files, which are private.
#[test]
fn a_new_file_has_the_umask_of_its_session() {
    let daemon = Daemon::start();
    daemon.create("s");
    for umask in ["022", "002", "027"] {
        daemon.sh("s", &format!("umask {umask}; mkdir made-{umask}; touch made-{umask}/f"));
        written(&daemon, &format!("path=put-{umask}/f"), b"x");
        let mode = |path: String| daemon.at("s", &format!("files?path={path}")).json()["file"]["mode"].clone();
        assert_eq!(mode(format!("put-{umask}")), mode(format!("made-{umask}")), "{umask}");
        assert_eq!(mode(format!("put-{umask}/f")), mode(format!("made-{umask}/f")), "{umask}");
    }
}

#[test]
fn what_cannot_be_done_is_refused_with_a_code() {
    let daemon = Daemon::start();
    daemon.create("s");
    let workspace = daemon.cwd("s");
    fs::write(daemon.directory().join("secret"), "outside").unwrap();
    symlink(daemon.directory().join("secret"), workspace.join("out")).unwrap();
    symlink("../..", workspace.join("up")).unwrap();
    fs::create_dir(workspace.join("d")).unwrap();
    daemon.sh("s", "mkfifo pipe; truncate -s 70000000 large; ln -s loop loop; ln -s nowhere dangling");
    let long: &str = &format!("path=p1/p2/{}", "n".repeat(300));
    daemon.sh("s", "mkdir -p p1/p2");
    for (method, query, expected) in [
        ("GET", "path=none", (404, "file_not_found")),
        ("GET", "path=d", (409, "is_directory")),
        ("GET", "path=pipe", (409, "not_a_file")),
        ("GET", "path=large", (413, "too_large")),
        ("GET", "path=out", (403, "path_outside")),
        ("GET", "path=../x", (403, "path_outside")),
        ("GET", "path=/etc/passwd", (403, "path_outside")),
        ("GET", "path=up/secret", (403, "path_outside")),
        ("GET", "", (400, "invalid_request")),
        ("GET", "path=a%00b", (400, "invalid_request")),
        ("GET", "path=d&what=1", (400, "invalid_request")),
        ("PUT", "path=out", (403, "path_outside")),
        ("PUT", "path=up/new", (403, "path_outside")),
        ("PUT", "path=d", (409, "is_directory")),
        ("PUT", "path=f&mode=999", (400, "invalid_request")),
        ("PUT", "path=f&mode=4755", (400, "invalid_request")),
        ("PUT", "path=.", (409, "is_directory")),
        ("PUT", "path=d/", (409, "is_directory")),
        // These made a file, whose name has no slash.
        ("PUT", "path=new/", (409, "is_directory")),
        ("PUT", "path=new/.", (409, "is_directory")),
        ("GET", "path=dangling", (404, "file_not_found")),
        ("PUT", "path=dangling", (404, "file_not_found")),
        ("PUT", "path=large/a/b", (409, "not_a_directory")),
        ("GET", "path=loop", (409, "link_loop")),
        ("PUT", "path=loop", (409, "link_loop")),
        ("GET", long, (400, "invalid_request")),
        ("PUT", long, (400, "invalid_request")),
        ("DELETE", long, (400, "invalid_request")),
        ("DELETE", "path=none", (404, "file_not_found")),
        ("DELETE", "path=.", (400, "invalid_request")),
        ("DELETE", "path=up/secret", (403, "path_outside")),
    ] {
        let (status, code) = daemon.send(&content(method, query)).refused();
        assert_eq!((status, code.as_str()), expected, "{method} {query}");
    }
    for (query, expected) in [("path=none", 404), ("path=up/w", 403), ("limit=0", 400), ("path=../..", 403)] {
        assert_eq!(daemon.at("s", &format!("files?{query}")).status, expected, "{query}");
    }
    let on_the_way = daemon.send(&content("PUT", "path=large/a/b")).json();
    assert!(on_the_way["detail"].as_str().unwrap().contains("'large' is not a directory"), "{on_the_way}");
    assert_eq!(daemon.at("s", &format!("files?{long}")).status, 400);
    // Of a link that is listed, it was said that there is no file of its name.
    let dangling = daemon.send(&content("PUT", "path=dangling")).json();
    assert!(dangling["detail"].as_str().unwrap().contains("a path that does not exist"), "{dangling}");
    assert!(!workspace.join("new").exists() && !workspace.join("nowhere").exists());
    let missing = daemon.send(&content("GET", "path=none")).json();
    assert!(missing["detail"].as_str().unwrap().contains("GET …/files?path="), "{missing}");
    assert_eq!(fs::read(daemon.directory().join("secret")).unwrap(), b"outside");
    assert_eq!(daemon.send(&content("GET", "path=large&offset=69999990")).body.len(), 10);
    // A body that is too long is refused before it is written.
    let mut huge = content("PUT", "path=huge").header("content-length", "70000000").header("expect", "100-continue");
    huge.body = Vec::new();
    assert_eq!(daemon.send(&huge).refused(), (413, "payload_too_large".to_owned()));
}

#[test]
fn a_file_is_written_only_if_it_is_what_the_caller_read() {
    let daemon = Daemon::start();
    daemon.create("s");
    let with = |name: &str, value: &str, bytes: &[u8]| {
        let mut request = content("PUT", "path=f").header(name, value);
        request.body = bytes.to_vec();
        daemon.send(&request)
    };
    assert_eq!(with("if-match", HELLO, b"x").refused(), (412, "precondition_failed".to_owned()));
    assert_eq!(with("if-none-match", "*", b"hello").status, 201);
    let there = with("if-none-match", "*", b"x");
    assert_eq!((there.status, &there.json()["sha256"]), (412, &json!(HELLO)), "{}", there.text());
    assert_eq!(with("if-match", &format!("\"{HELLO}\""), b"two").status, 200);
    assert_eq!(with("if-match", HELLO, b"three").status, 412);
    assert_eq!(with("if-match", "not a hash", b"three").status, 400);
    assert_eq!(daemon.tree("s"), files(&[("f", "two")]));
    // Valid for the agent's state, and a 400 here.
    assert_eq!(with("if-match", "*", b"hello").status, 200);
    let none = daemon.send(&content("PUT", "path=g").header("if-match", "*"));
    assert_eq!(none.refused(), (412, "precondition_failed".to_owned()));
    assert_eq!(daemon.tree("s"), files(&[("f", "hello")]));
    // Who has the file was sent it again.
    let read = |tag: &str| daemon.send(&content("GET", "path=f").header("if-none-match", tag));
    let same = read(&format!("\"other\", \"{HELLO}\""));
    assert_eq!((same.status, same.body.len(), same.header("etag")), (304, 0, Some(&*format!("\"{HELLO}\""))));
    assert_eq!((read("*").status, read("\"other\"").body), (304, b"hello".to_vec()));
}

/// A DELETE ignored its condition, so that a file was gone which its caller had not read.
#[test]
fn a_file_is_removed_only_if_it_is_what_the_caller_read() {
    let daemon = Daemon::start();
    daemon.create("s");
    written(&daemon, "path=f", b"hello");
    let with = |name: &str, value: &str| daemon.send(&content("DELETE", "path=f").header(name, value));
    let other = with("if-match", &format!("\"{}\"", "0".repeat(64)));
    assert_eq!(other.refused(), (412, "precondition_failed".to_owned()));
    assert_eq!(other.json()["sha256"], json!(HELLO), "{}", other.text());
    assert_eq!(with("if-none-match", "*").status, 412);
    assert_eq!(with("if-match", "not a hash").status, 400);
    assert_eq!(daemon.tree("s"), files(&[("f", "hello")]));
    assert_eq!(with("if-match", &format!("\"{HELLO}\"")).status, 200);
    let gone = with("if-match", &format!("\"{HELLO}\""));
    assert_eq!((gone.refused(), gone.json()["sha256"].clone()), ((412, "precondition_failed".to_owned()), json!(null)));
    assert_eq!(daemon.tree("s"), files(&[]));
}

/// The change is a tool call of the daemon's own, has a checkpoint, and is in the diff, the history and the rewind.
#[test]
fn a_written_file_is_recorded_kept_and_brought_back() {
    let daemon = Daemon::start();
    daemon.create("s");
    let first = written(&daemon, "path=f", b"one\n");
    let second = written(&daemon, "path=f", b"two\n");
    daemon.sh("s", "echo three > f; echo by-command > g");
    let removed = daemon.send(&content("DELETE", "path=g")).json();
    let kept = daemon.checkpoints("s");
    let causes: Vec<_> = kept.iter().map(|one| (&one["tool_name"], &one["covers"])).collect();
    assert_eq!(
        causes[..2],
        [(&json!("write_file"), &first["seq"]), (&json!("write_file"), &second["seq"])],
        "{kept:?}"
    );
    assert_eq!(causes[3], (&json!("remove_file"), &removed["seq"]), "{kept:?}");
    assert_eq!((&kept[0]["cause"], kept[0].get("run_id")), (&json!("tool"), None), "{kept:?}");
    let events = daemon.get("/v1/sessions/s/events?type=tool_call").json();
    let call = &events["events"][0];
    assert_eq!((&call["seq"], &call["source"]), (&first["seq"], &json!("runtime")), "{call}");
    assert_eq!((&call["data"]["tool_name"], &call["data"]["parameters"]["path"]), (&json!("write_file"), &json!("f")));
    assert_eq!(call["data"]["parameters"]["sha256"], first["sha256"]);
    assert!(!call.to_string().contains("one\\n"), "the content is in the record: {call}");
    let history = daemon.at("s", "files/history?path=f").json();
    assert_eq!(history["changes"].as_array().unwrap().len(), 3, "{history}");
    assert_eq!(history["changes"][0]["tool_name"], json!("write_file"));
    daemon.rewind_to("s", first["seq"].clone());
    assert_eq!(daemon.tree("s"), files(&[("f", "one\n")]));
    daemon.rewind_to("s", second["seq"].clone());
    assert_eq!(daemon.tree("s"), files(&[("f", "two\n")]));
    let verdict = daemon.ask("s", "verify", json!({})).json();
    assert_eq!(verdict["intact"], json!(true), "{verdict}");
}

/// What the host's directory held before the first change by a tool is kept, as before a first command.
#[test]
fn what_was_there_before_the_first_change_can_be_brought_back() {
    let daemon = Daemon::start();
    let project = daemon.directory().join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("f"), "theirs").unwrap();
    daemon.create_with(json!({"session_id": "s", "config": {"workspace": project}}));
    let change = written(&daemon, "path=f", b"ours");
    daemon.checkpoints("s");
    daemon.rewind_to("s", json!(change["seq"].as_u64().unwrap() - 1));
    assert_eq!(daemon.tree("s"), files(&[("f", "theirs")]));
}

#[test]
fn files_are_read_and_written_beside_a_running_command() {
    let daemon = Daemon::start();
    daemon.create("s");
    let before = daemon.sh("s", "mkfifo go; echo old > f");
    let run = daemon.run("s", json!({"command": "cat go; cat f; echo more >> f", "blocking": false, "timeout": 60}));
    let change = written(&daemon, "path=f", b"new\n");
    assert_eq!(daemon.send(&content("GET", "path=f")).body, b"new\n");
    fs::write(daemon.cwd("s").join("go"), "").unwrap();
    let ended = daemon.wait_run("s", run.run_id(), 60);
    assert_eq!((ended.out().as_str(), ended.status()), ("new\n", "exited"));
    assert!(ended.json["seq"].as_u64() > change["seq"].as_u64());
    daemon.checkpoints("s");
    daemon.rewind_to("s", before.json["seq"].clone());
    assert_eq!(daemon.send(&content("GET", "path=f")).body, b"old\n");
    daemon.rewind_to("s", ended.json["seq"].clone());
    assert_eq!(daemon.send(&content("GET", "path=f")).body, b"new\nmore\n");
}

/// A daemon that is killed right after its answer has not lost the change, nor what was there before it.
#[test]
fn a_written_file_survives_a_killed_daemon() {
    let mut daemon = Daemon::start();
    daemon.create("s");
    let first = written(&daemon, "path=f", b"one");
    let second = written(&daemon, "path=f", b"two");
    daemon.kill();
    daemon.restart_with(Settings::default());
    assert_eq!(daemon.send(&content("GET", "path=f")).body, b"two");
    let events = daemon.get("/v1/sessions/s/events?type=tool_call").json();
    assert_eq!(events["events"][1]["seq"], second["seq"], "{events}");
    daemon.rewind_to("s", first["seq"].clone());
    assert_eq!(daemon.send(&content("GET", "path=f")).body, b"one");
}

#[test]
fn files_are_handled_from_the_command_line() {
    let daemon = Daemon::start();
    daemon.create("s");
    fs::write(daemon.directory().join("local"), "from here\n").unwrap();
    let local = daemon.directory().join("local");
    let done = program(&daemon, &["files", "put", "s", "d/f", "--mode", "0700", "--from", local.to_str().unwrap()]);
    assert!(text(&done).starts_with("d/f: 10 B, record "), "{}", text(&done));
    assert_eq!(text(&program(&daemon, &["files", "cat", "s", "d/f", "--offset", "5"])), "here\n");
    let listed = text(&program(&daemon, &["files", "ls", "s", "d"]));
    assert!(listed.contains("0700") && listed.contains("f"), "{listed}");
    assert_eq!(told(&program(&daemon, &["files", "ls", "s", "--json"]))["files"][0]["name"], json!("d"));
    let full = program(&daemon, &["files", "rm", "s", "d"]);
    assert_eq!(full.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&full.stderr).contains("recursive"), "{full:?}");
    text(&program(&daemon, &["files", "rm", "s", "d", "--recursive"]));
    let none = program(&daemon, &["files", "cat", "s", "d/f"]);
    assert!(String::from_utf8_lossy(&none.stderr).contains("shellkeep files ls"), "{none:?}");
}
