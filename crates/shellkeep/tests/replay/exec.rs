//! `replay --exec`: the same work comes out the same, and other work does not.

use crate::support::daemon::signal;
use crate::support::{Daemon, Request, bash};
use crate::{post, program};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A small C project.
const MAIN_C: &str =
    "#include <stdio.h>\nint add(int, int);\nint main(void) {\n    printf(\"%d\\n\", add(2, 3));\n    return 0;\n}\n";
const ADD_C: &str = "int add(int a, int b) {\n    return a + b;\n}\n";

fn project(daemon: &Daemon, name: &str, add: &str) -> PathBuf {
    let root = daemon.directory().join(name);
    fs::create_dir_all(root.join("src")).unwrap();
    fs::write(root.join("src/main.c"), MAIN_C).unwrap();
    fs::write(root.join("src/add.c"), add).unwrap();
    root
}

/// Puts a project's files where a session works, before its first command.
fn fill(daemon: &Daemon, session: &str, from: &std::path::Path) {
    let workspace = daemon.cwd(session);
    fs::create_dir_all(workspace.join("src")).unwrap();
    for name in ["src/main.c", "src/add.c"] {
        fs::copy(from.join(name), workspace.join(name)).unwrap();
    }
}

fn exec(daemon: &Daemon, args: &[&str]) -> (Option<i32>, Value) {
    let output = program(daemon, &[&["replay", "--exec", "--json"], args].concat());
    let told = serde_json::from_slice(&output.stdout);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), told.unwrap_or_else(|_| json!({"stderr": words})))
}

