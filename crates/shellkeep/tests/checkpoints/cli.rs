//! The command line: the same, for people and scripts.

use super::support::{Daemon, Request};
use super::terminal::Terminal;
use super::tools::{Files, files, program, seq, text, told, typed};
use serde_json::json;
use std::process::Command;

#[test]
fn checkpoints_are_listed_shown_made_and_counted() {
    let daemon = Daemon::start();
    daemon.create("demo");
    daemon.sh("demo", "echo one > a");
    daemon.sh("demo", "echo two > a; echo b > 'b c'");
    let kept = daemon.checkpoints("demo");
    let name = kept[0]["checkpoint_id"].as_str().unwrap();
    let list = text(&program(&daemon, &["checkpoints", "demo"]));
    let rows: Vec<Vec<&str>> = list.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!((rows.len(), rows[0][2], rows[0][4]), (2, name, "+1 ~0 -0"), "{list}");
    assert_eq!(told(&program(&daemon, &["checkpoints", "demo", "--json"]))["checkpoints"], json!(kept));
    assert_eq!(text(&program(&daemon, &["checkpoints", "ls", "demo"])), list);
    for limited in [&["checkpoints", "demo", "--limit", "1"][..], &["checkpoints", "ls", "demo", "--limit", "1"]] {
        assert_eq!(text(&program(&daemon, limited)).lines().count(), 1, "{limited:?}");
    }
    let shown = text(&program(&daemon, &["checkpoints", "show", "demo", "latest"]));
    assert!(shown.contains("~ a  +1  -1\n") && shown.contains("+ b c  +1\n"), "{shown}");
    assert_eq!(text(&program(&daemon, &["checkpoints", "cat", "demo", name, "a"])), "one\n");
    let history = text(&program(&daemon, &["checkpoints", "history", "demo", "a"]));
    assert_eq!(history.lines().count(), 2, "{history}");
    assert_eq!(text(&program(&daemon, &["checkpoints", "save", "demo"])), "");
    std::fs::write(daemon.cwd("demo").join("by-hand"), "x").unwrap();
    assert!(text(&program(&daemon, &["checkpoints", "save", "demo"])).starts_with("manual_"));
    daemon.create("empty");
    let all = told(&program(&daemon, &["checkpoints", "du", "--json"]));
    assert_eq!(
        (all["sessions"].as_array().unwrap().len(), all["sessions"][0]["session_id"].as_str()),
        (2, Some("demo"))
    );
    let one = text(&program(&daemon, &["checkpoints", "du", "demo", "--thin"]));
    assert!(one.starts_with("demo\t3\t") && one.contains("reclaimed"), "{one}");
    for wrong in [
        &["checkpoints", "none"][..],
        &["checkpoints", "show", "demo", "x"],
        &["checkpoints", "cat", "demo", "latest", "z"],
    ] {
        let output = program(&daemon, wrong);
        assert_eq!(output.status.code(), Some(1), "{wrong:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(program(&daemon, &["checkpoints"]).status.code(), Some(2));
}

#[test]
fn a_difference_is_plain_in_a_pipe_and_coloured_on_a_terminal() {
    let daemon = Daemon::start();
    daemon.create("demo");
    daemon.sh("demo", "printf 'a\\nb\\n' > text");
    let early = seq(&daemon, "demo").to_string();
    daemon.checkpoints("demo");
    daemon.sh("demo", "printf 'a\\nB\\n' > text");
    daemon.checkpoints("demo");
    assert_eq!(text(&program(&daemon, &["diff", "demo"])), "");
    let patch = text(&program(&daemon, &["diff", "demo", &early]));
    assert!(patch.starts_with("diff --git a/text b/text\n") && patch.ends_with("-b\n+B\n"), "{patch}");
    assert_eq!(text(&program(&daemon, &["diff", "demo", &early, "latest", "--path", "text"])), patch);
    assert_eq!(text(&program(&daemon, &["diff", "demo", &early, "--path", "other"])), "");
    let stat = text(&program(&daemon, &["diff", "demo", &early, "--stat"]));
    assert_eq!(stat, "  ~ text  +1  -1\n1 file differs, +1 -1 lines\n");
    assert_eq!(told(&program(&daemon, &["diff", "demo", &early, "now", "--json"]))["patch"], json!(patch));
    assert_eq!(program(&daemon, &["diff", "demo", "nothing-like-it"]).status.code(), Some(1));
    for (no_colour, expected) in [("", vt100::Color::Idx(2)), ("1", vt100::Color::Default)] {
        let mut screen = Terminal::with(&daemon, &["diff", "demo", &early], (24, 100), &[("NO_COLOR", no_colour)]);
        assert_eq!(screen.end(), Some(0));
        let row = screen.text().lines().position(|line| line == "+B").expect("the new line");
        let cell = screen.screen().cell(u16::try_from(row).unwrap(), 0).unwrap().clone();
        assert_eq!((cell.contents(), cell.fgcolor()), ("+", expected), "NO_COLOR={no_colour}");
    }
}

#[test]
fn a_rewind_is_shown_done_and_undone() {
    let daemon = Daemon::start();
    daemon.create("demo");
    daemon.sh("demo", "echo one > a; X=1");
    let early = seq(&daemon, "demo").to_string();
    daemon.checkpoints("demo");
    daemon.sh("demo", "echo two > a; echo b > b; X=2");
    daemon.checkpoints("demo");
    let preview = text(&program(&daemon, &["rewind", "demo", &early, "--dry-run"]));
    assert!(preview.contains("files: 2 would change") && preview.contains("- b"), "{preview}");
    assert!(preview.contains("shell: variables: X"), "{preview}");
    assert_eq!(daemon.tree("demo").len(), 2);
    let done = text(&program(&daemon, &["rewind", "demo", &early]));
    assert_eq!(daemon.tree("demo"), files(&[("a", "one\n")]));
    let undo = done.lines().find_map(|line| line.strip_prefix("undo with: shellkeep ")).expect("an undo");
    let back = text(&typed(&daemon, undo));
    assert!(back.contains("is as it was"), "{back}");
    assert_eq!(daemon.tree("demo"), files(&[("a", "two\n"), ("b", "b\n")]));
    let json = told(&program(&daemon, &["rewind", "demo", &early, "--json", "--services", "stop"]));
    assert_eq!((&json["files_total"], json["undo"].is_u64()), (&json!(2), true), "{json}");
    assert_eq!(program(&daemon, &["rewind", "demo", "99999"]).status.code(), Some(1));
    assert_eq!(program(&daemon, &["rewind", "demo"]).status.code(), Some(2));
}

#[test]
fn changes_are_undone_and_redone_one_at_a_time() {
    let daemon = Daemon::start();
    daemon.create("demo");
    let nothing = program(&daemon, &["undo", "demo"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("nothing to undo"), "{nothing:?}");
    // It said that nothing had changed files, of a session that had written one where nothing is saved.
    daemon.create_with(json!({"session_id": "outside", "cwd": daemon.directory()}));
    daemon.sh("outside", "echo x > written");
    let unsaved = program(&daemon, &["undo", "outside"]);
    assert!(String::from_utf8_lossy(&unsaved.stderr).contains("so files there are not saved"), "{unsaved:?}");
    let mut runs = Vec::new();
    for command in ["echo one > a", "echo two > a", "rm a"] {
        runs.push(daemon.sh("demo", command).run_id().to_owned());
        daemon.checkpoints("demo");
    }
    // A command that changed nothing is not undone.
    daemon.sh("demo", "cat a || true");
    let preview = text(&program(&daemon, &["undo", "demo", "--dry-run"]));
    assert!(preview.starts_with(&format!("would undo {}: rm a\n", runs[2])), "{preview}");
    let undone = text(&program(&daemon, &["undo", "demo"]));
    assert!(undone.starts_with(&format!("undid {}: rm a\n", runs[2])), "{undone}");
    let redo = undone.lines().find_map(|line| line.strip_prefix("redo with: shellkeep ")).expect("a redo").to_owned();
    assert_eq!(daemon.tree("demo"), files(&[("a", "two\n")]));
    assert!(text(&program(&daemon, &["undo", "demo"])).starts_with(&format!("undid {}: ", runs[1])));
    assert_eq!(daemon.tree("demo"), files(&[("a", "one\n")]));
    for left in [files(&[("a", "two\n")]), files(&[])] {
        text(&typed(&daemon, &redo));
        assert_eq!(daemon.tree("demo"), left);
    }
    assert_eq!(program(&daemon, &["redo", "demo"]).status.code(), Some(1), "all is redone");
    // A rewind to a moment is one change, whatever it took back.
    text(&program(&daemon, &["rewind", "demo", &runs[0]]));
    assert_eq!(daemon.tree("demo"), files(&[("a", "one\n")]));
    text(&program(&daemon, &["undo", "demo"]));
    assert_eq!(daemon.tree("demo"), files(&[]));
    text(&program(&daemon, &["undo", "demo"]));
    assert_eq!(daemon.tree("demo"), files(&[("a", "two\n")]));
    // What happens after an undo is what is undone next, and there is nothing to redo then.
    daemon.sh("demo", "X=1");
    assert_eq!(program(&daemon, &["redo", "demo"]).status.code(), Some(1));
    let undone = text(&program(&daemon, &["undo", "demo"]));
    assert!(undone.contains(": X=1\n") && undone.contains("shell: variables: -X"), "{undone}");
    // A file that is written through the daemon is a change like any other.
    let target = "/v1/sessions/demo/files/content?path=mine";
    let mut written = Request::new("PUT", target);
    written.body = b"mine\n".to_vec();
    assert_eq!(daemon.send(&written).status, 201);
    assert_eq!(program(&daemon, &["redo", "demo"]).status.code(), Some(1));
    text(&program(&daemon, &["undo", "demo"]));
    assert_eq!(daemon.tree("demo"), files(&[("a", "two\n")]));
    text(&program(&daemon, &["redo", "demo"]));
    assert_eq!(daemon.tree("demo"), files(&[("a", "two\n"), ("mine", "mine\n")]));
    text(&program(&daemon, &["undo", "demo"]));
    assert_eq!(daemon.tree("demo"), files(&[("a", "two\n")]));
    // As long ago as before the session there is nothing; a moment ago is as now.
    assert_eq!(program(&daemon, &["rewind", "demo", "3d"]).status.code(), Some(1));
    text(&program(&daemon, &["rewind", "demo", "0s"]));
    assert_eq!(daemon.tree("demo"), files(&[("a", "two\n")]));
}

#[test]
fn a_log_has_a_row_for_each_command() {
    let daemon = Daemon::start();
    daemon.create("demo");
    let first = daemon.sh("demo", "echo a > a; echo b > b").run_id().to_owned();
    daemon.checkpoints("demo");
    let second = daemon.sh("demo", "echo x >> a; rm b; false").run_id().to_owned();
    daemon.checkpoints("demo");
    daemon.sh("demo", "true");
    text(&program(&daemon, &["undo", "demo"]));
    let log = text(&program(&daemon, &["log", "demo"]));
    let rows: Vec<Vec<&str>> = log.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.len(), 4, "{log}");
    assert!(rows[0][0].starts_with('#') && rows[0][5] == format!("(undo of {second})"), "{log}");
    assert_eq!((rows[1][3], rows[1][4], rows[1][5]), ("0", "", "true"), "{log}");
    assert_eq!((rows[2][0], rows[2][3], rows[2][4]), (second.as_str(), "1", "~1 -1"), "{log}");
    assert_eq!((rows[3][0], rows[3][3], rows[3][4]), (first.as_str(), "0", "+2 <-"), "{log}");
    let json = told(&program(&daemon, &["log", "demo", "--limit", "2", "--json"]));
    assert_eq!((json["log"].as_array().unwrap().len(), &json["next"]), (3, &json!(second)), "{json}");
    assert_eq!(json["log"][2]["files"]["deleted"], 1, "{json}");
    let list = text(&program(&daemon, &["checkpoints", "demo"]));
    let here: Vec<&str> = list.lines().filter(|line| line.contains("<- here")).collect();
    assert!(here.len() == 1 && here[0].ends_with("echo a > a; echo b > b"), "{list}");
    let notices = daemon.sh("demo", "true").notice_text();
    assert!(notices.contains(&format!("was rewound to the state before {second}: ")), "{notices}");
}

#[test]
fn a_person_is_asked_before_a_rewind() {
    let daemon = Daemon::start();
    daemon.create("demo");
    daemon.sh("demo", "echo one > a");
    let early = seq(&daemon, "demo").to_string();
    daemon.checkpoints("demo");
    daemon.sh("demo", "echo two > a");
    daemon.checkpoints("demo");
    for (answer, left) in [("n\r", "two\n"), ("y\r", "one\n")] {
        let mut screen = Terminal::with(&daemon, &["rewind", "demo", &early], (24, 100), &[]);
        screen.wait_for("[y/N]");
        assert!(screen.text().contains("would change"), "{}", screen.text());
        screen.send(answer);
        let (code, last) = if left == "two\n" { (1, "nothing was changed") } else { (0, "undo with") };
        assert_eq!(screen.end(), Some(code));
        assert!(screen.text().contains(last), "{}", screen.text());
        assert_eq!(daemon.tree("demo"), files(&[("a", left)]), "{answer}");
    }
}

#[test]
fn a_fork_is_made_its_patch_applies_and_it_comes_back() {
    let daemon = Daemon::start();
    daemon.create("demo");
    daemon.sh("demo", "printf 'a\\nb\\n' > text; printf '\\0' > data");
    daemon.checkpoints("demo");
    assert_eq!(text(&program(&daemon, &["fork", "demo", "try-1"])), "try-1\n");
    let made = told(&program(&daemon, &["fork", "demo", "--at", "1", "--json"]));
    assert_eq!(made["forked_from"]["seq"], 1, "{made}");
    daemon.sh("try-1", "printf 'a\\nB\\n' > text; printf '\\0\\1' > data; echo new > new");
    let patch = program(&daemon, &["fork", "patch", "try-1"]);
    let changes = daemon.directory().join("try.patch");
    std::fs::write(&changes, &patch.stdout).unwrap();
    let copy = daemon.directory().join("copy");
    std::fs::create_dir(&copy).unwrap();
    std::fs::write(copy.join("text"), "a\nb\n").unwrap();
    std::fs::write(copy.join("data"), "\0").unwrap();
    let applied = Command::new("git").arg("apply").arg(&changes).current_dir(&copy).output().expect("git runs");
    assert!(applied.status.success(), "{}\n{}", String::from_utf8_lossy(&applied.stderr), text(&patch));
    assert_eq!(std::fs::read(copy.join("data")).unwrap(), b"\0\x01");
    assert_eq!(std::fs::read(copy.join("new")).unwrap(), b"new\n");
    daemon.sh("demo", "printf 'a\\nC\\n' > text");
    let trial = program(&daemon, &["fork", "merge-back", "try-1", "--dry-run"]);
    assert_eq!(trial.status.code(), Some(1), "{}", String::from_utf8_lossy(&trial.stdout));
    let refused = program(&daemon, &["fork", "merge-back", "try-1"]);
    let said = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("! text:"), "{said}");
    let merged = text(&program(&daemon, &["fork", "merge-back", "try-1", "--prefer", "fork"]));
    assert!(merged.contains("changed in demo:") && merged.contains("undo with: shellkeep rewind demo"), "{merged}");
    assert_eq!(daemon.tree("demo"), files(&[("data", "\0\u{1}"), ("new", "new\n"), ("text", "a\nB\n")]));
    assert_eq!(program(&daemon, &["fork", "patch", "demo"]).status.code(), Some(1));
    assert_eq!(program(&daemon, &["fork", "demo", "try-1"]).status.code(), Some(1));
    // A session that is called as an action.
    daemon.create("patch");
    assert_eq!(text(&program(&daemon, &["fork", "--", "patch", "try-2"])), "try-2\n");
}

#[test]
fn the_host_names_the_workspace() {
    let daemon = Daemon::start();
    let project = daemon.directory().join("project");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join("mine"), "before\n").unwrap();
    let made = told(&program(&daemon, &["sessions", "new", "demo", "--workspace", "project", "--json"]));
    assert_eq!((made["workspace"].as_str(), made["cwd"].as_str()), (project.to_str(), project.to_str()), "{made}");
    daemon.sh("demo", "echo after > mine");
    daemon.checkpoints("demo");
    daemon.rewind_to("demo", json!(1));
    assert_eq!(std::fs::read_to_string(project.join("mine")).unwrap(), "before\n");
}

