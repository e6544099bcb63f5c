//! The rules of the house over this workspace. A failure names the file and what to do about it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

use shellkeep_tidy::edges::{self, Manifest};
use shellkeep_tidy::source;
use shellkeep_tidy::tree::{self, TextFile};

/// The one place of the tests that sleeps. It has a deadline.
const POLL: &str = "crates/poll/";

/// Tests that may poll, and what they wait for that sends them no event.
const MAY_POLL: &[(&str, &str)] = &[
    ("crates/process/tests/driver/interruption.rs", "a shell that waits"),
    ("crates/process/tests/driver/zygote.rs", "the clock"),
    ("crates/process/tests/service/", "processes that are not children of the test"),
    ("crates/runtime/tests/admission.rs", "figures of the node"),
    ("crates/runtime/tests/housekeeping/", "services that end, and their logs"),
    ("crates/servers/src/process.rs", "a server that starts"),
    ("crates/shared/tests/", "a server that starts, leases that end, and the thread of the ship"),
    ("crates/store/src/contract/", "the thread behind the journal"),
    ("crates/workspace/tests/checkpointer/copied.rs", "the file system's clock"),
    ("crates/workspace/tests/restore/crash.rs", "nothing: it varies the moment of a kill"),
    ("crates/shellkeep/tests/attacks.rs", "a process that was killed and is not gone yet"),
    ("crates/shellkeep/tests/cases/hold.rs", "a command that waits in a queue"),
    ("crates/shellkeep/tests/cases/remnants.rs", "processes of commands"),
    ("crates/shellkeep/tests/cases/streams.rs", "connections that the daemon closes"),
    ("crates/shellkeep/tests/checkpoints/busy.rs", "a command that waits in a queue"),
    (
        "crates/shellkeep/tests/checkpoints/crash.rs",
        "a file that a command writes before it is cut off, and the file system's clock",
    ),
    ("crates/shellkeep/tests/crash.rs", "nothing: it varies the moment of a kill"),
    ("crates/shellkeep/tests/door/", "processes of other users, and a daemon that is about to stop"),
    ("crates/shellkeep/tests/doors.rs", "figures of the node"),
    ("crates/shellkeep/tests/hangs.rs", "a job that the answer does not wait for"),
    ("crates/shellkeep/tests/interrupted.rs", "a command that has begun"),
    ("crates/shellkeep/tests/mcp/", "processes of commands, and a client's name that becomes free"),
    ("crates/shellkeep/tests/place/", "a backup that another process writes, other nodes, Redis"),
    ("crates/shellkeep/tests/powercut.rs", "the mount that is released"),
    ("crates/shellkeep/tests/records/", "recordings, which are written behind the answer"),
    ("crates/shellkeep/tests/replay/", "processes of a command that runs again"),
    ("crates/shellkeep/tests/resume/", "agents, which are not children of the test"),
    ("crates/shellkeep/tests/scarce.rs", "descriptors that are free again"),
    ("crates/shellkeep/tests/services/", "services, which are not children of the test"),
    ("crates/shellkeep/tests/support/", "services, and processes that a killed daemon leaves"),
    ("crates/shellkeep/tests/survival.rs", "a process that ends with its daemon"),
    ("crates/shellkeep/tests/tenant.rs", "processes of a command, and a measurement of the disk"),
    ("crates/shellkeep/tests/top/", "figures that the daemon writes behind the answer"),
];

/// Directories in which people and machines keep their work; no file of ours may point into one. Written in two parts,
/// so that this line does not accuse itself.
const MACHINE_DIRECTORIES: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/Us", "ers/"), concat!("C:", "\\")];

fn files() -> Vec<TextFile> {
    tree::text_files(&tree::root()).expect("the workspace can be read")
}

fn rust_files() -> Vec<TextFile> {
    files().into_iter().filter(|file| file.path.ends_with(".rs")).collect()
}

fn manifests() -> Vec<Manifest> {
    let found = files().into_iter().filter_map(|file| {
        let folder = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?.to_owned();
        (!folder.contains('/')).then(|| edges::parse(&folder, &file.text).expect("a manifest is TOML"))
    });
    found.collect()
}

fn nothing(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} to tidy:\n{}", wrong.len(), wrong.join("\n"));
}

/// `path:line` for each line that `rule` finds in the files that `which` lets through.
fn complaints(which: impl Fn(&str) -> bool, rule: impl Fn(&str) -> Vec<usize>, what: &str) -> Vec<String> {
    let one = |file: TextFile| {
        let lines = rule(&file.text);
        lines.into_iter().map(move |line| format!("{}:{line}: {what}", file.path)).collect::<Vec<_>>()
    };
    rust_files().into_iter().filter(|file| which(&file.path)).flat_map(one).collect()
}