fn sessions(daemon: &Daemon) -> Vec<String> {
    let list = daemon.get("/v1/sessions").json();
    list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["session_id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_build_in_c_comes_out_the_same_until_a_source_is_changed() {
    let daemon = Daemon::start();
    let (good, changed) = (project(&daemon, "good", ADD_C), project(&daemon, "changed", &ADD_C.replace('+', "*")));
    daemon.create("build-project-c");
    fill(&daemon, "build-project-c", &good);
    for command in [
        "mkdir -p out && cc -c src/add.c -o out/add.o",
        "cc -c src/main.c -o out/main.o && cc -o out/sum out/main.o out/add.o",
        "cd out && pwd && ls -l ../src",
        "./sum",
        "date; time ./sum >/dev/null; mktemp",
        "cc -c nothing.c",
    ] {
        daemon.sh("build-project-c", command);
    }
    post(&daemon, "build-project-c", "user_input", json!({"message": "build it"}));
    let (code, told) = exec(&daemon, &["--from", &good.display().to_string(), "build-project-c"]);
    assert_eq!((code, &told["identical"]), (Some(0), &json!(true)), "{told:#}");
    assert_eq!((&told["steps"], &told["compared"]), (&json!(6), &json!(6)));
    assert!(told["files"].as_u64().unwrap() >= 6, "{told:#}");
    assert_eq!(told["left_out"]["events of the agent"], json!(1));
    assert_eq!(sessions(&daemon), ["build-project-c"], "the session of the replay is gone");

    let (code, told) = exec(&daemon, &["--from", &changed.display().to_string(), "build-project-c"]);
    let first = &told["first_difference"];
    assert_eq!((code, &told["identical"]), (Some(1), &json!(false)));
    assert_eq!(
        (&first["kind"], &first["step"], &first["what"]),
        (&json!("step"), &json!(4), &json!("stdout")),
        "{told:#}"
    );
    assert_eq!(
        (&first["command"], &first["line"], &first["expected"], &first["got"]),
        (&json!("./sum"), &json!(1), &json!("5"), &json!("6"))
    );
    let words = program(&daemon, &["replay", "--exec", "--from", &changed.display().to_string(), "build-project-c"]);
    let words = String::from_utf8_lossy(&words.stdout).into_owned();
    assert!(
        words.contains("first difference: step 4") && words.contains("  - 5") && words.contains("  + 6"),
        "{words}"
    );

    // What was put into its own workspace before the first command is in no checkpoint, so the first step fails, and it
    // says why.
    let (code, told) = exec(&daemon, &["build-project-c"]);
    let first = &told["first_difference"];
    assert_eq!((code, &first["step"], &first["what"]), (Some(1), &json!(1), &json!("exit_code")), "{told:#}");
    assert!(first["got"].as_str().unwrap().starts_with("1 ("), "{first}");
}

#[test]
fn a_session_in_a_project_starts_again_with_its_files() {
    let daemon = Daemon::start();
    let root = project(&daemon, "project", ADD_C);
    fs::write(root.join(".gitignore"), "*.log\n").unwrap();
    fs::write(root.join("old.log"), "ignored\n").unwrap();
    daemon.create_with(json!({"session_id": "in-a-project", "config": {"workspace": root}}));
    daemon.sh("in-a-project", "cd src; cat add.c ../old.log > copy.c; rm main.c; pwd; ls");
    let (code, told) = exec(&daemon, &["in-a-project"]);
    assert_eq!((code, &told["identical"], &told["left_out"]), (Some(0), &json!(true), &json!({})), "{told:#}");
    assert_eq!((&told["compared"], &told["files"]), (&json!(1), &json!(5)), "{told:#}");

    let fork = daemon.post("/v1/sessions/in-a-project/fork", &json!({"session_id": "its-fork"}));
    assert_eq!(fork.status, 201, "{}", fork.text());
    daemon.sh("its-fork", "cat copy.c; pwd; touch new");
    let (code, told) = exec(&daemon, &["its-fork"]);
    assert_eq!((code, &told["identical"], &told["left_out"]), (Some(0), &json!(true), &json!({})), "{told:#}");
    assert_eq!(sessions(&daemon), ["in-a-project", "its-fork"]);

    // What something else changes afterwards is a difference.
    fs::write(root.join("src/copy.c"), "changed\n").unwrap();
    let (code, told) = exec(&daemon, &["in-a-project"]);
    assert_eq!((code, &told["first_difference"]["path"]), (Some(1), &json!("src/copy.c")), "{told:#}");
}

/// The fork of an empty project was private where the project was not, `..` was that of another directory, and where
/// the owner of `..` had a longer name all columns were wider.
#[test]
fn a_listing_of_an_empty_project_comes_out_the_same() {
    let daemon = Daemon::start();
    let root = daemon.directory().join("empty-project");
    fs::create_dir(&root).unwrap();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
    daemon.create_with(json!({"session_id": "in-an-empty-project", "config": {"workspace": root}}));
    daemon.sh("in-an-empty-project", "ls -la; touch a; ls -la; stat -c %a .");
    let (code, told) = exec(&daemon, &["in-an-empty-project"]);
    assert_eq!((code, &told["identical"]), (Some(0), &json!(true)), "{told:#}");
    assert_eq!((&told["compared"], &told["not_compared"]), (&json!(1), &json!([])), "{told:#}");
}

/// The replay of an export began without the files of the project and called that a difference.
#[test]
fn an_export_of_a_session_in_a_project_says_which_files_it_lacks() {
    let daemon = Daemon::start();
    let root = project(&daemon, "exported", ADD_C);
    daemon.create_with(json!({"session_id": "exported-project", "config": {"workspace": root}}));
    daemon.sh("exported-project", "cat src/add.c");
    daemon.sh("exported-project", "echo same");
    let file = daemon.directory().join("exported.jsonl").display().to_string();
    assert!(program(&daemon, &["export", "exported-project", "-o", &file]).status.success());
    let (code, told) = exec(&daemon, &[&file]);
    assert_eq!((code, &told["first_difference"], &told["compared"]), (Some(0), &Value::Null, &json!(1)), "{told:#}");
    let missing = "because the files that the session began with are not here; pass them with --from";
    assert!(told["not_compared"].to_string().contains(&format!("step 1: exit_code, {missing}")), "{told:#}");
    let (code, told) = exec(&daemon, &["--from", &root.display().to_string(), &file]);
    assert_eq!((code, &told["compared"], &told["not_compared"]), (Some(0), &json!(2), &json!([])), "{told:#}");
}

#[test]
fn a_python_project_that_is_written_in_the_session_comes_out_the_same() {
    let daemon = Daemon::start();
    daemon.create_with(json!({"session_id": "python-project", "env": {"GREETING": "hello"}}));
    for command in [
        "printf 'def greet(who):\\n    return f\"{who}!\"\\n' > greet.py",
        "printf 'import os, greet\\nprint(greet.greet(os.environ[\"GREETING\"]))\\nprint(os.getcwd())\\n' > main.py",
        "python3 main.py",
        "python3 - <<'EOF'\nimport unittest, greet\nclass T(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(greet.greet('a'), 'a!')\nunittest.main(argv=['x'])\nEOF",
        "export GREETING=bye; counter=3",
        "python3 main.py; echo $counter",
        "seq 1 100000",
    ] {
        let reply = daemon.sh("python-project", command);
        assert_eq!(reply.json["exit_code"], json!(0), "{command}: {}", reply.json);
    }
    let (code, told) = exec(&daemon, &["--ignore", "__pycache__", "python-project"]);
    assert_eq!((code, &told["identical"]), (Some(0), &json!(true)), "{told:#}");
    // From an export as well, where a long output is compared as far as it is there.
    let file = daemon.directory().join("project.jsonl").display().to_string();
    assert!(program(&daemon, &["export", "python-project", "-o", &file]).status.success());
    let (code, told) = exec(&daemon, &["--ignore", "__pycache__", &file]);
    assert_eq!((code, &told["identical"]), (Some(0), &json!(true)), "{told:#}");
    assert!(told["not_compared"].to_string().contains("step 7: stdout beyond its beginning"), "{told:#}");
    // A file that was changed since is the first difference after all steps.
    fs::write(daemon.cwd("python-project").join("greet.py"), "changed\n").unwrap();
    let (code, told) = exec(&daemon, &["--ignore", "__pycache__", "python-project"]);
    let first = &told["first_difference"];
    assert_eq!(
        (code, &first["kind"], &first["path"], &first["what"]),
        (Some(1), &json!("file"), &json!("greet.py"), &json!("content")),
        "{told:#}"
    );
    let (code, _) = exec(&daemon, &["--ignore", "greet.py", "--ignore", "__pycache__", "python-project"]);
    assert_eq!(code, Some(0));
}

#[test]
fn what_differs_by_place_or_time_differs_only_when_asked() {
    let daemon = Daemon::start();
    daemon.create("places-and-times");
    daemon.sh("places-and-times", "pwd; date +%FT%T.%N; echo took 0.$RANDOM s");
    let (code, told) = exec(&daemon, &["places-and-times"]);
    assert_eq!(code, Some(0), "{told:#}");
    let (code, told) = exec(&daemon, &["--exact", "places-and-times"]);
    assert_eq!((code, &told["first_difference"]["what"]), (Some(1), &json!("cwd")).clone(), "{told:#}");
    daemon.create("a-random-number");
    daemon.sh("a-random-number", "head -c 8 /dev/urandom | od -An -tu8 | tr -d ' '");
    let (code, told) = exec(&daemon, &["a-random-number"]);
    assert_eq!((code, &told["first_difference"]["what"]), (Some(1), &json!("stdout")), "{told:#}");
}

#[test]
fn files_written_through_the_api_are_written_again() {
    let daemon = Daemon::start();
    daemon.create("files-through-api");
    let put = |name: &str, text: &str| {
        let path = format!("/v1/sessions/files-through-api/files/content?path={name}&mode=0640");
        let mut request = Request::new("PUT", &path);
        request.body = text.into();
        let answer = daemon.send(&request);
        assert!(answer.status < 300, "{}", answer.text());
    };
    put("early", "before the first command\n");
    daemon.sh("files-through-api", "cat early");
    put("notes", "first\n");
    put("gone", "soon\n");
    daemon.sh("files-through-api", "cat notes; echo second >> notes");
    let removed = daemon.send(&Request::new("DELETE", "/v1/sessions/files-through-api/files/content?path=gone"));
    assert!(removed.status < 300, "{}", removed.text());
    daemon.sh("files-through-api", "cat notes; ls");
    let (code, told) = exec(&daemon, &["files-through-api"]);
    assert_eq!((code, &told["identical"], &told["compared"]), (Some(0), &json!(true), &json!(7)), "{told:#}");
    assert_eq!((&told["left_out"], &told["not_compared"]), (&json!({}), &json!([])), "{told:#}");
    // An export does not have the content, so what differs without it proves nothing.
    let export = daemon.directory().join("files.jsonl");
    let export = export.to_str().unwrap();
    assert!(program(&daemon, &["export", "files-through-api", "-o", export]).status.success());
    let (code, told) = exec(&daemon, &[export]);
    assert_eq!((code, &told["first_difference"]), (Some(0), &Value::Null), "{told:#}");
    assert!(told["not_compared"].to_string().contains("written through the API"), "{told:#}");
}

#[test]
fn state_timeouts_and_restarts_are_done_again() {
    let daemon = Daemon::start();
    daemon.create("stateful-session");
    let workspace = daemon.cwd("stateful-session").display().to_string();
    daemon.sh("stateful-session", "mkdir -p deep/er; cd deep/er; f() { echo in $PWD; }; shopt -s nullglob");
    daemon.sh("stateful-session", &format!("f; ls *.none; echo {workspace}/deep"));
    let with = json!({"command": "read word; echo $word $LIKE in $PWD", "stdin": "some\n", "env": {"LIKE": "this"}, "cwd": workspace});
    let run = daemon.run("stateful-session", with);
    assert_eq!(run.json["stdout"], format!("some this in {workspace}\n"));
    let slow = daemon.run("stateful-session", json!({"command": "echo before; exec sleep 100", "timeout": 0.3}));
    assert_eq!(slow.json["status"], "timed_out");
    assert_eq!(daemon.post("/v1/sessions/stateful-session/restart", &json!({})).status, 200);
    daemon.sh("stateful-session", "type f; pwd");
    let (code, told) = exec(&daemon, &["--keep", "stateful-session"]);
    assert_eq!((code, &told["identical"]), (Some(0), &json!(true)), "{told:#}");
    assert!(told["not_compared"].to_string().contains("because it timed out"), "{told:#}");
    let kept = told["session"].as_str().unwrap();
    assert_eq!(daemon.get(&format!("/v1/sessions/{kept}")).status, 200, "--keep keeps it");
    assert_eq!(daemon.cwd(kept).display().to_string().len(), workspace.len(), "its path is as long");
}

#[test]
fn what_was_typed_is_typed_again() {
    let daemon = Daemon::start();
    daemon.create("typed-into");
    let typed = |body: Value, inputs: &[Value]| {
        let run = daemon.run("typed-into", body);
        let path = format!("/v1/sessions/typed-into/runs/{}", run.run_id());
        for input in inputs {
            assert_eq!(daemon.post(&format!("{path}/input"), input).status, 200);
        }
        let ended = daemon.get(&format!("{path}?wait=60")).json();
        assert_eq!(ended["status"], "exited", "{ended}");
        ended["stdout"].as_str().unwrap().to_owned()
    };
    let sum = json!({"command": "read a b; echo $((a + b)) | tee sum; cat > rest", "blocking": false});
    assert_eq!(typed(sum, &[json!({"text": "2 3\nmore\n"}), json!({"text": "end", "eof": true})]), "5\n");
    let terminal =
        json!({"command": "read -p 'name: ' name; echo hello $name > greeting", "blocking": false, "tty": true});
    typed(terminal, &[json!({"text": "ann\r"})]);
    daemon.sh("typed-into", "cat sum rest greeting");
    let (code, told) = exec(&daemon, &["typed-into"]);
    assert_eq!((code, &told["identical"], &told["compared"]), (Some(0), &json!(true), &json!(3)), "{told:#}");
    assert_eq!(told["not_compared"], json!(["step 2: output, because its terminal was typed into"]), "{told:#}");
    // A password is not recorded, so the command that read it cannot be repeated.
    let secret = json!({"command": "read -sp 'password: ' word; echo ${#word}", "blocking": false, "tty": true});
    let run = daemon.run("typed-into", secret);
    let path = format!("/v1/sessions/typed-into/runs/{}", run.run_id());
    let prompt = daemon.get(&format!("{path}/screen?wait=match:password&timeout=60"));
    assert_eq!(prompt.json()["timed_out"], false, "{}", prompt.text());
    assert_eq!(daemon.post(&format!("{path}/input"), &json!({"text": "hunter2\r"})).status, 200);
    assert_eq!(daemon.get(&format!("{path}?wait=60")).json()["exit_code"], 0);
    let (code, told) = exec(&daemon, &["typed-into"]);
    assert_eq!((code, &told["compared"], &told["steps"]), (Some(0), &json!(3), &json!(4)), "{told:#}");
    assert!(told["not_compared"].to_string().contains("step 4: it was not run, because what was typed"), "{told:#}");
}

#[test]
fn who_stops_it_finds_nothing_left() {
    let daemon = Daemon::start();
    daemon.create("waits-for-a-file");
    fs::create_dir_all(daemon.cwd("waits-for-a-file")).unwrap();
    fs::write(daemon.cwd("waits-for-a-file").join("marker"), "").unwrap();
    daemon.sh("waits-for-a-file", "[ -e marker ] || sleep 1000");
    // In the workspace of the replay there is no such file, so it waits there.
    let empty = daemon.directory().join("empty");
    fs::create_dir(&empty).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command
        .args(["replay", "--exec", "waits-for-a-file", "--from"])
        .arg(&empty)
        .args(["--no-start", "--socket"])
        .arg(daemon.directory().join("s.sock"));
    command.arg("--data").arg(daemon.data()).env_clear().envs(bash::environment()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    shellkeep_poll::until("the command runs again", || {
        let id = sessions(&daemon).into_iter().find(|id| id.starts_with("replay-"))?;
        daemon.shell_pid(&id)
    });
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(sessions(&daemon), ["waits-for-a-file"]);
}

/// The new session was one of the host's, with the host's sandbox: what an agent's commands had tried in vain behind their
/// fence, they did when the host replayed them.
#[test]
fn commands_are_confined_as_they_were() {
    let daemon = Daemon::start();
    // It cannot be forked at its beginning: it works outside of its workspace.
    let elsewhere = daemon.directory().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    daemon.create_with(json!({"session_id": "confined", "sandbox": "fence", "cwd": elsewhere}));
    let tried = daemon.sh("confined", &format!("cat {}", daemon.data().join("record.key").display()));
    assert_eq!(tried.exit_code(), Some(1), "{:?}", tried.json);
    let (code, told) = exec(&daemon, &["confined"]);
    assert_eq!((code, &told["identical"]), (Some(0), &json!(true)), "{told:#}");
}

/// The commands of an export ran as the host's: what somebody had put into the file was done with the host's rights.
#[test]
fn commands_of_a_file_are_behind_a_fence() {
    let daemon = Daemon::start();
    daemon.create("not-confined");
    let made = daemon.directory().join("made");
    assert_eq!(daemon.sh("not-confined", &format!("touch {}", made.display())).exit_code(), Some(0));
    let file = daemon.directory().join("not-confined.jsonl").display().to_string();
    assert!(program(&daemon, &["export", "not-confined", "-o", &file]).status.success());
    fs::remove_file(&made).unwrap();
    let (code, told) = exec(&daemon, &[&file]);
    assert_eq!((code, &told["first_difference"]["what"]), (Some(1), &json!("exit_code")), "{told:#}");
    assert!(!made.exists());
}