#[test]
fn a_moment_is_a_run_id_or_so_many_changes_back() {
    let daemon = Daemon::start();
    daemon.create("demo");
    let first = daemon.sh("demo", "n=1; echo one > a").run_id().to_owned();
    daemon.sh("demo", "n=2; echo two > a");
    daemon.checkpoints("demo");
    assert!(text(&program(&daemon, &["diff", "demo", &first])).ends_with("-one\n+two\n"));
    assert!(text(&program(&daemon, &["diff", "demo", "-1", "now"])).ends_with("-one\n+two\n"));
    assert_eq!(text(&program(&daemon, &["checkpoints", "cat", "demo", &first, "a"])), "one\n");
    assert!(text(&program(&daemon, &["checkpoints", "show", "demo", "-1"])).contains(&first));
    text(&program(&daemon, &["fork", "demo", "other", "--at", "-1"]));
    assert_eq!(daemon.sh("other", "echo $n; cat a").out(), "1\none\n");
    text(&program(&daemon, &["rewind", "demo", "-1", "--yes"]));
    assert_eq!(daemon.sh("demo", "echo $n; cat a").out(), "1\none\n");
}

/// Terminals broke the lines of the help in the middle of words.
#[test]
fn help_is_wrapped_at_words() {
    let daemon = Daemon::start();
    let mut screen = Terminal::with(&daemon, &["undo", "--help"], (60, 72), &[]);
    assert_eq!(screen.end(), Some(0));
    let text = screen.text();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in
        ["what is replaced is saved in a checkpoint first", "Also undo changes that other sessions made in the"]
    {
        assert!(words.contains(sentence), "{sentence}: {text}");
    }
}
