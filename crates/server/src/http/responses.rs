//! The errors that routes share, for `/openapi.json`.

use shellkeep_protocol::problem::MEDIA_TYPE;
use std::collections::BTreeMap;
use utoipa::IntoResponses;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response as Answer, ResponseBuilder, ResponsesBuilder};

/// Errors of every route.
pub struct Common;
/// Errors of a run on a busy session.
pub struct Busy;
/// Errors of a message for an agent.
pub struct Agent;
/// Errors when a limit is reached.
pub struct Full;
/// Errors of what only a running command accepts.
pub struct RunEnded;
/// Errors of a hold.
pub struct Held;
/// Errors of what only a running command with a terminal has.
pub struct NoTerminal;
/// Errors of operations on files.
pub struct Files;
/// Errors of operations on one file.
pub struct SingleFile;
/// Errors of the keyed store.
pub struct KvRefused;
/// Errors of a sandbox.
pub struct Sandboxed;
/// Errors of a new service.
pub struct ServiceName;
/// Errors of a search.
pub struct Searched;
/// Errors of a stream of events.
pub struct Followed;
/// Errors of events.
pub struct EventTypes;
/// Errors of a configuration.
pub struct Configured;
/// Errors of a stop.
pub struct StopRefused;
/// Errors of a state that another client has saved since.
pub struct Conflict;
/// Errors of a code for the console.
pub struct ConsoleLogin;

impl IntoResponses for Common {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[
            ("400", "`invalid_request`, `bad_cwd`, `bad_workspace`: the detail says what is valid"),
            ("401", "`unauthorized`: the token is missing (TCP only), wrong or revoked"),
            (
                "403",
                "`not_allowed`: host only; `forbidden_peer`: a process of a session is not the host (socket only); \
                 `forbidden_origin`, `forbidden_host`: the request of another web page (TCP only)",
            ),
            (
                "404",
                "`session_not_found` (another agent's too), `run_not_found`, `service_not_found`, `token_not_found`, \
                 `agent_state_not_found`, `not_found`",
            ),
            ("405", "`method_not_allowed`"),
            ("408", "`body_timeout`: the body did not arrive, or too slowly"),
            ("413", "`payload_too_large`"),
            (
                "429",
                "`too_many_connections`, `too_many_followers`, `too_many_clients`, `too_many_searches`, \
                 `too_much_in_flight`: your limit is reached, with the `limit`; `quota_exceeded` with `quota`, \
                 `limit`, `used` and your `services`, the most idle first, and `services_elsewhere` if some are on \
                 other nodes; `queue_full`",
            ),
            ("500", "`session_damaged`: this session is set aside; `internal_error`: a bug"),
            (
                "503",
                "`overloaded`: more work than the node can take, see `Retry-After`; `shell_unavailable`, \
                 `service_not_started`, `store_unavailable`, `shutting_down`; the codes of 429 when the limit of all \
                 agents together is reached",
            ),
            ("507", "`store_unavailable`: the disk of the data directory is full"),
        ])
    }
}

impl IntoResponses for Busy {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[(
            "409",
            "`session_busy` (with `if_busy: \"reject\"`), `session_held` with `holder`, `reason` and `until`: a person holds it (with `if_busy: \"reject\"`, or if the wait timed out); `hold_over`: your hold has ended; `run_cancelled`: it waited and was cancelled; `request_id_reused`; `bad_cwd`: the session's own directory is \
             gone, the detail says what to do; `workspace_not_taken`: this daemon's data is a copy, and the directory belongs to the original; \
             `sandbox_unavailable`: this machine does not support the session's sandbox; `secret_unavailable` with the \
             `secret`: one that the session is given cannot be read",
        )])
    }
}

impl IntoResponses for Agent {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[(
            "409",
            "`no_agent`: the session's config names none; `agent_busy` (with `if_busy: \"reject\"`, or if the wait \
                timed out); `request_id_reused`",
        )])
    }
}

impl IntoResponses for Full {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[(
            "429",
            "`quota_exceeded` with `quota`, `limit`, `used` and your `services`, the most idle first, and `services_elsewhere` if some are on \
                 other nodes; `queue_full`",
        )])
    }
}

impl IntoResponses for Sandboxed {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[(
            "409",
            "`sandbox_unavailable` with the `sandbox`: this machine does not support it; `cwd_not_in_room` with the `cwd`: a \
             new session would be in a room that does not have it; `sandbox_not_looser`; \
             `sandbox_busy`: something runs that would stay outside; `session_busy`: a command runs; `session_exists`: a \
             session of that name is being created, or was created for another `user_id`",
        )])
    }
}

impl IntoResponses for ServiceName {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[(
            "409",
            "`service_name_taken` with the `service_id` that has the name and runs; `bad_cwd`: the session's own directory is \
             gone; `workspace_not_taken`: this daemon's data is a copy, and the directory the original's; `sandbox_unavailable`; \
             `secret_unavailable`",
        )])
    }
}

