//! The sentences that a caller reads when a session moved, or when only one node has what it did.

use super::files::Brought;
use super::keys::Keys;
use shellkeep_session::{Event, Notice, NoticeCode, RunId, ServiceId, SessionId};
use shellkeep_shared::ForkNote;
use shellkeep_workspace::checkpointer::Adopted;

/// The shared store does not answer.
pub(super) fn kept_here_only(reason: &str) -> Notice {
    let message = format!(
        "The shared store is unreachable ({reason}). This result is stored on this node only until the shared store is \
         back; if the node is lost before that, so is the result."
    );
    Notice { code: NoticeCode::KeptHereOnly, message }
}

/// A large state of an agent is not where other nodes read it.
pub(crate) fn not_copied() -> Notice {
    let message = "The state is stored on this node, and was not copied for other nodes in time. It will be; if the node is lost \
                   before that, so is the state.";
    Notice { code: NoticeCode::KeptHereOnly, message: message.to_owned() }
}

/// A change of the keyed store is not where other nodes read it.
pub(crate) fn keys_not_copied(reason: &str) -> Notice {
    let message = format!(
        "The change of the keyed store is stored on this node, and was not copied for other nodes ({reason}). It will be; \
         if the node is lost before that, so is the change."
    );
    Notice { code: NoticeCode::KeptHereOnly, message }
}

/// The same, for the host.
pub(super) fn away(reason: &str, is_unserved: bool) -> String {
    let serves = match is_unserved {
        true => "does not serve its sessions, because other nodes may take them, and will serve again",
        false => "keeps serving its own sessions and will sync",
    };
    format!("The shared store is unreachable ({reason}). This node {serves} when the store is back.")
}

/// The working directory of a session that came from another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cwd {
    There,
    /// It was made again, with nothing in it.
    MadeEmpty,
    Missing,
}

/// How a session came to this node.
pub(super) struct Arrival<'a> {
    /// The node that had it.
    pub(super) from: &'a str,
    /// This node.
    pub(super) here: &'a str,
    pub(super) files: &'a Brought,
    pub(super) keys: &'a Keys,
    /// The runs after the checkpoint that its files are of.
    pub(super) since: &'a [RunId],
    pub(super) cwd: Cwd,
}

/// The session came from another node, or back to a node that lost its data directory.
pub(super) fn arrived(Arrival { from, here, files, keys, since, cwd }: Arrival<'_>) -> Notice {
    let is_back = from == here;
    let (how, did) = match is_back {
        true => (
            format!("Node {here} lost its data directory; this session was restored from what the nodes share."),
            "were restored",
        ),
        false => (format!("This session moved from node {from} to node {here}."), "moved with it"),
    };
    let mut message = format!(
        "{how} Its variables, functions, aliases, options, traps and the path of its working directory {did}. {}",
        files_sentence(files, since)
    );
    message.push_str(match cwd {
        Cwd::There => "",
        Cwd::MadeEmpty => " The working directory was not copied and was made again, empty.",
        Cwd::Missing => " The working directory does not exist on this node.",
    });
    let outputs =
        if matches!(files, Brought::NotConfigured { .. }) { "outputs and agent states above 64 KiB, " } else { "" };
    let keys = match keys {
        Keys::Unused | Keys::All => "",
        Keys::Part => "the last changes of the keyed store, ",
        Keys::Missing => "values of the keyed store, ",
    };
    let left = match is_back {
        true => format!("These are lost: {outputs}{keys}logs of services, background jobs and open descriptors."),
        false => format!(
            "Files outside the workspace, {outputs}{keys}logs of services, background jobs and open descriptors stayed on \
             node {from}."
        ),
    };
    message.push_str(&format!(" {left} Check the files that you need before you go on."));
    Notice { code: NoticeCode::SessionMoved, message }
}

/// What another node wrote to a session that went on without it, as the session records it.
pub(crate) fn forked(note: &ForkNote) -> Event {
    let ForkNote { session_id, at, node, .. } = note;
    let message = format!(
        "Node {node} acknowledged {}, but they are not part of this session: the shared store lost them, or the node was cut \
         off. They are kept as session {session_id}, with its files and variables. Read its events to see what is missing \
         here, and run it again if you need it.",
        records(note)
    );
    let notices = vec![Notice { code: NoticeCode::HistoryDiverged, message }];
    Event::Forked { session_id: session_id.clone(), at: *at, diverged_on: Some(node.clone()), notices }
}

