//! What to do next after an error. Each door words it: HTTP as a route, MCP as a tool, the command line as a command.

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// Use a session that exists, or create this one.
    ListSessions,
    /// Use a token that exists.
    ListTokens,
    /// Use a run that exists.
    ListRuns,
    /// Check the rest of the recording.
    Verify,
    /// Start the command so that it accepts input later.
    KeepInputOpen,
    /// Start the command with a terminal.
    UseTerminal,
    /// Wait for the running command, or interrupt it.
    WaitForRun,
    /// Wait for the running command, or interrupt it, or let the next one wait longer for its turn.
    WaitLonger,
    /// Wait for the running command, or interrupt it, and try again.
    TryAfterRun,
    /// Wait until a person releases the session.
    WaitForRelease,
    /// Take a hold again.
    HoldAgain,
    /// Let a copied data directory use the original's directories, or stay out of them.
    TakeWorkspaces,
    /// Use a service that exists.
    ListServices,
    /// Stop a service to make room.
    StopService,
    /// Stop a service, or raise the limit of the node.
    MakeRoom,
    /// Raise the limit of the node.
    RaiseQuota,
    /// Read the agent's state and save again with its version.
    ReadAgentState,
    /// Save a state of the agent first.
    SaveAgentState,
    /// Use an older version of the agent's state.
    ReadOlderAgentState,
    /// Use a checkpoint that exists.
    ListCheckpoints,
    /// Use a moment that there was.
    ListMoments,
    /// Give a fork files of its own, or say that it shares them.
    SeparateFiles,
    /// Look at what a rewind would take from other sessions, and say that it may.
    ForceRewind,
    /// Resolve the conflicts of a merge, or choose a side.
    ResolveConflicts,
    /// Name the agent's program in the session's config.
    ConfigureAgent,
    /// Wait until the agent has finished its message.
    WaitForAgent,
    /// Use a file that exists.
    ListFiles,
    /// Use a key that exists.
    ListKeys,
    /// Say that a directory may be removed with everything in it.
    RemoveTree,
    /// Read a large file in parts.
    ReadInParts,
    /// Say whose sessions a token is for.
    NameAgent,
    /// Ask for a token that belongs to no agent.
    NameNoAgent,
    /// Use a node that is alive.
    ListNodes,
    /// Restore the session's directory, or use another one.
    RestoreDirectory,
    /// Remove what is in the way of a session's room, or fork the session.
    ClearTmp,
    /// Read what a run that has ended printed.
    ReadOutput,
    /// Read events in pages instead of following them.
    ReadPages,
}

impl Hint {
    const NAMES: [(Self, &'static str); 37] = [
        (Self::ListSessions, "list_sessions"),
        (Self::ListTokens, "list_tokens"),
        (Self::ListRuns, "list_runs"),
        (Self::Verify, "verify"),
        (Self::KeepInputOpen, "keep_input_open"),
        (Self::UseTerminal, "use_terminal"),
        (Self::WaitForRun, "wait_for_run"),
        (Self::WaitLonger, "wait_longer"),
        (Self::TryAfterRun, "try_after_run"),
        (Self::WaitForRelease, "wait_for_release"),
        (Self::HoldAgain, "hold_again"),
        (Self::TakeWorkspaces, "take_workspaces"),
        (Self::ListServices, "list_services"),
        (Self::StopService, "stop_service"),
        (Self::MakeRoom, "make_room"),
        (Self::RaiseQuota, "raise_quota"),
        (Self::ReadAgentState, "read_agent_state"),
        (Self::SaveAgentState, "save_agent_state"),
        (Self::ReadOlderAgentState, "read_older_agent_state"),
        (Self::ListCheckpoints, "list_checkpoints"),
        (Self::ListMoments, "list_moments"),
        (Self::SeparateFiles, "separate_files"),
        (Self::ForceRewind, "force_rewind"),
        (Self::ResolveConflicts, "resolve_conflicts"),
        (Self::ConfigureAgent, "configure_agent"),
        (Self::WaitForAgent, "wait_for_agent"),
        (Self::ListFiles, "list_files"),
        (Self::ListKeys, "list_keys"),
        (Self::RemoveTree, "remove_tree"),
        (Self::ReadInParts, "read_in_parts"),
        (Self::NameAgent, "name_agent"),
        (Self::NameNoAgent, "name_no_agent"),
        (Self::ListNodes, "list_nodes"),
        (Self::RestoreDirectory, "restore_directory"),
        (Self::ClearTmp, "clear_tmp"),
        (Self::ReadOutput, "read_output"),
        (Self::ReadPages, "read_pages"),
    ];

    /// Its stable name, for a door in another process.
    pub fn as_str(self) -> &'static str {
        Self::NAMES.iter().find(|(hint, _)| *hint == self).map_or("", |(_, name)| name)
    }

    /// The hint with this name; `None` for one of a newer daemon.
    pub fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(hint, _)| *hint)
    }
}
