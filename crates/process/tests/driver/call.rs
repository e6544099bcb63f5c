//! What holds for one call only: its variables, its directory and its output.

use super::*;

/// Runs `command` with one more variable.
async fn run_with(shell: &mut LiveShell, variable: (&str, &str), command: &str) -> Outcome {
    let env = [(variable.0.as_bytes().to_vec(), variable.1.as_bytes().to_vec())];
    run_spec(shell, RunSpec { command: command.as_bytes(), cwd: None, env: &env, until: None }).await
}

fn text(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.stdout).into_owned()
}

/// The bug: the value of an integer was evaluated, which ran what it said; where that failed, bash jumped into the frame of
/// the command before, which had returned. An array kept the value from the command's environment, and a nameref passed it
/// on to a variable that nobody put back.
#[tokio::test]
async fn a_variable_of_a_call_is_a_text_and_then_what_it_was() {
    let fixture = Fixture::new();
    let ran = fixture.scratch.path().join("ran");
    let evil = format!("x[$(touch '{}'; echo 0)]", ran.display());
    for declared in [
        "declare -i V=5",
        "declare -ix V=5",
        "declare -i V",
        "declare -a V=(a [3]=b)",
        "declare -A V=([k]=v)",
        "declare -n V=nowhere",
        "nowhere=there; declare -n V=nowhere",
        "declare -n V",
        "declare -u V=ABC",
        "declare -l V=abc",
        "declare -c V=Abc",
        "declare -t V=abc",
        "declare -x V=abc",
        "V=abc",
        ":",
    ] {
        let mut shell = fixture.shell(&[]).await;
        let dump = "declare -p V nowhere 2>&1";
        run(&mut shell, &format!("kept=1; {declared}")).await;
        let before = text(&run(&mut shell, dump).await);
        for value in ["a b", "Tmp", evil.as_str(), ""] {
            let told = run_with(&mut shell, ("V", value), "printf '%s\n' \"$V\"; printenv V; echo $kept").await;
            assert_eq!(text(&told), format!("{value}\n{value}\n1\n"), "{declared}");
            assert_eq!(String::from_utf8_lossy(&told.stderr), "", "{declared}");
            assert_eq!(told.report().exit, None, "{declared}");
            assert_eq!(text(&run(&mut shell, dump).await), before, "{declared}");
        }
    }
    assert!(!ran.exists(), "a value was run");
}

#[tokio::test]
async fn a_readonly_variable_stays_what_it_is_in_a_call() {
    let fixture = Fixture::new();
    for declared in ["declare -r V=5", "declare -ir V=5", "declare -ar V=(5)"] {
        let mut shell = fixture.shell(&[]).await;
        run(&mut shell, declared).await;
        let before = text(&run(&mut shell, "declare -p V").await);
        assert_eq!(text(&run_with(&mut shell, ("V", "a b"), "echo $V").await), "5\n", "{declared}");
        assert_eq!(text(&run(&mut shell, "declare -p V").await), before);
    }
}

/// The bug: what bash computes was a plain variable after a call that had set it.
#[tokio::test]
async fn what_bash_computes_is_still_computed_after_a_call() {
    let fixture = Fixture::new();
    let mut shell = fixture.shell(&[]).await;
    let dump = "declare -p RANDOM SECONDS EPOCHSECONDS | sed 's/=.*//'";
    let before = text(&run(&mut shell, dump).await);
    for (name, value) in [("RANDOM", "a b"), ("RANDOM", "7"), ("SECONDS", "100"), ("EPOCHSECONDS", "1")] {
        let told = run_with(&mut shell, (name, value), "echo $((SECONDS / 100))").await;
        assert_eq!(text(&told), if name == "SECONDS" { "1\n" } else { "0\n" }.to_owned(), "{name}");
        assert_eq!(text(&run(&mut shell, dump).await), before, "{name}");
        run(&mut shell, "SECONDS=0").await;
    }
    let random = "a=$RANDOM$RANDOM$RANDOM; [ $a != $RANDOM$RANDOM$RANDOM ] && echo random";
    assert_eq!(text(&run(&mut shell, random).await), "random\n");
}

/// The bug: a variable set for a call that also brings a directory kept the value of the call.
#[tokio::test]
async fn the_directory_of_a_call_is_a_text_too() {
    let fixture = Fixture::new();
    for declared in ["declare -i PWD OLDPWD", "declare -n PWD=a OLDPWD=b", "unset PWD; declare -a PWD=(a b)", ":"] {
        let mut shell = fixture.shell(&[]).await;
        run(&mut shell, declared).await;
        let dump = "declare -p PWD OLDPWD a b 2>&1; pwd";
        let before = text(&run(&mut shell, dump).await);
        for _ in 0..2 {
            let told = run_in(&mut shell, Some("/usr"), "echo $PWD; pwd").await;
            assert_eq!(text(&told), "/usr\n/usr\n", "{declared}");
            assert_eq!(told.report().exit, None, "{declared}");
            assert_eq!(text(&run(&mut shell, dump).await), before, "{declared}");
        }
        let env = [(b"PWD".to_vec(), b"/nowhere".to_vec())];
        run_spec(&mut shell, RunSpec { command: b":", cwd: Some(b"/usr"), env: &env, until: None }).await;
        assert_eq!(text(&run(&mut shell, dump).await), before, "{declared}");
    }
}

/// The bug: the pipes of a command could not be installed, nobody looked, and its output was lost.
#[tokio::test]
async fn a_session_with_few_open_files_still_has_its_output() {
    let fixture = Fixture::new();
    for few in ["3", "0", "8"] {
        let mut shell = fixture.shell(&[]).await;
        run(&mut shell, &format!("ulimit -S -n {few}; (:)")).await;
        for round in 0..3 {
            let told = run(&mut shell, &format!("ulimit -S -n; echo {round}; type nosuch; (:)")).await;
            assert_eq!(text(&told), format!("{few}\n{round}\n"));
            assert!(told.stderr.ends_with(b"nosuch: not found\n"), "{:?}", String::from_utf8_lossy(&told.stderr));
            told.report();
        }
    }
}

/// Where there is no more to allow, the command is refused, and the shell gives way to one that has room.
#[tokio::test]
async fn a_command_that_cannot_have_its_output_is_not_run() {
    let fixture = Fixture::new();
    let mut shell = fixture.shell(&[]).await;
    let ran = fixture.scratch.path().join("ran");
    run(&mut shell, "ulimit -n 3; (:)").await;
    let refused = run(&mut shell, &format!("echo > '{}'", ran.display())).await.end;
    assert!(matches!(&refused, Progress::Refused(why) if why.contains("ulimit -n")), "{refused:?}");
    assert!(!ran.exists());
    assert_eq!(shell.ended().await, ExitStatus::Exited(97));
}