/// The same, for the session that keeps it.
pub(super) fn forked_here(origin: &SessionId, note: &ForkNote) -> Notice {
    let message = format!(
        "This session keeps what node {} acknowledged as session {origin} ({}) and other nodes do not have: {origin} continued \
         without it. Use {origin} to continue; this session has the files, variables and results as they were on node {}.",
        note.node,
        records(note),
        note.node
    );
    Notice { code: NoticeCode::HistoryDiverged, message }
}

fn records(note: &ForkNote) -> String {
    let (first, last) = (note.at + 1, note.through);
    if first == last { format!("record {last}") } else { format!("records {first} to {last}") }
}

/// A service that ended with the node that its session comes from.
pub(super) struct EndedService<'a> {
    pub(super) id: &'a ServiceId,
    pub(super) name: &'a str,
    pub(super) node: &'a str,
    /// Whether its policy starts it again here.
    pub(super) is_restarted: bool,
    /// Whether the node is this one, which lost its data directory.
    pub(super) is_lost: bool,
}

/// A service of a session that came to this node.
pub(super) fn service(ended: &EndedService<'_>) -> Notice {
    let EndedService { id, name, node, is_restarted, is_lost } = *ended;
    let next = match is_restarted {
        true => "It starts again here by its restart policy",
        false => "Its restart policy does not start it again here",
    };
    let message = match is_lost {
        true => {
            format!("Service {id} ({name}) ended when node {node} lost its data directory. {next}; its log is lost.")
        }
        false => {
            format!("Service {id} ({name}) was on node {node}, which is gone. {next}; its log up to then stayed there.")
        }
    };
    Notice { code: NoticeCode::ServiceEnded, message }
}

/// What is in a workspace to which no files came.
fn older(has_older: bool) -> &'static str {
    match has_older {
        true => {
            " The workspace has the files from when this session was last on this node, which may be older than what it \
             wrote since."
        }
        false => "",
    }
}

/// Which files were copied, and which were not.
fn files_sentence(files: &Brought, since: &[RunId]) -> String {
    match files {
        Brought::NotConfigured { has_older } => {
            format!(
                "The files of its workspace were not copied: the nodes share no storage for checkpoints (--blobs).{}",
                older(*has_older)
            )
        }
        Brought::NoCheckpoint { has_older } => {
            let older = older(*has_older);
            format!("No checkpoint of its workspace was shared, so none of its files were copied.{older}")
        }
        Brought::Failed { reason } => {
            format!(
                "The files of its workspace could not be copied to this node: {reason}. Their checkpoints are kept."
            )
        }
        Brought::Files { at, restored } => {
            let mut text = match restored {
                Some(_) => format!("The files of its workspace are those of checkpoint {}.", at.name),
                None => format!(
                    "Its workspace is a directory of the host, with the files that are there on this node; its checkpoints up to \
                     {} were copied, and a rewind restores their files.",
                    at.name
                ),
            };
            if let [.., last] = since {
                let first = &since[0];
                let runs = if first == last { format!("Run {last}") } else { format!("Runs {first} to {last}") };
                text.push_str(&format!(" {runs} came after it; file changes since then, if any, are missing."));
            }
            if let Some(Adopted { set_aside: Some(tag), .. }) = restored {
                text.push_str(&format!(" What was in the workspace on this node before is kept under the tag {tag}."));
            }
            if let Some(kept) = restored.as_ref().map(|restored| restored.kept_back).filter(|kept| *kept > 0) {
                text.push_str(&format!(" {kept} paths could not be restored."));
            }
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_a_service_is_lost_with_the_data_directory() {
        let id = ServiceId::from_seq(3);
        let ended = EndedService { id: &id, name: "web", node: "n1", is_restarted: true, is_lost: false };
        let told = |is_lost: bool| service(&EndedService { is_lost, ..ended }).message;
        assert!(told(false).ends_with("its log up to then stayed there."), "{}", told(false));
        assert!(told(true).ends_with("its log is lost."), "{}", told(true));
    }
}
