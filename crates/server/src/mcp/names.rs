//! Names for sessions of clients that did not name one: readable, stable, and one for each open window.

use crate::sync::lock;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// Characters of a client's or project's own name in a session's name: enough to recognise, and short enough that the
/// whole with `thread_{agent}_` and the number of the window stays an id.
const SLUG_LENGTH: usize = 20;

/// Names in use by open connections. Cheap to clone; all clones share the list.
#[derive(Clone, Default)]
pub struct Names(Arc<Mutex<HashSet<String>>>);

/// A name that no other client gets while this is held.
#[derive(Debug)]
pub struct TakenName {
    name: String,
    taken: Arc<Mutex<HashSet<String>>>,
}

impl Names {
    /// Takes `name` and no other; `None` if somebody uses it.
    pub fn take_only(&self, name: &str) -> Option<TakenName> {
        let is_free = lock(&self.0).insert(name.to_owned());
        is_free.then(|| TakenName { name: name.to_owned(), taken: Arc::clone(&self.0) })
    }

    /// Takes `name`, or `name-2`, `name-3`, … if others use it. Always terminates: there is always a free number.
    pub fn take(&self, name: &str) -> TakenName {
        let mut taken = lock(&self.0);
        let numbered = (2u64..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.to_owned()).chain(numbered).find(|name| !taken.contains(name));
        let name = free.unwrap_or_else(|| name.to_owned());
        taken.insert(name.clone());
        TakenName { name, taken: Arc::clone(&self.0) }
    }
}

impl TakenName {
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for TakenName {
    fn drop(&mut self) {
        lock(&self.taken).remove(&self.name);
    }
}

/// The name of a client's session in a project: `{client}-{directory}-{hash of both}`.
pub fn of_project(client: &str, directory: &str) -> String {
    let project = directory.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let hash = hash(&[client, directory]);
    match slug(project) {
        project if project.is_empty() => format!("{}-{hash}", client_slug(client)),
        project => format!("{}-{project}-{hash}", client_slug(client)),
    }
}

/// The name of a client's session over HTTP: `mcp-{client}-{hash of the MCP session}`, or `mcp-{client}` where the
/// protocol has no sessions.
pub fn of_http(client: &str, mcp_session: Option<&str>) -> String {
    match mcp_session {
        // Hashed, because the id of an MCP session is a secret, but our session's name is not.
        Some(id) => format!("mcp-{}-{}", client_slug(client), hash(&[id])),
        None => format!("mcp-{}", client_slug(client)),
    }
}

/// The full name for an agent: `thread_{agent}_{name}`. The host's is unchanged.
pub fn bound(agent: Option<&str>, name: &str) -> String {
    match agent {
        Some(agent) => format!("thread_{agent}_{name}"),
        None => name.to_owned(),
    }
}

fn client_slug(client: &str) -> String {
    match slug(client) {
        slug if slug.is_empty() => "client".to_owned(),
        slug => slug,
    }
}

/// Lower case letters and digits with single dashes in between.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() == SLUG_LENGTH {
            break;
        }
    }
    slug.trim_end_matches('-').to_owned()
}

/// FNV-1a: short, and the same in every toolchain version, which std does not guarantee for its hashes.
fn hash(parts: &[&str]) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    let hash = bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_session::SessionId;

    #[test]
    fn a_name_is_readable_and_stays_the_same() {
        // Pinned: a newer daemon must find the session of an older one.
        assert_eq!(
            of_project("Claude Code", "/home/ann/My Project/"),
            of_project("Claude Code", "/home/ann/My Project/")
        );
        assert!(of_project("Claude Code", "/home/ann/My Project").starts_with("claude-code-my-project-"));
        assert_eq!(of_project("x", "/a"), "x-a-cbfcb513");
        assert_ne!(of_project("x", "/a/p"), of_project("x", "/b/p"));
        assert!(of_project("", "/").starts_with("client-"));
        assert_eq!(of_http("Goose!", None), "mcp-goose");
    }

    #[test]
    fn every_name_is_an_id() {
        let long = "ü/".repeat(4000) + &"x".repeat(400);
        for text in ["", "../..", "a b", "é", "\0", &long] {
            for name in [of_project(text, text), of_http(text, Some(text)), of_http(text, None)] {
                let long_agent = "a".repeat(64);
                for id in [bound(None, &name), bound(Some(&long_agent), &format!("{name}-999"))] {
                    assert!(SessionId::parse(&id).is_ok(), "{id}");
                }
            }
        }
    }

    #[test]
    fn each_window_has_its_own_name_until_it_closes() {
        let names = Names::default();
        let (first, second) = (names.take("p"), names.take("p"));
        assert_eq!((first.name(), second.name()), ("p", "p-2"));
        assert_eq!(names.take("p").name(), "p-3");
        drop(first);
        assert_eq!(names.take("p").name(), "p");
        let back = names.take_only("p-2").map(|taken| taken.name().to_owned());
        assert_eq!(back, None, "the second window is open");
        drop(second);
        assert!(names.take_only("p-2").is_some());
    }
}
