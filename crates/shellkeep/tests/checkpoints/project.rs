//! The project as the workspace: what `run` and `mcp` keep of the directory they are used in, and names that are mistyped.

use super::support::{Daemon, Door, bash};
use super::terminal::Terminal;
use super::tools::{Files, program, text, told};
use serde_json::json;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A project in the daemon's directory: `app`, with `.git` and `app/src`.
fn project(daemon: &Daemon) -> PathBuf {
    let app = daemon.directory().canonicalize().unwrap().join("app");
    fs::create_dir_all(app.join(".git")).unwrap();
    fs::create_dir_all(app.join("src")).unwrap();
    fs::write(app.join("src/main.py"), "v1\n").unwrap();
    app
}

fn command(daemon: &Daemon, here: &Path, args: &[&str]) -> Command {
    let Door::Socket(socket) = daemon.door() else { panic!("a socket") };
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.env_clear().envs(bash::environment()).env("SHELLKEEP_DATA", daemon.data()).stdin(Stdio::null());
    command.current_dir(here).args(&args[..1]).arg("--socket").arg(socket).arg("--no-start").args(&args[1..]);
    command
}

fn run(daemon: &Daemon, here: &Path, args: &[&str]) -> Output {
    let output = command(daemon, here, &[&["run"], args].concat()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn workspace(daemon: &Daemon, session: &str) -> PathBuf {
    PathBuf::from(daemon.get(&format!("/v1/sessions/{session}")).json()["workspace"].as_str().unwrap())
}

/// `run` in a project kept no files: the workspace was elsewhere, and there was nothing to undo.
#[test]
fn run_in_a_project_keeps_its_files() {
    let daemon = Daemon::start();
    let app = project(&daemon);
    let first = run(&daemon, &app.join("src"), &["-s", "demo", "echo v2 > main.py; pwd"]);
    assert_eq!(first.stdout, format!("{}\n", app.join("src").display()).into_bytes());
    assert_eq!(workspace(&daemon, "demo"), app);
    // Flags after the command's first word are the command's.
    let listed = run(&daemon, &app, &["-s", "demo", "ls", "-a", "--", "."]);
    assert_eq!(listed.stdout, b".\n..\nmain.py\n");
    daemon.checkpoints("demo");
    daemon.rewind_to("demo", json!(1));
    assert_eq!(fs::read_to_string(app.join("src/main.py")).unwrap(), "v1\n");
    // The directory that holds the daemon's own data cannot be kept.
    let own = daemon.data().canonicalize().unwrap();
    assert_eq!(said(&run(&daemon, daemon.directory(), &["-s", "outside", "true"])), "");
    assert!(workspace(&daemon, "outside").starts_with(&own));
    assert_eq!(daemon.cwd("outside"), daemon.directory().canonicalize().unwrap());
}

/// The first command of a session had a line of ours on its stderr, in front of its own, also where a program read it.
#[test]
fn which_files_are_kept_is_told_to_a_person_only() {
    let daemon = Daemon::start();
    let app = project(&daemon);
    for args in [&["-s", "piped"][..], &["-s", "piped-json", "--json"]] {
        let first = run(&daemon, &app, &[args, &["echo err >&2"]].concat());
        let expected = if args.contains(&"--json") { "" } else { "err\n" };
        assert_eq!(said(&first), expected, "{first:?}");
    }
    let at_home = command(&daemon, &app, &["run", "-s", "home", "true"]).env("HOME", &app).output().unwrap();
    assert_eq!(said(&at_home), "");
    let on_terminal = |args: &[&str], env: &[(&str, &str)]| {
        let args = [&["run"], args, &["true"]].concat();
        let mut screen = Terminal::in_directory(&daemon, &app, &args, (24, 100), env);
        assert_eq!(screen.end(), Some(0), "{}", screen.text());
        screen.text().replace('\n', " ")
    };
    let told = on_terminal(&["-s", "shown"], &[]);
    assert!(told.contains(&format!("keeps the files of {}:", app.display())), "{told}");
    assert_eq!(on_terminal(&["-s", "shown"], &[]), "", "it is told once");
    let told = on_terminal(&["-s", "shown-json", "--json"], &[]);
    assert!(told.contains("exit_code") && !told.contains("keeps the files"), "{told}");
    // A home directory is more than one project.
    let told = on_terminal(&["-s", "shown-home"], &[("HOME", app.to_str().unwrap())]);
    assert!(told.contains("keeps no files there") && told.contains("--workspace"), "{told}");
}

/// `undo` of the first change in an empty project said that it was done, and the files stayed.
#[test]
fn the_first_change_in_an_empty_project_is_undone() {
    let daemon = Daemon::start();
    let app = daemon.directory().canonicalize().unwrap().join("new");
    // What no checkpoint holds is not ours to remove.
    fs::create_dir_all(app.join(".git")).unwrap();
    fs::write(app.join(".git/config"), "theirs").unwrap();
    run(&daemon, &app, &["-s", "demo", "mkdir src; echo v1 > src/main.py; echo a > README"]);
    run(&daemon, &app, &["-s", "demo", "echo v2 > src/main.py"]);
    daemon.checkpoints("demo");
    let undone = program(&daemon, &["undo", "demo"]);
    assert!(
        text(&undone).contains("~ src/main.py") && said(&undone).is_empty(),
        "only what a command changed: {undone:?}"
    );
    assert_eq!(fs::read_to_string(app.join("src/main.py")).unwrap(), "v1\n");
    fs::write(app.join("by-hand"), "kept").unwrap();
    let undone = program(&daemon, &["undo", "demo"]);
    assert!(text(&undone).contains("files: 3 changed"), "{undone:?}");
    let by_hand = "what no command of the session had changed: by-hand; `shellkeep redo demo";
    assert!(said(&undone).contains(by_hand), "{undone:?}");
    assert!(!app.join("src").exists() && !app.join("README").exists() && !app.join("by-hand").exists());
    assert_eq!(fs::read_to_string(app.join(".git/config")).unwrap(), "theirs");
    text(&program(&daemon, &["redo", "demo"]));
    assert_eq!(fs::read_to_string(app.join("by-hand")).unwrap(), "kept", "what nobody had run was kept first");
    assert_eq!(fs::read_to_string(app.join("src/main.py")).unwrap(), "v1\n");
}

#[test]
fn a_project_is_left_alone_where_that_is_asked_for() {
    let daemon = Daemon::start();
    let app = project(&daemon);
    let own = daemon.data().canonicalize().unwrap();
    let config = daemon.directory().join("client.toml");
    fs::write(&config, "project_workspace = false\n").unwrap();
    assert_eq!(said(&run(&daemon, &app, &["-s", "flag", "--no-workspace", "true"])), "");
    let by_variable = command(&daemon, &app, &["run", "-s", "variable", "true"])
        .env("SHELLKEEP_PROJECT_WORKSPACE", "false")
        .output()
        .unwrap();
    assert_eq!(said(&by_variable), "");
    let by_file = command(&daemon, &app, &["run", "-s", "file", "true"]).env("SHELLKEEP_CONFIG", &config).output();
    assert_eq!(said(&by_file.unwrap()), "");
    // A home directory is more than one project.
    let at_home = command(&daemon, &app, &["run", "-s", "home", "true"]).env("HOME", &app).output().unwrap();
    assert!(at_home.status.success(), "{at_home:?}");
    for session in ["flag", "variable", "file", "home"] {
        assert!(workspace(&daemon, session).starts_with(&own), "{session}");
        assert_eq!(daemon.cwd(session), app, "{session}");
    }
    run(&daemon, &app, &["-s", "own", "--own-directory", "true"]);
    assert!(daemon.cwd("own").starts_with(&own));
}

/// `sessions new --workspace D` on an existing session was ignored in silence, even if D did not exist.
#[test]
fn a_session_that_exists_keeps_its_workspace() {
    let daemon = Daemon::start();
    let app = project(&daemon);
    let made = ["sessions", "new", "demo", "--workspace", "app", "--json"];
    assert_eq!(told(&program(&daemon, &made))["workspace"], json!(app));
    let again = program(&daemon, &made);
    assert!(again.status.success() && said(&again).contains("exists; nothing was changed"), "{again:?}");
    for wrong in [
        &["sessions", "new", "demo", "--workspace", "app/src"][..],
        &["sessions", "new", "demo", "--workspace", "gone"],
        &["sessions", "new", "demo", "--agent", "ann"],
    ] {
        let refused = program(&daemon, wrong);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(said(&refused).contains("session 'demo' exists and"), "{refused:?}");
    }
    let refused = program(&daemon, &["run", "-s", "demo", "--workspace", "app/src", "true"]);
    assert_eq!(refused.status.code(), Some(255), "{refused:?}");
    assert!(said(&refused).contains("a session's workspace cannot be changed"), "{refused:?}");
    assert!(program(&daemon, &["run", "-s", "demo", "--workspace", "app", "true"]).status.success());
    assert_eq!(workspace(&daemon, "demo"), app);
}

#[test]
fn a_mistyped_name_is_asked_about_on_a_terminal_only() {
    let daemon = Daemon::start();
    daemon.create("demo");
    let exists = |name: &str| daemon.get(&format!("/v1/sessions/{name}")).status == 200;
    let mut screen = Terminal::with(&daemon, &["run", "-s", "dmeo", "echo", "ran"], (24, 100), &[]);
    screen.wait_for("[y/N]");
    assert!(screen.text().contains("there is no session 'dmeo', but there is 'demo'"), "{}", screen.text());
    screen.send("n\n");
    assert_eq!(screen.end(), Some(255));
    assert!(screen.text().contains("use `-s demo`") && !exists("dmeo"), "{}", screen.text());
    // A hint is broken between words, and not inside of its command.
    let mut narrow = Terminal::with(&daemon, &["sessions", "show", "dmeo"], (24, 60), &[]);
    assert_eq!(narrow.end(), Some(1));
    let hint = "shellkeep: there is no session 'dmeo'; did you mean 'demo'?\n`shellkeep sessions ls";
    assert!(narrow.text().contains(hint), "{}", narrow.text());
    let mut screen = Terminal::with(&daemon, &["run", "-s", "dmeo", "--create", "true"], (24, 100), &[]);
    assert_eq!(screen.end(), Some(0));
    assert!(exists("dmeo"));
    let mut screen = Terminal::with(&daemon, &["run", "-s", "release", "true"], (24, 100), &[]);
    assert_eq!(screen.end(), Some(0), "a new name is not asked about");
    run(&daemon, daemon.directory(), &["-s", "demo2x", "true"]);
    assert!(exists("demo2x"), "a script is not asked");
}

#[test]
fn mcp_in_a_project_keeps_its_files() {
    let daemon = Daemon::start();
    let app = project(&daemon);
    let shown = app.display();
    let saved = format!("Files below {shown} are saved after each command that changes them");
    let not_saved = format!("Files in {shown} are not saved; list_checkpoints, diff and rewind cover only ");
    for (session, flags, keeps) in [("kept", &[][..], true), ("apart", &["--no-workspace"], false)] {
        let args = [&["mcp", "-s", session], flags].concat();
        let expected = if keeps { &saved } else { &not_saved };
        let (greeting, first, list) = talk(&daemon, &app, &args);
        assert!(!greeting.contains(&shown.to_string()), "there is no session yet: {greeting}");
        assert!(first.contains(&format!("[new session. {expected}")), "{first}");
        let files = if keeps { "the files as the session began: 1 added" } else { expected };
        assert!(list.contains(files), "{list}");
        assert_eq!(workspace(&daemon, session) == app, keeps, "{session}");
        // Another client learns it when it connects, and not again with each command.
        let (greeting, again, _) = talk(&daemon, &app, &args);
        assert!(greeting.contains(expected), "{greeting}");
        assert!(again.contains(&format!("{shown}\\n")) && !again.contains("saved"), "{again}");
    }
}

/// What a client gets: the greeting, the result of `pwd`, and the list of checkpoints.
fn talk(daemon: &Daemon, here: &Path, args: &[&str]) -> (String, String, String) {
    let mut command = command(daemon, here, args);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let about =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about})).unwrap();
    let greeting = answers.next().unwrap();
    writeln!(input, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).unwrap();
    let mut call = |id: u64, params: serde_json::Value| {
        writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).unwrap();
        answers
            .find(|line| line.contains(&format!("\"id\":{id},")) || line.contains(&format!("\"id\":{id}}}")))
            .unwrap()
    };
    let first = call(2, json!({"name": "run_command", "arguments": {"command": "pwd"}}));
    let list = call(3, json!({"name": "list_checkpoints", "arguments": {}}));
    drop(input);
    assert!(child.wait().unwrap().success());
    (greeting, first, list)
}
