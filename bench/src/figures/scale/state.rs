//! What a session of this figure knows: a directory, thirty exported variables of its own beside the daemon's, three
//! functions, an alias, and two runs with their results. No two sessions are alike.

use crate::http;
use serde_json::json;
use shellkeep_runtime::CreateSession;
use shellkeep_session::SessionId;
use std::collections::BTreeMap;

/// Exported variables that a session is made with.
const VARIABLES: usize = 30;
/// Sessions that belong to the same agent.
const SESSIONS_OF_AN_AGENT: u64 = 20;
/// Where every session starts.
const START: &str = "/usr";
/// The first command of each session.
const FURNISH: &str = "cd share
build() { local target=\"$1\"; shift; for part in \"$@\"; do [[ -e $part ]] || return 1; printf '%s: %s\\n' \"$target\" \"$part\"; done; }
check() { if [[ -z $PROJECT_01 ]]; then echo 'no project' >&2; return 2; fi; build check \"$@\" | grep -c ':'; }
deploy() { case $1 in staging|production) export DEPLOY_TO=$1 ;; *) return 64 ;; esac; check; }
alias ll='ls -la --color=auto'
export DEPLOY_TO=staging LAST_BUILD=$SECONDS";
/// The second one: it has something to say.
const WORK: &str = "build all . ..; echo \"built $PROJECT_01\" >&2";

/// A number that looks like chance and is the same in every run.
pub fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The name of a session. It has the form that the daemon itself would give it, so names come in no order.
pub fn id(number: u64) -> String {
    let (high, low) = (mix(2 * number), mix(2 * number + 1));
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        low >> 52,
        low & 0xffff_ffff_ffff
    )
}

fn environment(number: u64) -> BTreeMap<String, String> {
    let value = |n: usize| format!("/srv/projects/{number}/component-{n:02}/lib:/usr/local/share/thing-{n}");
    (1..=VARIABLES).map(|n| (format!("PROJECT_{n:02}"), value(n))).collect()
}

fn agent(number: u64) -> String {
    format!("agent-{}", number / SESSIONS_OF_AN_AGENT)
}

/// Makes a session through the library.
pub fn creation(number: u64) -> Result<CreateSession, shellkeep_session::id::IdError> {
    Ok(CreateSession {
        session_id: Some(SessionId::parse(&id(number))?),
        agent: Some(agent(number)),
        cwd: Some(START.into()),
        env: environment(number),
        config: json!({"model": "some-model", "temperature": 0.5, "tools": ["shell", "files"]}),
        ..CreateSession::default()
    })
}

/// Makes a session over HTTP.
pub fn creation_request(number: u64) -> Vec<u8> {
    let body = json!({
        "session_id": id(number),
        "agent": agent(number),
        "cwd": START,
        "env": environment(number),
        "config": {"model": "some-model", "temperature": 0.5, "tools": ["shell", "files"]},
    });
    http::post("/v1/sessions", &body.to_string())
}

/// The commands that give a session everything that it was not made with.
pub fn furnishing(number: u64) -> [Vec<u8>; 2] {
    let id = id(number);
    [http::run_request(&id, FURNISH), http::run_request(&id, WORK)]
}

/// A command that fails in a session which has lost its state.
pub fn proof(number: u64) -> Vec<u8> {
    let test = format!("[[ $PWD == /usr/share && $PROJECT_30 == */{number}/* && $DEPLOY_TO == staging ]] && check .");
    http::run_request(&id(number), &test)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_and_all_different() {
        let names: std::collections::BTreeSet<String> = (0..1000).map(id).collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| name.len() == 36 && SessionId::parse(name).is_ok()));
    }
}
