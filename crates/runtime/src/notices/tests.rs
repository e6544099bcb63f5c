//! What the sentences name.

use super::*;

fn five() -> Unkept {
    Unkept { descriptors: vec!["5 (/etc/passwd)".to_owned()], variables: Vec::new() }
}

#[test]
fn a_shell_that_died_idle_names_only_what_it_had() {
    let told = |processes: &[String], unkept: &Unkept| died_idle(ExitStatus::Signalled(9), processes, unkept).message;
    let nothing = told(&[], &Unkept::default());
    assert!(nothing.contains("signal 9") && nothing.ends_with("were restored."), "{nothing}");
    let descriptors = told(&[], &five());
    assert!(descriptors.contains("5 (/etc/passwd)") && !descriptors.contains("jobs"), "{descriptors}");
    let jobs = told(&["7 `sleep 9`".to_owned()], &Unkept::default());
    assert!(jobs.ends_with("no longer jobs of the shell: 7 `sleep 9`."), "{jobs}");
}

#[test]
fn a_shell_that_was_replaced_is_not_said_to_be_killed() {
    for (exit, expected) in [
        (ExitStatus::Exited(0), "was replaced by `exec`, so"),
        (ExitStatus::Signalled(INTERRUPT), "was replaced by `exec`, so"),
        (ExitStatus::Signalled(15), "was killed by signal 15, or was replaced by `exec` with a program that was, so"),
        (ExitStatus::Signalled(9), "was killed by signal 9, so"),
    ] {
        let told = changes_lost(exit, &Unkept::default()).message;
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn a_command_that_ends_its_shell_names_what_was_open() {
    let told = |unkept: &Unkept| changes_lost(ExitStatus::Signalled(9), unkept).message;
    assert!(told(&Unkept::default()).ends_with("from before this command."));
    assert!(told(&five()).ends_with(" With the last shell, open descriptors were closed: 5 (/etc/passwd)."));
    assert_eq!(lost_with_shell(&Unkept::default()), None);
}
