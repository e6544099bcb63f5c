//! What a host can start the daemon with if this machine does not support the sandbox that was asked for: the tightest that
//! it does support, so that nobody is sent past one to none at all.

/// What this machine supports, as far as it was tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Supported {
    /// Whether there is a fence.
    pub(crate) fence: bool,
    /// Whether there are rooms now: not where agents have users.
    pub(crate) room: bool,
    /// Whether agents have users of their own now. There is a fence without them, whatever is wrong with them.
    pub(crate) has_users: bool,
    /// Whether they could have.
    pub(crate) could_have_users: bool,
}

/// The settings that a host names a sandbox with.
pub(crate) const FOR_ALL: &str = "--sandbox";
pub(crate) const FOR_AGENTS: &str = "--sandbox-agents";

impl Supported {
    /// What to start with instead, where the sandbox that `flag` asks for cannot be had.
    pub(crate) fn instead(self, flag: &str) -> String {
        let tightest = "is the tightest sandbox that this machine supports otherwise";
        match self {
            Self { room: true, .. } => format!("`{flag} room` {tightest}"),
            Self { fence: true, has_users: true, .. } => format!("`{FOR_AGENTS} fence` {tightest}"),
            Self { fence: true, .. } => format!("`{flag} fence` {tightest}"),
            Self { could_have_users: true, .. } => {
                let for_all = if flag == FOR_ALL { "--sandbox user " } else { "" };
                format!("`{for_all}{FOR_AGENTS} user` runs each agent as a user of its own")
            }
            _ => format!("`{flag} none` runs sessions without a sandbox"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who had no rooms, or no Landlock, was told to run agents without a sandbox; and who could have no users, that a fence
    /// is the tightest, although there were rooms.
    #[test]
    fn the_tightest_that_there_is_is_named() {
        for (fence, room, has_users, could_have_users, flag, expected) in [
            (true, true, false, true, FOR_AGENTS, "`--sandbox-agents room` is"),
            (true, true, false, false, FOR_ALL, "`--sandbox room` is"),
            (true, false, false, true, FOR_AGENTS, "`--sandbox-agents fence` is"),
            (true, false, false, false, FOR_ALL, "`--sandbox fence` is"),
            (true, false, true, false, FOR_ALL, "`--sandbox-agents fence` is"),
            (false, false, false, true, FOR_AGENTS, "`--sandbox-agents user` runs"),
            (false, false, false, true, FOR_ALL, "`--sandbox user --sandbox-agents user` runs"),
            (false, false, false, false, FOR_AGENTS, "`--sandbox-agents none` runs"),
            (false, false, true, false, FOR_ALL, "`--sandbox none` runs"),
        ] {
            let told = Supported { fence, room, has_users, could_have_users }.instead(flag);
            assert!(told.starts_with(expected), "{told}");
        }
    }
}
