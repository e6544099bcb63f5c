//! Looking, over HTTP: the list, one checkpoint, differences, past files, the history of a path, what it takes.

use super::support::{Daemon, Settings};
use super::tools::{Files, raw};
use serde_json::{Value, json};

#[test]
fn a_command_that_changes_files_leaves_a_checkpoint_and_another_does_not() {
    let daemon = Daemon::start();
    daemon.create("s");
    let first = daemon.sh("s", "echo one > a; mkdir d; echo two > d/b");
    let kept = daemon.checkpoints("s");
    assert_eq!(kept.len(), 1, "{kept:?}");
    let checkpoint = &kept[0];
    let name = checkpoint["checkpoint_id"].as_str().unwrap();
    assert!(name.starts_with("tool_run_command_2"), "{name}");
    assert_eq!((&checkpoint["cause"], &checkpoint["run_id"]), (&json!("tool"), &json!(first.run_id())));
    assert_eq!((&checkpoint["tool_name"], &checkpoint["kept"]), (&json!("run_command"), &json!(true)));
    assert_eq!(
        (&checkpoint["added"], &checkpoint["changed"], &checkpoint["deleted"]),
        (&json!(2), &json!(0), &json!(0))
    );
    assert_eq!((&checkpoint["left_out"], &checkpoint["left_out_total"]), (&json!([]), &json!(0)));
    assert_eq!(checkpoint["commit"].as_str().unwrap().len(), 40);
    assert!(checkpoint["seq"].as_u64() > checkpoint["covers"].as_u64(), "{checkpoint}");
    daemon.sh("s", "cat a; cd d; export X=1");
    assert_eq!(daemon.checkpoints("s").len(), 1, "nothing changed, and a checkpoint was made");
    daemon.sh("s", "rm b; echo more >> ../a");
    let kept = daemon.checkpoints("s");
    assert_eq!((&kept[1]["changed"], &kept[1]["deleted"]), (&json!(1), &json!(1)), "{kept:?}");
    // A page at a time.
    let page = daemon.at("s", "checkpoints?limit=1").json();
    assert_eq!((page["checkpoints"].as_array().unwrap().len(), &page["next"]), (1, &kept[0]["seq"]));
    let page = daemon.at("s", &format!("checkpoints?after={}", page["next"])).json();
    assert_eq!((&page["checkpoints"][0], &page["next"]), (&kept[1], &Value::Null));
}

#[test]
fn a_checkpoint_is_found_by_all_its_names() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "echo one > a");
    daemon.sh("s", "echo two > a; echo b > b");
    let kept = daemon.checkpoints("s");
    let (name, commit) = (kept[1]["checkpoint_id"].as_str().unwrap(), kept[1]["commit"].as_str().unwrap());
    let whole = daemon.at("s", &format!("checkpoints/{name}"));
    assert_eq!(whole.status, 200, "{}", whole.text());
    let whole = whole.json();
    let paths: Vec<&str> =
        whole["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["a", "b"]);
    assert_eq!((&whole["files"][0]["kind"], &whole["files"][1]["kind"]), (&json!("modified"), &json!("added")));
    assert_eq!((&whole["files"][0]["insertions"], &whole["files"][0]["deletions"]), (&json!(1), &json!(1)));
    let by_number = kept[1]["seq"].to_string();
    // A beginning of digits alone would be a number.
    let beginning = (7..40).map(|length| &commit[..length]).find(|text| text.parse::<u64>().is_err()).unwrap();
    for other in [commit, beginning, "latest", &by_number] {
        assert_eq!(daemon.at("s", &format!("checkpoints/{other}")).json(), whole, "{other}");
    }
    for (wrong, expected) in [
        ("manual_never", (404, "checkpoint_not_found")),
        ("ffffffff", (404, "checkpoint_not_found")),
        ("99999", (404, "no_such_moment")),
        ("now", (400, "invalid_request")),
        ("a%20b", (400, "invalid_request")),
    ] {
        let (status, code) = daemon.at("s", &format!("checkpoints/{wrong}")).refused();
        assert_eq!((status, code.as_str()), expected, "{wrong}");
    }
}