/// Modules that are compiled for tests only.
fn test_modules() -> Vec<String> {
    rust_files().iter().flat_map(|file| source::test_modules(&file.path, &file.text)).collect()
}

fn is_in_module(modules: &[String], path: &str) -> bool {
    let is_of =
        |module: &String| path.strip_prefix(module.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'));
    modules.iter().any(is_of)
}

#[test]
fn the_workspace_is_where_we_think() {
    assert!(manifests().len() >= 9, "found only {} crates", manifests().len());
    assert!(rust_files().len() > 20);
}

#[test]
fn crates_name_only_whom_they_may() {
    let wrong: Vec<String> = manifests().iter().flat_map(edges::check).collect();
    nothing(&wrong);
}

#[test]
fn crates_obey_the_lints_of_the_workspace() {
    let lax = |manifest: &&Manifest| !manifest.workspace_lints && (manifest.folder != "process" || !manifest.own_lints);
    let wrong: Vec<String> = manifests()
        .iter()
        .filter(lax)
        .map(|manifest| {
            format!("{}: `[lints] workspace = true` is missing; only process has lints of its own", manifest.folder)
        })
        .collect();
    nothing(&wrong);
}

#[test]
fn every_file_says_what_is_in_it() {
    let undocumented = |file: &TextFile| source::missing_docs(&file.text);
    let wrong: Vec<String> = rust_files()
        .iter()
        .filter(|file| undocumented(file))
        .map(|file| format!("{}: begin with `//!` and a sentence", file.path))
        .collect();
    nothing(&wrong);
}

#[test]
fn no_file_is_too_long() {
    let ours = |file: &TextFile| file.path.ends_with(".rs") || file.path.ends_with(".c") || file.path.ends_with(".h");
    let wrong: Vec<String> =
        files().iter().filter(|file| ours(file)).filter_map(|file| source::too_long(&file.path, &file.text)).collect();
    nothing(&wrong);
}

#[test]
fn what_holds_resources_cannot_be_serialised() {
    let live = |path: &str| path.starts_with("crates/process/") || path.starts_with("crates/runtime/");
    nothing(&complaints(
        live,
        source::serialising_lines,
        "a live thing is not data; put the facts into crates/session",
    ));
}

#[test]
fn tests_wait_for_events() {
    let modules = test_modules();
    let ours = |path: &str| !path.starts_with("crates/tidy/");
    let tests = |path: &str| ours(path) && (source::is_in_tests(path) || is_in_module(&modules, path));
    let what = "wait for an event; where there is none, use shellkeep_poll";
    nothing(&complaints(tests, source::sleeping_lines, what));
    nothing(&complaints(ours, source::sleeping_test_lines, what));
    let unlisted = |path: &str| {
        let is_listed = MAY_POLL.iter().any(|(allowed, _)| path.starts_with(allowed));
        !is_listed && !path.starts_with(POLL) && !path.starts_with("crates/tidy/")
    };
    nothing(&complaints(unlisted, source::polling_lines, "wait for an event, or name the reason in MAY_POLL"));
}

#[test]
fn everybody_who_may_poll_does() {
    let polls = |file: &TextFile| !source::polling_lines(&file.text).is_empty();
    let polling: Vec<String> = rust_files().into_iter().filter(polls).map(|file| file.path).collect();
    let idle = MAY_POLL.iter().filter(|(allowed, _)| !polling.iter().any(|path| path.starts_with(allowed)));
    nothing(&idle.map(|(allowed, _)| format!("{allowed}: does not poll; remove it from MAY_POLL")).collect::<Vec<_>>());
}

#[test]
fn no_path_of_a_machine_is_in_the_tree() {
    let one = |file: &TextFile| {
        let lines = source::machine_paths(&file.text, MACHINE_DIRECTORIES);
        lines.into_iter().map(|line| format!("{}:{line}: a path of somebody's machine", file.path)).collect::<Vec<_>>()
    };
    let wrong: Vec<String> = files().iter().flat_map(one).collect();
    nothing(&wrong);
}

#[test]
fn every_dependency_has_its_reason() {
    let all = files();
    let text =
        |path: &str| all.iter().find(|file| file.path == path).map(|file| file.text.as_str()).unwrap_or_default();
    let mut names = edges::workspace_dependencies(text("Cargo.toml")).expect("the workspace's manifest is TOML");
    for manifest in manifests() {
        names.extend(manifest.dependencies.iter().chain(&manifest.other_dependencies).cloned());
    }
    let reasons = text("docs/DEPENDENCIES.md");
    let unexplained = |name: &&String| !name.starts_with("shellkeep-") && !reasons.contains(&format!("`{name}`"));
    let wrong: Vec<String> = names
        .iter()
        .filter(unexplained)
        .map(|name| format!("{name}: say in docs/DEPENDENCIES.md why we need it"))
        .collect();
    nothing(&wrong);
}
