//! A workspace with the user's own repositories in it: they are never touched.

use crate::fixture::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const SET_UP: &str = r#"
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_GLOBAL=/dev/null
git init -q lib && (cd lib && echo l > l && git add . && git commit -qm l)
git init -q project && cd project
git -c protocol.file.allow=always submodule --quiet add ../lib sub
echo one > a; echo '*.log' > .gitignore; git add . ; git commit -qm one
git worktree add -q ../tree -b other
printf '#!/bin/sh\necho hook > hook-ran\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit
echo staged > b; git add b; echo unstaged >> a; echo noise > x.log
"#;

/// Everything of git's own below a directory.
fn git_files(directory: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut files = tree(directory);
    files.retain(|path, _| path.components().any(|part| part.as_os_str() == ".git"));
    files
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").args(arguments).current_dir(directory).env("GIT_OPTIONAL_LOCKS", "0").output();
    let output = output.unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn the_users_git_is_byte_for_byte_what_it_was() {
    let node = Node::start().await;
    let id = node.session("git").await;
    node.sh(&id, SET_UP).await;
    let (home, project) = (node.workspace(&id), node.workspace(&id).join("project"));
    let first = node.seq(&id).await;
    let before = (git_files(&home), git(&project, &["status", "--porcelain=v2"]));
    assert!(before.0.len() > 50 && before.1.contains("a"), "{}", before.1);

    // A process of git holds the repository open meanwhile.
    let mut git_process = Command::new("git");
    let running = git_process.args(["cat-file", "--batch"]).current_dir(&project);
    let mut running = running.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null()).spawn().unwrap();
    node.sh(&id, "echo changed > a; rm b; echo more > sub/more; echo t > ../tree/t; echo kept > y.log").await;
    let second = node.seq(&id).await;
    assert_eq!(git_files(&home), before.0);
    node.rewind(&id, first).await;
    assert_eq!(git_files(&home), before.0);
    assert_eq!(git(&project, &["status", "--porcelain=v2"]), before.1);
    assert!(project.join("y.log").exists(), "what is ignored is left alone");
    git(&project, &["fsck", "--strict"]);
    node.rewind(&id, second).await;
    assert_eq!(std::fs::read(project.join("sub/more")).unwrap(), b"more\n");
    assert_eq!(git_files(&home), before.0);
    running.kill().unwrap();
    running.wait().unwrap();

    let fork = node.fork(&id, "copy", Some(first)).await.meta.session_id;
    let copy = node.workspace(&fork).join("project");
    assert_eq!(git(&copy, &["status", "--porcelain=v2"]), before.1);
    git(&copy, &["fsck"]);
    assert!(!copy.join("hook-ran").exists());

    // And what we keep is a repository too, without any of theirs in it.
    let own = node.directory.path().join("checkpoints/git/repo.git");
    git(&own, &["fsck", "--strict"]);
    let names = git(&own, &["ls-tree", "-r", "--name-only", "HEAD"]);
    assert!(names.contains("project/sub/l") && !names.contains(".git/"), "{names}");
    let logs = git(&own, &["log", "--oneline", "--all", "--tags"]);
    assert!(logs.lines().count() >= 2, "{logs}");
}

#[tokio::test]
async fn a_directory_that_the_host_names_is_kept_before_the_first_command() {
    let node = Node::start().await;
    let project = tempfile::tempdir().unwrap();
    std::fs::write(project.path().join("precious"), "mine").unwrap();
    let id = node.session_in("host", Some(project.path())).await;
    assert_eq!(node.sh(&id, "cat precious; rm precious; echo other > other").await, "mine");
    node.rewind(&id, 1).await;
    assert_eq!(tree(project.path()).len(), 1);
    assert_eq!(std::fs::read(project.path().join("precious")).unwrap(), b"mine");
    node.engine.destroy(&id).await.unwrap();
    assert!(project.path().join("precious").exists());
    assert!(!node.directory.path().join("checkpoints/host").exists());
}