impl IntoResponses for RunEnded {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[(
            "409",
            "`run_ended`, `no_input`; `no_terminal`: `keys` for a run that was started without `tty`; `session_held` with \
             `holder`, `reason` and `until`: someone else holds the session; `hold_over`: your hold has ended",
        )])
    }
}

impl IntoResponses for Held {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[(
            "409",
            "`session_held` with `holder`, `reason` and `until`: someone else holds it; `hold_over`: the hold that was to \
             be extended has ended",
        )])
    }
}

impl IntoResponses for NoTerminal {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[
            (
                "409",
                "`run_ended`; `no_terminal`: the run was started without `tty`; `session_held` with `holder`, `reason` \
                 and `until`: someone else holds the session; `hold_over`: your hold has ended",
            ),
            ("410", "`screens_lost`: the daemon ended before the run did; `output_reclaimed`"),
        ])
    }
}

impl IntoResponses for Files {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[
            (
                "404",
                "`session_not_found`; `checkpoint_not_found`: it does not exist, or was pruned; `no_such_moment`: \
                    there is no such record, or its state is unknown; `file_not_found`",
            ),
            (
                "409",
                "`session_busy`: a command runs; `files_of_others` with `of_others: [{path, reason}]`: a rewind would also undo changes of other sessions; `session_exists`; `files_not_apart`: the session works outside its workspace; `no_origin`: it is not a fork, or its origin is gone; `origin_elsewhere`: its origin is on another node; `merge_conflict` with \
                 `conflicts: [{path, reason}]`; `workspace_not_taken`: this daemon's data is a copy, and the directory \
                 belongs to the original",
            ),
            (
                "500",
                "`files_failed`: the detail describes the current state of the files; `session_damaged`, \
                `internal_error`",
            ),
            ("507", "`files_failed`: the disk is full; the detail describes the current state of the files"),
        ])
    }
}

impl IntoResponses for SingleFile {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[
            ("403", "`path_outside`: the path, or a symbolic link on it, leads out of the workspace; `not_allowed`"),
            ("404", "`session_not_found`; `file_not_found`"),
            (
                "409",
                "`is_directory`; `not_a_file`: a pipe, a socket or a device; `directory_not_empty`; \
                 `not_a_directory`: something on the path of a file to write; `link_loop`: too many symbolic links; \
                 `file_unsteady`: it keeps being replaced; \
                 `workspace_not_taken`: this daemon's data is a copy, and the directory belongs to the original",
            ),
            ("412", "`precondition_failed` with the `sha256` of the existing file, or `null`"),
            ("413", "`too_large` with `size` and `limit`: read it in parts; `payload_too_large`"),
            (
                "500",
                "`files_failed`: the detail describes the current state of the files; `session_damaged`, \
                `internal_error`",
            ),
            ("507", "`files_failed`: the disk is full"),
        ])
    }
}

impl IntoResponses for KvRefused {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[
            (
                "404",
                "`session_not_found`; `key_not_found`; `value_not_found`: the session has no value with that `sha256`",
            ),
            ("412", "`version_conflict` with the `key` and its `version`, 0 if it does not exist; nothing was changed"),
            (
                "500",
                "`value_damaged`: the value does not match its hash, and is not returned; `session_damaged`, \
                `internal_error`",
            ),
        ])
    }
}

impl IntoResponses for Searched {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[(
            "422",
            "`search_too_expensive`: the search took too long; continue at `next_offset` or `after`, or use a simpler \
                pattern; `too_many_secrets` with `bytes` and `limit`: the session's secrets are more than can be masked",
        )])
    }
}

impl IntoResponses for Followed {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[(
            "409",
            "`only_in_history`: this node does not have the session, so it cannot be followed (with `Accept: \
             text/event-stream`); read it in pages",
        )])
    }
}

impl IntoResponses for EventTypes {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[("400", "`invalid_event_type`: the detail lists the valid ones; `invalid_request`")])
    }
}

impl IntoResponses for Configured {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[("409", "`invalid_configuration`: the detail says what is wrong and where; nothing was changed")])
    }
}

impl IntoResponses for StopRefused {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[(
            "409",
            "`records_unwritten` with the number of `records` that are only in memory and would be lost; \
             `invalid_configuration` (with `restart`): the detail says what is wrong and where; the daemon was not stopped",
        )])
    }
}

impl IntoResponses for Conflict {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[("412", "`version_conflict` with the stored `version`")])
    }
}

impl IntoResponses for ConsoleLogin {
    fn responses() -> BTreeMap<String, RefOr<Answer>> {
        refusals(&[("401", "`invalid_code`: it is wrong, was used, or is older than a minute")])
    }
}

fn refusals(list: &[(&str, &str)]) -> BTreeMap<String, RefOr<Answer>> {
    let problem = || ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let add = |builder: ResponsesBuilder, (status, description): &(&str, &str)| {
        builder.response(*status, ResponseBuilder::new().description(*description).content(MEDIA_TYPE, problem()))
    };
    list.iter().fold(ResponsesBuilder::new(), add).build().into()
}