#[test]
fn files_are_compared_between_any_two_moments_and_now() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "printf 'a\\nb\\nc\\n' > text; printf '\\0\\1' > data");
    daemon.sh("s", "printf 'a\\nB\\nc\\n' > text; mv data moved");
    daemon.sh("s", "echo x > new");
    let kept = daemon.checkpoints("s");
    let name = |index: usize| kept[index]["checkpoint_id"].as_str().unwrap();
    let workspace = daemon.cwd("s");
    let own = daemon.at("s", &format!("checkpoints/{}/diff", name(1))).json();
    assert_eq!((&own["from"]["checkpoint_id"], &own["to"]["checkpoint_id"]), (&json!(name(0)), &json!(name(1))));
    let patch = own["patch"].as_str().unwrap();
    assert!(patch.contains("diff --git a/text b/text") && patch.contains("-b\n+B\n"), "{patch}");
    let renamed = own["files"].as_array().unwrap().iter().find(|file| file["path"] == "moved").unwrap();
    assert_eq!((&renamed["kind"], &renamed["renamed_from"]), (&json!("renamed"), &json!("data")));
    let between = daemon.at("s", &format!("diff?from={}&to={}&patch=false", name(0), name(2))).json();
    assert_eq!((between["files"].as_array().unwrap().len(), &between["patch"]), (3, &Value::Null));
    let same = daemon.at("s", &format!("checkpoints/{}/diff?against={}&patch=false", name(2), name(0))).json();
    assert_eq!(same, between);
    // What somebody else does in the workspace is seen against now, and only there.
    assert_eq!(daemon.at("s", "diff").json()["files"], json!([]));
    std::fs::write(workspace.join("by-hand"), "hi\n").unwrap();
    let now = daemon.at("s", "diff").json();
    assert_eq!((&now["to"], &now["files"][0]["path"]), (&Value::Null, &json!("by-hand")));
    let since = daemon.at("s", &format!("checkpoints/{}/diff?against=now&path=by-hand", name(0))).json();
    assert_eq!((&since["from"]["checkpoint_id"], since["files"].as_array().unwrap().len()), (&json!(name(0)), 1));
    let below = workspace.join("text");
    let narrow = daemon.at("s", &format!("diff?from={}&path={}", name(0), below.display())).json();
    assert_eq!(narrow["files"].as_array().unwrap().len(), 1, "{narrow}");
    let plain = raw(&daemon, "s", &format!("diff?from={}", name(0)), "text/x-diff");
    assert_eq!(plain.header("content-type"), Some("text/x-diff"));
    assert!(plain.text().starts_with("diff --git "), "{}", plain.text());
    let cut = raw(&daemon, "s", &format!("diff?from={}&max_bytes=10", name(0)), "text/plain");
    assert_eq!((cut.header("content-type"), cut.header("x-truncated")), (Some("text/plain"), Some("true")));
    for wrong in ["diff?from=now", "diff?path=../x", "diff?max_bytes=999999999999", "diff?patch=maybe", "diff?form=1"] {
        assert_eq!(daemon.at("s", wrong).refused(), (400, "invalid_request".to_owned()), "{wrong}");
    }
}

