//! The errors that routes share, for `/openapi.json`.

use shellkeep_protocol::problem::MEDIA_TYPE;
use std::collections::BTreeMap;
use utoipa::IntoResponses;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response as Answer, ResponseBuilder, ResponsesBuilder};

/// Types that stand for refusals in `responses(…)`: each status, with the codes of its problems.
macro_rules! refusals {
    ($($(#[$doc:meta])+ $name:ident { $($status:literal: $what:literal,)+ })+) => {$(
        $(#[$doc])+
        pub struct $name;

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Answer>> {
                described(&[$(($status, $what)),+])
            }
        }
    )+};
}

refusals! {
    /// Errors of every route.
    Common {
        "400": "`invalid_request`, `bad_cwd`, `bad_workspace`: the detail says what is valid",
        "401": "`unauthorized`: the token is missing (TCP only), wrong or revoked",
        "403":
            "`not_allowed`: host only; `forbidden_peer`: a process of a session is not the host (socket only); \
             `forbidden_origin`, `forbidden_host`: the request of another web page (TCP only)",
        "404":
            "`session_not_found` (another agent's too), `run_not_found`, `service_not_found`, `token_not_found`, \
             `agent_state_not_found`, `not_found`",
        "405": "`method_not_allowed`",
        "408": "`body_timeout`: the body did not arrive, or too slowly",
        "413": "`payload_too_large`",
        "429":
            "`too_many_connections`, `too_many_followers`, `too_many_clients`, `too_many_searches`, \
             `too_much_in_flight`: your limit is reached, with the `limit`; `quota_exceeded` with `quota`, \
             `limit`, `used` and your `services`, the most idle first, and `services_elsewhere` if some are on \
             other nodes; `queue_full`",
        "500": "`session_damaged`: this session is set aside; `internal_error`: a bug",
        "503":
            "`overloaded`: more work than the node can take, see `Retry-After`; `shell_unavailable`, \
             `service_not_started`, `store_unavailable`, `shutting_down`; the codes of 429 when the limit of all \
             agents together is reached",
        "507": "`store_unavailable`: the disk of the data directory is full",
    }

    /// Errors of a run on a busy session.
    Busy {
        "409":
            "`session_busy` (with `if_busy: \"reject\"`, or if the wait timed out), `session_held` with `holder`, `reason` and `until`: a person \
             holds it (with `if_busy: \"reject\"`, or if the wait timed out); `hold_over`: your hold has ended; \
             `run_cancelled`: it waited and was cancelled; `request_id_reused`; `bad_cwd`: the session's own directory \
             is gone, the detail says what to do; `workspace_not_taken`: this daemon's data is a copy, and the \
             directory belongs to the original; `sandbox_unavailable`: this machine does not support the session's \
             sandbox; `secret_unavailable` with the `secret`: one that the session is given cannot be read",
    }

    /// Errors of a message for an agent.
    Agent {
        "409":
            "`no_agent`: the session's config names none; `agent_busy` (with `if_busy: \"reject\"`, or if the wait \
             timed out); `request_id_reused`",
    }

    /// Errors when a limit is reached.
    Full {
        "429":
            "`quota_exceeded` with `quota`, `limit`, `used` and your `services`, the most idle first, and \
             `services_elsewhere` if some are on other nodes; `queue_full`",
    }

    /// Errors of what only a running command accepts.
    RunEnded {
        "409":
            "`run_ended`, `no_input`; `no_terminal`: `keys` for a run that was started without `tty`; `session_held` \
             with `holder`, `reason` and `until`: someone else holds the session; `hold_over`: your hold has ended",
    }

    /// Errors of a hold.
    Held {
        "409":
            "`session_held` with `holder`, `reason` and `until`: someone else holds it; `hold_over`: the hold that was \
             to be extended has ended",
    }

    /// Errors of what only a running command with a terminal has.
    NoTerminal {
        "409":
            "`run_ended`; `no_terminal`: the run was started without `tty`; `session_held` with `holder`, `reason` \
             and `until`: someone else holds the session; `hold_over`: your hold has ended",
        "410": "`screens_lost`: the daemon ended before the run did; `output_reclaimed`",
    }

    /// Errors of operations on files.
    Files {
        "404":
            "`session_not_found`; `checkpoint_not_found`: it does not exist, or was pruned; `no_such_moment`: \
             there is no such record, or its state is unknown; `file_not_found`",
        "409":
            "`session_busy`: a command runs; `files_of_others` with `of_others: [{path, reason}]`: a rewind would also \
             undo changes of other sessions; `session_exists`; `files_not_apart`: the session works outside its \
             workspace; `no_origin`: it is not a fork, or its origin is gone; `origin_elsewhere`: its origin is on \
             another node; `merge_conflict` with `conflicts: [{path, reason}]`; `workspace_not_taken`: this daemon's \
             data is a copy, and the directory belongs to the original",
        "500":
            "`files_failed`: the detail describes the current state of the files; `session_damaged`, \
             `internal_error`",
        "507": "`files_failed`: the disk is full; the detail describes the current state of the files",
    }

    /// Errors of operations on one file.
    SingleFile {
        "403": "`path_outside`: the path, or a symbolic link on it, leads out of the workspace; `not_allowed`",
        "404": "`session_not_found`; `file_not_found`",
        "409":
            "`is_directory`; `not_a_file`: a pipe, a socket or a device; `directory_not_empty`; \
             `not_a_directory`: something on the path of a file to write; `link_loop`: too many symbolic links; \
             `file_unsteady`: it keeps being replaced; \
             `workspace_not_taken`: this daemon's data is a copy, and the directory belongs to the original",
        "412": "`precondition_failed` with the `sha256` of the existing file, or `null`",
        "413": "`too_large` with `size` and `limit`: read it in parts; `payload_too_large`",
        "500":
            "`files_failed`: the detail describes the current state of the files; `session_damaged`, \
             `internal_error`",
        "507": "`files_failed`: the disk is full",
    }

    /// Errors of the keyed store.
    KvRefused {
        "404": "`session_not_found`; `key_not_found`; `value_not_found`: the session has no value with that `sha256`",
        "412": "`version_conflict` with the `key` and its `version`, 0 if it does not exist; nothing was changed",
        "500":
            "`value_damaged`: the value does not match its hash, and is not returned; `session_damaged`, \
             `internal_error`",
    }

    /// Errors of a sandbox.
    Sandboxed {
        "409":
            "`sandbox_unavailable` with the `sandbox`: this machine does not support it; `cwd_not_in_room` with the \
             `cwd`: a new session would be in a room that does not have it; `sandbox_not_looser`; `sandbox_busy`: \
             something runs that would stay outside; `session_busy`: a command runs; `session_exists`: a session of \
             that name is being created, or was created for another `user_id`",
    }

    /// Errors of a new service.
    ServiceName {
        "409":
            "`service_name_taken` with the `service_id` that has the name and runs; `bad_cwd`: the session's own \
             directory is gone; `workspace_not_taken`: this daemon's data is a copy, and the directory the original's; \
             `sandbox_unavailable`; `secret_unavailable`",
    }

    /// Errors of a search.
    Searched {
        "422":
            "`search_too_expensive`: the search took too long; continue at `next_offset` or `after`, or use a simpler \
             pattern; `too_many_secrets` with `bytes` and `limit`: the session's secrets are more than can be masked",
    }

    /// Errors of what is masked with `redact=true`.
    Masked {
        "422":
            "`too_many_secrets` (with `redact=true`) with `bytes` and `limit`: the session's secrets are more than can be \
             masked",
    }

    /// Errors of an output.
    Reclaimed {
        "410": "`output_reclaimed`: the output was deleted to make room for newer ones of the session",
    }

    /// Errors of what has no others: only the caller may be wrong.
    NoToken {
        "401": "`unauthorized`: the token is missing (TCP only), wrong or revoked",
    }

    /// Errors of a stream of events.
    Followed {
        "409":
            "`only_in_history`: this node does not have the session, so it cannot be followed (with `Accept: \
             text/event-stream`); read it in pages",
    }

    /// Errors of events.
    EventTypes {
        "400": "`invalid_event_type`: the detail lists the valid ones; `invalid_request`",
    }

    /// Errors of a configuration.
    Configured {
        "409": "`invalid_configuration`: the detail says what is wrong and where; nothing was changed",
    }

    /// Errors of a stop.
    StopRefused {
        "409":
            "`records_unwritten` with the number of `records` that are only in memory and would be lost; \
             `invalid_configuration` (with `restart`): the detail says what is wrong and where; the daemon was not \
             stopped",
    }

    /// Errors of a state that another client has saved since.
    Conflict {
        "412": "`version_conflict` with the stored `version`",
    }

    /// Errors of a code for the console.
    ConsoleLogin {
        "401": "`invalid_code`: it is wrong, was used, or is older than a minute",
    }
}

fn described(list: &[(&str, &str)]) -> BTreeMap<String, RefOr<Answer>> {
    let problem = || ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let add = |builder: ResponsesBuilder, (status, description): &(&str, &str)| {
        builder.response(*status, ResponseBuilder::new().description(*description).content(MEDIA_TYPE, problem()))
    };
    list.iter().fold(ResponsesBuilder::new(), add).build().into()
}