#[test]
fn a_past_file_and_the_history_of_a_path_are_told() {
    let daemon = Daemon::start();
    daemon.create("s");
    let first = daemon.sh("s", "mkdir d; printf 'one\\377' > d/f; chmod 640 d/f; ln -s f d/link");
    daemon.sh("s", "printf two > d/f");
    daemon.sh("s", "echo x > other");
    daemon.sh("s", "rm d/f");
    let kept = daemon.checkpoints("s");
    let name = kept[0]["checkpoint_id"].as_str().unwrap();
    let file = daemon.at("s", &format!("checkpoints/{name}/file?path=d/f"));
    assert_eq!((file.status, file.body.as_slice()), (200, b"one\xff".as_slice()), "{}", file.text());
    assert_eq!((file.header("x-file-mode"), file.header("x-content-type-options")), (Some("100640"), Some("nosniff")));
    let link = daemon.at("s", &format!("checkpoints/{name}/file?path=d/link"));
    assert_eq!((link.text().as_str(), link.header("x-file-mode")), ("f", Some("120000")));
    for (wrong, expected) in [
        ("latest/file?path=d/f", (404, "file_not_found")),
        ("latest/file?path=d", (404, "file_not_found")),
        ("latest/file", (400, "invalid_request")),
        ("latest/file?path=/etc/passwd", (400, "invalid_request")),
        ("latest/file?path=a&path_base64=YQ==", (400, "invalid_request")),
    ] {
        let (status, code) = daemon.at("s", &format!("checkpoints/{wrong}")).refused();
        assert_eq!((status, code.as_str()), expected, "{wrong}");
    }
    let history = daemon.at("s", "files/history?path=d/f").json();
    let changes = history["changes"].as_array().unwrap();
    let kinds: Vec<&str> = changes.iter().map(|change| change["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["added", "modified", "deleted"]);
    assert_eq!((&changes[0]["run_id"], &changes[0]["size"]), (&json!(first.run_id()), &json!(4)));
    assert_eq!((&changes[0]["checkpoint_id"], &changes[0]["tool_name"]), (&json!(name), &json!("run_command")));
    let whole = daemon.at("s", &format!("files/history?path={}", daemon.cwd("s").join("d/f").display())).json();
    assert_eq!(whole, history);
    assert_eq!(daemon.at("s", "files/history?path=never-was").json(), json!({"changes": []}));
    assert_eq!(daemon.at("s", "files/history").status, 400);
}

#[test]
fn names_that_are_no_text_travel_in_base64() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "mkdir d; echo x > $'d/a\\377'");
    let shown = daemon.checkpoints("s")[0]["checkpoint_id"].as_str().unwrap().to_owned();
    let files = daemon.at("s", &format!("checkpoints/{shown}")).json()["files"].clone();
    assert_eq!((&files[0]["path"], &files[0]["path_base64"]), (&json!("d/a\u{fffd}"), &json!("ZC9h/w==")));
    let file = daemon.at("s", "checkpoints/latest/file?path_base64=ZC9h%2Fw%3D%3D");
    assert_eq!((file.status, file.text().as_str()), (200, "x\n"));
    let history = daemon.at("s", "files/history?path_base64=ZC9h%2Fw%3D%3D").json();
    assert_eq!(history["changes"].as_array().unwrap().len(), 1);
}

#[test]
fn what_is_not_kept_is_said_and_budgets_are_told() {
    let daemon = Daemon::with(Settings::default().set("--checkpoints-max-file-bytes", "1000"));
    daemon.create("s");
    daemon.sh(
        "s",
        "head -c 2000 /dev/zero > big; echo x > small; mkdir node_modules; echo y > node_modules/z; mkfifo pipe",
    );
    let kept = daemon.checkpoints("s");
    assert_eq!(kept[0]["added"], 1, "{kept:?}");
    let left: Vec<&str> =
        kept[0]["left_out"].as_array().unwrap().iter().map(|left| left["path"].as_str().unwrap()).collect();
    assert!(left.contains(&"big") && left.contains(&"pipe") && !left.contains(&"node_modules"), "{kept:?}");
    let usage = daemon.at("s", "checkpoints/usage").json();
    assert_eq!((&usage["session_id"], &usage["checkpoints"]), (&json!("s"), &json!(1)));
    assert!(usage["bytes"].as_u64().unwrap() > 0 && usage["limit"] == 1 << 30 && usage.get("reclaimed").is_none());
    let thinned = daemon.ask("s", "checkpoints/thin", json!({})).json();
    assert!(thinned["reclaimed"].is_u64() && thinned["checkpoints"] == 1, "{thinned}");
}

#[test]
fn a_checkpoint_is_taken_when_asked_for() {
    let daemon = Daemon::start();
    daemon.create("s");
    let workspace = daemon.cwd("s");
    std::fs::create_dir_all(&workspace).unwrap();
    std::fs::write(workspace.join("by-hand"), "hi").unwrap();
    let saved = daemon.ask("s", "checkpoints", json!({}));
    assert_eq!(saved.status, 201, "{}", saved.text());
    assert_eq!((&saved.json()["cause"], &saved.json()["added"]), (&json!("manual"), &json!(1)));
    let again = daemon.ask("s", "checkpoints", json!({}));
    assert_eq!((again.status, again.body.len()), (204, 0), "{}", again.text());
    assert_eq!(daemon.ask("s", "checkpoints", json!({"x": 1})).refused(), (400, "invalid_request".to_owned()));
    assert_eq!(daemon.at("none", "checkpoints").refused(), (404, "session_not_found".to_owned()));
}

#[test]
fn without_checkpoints_files_are_not_kept() {
    let daemon = Daemon::with(Settings { args: vec!["--checkpoints-on=false".to_owned()], ..Settings::default() });
    daemon.create("s");
    daemon.sh("s", "echo x > a");
    assert_eq!(daemon.at("s", "checkpoints").json()["checkpoints"], json!([]));
}
